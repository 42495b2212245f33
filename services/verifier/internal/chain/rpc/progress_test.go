package rpc

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
)

const lookup = "eth_getTransactionByHash"

func free() error { return nil }

func (w *finalityWorld) progress(transaction string) chain.Progress {
	w.Helper()
	hash, err := chain.ParseHash(transaction)
	if err != nil {
		w.Fatal(err)
	}
	progress, err := w.reader.Progress(w.Context(), hash, free)
	if err != nil {
		w.Fatal(err)
	}
	return progress
}

func (w *finalityWorld) lookups() (count int) {
	for _, node := range w.nodes {
		count += node.Calls(lookup)
	}
	return count
}

func TestProgress_CountsDownToFinal(t *testing.T) {
	w := openFinality(t, 2, 2, 40)
	want := chain.Progress{Stage: chain.Included, Block: baseBlock, FinalIn: 80 * time.Second}
	if got := w.progress(baseTransaction); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	w.advance(39) // nobody polls
	if got := w.progress(baseTransaction); got.Stage != chain.Included || got.FinalIn != 2*time.Second {
		t.Errorf("%+v one block before", got)
	}
	w.advance(1)
	if got := w.progress(baseTransaction); got != (chain.Progress{Stage: chain.Final, Block: baseBlock}) {
		t.Errorf("%+v, not final", got)
	}
}

func TestProgress_OfAPendingTransactionIsThat(t *testing.T) {
	w := openFinality(t, 1, 1, 0)
	w.nodes[0].Play(chaintest.Script{
		Answer: func(c recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
			if c.Method == lookup {
				result = chaintest.Edit(result, map[string]any{"blockHash": nil, "blockNumber": nil})
			}
			return result, err
		},
	})
	if got := w.progress(baseTransaction); got != (chain.Progress{Stage: chain.Pending}) {
		t.Errorf("%+v", got)
	}
}

func TestProgress_OfAnUnknownTransactionIsAskedOfEachNodeOnce(t *testing.T) {
	w := openFinality(t, 2, 1, 0)
	unknown := "0x" + "00000000000000000000000000000000000000000000000000000000000000ff"
	for range 5 {
		if got := w.progress(unknown); got != (chain.Progress{Stage: chain.Unknown}) {
			t.Errorf("%+v", got)
		}
	}
	if got := w.lookups(); got != 2 {
		t.Errorf("%d lookups, not one at each of two nodes", got)
	}
	w.advanceClock(sightingTTL + 1)
	w.progress(unknown)
	if got := w.lookups(); got != 4 {
		t.Errorf("%d lookups after what was known is old", got)
	}
}

func TestProgress_OfAProvenTransactionCostsNoExchange(t *testing.T) {
	reader, nodes := openBase(t, 1)
	hash, _ := chain.ParseHash(baseTransaction)
	if _, err := reader.Read(t.Context(), hash); err != nil {
		t.Fatal(err)
	}
	before := len(nodes[0].Exchanges())
	got, err := reader.Progress(t.Context(), hash, func() error { t.Error("asked"); return nil })
	if err != nil || got != (chain.Progress{Stage: chain.Final, Block: baseBlock}) {
		t.Errorf("%+v, %v", got, err)
	}
	if after := len(nodes[0].Exchanges()); after != before {
		t.Errorf("%d exchanges", after-before)
	}
}

func TestProgress_WhoIsRefusedCausesNoExchange(t *testing.T) {
	reader, nodes := openBase(t, 1)
	hash, _ := chain.ParseHash(baseTransaction)
	refused := errors.New("refused")
	if _, err := reader.Progress(t.Context(), hash, func() error { return refused }); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	if got := nodes[0].Calls(lookup); got != 0 {
		t.Errorf("%d lookups", got)
	}
}

// hangs answers no lookup, and counts them.
func hangs(asked *atomic.Int64) chaintest.Script {
	return chaintest.Script{HTTP: func(_ http.ResponseWriter, r *http.Request, calls []recorded.Request) bool {
		if calls[0].Method != lookup {
			return false
		}
		asked.Add(1)
		<-r.Context().Done()
		return true
	}}
}

func TestProgress_ANodeThatHangsDoesNotKeepTheOthersFromAnswering(t *testing.T) {
	const patience = 1500 * time.Millisecond // as that of the route
	unknown := "0x" + "00000000000000000000000000000000000000000000000000000000000000ff"
	w := openFinality(t, 3, 1, 40)
	var asked atomic.Int64
	w.nodes[0].Play(hangs(&asked))
	for i, c := range []struct {
		transaction string
		want        chain.Stage
		asked       int64 // how often the node that hangs was, until then
	}{
		{baseTransaction, chain.Included, 1},
		{baseTransaction, chain.Included, 1}, // it comes last now
		{unknown, chain.Unknown, 2},
	} {
		w.advanceClock(includedTTL + 1)
		hash, _ := chain.ParseHash(c.transaction)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		got, err := w.reader.Progress(ctx, hash, free)
		cancel()
		if err != nil || got.Stage != c.want || asked.Load() != c.asked {
			t.Errorf("%d: %+v, %v; it was asked %d times", i, got, err, asked.Load())
		}
	}
}

// TestProgress_NodesThatAreSlowStillAnswer: the next one is asked beside them, and none is cut off.
func TestProgress_NodesThatAreSlowStillAnswer(t *testing.T) {
	w := openFinality(t, 3, 1, 40)
	for _, node := range w.nodes {
		node.Play(chaintest.Script{Delay: 800 * time.Millisecond})
	}
	hash, _ := chain.ParseHash(baseTransaction)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	if got, err := w.reader.Progress(ctx, hash, free); err != nil || got.Stage != chain.Included {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestProgress_ASlowNodeDoesNotHideThatATransactionIsUnknown, once the others have answered.
func TestProgress_ASlowNodeDoesNotHideThatATransactionIsUnknown(t *testing.T) {
	w := openFinality(t, 3, 1, 40)
	for i, delay := range []time.Duration{3 * time.Second, 300 * time.Millisecond, 300 * time.Millisecond} {
		w.nodes[i].Play(chaintest.Script{Delay: delay})
	}
	hash, _ := chain.ParseHash("0x" + "00000000000000000000000000000000000000000000000000000000000000ff")
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		got, err := w.reader.Progress(ctx, hash, free)
		cancel()
		if err != nil || got.Stage != chain.Unknown {
			t.Errorf("%+v, %v", got, err)
		}
		w.advanceClock(sightingTTL + 1)
	}
}

// A node of which nothing better is known may take as long as the caller waits.
func TestProgress_TheLastNodeMayBeSlow(t *testing.T) {
	w := openFinality(t, 2, 1, 40)
	w.nodes[0].Play(chaintest.Script{Delay: 600 * time.Millisecond})
	w.nodes[1].Play(chaintest.Script{Delay: 600 * time.Millisecond})
	if got := w.progress(baseTransaction); got.Stage != chain.Included {
		t.Errorf("%+v", got)
	}
}

func TestProgress_AHundredAtOnceAreOneLookup(t *testing.T) {
	w := openFinality(t, 1, 1, 10)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { w.progress(baseTransaction) })
	}
	all.Wait()
	if got := w.lookups(); got != 1 {
		t.Errorf("%d lookups", got)
	}
}
