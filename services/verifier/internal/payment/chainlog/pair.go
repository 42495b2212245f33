package chainlog

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"strings"

	"github.com/pforte/pforte/services/verifier/internal/evm"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Events of EIP-3009 and ERC-20, by the Keccak-256 of their signatures, and a function, by the
// first four bytes of that.
const (
	// AuthorizationUsed(address,bytes32)
	topicUsed = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
	// AuthorizationCanceled(address,bytes32)
	topicCanceled = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81"
	// Transfer(address,address,uint256)
	topicTransfer = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
	selectorState = "0xe94a0102" // authorizationState(address,bytes32)
)

// word returns an address as 32 bytes in hexadecimal digits, without 0x.
func word(address string) string {
	return strings.Repeat("0", 24) + strings.ToLower(strings.TrimPrefix(address, "0x"))
}

// isSpending reports whether an event marks this authorization as used or
// cancelled. A node's filter is not believed.
func isSpending(e entry, p payment.Record) bool {
	return !e.Removed && strings.EqualFold(e.Address, p.Key.Asset) && len(e.Topics) == 3 &&
		(e.Topics[0] == topicUsed || e.Topics[0] == topicCanceled) &&
		strings.EqualFold(e.Topics[1], "0x"+word(p.Key.Payer)) && strings.EqualFold(e.Topics[2], p.Key.Bare().Nonce)
}

// transaction is what is read of a transaction's receipt.
type transaction struct {
	Status          string   `json:"status"`
	TransactionHash string   `json:"transactionHash"`
	BlockNumber     quantity `json:"blockNumber"`
	Logs            []entry  `json:"logs"`
}

func (n node) receipt(ctx context.Context, hash string) (t transaction, err error) {
	if err := n.call(ctx, &t, "eth_getTransactionReceipt", hash); err != nil {
		return t, err
	}
	if !strings.EqualFold(t.TransactionHash, hash) {
		return t, errors.New("the node answers for another transaction")
	}
	return t, nil
}

// named reports whether the transaction that was named for the payment is on the chain, used the
// authorization and paid us by it. That is the ordinary end, and saves a search. Where it returns
// false, also because the node failed, the search decides.
func (n node) named(ctx context.Context, p payment.Record) bool {
	if p.Transaction == "" {
		return false
	}
	t, err := n.receipt(ctx, p.Transaction)
	return err == nil && t.Status == "0x1" && marks(t.Logs, p) && pays(t.Logs, p)
}

// marks reports whether a transaction's logs mark the authorization as used.
func marks(logs []entry, p payment.Record) bool {
	return slices.ContainsFunc(logs, func(e entry) bool { return isSpending(e, p) && e.Topics[0] == topicUsed })
}

// paid returns whether the transaction that used the authorization paid us by it (PaidToUs) or not
// (UsedElsewhere).
func (n node) paid(ctx context.Context, p payment.Record, used entry) (payment.Authorization, error) {
	t, err := n.receipt(ctx, used.TransactionHash)
	switch {
	case err != nil:
		return payment.Authorization{}, err
	case t.Status != "0x1", !marks(t.Logs, p): // some nodes have receipts without logs
		return payment.Authorization{}, errors.New("the node's receipt contradicts its log")
	case !pays(t.Logs, p):
		return payment.Authorization{Status: payment.UsedElsewhere}, nil
	}
	return payment.Authorization{Status: payment.PaidToUs, Transaction: strings.ToLower(used.TransactionHash)}, nil
}

// pays reports whether a transaction's logs hold a transfer to us that the authorization made.
func pays(logs []entry, p payment.Record) bool {
	events := make([]evm.TokenEvent, len(logs))
	for i, e := range logs {
		if !strings.EqualFold(e.Address, p.Key.Asset) || len(e.Topics) != 3 {
			continue
		}
		switch {
		case e.Topics[0] == topicUsed && isSpending(e, p):
			events[i] = evm.AuthorizationUsed
		case e.Topics[0] == topicUsed:
			events[i] = evm.OtherAuthorizationUsed
		case isTransfer(e, p):
			events[i] = evm.AuthorizedTransfer
		case e.Topics[0] == topicTransfer && strings.EqualFold(e.Topics[1], "0x"+word(p.Key.Payer)):
			events[i] = evm.OtherTransferOfPayer
		case e.Topics[0] == topicTransfer:
			events[i] = evm.OtherTransfer
		}
	}
	_, _, ok := evm.PairAuthorization(events)
	return ok
}

func isTransfer(e entry, p payment.Record) bool {
	amount, ok := transferred(e, p.Key.Asset, p.Key.Payer, p.PayTo)
	return ok && amount.String() == p.Amount
}

// transferred returns how much of a token a log transfers from an address to another;
// false when it is not such a log.
func transferred(e entry, token, from, to string) (amount *big.Int, ok bool) {
	if e.Removed || !strings.EqualFold(e.Address, token) || len(e.Topics) != 3 || e.Topics[0] != topicTransfer ||
		!strings.EqualFold(e.Topics[1], "0x"+word(from)) || !strings.EqualFold(e.Topics[2], "0x"+word(to)) ||
		len(e.Data) != 2+64 {
		return nil, false
	}
	return new(big.Int).SetString(strings.TrimPrefix(e.Data, "0x"), 16)
}

// moved sums the token's transfers from an address to another.
func moved(logs []entry, token, from, to string) *big.Int {
	sum := new(big.Int)
	for _, e := range logs {
		if amount, ok := transferred(e, token, from, to); ok {
			sum.Add(sum, amount)
		}
	}
	return sum
}
