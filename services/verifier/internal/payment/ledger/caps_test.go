package ledger_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

var caps = payment.Caps{Since: payment.Day(start), Payer: 3, Client: 10}

// vain is how a settlement ends that was made in vain.
var vain = payment.Outcome{State: payment.Dead, Transaction: "0xtx", Reason: "reverted"}

// tryBegin claims a payment and begins it with the caps.
func (w *world) tryBegin(l *ledger.Ledger, r payment.Record, change func(*payment.Settlement)) error {
	w.Helper()
	if _, won, err := l.Claim(context.Background(), r); err != nil || !won {
		w.Errorf("claim: %v, %v", won, err)
	}
	s := settlement(r, 1000)
	s.Caps = caps
	if change != nil {
		change(&s)
	}
	_, _, err := l.Begin(context.Background(), r.Key, r.Owner, s)
	if err != nil {
		w.must(second(l.Apply(context.Background(), r.Key, release(r.Owner))))
	}
	return err
}

func (w *world) wantBegin(r payment.Record, want error) {
	w.Helper()
	if err := w.tryBegin(w.Ledger, r, nil); !errors.Is(err, want) || (want == nil && err != nil) {
		w.Errorf("begin: %v, want %v", err, want)
	}
}

// wantFailed looks at what has failed of a payer, and of a client by one of its payers who is not known: where the
// payer is, their client's does not count.
func (w *world) wantFailed(payer, client string, since time.Time, ofPayer, ofClient int) {
	w.Helper()
	history := func(payer string) payment.History {
		of := payment.Record{Key: payment.Key{Payer: payer}, Plain: true, Client: client}
		h, err := w.History(context.Background(), of, payment.Caps{Since: since})
		w.must(err)
		return h
	}
	got, beside := history(payer), history("0xstranger")
	if got.Payer != ofPayer || beside.Client != ofClient {
		w.Errorf("%s has failed %+v and %q %+v, want %d and %d", payer, got, client, beside, ofPayer, ofClient)
	}
	if got.Paid > 0 && got.Client != 0 {
		w.Errorf("the client of %s, who is known, was counted: %+v", payer, got)
	}
}

// of makes a claim of a payer and a client.
func of(name, payer, client string) payment.Record {
	r := record(name, alice)
	r.Key.Payer, r.Client = payer, client
	return r
}

func failedAreCounted(w *world) {
	day := payment.Day(start)
	outcomes := map[string]payment.Outcome{
		"vain":    vain,
		"refused": {State: payment.Dead, Reason: "insufficient_funds", Unsent: true}, // no transaction was made
		"paid":    {State: payment.Settled, Transaction: "0xtx"},
		"open":    {State: payment.Unknown, Transaction: "0xtx"},
	}
	for name, outcome := range outcomes {
		w.begin(of(name, "0xpayer", "client"))
		w.finish(of(name, "0xpayer", "client"), outcome)
	}
	w.begin(of("nameless", "0xother", ""))
	w.finish(of("nameless", "0xother", ""), vain)
	w.wantFailed("0xpayer", "client", day, 1, 1)
	w.wantFailed("0xother", "", day, 1, 0)
	w.wantFailed("0xpayer", "client", day.Add(24*time.Hour), 0, 0)
	w.finish(of("vain", "0xpayer", "client"), payment.Outcome{State: payment.Settled, Transaction: "0xlate"})
	w.wantFailed("0xpayer", "client", day, 0, 0)
	w.finish(of("open", "0xpayer", "client"), payment.Outcome{State: payment.Dead, Reason: "expired"})
	w.wantFailed("0xpayer", "client", day, 1, 1)
	s, err := w.QuotaStatus(context.Background(), month)
	w.must(err)
	if s.Failed != 2 {
		w.Errorf("the month has %d failed settlements, want 2", s.Failed)
	}
}

func beginIsCapped(w *world) {
	for i := range 3 {
		r := of(name(i), "0xpayer", "client")
		w.wantBegin(r, nil)
		w.finish(r, vain)
	}
	w.wantBegin(of("next", "0xpayer", "otherclient"), payment.ErrFailing)
	for i := range 7 {
		r := of("c"+name(i), "0xpayer"+name(i), "client")
		w.wantBegin(r, nil)
		w.finish(r, vain)
	}
	w.wantBegin(of("next", "0xnew", "client"), payment.ErrFailing)
	w.wantBegin(of("other", "0xnew", "otherclient"), nil)
	w.wantBegin(of("nameless", "0xnewer", ""), nil)
	w.wantReserved(12)
}

func beginWaitsForCapacity(w *world) {
	for i := range 3 {
		w.wantBegin(of(name(i), "0xpayer", "client"), nil)
	}
	fourth, fifth, sixth := of("4", "0xpayer", "client"), of("5", "0xpayer", "client"), of("6", "0xpayer", "client")
	w.wantBegin(fourth, payment.ErrCrowded)
	w.finish(of(name(0), "0xpayer", "client"), vain) // a place less, and one free
	w.wantBegin(fourth, payment.ErrCrowded)
	w.finish(of(name(1), "0xpayer", "client"), payment.Outcome{State: payment.Settled, Transaction: "0xtx"})
	w.wantBegin(fourth, nil)
	w.wantBegin(fifth, nil)
	w.wantBegin(sixth, payment.ErrCrowded)
	for i := range 8 { // of one client, with payers of their own: three are under way
		want := error(nil)
		if 3+1+i >= 10+1 { // one has failed, one was paid
			want = payment.ErrCrowded
		}
		w.wantBegin(of("c"+name(i), "0xpayer"+name(i), "client"), want)
	}
}

func openWeighLittle(w *world) {
	for i := range 29 {
		r := of(name(i), "0xpayer", "")
		w.wantBegin(r, nil)
		w.finish(r, payment.Outcome{State: payment.Unknown})
	}
	w.wantBegin(of("under way", "0xpayer", ""), nil)
	w.wantBegin(of("next", "0xpayer", ""), payment.ErrCrowded)
	w.must(w.Heartbeat(context.Background(), alice, time.Time{})) // what is abandoned is open
	r := of("next", "0xpayer", "")
	r.Owner = bob
	w.wantBegin(r, payment.ErrCrowded) // thirty are
	expired := payment.Outcome{State: payment.Dead, Reason: payment.ReasonExpired, Unsent: true}
	w.finish(of(name(1), "0xpayer", ""), expired)
	w.wantBegin(r, payment.ErrCrowded) // what has expired weighs as much
	w.finish(of(name(0), "0xpayer", ""), payment.Outcome{State: payment.Settled, Transaction: "0xtx"})
	w.wantBegin(r, nil)
}

// A retry holds a settlement more, and weighs as one.
func retriesWeighToo(w *world) {
	for i := range 5 {
		r := of(name(i), "0xpayer", "client")
		w.wantBegin(r, nil)
		for n := range 5 {
			w.must(second(w.Apply(context.Background(), r.Key, retry(month, payment.Retry{Retries: n, Limit: 1000}))))
		}
		w.finish(r, payment.Outcome{State: payment.Unknown})
	}
	w.wantBegin(of("next", "0xpayer", "client"), payment.ErrCrowded)
}

func keptForTheBuyer(w *world) {
	share := func(s *payment.Settlement) { s.Limit, s.Kept, s.Caps = 10, 3, payment.Caps{} }
	for i := range 7 {
		r := of(name(i), "0xpayer"+name(i), "")
		if err := w.tryBegin(w.Ledger, r, share); err != nil {
			w.Errorf("%d: %v", i, err)
		}
	}
	w.finish(of(name(0), "0xpayer"+name(0), ""), payment.Outcome{State: payment.Settled, Transaction: "0xtx"})
	if err := w.tryBegin(w.Ledger, of("stranger", "0xstranger", ""), share); !errors.Is(err, payment.ErrLimit) {
		w.Errorf("a stranger began: %v", err)
	}
	again := func(payer int) error {
		return second(w.Apply(context.Background(), of(name(payer), "0xpayer"+name(payer), "").Key, retry(month, payment.Retry{Limit: 10, Kept: 3})))
	}
	if err := again(1); !errors.Is(err, payment.ErrLimit) {
		w.Errorf("a stranger's settling is requested again: %v", err)
	}
	w.finish(of(name(2), "0xpayer002", ""), payment.Outcome{State: payment.Unknown})
	w.begin(of("another", "0xpayer000", ""))
	w.must(second(w.Apply(context.Background(), of("another", "0xpayer000", "").Key, retry(month, payment.Retry{Limit: 10, Kept: 3}))))
	for i, want := range []error{nil, payment.ErrLimit} {
		if err := w.tryBegin(w.Ledger, of("known"+name(i), "0xpayer000", ""), share); !errors.Is(err, want) {
			w.Errorf("who has paid, %d: %v", i, err)
		}
	}
	for payer, want := range map[string]bool{"0xpayer000": true, "0xpayer001": false, "0xstranger": false} {
		of := payment.Record{Key: payment.Key{Payer: payer}, Plain: true}
		if h, err := w.History(context.Background(), of, payment.Caps{Since: start}); err != nil || (h.Paid > 0) != want {
			w.Errorf("%s has paid: %v, %v", payer, h.Paid, err)
		}
	}
}

func boughtIsFound(w *world) {
	r := record("a", alice)
	r.Identifier = "order_0123456789"
	missing := func(payer, identifier string) {
		w.Helper()
		if got, err := w.Earlier(context.Background(), payment.Asked{Payer: payer, Identifier: identifier, Plain: true}); !errors.Is(err, payment.ErrNotFound) {
			w.Errorf("got %+v, %v; want ErrNotFound", got, err)
		}
	}
	missing("0xpayer", r.Identifier)
	w.begin(r)
	missing("0xother", r.Identifier)
	missing("0xpayer", "order_x0123456789")
	missing("0xpayer", "")
	for _, state := range []payment.State{payment.Settling, payment.Unknown, payment.Settled} {
		if state != payment.Settling {
			w.finish(r, payment.Outcome{State: state})
		}
		got, err := w.Earlier(context.Background(), payment.Asked{Payer: "0xpayer", Identifier: r.Identifier, Plain: true})
		w.must(err)
		w.same(got, w.get(r.Key))
	}
}

func cappedAtOnce(w *world) {
	var began, crowded atomic.Int32
	w.at(100, func(i int, l *ledger.Ledger) {
		switch err := w.tryBegin(l, of(name(i), "0xpayer", ""), nil); {
		case err == nil:
			began.Add(1)
		case errors.Is(err, payment.ErrCrowded):
			crowded.Add(1)
		default:
			w.Error(err)
		}
	})
	if began.Load() != 3 || crowded.Load() != 97 {
		w.Errorf("%d began and %d were told to wait, want 3 and 97", began.Load(), crowded.Load())
	}
	w.wantReserved(3)
}

// strict are caps with those of strangers.
func strict(s *payment.Settlement) {
	s.Caps.MonthSince = payment.Day(start).AddDate(0, 0, -20)
	s.Caps.Around, s.Caps.Strangers, s.Caps.StrangersMonth = 4, 5, 6
}

func strangersAreCapped(w *world) {
	try := func(r payment.Record, want error) {
		w.Helper()
		if err := w.tryBegin(w.Ledger, r, strict); !errors.Is(err, want) || want == nil && err != nil {
			w.Errorf("begin: %v, want %v", err, want)
		}
	}
	known := of("known", "0xknown", "home")
	w.begin(known)
	w.finish(known, payment.Outcome{State: payment.Settled, Transaction: "0xtx"})
	for i := range 4 {
		r := of(name(i), "0xpayer"+name(i), "client"+name(i))
		r.Around = "network"
		try(r, nil)
		w.finish(r, vain)
	}
	inside := of("next", "0xnew", "newclient")
	inside.Around = "network"
	try(inside, payment.ErrFailing)
	fifth := of("fifth", "0xnew", "newclient")
	try(fifth, nil)
	try(of("sixth", "0xnewer", "newerclient"), payment.ErrCrowded) // one may fail yet
	w.finish(fifth, vain)
	try(of("sixth", "0xnewer", "newerclient"), payment.ErrStrangers)
	for i := range 3 { // failures of who is known count for themselves
		r := of("known"+name(i), "0xknown", "client001")
		r.Around = "network"
		try(r, nil)
		w.finish(r, vain)
	}
	try(of("known3", "0xknown", "home"), payment.ErrFailing)
	h, err := w.History(context.Background(), fifth, payment.Caps{Since: payment.Day(start), Strangers: 9, StrangersMonth: 3})
	w.must(err)
	if h.Strangers != 5 || h.StrangersMonth != 3 {
		w.Errorf("strangers have failed %+v, want 5, and 3 as the bound of the counting", h)
	}
	w.finish(fifth, payment.Outcome{State: payment.Settled, Transaction: "0xlate"}) // it was paid after all
	try(of("sixth", "0xnewer", "newerclient"), nil)
}

func knownByPaying(w *world) {
	paid := of("paid", "0xpayer", "client")
	w.begin(paid)
	w.finish(paid, payment.Outcome{State: payment.Settled, Transaction: "0xtx"})
	for i := range 10 {
		r := of(name(i), "0xother"+name(i), "client")
		w.begin(r)
		w.finish(r, vain)
	}
	for i := range 5 { // copies in the payer's name that their key has not signed
		r := of("copy"+name(i), "0xpayer", "elsewhere")
		r.Plain = false
		w.begin(r)
		w.finish(r, vain)
	}
	if err := w.tryBegin(w.Ledger, of("stranger", "0xstranger", "client"), strict); !errors.Is(err, payment.ErrFailing) {
		w.Errorf("a stranger: %v", err)
	}
	if err := w.tryBegin(w.Ledger, of("again", "0xpayer", "client"), strict); err != nil {
		w.Errorf("the known payer: %v", err)
	}
	bogus := of("bogus", "0xpayer", "client")
	bogus.Plain = false
	if err := w.tryBegin(w.Ledger, bogus, strict); !errors.Is(err, payment.ErrFailing) {
		w.Errorf("one more copy: %v", err)
	}
}

func strangersAtOnce(w *world) {
	var began, crowded atomic.Int32
	w.at(100, func(i int, l *ledger.Ledger) {
		switch err := w.tryBegin(l, of(name(i), "0xpayer"+name(i), "client"+name(i)), strict); {
		case err == nil:
			began.Add(1)
		case errors.Is(err, payment.ErrCrowded):
			crowded.Add(1)
		default:
			w.Error(err)
		}
	})
	if began.Load() != 5 || crowded.Load() != 95 {
		w.Errorf("%d began and %d were told to wait, want 5 and 95", began.Load(), crowded.Load())
	}
}

// A claim may wait beyond midnight: what then fails is of the day, and of the month, in which it began.
func failsWhereItBegan(w *world) {
	late := time.Date(2026, 11, 30, 23, 59, 59, 0, time.UTC)
	w.advance(late.Sub(start))
	w.must(w.Heartbeat(context.Background(), alice, late.Add(time.Hour)))
	claims := make([]payment.Record, 3)
	for i := range claims {
		claims[i] = of(name(i), "0xpayer"+name(i), "client"+name(i))
		claims[i].Deadline = late.Add(time.Hour)
		w.claim(claims[i])
	}
	w.advance(2 * time.Second)
	next := payment.NextMonth(late)
	for i, want := range []error{nil, nil, payment.ErrStrangers} {
		s := settlement(claims[i], 1000)
		s.Month, s.Deadline, s.Caps = payment.Month(next), late.Add(time.Hour), payment.Caps{Since: next, MonthSince: next, Strangers: 2, StrangersMonth: 2}
		if _, _, err := w.Begin(context.Background(), claims[i].Key, alice, s); !errors.Is(err, want) || want == nil && err != nil {
			w.Fatalf("begin %d: %v, want %v", i, err, want)
		}
		if want == nil {
			w.finish(claims[i], vain)
		}
	}
}
