package verification

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// VerifyTransfer reads the transaction and returns the evidence of the transfer that is
// asked for: in its proven logs or, for the native coin, the transaction's own value.
// Evidence and errors are as for Verify: pkg/receipt finds the transfer anew, in the proof
// alone, by code of its own, and where the two differ nothing is signed.
func (v Verifier) VerifyTransfer(ctx context.Context, r TransferRequest) (Evidence, error) {
	snapshot, err := v.Reader.Read(ctx, r.hash)
	if err != nil {
		return Evidence{}, err
	}
	events, err := snapshot.Outcome.Events()
	if err != nil {
		return Evidence{}, fmt.Errorf("%w: %w", chain.ErrIntegrity, err)
	}
	found, err := evaluateTransfer(r, snapshot, events)
	if err != nil {
		return Evidence{}, err
	}
	e := transferEvidence(r, snapshot, found)
	if _, _, err := receipt.VerifyProof(e.Receipt, e.Proof); err != nil {
		return Evidence{}, fmt.Errorf("%w: %w", chain.ErrIntegrity, err)
	}
	return e, nil
}

func transferEvidence(r TransferRequest, s chain.Snapshot, found receipt.ProvenTransfer) Evidence {
	e := evidence(Request{r.Request, r.hash}, s)
	e.Receipt.Type, e.Receipt.Version = receipt.TransferType, receipt.TransferVersion
	e.Receipt.Transfer = &found
	e.Receipt.Checks = receipt.ChecksForTransfer(string(s.Transaction.SenderMethod), *r.Transfer, r.Expectations)
	return e
}

// Hints: why a check of a question about a transfer fails.
const (
	HintReverted          = "reverted"
	HintNoLog             = "no_log_of_this_token"
	HintOtherParties      = "other_parties"
	HintAmountDiffers     = "amount_differs"
	HintNotERC20          = "not_an_erc20_event"
	HintPositionDiffers   = "position_differs"
	HintMintOrBurn        = "mint_or_burn"
	HintSelfTransfer      = "self_transfer"
	HintNotInTransaction  = "not_in_the_transaction_itself"
	HintNotUsed           = "authorization_not_used_for_it"
	HintAuthorizationDead = "authorization_canceled"
)

// nearest lists the hints of single transfers, and "" for one that fits; of a transaction's logs, the
// one whose hint comes first misses the least.
var nearest = []string{
	"", HintPositionDiffers, HintAmountDiffers, HintMintOrBurn, HintSelfTransfer, HintOtherParties,
}

// FoundTransfer is a transfer that Check.Found lists, so that the caller can correct the
// request.
type FoundTransfer struct {
	From        string `json:"from"`
	To          string `json:"to"`
	Amount      string `json:"amount"`
	LogPosition *int   `json:"logPosition,omitempty"` // nil for the native coin
}

// maxFound bounds the transfers that one check lists.
const maxFound = 8

// evaluateTransfer returns the transfer when it fits, is the one of the expected authorization, if
// any, and the transaction succeeded and has the expected confirmations. Every error holds a *MismatchError.
func evaluateTransfer(r TransferRequest, s chain.Snapshot, events []chain.Event) (receipt.ProvenTransfer, error) {
	var checks []Check
	add := func(name string, holds bool, expected, found any, hint string) {
		check := Check{Name: name, Result: Pass, Expected: expected, Found: found}
		if !holds {
			check.Result, check.Hint = Fail, hint
		}
		checks = append(checks, check)
	}
	var found judgement
	success := s.Outcome.Status == chain.StatusSuccess
	hint := ""
	switch {
	case success && r.want.native:
		found = r.want.inTransaction(s.Transaction)
	case success:
		found = r.want.inLogs(events)
	case s.Outcome.Status == chain.StatusReverted:
		hint = HintReverted
	}
	var ended any // nil before the Byzantium fork
	if text := status(s.Outcome); text != nil {
		ended = *text
	}
	add(receipt.CheckStatus, success, receipt.StatusSuccess, ended, hint)
	asked := *r.Transfer
	asked.Authorization = nil
	add(receipt.CheckTransfer, found.fits, asked, append([]FoundTransfer{}, found.listed...), cmp.Or(found.hint, hint))
	if a := r.Transfer.Authorization; a != nil {
		var mark any
		if found.marked != nil {
			mark = found.marked
		}
		add(receipt.CheckAuthorization, found.paired, a, mark, cmp.Or(found.authorizationHint, hint))
	}
	confirmations, expected := s.Heads.Confirmations(s.Block.Number), r.Expectations.MinConfirmations
	enough := confirmations >= uint64(expected)
	if expected > 0 {
		add(receipt.CheckMinConfirmations, enough, expected, confirmations, "")
	}
	switch {
	case s.Outcome.Status == chain.StatusUnknown:
		return receipt.ProvenTransfer{}, &MismatchError{ErrStatusUnavailable, checks}
	case !success, !found.fits, r.Transfer.Authorization != nil && !found.paired:
		return receipt.ProvenTransfer{}, &MismatchError{ErrExpectationMismatch, checks}
	case !enough:
		missing := uint64(expected) - confirmations
		return receipt.ProvenTransfer{}, chain.WithRetryAfter(&MismatchError{ErrInsufficientConfirmations, checks},
			s.Heads.Wait(missing))
	}
	return found.transfer, nil
}

// judgement is what was found in a transaction for a request for a transfer.
type judgement struct {
	transfer receipt.ProvenTransfer // of no meaning unless it fits and, with an authorization, is paired
	fits     bool
	hint     string // why it does not fit
	listed   []FoundTransfer

	paired            bool
	authorizationHint string // why it is not paired
	marked            *int   // where the authorization is marked as used
}

// inTransaction judges the value that the transaction itself moves. What contracts move of the
// native coin is not looked at.
func (w wantedTransfer) inTransaction(t chain.Transaction) (j judgement) {
	j.hint = HintNotInTransaction
	if t.To == nil {
		return j
	}
	m := movement{from: t.From, to: *t.To, value: t.Value}
	j.listed = []FoundTransfer{m.listed(nil)}
	if w.misses(m) != "" {
		return j
	}
	amount := m.value.String()
	j.fits, j.hint = true, ""
	j.transfer = receipt.ProvenTransfer{
		Standard: receipt.StandardNative, From: m.from.String(), To: m.to.String(), Amount: amount,
		Matches: "1", ToIn: amount, ToOut: "0",
	}
	return j
}

type movement struct {
	from, to chain.Address
	value    *big.Int
}

func (m movement) listed(position *int) FoundTransfer {
	return FoundTransfer{m.from.String(), m.to.String(), m.value.String(), position}
}

// Events, by the Keccak-256 of their signatures.
var (
	// Transfer(address,address,uint256)
	topicTransfer = mustHash("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")
	// AuthorizationUsed(address,bytes32)
	topicUsed = mustHash("0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5")
	// AuthorizationCanceled(address,bytes32)
	topicCanceled = mustHash("0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81")
)

func mustHash(text string) chain.Hash {
	hash, err := chain.ParseHash(text)
	if err != nil {
		panic(err) // of a constant
	}
	return hash
}

// addressIn reads a topic that holds an address: twelve zero bytes before it.
func addressIn(topic chain.Hash) (a chain.Address, ok bool) {
	padding := len(topic) - len(a)
	copy(a[:], topic[padding:])
	return a, bytes.Equal(topic[:padding], make([]byte, padding))
}

// erc20 reads a log as EIP-20 defines Transfer. Logs with four topics (ERC-721), with fewer than
// three or with other data are not decoded: what looks like their amount may be the number of a
// token.
func erc20(e chain.Event) (m movement, ok bool) {
	if len(e.Topics) != 3 || e.Topics[0] != topicTransfer || len(e.Data) != len(chain.Hash{}) {
		return m, false
	}
	var from, to bool
	m.from, from = addressIn(e.Topics[1])
	m.to, to = addressIn(e.Topics[2])
	m.value = new(big.Int).SetBytes(e.Data)
	return m, from && to
}

// misses returns why a transfer does not fit, "" when it does. The position of its log is
// left to the caller.
func (w wantedTransfer) misses(m movement) string {
	fromFits, toFits := w.payer == nil || m.from == *w.payer, m.to == w.payee
	compared := m.value.Cmp(w.amount)
	switch {
	case !fromFits && toFits && m.from == zeroAddress, !toFits && fromFits && w.payer != nil && m.to == zeroAddress:
		return HintMintOrBurn
	case !fromFits, !toFits:
		return HintOtherParties
	case m.from == m.to:
		return HintSelfTransfer
	case w.payer == nil && m.from == zeroAddress:
		return HintMintOrBurn
	case compared < 0, compared > 0 && !w.atLeast:
		return HintAmountDiffers
	}
	return ""
}

// inLogs judges the token's logs.
func (w wantedTransfer) inLogs(events []chain.Event) (j judgement) {
	type candidate struct {
		movement
		position int
		hint     string
	}
	var candidates []candidate // the logs that count
	seen := HintNoLog
	in, out := new(big.Int), new(big.Int)
	roles := make([]evm.TokenEvent, len(events))
	for i, e := range events {
		if e.Address != w.token {
			continue
		}
		m, counts := erc20(e)
		switch {
		case counts:
			c := candidate{m, i, w.misses(m)}
			if c.hint == "" && w.position != nil && *w.position != i {
				c.hint = HintPositionDiffers
			}
			candidates = append(candidates, c)
			if m.to == w.payee {
				in.Add(in, m.value)
			}
			if m.from == w.payee {
				out.Add(out, m.value)
			}
			roles[i] = w.role(m, c.hint == "")
		case len(e.Topics) > 0 && e.Topics[0] == topicTransfer:
			seen = HintNotERC20
		case w.authorization != nil:
			roles[i] = w.mark(e)
		}
	}
	matches := 0
	for _, c := range candidates {
		if c.hint == "" {
			matches++
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		return cmp.Compare(slices.Index(nearest, a.hint), slices.Index(nearest, b.hint))
	})
	for _, c := range candidates[:min(len(candidates), maxFound)] {
		j.listed = append(j.listed, c.listed(&c.position))
	}
	if j.fits = matches > 0; !j.fits {
		if j.hint = seen; len(candidates) > 0 {
			j.hint = candidates[0].hint
		}
	}
	at := -1
	if j.fits {
		at = candidates[0].position // the lowest that fits
	}
	var used *receipt.UsedAuthorization
	if w.authorization != nil {
		mark, transfer, ok := evm.PairAuthorization(roles)
		if ours := slices.Index(roles, evm.AuthorizationUsed); ours >= 0 {
			j.marked = &ours
		}
		if j.paired = ok; ok {
			at = transfer
			used = &receipt.UsedAuthorization{
				Authorizer: w.payer.String(), Nonce: w.authorization.String(), LogPosition: mark,
			}
		} else if j.authorizationHint = HintNotUsed; slices.ContainsFunc(events, w.cancels) {
			j.authorizationHint = HintAuthorizationDead
		}
	}
	if at < 0 {
		return j
	}
	m, _ := erc20(events[at])
	j.transfer = receipt.ProvenTransfer{
		Standard: receipt.StandardERC20, Token: new(w.token.String()), From: m.from.String(), To: m.to.String(),
		Amount:      m.value.String(),
		LogPosition: &at, Matches: strconv.Itoa(matches), ToIn: in.String(), ToOut: out.String(), Authorization: used,
	}
	return j
}

// role returns what a transfer counts as when authorizations are paired with transfers.
func (w wantedTransfer) role(m movement, fits bool) evm.TokenEvent {
	switch {
	case fits:
		return evm.AuthorizedTransfer
	case w.payer != nil && m.from == *w.payer:
		return evm.OtherTransferOfPayer
	}
	return evm.OtherTransfer
}

// mark returns what a log of the token that is no Transfer counts as when authorizations are paired with
// transfers.
func (w wantedTransfer) mark(e chain.Event) evm.TokenEvent {
	switch {
	case len(e.Topics) != 3 || e.Topics[0] != topicUsed:
		return evm.Unrelated
	case w.names(e) && len(e.Data) == 0:
		return evm.AuthorizationUsed
	}
	return evm.OtherAuthorizationUsed
}

// names reports whether an event with three topics is about the authorization.
func (w wantedTransfer) names(e chain.Event) bool {
	authorizer, ok := addressIn(e.Topics[1])
	return ok && authorizer == *w.payer && e.Topics[2] == *w.authorization
}

func (w wantedTransfer) cancels(e chain.Event) bool {
	return e.Address == w.token && len(e.Topics) == 3 && e.Topics[0] == topicCanceled && w.names(e)
}
