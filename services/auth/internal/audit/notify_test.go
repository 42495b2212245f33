package audit_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
)

// receiver takes notifications in place of a network.
type receiver struct {
	requests []*http.Request
	bodies   []string
	at       []time.Time
	answer   func(try int) (*http.Response, error)
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.requests, r.bodies, r.at = append(r.requests, req), append(r.bodies, string(body)), append(r.at, time.Now())
	if r.answer == nil {
		return status(http.StatusOK)
	}
	return r.answer(len(r.requests))
}

func status(code int) (*http.Response, error) {
	return &http.Response{StatusCode: code, Header: http.Header{"Location": {"https://elsewhere.example.org/"}}, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// notifying is a Notifier of all events, with what it logs and counts.
type notifying struct {
	*audit.Notifier
	log bytes.Buffer

	mu      sync.Mutex
	counted []string
}

func (n *notifying) count(outcome string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counted = append(n.counted, outcome)
}

// outcomes returns what was counted, in order.
func (n *notifying) outcomes() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.counted)
}

func newNotifying(t *testing.T, target string, to http.RoundTripper, events ...string) *notifying {
	t.Helper()
	parsed, err := audit.ParseNotifyTarget(target)
	if err != nil {
		t.Fatal(err)
	}
	n := &notifying{}
	if events == nil {
		events = audit.Notifiable()
	}
	n.Notifier, err = audit.NewNotifier(audit.NotifierOptions{
		Target: parsed, Events: events, Transport: to, Log: slog.New(slog.NewTextHandler(&n.log, nil)),
		Count: n.count,
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// about returns an event of anna about otto.
func about(name string, detail map[string]any) audit.Entry {
	return audit.Entry{
		At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Actor: audit.Actor{Kind: audit.User, ID: 1, Name: "anna", IP: "192.0.2.1", Agent: "Firefox, Linux", SessionKey: "key"},
		Event: audit.Event{Name: name, SubjectID: 2, SubjectName: "otto", Detail: detail},
	}
}

func TestNotify_IsTextForNtfyAndJSONOtherwise(t *testing.T) {
	to := &receiver{}
	ntfy := newNotifying(t, "ntfy+https://user:pass@ntfy.example.org/household", to)
	ntfy.Observe(about("reset_made", nil))
	ntfy.Drain(t.Context())
	hook := newNotifying(t, "https://hook.example.org/x?key=y", to)
	hook.Observe(about("role_changed", map[string]any{"role": "admin"}))
	hook.Drain(t.Context())
	want := []string{
		"Für otto wurde ein Link für ein neues Passwort erstellt, von anna.",
		`{"event":"role_changed","at":"2026-03-01T12:00:00Z","text":"Die Rolle von otto ist jetzt admin, von anna.","user":"otto","actor_kind":"user","actor":"anna","ip":"192.0.2.1","agent":"Firefox, Linux"}`,
	}
	if !slices.Equal(to.bodies, want) {
		t.Errorf("got %q", to.bodies)
	}
	for i, address := range []string{"https://user:pass@ntfy.example.org/household", "https://hook.example.org/x?key=y"} {
		if r := to.requests[i]; r.Method != http.MethodPost || r.URL.String() != address {
			t.Errorf("%s %s", r.Method, r.URL)
		}
	}
	if name, _, _ := to.requests[0].BasicAuth(); name != "user" || to.requests[0].Header.Get("Title") == "" {
		t.Errorf("sent %v", to.requests[0].Header)
	}
	if !slices.Equal(ntfy.outcomes(), []string{audit.NotificationSent}) {
		t.Errorf("counted %q", ntfy.outcomes())
	}
}

func TestNotify_NamesTheUserAndNoAddress(t *testing.T) {
	to := &receiver{}
	n := newNotifying(t, "ntfy+https://ntfy.example.org/household", to)
	for _, name := range audit.Notifiable() {
		n.Observe(about(name, map[string]any{"browser": "Firefox auf Linux", "role": "admin", "left": 3}))
	}
	n.Drain(t.Context())
	if len(to.bodies) != len(audit.Notifiable()) {
		t.Errorf("%d notifications", len(to.bodies))
	}
	for _, text := range to.bodies {
		if !strings.Contains(text, "otto") || !strings.HasSuffix(text, ".") || strings.Contains(text, "192.0.2.1") || strings.Contains(text, "%!") || strings.Contains(text, "nil") {
			t.Errorf("got %q", text)
		}
	}
}

func TestNotify_SendsOnlyTheChosenEvents(t *testing.T) {
	to := &receiver{}
	n := newNotifying(t, "https://hook.example.org", to, "reset_asked")
	for _, name := range append(audit.Notifiable(), "login", "user_created") {
		n.Observe(about(name, nil))
	}
	n.Drain(t.Context())
	if len(to.bodies) != 1 || !strings.Contains(to.bodies[0], "reset_asked") {
		t.Errorf("got %q", to.bodies)
	}
}

func TestNotify_TriesThreeTimes(t *testing.T) {
	for what, c := range map[string]struct {
		answer func(int) (*http.Response, error)
		tries  int
		end    string
	}{
		"no connection":           {func(int) (*http.Response, error) { return nil, errors.New("connection refused") }, 3, audit.NotificationFailed},
		"overloaded":              {func(int) (*http.Response, error) { return status(http.StatusServiceUnavailable) }, 3, audit.NotificationFailed},
		"too many":                {func(int) (*http.Response, error) { return status(http.StatusTooManyRequests) }, 3, audit.NotificationFailed},
		"refused":                 {func(int) (*http.Response, error) { return status(http.StatusForbidden) }, 1, audit.NotificationFailed},
		"redirected":              {func(int) (*http.Response, error) { return status(http.StatusTemporaryRedirect) }, 1, audit.NotificationFailed},
		"accepted the third time": {func(try int) (*http.Response, error) { return status(map[int]int{1: 500, 2: 502, 3: 202}[try]) }, 3, audit.NotificationSent},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &receiver{answer: c.answer}
				n := newNotifying(t, "https://hook.example.org/topsecret", to)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go n.Run(ctx)
				n.Observe(about("device_new", nil))
				time.Sleep(time.Minute)
				synctest.Wait()
				if len(to.bodies) != c.tries || !slices.Equal(n.outcomes(), []string{c.end}) {
					t.Errorf("%d tries, counted %q", len(to.bodies), n.outcomes())
				}
				if c.tries == 3 && (to.at[1].Sub(to.at[0]) != time.Second || to.at[2].Sub(to.at[1]) != 5*time.Second) {
					t.Errorf("tried at %v", to.at)
				}
				if failed := strings.Contains(n.log.String(), "notification failed"); failed != (c.end == audit.NotificationFailed) || strings.Contains(n.log.String(), "topsecret") {
					t.Errorf("logged %s", n.log.String())
				}
			})
		})
	}
}

// blocked does not answer until the request is given up.
type blocked struct{ tries int }

func (b *blocked) RoundTrip(r *http.Request) (*http.Response, error) {
	b.tries++
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestNotify_ASilentReceiverHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &blocked{}
		n := newNotifying(t, "https://hook.example.org", to)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go n.Run(ctx)
		begin := time.Now()
		for range 150 {
			n.Observe(about("device_new", nil))
			synctest.Wait()
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("events waited %s", waited)
		}
		// One is being sent, and 100 wait.
		if len(n.outcomes()) != 49 || slices.ContainsFunc(n.outcomes(), func(o string) bool { return o != audit.NotificationDropped }) {
			t.Errorf("counted %d %q", len(n.outcomes()), n.outcomes()[:1])
		}
		time.Sleep(3*5*time.Second + 6*time.Second)
		synctest.Wait()
		if to.tries != 4 || n.outcomes()[49] != audit.NotificationFailed {
			t.Errorf("after three tries of 5 seconds with their pauses: %d tries, %q", to.tries, n.outcomes()[49:])
		}
		stop()
		time.Sleep(6 * time.Second) // the try under way
		synctest.Wait()
		begin = time.Now()
		n.Drain(t.Context())
		if took := time.Since(begin); took > 5*time.Second || len(n.outcomes()) != 150 {
			t.Errorf("the end of the process took %s, %d of 150 counted", took, len(n.outcomes()))
		}
	})
}

func TestNotify_ARedirectIsNotFollowed(t *testing.T) {
	followed := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	defer elsewhere.Close()
	hook := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusPermanentRedirect))
	defer hook.Close()
	n := newNotifying(t, hook.URL, http.DefaultTransport)
	n.Observe(about("device_new", nil))
	n.Drain(t.Context())
	if followed || !slices.Equal(n.outcomes(), []string{audit.NotificationFailed}) {
		t.Errorf("followed: %t, %q", followed, n.outcomes())
	}
}

func TestNotify_ATargetIsAWebhookOrATopic(t *testing.T) {
	for _, good := range []string{"https://hook.example.org", "http://10.0.0.5:8080/x?key=y", "ntfy+https://ntfy.sh/topic", "ntfy+http://:token@ntfy.lan/topic"} {
		if _, err := audit.ParseNotifyTarget(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, wrong := range []string{"", "topsecret", "ntfy.sh/topsecret", "ftp://topsecret", "https://", "https:///topsecret", "ntfy+https://topsecret.sh", "ntfy+https://topsecret.sh/", "ntfy+ntfy+https://x/topsecret", "https://x/topsecret#y", "https://x/topsecret\n", "https://topsecret:port/"} {
		if _, err := audit.ParseNotifyTarget(wrong); err == nil || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestNotify_NeedsItsPartsAndKnownEvents(t *testing.T) {
	target, err := audit.ParseNotifyTarget("https://hook.example.org")
	if err != nil {
		t.Fatal(err)
	}
	whole := audit.NotifierOptions{Target: target, Events: audit.Notifiable(), Transport: http.DefaultTransport, Count: func(string) {}, Log: slog.New(slog.DiscardHandler)}
	for what, change := range map[string]func(*audit.NotifierOptions){
		"transport": func(o *audit.NotifierOptions) { o.Transport = nil },
		"count":     func(o *audit.NotifierOptions) { o.Count = nil }, "log": func(o *audit.NotifierOptions) { o.Log = nil },
		"known event": func(o *audit.NotifierOptions) { o.Events = []string{"login"} },
	} {
		o := whole
		change(&o)
		if _, err := audit.NewNotifier(o); err == nil {
			t.Errorf("made without a %s", what)
		}
	}
}

func TestNotify_SendsNothingWithoutATarget(t *testing.T) {
	to := &receiver{}
	n, err := audit.NewNotifier(audit.NotifierOptions{Events: audit.Notifiable(), Transport: to, Count: func(o string) { t.Error(o) }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	n.Observe(about("device_new", nil))
	n.Drain(t.Context())
	if len(to.requests) > 0 {
		t.Error("something was sent")
	}
}
