package session_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
)

const hour = time.Hour

func TestASessionEndsAfter7DaysWithoutActivity(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	s := b.login(42)
	c.advance(session.Lifetime - time.Second)
	b.loggedIn(s)
	c.advance(session.Lifetime)
	b.anonymous()
}

func TestASessionThatIsUsedLivesOnWhateverTheCookiesAge(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	s := b.login(42)
	for range 30 { // a client that ignores the cookies it is sent again
		c.advance(24 * hour)
		b.loggedIn(s)
	}
}

func TestCookiesAreSentAgainFrom12HoursOn(t *testing.T) {
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

func TestACookieThatIsSentAgainLastsAWholeLifetime(t *testing.T) {
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

func TestAnAnonymousRequestGetsNoCookie(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	if err := b.resendStale(); !errors.Is(err, session.ErrNotFound) || len(b.sent) > 0 {
		t.Errorf("resend stale: %v, cookies %q", err, b.sent)
	}
	if err := b.resend(); !errors.Is(err, session.ErrNotFound) || len(b.sent) > 0 {
		t.Errorf("resend: %v, cookies %q", err, b.sent)
	}
}

func TestTheStoreDoesNotLearnTheID(t *testing.T) {
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

func TestCSRFTokenIsComparedWhole(t *testing.T) {
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
