package ledger_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
)

const transitions = "../" + paymenttest.Transitions

// start states of the table, and how a record gets there. "settling" of an owner that is gone
// reads as unknown; the settlement of "dead returned" was given back.
var stateNames = []string{"none", "working", "settling", "abandoned", "unknown", "retried", "settled", "dead", "dead returned"}

func (w *world) bring(r payment.Record, state string) {
	w.Helper()
	ctx := context.Background()
	if state == "none" {
		return
	}
	w.claim(r)
	if state == "working" {
		return
	}
	s := settlement(r, 1000)
	s.Answer = sold(r.Key.Nonce)
	_, duplicate, err := w.Begin(ctx, r.Key, r.Owner, s)
	if w.must(err); duplicate != nil {
		w.Fatal("a duplicate")
	}
	o, ends := map[string]payment.Outcome{
		"unknown":       {State: payment.Unknown, Reason: "no_answer"},
		"retried":       {State: payment.Unknown, Reason: "no_answer"},
		"settled":       {State: payment.Settled, Transaction: "0xt"},
		"dead":          {State: payment.Dead, Reason: "failed", Transaction: "0xf"},
		"dead returned": {State: payment.Dead, Reason: "insufficient_funds", Unsent: true},
	}[state]
	if ends {
		w.finish(r, o)
	}
	if state == "retried" {
		w.must(second(w.Apply(ctx, r.Key, retry(month, payment.Retry{Limit: 1000}))))
	}
}

// sold is an answer that is about a block whose name its name determines.
func sold(name string) []byte {
	digest := digestOf(name[len(name)-1])
	return fmt.Appendf(nil, `{"receipt":{"n":%q,"chain":{"id":%q,"name":"c"},"block":{"number":"1","hash":"0x%x"}},"signature":{"algorithm":"Ed25519","keyId":"sha256:%s","payloadType":"t","value":%q},"proof":{}}`,
		name, ethereum, digest[:], strings.Repeat("0a", 32), base64.StdEncoding.EncodeToString(append(digest[:], digest[:]...)))
}

// tell tells the ledger of an event.
func (w *world) tell(key payment.Key, h paymenttest.Happening, e payment.Event) error {
	ctx := context.Background()
	switch e.Kind {
	case payment.EventClaim:
		_, won, err := w.Claim(ctx, e.Claim)
		if err == nil && !won {
			err = payment.ErrUsed
		}
		return err
	case payment.EventBegin:
		s := settlement(e.Claim, map[bool]int{false: 1000, true: 1}[h.Full])
		s.Answer = sold(key.Nonce)
		_, _, err := w.Begin(ctx, key, e.Claim.Owner, s)
		return err
	case payment.EventFound:
		_, err := w.Found(ctx, e.Claim, sold(key.Nonce), e.Outcome.Transaction)
		return err
	case payment.EventLeaseEnd:
		return w.Heartbeat(ctx, e.Claim.Owner, time.Time{})
	}
	e.Retry.Limit = 1000
	return second(w.Apply(ctx, key, e))
}

// sight is what a record's place in the ledger shows.
type sight struct {
	state                               string
	answered                            bool
	reserved, entries, blocks, decision int
}

func (w *world) sight(key payment.Key) (s sight) {
	w.Helper()
	ctx := context.Background()
	switch r, err := w.Get(ctx, key); {
	case errors.Is(err, payment.ErrNotFound):
		s.state = "none"
	default:
		w.must(err)
		s.state, s.answered = string(r.State), !r.Answer.IsZero()
	}
	for query, n := range map[string]*int{
		"SELECT COALESCE(sum(reserved), 0) FROM settlements": &s.reserved,
		"SELECT count(*) FROM log_queue":                     &s.entries,
		"SELECT count(*) FROM finality_queue":                &s.blocks,
		"SELECT count(*) FROM decisions":                     &s.decision,
	} {
		w.must(w.DB().Reader.QueryRowContext(ctx, query).Scan(n))
	}
	return s
}

// follows says what came of an event, as the table says it.
func follows(before, after sight, err error) string {
	words := []string{after.state}
	for known, name := range map[error]string{
		payment.ErrNotFound: "not found", payment.ErrLost: "lost", payment.ErrLimit: "limit", payment.ErrUsed: "is there",
	} {
		if errors.Is(err, known) {
			words, err = append(words, "refused: "+name), nil
		}
	}
	if err != nil {
		words = append(words, err.Error())
	}
	if n := after.reserved - before.reserved; n != 0 {
		words = append(words, fmt.Sprintf("%+d settlement", n))
	}
	if after.answered != before.answered {
		words = append(words, map[bool]string{true: "keep answer", false: "drop answer"}[after.answered])
	}
	for _, queue := range []struct {
		n    int
		name string
	}{{after.entries - before.entries, "queue entry"}, {after.blocks - before.blocks, "queue block"}, {after.decision - before.decision, "keep decision"}} {
		switch queue.n {
		case 0:
		case 1:
			words = append(words, queue.name)
		default:
			words = append(words, fmt.Sprintf("%s %d times", queue.name, queue.n))
		}
	}
	return strings.Join(words, ", ")
}

func TestTransitions_AreThoseOfTheTable(t *testing.T) {
	want, err := os.ReadFile(transitions)
	if err != nil {
		t.Fatal(err)
	}
	for backend, url := range sqldbtest.URLs(t) {
		t.Run(backend, func(t *testing.T) {
			w := newWorld(t, func(t *testing.T, now func() time.Time) Store {
				return func() *ledger.Ledger {
					l, err := ledger.Open(t.Context(), url, ledger.Options{Now: now, Finality: []string{ethereum}, Log: true})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = l.Close() })
					return l
				}
			})
			w.must(w.Heartbeat(context.Background(), "another", start.Add(time.Hour)))
			var got bytes.Buffer
			for _, event := range paymenttest.Happenings() {
				for i, state := range stateNames {
					r := record(fmt.Sprintf("%s%d", event.Name, i), fmt.Sprint(event.Name, i))
					if state != "abandoned" {
						w.must(w.Heartbeat(context.Background(), r.Owner, start.Add(time.Hour)))
					}
					w.bring(r, state)
					before := w.sight(r.Key)
					if claimed, err := w.Get(context.Background(), r.Key); err == nil {
						r.Retries = claimed.Retries
					}
					err := w.tell(r.Key, event, event.Event(r))
					fmt.Fprintf(&got, "%-38s | %-13s | %s\n", event.Name, state, follows(before, w.sight(r.Key), err))
				}
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("the ledger differs from %s (-want +got):\n%s", transitions, diff)
			}
		})
	}
}
