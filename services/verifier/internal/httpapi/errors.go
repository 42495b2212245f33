package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/translog"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// Errors of the routes themselves.
var (
	errBodyMissing = errors.New("body is missing")
	errNotReady    = errors.New("not ready")
	errNoLog       = errors.New("there is no log of receipts")
	errNoCheckPage = errors.New("the program was built without the page that checks receipts")
	errUnread      = errors.New("the ledger cannot be read")
	// errUnknownReceipt is returned for text that is not the hash of a kept answer.
	errUnknownReceipt = errors.New("no such receipt is kept")
	errNoFinality     = errors.New("there are no proofs of finality for this chain")
)

// failure is how an error is answered.
type failure struct {
	err    error
	status int
	reason string
	text   string
	// retryAfter is how many seconds to wait before the same call again; 0 means that it is not
	// retryable.
	retryAfter int
}

// Sentinel implements service.Failure.
func (f failure) Sentinel() error { return f.err }

// failures is the one table from errors to answers. Malformed bodies, faults of the chain or of a
// judgement, and unknown chains are not in it: they carry their texts themselves, see bodyOf. Any
// other error is answered as internal or onPaid, so that nothing internal leaks.
var failures = []failure{
	{errBodyMissing, 400, "invalid_request", "A body is required: a JSON object with transactionHash", 0},
	{errQuestionsMissing, 400, "invalid_request", "A body is required: a JSON object with questions", 0},
	{errBatchTooLarge, 400, "invalid_request", "The body is larger than 32 KB", 0},
	{service.ErrBodyTooLarge, 400, "invalid_request", "The body is larger than 16 KB", 0},
	{service.ErrBodyRead, 400, "invalid_request", "The body could not be read to its end", 0},
	{service.ErrMediaType, 400, "invalid_request", "The content type must be application/json", 0},
	{errMessageTooLarge, 413, "too_large", "The message is larger than 32 KB, or a receipt than 256 KB", 0},
	{errBatch, 400, "invalid_request", "A batch is not accepted: send each call by itself", 0},
	{errMessageID, 400, "invalid_request", "The id must be a string, or an integer below 2^53", 0},
	{service.ErrNoRoute, 404, "not_found", "There is nothing here", 0},
	{service.ErrWrongMethod, 405, "method_not_allowed", "This method is not allowed here", 0},
	{errNoLog, 404, "log_not_offered", "This verifier has no log of receipts", 0},
	{errUnknownReceipt, 404, "unknown_receipt", "No receipt of this hash is kept here; they are kept for 90 days " +
		"or as this verifier's operator has set", 0},
	{errNoCheckPage, 404, "not_found", "This verifier was built without the page that checks receipts", 0},
	{translog.ErrNothing, 404, "not_found", "The log of receipts does not have this", 0},
	{translog.ErrUnknownLeaf, 404, "log_unknown_leaf", "The log of receipts has no such entry", 0},
	{translog.ErrPending, 202, "log_pending", "The entry has no proof yet", 2},
	{translog.ErrFrozen, 503, "log_frozen", "The log of receipts is frozen until its operator has decided; what is " +
		"sold goes into it then", 600},
	{errNoFinality, 404, "finality_not_offered", "This verifier has no proofs of finality for this chain", 0},
	{beaconchain.ErrUnknownBlock, 404, "finality_unknown", "No receipt about this block was sold here", 0},
	{beaconchain.ErrExpired, 404, "finality_expired", "The proof of finality of this block is no longer kept", 0},
	{beaconchain.ErrPending, 202, "finality_pending", "The proof of finality is not made yet", 5},
	{
		beaconchain.ErrCheckpointUnknown, 422, "checkpoint_unknown",
		"No proof begins at this checkpoint: it is not the root of a finalized epoch that a node knows, or it is of " +
			"a later period than the proof", 0,
	},
	{
		beaconchain.ErrCheckpointTooOld, 422, "checkpoint_too_old",
		"The checkpoint is too old: name one of the two weeks before the block", 0,
	},
	{beaconchain.ErrUnavailable, 503, "finality_unavailable", "The proof of finality is not available now", 60},
	{errNotReady, 503, "not_ready", "The service is not ready", 5},
	{payment.ErrInvalid, 402, "payment_invalid", "The payment does not match what is asked for", 0},
	{payment.ErrRefused, 402, "payment_refused", "The facilitator refused the payment", 0},
	{payment.ErrNotSettled, 402, "settlement_refused", "The payment could not be settled", 0},
	{
		payment.ErrUsed, 402, "payment_already_used",
		"This payment was sent with another request; each payment buys one answer", 0,
	},
	{
		payment.ErrIdentifier, 400, "payment_identifier_conflict",
		"This payment identifier was used for another request; this call moved no money", 0,
	},
	{
		payment.ErrInFlight, 503, "payment_in_progress",
		"This payment is being processed; send the same request with the same payment again", 2,
	},
	{
		payment.ErrPending, 503, "settlement_pending",
		"It is not known yet whether the payment was settled; send the same request with the same payment again, " +
			"and do not pay anew: the first payment holds", 5,
	},
	{
		payment.ErrFacilitator, 503, "facilitator_unavailable",
		"The payment facilitator cannot be asked; this call moved no money, and the same payment can be sent again", 5,
	},
	{
		payment.ErrLedger, 503, "ledger_unavailable",
		"Payments cannot be recorded; this call moved no money, and the same payment can be sent again", 5,
	},
	{payment.ErrTooMany, 503, "too_many_unpaid_attempts", "Too many attempts ended without a payment", 60},
	{
		payment.ErrFailing, 429, "too_many_failed_settlements",
		"Too many settlements of this payer or address were made in vain today; this call moved no money", 3600,
	},
	{errTooManyLookups, 429, "too_many_lookups", "Too many free questions about transactions; ask later", 10},
	{payment.ErrLimit, 503, "facilitator_limit", "The free settlements of this month are used up", 60},
	{context.Canceled, 503, "request_canceled", "The caller went away", 1},
	// The last one: it stands for every fault of a free read that has no answer of its own.
	{errUnread, 503, "ledger_unavailable", "The ledger cannot be read now", 5},
}

// internal answers an error that has no other answer; onPaid does so for a call with a payment and
// for a paid tool, because money may have moved.
var (
	internal = failure{nil, http.StatusInternalServerError, "internal_error", "Something went wrong", 5}
	onPaid   = failure{
		nil, http.StatusServiceUnavailable, "internal_error",
		"Something went wrong; send the same request with the same payment again, and do not pay anew", 5,
	}
)

// errorBody is the body of an answer to an error.
type errorBody struct {
	Error     string `json:"error"`
	Code      int    `json:"code"`
	Reason    string `json:"reason"`
	Retryable bool   `json:"retryable"`
	// RetryAfterSeconds is also the Retry-After header, over HTTP.
	RetryAfterSeconds int `json:"retryAfterSeconds,omitempty"`
	// Field names the member of the request at fault.
	Field string `json:"field,omitempty"`
	// PaymentReason is the Reason of the payment.Refusal, if that is the error.
	PaymentReason string               `json:"paymentReason,omitempty"`
	Checks        []verification.Check `json:"checks,omitempty"`
	// Results are of a batch, one for each question.
	Results []questionResult `json:"results,omitempty"`
}

// bodyOf returns the answer to an error; with paid, onPaid takes the place of internal.
func (a *api) bodyOf(err error, paid bool) errorBody {
	var malformed *strictjson.Error
	if errors.As(err, &malformed) {
		return errorBody{
			Error: sentence(malformed), Code: http.StatusBadRequest, Reason: "invalid_request",
			Field: malformed.Field(),
		}
	}
	var batch *verification.BatchError
	if errors.As(err, &batch) {
		return unprovenBatch(batch)
	}
	var fault *chain.Fault
	if errors.As(err, &fault) {
		return unproven(err, fault)
	}
	var other *unknownChain
	if errors.As(err, &other) {
		b := errorBody{Error: other.Error(), Code: http.StatusNotFound, Reason: "unknown_chain"}
		if errors.Is(err, service.ErrNoRoute) {
			b.Reason = "not_found" // as of every path that there is not
		}
		return b
	}
	f := service.Find(failures, err, internal)
	if f == internal && paid {
		f = onPaid
	}
	b := errorBody{
		Error: f.text, Code: f.status, Reason: f.reason, Retryable: f.retryAfter > 0,
		RetryAfterSeconds: f.retryAfter,
	}
	var refusal *payment.Refusal
	if errors.As(err, &refusal) {
		if b.PaymentReason = refusal.Reason; refusal.Unspent {
			b.Error += "; nothing was charged"
		}
	}
	var pending *payment.PendingError
	var later *payment.LaterError
	switch {
	case errors.As(err, &pending) && pending.After > 0:
		b.RetryAfterSeconds = seconds(pending.After)
	case errors.As(err, &later):
		b.RetryAfterSeconds = seconds(later.After)
	case errors.Is(err, payment.ErrLimit):
		now := a.Now()
		b.RetryAfterSeconds = seconds(payment.NextMonth(now).Sub(now))
	}
	return b
}

// seconds rounds up to whole seconds, one at least.
func seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }

// sentence describes what is wrong with a body, and where.
func sentence(e *strictjson.Error) string {
	if field := e.Field(); field != "" {
		return "The member " + field + " " + e.Reason
	}
	return "The body " + e.Reason
}

// unproven returns the answer to err, which holds a fault of the chain or of a judgement (422).
func unproven(err error, fault *chain.Fault) errorBody {
	b := errorBody{
		Error: strings.ToUpper(fault.Text[:1]) + fault.Text[1:], Code: http.StatusUnprocessableEntity,
		Reason: fault.Code, Retryable: fault.Retryable,
	}
	b.RetryAfterSeconds, _ = chain.RetryAfter(err)
	var mismatch *verification.MismatchError
	if errors.As(err, &mismatch) {
		b.Checks = mismatch.Checks
	}
	return b
}

// writeError answers an error of a route; toolError answers those of tools. Where a call with a
// payment is answered 402, the answer also has a fresh challenge. A GET or HEAD of a paid path is
// answered by its handler in priced.
func (a *api) writeError(err error, c echo.Context) {
	if method := c.Request().Method; errors.Is(err, service.ErrWrongMethod) &&
		(method == http.MethodGet || method == http.MethodHead) {
		if priced := a.priced[c.Request().URL.Path]; priced != nil {
			_ = priced(c) // the client is gone if this fails
			return
		}
	}
	if errors.Is(err, service.ErrNoRoute) && namesAChain(c.Request().URL.Path) {
		err = errors.Join(err, a.unknownChain())
	}
	var r *refused
	isPaid := errors.As(err, &r)
	ours := a.bodyOf(err, isPaid)
	ans := answer{status: ours.Code, header: maps.Clone(noStore)}
	var settlement http.Header
	if isPaid && ours.Code == http.StatusPaymentRequired {
		ans, err = r.route.challenge(cmp.Or(ours.PaymentReason, ours.Reason), ours)
	} else {
		ans.body, err = json.Marshal(ours)
	}
	if isPaid && err == nil {
		settlement, err = settlementHeader(r.paid)
	}
	if err != nil {
		a.Log.Error("cannot encode an error answer", "error", err)
		ans = answer{status: http.StatusInternalServerError, header: http.Header{}}
	}
	maps.Copy(ans.header, settlement)
	if ours.RetryAfterSeconds > 0 {
		ans.header["Retry-After"] = []string{strconv.Itoa(ours.RetryAfterSeconds)}
	}
	_ = ans.write(c) // the client is gone if this fails
}
