package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/gorilla/securecookie"
	"github.com/gorilla/sessions"
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
// beside it the CSRF cookie. It loads the session of a request once, and none for a
// request without a cookie of ours; it creates and ends none.
//
// It is a gorilla sessions.Store: gorilla keeps what was loaded with the request, so
// that guard and handler share it; securecookie signs.
type Manager struct {
	name    string
	store   Store
	codecs  []securecookie.Codec
	options sessions.Options
	now     func() time.Time
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
	// The codecs' age check is off: it would refuse the cookie of a session that the
	// store keeps alive, and it cannot use our clock.
	codecs := []securecookie.Codec{}
	for _, secret := range []string{o.Secret, o.PreviousSecret} {
		if secret != "" {
			codecs = append(codecs, securecookie.New([]byte(secret), nil).MaxAge(0).SetSerializer(securecookie.NopEncoder{}))
		}
	}
	return &Manager{
		name: o.Name + ".sid", store: o.Store, codecs: codecs, now: o.Now,
		options: sessions.Options{
			Path: "/", MaxAge: int(Lifetime.Seconds()), Secure: o.Secure, HttpOnly: true, SameSite: o.SameSite,
		},
	}, nil
}

type unrenewed struct{}

// WithoutRenewal returns a context for requests that do not renew their session.
func WithoutRenewal(ctx context.Context) context.Context {
	return context.WithValue(ctx, unrenewed{}, true)
}

// renewal returns the lifetime for a session that a request loads; zero: unchanged.
func renewal(ctx context.Context) time.Duration {
	if ctx.Value(unrenewed{}) != nil {
		return 0
	}
	return Lifetime
}

// Current returns the session of the request and renews it, unless the context is
// from WithoutRenewal. ErrNotFound: the request is anonymous. Any other error: the
// store failed, and whether there is a session is unknown.
func (m *Manager) Current(r *http.Request) (Session, error) {
	gs, err := m.Get(r, m.name)
	if err != nil {
		return Session{}, err
	}
	s, ok := gs.Values[sessionValue].(Session)
	if !ok {
		return Session{}, ErrNotFound
	}
	return s, nil
}

// Start sets both cookies of a session that was just created. The request's session is
// this one from now on.
func (m *Manager) Start(w http.ResponseWriter, r *http.Request, s Session, id string) error {
	gs, err := m.Get(r, m.name)
	if err != nil {
		return err
	}
	gs.Values[sessionValue], gs.Values[tokenValue] = s, token{userID: s.UserID, id: id}
	return gs.Save(r, w)
}

// Resend sets both cookies of the request's session again, with a whole lifetime.
// s is that session, as Current returned it or with a CSRF token that was added.
func (m *Manager) Resend(w http.ResponseWriter, r *http.Request, s Session) error {
	gs, err := m.Get(r, m.name)
	if err != nil {
		return err
	}
	gs.Values[sessionValue] = s
	return gs.Save(r, w)
}

// ResendStale sets both cookies again when the request's was signed at least 12 hours
// ago. Without a session, or with a context from WithoutRenewal, it does nothing.
func (m *Manager) ResendStale(w http.ResponseWriter, r *http.Request) error {
	gs, err := m.Get(r, m.name)
	if err != nil {
		return err
	}
	t, ok := gs.Values[tokenValue].(token)
	if !ok || renewal(r.Context()) == 0 || m.now().Sub(t.signedAt) < staleAfter {
		return nil
	}
	return gs.Save(r, w)
}

// Clear removes both cookies. The request is anonymous from now on.
func (m *Manager) Clear(w http.ResponseWriter, r *http.Request) error {
	gs, err := m.Get(r, m.name)
	if err != nil {
		return err
	}
	clear(gs.Values)
	gone := m.options
	gone.MaxAge = -1
	http.SetCookie(w, sessions.NewCookie(m.name, "", &gone))
	gone.HttpOnly = false
	http.SetCookie(w, sessions.NewCookie(CSRFCookie, "", &gone))
	return nil
}

// The values of a gorilla session.
type valueKey int

const (
	sessionValue valueKey = iota // Session
	tokenValue                   // token
)

// Get implements sessions.Store.
func (m *Manager) Get(r *http.Request, name string) (*sessions.Session, error) {
	return sessions.GetRegistry(r).Get(m, name)
}

// New implements sessions.Store. It loads and renews the session of the request's
// first cookie that has a live one, and otherwise returns an empty session: an
// unsigned cookie or an ended session is not an error.
func (m *Manager) New(r *http.Request, name string) (*sessions.Session, error) {
	gs := sessions.NewSession(m, name)
	for _, t := range m.tokens(r, name) {
		s, err := m.store.Load(r.Context(), t.ref(), renewal(r.Context()))
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return gs, fmt.Errorf("load session: %w", err)
		}
		gs.Values[sessionValue], gs.Values[tokenValue] = s, t
		break
	}
	return gs, nil
}

// Save implements sessions.Store: it signs the session cookie and sets both cookies. It
// neither stores nor ends the session; account does.
func (m *Manager) Save(_ *http.Request, w http.ResponseWriter, gs *sessions.Session) error {
	s, _ := gs.Values[sessionValue].(Session)
	t, ok := gs.Values[tokenValue].(token)
	if !ok {
		return nil // an anonymous request gets no cookie
	}
	t.signedAt = m.now()
	cookie, err := m.codecs[0].Encode(m.name, []byte(t.String()))
	if err != nil {
		return fmt.Errorf("sign session cookie: %w", err)
	}
	gs.Values[tokenValue] = t
	options := m.options
	http.SetCookie(w, m.cookie(m.name, cookie, &options))
	if s.CSRFToken != "" {
		options.HttpOnly = false
		http.SetCookie(w, m.cookie(CSRFCookie, s.CSRFToken, &options))
	}
	return nil
}

// cookie returns gorilla's cookie with the expiry by our clock.
func (m *Manager) cookie(name, value string, options *sessions.Options) *http.Cookie {
	cookie := sessions.NewCookie(name, value, options) //nolint:gosec // the attributes are in the options
	cookie.Expires = m.now().Add(Lifetime)
	return cookie
}

// tokens returns the tokens of the session cookies with our signature, in the order of
// the request, each session once.
func (m *Manager) tokens(r *http.Request, name string) (tokens []token) {
	cookies := r.CookiesNamed(name)
	for _, cookie := range cookies[:min(len(cookies), maxCookies)] {
		t, ok := m.verify(name, cookie.Value)
		if !ok || slices.ContainsFunc(tokens, func(other token) bool { return other.id == t.id && other.userID == t.userID }) {
			continue
		}
		if tokens = append(tokens, t); len(tokens) == maxLoads {
			break
		}
	}
	return tokens
}

// verify returns the token of a cookie signed with one of our secrets.
func (m *Manager) verify(name, cookie string) (token, bool) {
	for _, codec := range m.codecs {
		var value []byte
		if err := codec.Decode(name, cookie, &value); err != nil {
			continue
		}
		t, err := parseToken(string(value))
		return t, err == nil
	}
	return token{}, false
}
