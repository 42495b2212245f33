package rpc_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
)

// capabilities are nodes that work and answer correctly, but differently than most.
var capabilities = map[string]struct {
	script chaintest.Script
	first  int // sequential round trips of the first cold read
	later  int // of cold reads after the node is known
}{
	"it answers batches as it should":            {chaintest.Script{}, 2, 2},
	"it shuffles batches":                        {chaintest.Script{Batch: func(r []recorded.Reply) any { slices.Reverse(r); return r }}, 2, 2},
	"it refuses batches by status":               {without(true, http.StatusBadRequest), 3, 2},
	"it refuses batches by an error":             {chaintest.Script{Batch: refuseBatch}, 3, 2},
	"it answers batches with one object":         {chaintest.Script{Batch: func(r []recorded.Reply) any { return r[0] }}, 3, 2},
	"it drops the last of a batch":               {chaintest.Script{Batch: func(r []recorded.Reply) any { return r[:len(r)-1] }}, 3, 2},
	"it answers batches with nothing":            {chaintest.Script{Batch: func([]recorded.Reply) any { return []any{} }}, 3, 2},
	"it answers one call twice":                  {chaintest.Script{Batch: func(r []recorded.Reply) any { r[1] = r[0]; return r }}, 3, 2},
	"it has no eth_getBlockReceipts":             {refusing("eth_getBlockReceipts", -32601, "the method eth_getBlockReceipts does not exist/is not available"), 3, 3},
	"it takes receipts by number":                {onCall("eth_getBlockReceipts", byNumberOnly), 3, 2},
	"it ignores the hash and returns the latest": {onCall("eth_getBlockReceipts", latestForHash), 3, 2},
	"it has null for receipts":                   {nothing("eth_getBlockReceipts"), 4, 4},
	"it calls the receipts too large":            {refusing("eth_getBlockReceipts", -32005, "response size limit exceeded"), 4, 4},
	"it has half of the receipts":                {inReceipts(func(list []any) []any { return list[:5] }), 4, 4},
	"it does not find the block's receipts":      {onCall("eth_getBlockReceipts", notFound), 4, 4},
	"it shuffles receipts":                       {inReceipts(func(list []any) []any { slices.Reverse(list); return list }), 2, 2},
	"it does not report the gas used":            {inReceipts(editing(4, map[string]any{"gasUsed": nil})), 2, 2},
	"it does not report types":                   {both(edited("eth_getTransactionReceipt", map[string]any{"type": nil}), inReceipts(editing(4, map[string]any{"type": nil}))), 2, 2},
}

func refuseBatch([]recorded.Reply) any {
	return recorded.Reply{Error: &recorded.Error{Code: -32600, Message: "batch requests are not supported"}}
}

func byNumberOnly(c recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
	if len(c.Params[0]) > 60 {
		return nil, &recorded.Error{Code: -32602, Message: "invalid argument 0: want a number"}
	}
	return result, err
}

// notFound answers as nodes do that lack one block: the method is there all the same.
func notFound(c recorded.Request, _ any, _ *recorded.Error) (any, *recorded.Error) {
	if len(c.Params[0]) > 60 {
		return nil, nil
	}
	return nil, &recorded.Error{Code: -32000, Message: "the block does not exist"}
}

func latestForHash(c recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
	if len(c.Params[0]) > 60 {
		return []any{map[string]any{"blockHash": otherHash, "transactionIndex": "0x0"}}, nil
	}
	return result, err
}

func TestCapabilities_ThatAreDetectedAreUsed(t *testing.T) {
	for name, node := range capabilities {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := []int{node.first, node.later}
			got, calls := roundTrips(t, node.script, 100*time.Millisecond)
			if !slices.Equal(got, want) { // on a busy machine calls that are made at once may arrive apart
				got, calls = roundTrips(t, node.script, time.Second)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d round trips, want %d: %v", got, want, calls)
			}
		})
	}
}

// roundTrips returns the round trips of two reads, the first by a reader that does not
// know the node, and what was called. The node answers after the delay.
func roundTrips(t *testing.T, script chaintest.Script, delay time.Duration) (trips []int, calls []string) {
	n := baseNode(t)
	script.Delay = delay
	// Keeps no block: the second read is cold, but the node is known.
	r := open(t, rpc.Options{Chain: config(n), Memory: rpc.NewMemory(1, 0)})
	n.Play(script)
	for range 2 {
		n.Forget()
		if _, err := r.Read(t.Context(), baseTransaction); err != nil {
			t.Fatal(err)
		}
		trips, calls = append(trips, chaintest.Sequential(n)), append(calls, methods(n))
	}
	return trips, calls
}

func methods(n *chaintest.Node) string {
	var all []string
	for _, exchange := range n.Exchanges() {
		all = append(all, strings.Join(exchange.Methods, "+"))
	}
	return strings.Join(all, ", ")
}

func TestBatch_HasAtMostTenCalls(t *testing.T) {
	n := baseNode(t)
	n.Play(refusing("eth_getBlockReceipts", -32601, "no"))
	r := open(t, rpc.Options{Chain: config(n)})
	if _, err := r.Read(t.Context(), baseTransaction); err != nil {
		t.Fatal(err)
	}
	most := 0
	for _, exchange := range n.Exchanges() {
		most = max(most, len(exchange.Methods))
	}
	if most != 10 { // 15 receipts: ten and five
		t.Errorf("the largest batch had %d calls", most)
	}
}

func TestNode_MayBeRightOnTheSecondCall(t *testing.T) {
	for name, script := range map[string]chaintest.Script{
		"null, then the transaction": once("eth_getTransactionByHash", constant(nil)),
		"null, then the receipt":     once("eth_getTransactionReceipt", constant(nil)),
		"null, then the block":       once("eth_getBlockByNumber", constant(nil)),
		"a reorganized block, then right": once("eth_getBlockByNumber", func(_ recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
			return chaintest.Edit(result, map[string]any{"hash": otherHash}), err
		}),
		"a wrong status, then right": once("eth_getTransactionReceipt", func(_ recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
			return chaintest.Edit(result, map[string]any{"status": "0x0"}), err
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := baseNode(t)
			r := open(t, rpc.Options{Chain: config(n)})
			n.Play(script)
			if _, err := r.Read(t.Context(), baseTransaction); err != nil {
				t.Error(err)
			}
		})
	}
}
