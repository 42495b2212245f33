package translog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/receipt/witness"
)

// Times between two audits: MergeDelay after the first since the log has begun or gone on, and
// after one that has queued something; else auditAgain after the second, and after one that has
// found faults; else auditEvery.
const (
	auditEvery = 24 * time.Hour
	auditAgain = time.Hour
)

// auditPortion is how many rows an audit reads at once.
const auditPortion = 1000

// Audit is what an audit of the open generation has found.
type Audit struct {
	Origin  string `json:"origin"`
	Entries int64  `json:"entries"`
	// Faults are what must not be, the first 20; without any, the audit is clean.
	Faults []string `json:"faults"`
	// Notes are what could not be compared.
	Notes []string `json:"notes,omitempty"`
	// Foreign counts the entries of which the ledger does not show that it queued them, and
	// FirstForeign is the index of the first, or -1. Each is a fault. An entry whose answer was
	// pruned, or whose payment died, is none: the ledger keeps the payment.
	Foreign      int64 `json:"foreign"`
	FirstForeign int64 `json:"firstForeign"`
	// Copied counts the entries that Recover brought back, and FirstCopied is the index of
	// the first, or -1: whether they were queued here cannot be known.
	Copied      int64 `json:"copied"`
	FirstCopied int64 `json:"firstCopied"`
	// Queued counts what was sold, was not in the log, and is queued for it now. Each is a
	// fault.
	Queued int64 `json:"queued,omitempty"`
	// SizeAt is how many entries had their places here at the moment that the caller asked about.
	SizeAt int64 `json:"sizeAt,omitempty"`
}

// lastAudit is the outcome of the audit that this process made last, and when the next is
// due.
type lastAudit struct {
	mu sync.Mutex
	at time.Time // zero before the first
	ok bool

	underWay bool
	next     time.Time // no audit before then
	// follow is how many audits are still made soon after the next: one after MergeDelay, for what was
	// sold without the log just before it began, and one after auditAgain, for what a replica sold that
	// was replaced late.
	follow int
}

// auditSoon makes an audit due, because the log has begun or goes on: what the last audit has
// found may no longer hold.
func (a *lastAudit) auditSoon() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next, a.follow = time.Time{}, 2
}

// begin reports whether an audit is due, and reserves it.
func (a *lastAudit) begin(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.underWay || now.Before(a.next) {
		return false
	}
	a.underWay, a.next = true, now.Add(auditEvery)
	return true
}

// end takes the outcome of an audit, and sets when the next is due: soon after one that has
// queued what was missing, to see whether that was all.
func (a *lastAudit) end(now time.Time, ok, queued bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.underWay, a.at, a.ok = false, now, ok
	switch {
	case a.next.IsZero(): // due again since this one began
	case a.follow == 2:
		a.next, a.follow = now.Add(MergeDelay), 1
	case queued:
		a.next = now.Add(MergeDelay)
	case a.follow == 1 || !ok:
		a.next, a.follow = now.Add(auditAgain), 0
	}
}

func (l *Log) auditAndLog(ctx context.Context) {
	a, err := l.Audit(ctx, time.Time{})
	if ctx.Err() != nil {
		return
	}
	l.audited.end(l.Now(), err == nil && len(a.Faults) == 0, a.Queued > 0)
	if err != nil {
		l.Log.Error("the log of receipts could not be audited", "error", err)
	} else if len(a.Faults) > 0 {
		l.Log.Error("the audit of the log of receipts has found faults", "faults", strings.Join(a.Faults, "; "))
	}
}

// LastAudit returns when this process last made or tried an audit, zero before the first, and whether it was clean.
func (l *Log) LastAudit() (at time.Time, ok bool) {
	l.audited.mu.Lock()
	defer l.audited.mu.Unlock()
	return l.audited.at, l.audited.ok
}

// Audit recomputes the tree from its entries, and looks where each came from. It looks for the entries
// of each stored answer whose payment is older than MergeDelay, and queues what is missing. It
// compares the tree with what each witness serves, and asks them for other generations of the log.
// Unless at is zero, it counts the entries that had their places then. ErrNotFound: no log has begun.
func (l *Log) Audit(ctx context.Context, at time.Time) (Audit, error) {
	head, err := l.head(ctx)
	if err != nil {
		return Audit{}, err
	}
	a := Audit{Origin: head.Origin, Entries: head.Size, Faults: []string{}, FirstForeign: -1, FirstCopied: -1}
	err = l.auditTree(ctx, head, at, &a)
	if err == nil {
		err = l.auditAnswers(ctx, head, &a)
	}
	if err != nil {
		return a, fmt.Errorf("audit: %w", err)
	}
	heads, err := l.Store.Heads(ctx)
	if err != nil {
		return a, fmt.Errorf("audit: %w", err)
	}
	for _, w := range l.witnesses {
		bounded, done := context.WithTimeout(ctx, l.Timeout)
		err := w.audit(bounded, head, &a)
		if err == nil {
			err = w.auditOthers(bounded, head.Origin, heads, &a)
		}
		if err != nil {
			a.Notes = append(a.Notes, err.Error())
		}
		done()
	}
	return a, nil
}

func (a *Audit) fault(format string, args ...any) {
	if len(a.Faults) < 20 {
		a.Faults = append(a.Faults, fmt.Sprintf(format, args...))
	}
}

// frontier holds the hashes that were made of the entries so far and that the next may need.
type frontier map[int64]tlog.Hash

// ReadHashes implements tlog.HashReader.
func (f frontier) ReadHashes(ids []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(ids))
	for i, id := range ids {
		hash, ok := f[id]
		if !ok {
			return nil, fmt.Errorf("hash %d was not made", id)
		}
		out[i] = hash
	}
	return out, nil
}

// auditTree recomputes all hashes, and looks where each entry came from.
func (l *Log) auditTree(ctx context.Context, head Head, moment time.Time, a *Audit) error {
	made := frontier{}
	for at := int64(0); at < head.Size; {
		entries, err := l.Store.Logged(ctx, head.Log, at, auditPortion)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			a.fault("entry %d of %d is missing", at, head.Size)
			return nil
		}
		var ids []int64
		var want []tlog.Hash
		for _, entry := range entries {
			if at == head.Size {
				break // placed since the head was read
			}
			a.origin(at, entry)
			if !entry.Placed.After(moment) {
				a.SizeAt = at + 1
			}
			hashes, err := tlog.StoredHashes(at, entry.Data, made)
			if err != nil {
				return err
			}
			first := tlog.StoredHashIndex(0, at)
			for level, hash := range hashes {
				if level > 0 { // its children are needed no more
					delete(made, tlog.StoredHashIndex(level-1, at>>(level-1)))
					delete(made, tlog.StoredHashIndex(level-1, at>>(level-1)-1))
				}
				made[first+int64(level)] = hash
				ids, want = append(ids, first+int64(level)), append(want, hash)
			}
			at++
		}
		stored, err := l.Store.Hashes(ctx, head.Log, ids)
		if errors.Is(err, ErrNotFound) {
			a.fault("%v", err)
			continue
		}
		if err != nil {
			return err
		}
		for i := range want {
			if stored[i] != want[i] {
				a.fault("the stored hash %d is not that of its entries", ids[i])
			}
		}
	}
	root, err := tlog.TreeHash(head.Size, made)
	if err != nil {
		return err
	}
	if root != head.Root {
		a.fault("the root of %d entries is %s, and by the head %s", head.Size, root, head.Root)
	}
	return nil
}

// origin counts an entry that came back from a copy, and one that was not queued here, which is a
// fault, as is data that cannot be parsed as an entry.
func (a *Audit) origin(at int64, entry LoggedEntry) {
	e, err := receiptlog.ParseEntry(entry.Data)
	switch {
	case err != nil:
		a.fault("entry %d: %v", at, err)
	case entry.Source == FromCopy:
		if a.Copied++; a.FirstCopied < 0 {
			a.FirstCopied = at
		}
	case e.Kind == receiptlog.ReceiptEntry && entry.Source != FromSale, e.Kind != receiptlog.ReceiptEntry &&
		entry.Source != FromKey:
		if a.Foreign++; a.FirstForeign < 0 {
			a.FirstForeign = at
		}
		a.fault("entry %d was not queued here", at)
	}
}

// auditAnswers looks for the entries of what was sold. What is neither in the log nor queued, as where
// a process without the log has sold it, is a fault, and is queued. What waits too long is a fault too.
func (l *Log) auditAnswers(ctx context.Context, head Head, a *Audit) error {
	before := l.Now().Add(-MergeDelay)
	queue, err := l.Store.Queue(ctx)
	if err != nil {
		return err
	}
	// What was sold may have been queued long after the claim.
	late := queue.Entries > 0 && queue.Oldest.Before(before)
	for after := int64(0); ; {
		sold, last, err := l.Store.StoredEntries(ctx, after, before, auditPortion)
		if err != nil {
			return err
		}
		if last == after {
			return nil
		}
		after = last
		by := map[tlog.Hash]StoredEntry{}
		leaves := make([]tlog.Hash, len(sold))
		for i, entry := range sold {
			leaves[i] = receiptlog.Leaf(entry.Data)
			by[leaves[i]] = entry
		}
		missing, err := l.Store.Missing(ctx, head.Log, leaves)
		if err != nil {
			return err
		}
		var lost []StoredEntry
		for _, leaf := range missing {
			queued, err := l.Store.IsQueued(ctx, leaf)
			if err != nil {
				return err
			}
			if queued {
				if late {
					a.fault("a receipt that was sold waits for its place since more than %s: leaf %s", MergeDelay, leaf)
				}
			} else if placed, err := l.Store.Missing(ctx, head.Log, []tlog.Hash{leaf}); err != nil {
				return err
			} else if len(placed) > 0 { // and has not got its place between the two looks
				a.fault("a receipt that was sold was not in the log, and is queued for it now: leaf %s", leaf)
				lost = append(lost, by[leaf])
				a.Queued++
			}
		}
		if err := l.Store.QueueStored(ctx, lost); err != nil {
			return err
		}
	}
}

// cosigned returns the checkpoint that the witness serves of a generation.
func (w *witnessClient) cosigned(ctx context.Context, head Head) (c receiptlog.Checkpoint, err error) {
	response, err := w.exchange(ctx, http.MethodGet, "/"+witness.ID(head.Origin)+"/checkpoint", nil)
	if err != nil {
		return c, err
	}
	if response.status != http.StatusOK {
		return c, w.fault("what it has cosigned is not served: it answers %d", response.status)
	}
	key, err := receiptlog.ParseLogKey(head.VKey)
	if err != nil {
		return c, w.fault("%w", err)
	}
	if c, err = receiptlog.OpenCheckpoint(response.body, key); err != nil {
		return c, w.fault("%w", err)
	}
	return c, nil
}

// audit compares the tree with the checkpoint that the witness serves. The error is why it
// could not.
func (w *witnessClient) audit(ctx context.Context, head Head, a *Audit) error {
	c, err := w.cosigned(ctx, head)
	if err != nil {
		return err
	}
	if c.Size > head.Size {
		if now, err := w.log.head(ctx); err == nil && now.Size >= c.Size {
			return nil // placed since the audit began
		}
		a.fault("the witness %s has cosigned %d entries that the log's key has signed; the ledger has %d", w.Name,
			c.Size, head.Size)
		return nil
	}
	root, err := w.log.rootAt(ctx, head, c.Size)
	if err != nil {
		return w.fault("%w", err)
	}
	if root != c.Root {
		a.fault("the witness %s has cosigned another tree of %d entries that the log's key has signed", w.Name, c.Size)
	}
	return nil
}

// auditOthers asks the witness for other generations of the log. One that this ledger does not have,
// or that another key has signed, is a fault. The error is why that could not be found out.
func (w *witnessClient) auditOthers(ctx context.Context, open string, heads []Head, a *Audit) error {
	var d receiptlog.Directory
	for _, head := range heads {
		d.Logs = append(d.Logs, receiptlog.Generation{Origin: head.Origin})
	}
	for _, origin := range w.log.policy.Origins(d) {
		if origin == open {
			continue
		}
		response, err := w.exchange(ctx, http.MethodGet, "/"+witness.ID(origin)+"/checkpoint", nil)
		if err != nil {
			return err
		}
		if response.status == http.StatusNotFound {
			continue
		}
		if response.status != http.StatusOK {
			return w.fault("what it has cosigned of %s is not served: it answers %d", origin, response.status)
		}
		c, _, err := receiptlog.OpenCosigned(response.body, w.Key)
		if err != nil {
			return w.fault("what it has cosigned of %s: %w", origin, err)
		}
		at := slices.IndexFunc(heads, func(h Head) bool { return h.Origin == c.Origin })
		if at < 0 {
			a.fault("the witness %s has cosigned %d entries of %s, which is not a log of this ledger", w.Name, c.Size,
				c.Origin)
			continue
		}
		key, err := receiptlog.ParseLogKey(heads[at].VKey)
		if err != nil {
			return w.fault("%w", err)
		}
		if _, err := receiptlog.OpenCheckpoint(response.body, key); err != nil {
			a.fault("the witness %s has cosigned %s by another key than this ledger's", w.Name, c.Origin)
		}
	}
	return nil
}
