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
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/strictjson"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// maxAnswer bounds an answer in bytes.
const maxAnswer = 256 << 10

// ErrAway means that there was no usable answer.
var ErrAway = errors.New("facilitator gave no usable answer")

// Options is what a Client needs.
type Options struct {
	// URL is the facilitator's base, to which /verify and /settle are added.
	URL string
	// Token may be nil; else it makes the bearer token of each call.
	Token *CDPKey
	Now   func() time.Time
	// Called, when set, is told of every call: verify, settle or supported; its
	// outcome: ok, refused, limit, unusable, or open when the circuit was; and
	// how long it took.
	Called func(call, outcome string, took time.Duration)
}

// Client implements payment.Facilitator.
type Client struct {
	targets map[string]string // the URL of each call
	// checking and settling have connections of their own, so that slow checks
	// leave room to settle. A RoundTripper follows no redirect, which would carry
	// the payment and the token elsewhere.
	checking, settling http.RoundTripper
	circuit            *circuit
	Options
}

var _ payment.Facilitator = (*Client)(nil)

// New makes a client.
func New(o Options) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(o.URL, "/"))
	if err != nil || base.Host == "" || (base.Scheme != "https" && base.Scheme != "http") || base.RawQuery != "" || base.User != nil {
		return nil, errors.New("facilitator URL is not of the form https://host/path")
	}
	if o.Now == nil {
		return nil, errors.New("facilitator client needs a clock")
	}
	if o.Called == nil {
		o.Called = func(string, string, time.Duration) {}
	}
	targets := map[string]string{}
	for _, call := range []string{"verify", "settle", "supported"} {
		targets[call] = base.JoinPath(call).String()
	}
	return &Client{targets: targets, Options: o, circuit: &circuit{now: o.Now}, checking: transport(), settling: transport()}, nil
}

// transport keeps connections for bursts of payments to one host. Calls are
// bounded by their contexts.
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

// Verify implements payment.Facilitator. A question that got no usable answer
// is put once more while ctx lasts.
func (c *Client) Verify(ctx context.Context, body []byte) (x402.VerifyResponse, error) {
	var answer x402.VerifyResponse
	if !c.circuit.closed() {
		c.Called("verify", "open", 0)
		return answer, fmt.Errorf("%w: it was away and is left alone for a moment", ErrAway)
	}
	answer, err := c.verify(ctx, body)
	if errors.Is(err, ErrAway) && ctx.Err() == nil {
		answer, err = c.verify(ctx, body)
	}
	return answer, err
}

func (c *Client) verify(ctx context.Context, body []byte) (answer x402.VerifyResponse, err error) {
	err = c.call(ctx, http.MethodPost, "verify", body, &answer, func() (said, yes bool) {
		return answer.IsValid != nil, answer.IsValid != nil && *answer.IsValid
	})
	return answer, err
}

// Settle implements payment.Facilitator. It is asked once: repeating is for who
// knows what may have happened.
func (c *Client) Settle(ctx context.Context, body []byte) (answer x402.SettleResponse, err error) {
	err = c.call(ctx, http.MethodPost, "settle", body, &answer, func() (said, yes bool) {
		return answer.Success != nil, answer.Success != nil && *answer.Success
	})
	return answer, err
}

// Supported asks what the facilitator handles: a hint for people, never a
// condition.
func (c *Client) Supported(ctx context.Context) (answer x402.Supported, err error) {
	err = c.call(ctx, http.MethodGet, "supported", nil, &answer, func() (said, yes bool) { return answer.Kinds != nil, true })
	return answer, err
}

// call makes one call and reads its JSON whatever the status. verdict tells
// whether the answer says anything and whether that is yes; a yes counts only
// with a status of success.
func (c *Client) call(ctx context.Context, method, path string, body []byte, answer any, verdict func() (said, yes bool)) error {
	began := c.Now()
	outcome := "unusable"
	ctx, span := tracing.Call(ctx, "facilitator", path)
	defer func() {
		c.Called(path, outcome, c.Now().Sub(began))
		span.Set("outcome", outcome)
		span.End(failure(outcome))
	}()
	r, err := c.exchange(ctx, method, path, body)
	if err != nil {
		if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			c.circuit.failed()
		}
		return fmt.Errorf("%w: %s: %w", ErrAway, path, err)
	}
	said := false
	yes := false
	readErr := strictjson.Unmarshal(r.text, answer, strictjson.Rules{AllowUnknown: true, AllowNull: true})
	if readErr == nil {
		said, yes = verdict()
	}
	success := r.status >= 200 && r.status < 300
	switch {
	case said && !yes:
		outcome = "refused"
	case said && success:
		outcome = "ok"
	case r.isLimit(c.Now()):
		outcome = "limit"
		return fmt.Errorf("%s: status %d: %w", path, r.status, payment.ErrFacilitatorLimit)
	case r.isAway():
		c.circuit.failed()
		return fmt.Errorf("%w: %s: status %d, %s", ErrAway, path, r.status, what(readErr))
	default: // it is there; the payment may be one that it chokes on
		return fmt.Errorf("%w: %w: %s: status %d, %s", ErrAway, payment.ErrNoVerdict, path, r.status, what(readErr))
	}
	c.circuit.succeeded()
	return nil
}

// failure is the outcome as it is told of a span: a no is an answer.
func failure(outcome string) string {
	if outcome == "ok" || outcome == "refused" {
		return ""
	}
	return outcome
}

func what(readErr error) string {
	if readErr != nil {
		return "no JSON that can be read"
	}
	return "no verdict"
}

// reply is what came back, whole.
type reply struct {
	status     int
	retryAfter string
	text       []byte
}

// isLimit tells a status that says that more work must be paid for. A facilitator
// that only wants a short pause says how short.
func (r reply) isLimit(now time.Time) bool {
	if r.status == http.StatusPaymentRequired {
		return true
	}
	seconds, err := strconv.Atoi(r.retryAfter)
	if date, isDate := http.ParseTime(r.retryAfter); isDate == nil {
		seconds, err = int(date.Sub(now).Seconds()), nil
	}
	return r.status == http.StatusTooManyRequests && (err != nil || seconds > 60)
}

// isAway tells statuses that say that nobody is there to answer, or wants a pause.
func (r reply) isAway() bool {
	switch r.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

func (c *Client) exchange(ctx context.Context, method, path string, body []byte) (reply, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.targets[path], bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	request.Header.Set("Accept", "application/json")
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.Token != nil {
		token, err := c.Token.Sign(method, request.URL.Host, request.URL.EscapedPath(), c.Now())
		if err != nil {
			return reply{}, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	connections := c.checking
	if path == "settle" {
		connections = c.settling
	}
	response, err := connections.RoundTrip(request)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = errors.New("answer is too large")
	}
	return reply{status: response.StatusCode, retryAfter: response.Header.Get("Retry-After"), text: text}, err
}
