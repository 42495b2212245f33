package ledger

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

func TestWrite_ThatFailsDoesNotSpoilTheOthers(t *testing.T) {
	l := openFile(t)
	failure := errors.New("refused")
	var failed atomic.Int32
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			err := l.writes.do(context.Background(), false, func(ctx context.Context, u *unit) error {
				if i%10 == 0 {
					return failure
				}
				_, err := u.ExecContext(ctx, "INSERT INTO owners (id, alive_until) VALUES (?, 1)", i)
				return err
			})
			switch {
			case errors.Is(err, failure):
				failed.Add(1)
			case err != nil:
				t.Error(err)
			}
		})
	}
	all.Wait()
	var written int
	if err := l.db.Reader.QueryRowContext(context.Background(), "SELECT count(*) FROM owners").Scan(&written); err != nil {
		t.Fatal(err)
	}
	if failed.Load() != 10 || written != 90 {
		t.Errorf("%d failed, %d were written", failed.Load(), written)
	}
}

// A batch whose writes fail is begun again for each of them, and counts anew.
func TestWrite_WhatFailsBesideItIsNotCounted(t *testing.T) {
	l := openFile(t)
	failure := errors.New("refused")
	keys := make([]payment.Key, 30)
	for i := range keys {
		keys[i] = claim(t, l, strconv.Itoa(i))
	}
	var began, refused atomic.Int32
	var all sync.WaitGroup
	for i, key := range keys {
		all.Go(func() {
			_, _, err := l.Begin(context.Background(), key, "me", payment.Settlement{Answer: []byte("{}"), Month: "2026-11", Limit: 20, Deadline: time.Now().Add(time.Hour)})
			switch {
			case err == nil:
				began.Add(1)
			case errors.Is(err, payment.ErrLimit):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
		if i%7 == 0 {
			all.Go(func() {
				if err := l.writes.do(context.Background(), false, func(context.Context, *unit) error { return failure }); !errors.Is(err, failure) {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	s, err := l.QuotaStatus(context.Background(), "2026-11")
	if err != nil || began.Load() != 20 || refused.Load() != 10 || s.Reserved != 20 {
		t.Errorf("%d began, %d were refused, %d are counted, %v", began.Load(), refused.Load(), s.Reserved, err)
	}
}
