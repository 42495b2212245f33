package oidc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/oidc"
)

// logoutQueue is a queue in memory with a clock, for one process.
type logoutQueue struct {
	mu     sync.Mutex
	wait   map[int64]oidc.Logout
	due    map[int64]time.Time
	leased map[int64]bool
	pauses []time.Duration // of LogoutLater
	failed []int64
	now    func() time.Time
	broken atomic.Bool
}

func newLogoutQueue(now func() time.Time, all ...oidc.Logout) *logoutQueue {
	q := &logoutQueue{wait: map[int64]oidc.Logout{}, due: map[int64]time.Time{}, leased: map[int64]bool{}, now: now}
	for i, l := range all {
		l.ID = int64(i + 1)
		q.wait[l.ID] = l
	}
	return q
}

var errAway = errors.New("the store is away")

func (q *logoutQueue) ClaimLogouts(_ context.Context, most int, busy []int64) (claimed []oidc.Logout, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id := int64(1); len(claimed) < most && id <= 1000; id++ {
		l, ok := q.wait[id]
		if !ok || q.leased[id] || q.due[id].After(q.now()) || slices.Contains(busy, l.ApplicationID) {
			continue
		}
		l.Tries++
		q.wait[id], q.leased[id] = l, true
		claimed = append(claimed, l)
	}
	return claimed, nil
}

func (q *logoutQueue) LogoutDone(_ context.Context, l oidc.Logout) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.wait, l.ID)
	return nil
}

func (q *logoutQueue) LogoutLater(_ context.Context, l oidc.Logout, pause time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.due[l.ID], q.leased[l.ID] = q.now().Add(pause), false
	q.pauses = append(q.pauses, pause)
	return nil
}

func (q *logoutQueue) LogoutFailed(ctx context.Context, l oidc.Logout) error {
	q.mu.Lock()
	q.failed = append(q.failed, l.ID)
	q.mu.Unlock()
	return q.LogoutDone(ctx, l)
}

func (q *logoutQueue) LogoutsWaiting(context.Context) (int, error) {
	if q.broken.Load() {
		return 0, errAway
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.wait), nil
}

func (q *logoutQueue) EndClosed(context.Context) error { return nil }

// told is a sender whose tokens are their claims in JSON.
type told struct {
	*testing.T
	queue    *logoutQueue
	outcomes sync.Map // by outcome: *atomic.Int64
	waiting  atomic.Int64
	nanos    atomic.Int64
	off      atomic.Int64 // for how many looks there is no provider
}

func (o *told) now() time.Time { return time.Unix(1_770_000_000, o.nanos.Load()).UTC() }

func (o *told) count(outcome string) int64 {
	n, _ := o.outcomes.LoadOrStore(outcome, new(atomic.Int64))
	return n.(*atomic.Int64).Load()
}

// deliver runs a sender until the condition holds.
func deliver(t *testing.T, until func(*told) bool, all ...oidc.Logout) *told {
	t.Helper()
	return new(told).deliver(t, until, all...)
}

func (o *told) deliver(t *testing.T, until func(*told) bool, all ...oidc.Logout) *told {
	t.Helper()
	o.T = t
	o.queue = newLogoutQueue(o.now, all...)
	m, err := oidc.NewLogoutSender(oidc.LogoutOptions{
		Store: o.queue, Transport: &http.Transport{MaxResponseHeaderBytes: 8 << 10}, Log: slog.New(slog.DiscardHandler), Now: o.now,
		Issuer: "https://home.example.org/pforte",
		Off: func(context.Context) error {
			if o.off.Add(-1) >= 0 {
				return errAway
			}
			return nil
		},
		Sign: func(_ context.Context, alg oidc.Alg, typ string, claims any) (string, error) {
			if typ != oidc.TypeLogout {
				t.Errorf("typ is %q", typ)
			}
			text, err := json.Marshal(claims)
			return string(alg) + string(text), err
		},
		Count: func(outcome string) {
			n, _ := o.outcomes.LoadOrStore(outcome, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
		},
		Waiting: func(n int) { o.waiting.Store(int64(n)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	for end := time.Now().Add(20 * time.Second); !until(o); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Error("it took too long")
			break
		}
	}
	stop()
	running.Wait()
	return o
}

func logoutTo(uri string) oidc.Logout {
	return oidc.Logout{ApplicationID: 1, ClientID: "photos", Alg: oidc.RS256, Subject: "sub", SID: "sid", URI: uri}
}

func TestMessenger_SendsALogoutTokenAsTheStandardSays(t *testing.T) {
	var got http.Header
	var form string
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got, form = r.Header, string(body)
		if r.Method != http.MethodPost || r.URL.String() != "/out?logout=backchannel" {
			t.Errorf("got %s %s", r.Method, r.URL)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer app.Close()
	o := deliver(t, func(o *told) bool { return o.count(oidc.LogoutSent) == 1 }, logoutTo(app.URL+"/out?logout=backchannel"))
	if got.Get("Content-Type") != "application/x-www-form-urlencoded" || got.Get("Cookie") != "" || got.Get("Authorization") != "" {
		t.Errorf("headers are %v", got)
	}
	values, err := httptestForm(form)
	if err != nil || len(values) != 1 {
		t.Fatalf("form is %q", form)
	}
	text, found := strings.CutPrefix(values["logout_token"], "RS256")
	var claims map[string]any
	if err := json.Unmarshal([]byte(text), &claims); err != nil || !found {
		t.Fatalf("token is %q", text)
	}
	iat, exp := claims["iat"].(float64), claims["exp"].(float64)
	events, _ := claims["events"].(map[string]any)
	if _, event := events["http://schemas.openid.net/event/backchannel-logout"]; !event || len(events) != 1 || exp-iat != 120 || claims["iss"] != "https://home.example.org/pforte" ||
		claims["aud"] != "photos" || claims["sub"] != "sub" || claims["sid"] != "sid" || claims["jti"] == "" || claims["nonce"] != nil || len(claims) != 8 {
		t.Errorf("claims are %v", claims)
	}
	if n, _ := o.queue.LogoutsWaiting(t.Context()); n != 0 {
		t.Errorf("%d wait", n)
	}
}

func httptestForm(body string) (map[string]string, error) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	err := r.ParseForm()
	values := map[string]string{}
	for name := range r.PostForm {
		values[name] = r.PostForm.Get(name)
	}
	return values, err
}

// TestMessenger_GoesNowhereElse: no redirect is followed, whatever its status, and nothing more is read than fits.
func TestMessenger_GoesNowhereElse(t *testing.T) {
	var inside atomic.Int64
	secret := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside.Add(1) }))
	defer secret.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", secret.URL+"/latest/meta-data")
			w.WriteHeader(status)
		}))
		o := deliver(t, func(o *told) bool { return o.count(oidc.LogoutRetried) == 1 }, logoutTo(app.URL))
		app.Close()
		if o.count(oidc.LogoutSent) != 0 || inside.Load() != 0 {
			t.Errorf("%d: %d requests inside", status, inside.Load())
		}
	}
}

func TestMessenger_ReadsAKilobyteOfAnAnswer(t *testing.T) {
	wrote := make(chan int64, 1)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n, _ := io.CopyN(w, zeros{}, 1<<30)
		wrote <- n
	}))
	defer app.Close()
	deliver(t, func(o *told) bool { return o.count(oidc.LogoutSent) == 1 }, logoutTo(app.URL))
	if n := <-wrote; n > 16<<20 {
		t.Errorf("the application could send %d bytes", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestMessenger_ASlowApplicationDelaysNoOther has one that never answers, with many logouts.
func TestMessenger_ASlowApplicationDelaysNoOther(t *testing.T) {
	stuck, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stuck.Close() }()
	var answered atomic.Int64
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { answered.Add(1) }))
	defer app.Close()
	var all []oidc.Logout
	for range 100 {
		all = append(all, logoutTo("http://"+stuck.Addr().String()+"/"))
	}
	quick := logoutTo(app.URL)
	quick.ApplicationID, quick.ClientID = 2, "notes"
	begin := time.Now()
	var took time.Duration
	o := deliver(t, func(o *told) bool {
		if answered.Load() == 1 && took == 0 {
			took = time.Since(begin)
		}
		return took != 0 && o.count(oidc.LogoutRetried) > 0
	}, append(all, quick)...)
	if took > time.Second {
		t.Errorf("the other was told after %s", took)
	}
	if n := o.waiting.Load(); n < 90 {
		t.Errorf("%d wait", n)
	}
	t.Logf("told after %s; the slow one was given up for now after %s", took, time.Since(begin))
}

// TestMessenger_TriesFourAtOnceOfAnApplication has ten more logouts come while three tries are under way.
func TestMessenger_TriesFourAtOnceOfAnApplication(t *testing.T) {
	var now, most atomic.Int64
	answer := make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
		<-answer
	}))
	defer app.Close()
	var more sync.Once
	var since time.Time
	deliver(t, func(o *told) bool {
		if now.Load() < 3 {
			return false
		}
		more.Do(func() {
			since = time.Now()
			o.queue.mu.Lock()
			defer o.queue.mu.Unlock()
			for id := int64(4); id <= 13; id++ {
				l := logoutTo(app.URL)
				l.ID, o.queue.wait[id] = id, l
			}
		})
		if time.Since(since) < time.Second { // the queue is read four times
			return false
		}
		close(answer)
		return true
	}, logoutTo(app.URL), logoutTo(app.URL), logoutTo(app.URL))
	if most.Load() != 4 {
		t.Errorf("%d tries at once", most.Load())
	}
}

// TestMessenger_TriesAgain: after 5 s, 30 s, 2 min and 10 min, and then no more.
func TestMessenger_TriesAgain(t *testing.T) {
	var times []time.Duration
	var mu sync.Mutex
	o := new(told)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		times = append(times, time.Duration(o.nanos.Load()))
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer app.Close()
	o.deliver(t, func(o *told) bool {
		if o.count(oidc.LogoutFailed) == 1 {
			return true
		}
		o.queue.mu.Lock()
		idle := len(o.queue.wait) == 1 && !o.queue.leased[1]
		o.queue.mu.Unlock()
		if idle {
			o.nanos.Add(int64(time.Second))
		}
		return false
	}, logoutTo(app.URL))
	mu.Lock()
	defer mu.Unlock()
	if len(times) != 5 || o.count(oidc.LogoutRetried) != 4 || len(o.queue.failed) != 1 {
		t.Fatalf("%d tries: %v", len(times), times)
	}
	want := []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute}
	if !slices.Equal(o.queue.pauses, want) {
		t.Errorf("the pauses are %s, want %s", o.queue.pauses, want)
	}
	for i, least := range want {
		if pause := times[i+1] - times[i]; pause < least {
			t.Errorf("pause %d is %s, want %s", i+1, pause, least)
		}
	}
}

func TestMessenger_WaitsForAProvider(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer app.Close()
	o := new(told)
	o.off.Store(2)
	o.deliver(t, func(o *told) bool { return o.count(oidc.LogoutSent) == 1 }, logoutTo(app.URL))
	if o.off.Load() >= 0 || o.count(oidc.LogoutRetried) != 0 {
		t.Errorf("looks left: %d, tries before there was a provider: %d", o.off.Load(), o.count(oidc.LogoutRetried))
	}
}

func TestMessenger_AnAnswerEndsIt(t *testing.T) {
	for status, outcome := range map[int]string{200: oidc.LogoutSent, 204: oidc.LogoutSent, 400: oidc.LogoutRefused, 501: oidc.LogoutRefused, 404: oidc.LogoutRetried, 500: oidc.LogoutRetried} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
			defer app.Close()
			o := deliver(t, func(o *told) bool { return o.count(outcome) == 1 }, logoutTo(app.URL))
			if n, _ := o.queue.LogoutsWaiting(t.Context()); (n == 0) != (outcome != oidc.LogoutRetried) {
				t.Errorf("%d wait", n)
			}
		})
	}
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := refused.Addr().String()
	_ = refused.Close()
	deliver(t, func(o *told) bool { return o.count(oidc.LogoutRetried) == 1 }, logoutTo("http://"+address+"/"))
}
