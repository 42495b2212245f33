package facilitator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/pkg/retryafter"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// maxAnswer bounds an answer in bytes.
const maxAnswer = 256 << 10

// ErrAway means that there was no usable answer, for another reason than the facilitator's own
// limit.
var ErrAway = errors.New("facilitator gave no usable answer")

// Options is what a Client needs.
type Options struct {
	// URL is the facilitator's base, to which /verify, /settle and /supported are added.
	URL string
	// Token may be nil; else it makes the bearer token of each call.
	Token *CDPKey
	Now   func() time.Time
	// Called, when set, is called after every call with its name (verify, settle or supported),
	// its outcome (ok, refused, limit or unusable) and how long it took; and, with the outcome
	// open, for a check that the circuit does not let through.
	Called func(call, outcome string, took time.Duration)
}

// Client implements payment.Facilitator.
type Client struct {
	base *url.URL
	// checking and settling have connections of their own, so that slow checks
	// leave connections to settle. A RoundTripper follows no redirect, which would carry
	// the payment and the token to another host.
	checking, settling http.RoundTripper
	circuit            *circuit
	Options
}

var _ payment.Facilitator = (*Client)(nil)

// New makes a client. It is an error if URL is not of the form https://host/path, or http, or if
// Now is nil.
func New(o Options) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(o.URL, "/"))
	if err != nil || base.Host == "" || (base.Scheme != "https" && base.Scheme != "http") || base.RawQuery != "" ||
		base.User != nil {
		return nil, errors.New("facilitator URL is not of the form https://host/path")
	}
	if o.Now == nil {
		return nil, errors.New("facilitator client needs a clock")
	}
	if o.Called == nil {
		o.Called = func(string, string, time.Duration) {}
	}
	return &Client{base: base, Options: o, circuit: &circuit{now: o.Now}, checking: transport(), settling: transport()},
		nil
}

// ForStrangers returns a client for the payments of those of whom little is known. When it
// is told to pause, or gets no usable answers, that does not stop the checks of c. What
// stops the checks of c stops its checks too.
func (c *Client) ForStrangers() *Client {
	apart := *c
	apart.circuit = &circuit{now: c.Now, over: c.circuit}
	return &apart
}

// Uncounted returns a client whose checks stop none, not even its own, when they get no usable answers. What stops the
// checks of c stops its checks too.
func (c *Client) Uncounted() *Client {
	apart := c.ForStrangers()
	apart.circuit.never = true
	return apart
}

// transport returns a transport that keeps connections for bursts of payments to one host. Calls
// are bounded by their contexts.
func transport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    5 * time.Second,
		MaxConnsPerHost:        256,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}
}

// Verify implements payment.Facilitator. A check that got no usable answer is made once more
// while ctx lasts, unless the facilitator wants a pause or is at its own limit.
func (c *Client) Verify(ctx context.Context, body []byte) (answer x402.VerifyResponse, err error) {
	if wait, busy := c.circuit.wait(); wait > 0 {
		c.Called("verify", "open", 0)
		err := fmt.Errorf("%w: it was away or busy and is left alone for a moment", ErrAway)
		if busy {
			err = errors.Join(err, payment.ErrFacilitatorBusy)
		}
		return answer, &payment.LaterError{Err: err, After: wait}
	}
	for range 2 {
		before := err
		answer = x402.VerifyResponse{}
		err = c.call(ctx, http.MethodPost, "verify", body, &answer, func() *bool { return answer.IsValid })
		if before != nil && errors.Is(err, context.Canceled) {
			err = before // that the caller has left now hides no failure
		}
		var later *payment.LaterError
		if !errors.Is(err, ErrAway) || errors.As(err, &later) || ctx.Err() != nil {
			break
		}
	}
	return answer, err
}

// Settle implements payment.Facilitator. It makes one call: only the caller
// knows whether a retry is safe.
func (c *Client) Settle(ctx context.Context, body []byte) (answer x402.SettleResponse, err error) {
	err = c.call(ctx, http.MethodPost, "settle", body, &answer, func() *bool { return answer.Success })
	return answer, err
}

// Supported returns what the facilitator handles: a hint for people, never a
// condition.
func (c *Client) Supported(ctx context.Context) (answer x402.Supported, err error) {
	err = c.call(ctx, http.MethodGet, "supported", nil, &answer, func() *bool {
		if answer.Kinds == nil {
			return nil
		}
		return new(true)
	})
	return answer, err
}

// Bounds of Retry-After: usualPause counts where HTTP 429 comes without it, longestPause is the
// most that counts with HTTP 429, longestLimit with HTTP 402.
const (
	usualPause   = time.Second
	longestPause = 10 * time.Second
	longestLimit = time.Hour
)

// call makes one call and reads its JSON whatever the status. verdict returns the verdict in the
// answer, nil if it has none; a yes counts only with a status of success.
func (c *Client) call(ctx context.Context, method, path string, body []byte, answer any, verdict func() *bool) error {
	began := c.Now()
	outcome := "unusable"
	ctx, span := tracing.Call(ctx, "facilitator", path)
	defer func() {
		c.Called(path, outcome, c.Now().Sub(began))
		span.Set("outcome", outcome)
		if outcome == "ok" || outcome == "refused" { // a refusal is an answer
			span.End("")
		} else {
			span.End(outcome)
		}
	}()
	status, header, text, err := c.exchange(ctx, method, path, body)
	if err != nil {
		if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			c.circuit.failed()
		}
		return fmt.Errorf("%w: %s: %w", ErrAway, path, err)
	}
	var found *bool
	fault := fmt.Errorf("%s: status %d, no verdict", path, status)
	if err := strictjson.Unmarshal(text, answer, strictjson.Rules{AllowUnknown: true, AllowNull: true}); err == nil {
		found = verdict()
	} else {
		fault = fmt.Errorf("%s: status %d, no JSON that can be read", path, status)
	}
	switch {
	case found != nil && !*found:
		outcome = "refused"
	case found != nil && status >= 200 && status < 300:
		outcome = "ok"
	case status == http.StatusPaymentRequired: // more work must be paid for
		outcome = "limit"
		err := fmt.Errorf("%s: status %d: %w", path, status, payment.ErrFacilitatorLimit)
		return &payment.LaterError{Err: err, After: retryafter.Read(header, c.Now(), 0, longestLimit)}
	case status == http.StatusTooManyRequests:
		pause := retryafter.Read(header, c.Now(), usualPause, longestPause)
		c.circuit.busy(pause)
		return &payment.LaterError{
			Err: fmt.Errorf("%w: %w: %w", ErrAway, payment.ErrFacilitatorBusy, fault), After: pause,
		}
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		c.circuit.failed()
		return fmt.Errorf("%w: %w", ErrAway, fault)
	default: // it is there; the payment may be one that it chokes on
		return fmt.Errorf("%w: %w: %w", ErrAway, payment.ErrNoVerdict, fault)
	}
	c.circuit.succeeded()
	return nil
}

// exchange makes a request and returns the whole answer, of at most maxAnswer.
func (c *Client) exchange(
	ctx context.Context, method, path string, body []byte,
) (status int, header http.Header, text []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	request.Header.Set("Accept", "application/json")
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.Token != nil {
		token, err := c.Token.Sign(method, request.URL.Host, request.URL.EscapedPath(), c.Now())
		if err != nil {
			return 0, nil, nil, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	connections := c.checking
	if path == "settle" {
		connections = c.settling
	}
	response, err := connections.RoundTrip(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = errors.New("answer is too large")
	}
	return response.StatusCode, response.Header, text, err
}
