package snapshot_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pforte/pforte/services/auth/internal/snapshot"
)

var errStore = errors.New("the store is away")

// source is a store that counts how often it is read.
type source struct {
	reads int
	err   error
	took  time.Duration
}

func (s *source) read(context.Context) (int, error) {
	s.reads++
	n, err := s.reads, s.err
	time.Sleep(s.took)
	return n, err
}

// each runs a test with a clock of its own.
func each(t *testing.T, test func(*testing.T, *source, *snapshot.Snapshot[int])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &source{took: time.Second}
		test(t, s, snapshot.New(snapshot.Options[int]{What: "numbers", Age: time.Minute, Read: s.read, Now: time.Now}))
	})
}

func want(t *testing.T, s *snapshot.Snapshot[int], n int) {
	t.Helper()
	if got, err := s.Get(t.Context()); got != n || err != nil {
		t.Errorf("got %d, %v, want %d", got, err, n)
	}
}

func TestSnapshot_IsReadOnceByManyAtOnceAndAgainWhenOld(t *testing.T) {
	each(t, func(t *testing.T, _ *source, s *snapshot.Snapshot[int]) {
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { want(t, s, 1) })
		}
		all.Wait()
		time.Sleep(time.Minute - 2*time.Second) // since it began
		want(t, s, 1)
		time.Sleep(time.Second)
		want(t, s, 2)
	})
}

func TestSnapshot_IsNeverOlderThanAChangeHere(t *testing.T) {
	each(t, func(t *testing.T, _ *source, s *snapshot.Snapshot[int]) {
		go func() { _, _ = s.Get(t.Context()) }()
		synctest.Wait() // it is being read
		s.Outdate()
		want(t, s, 2)
	})
}

func TestSnapshot_AFailureIsNotKept(t *testing.T) {
	each(t, func(t *testing.T, from *source, s *snapshot.Snapshot[int]) {
		from.err = errStore
		if _, err := s.Get(t.Context()); !errors.Is(err, errStore) {
			t.Errorf("got %v", err)
		}
		from.err = nil
		want(t, s, 2)
	})
}

func TestSnapshot_WhoLeavesDoesNotEndTheRead(t *testing.T) {
	each(t, func(t *testing.T, _ *source, s *snapshot.Snapshot[int]) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Get(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		want(t, s, 1)
	})
}
