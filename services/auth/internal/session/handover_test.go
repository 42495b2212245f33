package session_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// enter opens a host with a session and takes its cookie.
func (b *browser) enter(s session.Session, host string) {
	b.t.Helper()
	secret, hash := session.NewSecret()
	if err := b.store.(session.HandOvers).OpenHost(b.t.Context(), s.Ref, host, hash); err != nil {
		b.t.Fatal(err)
	}
	if err := b.do(func(w http.ResponseWriter, _ *http.Request) error {
		return b.manager.StartApp(w, s.Ref, s.Device, secret)
	}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) at(host string) (*session.Current, error) {
	return b.manager.AppSession(b.request(), host)
}

func (b *browser) closed(host string) {
	b.t.Helper()
	if _, err := b.at(host); !errors.Is(err, session.ErrNotFound) {
		b.t.Fatalf("%s: got %v", host, err)
	}
}

// newHosts returns a browser on a store that keeps hand-overs.
func newHosts(t *testing.T) (*browser, *clock) {
	t.Helper()
	store, c := openStore(t)
	return newBrowser(t, session.Options{Store: store, Now: c.now, Secure: true}), c
}

func TestHandover_AHostFindsItsSession(t *testing.T) {
	b, _ := newHosts(t)
	s := b.login(42)
	portal := b.cookies["svc.sid"]
	b.enter(s, "photos.example")
	want := []string{"svc.app=" + b.cookies["svc.app"] + "; Path=/; Expires=Sun, 08 Mar 2026 12:00:00 GMT; Max-Age=604800; HttpOnly; Secure; SameSite=Lax"}
	if diff := cmp.Diff(want, b.sent); diff != "" {
		t.Errorf("cookie (-want +got):\n%s", diff)
	}
	got, err := b.at("photos.example")
	if err != nil || !cmp.Equal(got.Session, s) {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, other := range []string{"music.example", "photos.example:8443", "", "evil.example"} {
		b.closed(other)
	}
	if err := b.store.Delete(t.Context(), s.Ref); err != nil {
		t.Fatal(err)
	}
	b.closed("photos.example")
	if strings.Contains(b.cookies["svc.app"], portal) {
		t.Error("the cookie of the application's host contains the portal's")
	}
}

func TestHandover_CookiesOfPortalAndHostsDiffer(t *testing.T) {
	b, _ := newHosts(t)
	s := b.login(42)
	b.enter(s, "photos.example")
	sid, app := b.cookies["svc.sid"], b.cookies["svc.app"]
	p, id := session.NewPending(42, "", time.Now())
	if err := b.do(func(w http.ResponseWriter, _ *http.Request) error { return b.manager.StartPending(w, p, id) }); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"the portal's": sid, "a pending login's": b.cookies["svc.2fa"]} {
		b.cookies = map[string]string{"svc.app": value}
		if _, err := b.at("photos.example"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("%s cookie on an application's host: %v", name, err)
		}
	}
	b.cookies = map[string]string{"svc.sid": app, "svc.2fa": app}
	b.anonymous()
	if _, err := b.manager.LoadPending(b.request()); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("the application's cookie is a pending login: %v", err)
	}
}

func TestHandover_AHostsCookieNeedsOurSignature(t *testing.T) {
	b, _ := newHosts(t)
	s := b.login(42)
	b.enter(s, "photos.example")
	good := b.cookies["svc.app"]
	random := strings.Repeat("A", 43)
	for name, cookie := range map[string]string{
		"empty": "", "cut": good[:len(good)-1], "another secret": signedAt("svc.app", "another secret", "42."+s.Key+"."+random+".1770000000", 1),
		"a wrong host secret": signedAt("svc.app", "a secret of some length for tests", "42."+s.Key+"."+random+".1770000000", 1),
		"no host secret":      signedAt("svc.app", "a secret of some length for tests", "42."+s.Key+"..1770000000", 1),
		"another user":        signedAt("svc.app", "a secret of some length for tests", "43."+s.Key+"."+random+".1770000000", 1),
	} {
		b.cookies["svc.app"] = cookie
		if _, err := b.at("photos.example"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHandover_APlantedCookieDoesNotHideTheHosts(t *testing.T) {
	b, _ := newHosts(t)
	s := b.login(42)
	b.enter(s, "music.example")
	sibling := b.cookies["svc.app"] // of the same session, for another host
	b.enter(s, "photos.example")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Cookie", "svc.app=planted; svc.app="+sibling+"; svc.app="+b.cookies["svc.app"])
	if got, err := b.manager.AppSession(r, "photos.example"); err != nil || got.Key != s.Key {
		t.Errorf("got %v", err)
	}
	r.Header.Set("Cookie", "svc.app="+sibling)
	if _, err := b.manager.AppSession(r, "photos.example"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("the sibling's cookie alone: %v", err)
	}
}

func TestHandover_AHostsOwnCookieAloneIsSentAgain(t *testing.T) {
	b, c := newHosts(t)
	b.enter(b.login(42), "photos.example")
	use := func(r *http.Request) {
		t.Helper()
		if err := b.do(func(w http.ResponseWriter, _ *http.Request) error {
			current, err := b.manager.AppSession(r, "photos.example")
			if err != nil {
				return err
			}
			return errors.Join(b.manager.ResendStale(w, current), b.manager.ResendStale(w, current))
		}); err != nil {
			t.Fatal(err)
		}
	}
	c.advance(12*hour - time.Second)
	if use(b.request()); len(b.sent) != 0 {
		t.Errorf("early: %q", b.sent)
	}
	c.advance(time.Second)
	r := b.request()
	if use(r.WithContext(session.WithoutRenewal(r.Context()))); len(b.sent) != 0 {
		t.Errorf("of a request that does not renew: %q", b.sent)
	}
	if use(b.request()); len(b.sent) != 1 || !strings.HasPrefix(b.sent[0], "svc.app=") || !strings.Contains(b.sent[0], "Max-Age=604800") {
		t.Errorf("after 12 hours: %q", b.sent)
	}
	if use(b.request()); len(b.sent) != 0 {
		t.Errorf("sent again although it is new: %q", b.sent)
	}
}

func TestHandover_UseOfAHostKeepsThePortalsSession(t *testing.T) {
	b, c := newHosts(t)
	s := b.login(42)
	b.enter(s, "photos.example")
	for range 8 {
		c.advance(24 * hour)
		if _, err := b.at("photos.example"); err != nil {
			t.Fatal(err)
		}
	}
	b.loggedIn(s)
}

func TestHandover_AFailingStoreIsNoClosedHost(t *testing.T) {
	b, c := newHosts(t)
	b.enter(b.login(42), "photos.example")
	c.server.SetError("LOADING")
	if _, err := b.at("photos.example"); err == nil || errors.Is(err, session.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// begin begins a hand-over and returns its state.
func (b *browser) begin() (state string, err error) {
	err = b.do(func(w http.ResponseWriter, r *http.Request) (err error) {
		state, err = b.manager.BeginHandOver(w, r)
		return err
	})
	return state, err
}

// finish finishes a hand-over, whose cookie the browser does not keep.
func (b *browser) finish() {
	_ = b.do(func(w http.ResponseWriter, r *http.Request) error {
		b.manager.CountHandOver(w, r)
		return nil
	})
}

func TestHandover_EndsInTheBrowserThatBeganIt(t *testing.T) {
	b, c := newHosts(t)
	other := newBrowser(t, session.Options{Store: b.store, Now: c.now})
	if b.manager.HasBegunAny(b.request()) {
		t.Error("begun without a cookie")
	}
	state, err := b.begin()
	if err != nil {
		t.Fatal(err)
	}
	if want := "svc.go=" + b.cookies["svc.go"] + "; Path=/; Expires=Sun, 01 Mar 2026 12:10:00 GMT; Max-Age=600; HttpOnly; Secure; SameSite=Lax"; b.sent[0] != want {
		t.Errorf("got %q", b.sent)
	}
	if at, ok := session.BegunAt(state); !ok || !at.Equal(c.now().Truncate(time.Second)) {
		t.Errorf("begun at %v, %v", at, ok)
	}
	value, _, _ := strings.Cut(b.cookies["svc.go"], ".")
	if strings.Contains(state, value) || len(state) != 43+1+10 {
		t.Errorf("the state is %q, of %q", state, value)
	}
	theirs, err := other.begin()
	if err != nil {
		t.Fatal(err)
	}
	if !b.manager.HasBegun(b.request(), state) || b.manager.HasBegun(b.request(), theirs) || !b.manager.HasBegunAny(b.request()) {
		t.Error("the browser is not the one that began")
	}
	for _, wrong := range []string{"", ".", state[:42], "." + state} {
		if b.manager.HasBegun(b.request(), wrong) {
			t.Errorf("%q counts", wrong)
		}
	}
	c.advance(time.Minute)
	again, err := b.begin() // in another tab
	if err != nil || again == state || !b.manager.HasBegun(b.request(), state) || !b.manager.HasBegun(b.request(), again) {
		t.Errorf("two tabs: %q, %q, %v", state, again, err)
	}
}

func TestHandover_ABrowserInCirclesIsStopped(t *testing.T) {
	b, c := newHosts(t)
	for i := range 20 { // tabs that wait
		if _, err := b.begin(); err != nil {
			t.Fatalf("tab %d: %v", i+1, err)
		}
	}
	for i := range 5 {
		if _, err := b.begin(); err != nil {
			t.Fatalf("hand-over %d: %v", i+1, err)
		}
		b.finish()
		c.advance(time.Second)
	}
	if _, err := b.begin(); !errors.Is(err, session.ErrLoop) || len(b.sent) != 0 {
		t.Errorf("got %v, %q", err, b.sent)
	}
	c.advance(31 * time.Second)
	if _, err := b.begin(); err != nil {
		t.Errorf("half a minute later: %v", err)
	}
	for range 30 { // now and then is no loop
		c.advance(7 * time.Second)
		if _, err := b.begin(); err != nil {
			t.Fatal(err)
		}
		b.finish()
	}
}

func TestHandover_ACookieThatBeganNoneIsIgnored(t *testing.T) {
	b, _ := newHosts(t)
	random := strings.Repeat("A", 43)
	for _, cookie := range []string{"", "x", random, random + ".1", random + ".0.1", random + ".01.1", random + ".-1.1", "x.1.1", random + ".1.1.1", strings.Repeat("A", 42) + ".1.1", random + ".1.x"} {
		b.cookies["svc.go"] = cookie
		if b.manager.HasBegunAny(b.request()) {
			t.Errorf("%q counts", cookie)
		}
	}
	b.cookies["svc.go"] = fmt.Sprintf("%s.%d.%d", random, 5, int64(1)<<40) // says it is from the future
	if state, err := b.begin(); err != nil || !b.manager.HasBegun(b.request(), state) {
		t.Errorf("got %v", err)
	}
}
