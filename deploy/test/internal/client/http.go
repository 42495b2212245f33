package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/pforte/pforte/pkg/x402"
)

// maxAnswer bounds an answer that is read, in bytes.
const maxAnswer = 8 << 20

// Answer is a response that was read. Err is why none, or not all of it, came. A body
// is cut off at maxAnswer without an error.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error
}

// NewRequest returns a request with a body of JSON: a string as it is, none for nil
// and "", and anything else marshalled.
func NewRequest(ctx context.Context, method, url string, body any) (*http.Request, error) {
	text, raw := body.(string)
	if !raw && body != nil {
		marshalled, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = string(marshalled)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(text))
	if err == nil && text != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, err
}

// Do sends a request by c, nil for http.DefaultClient, and reads at most maxAnswer of the answer's body.
func Do(c *http.Client, request *http.Request) Answer {
	if c == nil {
		c = http.DefaultClient
	}
	response, err := c.Do(request) //nolint:gosec // the tests choose the address
	if err != nil {
		return Answer{Err: err}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return Answer{Status: response.StatusCode, Header: response.Header, Body: body, Err: err}
}

// send makes a request, has change change it, and sends it by c.
func send(ctx context.Context, c *http.Client, method, url string, body any, change func(*http.Request)) Answer {
	request, err := NewRequest(ctx, method, url, body)
	if err != nil {
		return Answer{Err: err}
	}
	change(request)
	return Do(c, request)
}

func unchanged(*http.Request) {}

// Get reads a URL.
func Get(ctx context.Context, url string) Answer {
	return send(ctx, nil, http.MethodGet, url, nil, unchanged)
}

// Post sends JSON to a URL.
func Post(ctx context.Context, url string, body any) Answer {
	return send(ctx, nil, http.MethodPost, url, body, unchanged)
}

// Want returns an error unless the answer has a status, and reads its JSON into v
// unless v is nil.
func (a Answer) Want(status int, v any) error {
	if a.Err != nil || a.Status != status {
		return fmt.Errorf("%s in place of %d: %.300s", a, status, a.Body)
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(a.Body, v)
}

// OK reports whether an answer came, without Err and with status 200.
func (a Answer) OK() bool { return a.Err == nil && a.Status == http.StatusOK }

// Reason returns the member "reason" of an answer of the verifier, "" where it has none.
func (a Answer) Reason() string {
	var body struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal(a.Body, &body) != nil {
		return ""
	}
	return body.Reason
}

// Challenge reads the offer in the header of a 402 answer.
func (a Answer) Challenge() (c x402.PaymentRequired, err error) {
	if a.Err != nil || a.Status != http.StatusPaymentRequired {
		return c, fmt.Errorf("no offer but %s: %.200s", a, a.Body)
	}
	return c, x402.Decode(a.Header.Get(x402.HeaderPaymentRequired), &c)
}

// String returns the status and the reason of the answer, or why there is none.
func (a Answer) String() string {
	if a.Err != nil {
		return "no answer: " + a.Err.Error()
	}
	return strings.TrimSpace(strconv.Itoa(a.Status) + " " + a.Reason())
}
