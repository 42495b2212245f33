package beaconchain_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/beacontest"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
)

// swapped serves one handler after another at one address.
func (w *world) swapped(first http.Handler) (url string, swap func(http.Handler)) {
	w.Helper()
	var current atomic.Pointer[http.Handler]
	current.Store(&first)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { (*current.Load()).ServeHTTP(rw, r) }))
	w.Cleanup(server.Close)
	return server.URL, func(next http.Handler) { current.Store(&next) }
}

// A development chain that starts anew counts its blocks from the first again, in later
// slots.
func TestFollow_BegunAnewTheChainsBlocksAreProven(t *testing.T) {
	w := newWorld(t)
	url, swap := w.swapped(w.node.Handler())
	w.chain = w.open(url)
	for head := uint64(12); head <= 40; head += 4 {
		w.execution.head.Store(head)
		w.must(w.chain.Follow(t.Context()))
	}
	w.execution = newExecution(t)
	w.execution.later = 3000
	w.blocks.execution = w.execution
	w.execution.head.Store(6)
	w.node = w.beacon("dev", "electra")
	swap(w.node.Handler())
	checkpoint := w.checkpoint(6)
	for head := uint64(6); head <= 40; head++ {
		w.execution.head.Store(head)
		w.advance(time.Second)
		w.must(w.chain.Follow(t.Context()))
		if head == 16 {
			w.sell(13)
		}
		w.must(w.chain.MakeBundles(t.Context()))
	}
	w.wantFinal(13, checkpoint)
}

// A node that stands still answers with what verifies, and hides nothing that another has.
func TestNode_ThatStandsStillDoesNotHideTheOthers(t *testing.T) {
	w := newWorld(t)
	still := newExecution(t)
	still.head.Store(10)
	ours := w.execution
	w.execution = still
	behind := w.beacon("dev", "electra")
	w.execution = ours
	w.chain = w.open(behind.url, w.node.url)
	w.must(w.chain.Follow(t.Context()))
	w.execution.head.Store(60)
	w.advance(60 * time.Second)
	w.must(w.chain.Follow(t.Context()))
	w.sell(57)
	w.must(w.chain.MakeBundles(t.Context()))
	w.wantFinal(57, w.checkpoint(10))
	if w.failures(beaconchain.CauseNode)+w.failures(beaconchain.CauseUpdate) != 0 {
		t.Error("that a chain is not finalized counts as a failure of its nodes")
	}
}

// What one node does not have, another one that is away may have.
func TestCheckpoint_IsNotUnknownWhileANodeIsAway(t *testing.T) {
	w := newWorld(t)
	w.execution.head.Store(30)
	w.must(w.chain.Follow(t.Context()))
	w.sell(27)
	w.must(w.chain.MakeBundles(t.Context()))
	away := w.beacon("dev", "electra")
	w.chain = w.open(w.node.url, away.url)
	away.Break(beacontest.Faults{Down: true})
	_, err := w.document(27, &finality.Root{1})
	w.want(err, beaconchain.ErrUnavailable)
	away.Break(beacontest.Faults{})
	_, err = w.document(27, &finality.Root{1})
	w.want(err, beaconchain.ErrCheckpointUnknown)
}

// far answers as a node does, but claims that the newest update is far in the future.
func far(n *node) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/eth/v1/beacon/light_client/finality_update" {
			n.Handler().ServeHTTP(rw, r)
			return
		}
		u, err := n.FinalityUpdate(r.Context())
		if err != nil {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		u.SignatureSlot += 100 * 64
		writeJSON(rw, map[string]any{"version": "electra", "data": u})
	})
}

// Where to begin is a node's word. So a node that claims to be far ahead must not be asked
// for it while another may know better, nor when the chain was followed a moment ago.
func TestNode_ThatClaimsToBeFarAheadBeginsNothingAnew(t *testing.T) {
	w := newWorld(t)
	w.execution.head.Store(30)
	w.must(w.chain.Follow(t.Context()))
	url, swap := w.swapped(far(w.node))
	away := w.beacon("dev", "electra")
	away.Break(beacontest.Faults{Down: true})
	own := func() int {
		w.Helper()
		list, err := w.store.OwnCheckpoints(t.Context(), chainID, 0)
		w.must(err)
		return len(list)
	}
	before := own()
	w.execution.head.Store(50)
	w.chain = w.open(url, away.url)
	if w.chain.Follow(t.Context()) == nil || own() != before {
		t.Error("it began anew while a node was away")
	}
	swap(w.node.Handler())
	w.chain = w.open(url)
	w.must(w.chain.Follow(t.Context()))
	swap(far(w.node))
	before = own()
	w.execution.head.Store(55)
	if w.chain.Follow(t.Context()) == nil || own() != before {
		t.Error("it began anew though the chain was followed a moment ago")
	}
}

func writeJSON(rw http.ResponseWriter, value any) { _ = json.NewEncoder(rw).Encode(value) }

func TestDocument_ACallerCannotUseUpTheCheckpointsOfOthers(t *testing.T) {
	w := newWorld(t)
	w.must(w.chain.Follow(t.Context()))
	w.sell(12)
	w.execution.head.Store(20)
	w.must(w.chain.Follow(t.Context()))
	w.must(w.chain.MakeBundles(t.Context()))
	ask := func(client string, root finality.Root) error {
		_, err := w.chain.Document(t.Context(), client, finality.Root(w.execution.hash(12)), &root)
		return err
	}
	for i := range 20 {
		w.want(ask("one", finality.Root{1, byte(i)}), beaconchain.ErrCheckpointUnknown)
	}
	w.want(ask("one", finality.Root{2}), beaconchain.ErrUnavailable)
	w.must(ask("another", w.checkpoint(11)))
}

func TestDocument_ARootThatNoNodeKnowsCostsOneCall(t *testing.T) {
	w := newWorld(t)
	w.execution.head.Store(30)
	w.must(w.chain.Follow(t.Context()))
	w.sell(27)
	w.must(w.chain.MakeBundles(t.Context()))
	later := w.checkpoint(40)
	_, err := w.document(27, &later) // no node knows it yet
	w.want(err, beaconchain.ErrCheckpointUnknown)
	asked := w.node.asked.Load()
	for range 30 { // more than one client may name
		_, err = w.document(27, &later)
		w.want(err, beaconchain.ErrCheckpointUnknown)
	}
	if n := w.node.asked.Load() - asked; n != 0 {
		t.Errorf("the node was asked %d more times", n)
	}
	w.wantFinal(27, w.checkpoint(15)) // what was refused took nothing from the allowance
	w.execution.head.Store(60)
	w.advance(5 * time.Minute)
	asked = w.node.asked.Load()
	_, err = w.document(27, &later) // it is read again
	w.must(err)
	if w.node.asked.Load() == asked {
		t.Error("the node was not asked again")
	}
}

func TestDocument_AKnownCheckpointIsServedWhenTheAllowanceOfAllIsUsedUp(t *testing.T) {
	w := newWorld(t)
	w.execution.head.Store(30)
	w.must(w.chain.Follow(t.Context()))
	w.sell(27)
	w.must(w.chain.MakeBundles(t.Context()))
	kept := w.checkpoint(15)
	w.wantFinal(27, kept) // a reader has named it before
	ask := func(client string, root finality.Root) error {
		_, err := w.chain.Document(t.Context(), client, finality.Root(w.execution.hash(27)), &root)
		return err
	}
	for i := range 199 {
		w.want(ask(fmt.Sprint("client ", i/20), finality.Root{1, byte(i)}), beaconchain.ErrCheckpointUnknown)
	}
	w.want(ask("another", finality.Root{2}), beaconchain.ErrUnavailable)
	w.must(ask("another", kept))
	w.want(ask("another", finality.Root{1, 7}), beaconchain.ErrCheckpointUnknown)
}
