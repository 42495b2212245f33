package payment_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
)

// records are those of the table of transitions, as the ledger reads them.
var records = map[string]payment.Record{
	"none":          {},
	"working":       {State: payment.Working, Owner: "owner"},
	"settling":      {State: payment.Settling, Owner: "owner", Month: paymenttest.Month},
	"abandoned":     {State: payment.Unknown, Owner: "owner", Month: paymenttest.Month},
	"unknown":       {State: payment.Unknown, Owner: "owner", Month: paymenttest.Month, Reason: "no_answer"},
	"retried":       {State: payment.Unknown, Owner: "owner", Month: paymenttest.Month, Retries: 1, RetryMonths: []string{paymenttest.Month}},
	"settled":       {State: payment.Settled, Owner: "owner", Plain: true, Month: paymenttest.Month, Transaction: "0xt"},
	"dead":          {State: payment.Dead, Owner: "owner", Plain: true, Month: paymenttest.Month, Transaction: "0xf"},
	"dead returned": {State: payment.Dead, Owner: "owner", Plain: true},
}

// line is one line of the table.
type line struct{ event, state, follows string }

func lines(t *testing.T) (all []line) {
	t.Helper()
	text, err := os.ReadFile(paymenttest.Transitions)
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(row), "|")
		if len(cells) != 3 {
			t.Fatalf("%q has %d cells", row, len(cells))
		}
		all = append(all, line{strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])})
	}
	return all
}

// follows says what Next makes of an event, as one would see it in a ledger: a block is queued,
// and an answer forgotten, where there is an answer.
func follows(r payment.Record, h paymenttest.Happening) string {
	claimed := r
	claimed.Owner, claimed.Plain = "owner", true
	next, effects, err := payment.Next(r, h.Event(claimed))
	answered := r.State == payment.Settling || r.State == payment.Unknown || r.State == payment.Settled
	if h.Full && slices.ContainsFunc(effects, func(e payment.Effect) bool { return e.Kind == payment.Reserve }) {
		next, effects, err = r, nil, payment.ErrLimit
	}
	words := []string{string(next.State)}
	if next.State == "" {
		words[0] = "none"
	}
	for known, name := range map[error]string{
		payment.ErrNotFound: "not found", payment.ErrLost: "lost", payment.ErrLimit: "limit", payment.ErrUsed: "is there",
	} {
		if errors.Is(err, known) {
			words = append(words, "refused: "+name)
		}
	}
	reserved := 0
	seen := map[payment.EffectKind]bool{}
	for _, e := range effects {
		switch e.Kind {
		case payment.Reserve:
			reserved++
		case payment.Return:
			reserved--
		default:
			seen[e.Kind] = true
		}
	}
	if reserved != 0 {
		words = append(words, fmt.Sprintf("%+d settlement", reserved))
	}
	kept := seen[payment.KeepAnswer]
	seen[payment.KeepAnswer] = kept && !answered
	seen[payment.DropAnswer] = seen[payment.DropAnswer] && answered && !kept
	seen[payment.QueueBlock] = seen[payment.QueueBlock] && (answered || kept)
	for _, kind := range []payment.EffectKind{
		payment.KeepAnswer, payment.DropAnswer, payment.QueueEntry, payment.QueueBlock, payment.KeepDecision,
	} {
		if seen[kind] {
			words = append(words, string(kind))
		}
	}
	return strings.Join(words, ", ")
}

func TestNext_IsTheTableOfTransitions(t *testing.T) {
	want := lines(t)
	var got []line
	for _, h := range paymenttest.Happenings() {
		for _, state := range []string{"none", "working", "settling", "abandoned", "unknown", "retried", "settled", "dead", "dead returned"} {
			got = append(got, line{h.Name, state, follows(records[state], h)})
		}
	}
	if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(line{})); diff != "" {
		t.Errorf("Next differs from the table (-want +got):\n%s", diff)
	}
}

// Beside the table: copies that are not plain, and who had the chain looked at.
func TestNext_APlainPaymentTakesOverACopyThatIsNot(t *testing.T) {
	plain := payment.Record{Owner: "owner", Plain: true}
	for name, c := range map[string]struct {
		held payment.Record
		kind payment.EventKind
		want payment.State
	}{
		"claims a dead copy":             {payment.Record{State: payment.Dead}, payment.EventClaim, payment.Dead},
		"claims a settled copy":          {payment.Record{State: payment.Settled}, payment.EventClaim, payment.Settled},
		"is found beside a settled copy": {payment.Record{State: payment.Settled, Month: paymenttest.Month}, payment.EventFound, payment.Settled},
		"is found beside a dead copy":    {payment.Record{State: payment.Dead}, payment.EventFound, payment.Dead},
	} {
		next, effects, err := payment.Next(c.held, payment.Event{Kind: c.kind, Claim: plain, Month: paymenttest.Month})
		takes := c.held.State == payment.Settled && c.kind == payment.EventFound
		if next.State != c.want || next.Plain != takes || (err == nil) != takes || slices.ContainsFunc(effects, func(e payment.Effect) bool { return e.Kind == payment.Reserve }) {
			t.Errorf("%s: %+v, %v, %v", name, next, effects, err)
		}
	}
}

func TestNext_OwesTheAnswerWhenNoCallWaitsForIt(t *testing.T) {
	for by, want := range map[payment.By]bool{payment.ByBuyer: false, payment.ByService: true, payment.ByOperator: true} {
		_, effects, err := payment.Next(records["unknown"], payment.Event{Kind: payment.EventChain, By: by, Outcome: payment.Outcome{State: payment.Settled}})
		if got := slices.Contains(effects, payment.Effect{Kind: payment.Owe}); got != want || err != nil {
			t.Errorf("by %d: owes %v, %v", by, got, err)
		}
	}
}

func TestNext_ReturnsTheMonthsThatWereReserved(t *testing.T) {
	r := payment.Record{State: payment.Unknown, Month: "2026-10", RetryMonths: []string{"2026-11", "2026-12"}}
	unsent := payment.Outcome{State: payment.Dead, Unsent: true, Echo: true}
	next, effects, err := payment.Next(r, payment.Event{Kind: payment.EventVerdict, Outcome: unsent})
	want := []payment.Effect{{payment.Return, "2026-12"}, {payment.Return, "2026-11"}, {payment.Return, "2026-10"}, {Kind: payment.DropAnswer}}
	if diff := gocmp.Diff(want, effects); diff != "" || err != nil || next.Month != "" || next.RetryMonths != nil || len(r.RetryMonths) != 2 {
		t.Errorf("%v, %+v (-want +got):\n%s", err, next, diff)
	}
}

// The picture in deploy/docs/architecture.md is drawn from Next.
func TestArchitecture_ShowsTheTransitionsOfNext(t *testing.T) {
	copies := map[string]payment.Record{"a dead copy that is not plain": {State: payment.Dead}}
	maps.Copy(copies, records)
	kinds := map[string][]string{}
	for _, h := range paymenttest.Happenings() {
		for _, r := range copies {
			claimed := r
			claimed.Owner, claimed.Plain = "owner", true
			event := h.Event(claimed)
			next, _, err := payment.Next(r, event)
			if err != nil || next.State == r.State {
				continue
			}
			arrow := fmt.Sprintf("    %s --> %s: ", cmp.Or(string(r.State), "[*]"), cmp.Or(string(next.State), "[*]"))
			if !slices.Contains(kinds[arrow], string(event.Kind)) {
				kinds[arrow] = append(kinds[arrow], string(event.Kind))
			}
		}
	}
	picture := "```mermaid\nstateDiagram-v2\n"
	for _, arrow := range slices.Sorted(maps.Keys(kinds)) {
		slices.Sort(kinds[arrow])
		picture += arrow + strings.Join(kinds[arrow], ", ") + "\n"
	}
	picture += "```\n"
	page, err := os.ReadFile("../../../../deploy/docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), picture) {
		t.Errorf("deploy/docs/architecture.md lacks the picture of the transitions:\n%s", picture)
	}
}

func TestSeen_IsWhatTheChainChanges(t *testing.T) {
	statuses := []payment.AuthorizationStatus{
		payment.Unused, payment.PaidToUs, payment.UsedElsewhere, payment.Expired, payment.Reverted,
	}
	for state, want := range map[string][]payment.State{ // "" where nothing changes
		"none":          {"", "", "", "", ""},
		"working":       {"", "", "", "", ""},
		"settling":      {"", "", "", "", ""}, // the call that settles waits for it
		"abandoned":     {"", payment.Settled, payment.Dead, payment.Dead, payment.Dead},
		"unknown":       {"", payment.Settled, payment.Dead, payment.Dead, payment.Dead},
		"retried":       {"", payment.Settled, payment.Dead, payment.Dead, ""},
		"settled":       {payment.Unknown, "", payment.Unknown, payment.Unknown, payment.Unknown},
		"dead":          {"", payment.Settled, "", "", ""},
		"dead returned": {"", payment.Settled, "", "", ""},
	} {
		for i, status := range statuses {
			var got payment.State
			if e, changes := payment.Seen(records[state], payment.Authorization{Status: status, Transaction: "0xt"}); changes {
				next, _, err := payment.Next(records[state], e)
				if got = next.State; err != nil {
					t.Errorf("%s, %s: %v", state, status, err)
				}
			}
			if got != want[i] {
				t.Errorf("%s, %s: it becomes %q, want %q", state, status, got, want[i])
			}
		}
	}
}
