package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// fakeRedis answers pipelines in place of Redis, each after one value of let.
type fakeRedis struct {
	let             chan struct{}
	pipelines, sent atomic.Int32
}

func (f *fakeRedis) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("there is no Redis") }
}

func (f *fakeRedis) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook answers each load with its session's key as username.
func (f *fakeRedis) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		f.pipelines.Add(1)
		f.sent.Add(int32(len(cmds)))
		select {
		case <-f.let:
		case <-ctx.Done():
			for _, cmd := range cmds {
				cmd.SetErr(ctx.Err())
			}
			return ctx.Err()
		}
		for _, cmd := range cmds {
			cmd.(*redis.Cmd).SetVal([]any{cmd.Args()[5], "member", "csrf", "agent", "1770000000", "stamp", "pwd", "1770000000", "", "", ""})
		}
		return nil
	}
}

func newFake(t *testing.T) (*store, *fakeRedis) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "localhost:1"})
	t.Cleanup(func() { _ = client.Close() })
	f := &fakeRedis{let: make(chan struct{})}
	client.AddHook(f)
	return New(client, "svc").(*store), f
}

func loadKey(ctx context.Context, s *store, key string) error {
	got, err := s.Load(ctx, session.Ref{UserID: 42, Key: key}, session.NewLifetimes(0, 0))
	if err == nil && got.Username != key {
		err = fmt.Errorf("loaded %s instead of %s", got.Username, key)
	}
	return err
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func TestLoad_WaitingOnesShareAPipeline(t *testing.T) {
	s, f := newFake(t)
	var all sync.WaitGroup
	load := func(key string) {
		all.Go(func() {
			if err := loadKey(t.Context(), s, key); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range maxPipelines {
		load(fmt.Sprintf("first%d", i))
		until(t, "no pipeline was sent", func() bool { return f.pipelines.Load() == int32(i)+1 })
	}
	for i := range 100 {
		load(fmt.Sprintf("key%d", i))
	}
	until(t, "the loads do not wait", func() bool { return len(s.loads.waiting) == 100 })
	close(f.let)
	all.Wait()
	if n, sent := f.pipelines.Load(), f.sent.Load(); n > 2*maxPipelines || sent != 100+maxPipelines {
		t.Errorf("%d loads were sent in %d pipelines", sent, n)
	}
}

func TestLoad_APipelineThatHangsDelaysNoOther(t *testing.T) {
	s, f := newFake(t)
	hanging := make(chan error)
	go func() { hanging <- loadKey(t.Context(), s, "first") }()
	until(t, "no pipeline was sent", func() bool { return f.pipelines.Load() == 1 })
	second := make(chan error)
	go func() { second <- loadKey(t.Context(), s, "second") }()
	until(t, "the second load waits for the first pipeline", func() bool { return f.pipelines.Load() == 2 })
	close(f.let)
	if err := errors.Join(<-hanging, <-second); err != nil {
		t.Error(err)
	}
}

func TestLoad_ACallerThatLeavesEndsItsOwnWaitOnly(t *testing.T) {
	s, f := newFake(t)
	results := make(chan error, maxPipelines+1)
	for i := range maxPipelines {
		go func() { results <- loadKey(t.Context(), s, "first") }()
		until(t, "no pipeline was sent", func() bool { return f.pipelines.Load() == int32(i)+1 })
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { left <- loadKey(ctx, s, "left") }()
	until(t, "the load does not wait", func() bool { return len(s.loads.waiting) == 1 })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	go func() { results <- loadKey(t.Context(), s, "behind") }()
	close(f.let)
	for range maxPipelines + 1 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := f.sent.Load(); n != maxPipelines+1 {
		t.Errorf("%d loads were sent, one of them for a caller that had left", n)
	}
}

func TestLoad_APipelineEndsWithItsTimeout(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the timeout")
	}
	t.Parallel()
	s, _ := newFake(t)
	began := time.Now()
	err := loadKey(t.Context(), s, "key")
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 2*pipelineTimeout {
		t.Errorf("got %v after %v", err, took)
	}
}
