package session_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// browser keeps cookies like one and sends them with every request.
type browser struct {
	t        *testing.T
	manager  *session.Manager
	store    session.Store
	now      func() time.Time
	lifetime session.Lifetimes
	device   session.Device // of its next session
	cookies  map[string]string
	sent     []string // Set-Cookie headers of the last answer
}

func newBrowser(t *testing.T, o session.Options) *browser {
	t.Helper()
	if o.Name == "" {
		o.Name = "svc"
	}
	if o.Secret == "" {
		o.Secret = "a secret of some length for tests"
	}
	manager, err := session.NewManager(o)
	if err != nil {
		t.Fatal(err)
	}
	if o.Lifetimes == (session.Lifetimes{}) {
		o.Lifetimes = session.NewLifetimes(0, 0)
	}
	return &browser{t: t, manager: manager, store: o.Store, now: o.Now, lifetime: o.Lifetimes, cookies: map[string]string{}}
}

func (b *browser) request() *http.Request {
	r := httptest.NewRequestWithContext(b.t.Context(), http.MethodGet, "/", nil)
	for name, value := range b.cookies {
		r.Header.Add("Cookie", name+"="+value)
	}
	return r
}

// do makes a request and takes the answer's cookies.
func (b *browser) do(handle func(w http.ResponseWriter, r *http.Request) error) error {
	w := httptest.NewRecorder()
	err := handle(w, b.request())
	b.sent = w.Header().Values("Set-Cookie")
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
			continue
		}
		b.cookies[c.Name] = c.Value
	}
	return err
}

func (b *browser) login(userID int64) (s session.Session) {
	b.t.Helper()
	fence, err := b.store.Fence(b.t.Context(), userID)
	if err != nil {
		b.t.Fatal(err)
	}
	s, id := session.New(userID, "Firefox", b.now())
	s.Username, s.Role, s.Device = "anna", "member", b.device
	if err := b.store.Create(b.t.Context(), s, fence, b.lifetime); err != nil {
		b.t.Fatal(err)
	}
	if err := b.do(func(w http.ResponseWriter, _ *http.Request) error { _, err := b.manager.Start(w, s, id); return err }); err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *browser) current() (session.Session, error) { return load(b.manager, b.request()) }

// load returns the session of a request.
func load(m *session.Manager, r *http.Request) (session.Session, error) {
	current, err := m.Load(r)
	if err != nil {
		return session.Session{}, err
	}
	return current.Session, nil
}

func (b *browser) anonymous() {
	b.t.Helper()
	if s, err := b.current(); !errors.Is(err, session.ErrNotFound) {
		b.t.Fatalf("got %+v, %v, want an anonymous request", s, err)
	}
}

func (b *browser) loggedIn(want session.Session) {
	b.t.Helper()
	got, err := b.current()
	if err != nil {
		b.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Fatalf("session (-want +got):\n%s", diff)
	}
}

// with makes a request that does something with its session.
func (b *browser) with(handle func(w http.ResponseWriter, c *session.Current) error) error {
	return b.do(func(w http.ResponseWriter, r *http.Request) error {
		c, err := b.manager.Load(r)
		if err != nil {
			return err
		}
		return handle(w, c)
	})
}

func (b *browser) resend() error { return b.with(b.manager.Resend) }

func (b *browser) resendStale() error { return b.with(b.manager.ResendStale) }

func (b *browser) clear() error {
	return b.with(func(w http.ResponseWriter, c *session.Current) error {
		b.manager.Clear(w, c)
		return b.manager.ResendStale(w, c) // which must not send them after all
	})
}

// spy is a store that counts and can fail.
type spy struct {
	session.Store
	loads int
	err   error
}

func (s *spy) Load(ctx context.Context, ref session.Ref, lifetimes session.Lifetimes) (session.Session, error) {
	s.loads++
	if s.err != nil {
		return session.Session{}, s.err
	}
	return s.Store.Load(ctx, ref, lifetimes)
}

func newSpy(t testing.TB) (*spy, *clock) {
	t.Helper()
	store, c := openStore(t)
	return &spy{Store: store}, c
}
