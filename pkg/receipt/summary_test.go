package receipt_test

import (
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
)

func TestReceipt_SummaryIsOneSentenceForPeople(t *testing.T) {
	payer, payee := "0x1111111111111111111111111111111111111111", "0x2222222222222222222222222222222222222222"
	usdbc, other := "0xd9aaec86b65d86f6a7b5b1b0c42ffa531710b6ca", "0x3333333333333333333333333333333333334444"
	success, reverted, selector := receipt.StatusSuccess, receipt.StatusReverted, "0xa9059cbb"
	const where = " on base at 2023-07-31T07:55:47Z, block 2000000"
	for want, change := range map[string]func(*receipt.Receipt){
		payer + " paid 706.601842 USDbC to " + payee: func(r *receipt.Receipt) {
			r.Transfer = &receipt.ProvenTransfer{Token: &usdbc, From: payer, To: payee, Amount: "706601842"}
		},
		payer + " paid 12 of token 0x3333…4444 to " + payee: func(r *receipt.Receipt) {
			r.Transfer = &receipt.ProvenTransfer{Token: &other, From: payer, To: payee, Amount: "12"}
		},
		payer + " paid 7 wei of the native coin to " + payee: func(r *receipt.Receipt) {
			r.Transfer = &receipt.ProvenTransfer{From: payer, To: payee, Amount: "7"}
		},
		payer + " called " + payee + " successfully": func(r *receipt.Receipt) { r.Transaction.Selector = &selector },
		payer + " called " + payee + " and was reverted": func(r *receipt.Receipt) {
			r.Transaction.Selector, r.Outcome.Status = &selector, &reverted
		},
		payer + " sent 5 wei to " + payee + " without a recorded outcome": func(r *receipt.Receipt) { r.Outcome.Status = nil },
		payer + " created " + payee + " successfully": func(r *receipt.Receipt) {
			r.Transaction.To, r.Transaction.ContractAddress = nil, &payee
		},
		// Its address is not known.
		payer + " created a contract successfully": func(r *receipt.Receipt) { r.Transaction.To = nil },
		payer + " tried to create a contract and was reverted": func(r *receipt.Receipt) {
			r.Transaction.To, r.Outcome.Status = nil, &reverted
		},
	} {
		r := receipt.Receipt{
			Chain: receipt.Chain{ID: "eip155:8453", Name: "base"}, Block: receipt.Block{Number: "2000000", Timestamp: "1690790147"},
			Transaction: receipt.Transaction{From: payer, To: &payee, ValueWei: "5"}, Outcome: receipt.Outcome{Status: &success},
		}
		change(&r)
		if got := r.Summary(); got != want+where {
			t.Errorf("got %s, want %s", got, want+where)
		}
	}
}
