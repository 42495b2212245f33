package recorded

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Request is one JSON-RPC call.
type Request struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// Reply is the answer to a call: a result or an error.
type Reply struct {
	ID     json.RawMessage
	Result any
	Error  *Error
}

// Error is a JSON-RPC error.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// MarshalJSON writes either the result or the error, as JSON-RPC wants it.
func (r Reply) MarshalJSON() ([]byte, error) {
	members := map[string]any{"jsonrpc": "2.0", "id": r.ID}
	if r.Error != nil {
		members["error"] = r.Error
	} else {
		members["result"] = r.Result
	}
	return json.Marshal(members)
}

// Bounds of one request, because its answers are put together in memory.
const (
	maxRequest = 1 << 20 // bytes
	maxBatch   = 100     // calls
)

// ServeHTTP answers JSON-RPC over HTTP POST, single calls and batches.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) { Serve(w, r, n.Call) }

// Serve answers as ServeHTTP does, each call with what answer returns.
func Serve(w http.ResponseWriter, r *http.Request, answer func(method string, params []json.RawMessage) (any, *Error)) {
	calls, batch, err := ReadRequests(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	replies := make([]Reply, len(calls))
	for i, call := range calls {
		replies[i] = Reply{ID: call.ID}
		replies[i].Result, replies[i].Error = answer(call.Method, call.Params)
	}
	if batch {
		WriteJSON(w, r, replies)
	} else {
		WriteJSON(w, r, replies[0])
	}
}

// ReadRequests reads a call or a batch of calls.
func ReadRequests(body io.Reader) (calls []Request, batch bool, err error) {
	data, err := io.ReadAll(io.LimitReader(body, maxRequest))
	if err != nil {
		return nil, false, err
	}
	if batch = bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")); batch {
		err = json.Unmarshal(data, &calls)
		if len(calls) > maxBatch {
			return nil, batch, fmt.Errorf("more than %d calls", maxBatch)
		}
		return calls, batch, err
	}
	calls = make([]Request, 1)
	err = json.Unmarshal(data, &calls[0])
	return calls, batch, err
}

// WriteJSON answers with value, compressed where the client takes that.
func WriteJSON(w http.ResponseWriter, r *http.Request, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = w.Write(data) // the client has gone
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	zipped, _ := writers.Get().(*gzip.Writer)
	defer writers.Put(zipped)
	zipped.Reset(w)
	_, _ = zipped.Write(data) // the client has gone
	_ = zipped.Close()
}

// writers are kept from answer to answer: a new one takes a megabyte, which the race
// detector makes dear.
var writers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is one of the package's
	return w
}}
