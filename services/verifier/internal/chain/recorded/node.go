package recorded

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
)

// Node answers JSON-RPC calls from recordings of one chain. It is safe for
// concurrent use.
type Node struct {
	chainID      uint64
	highest      Block
	byNumber     map[uint64]Block
	byHash       map[string]Block
	transactions map[string]json.RawMessage
	receipts     map[string]json.RawMessage

	mu                sync.Mutex
	latest, finalized uint64
}

// NewNode returns a node that serves the recording's blocks. Latest and finalized begin
// as the highest of them.
func NewNode(r Recording) *Node {
	n := &Node{
		chainID:      r.ChainID,
		byNumber:     map[uint64]Block{},
		byHash:       map[string]Block{},
		transactions: map[string]json.RawMessage{},
		receipts:     map[string]json.RawMessage{},
	}
	for _, block := range r.Blocks {
		number := block.Number()
		n.byNumber[number], n.byHash[block.Hash()] = block, block
		if n.highest.Block == nil || number > n.latest {
			n.highest, n.latest = block, number
		}
		for _, t := range block.Transactions() {
			n.transactions[Member(t, "hash")] = t
		}
		for _, receipt := range block.Receipts {
			n.receipts[Member(receipt, "transactionHash")] = receipt
		}
	}
	n.finalized = n.latest
	return n
}

// SetHeads sets how far the chain is. The numbers may lie beyond what is
// recorded.
func (n *Node) SetHeads(latest, finalized uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.latest, n.finalized = latest, finalized
}

// ChooseHeads sets the heads as SetHeads does. A latest of zero means the highest
// recorded block, and a finalized of zero the latest. A finalized block beyond the
// latest is an error.
func (n *Node) ChooseHeads(latest, finalized uint64) error {
	latest = cmp.Or(latest, n.highest.Number())
	finalized = cmp.Or(finalized, latest)
	if finalized > latest {
		return fmt.Errorf("finalized block %d is beyond the latest, %d", finalized, latest)
	}
	n.SetHeads(latest, finalized)
	return nil
}

func (n *Node) heads() (latest, finalized uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.latest, n.finalized
}

// Call answers one call. What the node does not know is JSON null, but a method that it lacks is an Error.
func (n *Node) Call(method string, params []json.RawMessage) (any, *Error) {
	switch method {
	case "eth_chainId":
		return quantity(n.chainID), nil
	case "eth_blockNumber":
		latest, _ := n.heads()
		return quantity(latest), nil
	case "eth_getTransactionByHash":
		return n.transactions[first(params)], nil
	case "eth_getTransactionReceipt":
		return n.receipts[first(params)], nil
	case "eth_getBlockByNumber", "eth_getBlockByHash":
		return n.block(first(params), full(params)), nil
	case "eth_getBlockReceipts":
		if block, ok := n.find(first(params)); ok && block.Receipts != nil {
			return block.Receipts, nil
		}
		return nil, nil
	default:
		return nil, &Error{-32601, fmt.Sprintf("the method %s does not exist/is not available", method)}
	}
}

func (n *Node) block(which string, full bool) any {
	block, ok := n.find(which)
	if !ok {
		return nil
	}
	out := maps.Clone(block.Block)
	if !full {
		hashes := []string{}
		for _, t := range block.Transactions() {
			hashes = append(hashes, Member(t, "hash"))
		}
		out["transactions"], _ = json.Marshal(hashes) // strings
	}
	return out
}

// find looks a block up by tag, number or hash. A head that is not recorded is made up
// from the highest recorded block.
func (n *Node) find(which string) (Block, bool) {
	latest, finalized := n.heads()
	number := latest
	switch which {
	case "latest", "pending":
	case "finalized", "safe":
		number = finalized
	default:
		if len(which) == 66 {
			block, ok := n.byHash[which]
			return block, ok
		}
		var err error
		if number, err = strconv.ParseUint(which, 0, 64); err != nil {
			return Block{}, false
		}
		block, ok := n.byNumber[number]
		return block, ok && number <= latest
	}
	if block, ok := n.byNumber[number]; ok {
		return block, true
	}
	return n.madeUp(number), true
}

func (n *Node) madeUp(number uint64) Block {
	const secondsPerBlock = 2
	timestamp, _ := strconv.ParseUint(n.highest.text("timestamp"), 0, 64)
	timestamp += secondsPerBlock * (number - n.highest.Number()) // wraps round below it, which subtracts
	header := maps.Clone(n.highest.Block)
	header["number"], _ = json.Marshal(quantity(number))
	header["timestamp"], _ = json.Marshal(quantity(timestamp))
	header["hash"], _ = json.Marshal(fmt.Sprintf("0x%064x", number))
	header["transactions"] = json.RawMessage("[]")
	return Block{Block: header}
}

func quantity(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }

// Member returns a member of a JSON object that is a text, "" when there is none.
func Member(object json.RawMessage, name string) (text string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) == nil {
		_ = json.Unmarshal(members[name], &text) // absent stays empty
	}
	return text
}

// first returns the first parameter in lower case: a text, or the hash or number in an
// object that names a block (EIP-1898).
func first(params []json.RawMessage) (text string) {
	if len(params) > 0 && json.Unmarshal(params[0], &text) != nil {
		text = cmp.Or(Member(params[0], "blockHash"), Member(params[0], "blockNumber"))
	}
	return strings.ToLower(text)
}

// full reports whether whole transactions are requested.
func full(params []json.RawMessage) (wanted bool) {
	return len(params) > 1 && json.Unmarshal(params[1], &wanted) == nil && wanted
}
