package session_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
)

const hour = time.Hour

func TestSession_EndsAfter7DaysWithoutActivity(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	s := b.login(42)
	c.advance(session.Lifetime - time.Second)
	b.loggedIn(s)
	c.advance(session.Lifetime)
	b.anonymous()
}

func TestSession_InUseLivesOnWhateverTheCookiesAge(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	s := b.login(42)
	for range 30 { // a client that ignores the cookies it is sent again
		c.advance(24 * hour)
		b.loggedIn(s)
	}
}

func TestDevice_CookiesLastAsTheSession(t *testing.T) {
	for d, want := range map[session.Device]string{
		session.AnyDevice: "; Path=/; Expires=Sun, 08 Mar 2026 12:00:00 GMT; Max-Age=604800; ",
		session.OwnDevice: "; Path=/; Expires=Tue, 31 Mar 2026 12:00:00 GMT; Max-Age=2592000; ", session.SharedDevice: "; Path=/; ",
	} {
		b, c := newHosts(t)
		b.device = d
		s := b.login(42)
		sent := func(names ...string) {
			t.Helper()
			for i, name := range names {
				if len(b.sent) != len(names) || !strings.HasPrefix(b.sent[i], name+"=") || strings.Contains(b.sent[i], "Max-Age") != (d != session.SharedDevice) {
					t.Errorf("%q: got %q", d, b.sent)
				}
			}
		}
		if !strings.HasPrefix(b.sent[0], "svc.sid="+b.cookies["svc.sid"]+want+"HttpOnly") || !strings.HasPrefix(b.sent[1], "csrf-token="+s.CSRFToken+want+"Secure") {
			t.Errorf("%q: got %q", d, b.sent)
		}
		b.enter(s, "photos.example")
		if !strings.HasPrefix(b.sent[0], "svc.app="+b.cookies["svc.app"]+want+"HttpOnly") {
			t.Errorf("%q: got %q", d, b.sent)
		}
		c.advance(11*hour + 30*time.Minute)
		b.loggedIn(s)
		c.advance(11*hour + 30*time.Minute) // they are sent again
		if err := b.resendStale(); err != nil {
			t.Fatal(err)
		}
		sent("svc.sid", "csrf-token")
		if err := b.do(func(w http.ResponseWriter, r *http.Request) error {
			current, err := b.manager.AppSession(r, "photos.example")
			if err != nil {
				return err
			}
			return b.manager.ResendStale(w, current)
		}); err != nil {
			t.Fatal(err)
		}
		sent("svc.app")
		c.advance(b.lifetime.Of(d) - time.Second)
		b.loggedIn(s)
		c.advance(b.lifetime.Of(d))
		b.anonymous()
	}
}

// A request that the user did not cause, as a check of an open connection, does not keep the session alive.
func TestLoad_RenewsNothingWithoutRenewal(t *testing.T) {
	b, c := newHosts(t)
	s := b.login(42)
	b.enter(s, "photos.example")
	for range 6 {
		c.advance(24 * hour)
		r := b.request()
		r = r.WithContext(session.WithoutRenewal(r.Context()))
		if got, err := b.manager.Load(r); err != nil || got.Ref.Key != s.Ref.Key {
			t.Fatalf("%+v, %v", got, err)
		}
		if _, err := b.manager.AppSession(r, "photos.example"); err != nil {
			t.Fatal(err)
		}
	}
	c.advance(24 * hour)
	b.anonymous()
}

func TestCookie_IsSentAgainFrom12HoursOn(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	s := b.login(42)
	stale := func(want bool) {
		t.Helper()
		if err := b.resendStale(); err != nil || (len(b.sent) == 2) != want || (len(b.sent) == 0) == want {
			t.Fatalf("got %v, cookies %q", err, b.sent)
		}
	}
	c.advance(12*hour - time.Second)
	stale(false)
	c.advance(time.Second)
	stale(true)
	stale(false) // it is new now
	c.advance(11 * hour)
	if err := b.resend(); err != nil || len(b.sent) != 2 {
		t.Fatalf("got %v, cookies %q", err, b.sent)
	}
	c.advance(11 * hour)
	stale(false)
	b.loggedIn(s)
}

func TestCookie_SentAgainLastsAWholeLifetime(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	s := b.login(42)
	for _, after := range []time.Duration{time.Minute, hour, -2 * hour} { // the clock was ahead
		c.advance(after)
		before := b.cookies["svc.sid"]
		if err := b.resend(); err != nil || len(b.sent) != 2 {
			t.Fatalf("got %v, cookies %q", err, b.sent)
		}
		if b.cookies["svc.sid"] == before {
			t.Errorf("%v later the cookie still carries the time of the one before", after)
		}
		expires := c.now().Add(session.Lifetime).UTC().Format(http.TimeFormat)
		if !strings.Contains(b.sent[0], "Max-Age=604800") || !strings.Contains(b.sent[0], "Expires="+expires) {
			t.Errorf("sent is %s, want it to last until %s", b.sent[0], expires)
		}
		b.loggedIn(s)
	}
}

// lifetimes of SESSION_LIFETIME, and the age from which their cookies are sent again.
var lifetimes = map[time.Duration]time.Duration{
	hour: 15 * time.Minute, 8 * hour: 2 * hour, 48*hour - 4*time.Second: 12*hour - time.Second,
	48 * hour: 12 * hour, 168 * hour: 12 * hour, 9600 * hour: 12 * hour,
}

func TestLifetime_IsThatOfTheSetting(t *testing.T) {
	for lifetime := range lifetimes {
		store, c := newSpy(t)
		b := newBrowser(t, session.Options{Store: store, Now: c.now, Lifetimes: session.NewLifetimes(lifetime, 0)})
		s := b.login(42)
		want := fmt.Sprintf("; Path=/; Expires=%s; Max-Age=%d;", c.now().Add(lifetime).UTC().Format(http.TimeFormat), int(lifetime.Seconds()))
		if len(b.sent) != 2 || !strings.Contains(b.sent[0], want) || !strings.Contains(b.sent[1], want) {
			t.Errorf("%v: got %q, want %q", lifetime, b.sent, want)
		}
		for range 3 {
			c.advance(lifetime - time.Second)
			b.loggedIn(s)
		}
		c.advance(lifetime)
		b.anonymous()
	}
}

func TestLifetime_AQuarterOr12HoursRenewsTheCookies(t *testing.T) {
	for lifetime, again := range lifetimes {
		store, c := newSpy(t)
		b := newBrowser(t, session.Options{Store: store, Now: c.now, Lifetimes: session.NewLifetimes(lifetime, 0)})
		b.login(42)
		for range 3 {
			c.advance(again - time.Second)
			if err := b.resendStale(); err != nil || len(b.sent) != 0 {
				t.Fatalf("%v: after %v: got %v, cookies %q", lifetime, again-time.Second, err, b.sent)
			}
			c.advance(time.Second)
			if err := b.resendStale(); err != nil || len(b.sent) != 2 {
				t.Fatalf("%v: after %v: got %v, cookies %q", lifetime, again, err, b.sent)
			}
		}
	}
}

// TestLifetime_ReplicasThatDifferEndNoActiveSession has one replica serve all requests after
// another one sent the cookies, and then both in rotation. The user is active every half
// hour, and the browser drops a cookie when its time is up.
func TestLifetime_ReplicasThatDifferEndNoActiveSession(t *testing.T) {
	for _, lifetimes := range [][2]time.Duration{{hour, 168 * hour}, {168 * hour, hour}, {hour, 30 * hour}, {9600 * hour, 24 * hour}} {
		for name, serves := range map[string]func(i int) int{
			"the other": func(int) int { return 1 }, "in rotation": func(i int) int { return i % 2 },
		} {
			store, c := newSpy(t)
			var replicas [2]*browser
			for i, lifetime := range lifetimes {
				replicas[i] = newBrowser(t, session.Options{Store: store, Now: c.now, Lifetimes: session.NewLifetimes(lifetime, 0)})
			}
			s := replicas[0].login(42)
			cookies, expires := replicas[0].cookies, c.now().Add(lifetimes[0])
			for i := range 2 * 24 * 8 {
				c.advance(hour / 2)
				if !c.now().Before(expires) {
					t.Fatalf("%v, %s: the browser dropped the cookies after %d requests", lifetimes, name, i)
				}
				replica := replicas[serves(i)]
				replica.cookies = cookies
				replica.loggedIn(s)
				if err := replica.resendStale(); err != nil {
					t.Fatal(err)
				}
				if len(replica.sent) > 0 {
					expires = c.now().Add(replica.lifetime.Any)
				}
			}
			last := replicas[1]
			last.loggedIn(s)
			c.advance(last.lifetime.Any)
			last.anonymous()
		}
	}
}

func TestCookie_IsNotSentToAnAnonymousRequest(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	if err := b.resendStale(); !errors.Is(err, session.ErrNotFound) || len(b.sent) > 0 {
		t.Errorf("resend stale: %v, cookies %q", err, b.sent)
	}
	if err := b.resend(); !errors.Is(err, session.ErrNotFound) || len(b.sent) > 0 {
		t.Errorf("resend: %v, cookies %q", err, b.sent)
	}
}

func TestSession_StoreDoesNotLearnTheID(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	s := b.login(42)
	cookie, err := base64.URLEncoding.DecodeString(b.cookies["svc.sid"])
	if err != nil {
		t.Fatal(err)
	}
	payload, err := base64.URLEncoding.DecodeString(strings.Split(string(cookie), "|")[1])
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Split(string(payload), ".")[1]
	random, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(random) != 32 {
		t.Errorf("the id has %d bytes, %v", len(random), err)
	}
	if sum := sha256.Sum256([]byte(id)); s.Key != hex.EncodeToString(sum[:]) {
		t.Errorf("key %s is not the SHA-256 of the id", s.Key)
	}
}

func TestCSRF_TokenIsComparedWhole(t *testing.T) {
	s := session.Session{CSRFToken: strings.Repeat("ab", 32)}
	if !s.ValidCSRFToken(s.CSRFToken) {
		t.Error("the session's own token is refused")
	}
	for _, token := range []string{"", "ab", s.CSRFToken[1:], s.CSRFToken + "a", strings.ToUpper(s.CSRFToken), " " + s.CSRFToken} {
		if s.ValidCSRFToken(token) {
			t.Errorf("%q is accepted", token)
		}
	}
}
