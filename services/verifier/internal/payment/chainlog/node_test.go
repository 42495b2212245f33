package chainlog_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	used     = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
	canceled = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81"
	transfer = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"

	token  = "0x036cbd53842c5426634e7929541ec2318f3dcf7e"
	payer  = "0x000000000000000000000000000000000000b0b5"
	seller = "0x00000000000000000000000000000000000050a5"
	other  = "0x0000000000000000000000000000000000000bad"
)

var genesis = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// blockTime is that of the test's chain.
const blockTime = 2 * time.Second

type event struct {
	Address         string   `json:"address"`
	Topics          []string `json:"topics"`
	Data            string   `json:"data"`
	TransactionHash string   `json:"transactionHash"`
	LogIndex        string   `json:"logIndex"`
	Removed         bool     `json:"removed"`
	block           int
}

// node is a JSON-RPC node of a small chain: as little of one as is needed.
type node struct {
	*testing.T
	mu            sync.Mutex
	chain         int
	latest, final int
	events        []event
	states        map[string]bool
	calls         []string
	exchanges     int
	// balance and code are the payer's.
	balance                 int64
	code                    string
	widest                  int
	fault                   func(method string) (answer string, fails bool)
	url                     string
	contradicts, noFinality bool
	// behind has logs and state answered by a backend that knows no block yet.
	behind bool
	// lacks is from which block on another backend, which answers for the state, has none.
	lacks int
	// finalAfter is how long it takes to say what is final.
	finalAfter time.Duration
	// slow is the number of blocks from the first that came at a sixth of the pace.
	slow int
	// reverted are transactions that failed, with their input.
	reverted map[string]string
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{T: t, chain: 84532, code: "0x", latest: 100_000, final: 99_900, states: map[string]bool{}}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	n.url = server.URL
	return n
}

func nonce(n int) string { return fmt.Sprintf("0x%064x", n) }

func word(address string) string { return "0x" + strings.Repeat("0", 24) + address[2:] }

func timeOf(block int) time.Time { return genesis.Add(time.Duration(block) * blockTime) }

// timeOf is a block's time on this chain.
func (n *node) timeOf(block int) time.Time {
	return timeOf(block).Add(time.Duration(min(block, n.slow)-n.slow) * 5 * blockTime)
}

// spend puts a transaction with the given events into a block.
func (n *node) spend(block int, transaction string, events ...event) {
	for i, e := range events {
		e.block, e.TransactionHash, e.LogIndex = block, transaction, fmt.Sprintf("0x%x", i)
		if e.Address == "" {
			e.Address = token
		}
		if e.Data == "" {
			e.Data = "0x"
		}
		n.events = append(n.events, e)
		if e.Topics[0] != transfer {
			n.states[e.Topics[2]] = true
		}
	}
}

func mark(topic string, k int) event { return event{Topics: []string{topic, word(payer), nonce(k)}} }

func move(to string, amount int64) event {
	return event{Topics: []string{transfer, word(payer), word(to)}, Data: fmt.Sprintf("0x%064x", amount)}
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	type call struct {
		ID     int
		Method string
		Params []json.RawMessage
	}
	var request call
	var batch []call
	body, _ := io.ReadAll(r.Body)
	n.exchanges++
	if err := json.Unmarshal(body, &batch); err == nil {
		answers := []json.RawMessage{}
		for _, c := range slices.Backward(batch) { // a node may answer in any order
			answers = append(answers, n.reply(c.ID, c.Method, c.Params))
		}
		_ = json.NewEncoder(w).Encode(answers)
		return
	}
	if err := json.Unmarshal(body, &request); err != nil {
		n.Errorf("called with %q", body)
	}
	_, _ = w.Write(n.reply(request.ID, request.Method, request.Params))
}

// reply makes the answer to one call.
func (n *node) reply(id int, method string, params []json.RawMessage) json.RawMessage {
	n.calls = append(n.calls, method)
	if n.fault != nil {
		if answer, fails := n.fault(method); fails {
			return json.RawMessage(answer)
		}
	}
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "result": n.answer(method, params)})
	if err != nil {
		n.Error(err)
	}
	return text
}

func (n *node) answer(method string, params []json.RawMessage) any {
	switch method {
	case "eth_chainId":
		return fmt.Sprintf("0x%x", n.chain)
	case "eth_getCode":
		return n.code
	case "eth_getBlockByNumber":
		return n.block(n.text(params[0]))
	case "eth_getLogs":
		return n.logs(params[0])
	case "eth_getTransactionReceipt":
		return n.receipt(n.text(params[0]))
	case "eth_getTransactionByHash":
		hash := n.text(params[0])
		return map[string]string{"hash": hash, "input": n.reverted[hash]}
	case "eth_call":
		var call struct{ To, Data string }
		_ = json.Unmarshal(params[0], &call)
		if call.To == token && call.Data == "0x70a08231"+word(payer)[2:] {
			return fmt.Sprintf("0x%064x", n.balance)
		}
		if call.To != token || !strings.HasPrefix(call.Data, "0xe94a0102"+word(payer)[2:]) {
			n.Errorf("called %+v", call)
		}
		state := 0
		at := n.text(params[1])
		if number, err := strconv.ParseInt(at, 0, 64); n.behind && at != "latest" || n.lacks > 0 && err == nil && int(number) >= n.lacks {
			return nil
		}
		if !n.behind && n.states["0x"+call.Data[len(call.Data)-64:]] {
			state = 1
		}
		return fmt.Sprintf("0x%064x", state)
	}
	n.Errorf("called %s", method)
	return nil
}

func (n *node) text(param json.RawMessage) (s string) {
	_ = json.Unmarshal(param, &s)
	return s
}

func (n *node) number(hex string) int {
	number, err := strconv.ParseInt(strings.TrimPrefix(hex, "0x"), 16, 64)
	if err != nil {
		n.Errorf("%q is no number", hex)
	}
	return int(number)
}

func (n *node) block(tag string) any {
	number := 0
	switch tag {
	case "latest":
		number = n.latest
	case "finalized":
		time.Sleep(n.finalAfter)
		if n.noFinality {
			return nil
		}
		number = n.final
	default:
		number = n.number(tag)
	}
	if number > n.latest {
		return nil
	}
	return map[string]string{"number": fmt.Sprintf("0x%x", number), "timestamp": fmt.Sprintf("0x%x", n.timeOf(number).Unix())}
}

func (n *node) logs(param json.RawMessage) any {
	var filter struct {
		Address, FromBlock, ToBlock string
		Topics                      [3]json.RawMessage
	}
	_ = json.Unmarshal(param, &filter)
	from, to := n.number(filter.FromBlock), n.number(filter.ToBlock)
	n.widest = max(n.widest, to-from+1)
	found := []event{}
	for _, e := range n.events {
		if !n.behind && e.block >= from && e.block <= to && e.Address == filter.Address && e.Topics[0] != transfer && e.Topics[2] == n.text(filter.Topics[2]) {
			found = append(found, e)
		}
	}
	return found
}

func (n *node) receipt(transaction string) any {
	if _, failed := n.reverted[transaction]; failed {
		return map[string]any{"status": "0x0", "transactionHash": transaction, "blockNumber": "0x1869a", "logs": []event{}}
	}
	logs := []event{}
	for _, e := range n.events {
		if e.TransactionHash == transaction {
			logs = append(logs, e)
		}
	}
	if len(logs) == 0 {
		return nil
	}
	status := "0x1"
	if n.contradicts {
		status = "0x0"
	}
	return map[string]any{"status": status, "transactionHash": transaction, "logs": logs}
}
