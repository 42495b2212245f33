package session

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gorilla/securecookie"

	"github.com/pforte/pforte/services/auth/internal/secrets"
)

// BrowserLifetime is how long a browser keeps the cookie by which it is known: as long as
// browsers keep any.
const BrowserLifetime = 400 * 24 * time.Hour

// The names of cookies that are no session; each follows Options.Name.
const (
	pendingCookie  = ".2fa"      // of a pending login
	ceremonyCookie = ".ceremony" // of a WebAuthn ceremony
	browserCookie  = ".dev"      // by which a browser is known
)

// StartPending sets the cookie of a pending login, for PendingLifetime.
func (m *Manager) StartPending(w http.ResponseWriter, p Pending, id string) error {
	name := m.app + pendingCookie
	t := token{userID: p.UserID, id: id, signedAt: m.now()}
	signed, err := securecookie.EncodeMulti(name, []byte(t.String()), m.codecs[0])
	if err != nil {
		return fmt.Errorf("sign cookie of a pending login: %w", err)
	}
	m.setOther(w, name, signed, PendingLifetime, http.SameSiteStrictMode)
	return nil
}

// LoadPending returns the pending login that the request's cookie names, whether or not
// it still exists. ErrNotFound.
func (m *Manager) LoadPending(r *http.Request) (Ref, error) {
	for text := range m.signed(r, m.app+pendingCookie) {
		if t, ok := parseToken(text); ok {
			return t.ref(), nil
		}
	}
	return Ref{}, ErrNotFound
}

// ClearPending removes the cookie of a pending login.
func (m *Manager) ClearPending(w http.ResponseWriter) { m.clearOther(w, m.app+pendingCookie) }

// StartCeremony sets the cookie of a ceremony, for CeremonyLifetime.
func (m *Manager) StartCeremony(w http.ResponseWriter, id string) {
	m.setOther(w, m.app+ceremonyCookie, id, CeremonyLifetime, http.SameSiteStrictMode)
}

// LoadCeremony returns the id of the request's ceremony. ErrNotFound.
func (m *Manager) LoadCeremony(r *http.Request) (id string, err error) {
	return randomValue(r, m.app+ceremonyCookie)
}

// ClearCeremony removes the cookie of a ceremony.
func (m *Manager) ClearCeremony(w http.ResponseWriter) { m.clearOther(w, m.app+ceremonyCookie) }

// SetBrowser sets the cookie by which the browser is known, for BrowserLifetime, and
// returns it.
func (m *Manager) SetBrowser(w http.ResponseWriter, id string) *http.Cookie {
	return m.setOther(w, m.app+browserCookie, id, BrowserLifetime, http.SameSiteLaxMode)
}

// Browser returns the value of the cookie by which the request's browser is known, or
// "". It proves nothing.
func (m *Manager) Browser(r *http.Request) string {
	id, _ := randomValue(r, m.app+browserCookie)
	return id
}

// randomValue returns the first cookie of a name that has the form of a random id.
func randomValue(r *http.Request, name string) (string, error) {
	for _, cookie := range cookies(r, name) {
		if secrets.Is(cookie.Value) {
			return cookie.Value, nil
		}
	}
	return "", ErrNotFound
}

func (m *Manager) setOther(
	w http.ResponseWriter, name, value string, lifetime time.Duration, sameSite http.SameSite,
) *http.Cookie {
	cookie := &http.Cookie{ //nolint:gosec // Secure is a setting
		Name: name, Value: value, Path: "/", MaxAge: int(lifetime.Seconds()),
		Secure: m.cookie.Secure, HttpOnly: true, SameSite: sameSite,
	}
	if lifetime > 0 {
		cookie.Expires = m.now().Add(lifetime)
	}
	http.SetCookie(w, cookie)
	return cookie
}

func (m *Manager) clearOther(w http.ResponseWriter, name string) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure is a setting
		Name: name, Path: "/", MaxAge: -1, Secure: m.cookie.Secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}
