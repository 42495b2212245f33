package session

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/securecookie"
	"github.com/gorilla/sessions"

	"github.com/pforte/pforte/services/auth/internal/secrets"
)

// HandOverLifetime is how long the code of a hand-over holds.
const HandOverLifetime = 30 * time.Second

// BeginLifetime is how long a browser that began a hand-over has to finish it, the login
// at the portal included.
const BeginLifetime = 10 * time.Minute

// MaxHosts is how many hosts of applications a session opens. Another one closes the host
// that was opened the longest ago.
const MaxHosts = 30

// BeginHandOver takes a browser that has finished maxEntered hand-overs within loopWindow, and begins another, to be in
// a loop: it does not keep the cookie of StartApp. Browsers themselves end a loop after 20 redirects, of which a
// hand-over has three. Hand-overs that wait for a login, in many tabs, do not count.
const (
	maxEntered = 5
	loopWindow = 30 * time.Second
)

// ErrLoop is returned by BeginHandOver for a browser that hand-overs lead in a loop.
var ErrLoop = errors.New("hand-overs lead the browser in a loop")

// HandOver is the permission to open the host of an application with a session.
type HandOver struct {
	Ref           // of the session
	Host   string // of the application, as application.Host returns it
	State  string // of Manager.BeginHandOver
	Device Device // of the session
}

// HandOvers keeps hand-overs for HandOverLifetime, and the hosts that sessions open. Every
// method is one atomic step.
type HandOvers interface {
	// CreateHandOver keeps a hand-over and returns its code, which is for the URL.
	CreateHandOver(ctx context.Context, h HandOver) (code string, err error)
	// TakeHandOver returns a hand-over and forgets it, so that a code counts once.
	// ErrNotFound.
	TakeHandOver(ctx context.Context, code string) (HandOver, error)
	// OpenHost opens the host of an application with a session: from now on LoadHost finds the
	// session by the secret with this hash (NewSecret), and by no earlier secret of the host.
	// The session is not renewed. Open hosts end with the session; a session that replaces it has
	// none. ErrNotFound when the session has ended.
	OpenHost(ctx context.Context, ref Ref, host, secretHash string) error
}

// The names of the cookies of applications' hosts; each follows Options.Name.
const (
	appCookie   = ".app" // of the session, on the host of an application
	beginCookie = ".go"  // of the browser that began a hand-over there
)

// appToken is the content of the cookie of an application's host before it is signed. It has the
// key of the session and not its id: it is no cookie of the portal.
type appToken struct {
	ref      Ref
	secret   string
	signedAt time.Time // as that of token
}

// String is "<user id>.<session key>.<secret>.<unix seconds>".
func (t appToken) String() string {
	return strings.Join([]string{
		strconv.FormatInt(t.ref.UserID, 10), t.ref.Key, t.secret, strconv.FormatInt(t.signedAt.Unix(), 10),
	}, ".")
}

// parseAppToken is the inverse of String and accepts nothing else.
func parseAppToken(text string) (appToken, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 4 {
		return appToken{}, false
	}
	userID, userErr := strconv.ParseInt(parts[0], 10, 64)
	key, keyErr := hex.DecodeString(parts[1])
	signedAt, timeErr := strconv.ParseInt(parts[3], 10, 64)
	t := appToken{ref: Ref{UserID: userID, Key: parts[1]}, secret: parts[2], signedAt: time.Unix(signedAt, 0)}
	valid := userErr == nil && userID > 0 && keyErr == nil && len(key) == sha256.Size && secrets.Is(parts[2]) &&
		timeErr == nil
	return t, valid && t.String() == text && strings.ToLower(parts[1]) == parts[1]
}

// StartApp sets the cookie by which the host of an application finds a session that opens
// it (HandOvers.OpenHost).
func (m *Manager) StartApp(w http.ResponseWriter, ref Ref, d Device, secret string) error {
	return m.sendApp(w, appToken{ref: ref, secret: secret}, d)
}

func (m *Manager) sendApp(w http.ResponseWriter, t appToken, d Device) error {
	t.signedAt = m.signedAt(d)
	name := m.app + appCookie
	signed, err := securecookie.EncodeMulti(name, []byte(t.String()), m.codecs[0])
	if err != nil {
		return fmt.Errorf("sign cookie of an application's host: %w", err)
	}
	m.setOther(w, name, signed, time.Duration(m.maxAge(d))*time.Second, http.SameSiteLaxMode)
	return nil
}

// AppSession is Load on the host of an application, which is spelled as application.Host returns it: it returns the
// session that opens the host, in one access to the store for each cookie. ResendStale and Resend send the cookie of
// that host again, and no other. ErrNotFound.
func (m *Manager) AppSession(r *http.Request, host string) (*Current, error) {
	name, lifetimes := m.app+appCookie, m.renewal(r)
	loads := 0
	for text := range m.signed(r, name) {
		t, ok := parseAppToken(text)
		if !ok {
			continue
		}
		s, err := m.store.LoadHost(r.Context(), t.ref, host, HashOf(t.secret), lifetimes)
		if err == nil {
			return &Current{
				Session: s, app: &t, stale: lifetimes != Lifetimes{} && m.now().Sub(t.signedAt) >= staleAfter,
				gs: sessions.NewSession(m, name),
			}, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("load session: %w", err)
		}
		if loads++; loads == maxLoads {
			break
		}
	}
	return nil, ErrNotFound
}

// begun is the content of the cookie of a browser that began a hand-over. It is not signed:
// what counts is that the browser has the random value.
type begun struct {
	value string
	count int       // one more than the hand-overs that were finished after the time since
	since time.Time // when the count began; the cookie has it in whole seconds
}

func (b begun) String() string {
	return b.value + "." + strconv.Itoa(b.count) + "." + strconv.FormatInt(b.since.Unix(), 10)
}

func parseBegun(text string) (begun, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return begun{}, false
	}
	count, countErr := strconv.Atoi(parts[1])
	since, sinceErr := strconv.ParseInt(parts[2], 10, 64)
	b := begun{value: parts[0], count: count, since: time.Unix(since, 0)}
	return b, secrets.Is(b.value) && countErr == nil && count > 0 && sinceErr == nil && b.String() == text
}

// begun returns the contents of the request's cookies: several where a host of the same
// domain has set one too.
func (m *Manager) begun(r *http.Request) (found []begun) {
	for _, cookie := range cookies(r, m.app+beginCookie) {
		if b, ok := parseBegun(cookie.Value); ok {
			found = append(found, b)
		}
	}
	return found
}

// BeginHandOver sets a cookie on the host of an application, with a random value that only this browser has, for
// BeginLifetime. It returns the state of the hand-over, for the portal's page /pforte/go: the SHA-256 of that value
// in base64url, a dot, and the time in Unix seconds. Tabs that begin one after the other have the same value, so that
// each can finish. ErrLoop: show a page instead of another redirect.
func (m *Manager) BeginHandOver(w http.ResponseWriter, r *http.Request) (state string, err error) {
	now := m.now()
	b := begun{value: secrets.New(), count: 1, since: now}
	if earlier := m.begun(r); len(earlier) > 0 {
		b = earlier[0]
	}
	if age := now.Sub(b.since); age < 0 || age > loopWindow {
		b.count, b.since = 1, now
	}
	if b.count > maxEntered {
		return "", ErrLoop
	}
	m.setOther(w, m.app+beginCookie, b.String(), BeginLifetime, http.SameSiteLaxMode)
	return stateOf(b.value) + "." + strconv.FormatInt(now.Unix(), 10), nil
}

// CountHandOver counts, in the browser that began it, a hand-over that is finished.
func (m *Manager) CountHandOver(w http.ResponseWriter, r *http.Request) {
	if earlier := m.begun(r); len(earlier) > 0 {
		b := earlier[0]
		b.count++
		m.setOther(w, m.app+beginCookie, b.String(), BeginLifetime, http.SameSiteLaxMode)
	}
}

// stateOf returns the SHA-256 of a value in base64url.
func stateOf(value string) string {
	sum := sha256.Sum256([]byte(value))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// HasBegun reports whether the browser of the request has begun the hand-over of a state.
func (m *Manager) HasBegun(r *http.Request, state string) bool {
	hash, _, _ := strings.Cut(state, ".")
	return slices.ContainsFunc(m.begun(r), func(b begun) bool { return stateOf(b.value) == hash })
}

// HasBegunAny reports whether the request has the cookie of BeginHandOver: its browser has begun or finished a
// hand-over on this host within BeginLifetime.
func (m *Manager) HasBegunAny(r *http.Request) bool { return len(m.begun(r)) > 0 }

// BegunAt returns when the hand-over of a state was begun, as the client says, and reports whether the state has the
// form of one.
func BegunAt(state string) (at time.Time, ok bool) {
	hash, text, _ := strings.Cut(state, ".")
	seconds, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(seconds, 0), err == nil && strconv.FormatInt(seconds, 10) == text && secrets.Is(hash)
}
