package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// verify reads requests for the evidence about a chain's transactions.
func (a *api) verify(chain Chain) decoder {
	return func(c echo.Context, body []byte) (pricedRequest, error) {
		request, err := verification.ParseRequest(body)
		if err != nil {
			return pricedRequest{}, err
		}
		present := asJSON
		if wantsEnvelope(c.Request().Header.Values("Accept")) {
			present = asEnvelope
		}
		return pricedRequest{
			canonical: request.Canonical,
			work: func(ctx context.Context) ([]byte, error) {
				return a.receipts.Signed(ctx, chain.Name, chain.Verifier, request)
			},
			present: present,
		}, nil
	}
}

func asJSON(answer []byte) ([]byte, string, error) { return answer, receipt.MediaTypeJSON, nil }

// asEnvelope returns the same signed receipt as a DSSE envelope.
func asEnvelope(answer []byte) ([]byte, string, error) {
	var signed receipt.Response
	if err := json.Unmarshal(answer, &signed); err != nil {
		return nil, "", fmt.Errorf("read the signed receipt: %w", err)
	}
	envelope, err := signed.Envelope()
	if err != nil {
		return nil, "", err
	}
	body, err := jsonBody(envelope)
	return body, receipt.MediaTypeDSSE, err
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
