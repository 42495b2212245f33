package receipttest

import (
	"math/big"
	"strconv"

	"github.com/pforte/pforte/pkg/receipt"
)

// Receipt makes the receipt of a transaction from what the recording node said,
// with these expectations.
func (b *Block) Receipt(i int, expectations receipt.Expectations) receipt.Receipt {
	tx, outcome := b.txs[i], b.receipts[i]
	method := receipt.MethodSecp256k1
	if tx.text("r") == "0x0" {
		method = receipt.MethodPreimage
	}
	return receipt.Receipt{
		Type: receipt.Type, Version: receipt.Version, Verdict: receipt.Verdict,
		Chain:       receipt.Chain{ID: b.ChainID, Name: b.ChainName},
		Request:     receipt.Request{TransactionHash: tx.text("hash"), Expectations: expectations},
		Transaction: b.transaction(i),
		Block: receipt.Block{
			Number: decimal(b.block.text("number")), Hash: b.Hash, ParentHash: b.block.text("parentHash"),
			Timestamp:        decimal(b.block.text("timestamp")),
			TransactionsRoot: b.block.text("transactionsRoot"), ReceiptsRoot: b.block.text("receiptsRoot"),
		},
		Outcome: receipt.Outcome{
			Status: status(outcome), GasUsed: decimal(outcome.text("gasUsed")),
			CumulativeGasUsed: decimal(outcome.text("cumulativeGasUsed")),
			Logs:              decimalOf(len(outcome["logs"].([]any))),
		},
		Finality: receipt.Finality{Tag: receipt.TagFinalized, Met: true},
		Checks:   receipt.ChecksFor(method, expectations),
	}
}

func (b *Block) transaction(i int) receipt.Transaction {
	tx, outcome := b.txs[i], b.receipts[i]
	out := receipt.Transaction{
		Hash: tx.text("hash"), Type: tx.text("type"), Index: decimalOf(i),
		From: tx.text("from"), To: optional(tx, "to"), ValueWei: decimal(tx.text("value")),
	}
	if input := tx.text("input"); out.To != nil && len(input) >= 10 {
		selector := input[:10]
		out.Selector = &selector
	}
	nonce := tx.text("nonce")
	if out.Type == "0x7e" {
		nonce = ""
		if _, canyon := outcome["depositReceiptVersion"]; canyon {
			nonce = outcome.text("depositNonce")
		}
	}
	if nonce != "" && out.Type != "0x6a" {
		n := decimal(nonce)
		out.Nonce = &n
	}
	if s := status(outcome); s != nil && *s == receipt.StatusSuccess && out.To == nil {
		out.ContractAddress = optional(outcome, "contractAddress")
	}
	return out
}

// Expect gives the expectations that hold for a receipt, all that there can be.
func Expect(r receipt.Receipt, minConfirmations int) receipt.Expectations {
	e := receipt.Expectations{From: r.Transaction.From, MinConfirmations: minConfirmations}
	if r.Outcome.Status != nil {
		e.Status = *r.Outcome.Status
	}
	if r.Transaction.To != nil {
		e.To = *r.Transaction.To
	}
	if r.Transaction.Selector != nil {
		e.Selector = *r.Transaction.Selector
	}
	return e
}

func status(outcome object) *string {
	if _, ok := outcome["status"]; !ok {
		return nil
	}
	text := receipt.StatusReverted
	if outcome.text("status") == "0x1" {
		text = receipt.StatusSuccess
	}
	return &text
}

func optional(o object, name string) *string {
	text, ok := o[name].(string)
	if !ok {
		return nil
	}
	return &text
}

func decimal(hexNumber string) string { return number(hexNumber).String() }

func decimalOf(n int) string { return strconv.Itoa(n) }

// number16 turns a decimal number into the hexadecimal one of JSON-RPC.
func number16(text string) string {
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		panic("receipttest: not a number: " + text)
	}
	return "0x" + n.Text(16)
}
