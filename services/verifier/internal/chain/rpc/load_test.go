package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
)

// transactionsOf lists the hashes of a recording's transactions.
func transactionsOf(t testing.TB, recording recorded.Recording) (hashes []chain.Hash) {
	t.Helper()
	for _, block := range recording.Blocks {
		for _, raw := range block.Transactions() {
			hashes = append(hashes, hash(recorded.Member(raw, "hash")))
		}
	}
	return hashes
}

func TestBlock_AHundredRequestsShareOneFetch(t *testing.T) {
	recording := chaintest.Load(t, chaintest.BaseBlock)
	node := baseNode(t)
	r := open(t, rpc.Options{Chain: config(node)})
	node.Play(chaintest.Script{Delay: 100 * time.Millisecond})
	node.Forget()
	all := transactionsOf(t, recording)
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			if _, err := r.Read(t.Context(), all[i%len(all)]); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := node.Calls("eth_getBlockReceipts"); got != 1 {
		t.Errorf("the block was fetched %d times", got)
	}
	if got := node.Calls("eth_getTransactionByHash"); got != len(all) {
		t.Errorf("%d transactions were looked up %d times", len(all), got)
	}
}

func TestBlock_ACallerThatLeavesDoesNotEndOthersRead(t *testing.T) {
	node := baseNode(t)
	r := open(t, rpc.Options{Chain: config(node)})
	node.Play(chaintest.Script{Delay: 100 * time.Millisecond})
	ctx, hangUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, err := r.Read(ctx, baseTransaction); first <- err }()
	time.Sleep(30 * time.Millisecond)
	second := make(chan error, 1)
	go func() { _, err := r.Read(t.Context(), baseTransaction); second <- err }()
	time.Sleep(10 * time.Millisecond)
	hangUp()
	wantFault(t, <-first, chain.ErrUnavailable)
	if err := <-second; err != nil {
		t.Error(err)
	}
}

// TestMemory_StaysBoundedUnderManyLargeBlocks reads many blocks at once, with memory
// for two under way and none kept: 100 of half a MB, mostly white space, then five real
// ones of nearly a MB, then answers that become as large as a node can make them.
func TestMemory_StaysBoundedUnderManyLargeBlocks(t *testing.T) {
	base, ethereum := chaintest.Load(t, chaintest.BaseBlock), chaintest.Load(t, "ethereum-18000000")
	hostile := base
	hostile.Blocks = []recorded.Block{{
		Block:    map[string]json.RawMessage{"transactions": raw(t, make([]struct{ X [200]byte }, 15_000))},
		Receipts: base.Blocks[0].Receipts,
	}}
	for name, c := range map[string]struct {
		served, told recorded.Recording
		count, space int
		want         *chain.Fault
	}{
		"100 blocks":      {served: base, told: base, count: 100, space: 1 << 19},
		"real blocks":     {served: ethereum, told: ethereum, count: 5},
		"hostile answers": {served: base, told: hostile, count: 4, want: chain.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			body := append(raw(t, []recorded.Reply{
				{ID: json.RawMessage("1"), Result: c.told.Blocks[0].Block},
				{ID: json.RawMessage("2"), Result: c.told.Blocks[0].Receipts},
				{ID: json.RawMessage("3"), Result: headAt(c.served, 700)},
				{ID: json.RawMessage("4"), Result: headAt(c.served, 100)},
			}), bytes.Repeat([]byte(" "), c.space)...)
			most, growth := load(t, c.served, c.count, body, c.want)
			t.Logf("%d blocks of %d KiB: heap grew by %d MiB at most, the serving node included", c.count, len(body)>>10, growth>>20)
			if most > 2 || growth > 160<<20 {
				t.Errorf("%d blocks were under way at once, heap grew by %d MiB", most, growth>>20)
			}
		})
	}
}

// headAt is a head so many blocks above the recorded block.
func headAt(r recorded.Recording, above uint64) map[string]string {
	return map[string]string{"number": fmt.Sprintf("0x%x", r.Blocks[0].Number()+above), "timestamp": "0x1"}
}

func raw(t testing.TB, value any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// load reads a block so many times at once where the answer about it is body. It
// returns how many were under way at once, and the growth of the heap.
func load(t *testing.T, recording recorded.Recording, count int, body []byte, want *chain.Fault) (most int64, growth uint64) {
	t.Helper()
	node := chaintest.NewNode(t, recording)
	number := recording.Blocks[0].Number()
	node.SetHeads(number+700, number+100)
	var under, peak atomic.Int64
	script := chaintest.Script{HTTP: func(w http.ResponseWriter, _ *http.Request, calls []recorded.Request) bool {
		if len(calls) != 4 { // not the block with its receipts
			return false
		}
		peak.Store(max(peak.Load(), under.Add(1)))
		defer under.Add(-1)
		time.Sleep(5 * time.Millisecond)
		_, _ = w.Write(body)
		return true
	}}
	c := chain.Config{Name: "some", ID: recording.ChainID, RPCTimeout: 50 * time.Second, RPCURLs: []string{node.URL}}
	memory := rpc.NewMemory(1, 16<<20)
	var readers []*rpc.Reader
	for range count { // readers of their own do not share a fetch, but the memory
		readers = append(readers, open(t, rpc.Options{Chain: c, Memory: memory}))
	}
	node.Play(script)
	transaction := transactionsOf(t, recording)[0]
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // tests run with another
	stop, heap := watchHeap()
	var group sync.WaitGroup
	for _, r := range readers {
		group.Go(func() {
			if _, err := r.Read(t.Context(), transaction); want != nil {
				wantFault(t, err, want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	stop()
	return peak.Load(), heap()
}

// watchHeap samples the heap until stop; peak returns its largest growth.
func watchHeap() (stop func(), peak func() uint64) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	start, done, ended := heap(), make(chan struct{}), make(chan struct{})
	var most uint64
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				most = max(most, heap())
			}
		}
	}()
	return func() { close(done); <-ended }, func() uint64 { return max(most, start) - start }
}

func TestMemory_KeepsProvenBlocksAsFarAsItAllows(t *testing.T) {
	recording := chaintest.Load(t, "execution-apis-devnet")
	node := chaintest.NewNode(t, recording)
	c := config(node)
	c.Name, c.ID = "devnet", recording.ChainID
	const limit = 200 << 10
	memory := rpc.NewMemory(limit, 0)
	r := open(t, rpc.Options{Chain: c, Memory: memory})
	var last chain.Hash
	for _, block := range recording.Blocks {
		if block.Receipts == nil {
			continue
		}
		for _, raw := range block.Transactions() {
			last = hash(recorded.Member(raw, "hash"))
			if _, err := r.Read(t.Context(), last); err != nil {
				t.Fatalf("block %d: %v", block.Number(), err)
			}
			if used, _ := memory.Cached(); used > limit {
				t.Fatalf("%d bytes are kept", used)
			}
		}
	}
	used, blocks := memory.Cached()
	if blocks < 5 || blocks > 50 {
		t.Errorf("%d blocks in %d bytes", blocks, used)
	}
	node.Forget()
	if _, err := r.Read(t.Context(), last); err != nil || len(node.Exchanges()) != 0 {
		t.Errorf("the last block is gone: %v", err)
	}
	first := hash(recorded.Member(recording.Blocks[1].Transactions()[0], "hash"))
	if _, err := r.Read(t.Context(), first); err != nil || len(node.Exchanges()) != 2 {
		t.Errorf("the first block should have been dropped: %v, %d exchanges", err, len(node.Exchanges()))
	}
}

func TestHooks_AreCalled(t *testing.T) {
	node := baseNode(t)
	var mu sync.Mutex
	var told []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprintf(format, args...))
	}
	r := open(t, rpc.Options{Chain: config(node), Hooks: rpc.Hooks{
		RPC:   func(_, method string, _ time.Duration, err error) { note("rpc %s %v", method, err) },
		Cache: func(hit bool) { note("cache %v", hit) },
		Proof: func(transactions int, _ time.Duration, err error) { note("proof %d %v", transactions, err) },
	}})
	for range 2 {
		if _, err := r.Read(t.Context(), baseTransaction); err != nil {
			t.Fatal(err)
		}
	}
	want := "[rpc batch <nil> cache false rpc batch <nil> rpc batch <nil> proof 15 <nil> cache true]"
	if got := fmt.Sprint(told); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}
