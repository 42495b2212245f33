package faults

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/redistest"
)

func TestRedis_IsRead(t *testing.T) {
	c := newRedis(redistest.Start(t), time.Second)
	defer func() { _ = c.Close() }()
	if err := c.Set(t.Context(), "a key with spaces", "its value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	keys, err := c.Keys(t.Context(), "a *").Result()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a key with spaces"}, keys); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Eval(t.Context(), "no script", nil).Result(); err == nil {
		t.Error("a refusal is no error")
	}
}

func TestRedis_ThatHangsIsTriedOnce(t *testing.T) {
	server := redistest.New(t)
	c := newRedis(server.Addr(), time.Second)
	defer func() { _ = c.Close() }()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	defer server.Resume()
	begin := time.Now()
	err := c.Ping(t.Context()).Err()
	if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("got %v, want a timeout", err)
	}
	if took := time.Since(begin); took < 900*time.Millisecond || took > 1900*time.Millisecond {
		t.Errorf("it waited %v", took)
	}
}
