package payment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"
)

// Faults of the ledger.
var (
	// ErrNotFound means that the ledger has no record that the call is about.
	ErrNotFound = errors.New("payment is not in the ledger")
	// ErrLost means that a record is not as its change needs it: for example it has another owner, another
	// state or another number of retries by now.
	ErrLost = errors.New("payment claim was lost")
	// ErrLimit means that the payer can begin no settlement for now: the month's free ones are used up, or
	// the part of them that payers who are not known may use; or the facilitator is at its own limit; or too
	// many settlements of payers who are not known wait.
	ErrLimit = errors.New("free-settlement limit is reached")
	// ErrFailing means that too many settlements of the payer, the client or the network
	// around it have failed today.
	ErrFailing = errors.New("too many settlements have failed")
	// ErrStrangers means that of all payers who are not known together, too many settlements have
	// failed or are open, today or in this month.
	ErrStrangers = errors.New("too many settlements of new payers have failed")
	// ErrCrowded means that too many settlements of the payer, the client or all payers who are
	// not known are under way: one may begin when others have ended.
	ErrCrowded = errors.New("too many settlements are under way")
)

// State is how far a payment has come.
type State string

// The states. A Working record may vanish; one in another state stays.
//
//	Working → Settling | Settled;  Settling → Settled | Dead | Unknown;  Unknown → Settled | Dead
//	Dead → Settled;  Settled → Unknown
const (
	// Working: claimed, the work and the facilitator's check are under way.
	Working State = "working"
	// Settling: the facilitator may have been called to move the money.
	Settling State = "settling"
	// Settled: the money is ours; the answer is the buyer's. It becomes Unknown when the
	// chain has lost the transfer.
	Settled State = "settled"
	// Dead: no money came for it, as far as can be known. It becomes Settled when the chain later
	// shows otherwise.
	Dead State = "dead"
	// Unknown: the money may have moved.
	Unknown State = "unknown"
)

// Key names one payment, whatever its encoding or protocol version: an EIP-3009 authorization is
// spent by (chain, token, payer, nonce).
type Key struct {
	// Network is a CAIP-2 chain id, "eip155:8453".
	Network string
	// Asset and Payer are 0x addresses, Nonce is 32 bytes in 0x-hex, all in lower case. In the key
	// of a copy Nonce is followed by + and the copy's digest.
	Asset, Payer, Nonce string
}

// OfCopy returns the key of one copy of the authorization. A copy that is not plain (see Record)
// has it until it is Settled, so that a claim of it does not block the payer's own.
func (k Key) OfCopy(d Digest) Key {
	k.Nonce = k.Bare().Nonce + "+" + hex.EncodeToString(d[:])
	return k
}

// IsCopy reports whether k is the key of one copy.
func (k Key) IsCopy() bool { return strings.Contains(k.Nonce, "+") }

// Bare returns the key of the authorization itself.
func (k Key) Bare() Key {
	k.Nonce, _, _ = strings.Cut(k.Nonce, "+")
	return k
}

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// Record is what the ledger knows of one payment.
type Record struct {
	Key   Key
	State State
	// Owner is the process that claimed the payment. Its right to work on the payment ends at
	// Deadline, also while the process lives.
	Owner    string
	Deadline time.Time
	// Plain reports that the payer's own key signed (Terms.SignedByPayer), so that none else can
	// have made it. A copy that is not plain is claimed under a Key.OfCopy; the ledger gives it
	// the key of the authorization when it is Settled, and takes that back when it is Dead and
	// a plain one is claimed.
	Plain bool
	// Payment is the digest of the authorization and the signature (Payment.Digest). Request is
	// the digest of what is bought with it.
	Payment, Request Digest
	// Identifier is the buyer's own idempotency key, "" when they gave none.
	Identifier string
	// Resource is the URL of what is sold.
	Resource string
	// Operation is what was sold, "base-transaction", and Transport the protocol that
	// brought the call: TransportHTTP or TransportMCP.
	Operation, Transport string
	// Amount is in atomic units, decimal. PayTo is the payee's address.
	Amount, PayTo string
	// ValidBefore is when the authorization ends.
	ValidBefore time.Time
	// Client stands for the client's address on the day of the claim, and does not reveal it; ""
	// when it is not known.
	Client string
	// Around stands in the same way for the network around the client. It is not read back.
	Around string
	// Answer is what the buyer gets, from Settling on, to be read by its hash where it is large; none once it
	// was pruned, or the record was Dead.
	Answer Answer
	// Month is the month of the settlement that is reserved, "2006-01"; "" when
	// none is.
	Month string
	// Transaction is the hash of the transfer, or of a transaction that was named for it; "" when
	// none was. Reason is why the record is Dead or Unknown, or what an operator noted who decided
	// it.
	Transaction, Reason string
	Claimed, Changed    time.Time
	// Retries is how often the facilitator was called again to settle it, and RetryMonths
	// are the months of the settlements that are reserved for that.
	Retries     int
	RetryMonths []string
}

// The transports of calls.
const (
	TransportHTTP = "http"
	TransportMCP  = "mcp"
)

// Retry is a settlement that is requested once more.
type Retry struct {
	// Retries is how often it was requested again before, as the caller read it.
	Retries int
	// Limit is as in Settlement. Kept is how many of these settlements, the last ones, are for payers with a
	// Settled payment.
	Limit, Kept int
}

// Settlement is what Begin needs of a settlement.
type Settlement struct {
	// Request is the digest in the claim; the Answer is to that request.
	Request Digest
	Answer  []byte
	// Month and Limit are the calendar month to reserve a settlement in and how
	// many it has.
	Month string
	Limit int
	// Kept is how many of the month's settlements, the last ones, are for known payers.
	Kept     int
	Caps     Caps
	Deadline time.Time
	// EarlierSince is as Asked.Since; zero means that no earlier record counts.
	EarlierSince time.Time
}

// Caps bound the settlements that fail: those whose reservation was spent and
// that ended without payment. Zero means that there is no bound.
type Caps struct {
	// Since is when the day began, MonthSince the month; failures of claims before do not count.
	Since, MonthSince time.Time
	// Payer and Client are how many may fail in a day; a payer who has paid often may fail more often (see
	// OfPayer). As many may be under way at once, counting those that have failed and a tenth of those of
	// the day that are open or have expired unspent, and one more for each that was settled. Client is
	// for payers who are not known.
	Payer, Client int
	// Around is how many may fail in a day in the network around the client, those of known payers
	// among them. Like Client it is for payers who are not known.
	Around int
	// Strangers and StrangersMonth are how many may fail in a day and in the month, of all
	// payers who are not known. Both are zero or neither is.
	Strangers, StrangersMonth int
}

// Asked is what a payer asks for now, and may have bought with an earlier payment already.
type Asked struct {
	Payer string
	// Identifier is the buyer's own: records with the same one are looked for. Where it is "",
	// records with the same Request that were claimed at Since or later are looked for.
	Identifier string
	Request    Digest
	Since      time.Time
	// Plain reports that the payment which asks is plain (see Record). Then a record that is
	// not plain counts only when it is Settled.
	Plain bool
}

// History is what the ledger has counted for a payer, for a client and for the network
// around it: how many of their settlements have failed since Caps.Since. Of a payer the copies that
// are plain, and those that are not, are counted apart.
type History struct {
	Payer, Client, Around int
	// PayerMonth is how many of the payer's have failed since Caps.MonthSince.
	PayerMonth int
	// Paid is how many payments of the payer are Settled, up to a bound.
	Paid int
	// Strangers and StrangersMonth count those of all payers who are not known, and a tenth of what
	// is open of today. They, Client and Around are counted only for a payer who is not known.
	Strangers, StrangersMonth int
}

// failsOf: for each so many payments in History.Paid, which counts no further than its bound, one
// settlement of the payer may fail in a day, where that allows more than Caps.Payer.
const failsOf = 10

// OfPayer returns how many settlements of the payer may fail in a day; zero means no bound.
func (c Caps) OfPayer(h History) int {
	if c.Payer == 0 {
		return 0
	}
	return max(c.Payer, h.Paid/failsOf)
}

// Knows reports whether the payer is known: they have paid, and have failed less often in the
// month than they may in a day.
func (c Caps) Knows(h History) bool {
	return h.Paid > 0 && (c.Payer == 0 || h.PayerMonth < c.OfPayer(h))
}

// Refuse returns ErrFailing or ErrStrangers when the caps are reached, else nil.
func (c Caps) Refuse(h History) error {
	reached := func(n, limit int) bool { return limit > 0 && n >= limit }
	switch {
	case reached(h.Payer, c.OfPayer(h)):
		return ErrFailing
	case c.Knows(h):
		return nil
	case reached(h.Client, c.Client), reached(h.Around, c.Around):
		return ErrFailing
	case reached(h.Strangers, c.Strangers), reached(h.StrangersMonth, c.StrangersMonth):
		return ErrStrangers
	}
	return nil
}

// Outcome is how a settling ended: State is Settled, Dead or Unknown. Record.Outcome may have any State.
type Outcome struct {
	State               State
	Transaction, Reason string
	// Unsent has the settlements that are reserved for a Dead record returned, those of retries too, unless a
	// transaction was named.
	Unsent bool
	// Echo means that the last retry, if there was one, made no transaction of its own: its
	// settlement is returned.
	Echo bool
	// Unspent means that the chain showed the authorization as unused. It is not kept.
	Unspent bool
	// Durable makes Apply wait until the outcome is on disk. The caller sets it if nothing
	// else could restore the outcome after a loss of power.
	Durable bool
}

// IsFinallyDead reports whether the record is Dead by the chain's word: its authorization
// expired unused, or was used without paying us.
func (r Record) IsFinallyDead() bool { return r.State == Dead && r.Outcome().isFinal() }

// isFinal reports whether a Dead outcome is the chain's word that no transaction will ever pay us.
func (o Outcome) isFinal() bool { return o.Reason == ReasonExpired || o.Reason == ReasonUsedElsewhere }

// Outcome returns State, Transaction and Reason of the record.
func (r Record) Outcome() Outcome {
	return Outcome{State: r.State, Transaction: r.Transaction, Reason: r.Reason}
}

// Reasons of a record.
const (
	ReasonUsedElsewhere = "authorization_spent_elsewhere"
	ReasonExpired       = "authorization_expired_unspent"
	// ReasonVanished: it was settled, and later the transfer was not on the chain.
	ReasonVanished = "transfer_not_on_the_chain"
	// ReasonReverted: the one transaction that was made for it has failed.
	ReasonReverted = "transaction_reverted"
	// ReasonOtherCopy: the authorization has paid for another copy of it.
	ReasonOtherCopy = "authorization_paid_for_another_copy"
	// ReasonUnconfirmed: the facilitator reported success, the chain has not confirmed it.
	ReasonUnconfirmed = "not_confirmed_by_the_chain"
)

// QuotaStatus is the state of a month and of the open payments.
type QuotaStatus struct {
	// Reserved counts the settlements of the month, Unknown the payments that are Unknown, of any
	// month.
	Reserved, Unknown int
	// Oldest is when the oldest of the unknown ones was claimed; zero without one.
	Oldest time.Time
	// Failed counts the payments that are Dead and have used up a settlement of the month.
	Failed int
}

// Filter narrows what the operator sees to payments of State that were claimed at From or later and
// before Before. Zero members do not narrow.
type Filter struct {
	State        State
	From, Before time.Time
	// Operation and Transport are as in Record; Payer is a 0x address in lower case.
	Operation, Transport, Payer string
	// Oldest lists the oldest first.
	Oldest bool
	// Limit bounds the number of records, newest first unless Oldest.
	Limit int
}

// Total is the sum of the payments of one month, network, asset and state. The month ("2006-01") is
// that of their claims, in UTC.
type Total struct {
	Month    string `json:"month"`
	State    State  `json:"state"`
	Network  string `json:"network"`
	Asset    string `json:"asset"`
	Payments int    `json:"payments"`
	// Amount is in atomic units of the asset, decimal.
	Amount string `json:"amount"`
	// Refunded is how much of it was refunded, and Net the rest; "" where nothing was.
	Refunded string `json:"refunded,omitempty"`
	Net      string `json:"net,omitempty"`
	// Operation, Transport, Day (2006-01-02) or Payer is what the total is split by.
	Operation string `json:"operation,omitempty"`
	Transport string `json:"transport,omitempty"`
	Day       string `json:"day,omitempty"`
	Payer     string `json:"payer,omitempty"`
}

// Ledger is what selling needs of the store of payments. Each change of a record is atomic over all
// processes that share the ledger, and its methods may be called from many goroutines.
//
// An owner is alive from Register or Heartbeat until the moment passed there. A Working or
// Settling record whose owner is gone, or whose Deadline has passed, is abandoned: an abandoned
// Working record counts as not there, an abandoned Settling record reads as Unknown.
type Ledger interface {
	// Claim writes r as Working for r.Owner unless the payment is there, and reports whether it
	// did. It returns the record that is there then. To a plain r a Dead record that is not plain
	// gives way: it gets the key of its copy again; ErrUsed where something of it was refunded. For
	// the key of a copy, a record of the authorization itself counts as there, too.
	Claim(ctx context.Context, r Record) (Record, bool, error)
	// Found writes that the money of r, which the chain shows, bought the answer: it makes the
	// owner's Working record Settled by the transaction, or, where a copy that is not plain was
	// Settled with that money, makes its record that of r. It counts one settlement, also beyond
	// the limit, unless one was reserved. It queues the answer's entries and blocks; all is on
	// disk when it returns. ErrLost: the record is neither. ErrUsed: the payment was refunded, or
	// was of another amount.
	Found(ctx context.Context, r Record, answer []byte, transaction string) (Answer, error)
	// Begin turns the owner's Working record into Settling, keeps the answer, queues its entries
	// of the log and reserves one settlement, in one step that is on disk when it returns.
	// ErrLost: the record is not the owner's claim any more, or is for another request. ErrLimit: the
	// month has none left for this payer. ErrFailing, ErrStrangers and ErrCrowded: the caps are
	// reached. When another record of the payer has the same Identifier and is Settling, Unknown
	// or Settled (and counts, as in Asked), nothing begins and that record is returned, also where
	// a limit is reached; so is, where there is no Identifier, what Earlier returns.
	Begin(ctx context.Context, key Key, owner string, s Settlement) (Answer, *Record, error)
	// Anew is for an answer that was made anew because the record has none any more. It queues the
	// answer's entries that are not in the log, which are on disk when it returns, and its blocks.
	// It does not keep the answer. key may be that of a copy whose record has got the key of the
	// authorization meanwhile.
	Anew(ctx context.Context, key Key, answer []byte) (Answer, error)
	// Apply carries out what Next makes of an event, while it holds the record, and returns the
	// record's outcome after it; none after EventRelease. A decision, a retry and a Durable outcome
	// are on disk when it returns. EventClaim, EventBegin and EventFound have methods of their own,
	// and a lease ends by itself. Its errors are those of Next, and ErrLimit: the month has no
	// settlement left for this payer's retry.
	//
	// A Settled outcome of a copy gives its record the key of the authorization. Where that has a
	// record, of a plain copy or of another that was Settled, the money is that one's, and the
	// copy's is Dead with ReasonOtherCopy.
	Apply(ctx context.Context, key Key, e Event) (Outcome, error)
	// Look reports whether a record may be looked up on the chain now, and remembers that it is:
	// not when it is Settled, or was looked up after since. A lookup in the future does not count:
	// the clock was ahead.
	Look(ctx context.Context, key Key, since time.Time) (bool, error)
	// Get returns a record, or ErrNotFound.
	Get(ctx context.Context, key Key) (Record, error)
	// Earlier returns the record with which a payer has bought, or is buying, what they ask for
	// now: it is Settled, Settling or Unknown; of several for one Request the first. Or
	// ErrNotFound.
	Earlier(ctx context.Context, a Asked) (Record, error)
	// Reuse reports whether the payer of a record may get its answer for another payment on the
	// day that begins at day: they got fewer than limit, or the answer is owed. If counts is set
	// it also writes that they get it: an owed answer is owed no more, any other is counted.
	Reuse(ctx context.Context, key Key, day time.Time, limit int, counts bool) (bool, error)
	// History counts the failed settlements that the caps are about, for a payment of which
	// only the payer, Plain, Client and Around are read.
	History(ctx context.Context, r Record, c Caps) (History, error)

	// Register records that the owner begins, and is alive until the moment given. In SQLite,
	// which has its users on one machine, it also cuts back to that moment every lease that
	// reaches further: the clock was ahead when that was written. Heartbeat extends the lease; the
	// zero time ends it.
	Register(ctx context.Context, owner string, until time.Time) error
	Heartbeat(ctx context.Context, owner string, until time.Time) error
	// QuotaStatus returns the state of a month.
	QuotaStatus(ctx context.Context, month string) (QuotaStatus, error)
}

// Upkeep is what is needed of the store of payments to look after those that no call waits for. It is
// shared as Ledger is.
type Upkeep interface {
	// Apply is as in Ledger.
	Apply(ctx context.Context, key Key, e Event) (Outcome, error)
	// Due returns the Unknown record that is due for longest to be looked up, without
	// Answer, and puts its next lookup off until next, so that two processes do not
	// look at once. ErrNotFound: none is due.
	Due(ctx context.Context, next time.Time) (Record, error)
	// Ended returns Settled and Dead records without Answer, in the order of their claims: those
	// claimed after the moment of the last Checked and before the one given, at most limit of them
	// and those of the same moment. Until taken, or Checked, a further call returns none.
	Ended(ctx context.Context, before time.Time, limit int, taken time.Time) ([]Record, error)
	// Checked remembers that all records claimed up to a moment need no further check.
	Checked(ctx context.Context, upTo time.Time) error
	// Prune forgets the answers of Settled and Dead records that were claimed before a moment, and
	// abandoned Working records. What Due and Ended have put off for more than an hour from now, because the
	// clock was ahead, they return again.
	Prune(ctx context.Context, before time.Time) error
}

// Month returns the calendar month of a moment in UTC, as the ledger writes it.
func Month(t time.Time) string { return t.UTC().Format("2006-01") }

// Day returns the first moment of the day of t in UTC.
func Day(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// NextMonth returns the first moment of the month after that of t, in UTC.
func NextMonth(t time.Time) time.Time {
	year, month, _ := t.UTC().Date()
	return time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
}
