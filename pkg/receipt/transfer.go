package receipt

import (
	"errors"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Fixed values of a transfer receipt, the second kind: a receipt that also says that
// one transfer of a token, or of the chain's own coin, was made by the transaction.
const (
	TransferType        = "chain-evidence-transfer"
	TransferVersion     = 1
	TransferPayloadType = "application/vnd.chain-evidence.transfer.v1+json"
)

// Native is the Token of an ExpectedTransfer of the chain's own coin.
const Native = "native"

// Standards of a transfer.
const (
	StandardERC20  = "erc20"  // a log of the token's contract (EIP-20)
	StandardNative = "native" // the value of the transaction itself
)

// Checks that only a transfer receipt has: after CheckStatus, before CheckMinConfirmations.
const (
	CheckTransfer      = "transfer"
	CheckAuthorization = "authorization" // when one is asked for
)

// MaxLogPosition is the largest logPosition of a request.
const MaxLogPosition = 1_000_000

// ExpectedTransfer is the transfer that a request asks for. Token and To are required;
// any other field that is "" or nil is not expected, and is not in the JSON.
type ExpectedTransfer struct {
	Token string `json:"token"` // the address of its contract, or Native
	From  string `json:"from,omitempty"`
	To    string `json:"to"`
	// Exactly one of Amount and MinAmount is there: atomic units, decimal, above zero.
	Amount    string `json:"amount,omitempty"`
	MinAmount string `json:"minAmount,omitempty"`
	// LogPosition is the place among the transaction's own logs, from 0. Nodes and
	// explorers count over the block instead.
	LogPosition   *int           `json:"logPosition,omitempty"`
	Authorization *Authorization `json:"authorization,omitempty"`
}

// Authorization names a payment by authorization (EIP-3009).
type Authorization struct {
	Authorizer string `json:"authorizer"` // the payer
	Nonce      string `json:"nonce"`
}

// ProvenTransfer is the transfer that was found: that of the lowest log which fits or,
// with an authorization, of the log that belongs to it; for the native coin, that of the
// transaction itself.
type ProvenTransfer struct {
	Standard string  `json:"standard"` // StandardERC20 or StandardNative
	Token    *string `json:"token"`    // nil for the native coin
	From     string  `json:"from"`
	To       string  `json:"to"`
	Amount   string  `json:"amount"` // atomic units
	// LogPosition is the place among the transaction's own logs; nil for the native coin.
	LogPosition *int `json:"logPosition"`
	// Matches counts the logs that fit. Two equal payments are two. For the native coin it is 1.
	Matches string `json:"matches"`
	// ToIn and ToOut are the sums of all transfers of this token to To and from To in the
	// transaction. Where ToOut is not less than ToIn, To passed everything on. For the native
	// coin ToIn is Amount and ToOut is 0, because its other transfers are not looked at.
	ToIn  string `json:"toIn"`
	ToOut string `json:"toOut"`
	// Authorization names the log by which the token marked the authorization as used; nil
	// when none was asked for.
	Authorization *UsedAuthorization `json:"authorization"`
}

// UsedAuthorization is an authorization that the transaction used (EIP-3009).
type UsedAuthorization struct {
	Authorizer  string `json:"authorizer"`
	Nonce       string `json:"nonce"`
	LogPosition int    `json:"logPosition"` // of the log that marks it as used
}

// ChecksForTransfer returns the checks of a transfer receipt: the six that every receipt
// has, the transaction's success, the transfer, the authorization if one is asked for, and
// minConfirmations if it is expected.
func ChecksForTransfer(senderMethod string, x ExpectedTransfer, e Expectations) []Check {
	checks := append(ChecksFor(senderMethod, Expectations{}), Check{CheckStatus, MethodExpectation, Pass},
		Check{CheckTransfer, MethodExpectation, Pass})
	if x.Authorization != nil {
		checks = append(checks, Check{CheckAuthorization, MethodExpectation, Pass})
	}
	if e.MinConfirmations != 0 {
		checks = append(checks, Check{CheckMinConfirmations, MethodExpectation, Pass})
	}
	return checks
}

// usedTopic is the Keccak-256 of AuthorizationUsed(address,bytes32).
const usedTopic = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"

const (
	zeroAddress = "0x0000000000000000000000000000000000000000"
	// nativeLogs is the address that logs transfers of the native coin (EIP-7708). It is no token.
	nativeLogs = "0xfffffffffffffffffffffffffffffffffffffffe"
)

// FindTransfer returns the transfer that a request asks for in a transaction that
// succeeded and in its logs; ok is false when there is none, or when the request is one
// that the format does not allow. The caller checks that the transaction succeeded.
//
// A log counts when the token wrote it, as EIP-20 defines Transfer: three topics, two
// of them addresses, and 32 bytes of data. It fits when its parties, its amount and its
// place are as expected, it is not from an account to itself, and, unless the payer is
// expected, not from the zero address, which is a mint. Of the native coin only the value
// of the transaction itself counts, not what contracts move.
//
// The token's log that marks an authorization as used (EIP-3009) is its mark. The authorization
// belongs to the token's first transfer between its mark and the token's next mark. If that
// transfer does not fit and is not the payer's, or there is none, it belongs to the first fitting
// transfer before the mark, but only if the token has no other mark in the transaction.
func FindTransfer(x ExpectedTransfer, tx Transaction, logs []Log) (found ProvenTransfer, ok bool) {
	if x.validate() != nil {
		return ProvenTransfer{}, false
	}
	if x.Token == Native {
		if tx.To == nil || !x.fits(Transfer{From: tx.From, To: *tx.To, Value: tx.ValueWei}) {
			return ProvenTransfer{}, false
		}
		return ProvenTransfer{
			Standard: StandardNative, From: tx.From, To: *tx.To, Amount: tx.ValueWei, Matches: "1", ToIn: tx.ValueWei,
			ToOut: "0",
		}, true
	}
	transfers := map[int]Transfer{} // those that count
	var fitting []int
	in, out := new(big.Int), new(big.Int)
	for i, log := range logs {
		t, counts := log.Transfer()
		if !counts || t.Token != x.Token || t.Token == nativeLogs {
			continue
		}
		transfers[i] = t
		value, _ := new(big.Int).SetString(t.Value, 10)
		if t.To == x.To {
			in.Add(in, value)
		}
		if t.From == x.To {
			out.Add(out, value)
		}
		if x.fits(t) && (x.LogPosition == nil || *x.LogPosition == i) {
			fitting = append(fitting, i)
		}
	}
	if len(fitting) == 0 {
		return ProvenTransfer{}, false
	}
	at := fitting[0]
	if x.Authorization != nil {
		var mark int
		if at, mark = x.paidBy(logs, transfers, fitting); mark < 0 {
			return ProvenTransfer{}, false
		}
		found.Authorization = &UsedAuthorization{x.Authorization.Authorizer, x.Authorization.Nonce, mark}
	}
	t := transfers[at]
	found.Standard, found.Token, found.From, found.To, found.Amount = StandardERC20, &t.Token, t.From, t.To, t.Value
	found.LogPosition, found.Matches = &at, strconv.Itoa(len(fitting))
	found.ToIn, found.ToOut = in.String(), out.String()
	return found, true
}

// payer returns the account that must have paid; "" when any may have.
func (x ExpectedTransfer) payer() string {
	if x.Authorization != nil {
		return x.Authorization.Authorizer
	}
	return x.From
}

// fits reports whether parties and amount are as expected. It does not look at LogPosition.
func (x ExpectedTransfer) fits(t Transfer) bool {
	payer := x.payer()
	switch {
	case t.To != x.To, t.From == t.To, payer != "" && t.From != payer, payer == "" && t.From == zeroAddress:
		return false
	case x.Amount != "":
		return t.Value == x.Amount
	}
	return !more(x.MinAmount, t.Value)
}

// paidBy returns the places of the transfer that the authorization made and of the log
// that marks it as used; both are -1 unless both are found.
func (x ExpectedTransfer) paidBy(logs []Log, transfers map[int]Transfer, fitting []int) (at, mark int) {
	isMark := func(log Log) bool {
		return log.Address == x.Token && len(log.Topics) == 3 && log.Topics[0] == usedTopic
	}
	isOurs := func(log Log) bool {
		return log.Topics[1] == paddedAddress+x.Authorization.Authorizer[2:] &&
			log.Topics[2] == x.Authorization.Nonce && len(log.Data) == 0
	}
	marks, ours, paidOther := 0, -1, false
	for m, log := range logs {
		if !isMark(log) {
			continue
		}
		marks++
		if !isOurs(log) {
			continue
		}
		ours = m
		for i := m + 1; i < len(logs) && !isMark(logs[i]); i++ {
			t, counts := transfers[i]
			if !counts {
				continue
			}
			if slices.Contains(fitting, i) {
				return i, ours
			}
			paidOther = t.From == x.Authorization.Authorizer
			break
		}
	}
	if marks == 1 && ours >= 0 && !paidOther && fitting[0] < ours {
		return fitting[0], ours
	}
	return -1, -1
}

// validate returns an error unless a request for a transfer is one that may be asked.
func (x ExpectedTransfer) validate() error {
	position, auth := x.LogPosition, x.Authorization
	for _, fault := range []struct {
		what string
		ok   bool
	}{
		{"token", x.Token == Native || lowerHex(x.Token, 20) && x.Token != zeroAddress && x.Token != nativeLogs},
		{"to", lowerHex(x.To, 20) && x.To != zeroAddress},
		{"from", x.From == "" || lowerHex(x.From, 20) && x.From != x.To},
		{"amount", (x.Amount == "") != (x.MinAmount == "")},
		{"amount", x.Amount == "" || x.Amount != "0" && quantity(x.Amount, 256)},
		{"minAmount", x.MinAmount == "" || x.MinAmount != "0" && quantity(x.MinAmount, 256)},
		{"logPosition", position == nil || *position >= 0 && *position <= MaxLogPosition && x.Token != Native},
		{"authorization", auth == nil || x.Token != Native && lowerHex(auth.Authorizer, 20) && lowerHex(auth.Nonce,
			32) && auth.Authorizer != x.To &&
			(x.From == "" || x.From == auth.Authorizer)},
	} {
		if !fault.ok {
			return malformed("request.transfer.%s is not as the format has it", fault.what)
		}
	}
	return nil
}

// members returns the members of a transfer; none when t is nil.
func (t *ProvenTransfer) members() []member {
	if t == nil {
		return nil
	}
	const sumBits = 288 // of 2^32 transfers of 256 bits
	matches, err := strconv.Atoi(t.Matches)
	list := []member{
		{"transfer.standard", t.Standard, t.Standard == StandardERC20 || t.Standard == StandardNative},
		{"transfer.token", orNull(t.Token), t.Token == nil || lowerHex(*t.Token, 20)},
		{"transfer.from", t.From, lowerHex(t.From, 20)},
		{"transfer.to", t.To, lowerHex(t.To, 20)},
		{"transfer.amount", t.Amount, t.Amount != "0" && quantity(t.Amount, 256)},
		{"transfer.logPosition", intOrNull(t.LogPosition), t.LogPosition == nil || *t.LogPosition >= 0},
		{"transfer.matches", t.Matches, err == nil && matches > 0 && strconv.Itoa(matches) == t.Matches},
		{"transfer.toIn", t.ToIn, quantity(t.ToIn, sumBits)},
		{"transfer.toOut", t.ToOut, quantity(t.ToOut, sumBits)},
	}
	if t.Authorization == nil {
		return append(list, member{"transfer.authorization", "null", true})
	}
	a := t.Authorization
	return append(list,
		member{"transfer.authorization.authorizer", a.Authorizer, lowerHex(a.Authorizer, 20)},
		member{"transfer.authorization.nonce", a.Nonce, lowerHex(a.Nonce, 32)},
		member{"transfer.authorization.logPosition", strconv.Itoa(a.LogPosition), a.LogPosition >= 0})
}

func intOrNull(n *int) string {
	if n == nil {
		return "null"
	}
	return strconv.Itoa(*n)
}

// transferHolds returns an error where the request of a transfer receipt may not be asked, or where
// its transfer and its transaction cannot answer it.
func (r Receipt) transferHolds() error {
	if err := r.Request.Transfer.validate(); err != nil {
		return err
	}
	x, t, tx := *r.Request.Transfer, *r.Transfer, r.Transaction
	logs := func(position int) bool { return !more(strconv.Itoa(position+1), r.Outcome.Logs) }
	for _, fault := range []struct {
		what string
		ok   bool
	}{
		{"outcome.status", r.Outcome.Status != nil && *r.Outcome.Status == StatusSuccess},
		{"request.expectations", r.Request.Expectations == Expectations{
			MinConfirmations: r.Request.Expectations.MinConfirmations,
		}},
		{"transfer.standard", (t.Standard == StandardNative) == (x.Token == Native)},
		{"transfer.token", (t.Token == nil) == (x.Token == Native) && (t.Token == nil || *t.Token == x.Token)},
		{"transfer.amount", x.fits(Transfer{From: t.From, To: t.To, Value: t.Amount}) && !more(t.Amount, t.ToIn)},
		{"transfer.logPosition", (t.LogPosition == nil) == (x.Token == Native) && (t.LogPosition == nil ||
			logs(*t.LogPosition))},
		{"transfer.logPosition", x.LogPosition == nil || t.LogPosition != nil && *x.LogPosition == *t.LogPosition &&
			t.Matches == "1"},
		{"transfer.matches", x.Token != Native || t.Matches == "1" && t.ToIn == t.Amount && t.ToOut == "0"},
		{"transfer.from", x.Token != Native || t.From == tx.From && tx.To != nil && t.To == *tx.To &&
			t.Amount == tx.ValueWei},
		{"transfer.authorization", (t.Authorization == nil) == (x.Authorization == nil)},
		{"transfer.authorization", t.Authorization == nil || x.Authorization != nil &&
			*x.Authorization == Authorization{t.Authorization.Authorizer, t.Authorization.Nonce} &&
			logs(t.Authorization.LogPosition)},
	} {
		if !fault.ok {
			return malformed("%s is not what is asked for", fault.what)
		}
	}
	return nil
}

var errNoTransfer = errors.New("the proven logs hold no transfer as the receipt's request asks for")

// transfer returns the facts of the transfer that the receipt's request asks for, as the
// proof shows them; errNoTransfer when it shows no such transfer.
func (e evidence) transfer(r Receipt, logs []Log) ([]Fact, error) {
	if r.Request.Transfer == nil {
		return nil, errNoTransfer
	}
	tx, how := Transaction{From: hexText(e.transaction.From[:]), ValueWei: e.transaction.Value.String()},
		"in the logs of its receipt under receiptsRoot"
	if e.transaction.To != nil {
		to := hexText(e.transaction.To[:])
		tx.To = &to
	}
	if r.Request.Transfer.Token == Native {
		how = howTransaction
	}
	found, ok := FindTransfer(*r.Request.Transfer, tx, logs)
	if success := e.receipt.Success; !ok || success == nil || !*success {
		return nil, errNoTransfer
	}
	var list []Fact
	for _, m := range found.members() {
		list = append(list, Fact{m.field, m.value, how})
	}
	return list, nil
}

// SentenceOn returns the transfer for people. chain is a CAIP-2 id. A token that is known there
// has its symbol and a decimal amount.
func (t ProvenTransfer) SentenceOn(chain string) string {
	var text strings.Builder
	if t.Token == nil {
		text.WriteString(t.Amount + " of the native coin, in atomic units,")
	} else {
		text.WriteString(AmountOf(chain, *t.Token, t.Amount))
	}
	text.WriteString(" from " + t.From + " to " + t.To)
	if t.LogPosition == nil {
		return text.String() + ", by the transaction itself"
	}
	text.WriteString(", log " + strconv.Itoa(*t.LogPosition) + " of the transaction; ")
	if t.Matches == "1" {
		text.WriteString("1 log fits")
	} else {
		text.WriteString(t.Matches + " logs fit")
	}
	if a := t.Authorization; a != nil {
		text.WriteString("; by the authorization " + a.Nonce + " of " + a.Authorizer + ", log " +
			strconv.Itoa(a.LogPosition))
	}
	if t.isPassedOn() {
		text.WriteString("; in the same transaction the recipient passed on all of this token that came in")
	}
	return text.String()
}

// isPassedOn reports whether To received some of the token in the transaction, and sent at least as much.
func (t ProvenTransfer) isPassedOn() bool {
	return more(t.ToIn, "0") && !more(t.ToIn, t.ToOut)
}
