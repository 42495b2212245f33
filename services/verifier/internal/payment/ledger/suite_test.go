package ledger_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

// Store returns one more handle on one ledger, as one more process would have it.
type Store func() *ledger.Ledger

// Open makes an empty ledger that uses the clock now.
type Open func(t *testing.T, now func() time.Time) Store

// Owners of the tests; only the first two are alive.
const (
	alice = "alice"
	bob   = "bob"
	gone  = "gone"
	month = "2026-11"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// world is a fresh ledger with a clock that tests move.
type world struct {
	*testing.T
	*ledger.Ledger
	store Store

	mu  sync.Mutex
	now time.Time
}

func newWorld(t *testing.T, open Open) *world {
	t.Helper()
	w := &world{T: t, now: start}
	w.store = open(t, func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.now
	})
	w.Ledger = w.store()
	for _, owner := range []string{alice, bob} {
		w.must(w.Heartbeat(context.Background(), owner, start.Add(time.Hour)))
	}
	return w
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

// record makes a claim; the same name makes the same payment.
func record(name, owner string) payment.Record {
	return payment.Record{
		Key:   payment.Key{Network: "eip155:8453", Asset: "0xasset", Payer: "0xpayer", Nonce: "0x" + name},
		Owner: owner, Deadline: start.Add(30 * time.Minute), Plain: true,
		Payment: sha256.Sum256([]byte("payment " + name)), Request: sha256.Sum256([]byte("request " + name)),
		Resource: "/v1/verify/base-transaction", Operation: "base-transaction", Transport: payment.TransportHTTP, Amount: "10000", PayTo: "0xseller", ValidBefore: start.Add(time.Minute), Client: "client",
	}
}

func settlement(r payment.Record, limit int) payment.Settlement {
	return payment.Settlement{
		Request: r.Request, Answer: []byte(`{"answer":1}`), Month: month, Limit: limit, Deadline: start.Add(30 * time.Minute),
	}
}

func (w *world) claim(r payment.Record) payment.Record {
	w.Helper()
	got, won, err := w.Claim(context.Background(), r)
	w.must(err)
	if !won {
		w.Fatalf("claim was refused, the ledger has %+v", got)
	}
	return got
}

func (w *world) begin(r payment.Record) {
	w.Helper()
	w.claim(r)
	_, duplicate, err := w.Begin(context.Background(), r.Key, r.Owner, settlement(r, 1000))
	w.must(err)
	if duplicate != nil {
		w.Fatalf("began as a duplicate of %+v", duplicate)
	}
}

func (w *world) finish(r payment.Record, o payment.Outcome) payment.Record {
	w.Helper()
	verdict := payment.Verdict(o)
	if read, err := w.Get(context.Background(), r.Key); err == nil {
		verdict.Retry.Retries = read.Retries
	}
	ended, err := w.Apply(context.Background(), r.Key, verdict)
	w.must(err)
	got := w.get(r.Key)
	if got.Outcome() != ended {
		w.Errorf("finish returned %+v, the ledger has %+v", ended, got.Outcome())
	}
	return got
}

// second returns the error of an event that is applied for its effect.
func second(_ payment.Outcome, err error) error { return err }

func release(owner string) payment.Event {
	return payment.Event{Kind: payment.EventRelease, Claim: payment.Record{Owner: owner}}
}

func lost(reason string) payment.Event {
	return payment.Event{Kind: payment.EventLost, Outcome: payment.Outcome{Reason: reason}}
}

func retry(month string, r payment.Retry) payment.Event {
	return payment.Event{Kind: payment.EventRetry, Month: month, Retry: r}
}

// decide is an operator's decision about a record of a state.
func decide(from payment.State, o payment.Outcome, note string) payment.Event {
	d := payment.Decision{From: from, To: o.State, Transaction: o.Transaction, By: "root", Note: note}
	return payment.Event{Kind: payment.EventDecision, By: payment.ByOperator, Outcome: o, Decision: d}
}

func (w *world) get(key payment.Key) payment.Record {
	w.Helper()
	r, err := w.Get(context.Background(), key)
	w.must(err)
	return r
}

func (w *world) wantReserved(n int) {
	w.Helper()
	s, err := w.QuotaStatus(context.Background(), month)
	w.must(err)
	if s.Reserved != n {
		w.Errorf("%d settlements are reserved, want %d", s.Reserved, n)
	}
}

func (w *world) wantGone(key payment.Key) {
	w.Helper()
	if r, err := w.Get(context.Background(), key); !errors.Is(err, payment.ErrNotFound) {
		w.Errorf("got %+v, %v; want ErrNotFound", r, err)
	}
}

// same compares records but for the moments of their writing.
func (w *world) same(got, want payment.Record) {
	w.Helper()
	got.Claimed, got.Changed, want.Claimed, want.Changed = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("record (-want +got):\n%s", diff)
	}
}

// Run holds a ledger against the meaning of payment.Ledger and payment.Upkeep.
func Run(t *testing.T, open Open) {
	tests := []struct {
		name string
		test func(*world)
	}{
		{"a claim is read back whole", claimIsReadBack},
		{"a payment is claimed once", claimedOnce},
		{"a released claim is free again", releasedIsFree},
		{"only its owner releases a claim", onlyOwnerReleases},
		{"the claim of an owner that is gone is taken over", takenOverWhenGone},
		{"the claim of an owner that stopped beating is taken over", takenOverWhenSilent},
		{"a registered owner keeps their claims when another arrives", keptWhenAnotherArrives},
		{"a claim past its deadline is taken over", takenOverWhenLate},
		{"copies that are not plain are apart from each other and from the plain one", copiesAreApart},
		{"a copy that was settled gets the key of the authorization", settledCopyGetsTheKey},
		{"of two copies that were settled the later one is dead", laterCopyIsDead},
		{"a plain copy keeps the key of the authorization", plainCopyKeepsTheKey},
		{"a plain copy whose claim was abandoned keeps nothing", abandonedPlainOwnsNothing},
		{"to a plain copy a dead record that is not gives way", deadGivesWay},
		{"a plain copy that is released leaves the dead one whose key it had", releasedLeavesTheDead},
		{"a payment that was found is settled", foundIsSettled},
		{"a payment that was found takes over a settled copy that is not plain", foundTakesOverACopy},
		{"a plain copy that takes over returns no settlement of the other", takenOverReturnsNothingOfTheOther},
		{"a settlement that fails counts where it began", failsWhereItBegan},
		{"a copy that was refunded is not taken over", refundedIsNotTakenOver},
		{"what others have sent in a payer's name does not count for their plain payments", othersDoNotCountForThePlain},
		{"a settling that was abandoned reads as unknown and cannot be claimed", abandonedSettlingIsUnknown},
		{"begin keeps the answer and reserves", beginKeeps},
		{"begin is refused to who lost the claim", beginNeedsTheClaim},
		{"begin is refused to whose claim went to another request", beginNeedsTheRequest},
		{"begin is refused at the limit and reserves nothing", beginAtTheLimit},
		{"each month has its own limit", monthsAreSeparate},
		{"begin finds what the same identifier bought", beginFindsDuplicate},
		{"identifiers are the payer's own", identifiersByPayer},
		{"begin finds what the same question has bought", beginFindsEarlier},
		{"earlier is of the payer, the question and the window", earlierIsFound},
		{"what is asked again is counted by payer and day", askedAgainIsCounted},
		{"a settled payment keeps answer and transaction", settledKeeps},
		{"a dead payment returns the settlement once", deadReturnsSettlement},
		{"a dead payment whose transaction was made keeps the settlement", deadKeepsWhatWasMade},
		{"an unknown payment keeps its answer and its reservation", unknownKeeps},
		{"a settled payment stays settled", settledStays},
		{"a dead payment that was paid after all counts again", deadMaySettle},
		{"a working payment cannot be finished", workingCannotFinish},
		{"a retry reserves one more, which an echo or an end returns", retriesAreReserved},
		{"a retry needs the record as it was read", retryNeedsTheRecordAsRead},
		{"only an unknown payment is decided by hand", onlyUnknownIsDecided},
		{"a dead payment is looked at seldom", deadIsLookedAtSeldom},
		{"failed settlements are counted by payer, client and day", failedAreCounted},
		{"begin is refused to whose settlements have failed", beginIsCapped},
		{"as many settlements are under way as may fail, and one more for each that was paid", beginWaitsForCapacity},
		{"open and expired outcomes weigh a tenth", openWeighLittle},
		{"retries weigh too", retriesWeighToo},
		{"the last settlements of a month are kept for who has paid", keptForTheBuyer},
		{"failed settlements of strangers have a cap of their own", strangersAreCapped},
		{"a known payer is refused for no failure but their own", knownByPaying},
		{"what an identifier has bought is found", boughtIsFound},
		{"due returns unknown payments once", dueOnce},
		{"what was taken while the clock was ahead is taken again", takenAhead},
		{"ended payments come once, in the order of their claims", endedComeOnce},
		{"ended payments of one moment come together", endedOfOneMoment},
		{"a settled payment whose transfer is gone is open again", settledIsReopened},
		{"prune drops old answers and abandoned claims only", pruneDrops},
		{"an answer is found by its hash as long as one payment keeps it", answerByHash},
		{"a large answer is read by its hash alone", largeByHash},
		{"a month that is closed stays, and what changes is a correction", statementKeeps},
		{"prune goes by the age of claims, not by their order", pruneGoesByAge},
		{"prune leaves no old answer where nothing is sold any more", pruneWhenNothingIsSold},
		{"list is newest first, filtered and brief", listFilters},
		{"totals add up amounts beyond 64 bits", totalsAddUp},
		{"decisions of operators are kept", decisionsAreKept},
		{"refunds are kept, and never more than was paid", refundsAreKept},
		{"totals are split by operation, transport and day", totalsAreSplit},
		{"totals are of months and of what the filter leaves of them", totalsByMonth},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(newWorld(t, open))
		})
	}
}

// RunConcurrently holds a ledger against many callers in several processes.
func RunConcurrently(t *testing.T, open Open) {
	t.Run("of 100 claims at once one wins", func(t *testing.T) { oneWinner(newWorld(t, open)) })
	t.Run("of 100 copies that are settled or claimed at once one gets the key", func(t *testing.T) { oneCopyGetsTheKey(newWorld(t, open)) })
	t.Run("of 100 copies that are claimed at once one gets the key of a dead one", func(t *testing.T) {
		oneGetsTheKeyOfTheDead(newWorld(t, open))
	})
	t.Run("500 beginnings at once stop exactly at the limit", func(t *testing.T) { exactLimit(newWorld(t, open)) })
	t.Run("of 100 beginnings with one identifier one wins", func(t *testing.T) { oneDuplicate(newWorld(t, open)) })
	t.Run("of 100 beginnings for one question one wins", func(t *testing.T) { oneQuestion(newWorld(t, open)) })
	t.Run("of 100 decisions at once one is taken", func(t *testing.T) { decidedOnce(newWorld(t, open)) })
	t.Run("a statement is of one moment while others refund", func(t *testing.T) {
		statementIsOfOneMoment(newWorld(t, open))
	})
	t.Run("of 100 who close a month at once one does", func(t *testing.T) { monthIsClosedOnce(newWorld(t, open)) })
	t.Run("100 refunds at once stop at what was paid", func(t *testing.T) { refundedOnce(newWorld(t, open)) })
	t.Run("100 repetitions at once stop exactly at the limit", func(t *testing.T) { askedAgainConcurrently(newWorld(t, open)) })
	t.Run("of 100 beginnings with one identifier in two months one wins", func(t *testing.T) { oneDuplicateAtTheMonthsEnd(newWorld(t, open)) })
	t.Run("100 finishes at once count once", func(t *testing.T) { finishOnce(newWorld(t, open)) })
	t.Run("of 100 retries at once one is taken", func(t *testing.T) { retryOnce(newWorld(t, open)) })
	t.Run("100 retries at once stop exactly at the limit", func(t *testing.T) { retriesStayInTheLimit(newWorld(t, open)) })
	t.Run("of 100 beginnings of 100 strangers at once as many begin as may fail", func(t *testing.T) { strangersAtOnce(newWorld(t, open)) })
	t.Run("of 100 beginnings of one payer at once as many begin as may fail", func(t *testing.T) { cappedAtOnce(newWorld(t, open)) })
	t.Run("of 100 checks at once one gets the payments that have ended", func(t *testing.T) { endedConcurrently(newWorld(t, open)) })
	t.Run("100 looks at once return each payment once", func(t *testing.T) { dueConcurrently(newWorld(t, open)) })
}

// at runs do 100 times or more at once, spread over three processes.
func (w *world) at(n int, do func(i int, l *ledger.Ledger)) {
	handles := []*ledger.Ledger{w.Ledger, w.store(), w.store()}
	var all sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-gate
			do(i, handles[i%len(handles)])
		})
	}
	close(gate)
	all.Wait()
}

func name(i int) string { return fmt.Sprintf("%03d", i) }
