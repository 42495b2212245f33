package session

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"time"

	"github.com/gorilla/sessions"
)

// CSRFCookie is the name of the cookie that scripts read the CSRF token from.
const CSRFCookie = "csrf-token"

// staleAfter is the age from which ResendStale sends the cookies again: a browser
// drops a cookie 7 days after it was sent, the store a session 7 days after its use.
const staleAfter = 12 * time.Hour

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

// Manager reads and writes the cookies of sessions: the session cookie, signed,
// and beside it the CSRF cookie. It loads the session of a request once, and
// none for a request without a cookie of ours; it creates and ends none.
type Manager struct {
	name    string
	cookies *cookieStore
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
	return &Manager{name: o.Name + ".sid", cookies: &cookieStore{
		store: o.Store, codecs: newCodecs(o.Secret, o.PreviousSecret), now: o.Now,
		options: sessions.Options{
			Path: "/", MaxAge: int(Lifetime.Seconds()), Secure: o.Secure, HttpOnly: true, SameSite: o.SameSite,
		},
	}}, nil
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
	gs, err := m.cookies.Get(r, m.name)
	if err != nil {
		return Session{}, err
	}
	return current(gs)
}

func current(gs *sessions.Session) (Session, error) {
	s, ok := gs.Values[sessionValue].(Session)
	if !ok {
		return Session{}, ErrNotFound
	}
	return s, nil
}

// Start sets both cookies of a session that was just created. The request's
// session is this one from now on.
func (m *Manager) Start(w http.ResponseWriter, r *http.Request, s Session, id string) error {
	gs, err := m.cookies.Get(r, m.name)
	if err != nil {
		return err
	}
	gs.IsNew, gs.Values[sessionValue], gs.Values[tokenValue] = false, s, token{userID: s.UserID, id: id}
	return m.send(w, r, gs, s)
}

// Resend sets both cookies of the request's session again, with a whole lifetime.
// s is that session, as Current returned it or with a CSRF token that was added.
func (m *Manager) Resend(w http.ResponseWriter, r *http.Request, s Session) error {
	gs, err := m.cookies.Get(r, m.name)
	if err != nil {
		return err
	}
	gs.Values[sessionValue] = s
	return m.send(w, r, gs, s)
}

// ResendStale sets both cookies again when the request's was signed at least 12 hours
// ago. Without a session, or with a context from WithoutRenewal, it does nothing.
func (m *Manager) ResendStale(w http.ResponseWriter, r *http.Request) error {
	if renewal(r.Context()) == 0 {
		return nil
	}
	gs, err := m.cookies.Get(r, m.name)
	if err != nil {
		return err
	}
	s, err := current(gs)
	if err != nil {
		return nil //nolint:nilerr // anonymous: nothing to send
	}
	if t, ok := gs.Values[tokenValue].(token); ok && m.cookies.now().Sub(t.signedAt) < staleAfter {
		return nil
	}
	return m.send(w, r, gs, s)
}

// Clear removes both cookies. The request is anonymous from now on.
func (m *Manager) Clear(w http.ResponseWriter, r *http.Request) error {
	gs, err := m.cookies.Get(r, m.name)
	if err != nil {
		return err
	}
	clear(gs.Values)
	gone := *gs.Options
	gone.MaxAge = -1
	http.SetCookie(w, sessions.NewCookie(m.name, "", &gone))
	gone.HttpOnly = false
	http.SetCookie(w, sessions.NewCookie(CSRFCookie, "", &gone))
	return nil
}

// send sets both cookies.
func (m *Manager) send(w http.ResponseWriter, r *http.Request, gs *sessions.Session, s Session) error {
	if err := gs.Save(r, w); err != nil {
		return err
	}
	if s.CSRFToken == "" {
		return nil
	}
	csrf := *gs.Options
	csrf.HttpOnly = false
	http.SetCookie(w, m.cookies.cookie(CSRFCookie, s.CSRFToken, &csrf))
	return nil
}
