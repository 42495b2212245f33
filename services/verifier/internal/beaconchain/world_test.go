package beaconchain_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/beacontest"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain/bundlesql"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/beacon"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
)

const chainID = "eip155:84532"

// start is when slot 0 was: so the block of a slot has its number.
var start = time.Unix(beacontest.GenesisTime, 0).UTC()

// recorded is an eth_getProof of a simulated chain: block 20 from the state of block 64.
type recorded struct {
	AnchorHeader receipt.Hex `json:"anchorHeader"`
	AnchorHash   common.Hash `json:"anchorHash"`
	Target       uint64      `json:"target"`
	TargetHash   common.Hash `json:"targetHash"`
	Proof        struct {
		AccountProof []receipt.Hex
		StorageProof []struct{ Proof []receipt.Hex }
	}
}

// execution is an execution chain: headers of which each names the one before as its
// parent, but block 64, which is the recorded one.
type execution struct {
	head     atomic.Uint64
	recorded recorded
	// later is how many seconds after its number's slot each block is.
	later uint64
	// noProof has the node not offer eth_getProof, noHeaders not even headers, and emptyProof prove nothing.
	noProof, noHeaders, emptyProof atomic.Bool
	// rests has the node return nothing more after a refused proof, and resting says that it has begun to.
	rests, resting atomic.Bool

	mu      sync.Mutex
	headers []*types.Header
}

const recordedAt = 64

func newExecution(t testing.TB) *execution {
	t.Helper()
	e := &execution{}
	text, err := os.ReadFile("../../../../pkg/receipt/finality/testdata/eip2935.json")
	if err == nil {
		err = json.Unmarshal(text, &e.recorded)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *execution) header(number uint64) *types.Header {
	e.mu.Lock()
	defer e.mu.Unlock()
	for n := uint64(len(e.headers)); n <= number; n++ {
		h := &types.Header{Number: new(big.Int).SetUint64(n), Difficulty: new(big.Int), Time: uint64(start.Unix()) + e.later + n, Extra: []byte{}, BaseFee: big.NewInt(7)}
		if n > 0 {
			h.ParentHash = e.headers[n-1].Hash()
		}
		e.headers = append(e.headers, h)
	}
	return e.headers[number]
}

func (e *execution) hash(number uint64) common.Hash {
	switch {
	case e.later > 0:
	case number == recordedAt:
		return e.recorded.AnchorHash
	case number == e.recorded.Target:
		return e.recorded.TargetHash
	}
	return e.header(number).Hash()
}

// Latest implements beacontest.Execution.
func (e *execution) Latest(context.Context) (uint64, error) { return e.head.Load(), nil }

// Header implements beacontest.Execution.
func (e *execution) Header(_ context.Context, number uint64) (*lightclient.ExecutionPayloadHeader, error) {
	var blobs finality.Uint64
	return &lightclient.ExecutionPayloadHeader{
		BlockNumber: finality.Uint64(number), BlockHash: finality.Root(e.hash(number)), Timestamp: finality.Uint64(uint64(start.Unix()) + e.later + number),
		LogsBloom: make([]byte, 256), FeeRecipient: make([]byte, 20), BlobGasUsed: &blobs, ExcessBlobGas: &blobs,
	}, nil
}

var errNode = errors.New("the node does not have it")

// Headers implements beaconchain.Blocks.
func (e *execution) Headers(_ context.Context, first, last uint64, hash chain.Hash) (list [][]byte, err error) {
	if e.noHeaders.Load() || e.resting.Load() || common.Hash(hash) != e.hash(last) {
		return nil, errNode
	}
	for n := last; n >= first; n-- {
		raw, err := rlp.EncodeToBytes(e.header(n))
		if err != nil {
			return nil, err
		}
		list = append(list, raw)
	}
	return list, nil
}

// StorageProof implements beaconchain.Blocks.
func (e *execution) StorageProof(_ context.Context, number uint64, hash chain.Hash, contract chain.Address, slot chain.Hash) (header []byte, account, storage [][]byte, err error) {
	if e.emptyProof.Load() {
		header, err = rlp.EncodeToBytes(e.header(number))
		return header, nil, nil, err
	}
	e.resting.Store(e.rests.Load())
	if e.noProof.Load() || number != recordedAt || common.Hash(hash) != e.recorded.AnchorHash ||
		common.Address(contract).Hex() != "0x0000F90827F1C53a10cb7A02335B175320002935" || slot != (chain.Hash{31: byte(e.recorded.Target)}) {
		return nil, nil, nil, errNode
	}
	for _, node := range e.recorded.Proof.AccountProof {
		account = append(account, node)
	}
	for _, node := range e.recorded.Proof.StorageProof[0].Proof {
		storage = append(storage, node)
	}
	return e.recorded.AnchorHeader, account, storage, nil
}

// BlockNumber implements beaconchain.Blocks.
func (e *execution) BlockNumber(_ context.Context, hash chain.Hash) (uint64, error) {
	for n := range e.head.Load() + 1 {
		if e.hash(n) == common.Hash(hash) {
			return n, nil
		}
	}
	return 0, errNode
}

// blocks is an execution that a test may exchange.
type blocks struct{ *execution }

// counting is a store that counts what it is asked to put off.
type counting struct {
	beaconchain.Store
	puts *atomic.Int64
}

// PutOff implements beaconchain.Store.
func (c counting) PutOff(ctx context.Context, b beaconchain.Bundle, next time.Time) error {
	c.puts.Add(1)
	return c.Store.PutOff(ctx, b, next)
}

// node is a beacon node behind HTTP, and how often it was asked.
type node struct {
	*beacontest.Beacon
	url   string
	asked atomic.Int64
	paths sync.Map // of requests, as keys
}

// world is a chain with a beacon node, a ledger, and a clock that tests move.
type world struct {
	testing.TB
	execution *execution
	blocks    *blocks // the execution, as the chain reads it
	node      *node
	ledger    *ledger.Ledger
	store     *bundlesql.Store
	puts      atomic.Int64 // how many bundles were put off
	chain     *beaconchain.Chain
	failed    sync.Map // how often by cause: *atomic.Int64
	sold      int

	mu  sync.Mutex
	now time.Time
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, now: start, execution: newExecution(t)}
	w.blocks = &blocks{w.execution}
	w.execution.head.Store(10)
	var err error
	w.ledger, err = ledger.Open(context.Background(), "sqlite::memory:", ledger.Options{Now: w.clock, Finality: []string{chainID, "eip155:1"}})
	w.must(err)
	t.Cleanup(func() { _ = w.ledger.Close() })
	w.store = bundlesql.New(w.ledger.DB(), w.clock)
	w.node = w.beacon("dev", "electra")
	w.chain = w.open(w.node.url)
	return w
}

// beacon serves a beacon node of a network.
func (w *world) beacon(name, fork string) *node {
	w.Helper()
	b, err := beacontest.New(beacontest.Config{Name: name, ChainID: chainID, Fork: fork, Depth: 2, Execution: w.execution})
	w.must(err)
	n := &node{Beacon: b}
	handler := b.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n.asked.Add(1)
		n.paths.Store(r.URL.RequestURI(), true)
		handler.ServeHTTP(rw, r)
	}))
	w.Cleanup(server.Close)
	n.url = server.URL
	return n
}

// open returns one more process's chain on the ledger.
func (w *world) open(urls ...string) *beaconchain.Chain {
	w.Helper()
	var nodes []chain.BeaconNode
	for _, url := range urls {
		n, err := beacon.Open(url, 0)
		w.must(err)
		nodes = append(nodes, n)
	}
	c, err := beaconchain.New(beaconchain.Options{
		Name: "dev", Network: w.node.Network(), Nodes: nodes, Blocks: w.blocks, Store: counting{w.store, &w.puts},
		Failed: w.fail, Log: slog.New(slog.DiscardHandler), Now: w.clock,
	})
	w.must(err)
	return c
}

func (w *world) fail(cause string) {
	n, _ := w.failed.LoadOrStore(cause, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

func (w *world) failures(cause string) int64 {
	n, ok := w.failed.Load(cause)
	if !ok {
		return 0
	}
	return n.(*atomic.Int64).Load()
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// sell sells a receipt about a block.
func (w *world) sell(number uint64) {
	w.Helper()
	w.sellOn(chainID, number, w.execution.hash(number))
}

// sellOn sells a receipt about a block of a chain.
func (w *world) sellOn(chainID string, number uint64, hash common.Hash) {
	w.Helper()
	w.sold++
	answer := fmt.Appendf(nil, `{"receipt":{"chain":{"id":%q},"block":{"number":"%d","hash":"%s"}}}`, chainID, number, hash)
	settled := payment.Outcome{State: payment.Settled, Transaction: "0xt"}
	w.must(paymenttest.Sell(w.ledger, w.clock(), fmt.Sprint(w.sold), answer, settled))
}

// checkpoint returns the root of the block that is final when the chain has come to head.
func (w *world) checkpoint(head uint64) finality.Root {
	w.Helper()
	before := w.execution.head.Swap(head)
	defer w.execution.head.Store(before)
	h, err := w.node.Finalized(context.Background())
	w.must(err)
	return h.HashTreeRoot()
}

// document asks for a document and parses it.
func (w *world) document(number uint64, checkpoint *finality.Root) (*finality.Document, error) {
	w.Helper()
	text, err := w.chain.Document(context.Background(), "client", finality.Root(w.execution.hash(number)), checkpoint)
	if err != nil {
		return nil, err
	}
	d, err := finality.Parse(text)
	w.must(err)
	return d, nil
}

// wantFinal checks that readers with a checkpoint find the block of a number final.
func (w *world) wantFinal(number uint64, checkpoint finality.Root) *finality.Result {
	w.Helper()
	d, err := w.document(number, &checkpoint)
	w.must(err)
	result, err := finality.Verify(about(number, w.execution.hash(number)), d, finality.Trust{Checkpoint: checkpoint, Network: w.node.Network()})
	w.must(err)
	return result
}

func about(number uint64, hash common.Hash) *receipt.Receipt {
	r := &receipt.Receipt{}
	r.Chain.ID, r.Block.Number, r.Block.Hash = chainID, fmt.Sprint(number), "0x"+hex.EncodeToString(hash[:])
	r.Finality.Tag = "finalized"
	return r
}

func (w *world) want(got error, want error) {
	w.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		w.Errorf("got %v, want %v", got, want)
	}
}

func (w *world) askedFor(path string) (yes bool) {
	w.node.paths.Range(func(key, _ any) bool {
		yes = yes || strings.Contains(key.(string), path)
		return !yes
	})
	return yes
}
