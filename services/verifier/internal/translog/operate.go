package translog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// ErrDisagrees means that something contradicts what an operator wants, or that it is not needed.
var ErrDisagrees = errors.New("refused")

// Status is how the log stands, for an operator.
type Status struct {
	Origin     string          `json:"origin"`
	Key        string          `json:"key"` // verifier key (vkey)
	Size       int64           `json:"size"`
	Root       string          `json:"root"`
	Frozen     string          `json:"frozen,omitempty"`
	Published  int64           `json:"published"` // size of the checkpoint that is served
	At         time.Time       `json:"publishedAt"`
	Queued     int             `json:"queued"`
	Oldest     time.Time       `json:"oldestQueued,omitzero"`
	SetAside   int             `json:"setAside,omitempty"` // what was queued and is no entry
	Witnesses  []WitnessStatus `json:"witnesses"`
	Mark       int64           `json:"mark,omitempty"` // size of the mark of this generation; 0 without one
	Generation int64           `json:"generation"`
}

// Status returns how the log stands. ErrNotFound: no log has begun.
func (l *Log) Status(ctx context.Context) (Status, error) {
	s, err := l.stored(ctx)
	if err != nil {
		return Status{}, err
	}
	mark, found, err := l.readMark()
	if err != nil {
		return Status{}, err
	}
	if found && mark.Origin == s.Origin {
		s.Mark = mark.Size
	}
	return s, nil
}

// stored returns what the store has of how the log stands.
func (l *Log) stored(ctx context.Context) (Status, error) {
	head, err := l.head(ctx)
	if err != nil {
		return Status{}, err
	}
	s := Status{
		Origin: head.Origin, Key: head.VKey, Size: head.Size, Root: head.Root.String(), Frozen: head.Frozen,
		Generation: head.Log,
	}
	published, err := l.Store.Published(ctx, head.Log)
	if err != nil {
		return Status{}, err
	}
	s.Published, s.At = published.Size, published.At
	queue, err := l.Store.Queue(ctx)
	if err != nil {
		return Status{}, err
	}
	s.Queued, s.Oldest, s.SetAside = queue.Entries, queue.Oldest, queue.SetAside
	s.Witnesses, err = l.witnessStatus(ctx, head)
	return s, err
}

// WitnessAnswer is what a witness says that it has cosigned of the open generation.
type WitnessAnswer struct {
	Name  string `json:"name"`
	Size  int64  `json:"size"`
	Fault string `json:"fault,omitempty"` // why it does not say
}

// AskWitnesses asks all witnesses, at once, how many entries they have cosigned. ErrNotFound: no log has begun.
func (l *Log) AskWitnesses(ctx context.Context) ([]WitnessAnswer, error) {
	head, err := l.head(ctx)
	if err != nil {
		return nil, err
	}
	answers := make([]WitnessAnswer, len(l.witnesses))
	var all sync.WaitGroup
	for i, w := range l.witnesses {
		all.Go(func() {
			bounded, done := context.WithTimeout(ctx, l.Timeout)
			defer done()
			c, err := w.cosigned(bounded, head)
			if answers[i] = (WitnessAnswer{Name: w.Name, Size: c.Size}); err != nil {
				answers[i] = WitnessAnswer{Name: w.Name, Fault: err.Error()}
			}
		})
	}
	all.Wait()
	return answers, nil
}

// Resume ends a log's freeze when as many witnesses confirm its tree as must at a start, and
// neither another witness nor the mark, where there is one, contradicts. Where the
// policy asks for no witness, size must be that of the log, as the operator knows it; else
// size is not looked at. ErrDisagrees; ErrLost: the log has changed meanwhile; ErrNotFound: no log has begun.
func (l *Log) Resume(ctx context.Context, size int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	head, err := l.head(ctx)
	if err != nil {
		return err
	}
	if head.Frozen == "" {
		return fmt.Errorf("%w: the log is not frozen", ErrDisagrees)
	}
	if l.policy.Unwitnessed() && size != head.Size {
		return fmt.Errorf("%w: no witness is asked for, and the log has %d entries, not %d", ErrDisagrees, head.Size,
			size)
	}
	if err := l.confirm(ctx, head); err != nil {
		return fmt.Errorf("%w: %w", ErrDisagrees, err)
	}
	if err := l.writeMark(checkpointOf(head)); err != nil { // it may be gone
		return err
	}
	if err := l.Store.Resume(ctx, head.Log, head.Size, head.Frozen); err != nil {
		return fmt.Errorf("resume the log: %w", err)
	}
	l.Log.Warn("the log of receipts was resumed by hand", "was", head.Frozen, "size", head.Size)
	return nil
}

// Recover brings back what a copy of the log has and the ledger lost: entries between the
// ledger's tree and a checkpoint that the policy accepts, each compared with the root of
// that checkpoint. Then it resumes the log, as Resume does: size is looked at where the policy
// asks for no witness. The log must be frozen. It returns how many entries came back, also
// with an error. ErrDisagrees, ErrLost; ErrNotFound: no log has begun.
func (l *Log) Recover(ctx context.Context, fetch receiptlog.Fetch, size int64) (recovered int64, err error) {
	head, err := l.head(ctx)
	if err != nil {
		return 0, err
	}
	if head.Frozen == "" {
		return 0, fmt.Errorf("%w: the log is not frozen", ErrDisagrees)
	}
	note, err := fetch(ctx, "checkpoint")
	if err != nil {
		return 0, err
	}
	policy, err := receiptlog.ParsePolicy([]byte(PolicyFor(l.Policy, []Head{head})))
	if err != nil {
		return 0, err
	}
	copied, err := policy.Open(note)
	if err != nil {
		return 0, fmt.Errorf("%w: the copy's checkpoint: %w", ErrDisagrees, err)
	}
	tree, err := receiptlog.NewTree(copied.Checkpoint, fetch)
	if err != nil {
		return 0, err
	}
	if err := tree.Continues(ctx, checkpointOf(head)); err != nil {
		return 0, fmt.Errorf("%w: the copy does not continue the ledger's tree: %w", ErrDisagrees, err)
	}
	for head.Size < copied.Size {
		bundle, err := tree.Entries(ctx, head.Size/receiptlog.BundleSize)
		if err != nil {
			return recovered, err
		}
		missing := bundle[head.Size%receiptlog.BundleSize:]
		first := head.Size
		if head, err = l.Store.Extend(ctx, head.Log, first, missing); err != nil {
			return recovered, err
		}
		if head.Size != first+int64(len(missing)) {
			return recovered, fmt.Errorf("%w: the copy has an entry twice", ErrDisagrees)
		}
		recovered += int64(len(missing))
	}
	if head.Root != copied.Root {
		return recovered, fmt.Errorf("%w: the root of %d entries is not the copy's", ErrDisagrees, head.Size)
	}
	err = l.Store.Publish(ctx, head.Log, head.Size, func([]byte) []byte { return note })
	if err != nil {
		return recovered, err
	}
	return recovered, l.Resume(ctx, size)
}

// Close ends the generation, with the checkpoint that is served as its final one, and opens the
// next, under the host and key of the options. Entries that are queued and those of all stored
// answers go into the next. It cannot be undone. origin must be the log's own, as the operator has
// typed it. Besides, one of these must hold: the log is frozen; its key or host is not that of the
// options, as when the key was lost; or poisoned is true and the log holds something that is no
// entry, so that nothing can read it. It returns the new origin. ErrDisagrees; ErrLost when the log
// has changed meanwhile; ErrNotFound: no log has begun.
func (l *Log) Close(ctx context.Context, origin string, poisoned bool) (next string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	head, err := l.head(ctx)
	if err != nil {
		return "", err
	}
	_, vkey, err := Name(l.Host, l.Key, head.Log)
	if err != nil {
		return "", err
	}
	ours := vkey == head.VKey
	works := ours && head.Frozen == ""
	if works && poisoned {
		at, err := l.firstInvalid(ctx, head)
		if err != nil {
			return "", err
		}
		works = at < 0
	}
	if works || origin != head.Origin {
		return "", fmt.Errorf("%w: the log is %s, of this key: %v, frozen: %q", ErrDisagrees, head.Origin, ours,
			head.Frozen)
	}
	published, err := l.Store.Published(ctx, head.Log)
	if err != nil {
		return "", err
	}
	opened := Head{Log: head.Log + 1}
	if opened.Origin, opened.VKey, err = Name(l.Host, l.Key, opened.Log); err != nil {
		return "", err
	}
	// Where nothing was served there is no final checkpoint, and the log is not listed.
	if err := l.Store.EndLog(ctx, head.Log, published.Note, opened); err != nil {
		return "", fmt.Errorf("close the log: %w", err)
	}
	if opened, err = l.head(ctx); err == nil {
		err = l.writeMark(checkpointOf(opened)) // that of the closed one may be gone
	}
	if err != nil {
		return opened.Origin, err
	}
	l.Log.Warn("the log of receipts was closed by hand", "origin", head.Origin, "size", published.Size, "next",
		opened.Origin)
	return opened.Origin, nil
}

// firstInvalid returns the index of the first entry that receiptlog.ParseEntry refuses, or -1.
func (l *Log) firstInvalid(ctx context.Context, head Head) (int64, error) {
	for at := int64(0); at < head.Size; {
		entries, err := l.Store.Entries(ctx, head.Log, at, auditPortion)
		if err != nil {
			return -1, err
		}
		if len(entries) == 0 {
			return -1, fmt.Errorf("entry %d of %d is missing", at, head.Size)
		}
		for _, entry := range entries {
			if _, err := receiptlog.ParseEntry(entry); err != nil {
				return at, nil //nolint:nilerr // that is what was looked for
			}
			at++
		}
	}
	return -1, nil
}
