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
)

// transitions is the table of what follows from each event in each state of a payment.
const transitions = "../testdata/transitions.txt"

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
		w.must(w.Repeat(ctx, r.Key, payment.Repeat{Month: month, Limit: 1000}))
	}
}

// sold is an answer that is about a block whose name its name determines.
func sold(name string) []byte {
	digest := digestOf(name[len(name)-1])
	return fmt.Appendf(nil, `{"receipt":{"n":%q,"chain":{"id":%q,"name":"c"},"block":{"number":"1","hash":"0x%x"}},"signature":{"algorithm":"Ed25519","keyId":"sha256:%s","payloadType":"t","value":%q},"proof":{}}`,
		name, ethereum, digest[:], strings.Repeat("0a", 32), base64.StdEncoding.EncodeToString(append(digest[:], digest[:]...)))
}

// happening is an event of the table, and how the ledger is told.
type happening struct {
	name string
	tell func(w *world, r payment.Record) error
}

func happenings() []happening {
	finish := func(o payment.Outcome) func(*world, payment.Record) error {
		return func(w *world, r payment.Record) error {
			_, err := w.Finish(context.Background(), r.Key, o)
			return err
		}
	}
	decide := func(from payment.State, o payment.Outcome) func(*world, payment.Record) error {
		return func(w *world, r payment.Record) error {
			return w.Decide(context.Background(), r.Key, o, payment.Decision{From: from, To: o.State, Transaction: o.Transaction, By: "op", Note: "seen"})
		}
	}
	resolve := func(how payment.Resolution) func(*world, payment.Record) error {
		return func(w *world, r payment.Record) error {
			how.By, how.Why = "op", "seen"
			return w.Resolve(context.Background(), r.Key, how)
		}
	}
	return []happening{
		{"the payment is claimed", func(w *world, r payment.Record) error {
			r.Owner = bob
			_, won, err := w.Claim(context.Background(), r)
			if err == nil && !won {
				err = errClaimed
			}
			return err
		}},
		{"the owner releases it", func(w *world, r payment.Record) error { return w.Release(context.Background(), r.Key, r.Owner) }},
		{"another releases it", func(w *world, r payment.Record) error { return w.Release(context.Background(), r.Key, bob) }},
		{"the settlement begins", func(w *world, r payment.Record) error {
			s := settlement(r, 1000)
			s.Answer = sold(r.Key.Nonce)
			_, _, err := w.Begin(context.Background(), r.Key, r.Owner, s)
			return err
		}},
		{"the month has no settlement for it", func(w *world, r payment.Record) error {
			s := settlement(r, 1)
			s.Answer = sold(r.Key.Nonce)
			_, _, err := w.Begin(context.Background(), r.Key, r.Owner, s)
			return err
		}},
		{"verdict: settled", finish(payment.Outcome{State: payment.Settled, Transaction: "0xt"})},
		{"verdict: settled, an echo", finish(payment.Outcome{State: payment.Settled, Transaction: "0xt", Echo: true})},
		{"verdict: refused before it was sent", finish(payment.Outcome{State: payment.Dead, Reason: "insufficient_funds", Unsent: true})},
		{"verdict: unknown", finish(payment.Outcome{State: payment.Unknown, Reason: "answer_in_doubt"})},
		{"verdict: unknown, an echo", finish(payment.Outcome{State: payment.Unknown, Reason: "answer_in_doubt", Echo: true})},
		{"chain: paid", finish(payment.Outcome{State: payment.Settled, Transaction: "0xt"})},
		{"chain: used elsewhere", finish(payment.Outcome{State: payment.Dead, Reason: payment.ReasonUsedElsewhere})},
		{"chain: expired", finish(payment.Outcome{State: payment.Dead, Reason: payment.ReasonExpired, Unsent: true})},
		{"chain: reverted", finish(payment.Outcome{State: payment.Dead, Reason: payment.ReasonReverted, Transaction: "0xf", Unspent: true})},
		{"chain: lost", func(w *world, r payment.Record) error {
			return w.Reopen(context.Background(), r.Key, payment.ReasonVanished)
		}},
		{"chain: paid before it was asked", func(w *world, r payment.Record) error {
			_, err := w.Found(context.Background(), r, sold(r.Key.Nonce), "0xt")
			return err
		}},
		{"operator: an unknown one is settled", decide(payment.Unknown, payment.Outcome{State: payment.Settled, Transaction: "0xt", Reason: "decided: seen"})},
		{"operator: an unknown one is dead", decide(payment.Unknown, payment.Outcome{State: payment.Dead, Reason: "decided: seen"})},
		{"operator: an unknown one has expired", decide(payment.Unknown, payment.Outcome{State: payment.Dead, Reason: payment.ReasonExpired, Unsent: true})},
		{"operator: a dead one is settled", decide(payment.Dead, payment.Outcome{State: payment.Settled, Transaction: "0xt"})},
		{"resolve: settled", resolve(payment.Resolution{State: payment.Settled, Transaction: "0xt"})},
		{"resolve: dead", resolve(payment.Resolution{State: payment.Dead})},
		{"the buyer has it settled once more", func(w *world, r payment.Record) error {
			repeats := 0
			if got, err := w.Get(context.Background(), r.Key); err == nil {
				repeats = got.Repeats
			}
			return w.Repeat(context.Background(), r.Key, payment.Repeat{Repeats: repeats, Month: month, Limit: 1000})
		}},
		{"the buyer has read it before it changed", func(w *world, r payment.Record) error {
			return w.Repeat(context.Background(), r.Key, payment.Repeat{Repeats: 7, Month: month, Limit: 1000})
		}},
		{"the lease ends", func(w *world, r payment.Record) error {
			w.must(w.Deregister(context.Background(), r.Owner))
			return nil
		}},
	}
}

var errClaimed = errors.New("it is there")

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
		"SELECT COALESCE(sum(reserved), 0) FROM settlements":                           &s.reserved,
		"SELECT count(*) FROM log_queue":                                               &s.entries,
		"SELECT count(*) FROM finality_queue":                                          &s.blocks,
		"SELECT (SELECT count(*) FROM decisions) + (SELECT count(*) FROM resolutions)": &s.decision,
	} {
		w.must(w.DB().Reader.QueryRowContext(ctx, query).Scan(n))
	}
	return s
}

// follows says what came of an event, as the table says it.
func follows(before, after sight, err error) string {
	words := []string{after.state}
	for known, name := range map[error]string{
		payment.ErrNotFound: "not found", payment.ErrLost: "lost", payment.ErrLimit: "limit", payment.ErrUsed: "used", errClaimed: "is there",
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
			var got bytes.Buffer
			for _, event := range happenings() {
				for i, state := range stateNames {
					r := record(fmt.Sprintf("%s%d", event.name, i), fmt.Sprint(event.name, i))
					if state != "abandoned" {
						w.must(w.Heartbeat(context.Background(), r.Owner, start.Add(time.Hour)))
					}
					w.bring(r, state)
					before := w.sight(r.Key)
					err := event.tell(w, r)
					fmt.Fprintf(&got, "%-38s | %-13s | %s\n", event.name, state, follows(before, w.sight(r.Key), err))
				}
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("the ledger differs from %s (-want +got):\n%s", transitions, diff)
			}
		})
	}
}
