package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/application/redisstore"
)

func open(t *testing.T) (application.Proxies, *miniredis.Miniredis) {
	t.Helper()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return redisstore.New(client, "svc", time.Now), server
}

func report(t *testing.T, s application.Proxies, id string, answers ...application.Probe) []application.Probe {
	t.Helper()
	open, err := s.Report(t.Context(), application.Proxy{ID: id, Have: `"a1"`}, answers)
	if err != nil {
		t.Fatal(err)
	}
	return open
}

func TestProxies_AreThoseThatAskedInTenSeconds(t *testing.T) {
	s, server := open(t)
	report(t, s, "b")
	server.FastForward(6 * time.Second)
	report(t, s, "a")
	for _, want := range [][]application.Proxy{{{ID: "a", Have: `"a1"`}, {ID: "b", Have: `"a1"`}}, {{ID: "a", Have: `"a1"`}}, nil} {
		got, err := s.Proxies(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
		server.FastForward(5 * time.Second)
	}
}

func TestProbe_IsAskedUntilAProxyHasAnswered(t *testing.T) {
	s, server := open(t)
	asked := application.Probe{ID: "p1", To: "http://notes:80"}
	for range 2 {
		if err := s.Ask(t.Context(), asked); err != nil {
			t.Fatal(err)
		}
	}
	for _, proxy := range []string{"a", "b"} {
		if diff := cmp.Diff([]application.Probe{asked}, report(t, s, proxy)); diff != "" {
			t.Error(diff)
		}
	}
	first := application.Probe{ID: "p1", Status: 200, MS: 12}
	if left := report(t, s, "a", first, application.Probe{ID: "unknown", Status: 200}); len(left) != 0 {
		t.Errorf("still open: %+v", left)
	}
	report(t, s, "b", application.Probe{ID: "p1", Error: "refused"})
	first.To = asked.To
	if got, err := s.Probe(t.Context(), "p1"); err != nil || got != first {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.Probe(t.Context(), "unknown"); err != nil || got.ID != "" {
		t.Errorf("%+v, %v", got, err)
	}
	server.FastForward(31 * time.Second)
	if got, err := s.Probe(t.Context(), "p1"); err != nil || got.ID != "" {
		t.Errorf("after 31 s: %+v, %v", got, err)
	}
}

// TestStore_IsBounded has more proxies and probes than are kept.
func TestStore_IsBounded(t *testing.T) {
	s, server := open(t)
	for i := range 200 {
		if err := s.Ask(t.Context(), application.Probe{ID: fmt.Sprint("p", i), To: "http://notes:80"}); err != nil {
			t.Fatal(err)
		}
		report(t, s, fmt.Sprint("proxy", i))
	}
	proxies, err := s.Proxies(t.Context())
	if left := report(t, s, "a"); err != nil || len(proxies) > 32 || len(left) > 64 || len(left) == 0 {
		t.Errorf("%d proxies, %d probes, %v", len(proxies), len(left), err)
	}
	server.SetError("LOADING")
	if _, err := s.Proxies(t.Context()); err == nil || errors.Is(err, redis.Nil) {
		t.Error(err)
	}
}
