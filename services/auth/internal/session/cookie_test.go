package session_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
)

func TestCookie_WithoutOurSignatureIsAnonymous(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	b.login(42)
	good := b.cookies["svc.sid"]
	sign := func(name, secret, payload string) string { return signedAt(name, secret, payload, 1_770_000_000) }
	id := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	const secret = "a secret of some length for tests"
	flipped := []byte(good)
	flipped[len(flipped)/2] ^= 1
	for name, cookie := range map[string]string{
		"empty":                  "",
		"garbage":                "garbage",
		"cut":                    good[:len(good)-1],
		"lengthened":             good + "A",
		"one bit changed":        string(flipped),
		"quoted":                 `"` + good + `"x`,
		"huge":                   strings.Repeat("A", 5000),
		"of express-session":     "s%3A" + strings.Repeat("x", 32) + "." + strings.Repeat("y", 43),
		"another secret":         sign("svc.sid", "another secret", "42."+id+".1770000000"),
		"another cookie's":       sign("csrf-token", secret, "42."+id+".1770000000"),
		"a session never made":   sign("svc.sid", secret, "42."+id+".1770000000"),
		"signed, no user":        sign("svc.sid", secret, "0."+id+".1770000000"),
		"signed, negative user":  sign("svc.sid", secret, "-1."+id+".1770000000"),
		"signed, short id":       sign("svc.sid", secret, "42.AAAA.1770000000"),
		"signed, no time":        sign("svc.sid", secret, "42."+id),
		"signed, too many parts": sign("svc.sid", secret, "42."+id+".1.1"),
		"signed, plus":           sign("svc.sid", secret, "+42."+id+".1770000000"),
		"signed, empty":          sign("svc.sid", secret, ""),
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			b.cookies["svc.sid"] = cookie
			b.anonymous()
		})
	}
	b.t, b.cookies["svc.sid"] = t, good
	if _, err := b.current(); err != nil {
		t.Errorf("the good cookie: %v", err)
	}
}

// signedAt makes a cookie as securecookie does, at any time: base64url of
// "time|payload|mac", the payload in base64url, the mac over the name as well.
func signedAt(name, secret, payload string, at int64) string {
	text := strconv.FormatInt(at, 10) + "|" + base64.URLEncoding.EncodeToString([]byte(payload))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(name + "|" + text))
	return base64.URLEncoding.EncodeToString([]byte(text + "|" + string(mac.Sum(nil))))
}

func TestCookie_IsAcceptedWhileItsSessionLives(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now, Secret: "secret"})
	id := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	key := sha256.Sum256([]byte(id))
	fence, err := store.Fence(t.Context(), 42)
	if err != nil {
		t.Fatal(err)
	}
	s := session.Session{Ref: session.Ref{UserID: 42, Key: hex.EncodeToString(key[:])}, Role: "member", Login: hex.EncodeToString(key[:]), Factor: session.Password, CreatedAt: time.Unix(0, 0).UTC()}
	if err := store.Create(t.Context(), s, fence, session.NewLifetimes(0, 0)); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{1, time.Now().Add(-8 * 24 * time.Hour).Unix(), time.Now().Add(time.Hour).Unix()} {
		b.cookies["svc.sid"] = signedAt("svc.sid", "secret", "42."+id+".1", at)
		b.loggedIn(s)
	}
}

func TestCookie_OneOfSeveralIsFound(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	s := b.login(42)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Cookie", "svc.sid=planted; other=1; svc.sid="+b.cookies["svc.sid"])
	if got, err := load(b.manager, r); err != nil || got.Key != s.Key {
		t.Errorf("got %+v, %v", got, err)
	}
	r = httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Cookie", strings.Repeat("svc.sid=planted; ", 100)+"svc.sid="+b.cookies["svc.sid"])
	if got, err := load(b.manager, r); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("after a hundred others: got %+v, %v", got, err)
	}
}

func TestCookie_SecretsRotate(t *testing.T) {
	store, c := newSpy(t)
	old := newBrowser(t, session.Options{Store: store, Now: c.now, Secret: "old"})
	s := old.login(42)
	manager := func(secret, previous string) *browser {
		b := newBrowser(t, session.Options{Store: store, Now: c.now, Secret: secret, PreviousSecret: previous})
		b.cookies = old.cookies
		return b
	}
	manager("old", "").loggedIn(s) // a restart
	manager("new", "").anonymous()
	rotating := manager("new", "old")
	rotating.loggedIn(s)
	if err := rotating.resend(); err != nil {
		t.Fatal(err)
	}
	manager("new", "").loggedIn(s) // signed anew with the new one
	manager("old", "").anonymous()
}

func TestCookie_AppsOnOneHostDoNotMix(t *testing.T) {
	store, c := newSpy(t)
	one := newBrowser(t, session.Options{Store: store, Now: c.now, Name: "one"})
	one.login(42)
	two := newBrowser(t, session.Options{Store: store, Now: c.now, Name: "two"})
	two.cookies["two.sid"] = one.cookies["one.sid"]
	two.anonymous()
}

func TestUserAgent_ThatIsLongIsShortened(t *testing.T) {
	s, _ := session.New(42, "x"+strings.Repeat("ü", 1000), time.Now())
	if s.UserAgent != "x"+strings.Repeat("ü", 99) {
		t.Errorf("got %q", s.UserAgent)
	}
}

func TestOptions_AreChecked(t *testing.T) {
	store, _ := openStore(t)
	good := session.Options{Store: store, Name: "svc", Secret: "secret", Now: time.Now}
	if _, err := session.NewManager(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*session.Options){
		"no store":            func(o *session.Options) { o.Store = nil },
		"no clock":            func(o *session.Options) { o.Now = nil },
		"a negative lifetime": func(o *session.Options) { o.Lifetimes.Any = -1 },
		"no secret":           func(o *session.Options) { o.Secret = "" },
		"no name":             func(o *session.Options) { o.Name = "" },
		"a name with a space": func(o *session.Options) { o.Name = "my app" },
		"a name with a brace": func(o *session.Options) { o.Name = "a{b}" },
		"a name with a star":  func(o *session.Options) { o.Name = "a*" },
		"a long name":         func(o *session.Options) { o.Name = strings.Repeat("x", 33) },
	} {
		o := good
		spoil(&o)
		if _, err := session.NewManager(o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func FuzzCookieHeader(f *testing.F) {
	store, _ := openStore(f)
	manager, err := session.NewManager(session.Options{Store: store, Name: "svc", Secret: "secret", Now: time.Now})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"svc.sid=x", "svc.sid=", "svc.sid=MTc3MHw0Mi4=|", `svc.sid="a"; svc.sid=b`, "=", ";;;", "svc.sid=\x00\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header["Cookie"] = []string{header}
		if s, err := load(manager, r); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("got %+v, %v", s, err)
		}
	})
}

// TestCookie_OfAnotherHostDoesNotHideOurs sends cookies that a neighbouring host could
// have set before the right one.
func TestCookie_OfAnotherHostDoesNotHideOurs(t *testing.T) {
	store, c := newSpy(t)
	b := newBrowser(t, session.Options{Store: store, Now: c.now})
	b.login(43)
	other := b.cookies["svc.sid"]
	b.cookies = map[string]string{}
	b.login(42)
	right := b.cookies["svc.sid"]
	dead := func(i int) string {
		id := base64.RawURLEncoding.EncodeToString(append(make([]byte, 31), byte(i)))
		return signedAt("svc.sid", "a secret of some length for tests", "43."+id+".1770000000", 1_770_000_000)
	}
	junk := func(n int) (cookies []string) {
		for i := range n {
			cookies = append(cookies, "junk"+strconv.Itoa(i))
		}
		return cookies
	}
	for name, c := range map[string]struct {
		before []string
		want   int64
	}{
		"as many as we look at":                {junk(31), 42},
		"more":                                 {junk(32), 0},
		"two that are ours and dead":           {[]string{dead(1), dead(2)}, 42},
		"the same dead one many times":         {[]string{dead(1), dead(1), dead(1), dead(1), dead(2)}, 42},
		"more dead ones than we look up":       {[]string{dead(1), dead(2), dead(3)}, 0},
		"a live one, which is as good as ours": {[]string{other}, 43},
		"junk, a dead one and then a live one": {append(junk(20), dead(1), other), 43},
	} {
		r := b.request()
		r.Header.Del("Cookie")
		for _, value := range append(c.before, right) {
			r.Header.Add("Cookie", "svc.sid="+value)
		}
		s, err := load(b.manager, r)
		if c.want == 0 && !errors.Is(err, session.ErrNotFound) || s.UserID != c.want {
			t.Errorf("%s: got user %d, %v, want %d", name, s.UserID, err, c.want)
		}
	}
}
