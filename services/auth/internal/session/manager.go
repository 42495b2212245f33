package session

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/securecookie"
)

// CSRFCookie is the name of the cookie that scripts read the CSRF token from.
const CSRFCookie = "csrf-token"

// staleAfter is the age from which ResendStale sends the cookies again: a browser
// drops a cookie 7 days after it was sent, the store a session 7 days after its use.
const staleAfter = 12 * time.Hour

// A host of the same domain can set cookies of the session's name too, which the
// browser may send first.
const (
	maxCookies = 32 // read of a request
	maxLoads   = 3  // of those with our signature, loaded until one is live
)

var namePattern = regexp.MustCompile(`\A[A-Za-z0-9_-]{1,32}\z`)

// Options configure a Manager.
type Options struct {
	Store Store
	// Name of the application, 1 to 32 letters, digits, hyphens and underscores.
	// The session cookie is "<Name>.sid".
	Name string
	// Secret signs session cookies. PreviousSecret may be empty; it verifies those
	// signed before the secret was changed.
	Secret, PreviousSecret string
	// Secure sets that attribute on both cookies, which limits them to https.
	Secure bool
	// SameSite of both cookies; zero is http.SameSiteLaxMode.
	SameSite http.SameSite
	Now      func() time.Time
}

// Manager reads and writes the cookies of sessions: the session cookie, signed, and
// beside it the CSRF cookie. It loads sessions, and creates and ends none.
type Manager struct {
	options Options
	name    string // of the session cookie
	codecs  []securecookie.Codec
}

// NewManager checks the options and returns a Manager.
func NewManager(o Options) (*Manager, error) {
	if o.Store == nil || o.Now == nil {
		return nil, errors.New("session manager: Store or Now is not set")
	}
	if !namePattern.MatchString(o.Name) {
		return nil, errors.New("session manager: name is not 1 to 32 letters, digits, hyphens or underscores")
	}
	if o.Secret == "" {
		return nil, errors.New("session manager: secret is empty")
	}
	if o.SameSite == 0 {
		o.SameSite = http.SameSiteLaxMode
	}
	m := &Manager{options: o, name: o.Name + ".sid"}
	for _, secret := range []string{o.Secret, o.PreviousSecret} {
		if secret != "" {
			// The codec's age check is off: it would refuse the cookie of a session that
			// the store keeps alive, and it cannot use our clock.
			m.codecs = append(m.codecs, securecookie.New([]byte(secret), nil).MaxAge(0).SetSerializer(securecookie.NopEncoder{}))
		}
	}
	return m, nil
}

type unrenewed struct{}

// WithoutRenewal returns a context for requests that do not renew their session.
func WithoutRenewal(ctx context.Context) context.Context {
	return context.WithValue(ctx, unrenewed{}, true)
}

// Current is the session of a request and the cookie that it came in.
type Current struct {
	Session
	token token
	stale bool // the cookies are to be sent again
}

// Load returns the session of the request's first cookie that has a live one, and
// renews it, unless the context is from WithoutRenewal. ErrNotFound: the request is
// anonymous. Any other error: the store failed, and whether there is a session is
// unknown.
func (m *Manager) Load(r *http.Request) (*Current, error) {
	lifetime := Lifetime
	if r.Context().Value(unrenewed{}) != nil {
		lifetime = 0
	}
	for _, t := range m.tokens(r) {
		s, err := m.options.Store.Load(r.Context(), t.ref(), lifetime)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("load session: %w", err)
		}
		return &Current{Session: s, token: t, stale: lifetime > 0 && m.options.Now().Sub(t.signedAt) >= staleAfter}, nil
	}
	return nil, ErrNotFound
}

// Start sets both cookies of a session that was just created.
func (m *Manager) Start(w http.ResponseWriter, s Session, id string) error {
	return m.Resend(w, &Current{Session: s, token: token{userID: s.UserID, id: id}})
}

// Resend sets both cookies of a session again, with a whole lifetime.
func (m *Manager) Resend(w http.ResponseWriter, c *Current) error {
	c.token.signedAt = m.options.Now()
	signed, err := securecookie.EncodeMulti(m.name, []byte(c.token.String()), m.codecs[0])
	if err != nil {
		return fmt.Errorf("sign session cookie: %w", err)
	}
	c.stale = false
	expires := c.token.signedAt.Add(Lifetime)
	m.setCookie(w, m.name, signed, int(Lifetime.Seconds()), expires)
	if c.CSRFToken != "" {
		m.setCookie(w, CSRFCookie, c.CSRFToken, int(Lifetime.Seconds()), expires)
	}
	return nil
}

// ResendStale is Resend when the request's cookie was signed at least 12 hours ago.
// After Resend or Clear, and for a request that does not renew its session, it does
// nothing.
func (m *Manager) ResendStale(w http.ResponseWriter, c *Current) error {
	if !c.stale {
		return nil
	}
	return m.Resend(w, c)
}

// Clear removes both cookies of a session that has ended.
func (m *Manager) Clear(w http.ResponseWriter, c *Current) {
	c.stale = false
	for _, name := range []string{m.name, CSRFCookie} {
		m.setCookie(w, name, "", -1, time.Unix(1, 0))
	}
}

func (m *Manager) setCookie(w http.ResponseWriter, name, value string, maxAge int, expires time.Time) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure is a setting, and scripts read the CSRF cookie
		Name: name, Value: value, Path: "/", MaxAge: maxAge, Expires: expires,
		HttpOnly: name != CSRFCookie, Secure: m.options.Secure, SameSite: m.options.SameSite,
	})
}

// tokens returns the tokens of the session cookies with our signature, in the order of
// the request, each session once.
func (m *Manager) tokens(r *http.Request) (tokens []token) {
	cookies := r.CookiesNamed(m.name)
	for _, cookie := range cookies[:min(len(cookies), maxCookies)] {
		var signed []byte
		if securecookie.DecodeMulti(m.name, cookie.Value, &signed, m.codecs...) != nil {
			continue
		}
		t, ok := parseToken(string(signed))
		if !ok || slices.ContainsFunc(tokens, func(other token) bool { return other.id == t.id && other.userID == t.userID }) {
			continue
		}
		if tokens = append(tokens, t); len(tokens) == maxLoads {
			break
		}
	}
	return tokens
}

// token is the content of the session cookie before it is signed: the user, the
// session's id, and when the cookie was signed. It names the user because a store
// keeps a user's sessions together.
type token struct {
	userID   int64
	id       string
	signedAt time.Time
}

func (t token) ref() Ref { return Ref{UserID: t.userID, Key: keyOf(t.id)} }

// String is "<user id>.<session id>.<unix seconds>".
func (t token) String() string {
	return strconv.FormatInt(t.userID, 10) + "." + t.id + "." + strconv.FormatInt(t.signedAt.Unix(), 10)
}

// parseToken is the inverse of String and accepts nothing else.
func parseToken(text string) (token, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return token{}, false
	}
	userID, userErr := strconv.ParseInt(parts[0], 10, 64)
	id, idErr := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	signedAt, timeErr := strconv.ParseInt(parts[2], 10, 64)
	t := token{userID: userID, id: parts[1], signedAt: time.Unix(signedAt, 0)}
	valid := userErr == nil && userID > 0 && idErr == nil && len(id) == idBytes && timeErr == nil
	return t, valid && t.String() == text
}
