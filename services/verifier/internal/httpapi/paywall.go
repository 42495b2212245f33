package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// maxBody bounds the body of a request with one question, in bytes.
const maxBody = 16 << 10

// Bounds in bytes of an unpaid call's challenge in its header, and of the description in it: clients bound headers.
const (
	maxChallenge   = 4 << 10
	maxDescription = 500
)

// product is what a path sells: an operation or a batch.
type product interface {
	// name is its name in the ledger and in metrics, description its text for people.
	name() string
	description() string
	bazaar() json.RawMessage
}

// paidRoute sells a product over HTTP at one path and one price.
type paidRoute struct {
	*api
	product
	// operation is the product, zero where that is a batch.
	operation operation
	path      string
	offer     payment.Offer
	// unpaid is the challenge that answers a call without a payment, always the same.
	unpaid answer
}

func (a *api) newPaidRoute(o product, path string, terms payment.Terms) (*paidRoute, error) {
	s := &paidRoute{api: a, product: o, path: path, offer: payment.Offer{
		Terms: terms,
		Resource: x402.Resource{
			URL: a.PublicURL + path, Description: o.description(),
			MimeType: receipt.MediaTypeJSON, ServiceName: "Pforte", Tags: resourceTags,
		},
		Extensions: payment.Extensions{
			"bazaar":                    o.bazaar(),
			payment.ExtensionIdentifier: payment.IdentifierExtension(),
		},
	}}
	s.operation, _ = o.(operation)
	a.Metrics.sells(o.name(), payment.TransportHTTP)
	if len(s.offer.Resource.Description) > maxDescription {
		return nil, fmt.Errorf("description of %s is longer than %d characters", path, maxDescription)
	}
	var err error
	s.unpaid, err = s.challenge("Payment required", errorBody{
		Error: "Payment required: send the request again with an x402 payment", Code: http.StatusPaymentRequired,
		Reason: "payment_required",
	})
	if err != nil {
		return nil, err
	}
	//nolint:staticcheck // spelled as the protocol spells it
	size := len(s.unpaid.header[x402.HeaderPaymentRequired][0])
	if size > maxChallenge {
		return nil, fmt.Errorf("challenge of %s has %d bytes, more than %d", path, size, maxChallenge)
	}
	return s, nil
}

// serve answers a POST to the route's path.
func (s *paidRoute) serve(c echo.Context) error {
	body, err := service.ReadBody(c.Response(), c.Request(), maxBody)
	if err != nil {
		return err
	}
	return s.sell(c, body, func() (pricedRequest, error) { return s.readRequest(c.Request().Header, body) })
}

// sell is [api.sell] over HTTP: request and payment are in body and header.
func (s *paidRoute) sell(c echo.Context, body []byte, read func() (pricedRequest, error)) error {
	h := c.Request().Header
	version, header := paymentOf(h)
	ended := make(chan struct{})
	defer close(ended)
	call := paidCall{
		operation: s.product, transport: payment.TransportHTTP, offer: s.offer, body: body, read: read,
		times: 1, ended: ended,
	}
	if s.operation.kind != nil && wantsEnvelope(h.Values("Accept")) {
		call.times = rewritten
	}
	if version != 0 {
		call.address = c.RealIP()
		call.payment = func() (payment.Payment, error) { return payment.Read(version, header) }
	}
	sold, err := s.api.sell(c.Request().Context(), call)
	switch {
	case err != nil && version == 0:
		return err
	case err != nil:
		return &refused{s, sold, err}
	case sold.isUnpaid:
		return s.unpaid.write(c)
	}
	ans, err := s.answer(sold, h.Values("Accept"))
	if err != nil {
		sold.settlement = nil
		return &refused{s, sold, err} // it is paid
	}
	return ans.write(c)
}

// paymentOf returns the payment of a request; where there are two, that of version 2. Version 0 means
// that there is none. Two of one version are one list (RFC 9110, section 5.3), which cannot be read.
func paymentOf(h http.Header) (version int, header string) {
	if v2 := strings.Join(h.Values(x402.HeaderPaymentSignature), ", "); v2 != "" {
		return x402.V2, v2
	}
	if v1 := strings.Join(h.Values(x402.HeaderPaymentV1), ", "); v1 != "" {
		return x402.V1, v1
	}
	return 0, ""
}

func (s *paidRoute) readRequest(h http.Header, body []byte) (pricedRequest, error) {
	switch {
	case len(body) == 0:
		return nil, errBodyMissing
	case !service.IsJSON(h):
		return nil, service.ErrMediaType
	}
	return s.operationFor(body).read(body)
}

// operationFor returns the operation of the route. At transferKind.firstPath, a request about
// an x402 payment on another chain gets the operation about that chain.
func (s *paidRoute) operationFor(body []byte) operation {
	if s.path != transferKind.firstPath {
		return s.operation
	}
	return operationAbout(s.operations[&transferKind], body)
}

// operationAbout returns the operation about the chain on which the x402 payment was made that a request asks
// about. For every other request, and for a chain that no operation is about, it returns the first.
func operationAbout(operations []operation, body []byte) operation {
	first := operations[0]
	if first.kind != &transferKind {
		return first
	}
	_, chain, err := verification.ExpandPayment(body)
	if err != nil || chain == "" {
		return first
	}
	for _, o := range operations {
		if o.chain.named().ID == chain {
			return o
		}
	}
	return first
}

// answer returns the answer that a payment has bought: the signed receipt in JSON,
// or as a DSSE envelope where the client accepts that. A batch has no envelope.
func (s *paidRoute) answer(paid sold, accept []string) (answer, error) {
	header, err := settlementHeader(paid)
	if err != nil {
		return answer{}, err
	}
	header.Set("Cache-Control", "private, no-store")
	header.Set("Vary", "Accept")
	ans := answer{http.StatusOK, header, receipt.MediaTypeJSON, paid.answer.Bytes()}
	if s.operation.kind == nil {
		return ans, nil // of a batch
	}
	if link := s.finalityLink(paid.answer.Bytes()); link != "" {
		header.Set("Link", link)
	}
	if !wantsEnvelope(accept) {
		return ans, nil
	}
	var signed receipt.Response
	if err := json.Unmarshal(paid.answer.Bytes(), &signed); err != nil {
		return answer{}, fmt.Errorf("read the signed receipt: %w", err)
	}
	envelope, err := signed.Envelope()
	if err != nil {
		return answer{}, err
	}
	ans.mediaType = receipt.MediaTypeDSSE
	ans.body, err = json.Marshal(envelope)
	return ans, err
}

// wantsEnvelope reports whether an Accept header requests the DSSE envelope, and
// does not prefer plain JSON (RFC 9110, section 12.5.1).
func wantsEnvelope(accept []string) bool {
	envelope, plain := 0.0, 0.0
	for _, part := range strings.Split(strings.Join(accept, ","), ",") {
		mediaType, weight := parseRange(part)
		switch mediaType {
		case receipt.MediaTypeDSSE:
			envelope = max(envelope, weight)
		case receipt.MediaTypeJSON:
			plain = max(plain, weight)
		}
	}
	return envelope > 0 && envelope >= plain
}

func parseRange(part string) (mediaType string, weight float64) {
	mediaType, parameters, _ := strings.Cut(part, ";")
	weight = 1
	for _, parameter := range strings.Split(parameters, ";") {
		if q, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(parameter)), "q="); ok {
			if weight, _ = strconv.ParseFloat(q, 64); weight < 0 || weight > 1 {
				weight = 0
			}
		}
	}
	return strings.ToLower(strings.TrimSpace(mediaType)), weight
}

// settlementHeader returns the header that reports paid.settlement to the buyer; it is empty when
// that is nil. Version 1 has its own header and network names.
func settlementHeader(paid sold) (http.Header, error) {
	if paid.settlement == nil {
		return http.Header{}, nil
	}
	name, settlement := x402.HeaderPaymentResponse, *paid.settlement
	if paid.payment.Version == x402.V1 {
		name = x402.HeaderPaymentResponseV1
		settlement.Network, _ = x402.V1Name(settlement.Network)
	}
	value, err := x402.Encode(settlement)
	return http.Header{name: {value}}, err
}

// challenge returns an answer with a challenge. That of version 2 is in a header, with problem as its error. The
// body is the object ours, with the members of the challenge of version 1 where the offer has one. The header is
// spelled as the protocol spells it, although HTTP does not care.
func (s *paidRoute) challenge(problem string, ours errorBody) (answer, error) {
	value, err := x402.Encode(s.offer.Challenge(problem))
	if err != nil {
		return answer{}, err
	}
	ans := answer{status: ours.Code, header: http.Header{
		x402.HeaderPaymentRequired: {value},
		"Cache-Control":            {"no-store"},
	}}
	ans.body, err = json.Marshal(ours)
	if v1, ok := s.offer.ChallengeV1(ours.Error); ok && err == nil {
		ans.body, err = merged(v1, ans.body)
	}
	return ans, err
}

// merged returns one JSON object with the members of v and of object; where both have one, that of object.
func merged(v any, object []byte) ([]byte, error) {
	members := map[string]any{}
	text, err := json.Marshal(v)
	if err = errors.Join(err, json.Unmarshal(text, &members), json.Unmarshal(object, &members)); err != nil {
		return nil, fmt.Errorf("encode challenge: %w", err)
	}
	return json.Marshal(members)
}

// refused is the error of a call with a payment, with what its answer needs beside err.
type refused struct {
	route *paidRoute
	paid  sold
	err   error
}

func (r *refused) Error() string { return r.err.Error() }

func (r *refused) Unwrap() error { return r.err }
