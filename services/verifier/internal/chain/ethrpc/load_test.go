package ethrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/ethrpc"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
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

func TestOneHundredRequestsForABlockShareOneFetch(t *testing.T) {
	recording := chaintest.Load(t, chaintest.BaseBlock)
	node := baseNode(t)
	r := open(t, ethrpc.Options{Chain: config(node)})
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

func TestACallerThatHangsUpLeavesTheOthersTheirAnswer(t *testing.T) {
	node := baseNode(t)
	r := open(t, ethrpc.Options{Chain: config(node)})
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

// TestMemoryStaysBoundedUnderManyLargeBlocks reads 100 blocks of half a MB of JSON at
// once, with room for two under way and none kept.
func TestMemoryStaysBoundedUnderManyLargeBlocks(t *testing.T) {
	const blocks = 100
	recording := chaintest.Load(t, chaintest.BaseBlock)
	node := baseNode(t)
	body := prepared(t, recording.Blocks[0])
	var asked, most atomic.Int64
	script := chaintest.Script{HTTP: func(w http.ResponseWriter, _ *http.Request, calls []recorded.Request) bool {
		if len(calls) != 2 { // not the block with its receipts
			return false
		}
		most.Store(max(most.Load(), asked.Add(1)))
		defer asked.Add(-1)
		time.Sleep(5 * time.Millisecond)
		_, _ = w.Write(body)
		return true
	}}
	c := config(node)
	c.RPCTimeout = 30 * time.Second
	memory := ethrpc.NewMemory(1, 16<<20)
	var readers []*ethrpc.Reader
	for range blocks { // readers of their own do not share a fetch, but the memory
		readers = append(readers, open(t, ethrpc.Options{Chain: c, Memory: memory}))
	}
	node.Play(script)
	runtime.GC()
	stop, peak := watchHeap()
	var group sync.WaitGroup
	for _, r := range readers {
		group.Go(func() {
			if _, err := r.Read(t.Context(), baseTransaction); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	stop()
	if got := most.Load(); got > 2 {
		t.Errorf("%d blocks were under way at once", got)
	}
	t.Logf("heap grew by %d MiB at most, the serving node included", peak()>>20)
	if peak() > 60<<20 {
		t.Errorf("heap grew by %d MiB", peak()>>20)
	}
}

// prepared is the answer to the batch for a block and its receipts, with much
// white space in it.
func prepared(t testing.TB, block recorded.Block) []byte {
	t.Helper()
	body, err := json.Marshal([]recorded.Reply{
		{ID: json.RawMessage("1"), Result: block.Block}, {ID: json.RawMessage("2"), Result: block.Receipts},
	})
	if err != nil {
		t.Fatal(err)
	}
	return append(append(body[:len(body)-1:len(body)-1], bytes.Repeat([]byte(" "), 1<<19)...), ']')
}

// watchHeap samples the heap until stop; peak tells its largest growth.
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

func TestProvenBlocksAreKeptAsFarAsMemoryAllows(t *testing.T) {
	recording := chaintest.Load(t, "execution-apis-devnet")
	node := chaintest.NewNode(t, recording)
	c := config(node)
	c.Name, c.ID = "devnet", recording.ChainID
	const limit = 200 << 10
	memory := ethrpc.NewMemory(limit, 0)
	r := open(t, ethrpc.Options{Chain: c, Memory: memory})
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

func TestHooksAreTold(t *testing.T) {
	node := baseNode(t)
	var mu sync.Mutex
	var told []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprintf(format, args...))
	}
	r := open(t, ethrpc.Options{Chain: config(node), Hooks: ethrpc.Hooks{
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
