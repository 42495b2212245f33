package chaintest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
)

// Script is how a node misbehaves; the zero value is an honest node.
type Script struct {
	// Delay passes before each exchange is answered.
	Delay time.Duration
	// HTTP, when it returns true, has answered an exchange in the node's place.
	HTTP func(w http.ResponseWriter, r *http.Request, calls []recorded.Request) bool
	// Answer may change the answer to one call.
	Answer func(call recorded.Request, result any, err *recorded.Error) (any, *recorded.Error)
	// Batch may change the answers of a batch.
	Batch func(replies []recorded.Reply) any
}

// Node is a JSON-RPC node over HTTP that serves recorded blocks, keeps which exchanges
// it served, and misbehaves by its script.
type Node struct {
	*recorded.Node
	URL string

	mu        sync.Mutex
	script    Script
	exchanges []Exchange
}

// Exchange is one HTTP exchange that a node served.
type Exchange struct {
	Methods    []string
	Start, End time.Time
}

// NewNode serves a recording until the test ends.
func NewNode(t testing.TB, recording recorded.Recording) *Node {
	t.Helper()
	n := &Node{Node: recorded.NewNode(recording)}
	server := httptest.NewServer(http.HandlerFunc(n.serve))
	t.Cleanup(server.Close)
	n.URL = server.URL
	return n
}

// Play sets how the node behaves from now on.
func (n *Node) Play(s Script) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.script = s
}

// Forget empties the list of exchanges.
func (n *Node) Forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.exchanges = nil
}

// Exchanges lists what was served since the start or the last Forget.
func (n *Node) Exchanges() []Exchange {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.exchanges)
}

// Calls counts the calls of a method in Exchanges.
func (n *Node) Calls(method string) (count int) {
	for _, exchange := range n.Exchanges() {
		for _, name := range exchange.Methods {
			if name == method {
				count++
			}
		}
	}
	return count
}

func (n *Node) serve(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	calls, batch, err := recorded.ReadRequests(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n.mu.Lock()
	script := n.script
	n.mu.Unlock()
	select {
	case <-time.After(script.Delay):
	case <-r.Context().Done():
		return
	}
	defer n.note(calls, start)
	if script.HTTP != nil && script.HTTP(w, r, calls) {
		return
	}
	replies := make([]recorded.Reply, len(calls))
	for i, call := range calls {
		result, err := n.Call(call.Method, call.Params)
		if script.Answer != nil {
			result, err = script.Answer(call, result, err)
		}
		replies[i] = recorded.Reply{ID: call.ID, Result: result, Error: err}
	}
	switch {
	case !batch:
		recorded.WriteJSON(w, r, replies[0])
	case script.Batch != nil:
		recorded.WriteJSON(w, r, script.Batch(replies))
	default:
		recorded.WriteJSON(w, r, replies)
	}
}

func (n *Node) note(calls []recorded.Request, start time.Time) {
	exchange := Exchange{Start: start, End: time.Now()}
	for _, call := range calls {
		exchange.Methods = append(exchange.Methods, call.Method)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.exchanges = append(n.exchanges, exchange)
}

// Sequential returns how many exchanges, over all nodes, had to wait for one
// another: the length of the longest chain in which each began after the one
// before had ended. It needs nodes with a delay, so that exchanges sent side by
// side overlap.
func Sequential(nodes ...*Node) int {
	var all []Exchange
	for _, node := range nodes {
		all = append(all, node.Exchanges()...)
	}
	slices.SortFunc(all, func(a, b Exchange) int { return a.End.Compare(b.End) })
	length, end := 0, time.Time{}
	for _, exchange := range all {
		if !exchange.Start.Before(end) {
			length, end = length+1, exchange.End
		}
	}
	return length
}

// Edit returns a copy of a node's answer with some members of the object changed; a
// nil value makes a member null. An answer that is no object is returned as it is.
func Edit(answer any, changes map[string]any) any {
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err) // answers come from JSON
	}
	var object map[string]any
	if json.Unmarshal(text, &object) != nil || object == nil {
		return answer
	}
	for name, value := range changes {
		object[name] = value
	}
	return object
}
