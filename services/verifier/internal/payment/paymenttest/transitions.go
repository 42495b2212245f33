package paymenttest

import "github.com/pforte/pforte/services/verifier/internal/payment"

// Transitions is the path, in the folder of package payment, of the table of what follows from
// each event in each state.
const Transitions = "testdata/transitions.txt"

// Month is the month of the events of Transitions.
const Month = "2026-11"

// Happening is an event of Transitions. Event returns it for the record that a call has claimed.
type Happening struct {
	Name  string
	Event func(claimed payment.Record) payment.Event
	// Full reports that the month has no settlement left.
	Full bool
}

// Happenings returns the events of Transitions in its order.
func Happenings() []Happening {
	of := func(name string, e payment.Event) Happening {
		e.Month = Month
		return Happening{Name: name, Event: func(claimed payment.Record) payment.Event {
			e := e
			if e.Claim = claimed; e.Retry.Retries == 0 {
				e.Retry.Retries = claimed.Retries
			}
			return e
		}}
	}
	by := func(owner string, h Happening) Happening {
		event := h.Event
		h.Event = func(claimed payment.Record) payment.Event {
			claimed.Owner = owner
			return event(claimed)
		}
		return h
	}
	full := of("the month has no settlement for it", payment.Event{Kind: payment.EventBegin})
	full.Full = true
	chain := func(o payment.Outcome) payment.Event { return payment.Event{Kind: payment.EventChain, Outcome: o} }
	decide := func(from payment.State, o payment.Outcome) payment.Event {
		d := payment.Decision{From: from, To: o.State, Transaction: o.Transaction, By: "op", Note: "seen"}
		return payment.Event{Kind: payment.EventDecision, By: payment.ByOperator, Outcome: o, Decision: d}
	}
	settled := payment.Outcome{State: payment.Settled, Transaction: "0xt"}
	echo := settled
	echo.Echo = true
	expired := payment.Outcome{State: payment.Dead, Reason: payment.ReasonExpired, Unsent: true}
	return []Happening{
		by("another", of("the payment is claimed", payment.Event{Kind: payment.EventClaim})),
		of("the owner releases it", payment.Event{Kind: payment.EventRelease}),
		by("another", of("another releases it", payment.Event{Kind: payment.EventRelease})),
		of("the settlement begins", payment.Event{Kind: payment.EventBegin}),
		full,
		of("verdict: settled", payment.Verdict(settled)),
		of("verdict: settled, an echo", payment.Verdict(echo)),
		of("verdict: refused before it was sent",
			payment.Verdict(payment.Outcome{State: payment.Dead, Reason: "insufficient_funds", Unsent: true})),
		of("verdict: unknown", payment.Verdict(payment.Outcome{State: payment.Unknown, Reason: "answer_in_doubt"})),
		of("verdict: unknown, an echo",
			payment.Verdict(payment.Outcome{State: payment.Unknown, Reason: "answer_in_doubt", Echo: true})),
		of("chain: paid", chain(settled)),
		of("chain: used elsewhere", chain(payment.Outcome{State: payment.Dead, Reason: payment.ReasonUsedElsewhere})),
		of("chain: expired", chain(expired)),
		of("chain: reverted",
			chain(payment.Outcome{
				State: payment.Dead, Reason: payment.ReasonReverted, Transaction: "0xf", Unspent: true,
			})),
		of("chain: reverted, seen before a retry", payment.Event{
			Kind:    payment.EventChain,
			Outcome: payment.Outcome{State: payment.Dead, Reason: payment.ReasonReverted, Transaction: "0xf"},
			Retry:   payment.Retry{Retries: 7},
		}),
		of("chain: lost", payment.Event{
			Kind: payment.EventLost, Outcome: payment.Outcome{Reason: payment.ReasonVanished},
		}),
		of("chain: paid before it was asked", payment.Event{Kind: payment.EventFound, Outcome: settled}),
		of("operator: an unknown one is settled",
			decide(payment.Unknown, payment.Outcome{
				State: payment.Settled, Transaction: "0xt", Reason: "decided: seen",
			})),
		of("operator: an unknown one is dead",
			decide(payment.Unknown, payment.Outcome{State: payment.Dead, Reason: "decided: seen"})),
		of("operator: an unknown one has expired", decide(payment.Unknown, expired)),
		of("operator: a dead one is settled", decide(payment.Dead, settled)),
		of("the buyer has it settled once more", payment.Event{Kind: payment.EventRetry}),
		of("the buyer has read it before it changed",
			payment.Event{Kind: payment.EventRetry, Retry: payment.Retry{Retries: 7}}),
		of("the lease ends", payment.Event{Kind: payment.EventLeaseEnd}),
	}
}
