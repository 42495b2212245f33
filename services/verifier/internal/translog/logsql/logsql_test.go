package logsql_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/translog"
	"github.com/pforte/pforte/services/verifier/internal/translog/logsql"
)

// signed is an answer with a signature that its name determines.
func signed(name string) []byte {
	first, second := sha256.Sum256([]byte(name)), sha256.Sum256([]byte(name+"2"))
	value := base64.StdEncoding.EncodeToString(append(first[:], second[:]...))
	return fmt.Appendf(nil, `{"receipt":{"n":"%s"},"signature":{"algorithm":"Ed25519","keyId":"sha256:%s","payloadType":"t","value":"%s"},"proof":{}}`,
		name, strings.Repeat("0a", 32), value)
}

func leafOf(t testing.TB, answer []byte) tlog.Hash {
	t.Helper()
	e, err := receiptlog.EntryOfAnswer(answer)
	if err != nil {
		t.Fatal(err)
	}
	return e.Leaf()
}

// listedKey is the one listed key of the tests in a state.
func listedKey(status string, cutOffs ...receipt.Logged) receipt.Key {
	key := receipt.Key{KeyID: "sha256:" + strings.Repeat("0a", 32), Status: status}
	if len(cutOffs) > 0 {
		key.Logged = &receipt.Logged{Origin: cutOffs[0].Origin, Before: cutOffs[0].Before, Earlier: cutOffs[1:]}
	}
	return key
}

// keyEntry is the one listed key of the tests.
func keyEntry(t testing.TB) []byte {
	t.Helper()
	e, err := receiptlog.NewNumberedKeyEntry(1, listedKey(receipt.KeyActive))
	if err != nil {
		t.Fatal(err)
	}
	return e.Bytes()
}

func name(log int64) (origin, vkey string, err error) {
	return fmt.Sprintf("v.example/v1/log/%d", log), fmt.Sprintf("v.example/v1/log/%d+0+key", log), nil
}

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// process is a ledger and the log on its database.
type process struct {
	*logsql.Store
	ledger *ledger.Ledger
}

// openProcess opens a database, as a process with the log does.
func openProcess(t testing.TB, url string) process {
	t.Helper()
	p := process{ledger: openLedger(t, url, true)}
	p.Store = logsql.New(logsql.Options{DB: p.ledger.DB(), Now: clock})
	if _, err := p.Begin(context.Background(), name, []receipt.Key{listedKey(receipt.KeyActive)}); err != nil {
		t.Fatal(err)
	}
	return p
}

func clock() time.Time { return start }

func openLedger(t testing.TB, url string, logs bool) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(context.Background(), url, ledger.Options{Now: clock, Log: logs})
	if err == nil {
		t.Cleanup(func() { _ = l.Close() })
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// world is a process, and more of them on its database.
type world struct {
	*testing.T
	process
	another func() process
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// onEach runs a test on SQLite and Postgres.
func onEach(t *testing.T, test func(t *testing.T, w *world)) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		another := func() process { return openProcess(t, url) }
		test(t, &world{T: t, process: another(), another: another})
	})
}

// note is a checkpoint as Publish takes it, whatever it replaces.
func note(text string) func([]byte) []byte { return func([]byte) []byte { return []byte(text) } }

// sell begins the sale of an answer, of which so many are free in a month.
func sell(l *ledger.Ledger, payer, nonce string, answer []byte, limit int) error {
	_, err := paymenttest.Begin(l, start, payer, nonce, answer, limit)
	return err
}

// free are more settlements than any test makes.
const free = 1 << 30

// sequence sequences until the queue is empty.
func sequence(t testing.TB, l *logsql.Store, most int) translog.Head {
	t.Helper()
	for {
		head, taken, err := l.Sequence(context.Background(), most)
		if err != nil {
			t.Fatal(err)
		}
		if taken == 0 {
			return head
		}
	}
}

// root is the root of a tree computed apart (RFC 6962 section 2.1).
func root(leaves []tlog.Hash) tlog.Hash {
	if len(leaves) == 0 {
		return sha256.Sum256(nil)
	}
	if len(leaves) == 1 {
		return leaves[0]
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	return tlog.NodeHash(root(leaves[:k]), root(leaves[k:]))
}

// entriesOf returns all entries, of which the root must be the head's.
func entriesOf(t testing.TB, l *logsql.Store, head translog.Head) [][]byte {
	t.Helper()
	entries, err := l.Entries(context.Background(), head.Log, 0, int(head.Size)+10)
	if err != nil || int64(len(entries)) != head.Size {
		t.Fatalf("%d entries of %d, %v", len(entries), head.Size, err)
	}
	var leaves []tlog.Hash
	for _, e := range entries {
		leaves = append(leaves, receiptlog.Leaf(e))
	}
	if got := root(leaves); got != head.Root {
		t.Fatalf("the root of %d entries is %s, the head has %x", head.Size, got, head.Root)
	}
	return entries
}

func TestLog_ASaleIsQueuedAsItsSettlementBegins(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		answer := signed("a")
		w.must(sell(w.ledger, "0xpayer", "a", answer, free))
		if queued, err := w.IsQueued(t.Context(), leafOf(t, answer)); err != nil || !queued {
			t.Errorf("queued: %v, %v", queued, err)
		}
		if err := sell(w.ledger, "0xpayer", "b", signed("b"), 1); !errors.Is(err, payment.ErrLimit) {
			t.Fatal(err)
		}
		if queued, err := w.IsQueued(t.Context(), leafOf(t, signed("b"))); err != nil || queued {
			t.Errorf("a sale that did not begin is queued: %v, %v", queued, err)
		}
		if err := sell(w.ledger, "0xpayer", "c", []byte("{}"), free); err == nil {
			t.Error("a sale began whose answer has no entry")
		}
	})
}

func TestLog_EachReceiptOfABatchIsAnEntry(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		all := [][]byte{signed("a"), signed("b"), signed("c")}
		w.must(sell(w.ledger, "0xpayer", "batch", receipt.JoinAnswers(all), free))
		for _, answer := range all {
			if queued, err := w.IsQueued(t.Context(), leafOf(t, answer)); err != nil || !queued {
				t.Errorf("queued: %v, %v", queued, err)
			}
		}
		sequence(t, w.Store, 100)
		_, err := w.ledger.Anew(t.Context(), payment.Key{}, receipt.JoinAnswers(append(all, signed("d")))) // the last is missing
		w.must(err)
		if q, err := w.Queue(t.Context()); err != nil || q.Entries != 1 {
			t.Errorf("%+v, %v", q, err)
		}
		stored, _, err := w.StoredEntries(t.Context(), 0, time.Now().Add(1000*time.Hour), 10)
		if err != nil || len(stored) != 3 || stored[0].Payment != stored[2].Payment {
			t.Errorf("%d entries are stored, %v", len(stored), err)
		}
		if err := sell(w.ledger, "0xpayer", "broken", receipt.JoinAnswers([][]byte{signed("e"), []byte("{}")}), free); err == nil {
			t.Error("a sale began of which an answer has no entry")
		}
	})
}

func TestLog_ANewAnswerIsQueuedUnlessTheLogHasIt(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		answer := signed("a")
		for range 2 {
			got, err := w.ledger.Anew(t.Context(), payment.Key{}, answer)
			w.must(err)
			if got.String() != string(answer) {
				t.Errorf("got %q", got)
			}
			sequence(t, w.Store, 100)
		}
		if at, err := w.Index(t.Context(), 1, leafOf(t, answer)); err != nil || at != 1 {
			t.Errorf("it has the index %d, %v", at, err)
		}
		if q, err := w.Queue(t.Context()); err != nil || q.Entries != 0 {
			t.Errorf("%+v, %v", q, err)
		}
		if _, err := w.ledger.Anew(t.Context(), payment.Key{}, []byte("{}")); err == nil {
			t.Error("an answer without an entry left")
		}
	})
}

func TestLog_EveryEntryHasOnePlaceInOneTree(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const writers, each = 4, 60
		var all sync.WaitGroup
		stores := []process{w.process, w.another()}
		for i := range writers { // pairs sell the same, in another order
			all.Go(func() {
				for j := range each {
					name := fmt.Sprintf("%d-%d", i/2, (j*(2*i+1))%each)
					if err := sell(stores[i%2].ledger, fmt.Sprintf("0xpayer%d", i), fmt.Sprintf("%d-%d", i, j), signed(name), free); err != nil {
						t.Error(err)
					}
				}
			})
		}
		stop := make(chan struct{})
		var sequencers sync.WaitGroup
		for _, l := range stores {
			sequencers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						if _, _, err := l.Sequence(context.Background(), 7); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		all.Wait()
		close(stop)
		sequencers.Wait()
		head := sequence(t, w.Store, 1000)
		want := map[string]bool{string(keyEntry(t)): true}
		for i := range writers {
			for j := range each {
				e, err := receiptlog.EntryOfAnswer(signed(fmt.Sprintf("%d-%d", i/2, (j*(2*i+1))%each)))
				w.must(err)
				want[string(e.Bytes())] = true
			}
		}
		for _, e := range entriesOf(t, w.Store, head) {
			if !want[string(e)] {
				t.Errorf("entry %q", e)
			}
			delete(want, string(e))
		}
		if len(want) != 0 {
			t.Errorf("%d entries are missing", len(want))
		}
	})
}

func TestLog_IsTheSameWhateverThePortions(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for i := range 300 {
			_, err := w.ledger.Anew(t.Context(), payment.Key{}, signed(fmt.Sprint(i%290)))
			w.must(err)
		}
		var head translog.Head
		for portion := 1; ; portion++ {
			var taken int
			var err error
			head, taken, err = w.Sequence(t.Context(), portion)
			w.must(err)
			entriesOf(t, w.Store, head)
			if taken == 0 {
				break
			}
		}
		if head.Size != 291 {
			t.Errorf("%d entries", head.Size)
		}
	})
}

func TestLog_StoredAnswersAreQueuedWhenItBegins(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		plain := openLedger(t, url, false)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(sell(plain, "p", "1", signed("1"), free))
		for range 2 { // the second time there is nothing to do
			l := openProcess(t, url)
			head := sequence(t, l.Store, 10)
			if got := entriesOf(t, l.Store, head); len(got) != 2 || string(got[0]) != string(keyEntry(t)) {
				t.Errorf("entries are %q", got)
			}
		}
		must(logsql.New(logsql.Options{DB: plain.DB(), Now: clock}).SellWithoutLog(t.Context()))
		must(sell(plain, "p", "2", signed("2"), free))
		l := openProcess(t, url)
		if at, err := l.Index(t.Context(), 1, leafOf(t, signed("2"))); err == nil {
			t.Errorf("it has the place %d already", at)
		}
		if head := sequence(t, l.Store, 10); head.Size != 3 {
			t.Errorf("%d entries", head.Size)
		}
		other := func(int64) (string, string, error) { return "other.example/v1/log/1", "other", nil }
		if _, err := l.Begin(t.Context(), other, nil); !errors.Is(err, translog.ErrOtherLog) {
			t.Errorf("under another name it begins with %v", err)
		}
	})
}

func TestLog_WhileFrozenGivesNoPlacesAndSalesGoOn(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		head := sequence(t, w.Store, 10)
		w.must(w.Freeze(t.Context(), 1, translog.FrozenFork))
		w.must(w.Freeze(t.Context(), 1, translog.FrozenBehind)) // the first reason stays
		w.must(sell(w.ledger, "p", "1", signed("1"), free))
		if got, taken, err := w.Sequence(t.Context(), 10); !errors.Is(err, translog.ErrFrozen) || taken != 0 || got.Frozen != translog.FrozenFork || got.Size != head.Size {
			t.Errorf("%+v, %d, %v", got, taken, err)
		}
		for _, wrong := range []struct {
			size int64
			why  string
		}{{head.Size, translog.FrozenBehind}, {head.Size + 1, translog.FrozenFork}} {
			if err := w.Resume(t.Context(), 1, wrong.size, wrong.why); !errors.Is(err, translog.ErrLost) {
				t.Errorf("%+v resumes with %v", wrong, err)
			}
		}
		w.must(w.Resume(t.Context(), 1, head.Size, translog.FrozenFork))
		if got := sequence(t, w.Store, 10); got.Size != head.Size+1 {
			t.Errorf("%d entries", got.Size)
		}
	})
}

func TestLog_IsExtendedOnlyAtItsEnd(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		head := sequence(t, w.Store, 10)
		w.must(w.Freeze(t.Context(), 1, translog.FrozenRestored))
		e, err := receiptlog.EntryOfAnswer(signed("lost"))
		w.must(err)
		for _, first := range []int64{0, head.Size + 1} {
			if _, err := w.Extend(t.Context(), 1, first, [][]byte{e.Bytes()}); !errors.Is(err, translog.ErrLost) {
				t.Errorf("at %d: %v", first, err)
			}
		}
		head, err = w.Extend(t.Context(), 1, head.Size, [][]byte{e.Bytes()})
		w.must(err)
		if got := entriesOf(t, w.Store, head); len(got) != 2 || head.Frozen == "" {
			t.Errorf("%d entries, %+v", len(got), head)
		}
	})
}

func TestLog_ANewGenerationGetsTheQueuedAndTheStored(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.must(sell(w.ledger, "p", "1", signed("1"), free))
		sequence(t, w.Store, 10)
		w.must(sell(w.ledger, "p", "2", signed("2"), free))
		w.must(w.Publish(t.Context(), 1, 1, note("earlier")))
		w.must(w.Publish(t.Context(), 1, 2, note("final")))
		if err := w.EndLog(t.Context(), 1, []byte("earlier"), translog.Head{Log: 2, Origin: "v.example/v1/log/2", VKey: "v.example/v1/log/2+0+key"}); !errors.Is(err, translog.ErrLost) {
			t.Errorf("it ends with another checkpoint than is served: %v", err)
		}
		w.must(w.EndLog(t.Context(), 1, []byte("final"), translog.Head{Log: 2, Origin: "v.example/v1/log/2", VKey: "v.example/v1/log/2+0+key"}))
		if err := w.EndLog(t.Context(), 1, []byte("other"), translog.Head{Log: 3}); !errors.Is(err, translog.ErrLost) {
			t.Errorf("it ends twice: %v", err)
		}
		if err := w.Publish(t.Context(), 1, 3, note("later")); !errors.Is(err, translog.ErrLost) {
			t.Errorf("after its end it gets another checkpoint: %v", err)
		}
		if got, err := w.Published(t.Context(), 1); err != nil || string(got.Note) != "final" {
			t.Errorf("after its end %q is served, %v", got.Note, err)
		}
		head := sequence(t, w.Store, 10)
		if entries := entriesOf(t, w.Store, head); head.Log != 2 || len(entries) != 3 || string(entries[0]) != string(keyEntry(t)) {
			t.Errorf("%+v, %q", head, entries)
		}
		heads, err := w.Heads(t.Context())
		w.must(err)
		if len(heads) != 2 || heads[0].Log != 2 || !heads[0].Closed.IsZero() || heads[1].Closed.IsZero() || string(heads[1].Final) != "final" || heads[1].Size != 2 {
			t.Errorf("%+v", heads)
		}
		w.another() // opens under the new name
	})
}

func TestLog_TheGreatestCheckpointIsServed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		if none, err := w.Published(t.Context(), 1); err != nil || none.Note != nil || !none.At.IsZero() {
			t.Errorf("before the first: %+v, %v", none, err)
		}
		for i := range 4 {
			_, err := w.ledger.Anew(t.Context(), payment.Key{}, signed(fmt.Sprint(i)))
			w.must(err)
		}
		sequence(t, w.Store, 10)
		for _, c := range []struct {
			size int64
			note string
		}{{5, "five"}, {3, "three"}, {5, "five again"}} {
			w.must(w.Publish(t.Context(), 1, c.size, note(c.note)))
		}
		got, err := w.Published(t.Context(), 1)
		w.must(err)
		if got.Size != 5 || string(got.Note) != "five again" || !got.At.Equal(start) {
			t.Errorf("%+v", got)
		}
		for _, size := range []int64{7, 9} {
			w.must(w.SetWitness(t.Context(), 1, "w", size))
		}
		sizes := []int64{}
		for _, name := range []string{"w", "x"} {
			size, err := w.WitnessSize(t.Context(), 1, name)
			w.must(err)
			sizes = append(sizes, size)
		}
		if !slices.Equal(sizes, []int64{9, 0}) {
			t.Errorf("sizes are %v", sizes)
		}
	})
}

func TestLog_ACheckpointKeepsWhatItIsToTakeOfTheOneThatItReplaces(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		size := sequence(t, w.Store, 10).Size
		stores := []process{w.process, w.another()}
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				err := stores[i%2].Publish(context.Background(), 1, size, func(replaced []byte) []byte {
					return fmt.Append(slices.Clone(replaced), i, "\n")
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		got, err := w.Published(t.Context(), 1)
		w.must(err)
		lines := strings.Fields(string(got.Note))
		slices.Sort(lines)
		if len(lines) != 100 || len(slices.Compact(lines)) != 100 {
			t.Errorf("the checkpoint is %q", got.Note)
		}
	})
}

// The database may have failed over to an older one since the checkpoint was signed.
func TestLog_ACheckpointOfALargerTreeIsNotServed(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		head := sequence(t, w.Store, 10)
		w.must(w.Publish(t.Context(), 1, head.Size, note("all")))
		if err := w.Publish(t.Context(), 1, head.Size+1, note("larger")); !errors.Is(err, translog.ErrLost) {
			t.Errorf("a larger one: %v", err)
		}
		if got, err := w.Published(t.Context(), 1); err != nil || string(got.Note) != "all" {
			t.Errorf("%q is served, %v", got.Note, err)
		}
	})
}

// A process that is killed while it gives places leaves its transaction to the database.
func TestLog_AProcessThatDiesPlacingLeavesNothing(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		l := openProcess(t, url)
		for i := range 5 {
			if _, err := l.ledger.Anew(t.Context(), payment.Key{}, signed(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		dying, err := sqldb.Open(t.Context(), url, fstest.MapFS{"migrations/sqlite/00001_x.sql": {Data: []byte("-- +goose Up\n")}, "migrations/postgres/00001_x.sql": {Data: []byte("-- +goose Up\n")}})
		if err != nil {
			t.Fatal(err)
		}
		tx, err := dying.Writer.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{
			"UPDATE log_head SET size = 3 WHERE log = 1", "DELETE FROM log_queue", "INSERT INTO log_hashes SELECT log, 0, root FROM log_head",
		} {
			if _, err := tx.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		type result struct {
			head translog.Head
			err  error
		}
		other := make(chan result, 1)
		go func() {
			head, _, err := l.Sequence(context.Background(), 100)
			other <- result{head, err}
		}()
		select {
		case r := <-other:
			t.Fatalf("it does not wait for the lock: %+v", r)
		case <-time.After(100 * time.Millisecond):
		}
		if err := tx.Rollback(); err != nil { // as the database does for a connection that is lost
			t.Fatal(err)
		}
		if err := dying.Close(); err != nil {
			t.Fatal(err)
		}
		r := <-other
		if r.err != nil || len(entriesOf(t, l.Store, r.head)) != 6 {
			t.Errorf("%+v", r)
		}
	})
}

// raw is a connection to the database of a ledger, as another program has it.
func raw(t *testing.T, url string) *sqldb.DB {
	t.Helper()
	none := &fstest.MapFile{Data: []byte("-- +goose Up\n")}
	db, err := sqldb.Open(t.Context(), url, fstest.MapFS{"migrations/sqlite/00001_x.sql": none, "migrations/postgres/00001_x.sql": none})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestLog_AWriteThatWaitsWhileAGenerationEndsGetsTheNext(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		l := openProcess(t, url)
		sequence(t, l.Store, 10)
		tx, err := raw(t, url).Writer.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{
			"UPDATE log_head SET closed = 1, final = root WHERE log = 1",
			`INSERT INTO log_head (log, origin, vkey, size, root, opened)
				SELECT 2, 'v.example/v1/log/2', '', 0, root, 1 FROM log_head`,
		} {
			if _, err := tx.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := l.ListKeys(context.Background(), []receipt.Key{listedKey(receipt.KeyActive)})
			waiting <- err
		}()
		select {
		case err := <-waiting:
			t.Fatalf("it does not wait: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-waiting; err != nil {
			t.Error(err)
		}
	})
}

func TestSequence_SetsAsideWhatIsNoEntry(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		l, ctx := openProcess(t, url), t.Context()
		hand := raw(t, url)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		const text = "no entry"
		put := func(row string) {
			t.Helper()
			_, err := hand.Writer.ExecContext(ctx, hand.Rebind("INSERT INTO log_queue (leaf, entry, queued, source) VALUES (?, ?, 1, 0)"), []byte("leaf"), []byte(row))
			must(err)
		}
		put(text)
		put(strings.Repeat("x", 1<<20))
		_, err := l.ledger.Anew(ctx, payment.Key{}, signed("a"))
		must(err)
		for _, e := range entriesOf(t, l.Store, sequence(t, l.Store, 10)) {
			if _, err := receiptlog.ParseEntry(e); err != nil {
				t.Errorf("placed although %v", err)
			}
		}
		if at, err := l.Index(ctx, 1, leafOf(t, signed("a"))); err != nil || at != 1 {
			t.Errorf("what came after them has the place %d, %v", at, err)
		}
		q, err := l.Queue(ctx)
		must(err)
		aside, err := l.SetAside(ctx, 10)
		must(err)
		if q.Entries != 0 || q.SetAside != 2 || len(aside) != 2 || string(aside[0].Begin) != text || aside[1].Bytes != 1<<20 || len(aside[1].Begin) > receiptlog.MaxEntry || aside[0].Why == "" {
			t.Fatalf("%+v, %+v", q, aside)
		}
		must(l.Discard(ctx, aside[0].Number))
		if err := l.Discard(ctx, aside[0].Number); !errors.Is(err, translog.ErrNotFound) {
			t.Errorf("discarded twice: %v", err)
		}
		if q, err := l.Queue(ctx); err != nil || q.SetAside != 1 {
			t.Errorf("%+v, %v", q, err)
		}
		for range 4 { // SQLite numbers the rows of an emptied queue from 1 again
			put(text)
			sequence(t, l.Store, 10)
		}
		if q, err := l.Queue(ctx); err != nil || q.Entries != 0 || q.SetAside != 5 {
			t.Errorf("%+v, %v", q, err)
		}
	})
}

// states returns the numbered states of keys among entries of the log.
func states(t testing.TB, entries [][]byte) (all []receiptlog.Entry) {
	t.Helper()
	for _, data := range entries {
		e, err := receiptlog.ParseEntry(data)
		if err != nil {
			t.Fatal(err)
		}
		if e.IsKey() {
			all = append(all, e)
		}
	}
	return all
}

// list lists the one key of the tests, which must be accepted, and gives places.
func (w *world) list(status string, cutOffs ...receipt.Logged) receipt.Key {
	w.Helper()
	keys, err := w.ListKeys(context.Background(), []receipt.Key{listedKey(status, cutOffs...)})
	w.must(err)
	sequence(w, w.Store, 10)
	return keys[0]
}

func cutOff(log int, before string) receipt.Logged {
	return receipt.Logged{Origin: fmt.Sprintf("v.example/v1/log/%d", log), Before: before}
}

func TestListKeys_MakesEachChangeANumberedEntry(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, status := range []string{receipt.KeyActive, receipt.KeyRetired, receipt.KeyRetired, receipt.KeyActive, receipt.KeyRetired} {
			w.list(status)
		}
		w.another() // a process that starts with the first state
		for _, before := range []string{"3", "2", "2"} {
			w.list(receipt.KeyRevoked, cutOff(1, before))
		}
		w.list(receipt.KeyRevoked)
		want := []string{"active", "retired", "active", "retired", "active", "revoked before 3 in 1", "revoked before 2 in 1", "revoked"}
		got := states(t, entriesOf(t, w.Store, sequence(t, w.Store, 10)))
		if len(got) != len(want) {
			t.Fatalf("states are %+v", got)
		}
		for i, e := range got {
			if text := fmt.Sprintf("chain-evidence-key/v2 #%d\n%s\n%s\n", i+1, e.KeyID, want[i]); string(e.Bytes()) != text {
				t.Errorf("%q, want %q", e.Bytes(), text)
			}
		}
	})
}

func TestListKeys_RefusesWhatMayNotFollow(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		refused := func(what, status string, cutOffs ...receipt.Logged) {
			t.Helper()
			if _, err := w.ListKeys(t.Context(), []receipt.Key{listedKey(status, cutOffs...)}); !errors.Is(err, receiptlog.ErrKeyState) {
				t.Errorf("%s: %v", what, err)
			}
			if q, err := w.Queue(t.Context()); err != nil || q.Entries != 0 {
				t.Errorf("%s: %+v, %v", what, q, err)
			}
		}
		w.list(receipt.KeyActive)
		refused("a cut-off beyond the log", receipt.KeyRevoked, cutOff(1, "2"))
		refused("a cut-off in a generation that is not there", receipt.KeyRevoked, cutOff(2, "0"))
		refused("a cut-off in another log", receipt.KeyRevoked, receipt.Logged{Origin: "x.example/v1/log/1", Before: "0"})
		w.list(receipt.KeyRevoked, cutOff(1, "1"))
		w.list(receipt.KeyRevoked, cutOff(1, "0"))
		refused("a cut-off that goes up", receipt.KeyRevoked, cutOff(1, "1"))
		for _, status := range []string{receipt.KeyNext, receipt.KeyActive, receipt.KeyRetired} {
			refused("a revoked key is "+status, status)
		}
	})
}

func TestListKeys_NumbersStatesOnceHoweverManyProcessesList(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		stores := []process{w.process, w.another()}
		sequence(t, w.Store, 10)
		at := func(state func(i int) string) {
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() {
					if _, err := stores[i%2].ListKeys(context.Background(), []receipt.Key{listedKey(state(i))}); err != nil {
						t.Error(err)
					}
					if i%10 == 0 {
						if _, _, err := stores[i%2].Sequence(context.Background(), 3); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
		}
		at(func(int) string { return receipt.KeyRetired })
		if got := states(t, entriesOf(t, w.Store, sequence(t, w.Store, 10))); len(got) != 2 {
			t.Errorf("one change has made %d states", len(got))
		}
		at(func(i int) string { return []string{receipt.KeyActive, receipt.KeyRetired}[i%2] })
		for i, e := range states(t, entriesOf(t, w.Store, sequence(t, w.Store, 10))) {
			if e.Number != int64(i+1) {
				t.Errorf("state %d has the number %d", i+1, e.Number)
			}
		}
		if q, err := w.Queue(t.Context()); err != nil || q.SetAside != 0 {
			t.Errorf("%+v, %v", q, err)
		}
	})
}

func TestListKeys_SparesClosedGenerationsBeforeTheCutOff(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		end := func(log int64, final int64) {
			t.Helper()
			w.must(w.Publish(t.Context(), log, final, note("final")))
			origin := fmt.Sprintf("v.example/v1/log/%d", log+1)
			w.must(w.EndLog(t.Context(), log, []byte("final"), translog.Head{Log: log + 1, Origin: origin, VKey: origin + "+0+key"}))
		}
		w.must(sell(w.ledger, "p", "1", signed("1"), free))
		sequence(t, w.Store, 10)
		end(1, 2)
		head := sequence(t, w.Store, 10)
		if got := entriesOf(t, w.Store, head); string(got[0]) != string(keyEntry(t)) {
			t.Errorf("the next generation begins with %q", got[0])
		}
		key := w.list(receipt.KeyRevoked, cutOff(2, "1"))
		for _, at := range []struct {
			log, index int
			good       bool
		}{{1, 1, true}, {1, 2, false}, {2, 0, true}, {2, 1, false}, {3, 0, false}} {
			if good := key.GoodAt(cutOff(at.log, "").Origin, int64(at.index)); good != at.good {
				t.Errorf("at %+v it is good: %v", at, good)
			}
		}
		if named := w.list(receipt.KeyRevoked, cutOff(2, "1"), cutOff(1, "1")); named.GoodAt("v.example/v1/log/1", 1) {
			t.Error("a cut-off that is named was replaced")
		}
		last := states(t, entriesOf(t, w.Store, sequence(t, w.Store, 10)))
		if text := string(last[len(last)-1].Bytes()); !strings.HasSuffix(text, " #3\n"+key.KeyID+"\nrevoked before 1 in 1, 1 in 2\n") {
			t.Errorf("the last state is %q", text)
		}
		end(2, 3)
		if got := states(t, entriesOf(t, w.Store, sequence(t, w.Store, 10))); string(got[0].Bytes()) != string(last[len(last)-1].Bytes()) {
			t.Errorf("the third generation begins with %q", got[0].Bytes())
		}
		w.list(receipt.KeyRevoked, cutOff(2, "1"), cutOff(1, "1"))
		if head := sequence(t, w.Store, 10); len(states(t, entriesOf(t, w.Store, head))) != 1 {
			t.Error("a state that did not change is an entry again")
		}
	})
}

// As releases have it that did not number the states.
func TestListKeys_GoesOnFromStatesWithoutNumbers(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		v1, err := receiptlog.NewKeyEntry("sha256:"+strings.Repeat("0b", 32), receipt.KeyRevoked, 1)
		w.must(err)
		head := sequence(t, w.Store, 10)
		_, err = w.Extend(t.Context(), 1, head.Size, [][]byte{v1.Bytes()})
		w.must(err)
		list := func(before string) error {
			key := listedKey(receipt.KeyRevoked, cutOff(1, before))
			key.KeyID = v1.KeyID
			_, err := w.ListKeys(t.Context(), []receipt.Key{key})
			return err
		}
		w.must(list("1"))
		if q, err := w.Queue(t.Context()); err != nil || q.Entries != 0 {
			t.Errorf("a state that is there is queued: %+v, %v", q, err)
		}
		if err := list("2"); !errors.Is(err, receiptlog.ErrKeyState) {
			t.Errorf("its cut-off goes up: %v", err)
		}
		w.must(list("0"))
		got := states(t, entriesOf(t, w.Store, sequence(t, w.Store, 10)))
		if last := got[len(got)-1]; last.KeyID != v1.KeyID || last.Number != 1 || len(got) != 3 {
			t.Errorf("states are %+v", got)
		}
	})
}

func TestSequence_SetsAsideAStateThatMayNotFollow(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		l, hand := openProcess(t, url), raw(t, url)
		for _, number := range []int64{3, 2} {
			e, err := receiptlog.NewNumberedKeyEntry(number, listedKey(receipt.KeyRetired))
			if err == nil {
				_, err = hand.Writer.ExecContext(t.Context(), hand.Rebind("INSERT INTO log_queue (leaf, entry, queued, source) VALUES (?, ?, 1, 0)"), []byte("leaf"), e.Bytes())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		got := states(t, entriesOf(t, l.Store, sequence(t, l.Store, 10)))
		if q, err := l.Queue(t.Context()); err != nil || q.SetAside != 1 || len(got) != 2 || got[1].Number != 2 {
			t.Errorf("%+v, %v, %+v", q, err, got)
		}
	})
}

func TestListKeys_WaitsWhileTheLogIsFrozen(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		head := sequence(t, w.Store, 10)
		w.must(w.Freeze(t.Context(), 1, translog.FrozenRestored))
		keys := []receipt.Key{listedKey(receipt.KeyRevoked, cutOff(1, "9"))} // the entries may come back
		_, err := w.ListKeys(t.Context(), keys)
		w.must(err)
		if q, err := w.Queue(t.Context()); err != nil || q.Entries != 0 {
			t.Errorf("%+v, %v", q, err)
		}
		w.must(w.Resume(t.Context(), 1, head.Size, translog.FrozenRestored))
		if _, err := w.ListKeys(t.Context(), keys); !errors.Is(err, receiptlog.ErrKeyState) {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestSequence_PlacesNothingOnATreeThatIsNotTheHeads(t *testing.T) {
	for what, change := range map[string]string{
		"the head has another root": "UPDATE log_head SET root = (SELECT leaf FROM log_entries WHERE idx = 0)",
		"a stored hash is another":  "UPDATE log_hashes SET hash = (SELECT root FROM log_head) WHERE id = 2",
	} {
		for backend, url := range sqldbtest.URLs(t) {
			t.Run(what+", "+backend, func(t *testing.T) {
				l, hand := openProcess(t, url), raw(t, url)
				for _, name := range []string{"a", "b"} {
					if _, err := l.ledger.Anew(t.Context(), payment.Key{}, signed(name)); err != nil {
						t.Fatal(err)
					}
				}
				head := sequence(t, l.Store, 10)
				if _, err := hand.Writer.ExecContext(t.Context(), change); err != nil {
					t.Fatal(err)
				}
				if _, err := l.ledger.Anew(t.Context(), payment.Key{}, signed("c")); err != nil {
					t.Fatal(err)
				}
				if _, _, err := l.Sequence(t.Context(), 10); err == nil {
					t.Error("it places")
				}
				if heads, err := l.Heads(t.Context()); err != nil || heads[0].Size != head.Size {
					t.Errorf("%+v, %v", heads, err)
				}
			})
		}
	}
}
