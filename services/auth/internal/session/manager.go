package session

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/securecookie"
	"github.com/gorilla/sessions"

	"github.com/pforte/pforte/services/auth/internal/secrets"
)

// CSRFCookie is the name of the cookie that scripts read the CSRF token from.
const CSRFCookie = "csrf-token"

// staleAfter is the age from which ResendStale sends the cookies again, or a quarter of
// their lifetime if that is less: a browser drops a cookie a lifetime after it was sent,
// the store a session a lifetime after its use.
const staleAfter = 12 * time.Hour

// How many cookies are read. There may be several of the session's name, because a host of the same
// domain can set some too, which the browser may send first.
const (
	maxCookies = 32 // read of a request
	maxLoads   = 3  // of those, with our signature, loaded until one is live
)

var namePattern = regexp.MustCompile(`\A[A-Za-z0-9_-]{1,32}\z`)

// Options configure a Manager.
type Options struct {
	Store Store
	// Name of the application, 1 to 32 letters, digits, hyphens and underscores.
	// The session cookie is "<Name>.sid".
	Name string
	// Secret signs the cookies of sessions and of pending logins. PreviousSecret may be
	// empty; it verifies those signed before the secret was changed.
	Secret, PreviousSecret string
	// Secure sets that attribute on all cookies, which limits them to https.
	Secure bool
	// SameSite of the session cookie and the CSRF cookie; zero is http.SameSiteLaxMode.
	SameSite http.SameSite
	// Lifetimes of sessions and cookies without activity; zero are those of NewLifetimes(0, 0).
	Lifetimes Lifetimes
	Now       func() time.Time
}

// Manager reads and writes the cookies of this package: the session cookie, signed, beside
// it the CSRF cookie, and others. It loads sessions, and creates and ends none. It is a
// gorilla sessions.Store: New loads the session of a request, which gorilla keeps with
// the request, and Save sets its two cookies.
type Manager struct {
	store  Store
	now    func() time.Time
	name   string // of the session cookie
	codecs []securecookie.Codec

	app       string // Options.Name
	lifetimes Lifetimes
	// cookie has the attributes of the session cookie.
	cookie sessions.Options
}

var _ sessions.Store = (*Manager)(nil)

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
	if o.Lifetimes == (Lifetimes{}) {
		o.Lifetimes = NewLifetimes(0, 0)
	}
	if min(o.Lifetimes.Any, o.Lifetimes.Own, o.Lifetimes.Shared) <= 0 {
		return nil, errors.New("session manager: a lifetime is not positive")
	}
	m := &Manager{
		app: o.Name, store: o.Store, now: o.Now, name: o.Name + ".sid", lifetimes: o.Lifetimes,
		cookie: sessions.Options{Path: "/", Secure: o.Secure, HttpOnly: true, SameSite: o.SameSite},
	}
	for _, secret := range []string{o.Secret, o.PreviousSecret} {
		if secret != "" {
			// The codec's age check is off: it would refuse the cookie of a session that
			// the store keeps alive, and it cannot use our clock.
			m.codecs = append(m.codecs,
				securecookie.New([]byte(secret), nil).MaxAge(0).SetSerializer(securecookie.NopEncoder{}))
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
	app   *appToken // of the cookie of an application's host; nil: it is the portal's
	stale bool      // the cookies are to be sent again
	gs    *sessions.Session
}

// SealingKey returns a key that is derived from the id in the session cookie. The store has only the hash of the id,
// so that nobody has the key without the cookie. It is for sessions of Load and Start: one of AppSession has no id.
func (c *Current) SealingKey() (key [sha256.Size]byte, err error) {
	derived, err := hkdf.Key(sha256.New, []byte(c.token.id), nil, "secrets shown to the session", len(key))
	copy(key[:], derived)
	return key, err
}

// current is the key of the *Current in the values of a gorilla session.
type current struct{}

// hold puts a new Current into a gorilla session, and returns it.
func (m *Manager) hold(gs *sessions.Session, s Session, t token) *Current {
	c := &Current{Session: s, token: t, gs: gs}
	gs.Values[current{}] = c
	return c
}

// Load returns the session of the request's first cookie that has a live one, and
// renews it, unless the context is from WithoutRenewal. ErrNotFound: the request is
// anonymous. Any other error: the store failed, and whether there is a session is
// unknown.
func (m *Manager) Load(r *http.Request) (*Current, error) {
	gs, err := m.Get(r, m.name)
	if err != nil {
		return nil, err
	}
	c, ok := gs.Values[current{}].(*Current)
	if !ok {
		return nil, ErrNotFound
	}
	return c, nil
}

// Get implements sessions.Store: New, once for each request.
func (m *Manager) Get(r *http.Request, name string) (*sessions.Session, error) {
	return sessions.GetRegistry(r).Get(m, name)
}

// Lifetimes returns how long sessions last without activity.
func (m *Manager) Lifetimes() Lifetimes { return m.lifetimes }

// renewal returns the lifetimes for which a request renews its session; zero: it does not.
func (m *Manager) renewal(r *http.Request) Lifetimes {
	if r.Context().Value(unrenewed{}) != nil {
		return Lifetimes{}
	}
	return m.lifetimes
}

// signedAt returns the time to sign into a cookie of a session on a device. It is now or, where the cookies are
// to be sent again sooner than staleAfter, earlier by the difference.
func (m *Manager) signedAt(d Device) time.Time {
	return m.now().Add(-max(0, staleAfter-m.lifetimes.Of(d)/4))
}

// maxAge returns how many seconds browsers keep the cookies of a session on a device; 0: until they are closed.
func (m *Manager) maxAge(d Device) int {
	if d == SharedDevice {
		return 0
	}
	return int(m.lifetimes.Of(d).Seconds())
}

// New implements sessions.Store. An unsigned cookie or an ended session is not an
// error: the session returned is empty.
func (m *Manager) New(r *http.Request, name string) (*sessions.Session, error) {
	gs, lifetimes := sessions.NewSession(m, name), m.renewal(r)
	for _, t := range m.tokens(r) {
		s, err := m.store.Load(r.Context(), t.ref(), lifetimes)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return gs, fmt.Errorf("load session: %w", err)
		}
		m.hold(gs, s, t).stale = lifetimes != Lifetimes{} && m.now().Sub(t.signedAt) >= staleAfter
		break
	}
	return gs, nil
}

// Save implements sessions.Store: it sets the session cookie and, of a session with a CSRF token, the CSRF cookie, for
// maxAge. Of an empty session it sets none.
func (m *Manager) Save(_ *http.Request, w http.ResponseWriter, gs *sessions.Session) error {
	c, ok := gs.Values[current{}].(*Current)
	if !ok {
		return nil
	}
	c.token.signedAt, c.stale = m.signedAt(c.Device), false
	signed, err := securecookie.EncodeMulti(m.name, []byte(c.token.String()), m.codecs[0])
	if err != nil {
		return fmt.Errorf("sign session cookie: %w", err)
	}
	kept := m.cookie
	kept.MaxAge = m.maxAge(c.Device)
	m.setCookie(w, m.name, signed, kept)
	if c.CSRFToken != "" {
		m.setCookie(w, CSRFCookie, c.CSRFToken, kept)
	}
	return nil
}

// Start sets the cookies of a session that was just created, and returns it.
func (m *Manager) Start(w http.ResponseWriter, s Session, id string) (*Current, error) {
	c := m.hold(sessions.NewSession(m, m.name), s, token{userID: s.UserID, id: id})
	return c, m.Resend(w, c)
}

// Resend sets the cookies of a session again as Save does or, of one from AppSession, the cookie that it came in.
func (m *Manager) Resend(w http.ResponseWriter, c *Current) error {
	if c.app != nil {
		c.stale = false
		return m.sendApp(w, *c.app, c.Device)
	}
	return m.Save(nil, w, c.gs)
}

// ResendStale is Resend when the request's cookie was signed at least 12 hours ago, or at least a
// quarter of the session's lifetime ago where that is less. Otherwise it does nothing, nor after
// Resend or Clear, nor for a request that does not renew its session.
func (m *Manager) ResendStale(w http.ResponseWriter, c *Current) error {
	if !c.stale {
		return nil
	}
	return m.Resend(w, c)
}

// Forget has ResendStale do nothing for a session that another one has replaced, and Load no longer return it.
func (m *Manager) Forget(c *Current) {
	c.stale = false
	clear(c.gs.Values)
}

// Clear removes both cookies of a session that has ended. The request is anonymous from
// now on.
func (m *Manager) Clear(w http.ResponseWriter, c *Current) {
	m.Forget(c)
	gone := m.cookie
	gone.MaxAge = -1
	m.setCookie(w, m.name, "", gone)
	m.setCookie(w, CSRFCookie, "", gone)
}

// Sent reports whether the client sent a cookie of ours, valid or not.
func (m *Manager) Sent(r *http.Request) bool {
	return slices.ContainsFunc(r.Cookies(), func(c *http.Cookie) bool {
		return c.Name == CSRFCookie || strings.HasPrefix(c.Name, m.app+".")
	})
}

// setCookie sets a cookie that expires by our clock. Scripts can read the CSRF cookie alone.
func (m *Manager) setCookie(w http.ResponseWriter, name, value string, o sessions.Options) {
	o.HttpOnly = name != CSRFCookie
	cookie := sessions.NewCookie(name, value, &o) //nolint:gosec // the attributes are in the options
	if o.MaxAge > 0 {
		cookie.Expires = m.now().Add(time.Duration(o.MaxAge) * time.Second)
	}
	http.SetCookie(w, cookie)
}

// tokens returns the tokens of the session cookies with our signature, in the order of the request, each session
// once, at most maxLoads.
func (m *Manager) tokens(r *http.Request) (tokens []token) {
	for text := range m.signed(r, m.name) {
		t, ok := parseToken(text)
		if !ok ||
			slices.ContainsFunc(tokens, func(other token) bool {
				return other.id == t.id && other.userID == t.userID
			}) {
			continue
		}
		if tokens = append(tokens, t); len(tokens) == maxLoads {
			break
		}
	}
	return tokens
}

// cookies returns the first maxCookies of a request's cookies of a name.
func cookies(r *http.Request, name string) []*http.Cookie {
	all := r.CookiesNamed(name)
	return all[:min(len(all), maxCookies)]
}

// signed yields what a request's cookies of a name contain, of those with our signature.
func (m *Manager) signed(r *http.Request, name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, cookie := range cookies(r, name) {
			var text []byte
			if securecookie.DecodeMulti(name, cookie.Value, &text, m.codecs...) == nil && !yield(string(text)) {
				return
			}
		}
	}
}

// token is the content of the cookie of a session or a pending login before it is
// signed: the user, the id, and when the cookie was signed. It names the user because
// a store keeps a user's sessions together.
type token struct {
	userID int64
	id     string
	// signedAt is when the cookie was signed or, where it is to be sent again sooner than staleAfter, earlier by the
	// difference: so a replica with another lifetime, or of an earlier version, also sends it again before the
	// browser drops it.
	signedAt time.Time
}

func (t token) ref() Ref { return Ref{UserID: t.userID, Key: HashOf(t.id)} }

// String is "<user id>.<id>.<unix seconds>".
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
	signedAt, timeErr := strconv.ParseInt(parts[2], 10, 64)
	t := token{userID: userID, id: parts[1], signedAt: time.Unix(signedAt, 0)}
	valid := userErr == nil && userID > 0 && secrets.Is(parts[1]) && timeErr == nil
	return t, valid && t.String() == text
}
