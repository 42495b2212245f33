package facilitator_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/facilitator"
)

func TestCircuit_OpensAndClosesAgain(t *testing.T) {
	var down atomic.Bool
	var called atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		called.Add(1)
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"isValid":true,"success":true}`)
	}))
	t.Cleanup(server.Close)
	var mu sync.Mutex
	now := time.Now()
	c, err := facilitator.New(facilitator.Options{URL: server.URL, Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
	if err != nil {
		t.Fatal(err)
	}
	advance := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	down.Store(true)
	for range 3 {
		_, _ = c.Verify(context.Background(), nil)
	}
	before := called.Load()
	for range 100 {
		if _, err := c.Verify(context.Background(), nil); !errors.Is(err, facilitator.ErrAway) {
			t.Fatal(err)
		}
	}
	if called.Load() != before {
		t.Errorf("called %d times though the circuit was open", called.Load()-before)
	}
	if _, err := c.Settle(context.Background(), nil); err == nil || called.Load() != before+1 {
		t.Error("a settling must be tried whatever the circuit reports")
	}
	down.Store(false)
	advance(5 * time.Second)
	for range 2 {
		if _, err := c.Verify(context.Background(), nil); err != nil {
			t.Errorf("after the pause: %v", err)
		}
	}
}

// A payment may be made so that the facilitator chokes on it. That must not
// block the other buyers.
func TestCircuit_AnswersWithoutAVerdictDoNotOpenIt(t *testing.T) {
	for _, status := range []int{200, 400, 404, 500} {
		var called atomic.Int32
		c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if called.Add(1) > 20 {
				_, _ = io.WriteString(w, `{"isValid":true}`)
				return
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"error":"cannot decode the signature"}`)
		})
		for range 10 {
			if _, err := c.Verify(context.Background(), nil); !errors.Is(err, facilitator.ErrAway) || !errors.Is(err, payment.ErrNoVerdict) {
				t.Fatalf("%d: %v", status, err)
			}
		}
		if _, err := c.Verify(context.Background(), nil); err != nil {
			t.Errorf("%d: a good payment after them: %v", status, err)
		}
	}
}

// A buyer who pays from a wallet that takes long to check must not keep others from
// settling.
func TestClient_SlowChecksLeaveConnectionsToSettle(t *testing.T) {
	over := make(chan struct{})
	var called atomic.Int32
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/verify") {
			called.Add(1)
			<-over
		}
		_, _ = io.WriteString(w, `{"isValid":true,"success":true}`)
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for range 300 {
		all.Go(func() { _, _ = c.Verify(ctx, nil) })
	}
	for called.Load() < 200 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	settling, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	if _, err := c.Settle(settling, nil); err != nil {
		t.Error(err)
	}
	close(over)
	all.Wait()
}

func TestClient_KeepsConnections(t *testing.T) {
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(answering(200, `{"isValid":true}`))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c, _ := client(t, server.URL)
	for range 20 {
		if _, err := c.Verify(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if opened.Load() != 1 {
		t.Errorf("opened %d connections", opened.Load())
	}
}

// What a stranger's payment makes the facilitator do must not stop the checks of known payers.
func TestClient_ForStrangers_HasACircuitOfItsOwn(t *testing.T) {
	for name, status := range map[string]int{"busy": 429, "away": 503} {
		t.Run(name, func(t *testing.T) {
			var fails atomic.Bool
			c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if fails.Load() {
					w.WriteHeader(status)
					return
				}
				_, _ = io.WriteString(w, `{"isValid":true}`)
			})
			strangers := c.ForStrangers()
			check := func(c *facilitator.Client, want error) {
				t.Helper()
				if _, err := c.Verify(context.Background(), nil); !errors.Is(err, want) || want == nil && err != nil {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			fails.Store(true)
			for range 10 {
				check(strangers, facilitator.ErrAway)
			}
			fails.Store(false)
			check(strangers, facilitator.ErrAway) // it is left alone
			check(c, nil)
			fails.Store(true)
			other := c.ForStrangers()
			for range 10 {
				check(c, facilitator.ErrAway)
			}
			fails.Store(false)
			check(other, facilitator.ErrAway)
		})
	}
}

func TestClient_Uncounted_StopsNoChecks(t *testing.T) {
	var fails atomic.Bool
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if fails.Load() {
			w.WriteHeader(http.StatusGatewayTimeout)
			return
		}
		_, _ = io.WriteString(w, `{"isValid":true}`)
	})
	uncounted := c.Uncounted()
	fails.Store(true)
	for range 10 {
		if _, err := uncounted.Verify(t.Context(), nil); !errors.Is(err, facilitator.ErrAway) {
			t.Errorf("got %v", err)
		}
	}
	fails.Store(false)
	for name, client := range map[string]*facilitator.Client{
		"its own": uncounted, "known payers'": c, "strangers'": c.ForStrangers(),
	} {
		if _, err := client.Verify(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	fails.Store(true)
	for range 5 {
		_, _ = c.Verify(t.Context(), nil)
	}
	fails.Store(false)
	if _, err := uncounted.Verify(t.Context(), nil); !errors.Is(err, facilitator.ErrAway) {
		t.Errorf("while the checks of known payers are stopped: %v", err)
	}
}

// After the facilitator was away one check in a while tries whether it is back. A stranger's is not
// that one, so that those who call most often, or whose checks fail, keep no known payer waiting.
func TestClient_ForStrangers_TakesNoTryOfKnownPayers(t *testing.T) {
	for name, status := range map[string]int32{"whose check succeeds": 200, "whose check fails": 503} {
		t.Run(name, func(t *testing.T) {
			var answers atomic.Int32
			answers.Store(503)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(int(answers.Load()))
				_, _ = io.WriteString(w, `{"isValid":true}`)
			}))
			t.Cleanup(server.Close)
			now := time.Now()
			c, err := facilitator.New(facilitator.Options{URL: server.URL, Now: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				_, _ = c.Verify(context.Background(), nil)
			}
			strangers := c.ForStrangers()
			now = now.Add(5 * time.Second)
			answers.Store(status)
			if _, err := strangers.Verify(context.Background(), nil); (err == nil) != (status == 200) {
				t.Fatal(err)
			}
			answers.Store(200)
			for range 2 {
				if _, err := c.Verify(context.Background(), nil); err != nil {
					t.Errorf("a known payer: %v", err)
				}
			}
		})
	}
}
