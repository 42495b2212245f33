package translog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/receipt/witness"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// The mark is a file outside of the database with the greatest tree that was signed: the
// text of its checkpoint. It is on disk before the signature leaves the process. A ledger
// that was put back without the file is behind it. It belongs to one machine; where
// several share a log, the witnesses guard it.

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

// checkMark returns a frozenError unless the tree continues the mark. That of an earlier
// generation counts no more.
func (l *Log) checkMark(ctx context.Context, head payment.LogHead) error {
	mark, found, err := l.readMark()
	if err != nil || !found || mark.Origin != head.Origin {
		return err
	}
	if mark.Size > head.Size {
		return l.freezeFor(ctx, head, &frozenError{payment.FrozenMark, fmt.Errorf("%d entries were signed, the ledger has %d", mark.Size, head.Size)})
	}
	root, err := l.rootAt(ctx, head, mark.Size)
	if err != nil {
		return err
	}
	if root != mark.Root {
		return l.freezeFor(ctx, head, &frozenError{payment.FrozenMark, fmt.Errorf("the first %d entries are not those that were signed", mark.Size)})
	}
	return nil
}

// writeMark writes the mark, unless it is of a larger tree: another process may be ahead.
func (l *Log) writeMark(c receiptlog.Checkpoint) error {
	mark, found, err := l.readMark()
	if err != nil || l.Mark == "" || found && mark.Origin == c.Origin && mark.Size >= c.Size {
		return err
	}
	if err := witness.Replace(l.Mark, []byte(c.Text())); err != nil {
		return fmt.Errorf("LOG_MARK_FILE: %w", err)
	}
	return nil
}

// rootAt returns the root of the first entries of a log.
func (l *Log) rootAt(ctx context.Context, head payment.LogHead, size int64) (tlog.Hash, error) {
	return tlog.TreeHash(size, l.hashes(ctx, head.Log))
}

// hashes reads the stored hashes of a generation.
func (l *Log) hashes(ctx context.Context, log int64) tlog.HashReader {
	return tlog.HashReaderFunc(func(ids []int64) ([]tlog.Hash, error) {
		found, err := l.Store.Hashes(ctx, log, ids)
		out := make([]tlog.Hash, len(found))
		for i, hash := range found {
			out[i] = tlog.Hash(hash)
		}
		return out, err
	})
}
