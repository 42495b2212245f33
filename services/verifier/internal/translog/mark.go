package translog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/receipt/witness"
)

// The mark is a file outside of the database with the greatest tree that was signed: the
// text of its checkpoint. It is on disk before the signature leaves the process. A ledger
// that was put back without the file is behind it. It belongs to one machine; where
// several share a log, the witnesses guard the log.

// readMark returns the mark, or false where there is none.
func (l *Log) readMark() (receiptlog.Checkpoint, bool, error) {
	if l.Mark == "" {
		return receiptlog.Checkpoint{}, false, nil
	}
	text, err := os.ReadFile(l.Mark)
	if errors.Is(err, fs.ErrNotExist) {
		return receiptlog.Checkpoint{}, false, nil
	}
	if err != nil {
		return receiptlog.Checkpoint{}, false, fmt.Errorf("LOG_MARK_FILE: %w", err)
	}
	c, err := receiptlog.ParseCheckpoint(string(text))
	if err != nil {
		return receiptlog.Checkpoint{}, false, fmt.Errorf("LOG_MARK_FILE: %w", err)
	}
	return c, true, nil
}

// requireMark freezes the log and returns ErrFrozen where the log was published, or is no first
// generation, and its mark is gone, as on another machine: then nothing here shows whether the
// ledger is an older one.
func (l *Log) requireMark(ctx context.Context, head Head) error {
	if l.Mark == "" {
		return nil
	}
	if _, found, err := l.readMark(); err != nil || found {
		return err
	}
	published, err := l.Store.Published(ctx, head.Log)
	if err != nil || head.Log == 1 && published.Note == nil { // a log that begins
		return err
	}
	return l.freezeFor(ctx, head, &frozenError{
		FrozenNoMark, fmt.Errorf("the log was published, and LOG_MARK_FILE %s is not there", l.Mark),
	})
}

// checkMark freezes the log and returns ErrFrozen unless the tree continues that of the mark, and
// the newest trees that this process has signed and has read, which another may have signed. Where
// there is no mark, these show that the database fell back to an older state while the process runs.
func (l *Log) checkMark(ctx context.Context, head Head) error {
	mark, found, err := l.readMark()
	if err != nil {
		return err
	}
	var checked receiptlog.Checkpoint
	for _, known := range []struct {
		receiptlog.Checkpoint
		found bool
		as    string
	}{
		{mark, found, "signed"},
		{l.signed, l.signed.Origin == head.Origin, "signed"},
		{l.read, l.read.Origin == head.Origin, "read"},
	} {
		if !known.found || known.Checkpoint == checked { // mostly all three are the same
			continue
		}
		why, err := l.continues(ctx, head, known.Checkpoint, known.as)
		if err != nil {
			return err
		}
		if why != nil {
			return l.freezeFor(ctx, head, &frozenError{FrozenMark, why})
		}
		checked = known.Checkpoint
	}
	l.read = checkpointOf(head)
	return nil
}

// continues returns why the tree does not continue the known one. The parameter as, "signed" or "read", is a word of
// that text. It returns nil when the tree does, or when the known one is of another generation that the ledger has.
func (l *Log) continues(ctx context.Context, head Head, known receiptlog.Checkpoint, as string) (why, err error) {
	switch {
	case known.Origin != head.Origin:
		heads, err := l.Store.Heads(ctx)
		if err != nil || slices.ContainsFunc(heads, func(h Head) bool { return h.Origin == known.Origin }) {
			return nil, err
		}
		return fmt.Errorf("%s was %s, which the ledger does not know: it is older, or LOG_MARK_FILE is another "+
			"verifier's", known.Origin, as), nil
	case known.Size > head.Size:
		return fmt.Errorf("%d entries were %s, the ledger has %d", known.Size, as, head.Size), nil
	}
	root := head.Root
	if known.Size < head.Size {
		if root, err = l.rootAt(ctx, head, known.Size); err != nil {
			return nil, err
		}
	}
	if root != known.Root {
		return fmt.Errorf("the first %d entries are not those that were %s", known.Size, as), nil
	}
	return nil, nil
}

// writeMark remembers a checkpoint, before its signature leaves the process. A mark of a tree of
// the same generation that is not smaller stays: another process may be ahead.
func (l *Log) writeMark(c receiptlog.Checkpoint) error {
	l.signed = c
	mark, found, err := l.readMark()
	if err != nil || l.Mark == "" || found && mark.Origin == c.Origin && mark.Size >= c.Size {
		return err
	}
	if err := witness.Replace(l.Mark, []byte(c.Text())); err != nil {
		return fmt.Errorf("LOG_MARK_FILE: %w", err)
	}
	return nil
}

// rootAt returns the root of the first size entries of a generation.
func (l *Log) rootAt(ctx context.Context, head Head, size int64) (tlog.Hash, error) {
	return tlog.TreeHash(size, l.hashes(ctx, head.Log))
}

func (l *Log) hashes(ctx context.Context, log int64) tlog.HashReader {
	return tlog.HashReaderFunc(func(ids []int64) ([]tlog.Hash, error) { return l.Store.Hashes(ctx, log, ids) })
}
