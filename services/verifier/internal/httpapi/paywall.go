package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// maxBody bounds a request body in bytes.
const maxBody = 16 << 10

// pricedRequest is a request that was read: its query, in one spelling, and how it is
// done. The work returns the answer's bytes in JSON; the same request returns the
// same bytes.
type pricedRequest struct {
	canonical func() []byte
	work      func(ctx context.Context) ([]byte, error)
	// present turns the work's bytes into what this caller accepts.
	present func(answer []byte) (body []byte, mediaType string, err error)
}

// decoder reads the body of a paid request. Its errors are the caller's faults.
type decoder func(c echo.Context, body []byte) (pricedRequest, error)

// paid sells what a decoder reads, in the order that DECISIONS fixes: body (400),
// free settlements (503), payment (402), then claim, check, work, sign, settle
// (package payment), and the answer last.
func (a *api) paid(s *paidRoute, read decoder) handler {
	return func(c echo.Context) (answer, error) {
		version, header := paymentOf(c.Request().Header)
		body, err := service.ReadBody(c.Response(), c.Request(), maxBody)
		if err != nil {
			return answer{}, err
		}
		priceOnly := version == 0 && isPriceRequest(body)
		var j pricedRequest
		if !priceOnly {
			if j, err = readRequest(c, body, read); err != nil {
				return answer{}, err
			}
		}
		if version == 0 {
			if err := a.Paywall.CheckQuota(c.Request().Context()); err != nil {
				return answer{}, err
			}
			return s.unpaid, nil
		}
		return a.sell(c, s, j, version, header)
	}
}

// paymentOf finds the payment of a request: version 2 wins, and only one of
// them is ever settled. Version 0 means that there is none. Two of one version
// are one list (RFC 9110, section 5.3), which is no payment that can be read.
func paymentOf(h http.Header) (version int, header string) {
	if v2 := strings.Join(h.Values(x402.HeaderPaymentSignature), ", "); v2 != "" {
		return x402.V2, v2
	}
	if v1 := strings.Join(h.Values(x402.HeaderPaymentV1), ", "); v1 != "" {
		return x402.V1, v1
	}
	return 0, ""
}

// isPriceRequest reports whether a body only requests the price, as registries do.
func isPriceRequest(body []byte) bool {
	body = bytes.TrimSpace(body)
	inside, isObject := bytes.CutPrefix(body, []byte("{"))
	return len(body) == 0 || isObject && string(bytes.TrimSpace(inside)) == "}"
}

func readRequest(c echo.Context, body []byte, read decoder) (pricedRequest, error) {
	if len(body) == 0 {
		return pricedRequest{}, errBodyMissing
	}
	if !service.IsJSON(c.Request().Header) {
		return pricedRequest{}, service.ErrMediaType
	}
	return read(c, body)
}

// sell takes the payment and returns the answer.
func (a *api) sell(c echo.Context, s *paidRoute, j pricedRequest, version int, header string) (answer, error) {
	ctx := c.Request().Context()
	paid, err := payment.Read(version, header)
	if err != nil {
		return answer{}, &refused{route: s, paid: paid, err: a.Paywall.Refuse(ctx, err)}
	}
	sale, err := a.Paywall.Buy(ctx, paywall.Order{
		Offer: s.offer, Payment: paid, Request: s.fingerprint(j.canonical()), Address: c.RealIP(), Work: j.work,
	})
	if err != nil {
		return answer{}, &refused{route: s, paid: paid, err: err}
	}
	body, mediaType, presentErr := j.present(sale.Answer)
	response, err := s.settled(paid, sale)
	if err = errors.Join(presentErr, err); err != nil {
		return answer{}, &refused{route: s, paid: paid, err: err} // it is paid
	}
	response.Set("Cache-Control", "private, no-store")
	response.Set("Vary", "Accept")
	return answer{status: http.StatusOK, header: response, mediaType: mediaType, body: body}, nil
}

// fingerprint binds a payment to what is requested: operation and request. The two
// paths of the first chain are one operation.
func (s *paidRoute) fingerprint(canonical []byte) payment.Digest {
	return sha256.Sum256(append([]byte("POST "+s.operation+"\n"), canonical...))
}

// refused is a paid call that failed: err with what the answer needs beside it.
type refused struct {
	route *paidRoute
	paid  payment.Payment
	err   error
}

func (r *refused) Error() string { return r.err.Error() }

func (r *refused) Unwrap() error { return r.err }

// response returns the header with how the settling ended, when it came to
// that.
func (r *refused) response() http.Header {
	var refusal *payment.Refusal
	var pending *payment.PendingError
	switch {
	case errors.As(r.err, &pending):
		return r.route.notSettled(r.paid, x402.ReasonSettlementPending, pending.Transaction)
	case errors.As(r.err, &refusal) && errors.Is(refusal, payment.ErrNotSettled):
		return r.route.notSettled(r.paid, refusal.Reason, refusal.Transaction)
	}
	return nil
}
