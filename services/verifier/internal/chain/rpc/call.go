package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

const (
	maxBatch   = 10           // calls in one batch; providers allow 20 and more
	maxReplies = 2 * maxBatch // answers that are read of one: strays and repeats happen
)

// call is one JSON-RPC call and, once answered, its result or error.
type call struct {
	method string
	params []any
	result []byte // JSON; nil before the answer and for null
	err    error  // holds a *chain.Fault, or is errNoMethod or errParams
	done   bool
}

func newCall(method string, params ...any) *call {
	return &call{method: method, params: params}
}

// Answers of nodes that lack a method, or refuse its parameters; callers may have
// another way to ask.
var (
	errNoMethod = errors.New("method not available")
	errParams   = errors.New("parameters refused")
)

// into decodes the result; ok is false for null.
func (c *call) into(value any) (ok bool, err error) {
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
		return false, fmt.Errorf("%s: answer cannot be read: %w", c.method, chain.ErrUnavailable)
	}
	return true, nil
}

// encodeCalls writes calls with the ids 1, 2, …; as a batch or, if it is not one,
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

// reply is one answer; result is a part of the body it came in.
type reply struct {
	id     string
	result []byte
	err    *rpcError
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// decodeReplies splits a body into answers without copying their results.
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
			return nil, batch, errors.New("more answers than there can be calls")
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
		switch member {
		case "id":
			r.id = strings.Trim(string(value), `"`)
		case "result":
			if value.Kind() != 'n' {
				r.result = value
			}
		case "error":
			if value.Kind() == '{' {
				r.err = new(rpcError)
				_ = evm.Decode(value, r.err) // an error of another shape is an error all the same
			}
		}
	}
	_, err = d.ReadToken()
	return r, err
}

// settle puts an answer into the call with its id; false when there is none, or
// it was answered before.
func settle(calls []*call, r reply) bool {
	id, err := strconv.Atoi(r.id)
	if err != nil || id < 1 || id > len(calls) || calls[id-1].done {
		return false
	}
	c := calls[id-1]
	c.done, c.result = true, r.result
	if r.err != nil {
		c.result, c.err = nil, r.err.reason()
	}
	return true
}

// reason translates a node's error. Nodes agree on few codes, so their words
// count too. "Not found" is told as null (no error) to match the other nodes.
func (e *rpcError) reason() error {
	message := strings.ToLower(e.Message)
	has := func(words ...string) bool {
		for _, word := range words {
			if strings.Contains(message, word) {
				return true
			}
		}
		return false
	}
	switch {
	case has("too large", "response size"):
		return chain.ErrUnavailable // not a rate limit: it must not open the circuit
	case e.Code == 429, e.Code == -32005, has("rate limit", "too many requests", "limit exceeded", "capacity", "throttl"):
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
