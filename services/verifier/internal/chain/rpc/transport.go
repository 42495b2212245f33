package rpc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pforte/pforte/pkg/flight"
	"github.com/pforte/pforte/pkg/retryafter"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

const (
	maxBatch   = 10           // calls in one batch; providers allow 20 and more
	maxReplies = 2 * maxBatch // replies read from one body: unknown and repeated ids happen
)

// call is one JSON-RPC call and, once answered, its result or error.
type call struct {
	method string
	params []any
	result []byte // JSON; nil before the reply, for null and with an error
	err    error  // nil, or holds a *chain.Fault, or is errNoMethod or errParams
	done   bool
}

func newCall(method string, params ...any) *call { return &call{method: method, params: params} }

// How an exchange or a call fails. Each but errNoMethod and errParams holds a *chain.Fault.
var (
	errNoMethod     = errors.New("method not available")
	errParams       = errors.New("parameters refused")
	errBatchRefused = fmt.Errorf("batch refused: %w", chain.ErrUnavailable)
	errTimeout      = fmt.Errorf("timeout: %w", chain.ErrUnavailable)
	errCanceled     = fmt.Errorf("canceled by the caller: %w", chain.ErrUnavailable)
	errNotJSONRPC   = fmt.Errorf("response is not JSON-RPC: %w", chain.ErrUnavailable)
	errTooLarge     = fmt.Errorf("response is too large: %w", chain.ErrUnavailable)
	errNoMemory     = fmt.Errorf("no memory for the response: %w", chain.ErrUnavailable)
)

// decode decodes the result into value and reports whether there is one.
func (c *call) decode(value any) (found bool, err error) {
	if isAny(c.err, errNoMethod, errParams) {
		return false, fmt.Errorf("%s: %w: %w", c.method, c.err, chain.ErrUnavailable)
	}
	if c.err != nil {
		return false, fmt.Errorf("%s: %w", c.method, c.err)
	}
	if c.result == nil {
		return false, nil
	}
	if err := evm.Decode(c.result, value); err != nil {
		return false, fmt.Errorf("%s: decode the result: %w", c.method, chain.ErrUnavailable)
	}
	return true, nil
}

// do makes the calls, at most maxBatch of them, in one exchange where the node allows it.
// Results and errors of single calls are in the calls. The error returned is that of an
// exchange, or a rate limit; after it the calls mean nothing.
//
// The memory of the responses is taken from r; without r, each is bounded to
// maxHeadBody.
func (e *endpoint) do(ctx context.Context, r *reservation, calls ...*call) error {
	if len(calls) > 1 && !e.singly.holds(e.now()) {
		err := e.send(ctx, r, true, calls)
		switch {
		case err == nil:
			calls = slices.DeleteFunc(slices.Clone(calls), func(c *call) bool { return c.done })
			if len(calls) == 0 {
				return nil
			}
		case !errors.Is(err, errBatchRefused):
			return err
		}
		e.singly.set(e.now().Add(capabilityTTL)) // it refuses batches, or answers a part of them only
	}
	errs := make([]error, len(calls))
	var group sync.WaitGroup
	for i, c := range calls {
		group.Go(func() {
			errs[i] = guarded(e.log, func() error { return e.send(ctx, r, false, []*call{c}) })
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

// send makes one exchange for all calls, or for a single call that is not in a batch.
func (e *endpoint) send(ctx context.Context, r *reservation, batch bool, calls []*call) error {
	for _, c := range calls {
		c.done, c.result, c.err = false, nil, nil
	}
	body, err := e.exchange(ctx, r, calls, batch)
	if err != nil {
		return err
	}
	replies, isBatch, err := decodeReplies(body)
	if err != nil || isBatch && !batch {
		return errNotJSONRPC
	}
	if !isBatch && replies[0].err != nil {
		replies[0].id = "1" // errors may come without an id
	}
	for _, reply := range replies {
		assign(calls, reply) // other ids are ignored; open calls are made again
	}
	if err := e.rateLimited(calls); err != nil {
		return err
	}
	switch {
	case batch && !isBatch:
		return errBatchRefused
	case !batch && !calls[0].done:
		return errNotJSONRPC
	default:
		return nil
	}
}

// rateLimited returns a rate limit that came as a reply, and then opens the circuit; else nil.
func (e *endpoint) rateLimited(calls []*call) error {
	for _, c := range calls {
		if errors.Is(c.err, chain.ErrRateLimited) {
			err := chain.WithRetryAfter(c.err, retryAfter(nil, e.now()))
			e.circuit.record(e.now(), err)
			return err
		}
	}
	return nil
}

// exchange sends the calls and records how it went, for circuit, metrics and trace.
func (e *endpoint) exchange(ctx context.Context, r *reservation, calls []*call, batch bool) ([]byte, error) {
	request, err := encodeCalls(calls, batch)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", calls[0].method, chain.ErrUnavailable)
	}
	method := calls[0].method
	if len(calls) > 1 {
		method = "batch"
	}
	ctx, span := tracing.Call(ctx, "rpc", method)
	start := e.now()
	body, err := e.post(ctx, request, r)
	e.hooks.RPC(e.name, method, e.now().Sub(start), err)
	e.circuit.record(e.now(), err)
	span.Set("node", e.name)
	span.End(tracing.Failed(err))
	return body, err
}

// newHTTPClient returns a client for JSON-RPC: connections are kept, responses may
// be compressed, redirects are not followed. Opening a connection, and its TLS handshake,
// take five seconds each at most, so that a node that is gone is given up soon. The
// context bounds the whole call.
func newHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	transport.TLSHandshakeTimeout = 5 * time.Second
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 256, 64
	transport.MaxResponseHeaderBytes = 64 << 10
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post sends one body and returns the response's. Its errors never hold the URL,
// which may have a key in it.
func (e *endpoint) post(caller context.Context, body []byte, r *reservation) ([]byte, error) {
	ctx, cancel := context.WithTimeout(caller, e.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("create the request: %w", chain.ErrUnavailable)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "pforte-verifier")
	response, err := e.client.Do(request)
	if err == nil {
		defer response.Body.Close() //nolint:errcheck // nothing is written
		if response.StatusCode != http.StatusOK {
			return e.readError(response)
		}
		if body, err = readBody(response.Body, r); err == nil || isFault(err) {
			return body, err
		}
	}
	switch {
	case caller.Err() != nil:
		return nil, errCanceled
	case ctx.Err() != nil:
		return nil, errTimeout
	}
	return nil, fmt.Errorf("connection failed: %w", chain.ErrUnavailable)
}

// readError reads a response with another status than 200, which may hold a
// JSON-RPC error.
func (e *endpoint) readError(r *http.Response) ([]byte, error) {
	switch {
	case r.StatusCode == http.StatusTooManyRequests:
		limited := fmt.Errorf("status 429: %w", chain.ErrRateLimited)
		return nil, chain.WithRetryAfter(limited, retryAfter(r.Header, e.now()))
	case r.StatusCode >= 500 && r.StatusCode != http.StatusNotImplemented:
		return nil, fmt.Errorf("status %d: %w", r.StatusCode, chain.ErrUnavailable)
	}
	if body, err := readBody(r.Body, nil); err == nil {
		if replies, _, err := decodeReplies(body); err == nil && len(replies) > 0 && replies[0].err != nil {
			return body, nil
		}
	}
	switch r.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
		http.StatusNotImplemented:
		return nil, fmt.Errorf("status %d: %w", r.StatusCode, errBatchRefused)
	default:
		return nil, fmt.Errorf("status %d: %w", r.StatusCode, chain.ErrUnavailable)
	}
}

// retryAfter returns for how long a node wants no requests, at most a minute; five
// seconds when it names no time.
func retryAfter(h http.Header, now time.Time) time.Duration {
	return retryafter.Read(h, now, 5*time.Second, time.Minute)
}

// encodeCalls encodes calls with the ids 1, 2, …; as a batch or, if it is not one,
// the only call by itself.
func encodeCalls(calls []*call, batch bool) ([]byte, error) {
	type request struct {
		Version string `json:"jsonrpc"`
		ID      int    `json:"id"`
		Method  string `json:"method"`
		Params  []any  `json:"params"`
	}
	requests := make([]request, len(calls))
	for i, c := range calls {
		requests[i] = request{"2.0", i + 1, c.method, c.params}
	}
	if batch {
		return json.Marshal(requests)
	}
	return json.Marshal(requests[0])
}

// reply is one JSON-RPC reply; result is a part of the body that it came in.
type reply struct {
	id     string
	result []byte
	err    *rpcError
}

// decodeReplies splits a body into replies without copying their results.
func decodeReplies(body []byte) (replies []reply, batch bool, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() == '[' {
		batch = true
		if _, err := d.ReadToken(); err != nil {
			return nil, batch, err
		}
	}
	for d.PeekKind() == '{' {
		if len(replies) == maxReplies {
			return nil, batch, errors.New("more replies than calls")
		}
		r, err := decodeReply(d, body)
		if err != nil {
			return nil, batch, err
		}
		replies = append(replies, r)
		if !batch {
			return replies, batch, nil
		}
	}
	if !batch {
		return nil, batch, errors.New("neither an object nor an array")
	}
	_, err = d.ReadToken() // the closing bracket, else what is wrong
	return replies, batch, err
}

func decodeReply(d *jsontext.Decoder, body []byte) (r reply, err error) {
	if _, err := d.ReadToken(); err != nil {
		return r, err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return r, err
		}
		member := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return r, err
		}
		end := d.InputOffset()
		value = body[end-int64(len(value)) : end]
		switch {
		case member == "id":
			r.id = strings.Trim(string(value), `"`)
		case member == "result" && value.Kind() != 'n':
			r.result = value
		case member == "error" && value.Kind() != 'n':
			r.err = new(rpcError)
			_ = evm.Decode(value, r.err) // an error of another shape is an error all the same
		}
	}
	_, err = d.ReadToken()
	return r, err
}

// assign puts a reply into the call with its id, if that is still open.
func assign(calls []*call, r reply) {
	id, err := strconv.Atoi(r.id)
	if err != nil || id < 1 || id > len(calls) || calls[id-1].done {
		return
	}
	c := calls[id-1]
	c.done, c.result = true, r.result
	if r.err != nil {
		c.result, c.err = nil, r.err.fault()
	}
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// fault translates a node's error. Nodes agree on few codes, so their messages count
// too. "Not found" is no error: other nodes answer null then.
func (e *rpcError) fault() error {
	message := strings.ToLower(e.Message)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(message, word) })
	}
	switch {
	case has("too large", "response size"):
		return chain.ErrUnavailable // not a rate limit: it must not open the circuit
	case e.Code == 429, e.Code == -32005, has("rate limit", "too many requests", "limit exceeded", "capacity",
		"throttl"):
		return chain.ErrRateLimited
	case e.Code == 4444, has("prun", "missing trie node", "history"):
		return chain.ErrHistoryPruned
	case has("indexing is in progress"):
		return chain.ErrReceiptUnavailable
	case e.Code == -32601, has("not supported", "unsupported", "does not exist", "not available"):
		return errNoMethod
	case e.Code == -32602:
		return errParams
	case has("not found", "unknown block", "could not find"):
		return nil
	default:
		return chain.ErrUnavailable
	}
}

// guarded runs work. A panic in it, as over a response that the code was not made for, becomes
// an error and does not end the process.
func guarded(log *slog.Logger, work func() error) error {
	_, err := flight.Guard(func() (struct{}, error) { return struct{}{}, work() })
	return asFault(log, err)
}

// asFault returns the error of shared or guarded work as one that holds a *chain.Fault; nil stays nil. One
// that has none and is no panic becomes errCanceled: it is taken for the caller's cancellation.
func asFault(log *slog.Logger, err error) error {
	var panicked *flight.PanicError
	switch {
	case err == nil, isFault(err):
		return err
	case errors.As(err, &panicked):
		log.Error("panic while reading a chain", "panic", panicked.Value, "stack", string(panicked.Stack))
		return fmt.Errorf("panic: %v: %w", panicked.Value, chain.ErrUnavailable)
	default:
		return errCanceled
	}
}

func isFault(err error) bool {
	var fault *chain.Fault
	return errors.As(err, &fault)
}
