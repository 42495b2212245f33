package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// newHTTPClient is for JSON-RPC: connections are kept, answers may be
// compressed, redirects are not followed. Each call's time is bounded by its
// context.
func newHTTPClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2:      true,
			MaxIdleConns:           256,
			MaxIdleConnsPerHost:    64,
			IdleConnTimeout:        90 * time.Second,
			TLSHandshakeTimeout:    5 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// errBatchRefused is how a node shows that it does not take batches.
var errBatchRefused = errors.New("batch refused")

// post sends one body and gives the answer's. Errors hold a *chain.Fault, or are
// errBatchRefused; they never hold the URL, which may have a key in it.
func (e *endpoint) post(caller context.Context, body []byte, l *lease) ([]byte, error) {
	ctx, cancel := context.WithTimeout(caller, e.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("request cannot be made: %w", chain.ErrUnavailable)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "pforte-verifier")
	response, err := e.client.Do(request)
	if err != nil {
		return nil, lost(caller, ctx)
	}
	defer response.Body.Close() //nolint:errcheck // nothing is written
	if response.StatusCode != http.StatusOK {
		return e.refused(ctx, response)
	}
	answer, err := readBody(ctx, response.Body, l)
	switch {
	case err == nil:
		return answer, nil
	case isFault(err):
		return nil, err
	default:
		return nil, lost(caller, ctx)
	}
}

// lost is an exchange that broke off.
func lost(caller, ctx context.Context) error {
	switch {
	case caller.Err() != nil:
		return fmt.Errorf("%w: %w", errGone, chain.ErrUnavailable)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errTimeout, chain.ErrUnavailable)
	}
	return fmt.Errorf("connection lost: %w", chain.ErrUnavailable)
}

// How an exchange broke off.
var (
	errTimeout = errors.New("timeout")
	errGone    = errors.New("caller is gone")
)

// refused reads an answer with another status than 200. A node may tell a
// JSON-RPC error in it.
func (e *endpoint) refused(ctx context.Context, r *http.Response) ([]byte, error) {
	switch {
	case r.StatusCode == http.StatusTooManyRequests:
		limited := fmt.Errorf("status 429: %w", chain.ErrRateLimited)
		return nil, chain.WithRetryAfter(limited, retryAfter(r.Header, e.now()))
	case r.StatusCode >= 500 && r.StatusCode != http.StatusNotImplemented:
		return nil, fmt.Errorf("status %d: %w", r.StatusCode, chain.ErrUnavailable)
	}
	if body, err := readBody(ctx, io.LimitReader(r.Body, headBody), nil); err == nil {
		if replies, _, err := decodeReplies(body); err == nil && len(replies) > 0 && replies[0].err != nil {
			return body, nil
		}
	}
	switch r.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
		http.StatusNotImplemented:
		return nil, fmt.Errorf("status %d: %w: %w", r.StatusCode, errBatchRefused, chain.ErrUnavailable)
	default:
		return nil, fmt.Errorf("status %d: %w", r.StatusCode, chain.ErrUnavailable)
	}
}

// retryAfter reads the header (RFC 9110 section 10.2.3), between a second and a
// minute; without one, a few seconds.
func retryAfter(h http.Header, now time.Time) time.Duration {
	const usual, longest = 5 * time.Second, time.Minute
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(max(time.Duration(seconds)*time.Second, time.Second), longest)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), time.Second), longest)
	}
	return usual
}

func isFault(err error) bool {
	var fault *chain.Fault
	return errors.As(err, &fault)
}
