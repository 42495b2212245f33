package verification

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// TransferRequest asks whether a transaction made one transfer, in the receipt's
// spelling: in lower case. What is empty, nil or 0 is not expected.
type TransferRequest struct {
	receipt.Request
	hash chain.Hash
	want wantedTransfer
}

// wantedTransfer is the transfer of a request, parsed.
type wantedTransfer struct {
	native bool
	token  chain.Address
	payer  *chain.Address // nil is anyone; with an authorization the authorizer
	payee  chain.Address
	// amount is in atomic units: the least if atLeast, else the exact amount.
	amount        *big.Int
	atLeast       bool
	position      *int
	authorization *chain.Hash // its nonce
}

type wireTransferRequest struct {
	TransactionHash *string       `json:"transactionHash"`
	Transfer        *wireTransfer `json:"transfer"`
	Expectations    struct {
		MinConfirmations *int64 `json:"minConfirmations"`
	} `json:"expectations"`
}

type wireTransfer struct {
	Token         *string `json:"token"`
	From          *string `json:"from"`
	To            *string `json:"to"`
	Amount        *string `json:"amount"`
	MinAmount     *string `json:"minAmount"`
	LogPosition   *int64  `json:"logPosition"`
	Authorization *struct {
		Authorizer *string `json:"authorizer"`
		Nonce      *string `json:"nonce"`
	} `json:"authorization"`
}

// ParseTransferRequest reads the body of the operation about a transfer, as strictly as
// ParseRequest, with the same errors.
func ParseTransferRequest(body []byte) (r TransferRequest, err error) {
	var wire wireTransferRequest
	if err := strictjson.Unmarshal(body, &wire, strictjson.Rules{}); err != nil {
		return TransferRequest{}, err
	}
	if r.hash, err = required("/transactionHash", wire.TransactionHash, chain.ParseHash); err != nil {
		return TransferRequest{}, err
	}
	if wire.Transfer == nil {
		return TransferRequest{}, &strictjson.Error{Pointer: "/transfer", Reason: "is required"}
	}
	if r.want, err = wire.Transfer.parse(); err != nil {
		return TransferRequest{}, err
	}
	r.TransactionHash, r.Transfer = r.hash.String(), r.want.expected(wire.Transfer)
	if n := wire.Expectations.MinConfirmations; n != nil {
		if r.Expectations.MinConfirmations, err = minConfirmations(*n); err != nil {
			return TransferRequest{}, err
		}
	}
	return r, nil
}

// Addresses that are no token: the zero address, and the emitter of the logs of native transfers
// (EIP-7708).
var (
	zeroAddress = chain.Address{}
	nativeLogs  = func() (a chain.Address) {
		for i := range a {
			a[i] = 0xff
		}
		a[len(a)-1] = 0xfe
		return a
	}()
)

func (t *wireTransfer) parse() (w wantedTransfer, err error) {
	fault := func(member, reason string) (wantedTransfer, error) {
		return wantedTransfer{}, &strictjson.Error{Pointer: "/transfer/" + member, Reason: reason}
	}
	if w.native = t.Token != nil && *t.Token == receipt.Native; !w.native {
		if w.token, err = required("/transfer/token", t.Token, parseToken); err != nil {
			return w, err
		}
		switch w.token {
		case zeroAddress:
			return fault("token", "must not be the zero address; the chain's own coin is native")
		case nativeLogs:
			return fault("token", "must not be the address of native transfers; ask for native")
		}
	}
	if w.payee, err = required("/transfer/to", t.To, chain.ParseAddress); err != nil {
		return w, err
	}
	if w.payee == zeroAddress {
		return fault("to", "must not be the zero address")
	}
	if t.From != nil {
		from, err := required("/transfer/from", t.From, chain.ParseAddress)
		if err != nil {
			return w, err
		}
		if from == w.payee {
			return fault("from", "must differ from to")
		}
		w.payer = &from
	}
	switch {
	case t.Amount == nil && t.MinAmount == nil:
		return fault("amount", "is required, or minAmount")
	case t.Amount != nil && t.MinAmount != nil:
		return fault("minAmount", "must not be given beside amount")
	case t.Amount != nil:
		w.amount, err = required("/transfer/amount", t.Amount, parseAmount)
	default:
		w.atLeast = true
		w.amount, err = required("/transfer/minAmount", t.MinAmount, parseAmount)
	}
	if err != nil {
		return w, err
	}
	if n := t.LogPosition; n != nil {
		switch {
		case w.native:
			return fault("logPosition", "must not be given for native, which is in no log")
		case *n < 0 || *n > receipt.MaxLogPosition:
			return fault("logPosition", fmt.Sprintf("must be an integer from 0 to %d", receipt.MaxLogPosition))
		}
		w.position = new(int(*n))
	}
	if a := t.Authorization; a != nil {
		if w.native {
			return fault("authorization", "must not be given for native, which has none")
		}
		authorizer, err := required("/transfer/authorization/authorizer", a.Authorizer, chain.ParseAddress)
		if err != nil {
			return w, err
		}
		switch {
		case authorizer == w.payee:
			return fault("authorization/authorizer", "must differ from to")
		case w.payer != nil && *w.payer != authorizer:
			return fault("from", "must be the authorizer")
		}
		nonce, err := required("/transfer/authorization/nonce", a.Nonce, chain.ParseHash)
		if err != nil {
			return w, err
		}
		w.payer, w.authorization = &authorizer, &nonce
	}
	return w, nil
}

// required parses a member that must be there.
func required[T any](pointer string, text *string, parse func(string) (T, error)) (value T, err error) {
	if text == nil {
		return value, &strictjson.Error{Pointer: pointer, Reason: "is required"}
	}
	if value, err = parse(*text); err != nil {
		return value, &strictjson.Error{Pointer: pointer, Reason: err.Error()}
	}
	return value, nil
}

// parseToken reads the address of a token's contract.
func parseToken(text string) (chain.Address, error) {
	token, err := chain.ParseAddress(text)
	if err != nil {
		err = fmt.Errorf("%w, or native for the chain's own coin", err)
	}
	return token, err
}

// maxAmountDigits is how many digits 2^256-1 has.
const maxAmountDigits = 78

// parseAmount reads atomic units. Zero is refused, because anyone can log a transfer of
// nothing in anyone's name.
func parseAmount(text string) (*big.Int, error) {
	if len(text) > 0 && len(text) <= maxAmountDigits && text[0] != '0' && strings.Trim(text, "0123456789") == "" {
		if n, ok := new(big.Int).SetString(text, 10); ok && n.BitLen() <= 256 {
			return n, nil
		}
	}
	return nil, errors.New("must be a decimal number of atomic units, from 1 to 2^256-1, without leading zeros")
}

// expected returns the wanted transfer in the receipt's spelling. From is set only if the request, t, has it.
func (w wantedTransfer) expected(t *wireTransfer) *receipt.ExpectedTransfer {
	x := receipt.ExpectedTransfer{Token: w.token.String(), To: w.payee.String(), LogPosition: w.position}
	if w.native {
		x.Token = receipt.Native
	}
	if t.From != nil {
		x.From = w.payer.String()
	}
	if w.atLeast {
		x.MinAmount = w.amount.String()
	} else {
		x.Amount = w.amount.String()
	}
	if w.authorization != nil {
		x.Authorization = &receipt.Authorization{Authorizer: w.payer.String(), Nonce: w.authorization.String()}
	}
	return &x
}

// Canonical returns the request in one spelling: the same bytes whatever the letter case, order
// and white space of its body.
func (r TransferRequest) Canonical() []byte { return Request{r.Request, r.hash}.Canonical() }

func (r TransferRequest) verify(ctx context.Context, v Verifier) (Evidence, error) {
	return v.VerifyTransfer(ctx, r)
}
