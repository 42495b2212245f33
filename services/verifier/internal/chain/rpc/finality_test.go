package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// baseTransaction is the fourth transaction of the recorded Base block.
const baseTransaction = "0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb"

// finalityWorld is nodes of one chain whose heads move with a simulated time, a
// block every two seconds, and a reader over them that keeps no block.
type finalityWorld struct {
	*testing.T
	reader *Reader
	nodes  []*chaintest.Node

	mu                sync.Mutex
	now               time.Time
	latest, finalized uint64
}

func (w *finalityWorld) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// openFinality begins with the recorded block not finalized by so many blocks.
func openFinality(t *testing.T, count, quorum int, missing uint64) *finalityWorld {
	t.Helper()
	const genesis = 1690789347 // the recorded block's time
	w := &finalityWorld{T: t, latest: baseBlock + 300 - missing, finalized: baseBlock - missing}
	w.now = time.Unix(genesis+2*(300-int64(missing)), 0)
	c := chain.Config{Name: "base", ID: 8453, RPCTimeout: 30 * time.Second, Quorum: quorum}
	for range count {
		node := chaintest.NewNode(t, chaintest.Load(t, chaintest.BaseBlock))
		node.SetHeads(w.latest, w.finalized)
		w.nodes, c.RPCURLs = append(w.nodes, node), append(c.RPCURLs, node.URL)
	}
	var err error
	if w.reader, err = Open(t.Context(), Options{Chain: c, Now: w.clock, Memory: NewMemory(1, 0)}); err != nil {
		t.Fatal(err)
	}
	return w
}

// advance moves the clock and the chain on.
func (w *finalityWorld) advance(blocks uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Duration(blocks) * 2 * time.Second)
	w.latest, w.finalized = w.latest+blocks, w.finalized+blocks
	for _, node := range w.nodes {
		node.SetHeads(w.latest, w.finalized)
	}
}

func (w *finalityWorld) read() (chain.Snapshot, error) {
	defer w.settle()
	hash, _ := chain.ParseHash(baseTransaction)
	return w.reader.Read(w.Context(), hash)
}

// poll polls as the poller does, and then settles.
func (w *finalityWorld) poll() {
	w.reader.poll(w.Context())
	w.settle()
}

// settle waits for the slower nodes, whose answers are of this moment.
func (w *finalityWorld) settle() {
	for _, e := range w.reader.endpoints {
		_ = w.reader.pollAll(w.Context(), e)
	}
}

// headsAnswer changes what a node reports of its heads.
func headsAnswer(change func(tag string, header any) any) func(recorded.Request, any, *recorded.Error) (any, *recorded.Error) {
	return func(c recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
		if c.Method == "eth_getBlockByNumber" {
			return change(strings.Trim(string(c.Params[0]), `"`), result), err
		}
		return result, err
	}
}

// ahead makes both heads so much higher, in the chain's own pace or all at once.
func ahead(blocks uint64, paced bool) chaintest.Script {
	return chaintest.Script{Answer: headsAnswer(func(tag string, header any) any {
		var one struct {
			Number    evm.Quantity `json:"number"`
			Timestamp evm.Quantity `json:"timestamp"`
		}
		if tag != "latest" && tag != "finalized" || evm.Decode(raw(header), &one) != nil {
			return header
		}
		number, _ := one.Number.Uint64()
		at, _ := one.Timestamp.Uint64()
		changes := map[string]any{"number": hexNumber(number + blocks), "hash": fmt.Sprintf("0x%064x", number+blocks)}
		if paced {
			changes["timestamp"] = hexNumber(at + 2*blocks)
		}
		return chaintest.Edit(header, changes)
	})}
}

// allFinal is a node whose consensus client is away: it calls its latest block
// finalized.
func allFinal(latest func() uint64) chaintest.Script {
	return chaintest.Script{Answer: headsAnswer(func(tag string, header any) any {
		if tag != "finalized" {
			return header
		}
		return chaintest.Edit(header, map[string]any{"number": hexNumber(latest())})
	})}
}

// TestFinality_OneWrongAnswerMakesNoBlockFinal, whichever node returns it and however many
// there are, and it is forgotten when the node is right again.
func TestFinality_OneWrongAnswerMakesNoBlockFinal(t *testing.T) {
	for _, c := range []struct{ nodes, quorum, wrong int }{{1, 0, 0}, {2, 1, 0}, {2, 1, 1}, {2, 0, 1}, {3, 0, 0}} {
		for name, script := range map[string]chaintest.Script{
			"far ahead":       ahead(900_000, false),
			"far, and paced":  ahead(900_000, true),
			"a little":        ahead(40, true),
			"finalized alone": {Answer: headsAnswer(finalizedAhead)},
		} {
			t.Run(fmt.Sprintf("%d nodes, quorum %d, node %d %s", c.nodes, c.quorum, c.wrong, name), func(t *testing.T) {
				w := openFinality(t, c.nodes, c.quorum, 20)
				w.advance(1)
				w.poll()
				w.advance(1)
				w.nodes[c.wrong].Play(script)
				w.poll() // the one wrong answer of each node
				w.nodes[c.wrong].Play(chaintest.Script{})
				for w.finalized < baseBlock {
					if _, err := w.read(); !errors.Is(err, chain.ErrNotFinalized) {
						t.Fatalf("%d blocks before it is final: %v", baseBlock-w.finalized, err)
					}
					w.advance(3)
				}
				s, err := w.read()
				if err != nil || s.Heads.Latest != w.latest {
					t.Errorf("when it is final: %+v, %v", s.Heads, err)
				}
			})
		}
	}
}

func finalizedAhead(tag string, header any) any {
	if tag != "finalized" {
		return header
	}
	return chaintest.Edit(header, map[string]any{"number": hexNumber(baseBlock + 10), "hash": "0x" + strings.Repeat("7", 64)})
}

// TestFinality_ANodeThatWasWrongOnceConfirmsNoBlock that another one still calls final.
func TestFinality_ANodeThatWasWrongOnceConfirmsNoBlock(t *testing.T) {
	w := openFinality(t, 2, 2, 20)
	w.advance(1)
	for _, node := range w.nodes {
		node.Play(chaintest.Script{Answer: headsAnswer(finalizedAhead)})
	}
	w.poll()
	w.nodes[1].Play(chaintest.Script{})
	if _, err := w.read(); !errors.Is(err, chain.ErrNotFinalized) {
		t.Errorf("got %v", err)
	}
}

// TestFinality_IsReportedByTheNodeThatProves: another node's report is not enough,
// and where it is that node's report alone, that node proves it.
func TestFinality_IsReportedByTheNodeThatProves(t *testing.T) {
	for _, quorum := range []int{1, 2} {
		w := openFinality(t, 3, quorum, 20)
		w.nodes[1].SetHeads(w.latest, baseBlock)
		w.nodes[2].SetHeads(w.latest, baseBlock)
		w.advanceClock(time.Second)
		w.poll()
		for _, node := range w.nodes {
			node.Forget()
		}
		if _, err := w.read(); err != nil {
			t.Errorf("quorum %d: %v", quorum, err)
		}
		if w.nodes[0].Calls("eth_getBlockReceipts") != 0 || w.nodes[1].Calls("eth_getBlockReceipts") != 1 {
			t.Errorf("quorum %d: proven by a node that does not call the block final", quorum)
		}
	}
}

func (w *finalityWorld) advanceClock(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func TestFinality_ANodeOfAnotherFinalBlockIsNotBelieved(t *testing.T) {
	w := openFinality(t, 1, 1, 0)
	w.nodes[0].Play(chaintest.Script{Answer: headsAnswer(func(tag string, header any) any {
		if tag != "finalized" {
			return header
		}
		return chaintest.Edit(header, map[string]any{"hash": "0x" + strings.Repeat("1", 64)})
	})})
	if _, err := w.read(); !errors.Is(err, chain.ErrInconsistent) {
		t.Errorf("got %v", err)
	}
}

// TestHeads_ThatNoChainCanHaveAreNotBelieved: from the future, or further
// ahead than the time between two words allows.
func TestHeads_ThatNoChainCanHaveAreNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		script  chaintest.Script
		refused bool
	}{
		"a minute ahead of our clock":                   {ahead(30, true), false},
		"three minutes ahead of our clock":              {ahead(90, true), true},
		"a thousand blocks in no time, as devnets make": {ahead(1_000, false), false},
		"a hundred thousand blocks in no time":          {ahead(100_000, false), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := openFinality(t, 1, 1, 0)
			for range 2 {
				w.advance(1)
				w.poll()
			}
			before, _ := w.reader.agreedHeads()
			w.advance(1)
			w.nodes[0].Play(c.script)
			err := w.reader.pollEndpoint(t.Context(), w.reader.endpoints[0])
			after, _ := w.reader.agreedHeads()
			report, _ := w.reader.endpoints[0].lastHead(DefaultMaxHeadAge)
			age := w.clock().Sub(report.at)
			if refused := errors.Is(err, chain.ErrInconsistent); refused != c.refused || refused != (after == before) || refused != (age > 0) {
				t.Errorf("%v: %+v after %+v, %v old", err, after, before, age)
			}
		})
	}
}

// TestHeads_TheFirstReportDoesNotOutweighTheNext: a node whose first answer of all is
// wrong is believed as soon as it is right.
func TestHeads_TheFirstReportDoesNotOutweighTheNext(t *testing.T) {
	low := chaintest.Script{Answer: headsAnswer(func(tag string, header any) any {
		if tag != "latest" && tag != "finalized" {
			return header
		}
		return chaintest.Edit(header, map[string]any{"number": "0x5"})
	})}
	for name, script := range map[string]chaintest.Script{"low": low, "high": ahead(5_000_000, false)} {
		t.Run(name, func(t *testing.T) {
			w := openFinality(t, 1, 1, 0)
			w.advanceClock(2 * DefaultMaxHeadAge) // as at the start, nothing is known
			w.nodes[0].Play(script)
			w.poll()
			w.nodes[0].Play(chaintest.Script{})
			w.advance(1)
			if _, err := w.read(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFinality_GlitchesNeverEndIt makes one node at a time go wrong, at random moments
// and in random ways, while the chain goes on: where a quorum is required, for any
// time; where one node's word is enough, for one answer. No read returns evidence of
// a block that is not final, and after the glitch reads succeed within two polls.
func TestFinality_GlitchesNeverEndIt(t *testing.T) {
	for _, c := range []struct{ nodes, quorum int }{{1, 0}, {2, 1}, {3, 1}, {2, 0}, {3, 0}, {4, 0}} {
		for seed := range uint64(20) {
			t.Run(fmt.Sprintf("%d nodes, quorum %d, seed %d", c.nodes, c.quorum, seed), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, 13))
				w := openFinality(t, c.nodes, c.quorum, 30+random.Uint64N(60))
				for w.finalized+1 < baseBlock {
					node := w.nodes[random.IntN(len(w.nodes))]
					w.glitch(random, node)
					w.looks(random)
					node.Play(chaintest.Script{})
					w.looks(random) // what is wrong once may be used now
					w.poll()
				}
				w.advance(baseBlock + 1 - min(w.finalized, baseBlock))
				for range 2 {
					w.poll()
					w.advance(1)
				}
				if _, err := w.read(); err != nil {
					t.Errorf("after the glitches: %v", err)
				}
			})
		}
	}
}

// glitch makes a node wrong: for one exchange where its word alone counts.
func (w *finalityWorld) glitch(random *rand.Rand, node *chaintest.Node) {
	script := []chaintest.Script{
		ahead(1+random.Uint64N(200), true), ahead(1+random.Uint64N(2_000_000), false), ahead(1+random.Uint64N(2_000_000), true),
		allFinal(func() uint64 { w.mu.Lock(); defer w.mu.Unlock(); return w.latest }),
		{Answer: headsAnswer(finalizedAhead)},
		{Answer: headsAnswer(func(string, any) any { return nil })},
	}[random.IntN(6)]
	if w.reader.quorum > 1 {
		node.Play(script)
		return
	}
	// One exchange is three calls or more; each counts by the exchange it came in.
	var exchanges atomic.Int64
	node.Play(chaintest.Script{
		Batch: func(replies []recorded.Reply) any { exchanges.Add(1); return replies },
		Answer: func(c recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
			if exchanges.Load() == 0 {
				return script.Answer(c, result, err)
			}
			return result, err
		},
	})
}

// looks moves the clock, polls and reads, in some order.
func (w *finalityWorld) looks(random *rand.Rand) {
	for range 1 + random.IntN(3) {
		if w.finalized+1 < baseBlock {
			w.advance(min(random.Uint64N(8), baseBlock-1-w.finalized))
		}
		if random.IntN(2) == 0 {
			w.poll()
		}
		if s, err := w.read(); err == nil {
			w.Errorf("evidence of block %d at finalized %d, heads %+v", s.Block.Number, w.finalized, s.Heads)
		}
	}
}

func raw(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // what came from JSON
	}
	return text
}

// TestQuorum_OfOneAmongManyNodesIsWarnedOf at the start; the majority is not.
func TestQuorum_OfOneAmongManyNodesIsWarnedOf(t *testing.T) {
	for _, c := range []struct {
		nodes, quorum, agree int
		warned               bool
	}{{1, 0, 1, false}, {1, 1, 1, false}, {2, 0, 2, false}, {2, 1, 1, true}, {3, 0, 2, false}, {4, 0, 3, false}, {4, 1, 1, true}} {
		var log bytes.Buffer
		config := chain.Config{Name: "base", ID: 8453, RPCTimeout: 30 * time.Second, Quorum: c.quorum}
		for range c.nodes {
			config.RPCURLs = append(config.RPCURLs, chaintest.NewNode(t, chaintest.Load(t, chaintest.BaseBlock)).URL)
		}
		r, err := Open(t.Context(), Options{Chain: config, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil || r.quorum != c.agree || strings.Contains(log.String(), "CHAIN_RPC_QUORUM") != c.warned {
			t.Errorf("%+v: quorum %d, logged %q, %v", c, r.quorum, log.String(), err)
		}
	}
}

// TestLook_AnUnbelievedAnswerDoesNotEndIt before the honest one is there.
func TestLook_AnUnbelievedAnswerDoesNotEndIt(t *testing.T) {
	w := openFinality(t, 2, 1, 0)
	w.advanceClock(DefaultMaxHeadAge + 1)
	w.nodes[0].Play(ahead(10_000, true)) // from the future
	w.nodes[1].Play(chaintest.Script{Delay: 200 * time.Millisecond})
	if heads, err := w.reader.Heads(t.Context()); err != nil || heads.Latest != w.latest {
		t.Errorf("%+v, %v", heads, err)
	}
}
