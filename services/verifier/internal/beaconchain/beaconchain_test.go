package beaconchain_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/beacontest"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
)

// In these tests the block of slot s is that of number s; when the chain's head is h, the
// newest update calls block h-3 final.

func TestFollow_ASoldBlockIsProvenFinal(t *testing.T) {
	for name, test := range map[string]struct {
		block, head uint64
		link        string
	}{
		"the finalized block itself": {block: 17, head: 20, link: finality.LinkSame},
		"a few blocks before it":     {block: 12, head: 20, link: finality.LinkHeaders},
		"many blocks before it":      {block: 20, head: 67, link: finality.LinkHistory},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.chain.Follow(t.Context())) // begins at block 7
			w.sell(test.block)
			_, err := w.document(test.block, nil)
			w.want(err, beaconchain.ErrPending)
			w.must(w.chain.MakeBundles(t.Context()))
			_, err = w.document(test.block, nil)
			w.want(err, beaconchain.ErrPending) // no update came as far
			for head := w.execution.head.Load(); head < test.head; head += 25 {
				w.execution.head.Store(min(head, test.head))
				w.must(w.chain.Follow(t.Context()))
			}
			w.execution.head.Store(test.head)
			w.must(w.chain.Follow(t.Context()))
			if test.link == finality.LinkHistory {
				w.chain = w.open(w.node.url) // which knows no nearer update
				w.must(w.chain.Follow(t.Context()))
			}
			w.advance(2 * time.Second)
			w.must(w.chain.MakeBundles(t.Context()))
			result := w.wantFinal(test.block, w.checkpoint(10))
			if result.Link != test.link || len(result.Proven) == 0 || uint64(result.AnchorBlock.Number) != test.head-3 {
				t.Errorf("%+v", result)
			}
			d, err := w.document(test.block, nil)
			w.must(err)
			if d.Anchor.Checkpoint.Root != w.checkpoint(9) { // what was final when the first update was read
				t.Errorf("without a checkpoint it begins at slot %d", d.Anchor.Checkpoint.Header.Slot)
			}
		})
	}
}

func TestDocument_LeadsOverManyCommittees(t *testing.T) {
	w := newWorld(t)
	first := w.checkpoint(9)
	w.must(w.chain.Follow(t.Context()))
	for head := uint64(40); head <= 300; head += 10 {
		w.execution.head.Store(head)
		w.must(w.chain.Follow(t.Context()))
	}
	w.sell(295)
	w.must(w.chain.MakeBundles(t.Context()))
	result := w.wantFinal(295, first)
	if result.FirstPeriod != 0 || result.LastPeriod != 4 || result.LeastSigners != 508 {
		t.Errorf("%+v", result)
	}
	if w.askedFor("start_period=5") {
		t.Error("an update of the future was asked for")
	}
	// One checkpoint of each period is the server's own.
	own, err := w.store.OwnCheckpoints(t.Context(), chainID, 0)
	w.must(err)
	if len(own) != 5 {
		t.Errorf("%d checkpoints", len(own))
	}
	for i, c := range own {
		if c.Period != uint64(i) {
			t.Errorf("checkpoint %d is of period %d", i, c.Period)
		}
		w.wantFinal(295, finality.Root(c.Root))
	}
}

func TestFollow_AnEarlyUpdateIsReplacedByABetter(t *testing.T) {
	w := newWorld(t)
	w.execution.head.Store(66) // period 1 has just begun
	w.must(w.chain.Follow(t.Context()))
	w.node.Break(beacontest.Faults{EarlyUpdates: true})
	w.execution.head.Store(135) // period 2 has just begun, and the update of period 1 is an early one
	w.sell(130)
	if w.chain.Follow(t.Context()) == nil {
		t.Error("an early update has handed over")
	}
	if w.failures(beaconchain.CauseHandover) != 0 {
		t.Error("a later update was not waited for")
	}
	if steps, err := w.store.Steps(t.Context(), chainID, 1, 1); err != nil || len(steps) > 0 {
		t.Errorf("%+v, %v", steps, err)
	}
	w.must(w.chain.MakeBundles(t.Context()))
	_, err := w.document(130, nil)
	w.want(err, beaconchain.ErrPending)
	w.node.Break(beacontest.Faults{})
	w.must(w.chain.Follow(t.Context()))
	w.advance(2 * time.Second)
	w.must(w.chain.MakeBundles(t.Context()))
	w.wantFinal(130, w.checkpoint(65))
}

func TestFollow_APeriodsHandoverIsReplacedAtItsEnd(t *testing.T) {
	w := newWorld(t)
	w.execution.head.Store(70)
	w.node.Break(beacontest.Faults{Signers: 400})
	w.must(w.chain.Follow(t.Context()))
	steps := func(period uint64) beaconchain.Step {
		w.Helper()
		list, err := w.store.Steps(t.Context(), chainID, period, period)
		w.must(err)
		if len(list) != 1 {
			t.Fatalf("%d steps of period %d", len(list), period)
		}
		return list[0]
	}
	if s := steps(1); s.Signers != 400 || s.Final {
		t.Errorf("%d, %v", s.Signers, s.Final)
	}
	w.node.Break(beacontest.Faults{})
	w.must(w.chain.Follow(t.Context()))
	if s := steps(1); s.Signers != 400 { // not asked for again before
		t.Errorf("%d", s.Signers)
	}
	w.execution.head.Store(140)
	w.must(w.chain.Follow(t.Context()))
	if s := steps(1); s.Signers != 508 || !s.Final {
		t.Errorf("%d, %v", s.Signers, s.Final)
	}
}

func TestNode_ThatLiesIsNotBelieved(t *testing.T) {
	for name, faults := range map[string]beacontest.Faults{
		"wrong signature": {WrongSignature: true}, "another network's signature": {OtherNetwork: true}, "too few signers": {Signers: 300},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.chain.Follow(t.Context()))
			w.execution.head.Store(20)
			w.sell(17)
			w.node.Break(faults)
			if w.chain.Follow(t.Context()) == nil {
				t.Error("it is believed")
			}
			if w.failures(beaconchain.CauseUpdate) != 1 {
				t.Errorf("%d failures", w.failures(beaconchain.CauseUpdate))
			}
			w.must(w.chain.MakeBundles(t.Context()))
			_, err := w.document(17, nil)
			w.want(err, beaconchain.ErrPending)
			// The next node of the list is asked.
			honest := w.beacon("dev", "electra")
			w.chain = w.open(w.node.url, honest.url)
			w.must(w.chain.Follow(t.Context()))
			w.advance(2 * time.Second)
			w.must(w.chain.MakeBundles(t.Context()))
			w.wantFinal(17, w.checkpoint(9))
		})
	}
}

func TestNode_OfAnotherNetworkIsNotUsed(t *testing.T) {
	w := newWorld(t)
	other := w.beacon("other", "electra")
	w.chain = w.open(other.url)
	if w.chain.Follow(t.Context()) == nil {
		t.Error("it is used")
	}
	asked := other.asked.Load()
	if w.chain.Follow(t.Context()) == nil || other.asked.Load() != asked {
		t.Error("it is asked again")
	}
	if w.failures(beaconchain.CauseNetwork) != 1 {
		t.Errorf("%d failures", w.failures(beaconchain.CauseNetwork))
	}
	w.chain = w.open(other.url, w.node.url)
	w.must(w.chain.Follow(t.Context()))
	// Of the same genesis, with other forks.
	w.chain = w.open(w.beacon("dev", "deneb").url)
	if w.chain.Follow(t.Context()) == nil {
		t.Error("a node without the network's forks is used")
	}
}

func TestFollow_UpdatesOfForeignBlocksProveNothing(t *testing.T) {
	w := newWorld(t)
	w.must(w.chain.Follow(t.Context()))
	w.node.Break(beacontest.Faults{WrongBlock: true})
	w.execution.head.Store(20)
	w.sell(17)
	w.must(w.chain.Follow(t.Context())) // its committee has signed it
	w.must(w.chain.MakeBundles(t.Context()))
	_, err := w.document(17, nil)
	w.want(err, beaconchain.ErrPending)
	if w.failures(beaconchain.CauseBundle) != 1 {
		t.Errorf("%d failures", w.failures(beaconchain.CauseBundle))
	}
}

func TestFollow_WithoutProofsOfStateTakesUpTo64Headers(t *testing.T) {
	w := newWorld(t)
	w.must(w.chain.Follow(t.Context()))
	w.execution.noProof.Store(true)
	w.execution.head.Store(203)
	w.must(w.chain.Follow(t.Context()))
	w.sell(150)
	w.sell(130)
	w.must(w.chain.MakeBundles(t.Context()))
	if result := w.wantFinal(150, w.checkpoint(9)); result.Link != finality.LinkHeaders || result.AnchorBlock.Number != 200 {
		t.Errorf("%+v", result)
	}
	_, err := w.document(130, nil)
	w.want(err, beaconchain.ErrPending)
	for range 20 { // it is tried for twenty minutes
		w.advance(2 * time.Minute)
		w.must(w.chain.MakeBundles(t.Context()))
	}
	_, err = w.document(130, nil)
	w.want(err, beaconchain.ErrUnavailable)
	tried := w.failures(beaconchain.CauseLink)
	w.advance(time.Hour)
	w.must(w.chain.MakeBundles(t.Context()))
	if w.failures(beaconchain.CauseLink) != tried || tried < 5 || tried > 12 {
		t.Errorf("it was tried %d times, and then %d", tried, w.failures(beaconchain.CauseLink))
	}
	w.sell(130) // sold again, it is tried again
	_, err = w.document(130, nil)
	w.want(err, beaconchain.ErrPending)
}

func TestBundle_OfUpTo64HeadersNeedsNoProofAfterAFailedTry(t *testing.T) {
	for name, how := range map[string]func(*execution){
		"a node's proof does not hold":            func(e *execution) { e.emptyProof.Store(true) },
		"who refuses a proof refuses the headers": func(e *execution) { e.rests.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			how(w.execution)
			w.must(w.chain.Follow(t.Context()))
			w.execution.head.Store(203)
			w.must(w.chain.Follow(t.Context()))
			w.sell(150)
			for range 2 {
				w.execution.resting.Store(false)
				w.must(w.chain.MakeBundles(t.Context()))
				w.advance(2 * time.Second)
			}
			if result := w.wantFinal(150, w.checkpoint(9)); result.Link != finality.LinkHeaders {
				t.Errorf("%+v", result)
			}
		})
	}
}

func TestBundle_OfABlockBeforeTheChainsRecordIsGivenUpAtOnce(t *testing.T) {
	w := newWorld(t)
	w.execution.head.Store(finality.HistoryWindow + 5)
	w.must(w.chain.Follow(t.Context())) // block HistoryWindow+2 is final
	w.sell(1)
	w.sell(2) // the record has it, and no node proves that
	w.must(w.chain.MakeBundles(t.Context()))
	_, err := w.document(1, nil)
	w.want(err, beaconchain.ErrUnavailable)
	_, err = w.document(2, nil)
	w.want(err, beaconchain.ErrPending)
	if n := w.failures(beaconchain.CauseLink); n != 1 {
		t.Errorf("%d failures", n)
	}
}

func TestBundle_IsNotGivenUpWhileNodesAreAway(t *testing.T) {
	w := newWorld(t)
	w.must(w.chain.Follow(t.Context()))
	w.node.Break(beacontest.Faults{Down: true})
	w.execution.head.Store(20)
	w.sell(17)
	before := w.puts.Load()
	for range 40 {
		w.advance(5 * time.Minute)
		if w.chain.Follow(t.Context()) == nil {
			t.Error("a node that is down has answered")
		}
		w.must(w.chain.MakeBundles(t.Context()))
	}
	if n := w.puts.Load() - before; n != 0 {
		t.Errorf("a block that waits was written %d times", n)
	}
	_, err := w.document(17, nil)
	w.want(err, beaconchain.ErrUnavailable) // for now
	w.node.Break(beacontest.Faults{})
	w.must(w.chain.Follow(t.Context()))
	w.advance(2 * time.Second)
	w.must(w.chain.MakeBundles(t.Context()))
	w.wantFinal(17, w.checkpoint(9))
}

func TestBundle_IsGivenUpAfterADayWithoutUpdate(t *testing.T) {
	w := newWorld(t)
	w.must(w.chain.Follow(t.Context()))
	w.sell(17)
	w.must(w.chain.MakeBundles(t.Context()))
	w.advance(24*time.Hour + time.Second)
	w.must(w.chain.MakeBundles(t.Context()))
	w.execution.head.Store(20)
	w.must(w.chain.Follow(t.Context()))
	w.must(w.chain.MakeBundles(t.Context()))
	_, err := w.document(17, nil)
	w.want(err, beaconchain.ErrUnavailable)
}

func TestFollow_GoesOnFromWhatIsKeptAfterARestart(t *testing.T) {
	w := newWorld(t)
	first := w.checkpoint(9)
	w.must(w.chain.Follow(t.Context()))
	w.execution.head.Store(100)
	w.must(w.chain.Follow(t.Context()))
	w.sell(97)
	w.must(w.chain.MakeBundles(t.Context()))
	before, err := w.document(97, &first)
	w.must(err)
	w.sell(150)
	// It was away for more than a period.
	w.execution.head.Store(230)
	w.chain = w.open(w.node.url)
	after, err := w.document(97, &first) // at once, and the same
	w.must(err)
	if before.Anchor.Steps[0].Signature != after.Anchor.Steps[0].Signature {
		t.Error("another proof after the restart")
	}
	w.must(w.chain.Follow(t.Context()))
	w.execution.noProof.Store(true)
	w.sell(225)
	w.must(w.chain.MakeBundles(t.Context()))
	if result := w.wantFinal(225, first); result.LastPeriod != 3 {
		t.Errorf("%+v", result)
	}
}

func TestFollow_AfterARestartANodeNeedsNothingFromBeforeItWasSynced(t *testing.T) {
	w := newWorld(t)
	w.must(w.chain.Follow(t.Context()))
	w.execution.head.Store(80) // in period 1
	w.must(w.chain.Follow(t.Context()))
	first, own := w.checkpoint(9), w.checkpoint(79)
	const bootstrap = "/eth/v1/beacon/light_client/bootstrap/"
	var lies atomic.Bool
	node := w.node.Handler()
	url, _ := w.swapped(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch uri := r.URL.RequestURI(); {
		case uri == bootstrap+own.String(), strings.Contains(uri, "start_period=0&"):
			rw.WriteHeader(http.StatusNotFound)
		case lies.Load() && strings.HasPrefix(uri, bootstrap): // with the committee of period 0
			r.URL.Path = bootstrap + first.String()
			node.ServeHTTP(rw, r)
		default:
			node.ServeHTTP(rw, r)
		}
	}))
	w.execution.head.Store(100)
	w.chain = w.open(url)
	lies.Store(true)
	if w.chain.Follow(t.Context()) == nil || w.failures(beaconchain.CauseUpdate) != 1 {
		t.Error("a node's word for the committee is taken")
	}
	lies.Store(false)
	w.must(w.chain.Follow(t.Context()))
	w.sell(97)
	w.must(w.chain.MakeBundles(t.Context()))
	if result := w.wantFinal(97, first); result.LastPeriod != 1 {
		t.Errorf("%+v", result)
	}
}

func TestFollow_BeginsAnewAfterALongerPause(t *testing.T) {
	w := newWorld(t)
	w.must(w.chain.Follow(t.Context()))
	w.execution.head.Store(70 * 64)
	w.chain = w.open(w.node.url)
	w.must(w.chain.Follow(t.Context()))
	w.must(w.chain.Follow(t.Context()))
	w.sell(70*64 - 3)
	w.must(w.chain.MakeBundles(t.Context()))
	w.wantFinal(70*64-3, w.checkpoint(70*64-2))
	if w.askedFor("start_period=1&") {
		t.Error("handovers were read that no proof can lead over")
	}
}

func TestBundle_TwoReplicasMakeOne(t *testing.T) {
	w := newWorld(t)
	replicas := []*beaconchain.Chain{w.chain, w.open(w.node.url)}
	var all sync.WaitGroup
	for _, head := range []uint64{20, 75, 140} {
		w.execution.head.Store(head)
		for n := range 10 {
			w.sell(head - 4 - uint64(n)%3)
		}
		for _, c := range replicas {
			all.Go(func() {
				if err := c.Follow(context.Background()); err != nil {
					t.Error(err)
				}
				if err := c.MakeBundles(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		w.advance(3 * time.Minute)
		for _, c := range replicas {
			w.must(c.MakeBundles(t.Context()))
		}
	}
	for _, c := range replicas {
		s, err := c.Status(t.Context())
		w.must(err)
		if s.Bundles.States[beaconchain.BundleMade] != 9 || s.Bundles.States[beaconchain.BundlePending] != 0 || s.Participation < .9 || s.Anchor.IsZero() {
			t.Errorf("%+v", s)
		}
	}
	own, err := w.store.OwnCheckpoints(t.Context(), chainID, 0)
	w.must(err)
	for _, c := range own {
		w.chain = replicas[1]
		if c.Period == 0 {
			w.wantFinal(136, finality.Root(c.Root))
		}
	}
}

func TestNode_IsNotAskedForWhatWasNotSold(t *testing.T) {
	w := newWorld(t)
	w.must(w.chain.Follow(t.Context()))
	asked := w.node.asked.Load()
	checkpoint := w.checkpoint(9)
	for _, root := range []*finality.Root{nil, &checkpoint} {
		_, err := w.document(5, root)
		w.want(err, beaconchain.ErrUnknownBlock)
	}
	w.sell(7)
	_, err := w.document(7, &finality.Root{1}) // pending: nor for its checkpoint
	w.want(err, beaconchain.ErrPending)
	if w.node.asked.Load() != asked {
		t.Error("a node was asked")
	}
}

func TestCheckpoint_OfACallerIsReadOnceAndNotTooOften(t *testing.T) {
	w := newWorld(t)
	w.execution.head.Store(30)
	w.must(w.chain.Follow(t.Context()))
	w.sell(27)
	w.must(w.chain.MakeBundles(t.Context()))
	w.wantFinal(27, w.checkpoint(15))
	asked := w.node.asked.Load()
	w.wantFinal(27, w.checkpoint(15))
	if w.node.asked.Load() != asked {
		t.Error("it was read again")
	}
	for n := range 19 {
		_, err := w.document(27, &finality.Root{byte(n), 1})
		w.want(err, beaconchain.ErrCheckpointUnknown)
	}
	asked = w.node.asked.Load()
	_, err := w.document(27, &finality.Root{99})
	w.want(err, beaconchain.ErrUnavailable)
	if w.node.asked.Load() != asked {
		t.Error("more than twenty were read in a minute")
	}
	w.advance(time.Minute)
	_, err = w.document(27, &finality.Root{99})
	w.want(err, beaconchain.ErrCheckpointUnknown)
	w.node.Break(beacontest.Faults{Down: true})
	_, err = w.document(27, &finality.Root{98})
	w.want(err, beaconchain.ErrUnavailable)
}

func TestCheckpoint_AtWhichNoProofBeginsIsRefused(t *testing.T) {
	w := newWorld(t)
	w.execution.head.Store(100)
	w.must(w.chain.Follow(t.Context())) // the first start is in period 1
	w.sell(97)
	w.must(w.chain.MakeBundles(t.Context()))
	older := w.checkpoint(30)
	_, err := w.document(97, &older) // no steps lead from period 0
	w.want(err, beaconchain.ErrCheckpointTooOld)
	w.execution.head.Store(200)
	later := w.checkpoint(200)
	_, err = w.document(97, &later)
	w.want(err, beaconchain.ErrCheckpointUnknown)
}

func TestCheckpoint_ThatIsTheBlockNeedsNoCommittee(t *testing.T) {
	w := newWorld(t)
	w.execution.head.Store(30)
	w.must(w.chain.Follow(t.Context()))
	w.sell(25)
	w.must(w.chain.MakeBundles(t.Context()))
	if result := w.wantFinal(25, w.checkpoint(29)); result.Anchor != finality.AnchorPinnedBlock {
		t.Errorf("%+v", result)
	}
}

func TestDocument_IsGoneWhenAnswersAre(t *testing.T) {
	w := newWorld(t)
	w.execution.head.Store(30)
	w.must(w.chain.Follow(t.Context()))
	w.sell(27)
	w.must(w.chain.MakeBundles(t.Context()))
	w.advance(time.Hour)
	w.must(w.store.Prune(t.Context(), w.clock()))
	_, err := w.document(27, nil)
	w.want(err, beaconchain.ErrExpired)
}

func TestFollow_FromGloasOnTheBlockIsTheParents(t *testing.T) {
	w := newWorld(t)
	w.node = w.beacon("gloas", "gloas")
	w.chain = w.open(w.node.url)
	w.execution.head.Store(30)
	w.must(w.chain.Follow(t.Context()))
	w.sell(26)
	w.must(w.chain.MakeBundles(t.Context()))
	if result := w.wantFinal(26, w.checkpoint(9)); result.Link != finality.LinkSame || result.FinalizedSlot != 27 {
		t.Errorf("%+v", result)
	}
}

func TestNode_ThatSendsTooMuchIsAFailure(t *testing.T) {
	w := newWorld(t)
	big := make([]byte, 2<<20)
	for i := range big {
		big[i] = ' '
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/eth/v1/beacon/light_client/finality_update" {
			_, _ = rw.Write(big)
			return
		}
		http.Redirect(rw, r, w.node.url+r.URL.Path, http.StatusFound)
	}))
	t.Cleanup(server.Close)
	w.chain = w.open(server.URL, w.node.url)
	w.must(w.chain.Follow(t.Context()))
	if w.failures(beaconchain.CauseNode) == 0 {
		t.Error("no failure is counted")
	}
}
