package ledger

import (
	"context"
	"database/sql"
	"errors"
	"testing"
)

// TestBatch_ADatabaseThatHangsIsWaitedForOnce: the batch fails at once, as in a failover, and then nothing answers.
func TestBatch_ADatabaseThatHangsIsWaitedForOnce(t *testing.T) {
	transactions := 0
	b := &batcher{relaxed: func(context.Context, func(*sql.Tx) error) error {
		if transactions++; transactions == 1 {
			return errors.New("connection reset")
		}
		return context.DeadlineExceeded
	}}
	var batch []*write
	for range maxBatch {
		batch = append(batch, &write{done: make(chan error, 1)})
	}
	b.commit(batch)
	for _, w := range batch {
		if err := <-w.done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	}
	if transactions != 2 {
		t.Errorf("%d transactions", transactions)
	}
}
