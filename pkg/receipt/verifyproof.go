package receipt

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/pforte/pforte/pkg/receipt/internal/evm"
	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// VerifyProof checks that proof leads to the receipt's block hash and returns the
// same as the receipt: the header hashes to it, its roots hold the transaction
// and its receipt at the index, and that they agree with the receipt. It
// lists the facts and checks that are proven by that, and the transaction's logs.
// ErrProof names everything that does not hold.
func VerifyProof(r Receipt, proof Proof) ([]Fact, []Log, error) {
	chain, err := follow(proof)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	c := comparison{claimed: map[string]string{}}
	for _, fact := range facts(r) {
		c.claimed[fact.Field] = fact.Value
	}
	c.block(chain.header)
	c.transaction(chain)
	c.outcome(chain)
	c.checks(r, chain)
	if len(c.faults) > 0 {
		return nil, nil, fmt.Errorf("%w: %w", ErrProof, errors.Join(c.faults...))
	}
	return c.proven, logs(chain.receipt.Logs), nil
}

// evidence is what a proof leads to.
type evidence struct {
	header      evm.Header
	index       uint64
	transaction evm.Transaction
	receipt     evm.TxReceipt
}

// follow goes from the header through both tries.
func follow(proof Proof) (e evidence, err error) {
	if !quantity(proof.Index, 64) {
		return e, errors.New("index is not a decimal number")
	}
	if e.index, err = strconv.ParseUint(proof.Index, 10, 64); err != nil {
		return e, errors.New("index is not a decimal number")
	}
	if e.header, err = evm.DecodeHeader(proof.HeaderRLP); err != nil {
		return e, err
	}
	key := rlp.AppendUint(nil, e.index)
	raw, err := evm.VerifyTrie(e.header.TransactionsRoot, key, nodes(proof.Transaction))
	if err != nil {
		return e, fmt.Errorf("transaction: %w", err)
	}
	if e.transaction, err = evm.DecodeTransaction(raw); err != nil {
		return e, err
	}
	if raw, err = evm.VerifyTrie(e.header.ReceiptsRoot, key, nodes(proof.Receipt)); err != nil {
		return e, fmt.Errorf("transaction receipt: %w", err)
	}
	if e.receipt, err = evm.DecodeReceipt(raw); err != nil {
		return e, err
	}
	if e.receipt.Type != e.transaction.Type {
		return e, errors.New("transaction and receipt are of different types")
	}
	return e, nil
}

func nodes(list []Hex) [][]byte {
	out := make([][]byte, len(list))
	for i, node := range list {
		out[i] = node
	}
	return out
}

// comparison collects what the proof confirms of a receipt, and what it denies.
type comparison struct {
	claimed map[string]string // field to what the receipt has
	proven  []Fact
	faults  []error
}

func (c *comparison) equal(field, found, how string) {
	if claimed := c.claimed[field]; claimed != found {
		c.faults = append(c.faults, fmt.Errorf("%s is %s, the receipt says %s", field, found, claimed))
		return
	}
	c.proven = append(c.proven, Fact{field, found, how})
}

func (c *comparison) block(h evm.Header) {
	c.equal("block.hash", hexText(h.Hash[:]), howHeaderHash)
	c.equal("block.parentHash", hexText(h.ParentHash[:]), howHeader)
	c.equal("block.number", decimal(h.Number), howHeader)
	c.equal("block.timestamp", decimal(h.Timestamp), howHeader)
	c.equal("block.transactionsRoot", hexText(h.TransactionsRoot[:]), howHeader)
	c.equal("block.receiptsRoot", hexText(h.ReceiptsRoot[:]), howHeader)
}

func (c *comparison) transaction(e evidence) {
	tx := e.transaction
	c.equal("transaction.index", decimal(e.index), howIndex)
	c.equal("transaction.hash", hexText(tx.Hash[:]), howHash)
	c.equal("transaction.type", typeText(tx.Type), howTransaction)
	if tx.ChainID != nil {
		c.equal("chain.id", "eip155:"+tx.ChainID.String(), howTransaction)
	}
	sender := howPreimage
	if tx.Signed {
		sender = howSigned
	}
	c.equal("transaction.from", hexText(tx.From[:]), sender)
	to, selector := "null", "null"
	if tx.To != nil {
		to = hexText(tx.To[:])
	}
	if tx.Selector != nil {
		selector = hexText(tx.Selector[:])
	}
	c.equal("transaction.to", to, howTransaction)
	c.equal("transaction.selector", selector, howTransaction)
	c.equal("transaction.valueWei", tx.Value.String(), howTransaction)
	c.created(e)
}

// created compares the nonce and the contract address that may follow from it.
func (c *comparison) created(e evidence) {
	nonce, how := "null", howTransaction
	if n := e.nonce(); n != nil {
		nonce = decimal(*n)
	}
	if e.transaction.Nonce == nil && e.receipt.DepositNonce != nil {
		how = howOutcome
	}
	c.equal("transaction.nonce", nonce, how)
	address, how := e.contractAddress()
	c.equal("transaction.contractAddress", address, how)
}

func (c *comparison) outcome(e evidence) {
	status := "null"
	if success := e.receipt.Success; success != nil {
		status = StatusReverted
		if *success {
			status = StatusSuccess
		}
	}
	gas := decimal(e.receipt.CumulativeGas)
	c.equal("outcome.status", status, howOutcome)
	c.equal("outcome.cumulativeGasUsed", gas, howOutcome)
	c.equal("outcome.logs", strconv.Itoa(len(e.receipt.Logs)), howOutcome)
	if e.index == 0 {
		c.equal("outcome.gasUsed", gas, howFirst)
	}
}

// checks repeats the checks that the proof allows. The expectations themselves
// were compared with the receipt's facts when it was read, and the proof has
// confirmed these facts.
func (c *comparison) checks(r Receipt, e evidence) {
	method := MethodPreimage
	if e.transaction.Signed {
		method = MethodSecp256k1
	}
	how := map[string]string{
		CheckTransactionHash: howHash, CheckSender: "by " + method, CheckHeaderHash: howHeaderHash,
		CheckTransactionsRoot: howTransaction, CheckReceiptsRoot: howOutcome,
		CheckStatus: howExpectation, CheckFrom: howExpectation, CheckTo: howExpectation, CheckSelector: howExpectation,
	}
	for _, check := range r.Checks {
		if check.Name == CheckSender && check.Method != method {
			c.faults = append(c.faults, fmt.Errorf("the sender is known by %s, the receipt says %s", method, check.Method))
		} else if how[check.Name] != "" {
			c.equal("checks."+check.Name, Pass, how[check.Name])
		}
	}
}

// nonce is nil where neither the transaction nor its receipt commits to one.
func (e evidence) nonce() *uint64 {
	if e.transaction.Nonce != nil {
		return e.transaction.Nonce
	}
	return e.receipt.DepositNonce
}

// contractAddress is "null" but for a creation that succeeded and whose address
// follows from proven facts.
func (e evidence) contractAddress() (address, how string) {
	tx, nonce := e.transaction, e.nonce()
	if tx.To != nil || nonce == nil || !tx.AccountNonce || e.receipt.Success == nil || !*e.receipt.Success {
		return "null", howNoCreation
	}
	made := evm.ContractAddress(tx.From, *nonce)
	return hexText(made[:]), howCreation
}

func hexText(b []byte) string { return Hex(b).String() }
