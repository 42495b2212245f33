package payment

import (
	"cmp"
	"slices"
)

// The life of a payment is a state machine: Next returns what follows from an event, and a Ledger
// carries it out while it holds the record.

// EventKind is what has happened to a payment.
type EventKind string

// The kinds of events.
const (
	// EventClaim: a process takes the payment of the record Event.Claim, to do the work that
	// it pays for.
	EventClaim EventKind = "claim"
	// EventRelease: Event.Claim's owner ends its work without a settlement.
	EventRelease EventKind = "release"
	// EventBegin: the answer is there, and the facilitator is about to be called to settle.
	EventBegin EventKind = "begin"
	// EventVerdict: the settling has ended as Event.Outcome says.
	EventVerdict EventKind = "verdict"
	// EventChain: the chain shows Event.Outcome.
	EventChain EventKind = "chain"
	// EventFound: the chain shows that Event.Outcome.Transaction has paid for Event.Claim, which
	// the ledger has as Working, or as Settled for another copy that is not plain.
	EventFound EventKind = "found"
	// EventLost: the chain no longer shows the transfer of a Settled payment.
	EventLost EventKind = "lost"
	// EventDecision: an operator has decided Event.Outcome, as Event.Decision.
	EventDecision EventKind = "decision"
	// EventRetry: the facilitator is about to be called to settle once more.
	EventRetry EventKind = "retry"
	// EventLeaseEnd: no process works on the payment any more.
	EventLeaseEnd EventKind = "lease end"
)

// By is who an event comes from.
type By int

// Those whom an event comes from.
const (
	ByBuyer By = iota // by a call
	ByService
	ByOperator
)

// Event is an event in the life of a payment. Beside Kind and By it has the members that its kind needs.
type Event struct {
	Kind EventKind
	By   By
	// Outcome is of EventVerdict, EventChain, EventDecision; of EventFound its Transaction
	// and of EventLost its Reason.
	Outcome Outcome
	// Claim is of EventClaim, EventRelease, EventBegin and EventFound. Of EventRelease only its
	// Owner is read, of EventBegin its Owner and Request.
	Claim    Record
	Decision Decision
	// Retry is of EventRetry. Of EventVerdict and EventChain only its Retries is read: those of the record that Outcome
	// was judged from.
	Retry Retry
	// Month is the calendar month in which a settlement is reserved.
	Month string
}

// Verdict returns the event that a buyer's settling has ended, which was never requested again.
func Verdict(o Outcome) Event { return Event{Kind: EventVerdict, Outcome: o} }

// Ends reports whether the event says how a settling ended.
func (e Event) Ends() bool {
	return e.Kind == EventVerdict || e.Kind == EventChain || e.Kind == EventDecision
}

// EffectKind is something that a ledger does beside writing the record.
type EffectKind string

// The kinds of effects.
const (
	// Reserve and Return count one settlement of Effect.Month more, or one less.
	Reserve EffectKind = "reserve"
	Return  EffectKind = "return"
	// KeepAnswer and DropAnswer write the answer, or forget it.
	KeepAnswer EffectKind = "keep answer"
	DropAnswer EffectKind = "drop answer"
	// QueueEntry queues the answer's entries for the log of receipts, and QueueBlock the blocks
	// that it is about for proofs of finality.
	QueueEntry EffectKind = "queue entry"
	QueueBlock EffectKind = "queue block"
	// KeepDecision writes Event.Decision.
	KeepDecision EffectKind = "keep decision"
	// Owe marks the answer as owed: the payer may have it once for a later payment without that
	// being counted.
	Owe EffectKind = "owe"
)

// Effect is one effect of an event.
type Effect struct {
	Kind  EffectKind
	Month string
}

// Next returns the record after an event, and what else the event causes. A record without a State
// stands for none; a Settling record that no process works on is Unknown, as the ledger reads it.
// An error means that the event does not apply: nothing changes. ErrLost, ErrNotFound, ErrUsed.
//
// What depends on anything else is the ledger's to refuse: the limits, duplicates, and what was
// refunded.
func Next(r Record, e Event) (Record, []Effect, error) {
	switch e.Kind {
	case EventClaim:
		if r.State != "" {
			return r, nil, ErrUsed
		}
		next := e.Claim
		next.State = Working
		return next, nil, nil
	case EventRelease:
		if r.State == Working && r.Owner == e.Claim.Owner {
			r.State = ""
		}
		return r, nil, nil
	case EventBegin:
		if r.State != Working || r.Owner != e.Claim.Owner || r.Request != e.Claim.Request {
			return r, nil, ErrLost
		}
		r.State, r.Month = Settling, e.Month
		return r, []Effect{{Reserve, e.Month}, {Kind: KeepAnswer}, {Kind: QueueEntry}}, nil
	case EventVerdict, EventChain:
		return end(r, e)
	case EventDecision:
		if r.State != e.Decision.From || r.State != Unknown && (r.State != Dead || e.Outcome.State != Settled) {
			return r, nil, ErrLost
		}
		next, effects, err := end(r, e)
		return next, append(effects, Effect{Kind: KeepDecision}), err
	case EventFound:
		return find(r, e)
	case EventLost:
		if r.State != Settled {
			return r, nil, ErrLost
		}
		r.State, r.Reason = Unknown, e.Outcome.Reason
		return r, nil, nil
	case EventRetry:
		if r.State != Settling && r.State != Unknown || r.Retries != e.Retry.Retries {
			return r, nil, ErrLost
		}
		r.Retries, r.RetryMonths = r.Retries+1, append(slices.Clip(r.RetryMonths), e.Month)
		return r, []Effect{{Reserve, e.Month}}, nil
	case EventLeaseEnd:
		switch r.State {
		case Working:
			r.State = ""
		case Settling:
			r.State = Unknown
		}
		return r, nil, nil
	}
	return r, nil, ErrLost
}

// end is Next for an event that says how a settling ended. What has ended stays as it is, unless
// the money came after all, and so does what was requested again since a Dead was judged: that may
// have made another transaction.
func end(r Record, e Event) (Record, []Effect, error) {
	o := e.Outcome
	switch {
	case r.State == "", r.State == Working:
		return r, nil, ErrNotFound
	case r.State == Settled, r.State == Dead && o.State != Settled:
		return r, nil, nil
	case o.State == Dead && e.Kind != EventDecision && e.Retry.Retries != r.Retries && !o.isFinal():
		return r, nil, nil
	}
	var effects []Effect
	if last := len(r.RetryMonths) - 1; o.Echo && last >= 0 { // the last retry made no transaction
		effects = append(effects, Effect{Return, r.RetryMonths[last]})
		r.RetryMonths = r.RetryMonths[:last]
	}
	r.State, r.Reason, r.Transaction = o.State, o.Reason, cmp.Or(o.Transaction, r.Transaction)
	switch o.State {
	case Settled:
		if r.Month == "" { // it had been returned
			r.Month = e.Month
			effects = append(effects, Effect{Reserve, e.Month})
		}
		effects = append(effects, Effect{Kind: QueueBlock})
		if e.By != ByBuyer {
			effects = append(effects, Effect{Kind: Owe})
		}
	case Dead:
		if o.Unsent && r.Transaction == "" && r.Month != "" {
			for _, month := range append(slices.Clip(r.RetryMonths), r.Month) {
				effects = append(effects, Effect{Return, month})
			}
			r.Month, r.RetryMonths = "", nil
		}
		effects = append(effects, Effect{Kind: DropAnswer}) // no buyer gets it, and it may be large
	}
	return r, effects, nil
}

// find is Next for a payment that was found on the chain: it settles the owner's claim, or takes
// over the record of a copy that is not plain.
func find(r Record, e Event) (Record, []Effect, error) {
	claimed := r.State == Working && r.Owner == e.Claim.Owner &&
		r.Payment == e.Claim.Payment && r.Request == e.Claim.Request
	if !claimed && (r.State != Settled || r.Plain || !e.Claim.Plain) {
		return r, nil, ErrLost
	}
	next := e.Claim
	next.State, next.Transaction, next.Reason, next.Month = Settled, e.Outcome.Transaction, "", r.Month
	next.Retries, next.RetryMonths = r.Retries, r.RetryMonths
	var effects []Effect
	if next.Month == "" {
		next.Month = e.Month
		effects = append(effects, Effect{Reserve, e.Month})
	}
	return next, append(effects, Effect{Kind: DropAnswer}, Effect{Kind: KeepAnswer}, Effect{Kind: QueueEntry},
		Effect{Kind: QueueBlock}), nil
}

// Seen returns the event that follows for a record from what was found on the chain, and whether
// it changes the record's state: an Unknown one may have ended, a Dead one may be paid, and a
// Settled one may have lost its transfer.
func Seen(r Record, found Authorization) (e Event, changes bool) {
	switch {
	case r.State == Settled && found.Status != PaidToUs:
		return Event{Kind: EventLost, Outcome: Outcome{Reason: ReasonVanished}}, true
	case r.State == Unknown, r.State == Dead && found.Status == PaidToUs:
		o := OnChain(r.Outcome(), r, found)
		return Event{Kind: EventChain, Outcome: o, Retry: Retry{Retries: r.Retries}}, o.State != r.State
	}
	return Event{}, false
}

// OnChain returns an outcome o of a record, corrected by what was found on the chain.
func OnChain(o Outcome, r Record, found Authorization) Outcome {
	o.Unspent = found.Status == Unused || found.Status == Reverted
	switch found.Status {
	case PaidToUs:
		return Outcome{State: Settled, Transaction: found.Transaction}
	case UsedElsewhere:
		return Outcome{State: Dead, Transaction: o.Transaction, Reason: ReasonUsedElsewhere}
	case Expired:
		return Outcome{State: Dead, Transaction: o.Transaction, Reason: ReasonExpired, Unsent: true}
	case Reverted:
		if r.Retries == 0 { // else another transaction may have been made than the one that failed
			return Outcome{State: Dead, Transaction: o.Transaction, Reason: ReasonReverted, Unspent: true}
		}
	}
	return o
}
