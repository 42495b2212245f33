package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Options are the parts of a Web. All fields are required unless noted.
type Options struct {
	Accounts *account.Service
	People   *people.Service
	Policy   *policy.Service
	Audit    *audit.Recorder
	Sessions *session.Manager
	// LoginLimit counts failed logins by client address or known browser, PasswordLimit wrong current passwords by
	// user.
	LoginLimit, PasswordLimit *ratelimit.Limiter
	// LinkLimit counts what Counted counts and each look at the page of a wrong link, by client address, and wrong
	// codes of devices, by user: LinkAttempts in LinkWindow.
	LinkLimit *ratelimit.Limiter
	// PasskeyLimit counts what CountedPasskey counts, by client address: PasskeyAttempts in PasskeyWindow.
	PasskeyLimit *ratelimit.Limiter
	// SignInLimit counts what CountSignIn counts, by client address: SignInAttempts in SignInWindow.
	SignInLimit *ratelimit.Limiter
	// OIDC is the OpenID Connect provider.
	OIDC      *oidc.Service
	PublicURL string // origin of the pages; empty: it is not known
	// TrustedProxies are the proxies whose X-Forwarded-* are believed without a guard token; may be empty.
	TrustedProxies clientaddr.Proxies
	Secure         bool // the cookies are for https only
	CompatV0       bool // cookies and tokens are as in v0 (AUTH-13)
	Metrics        *Metrics
	Log            *slog.Logger
	Now            func() time.Time
}

// Web is what the API and the pages share. It is safe for concurrent use.
type Web struct {
	Options
	warnPlainHTTP func()
}

// New checks the options and returns a Web.
func New(o Options) (*Web, error) {
	if o.Accounts == nil || o.People == nil || o.Policy == nil || o.Audit == nil || o.Sessions == nil ||
		o.LoginLimit == nil || o.PasswordLimit == nil || o.LinkLimit == nil || o.PasskeyLimit == nil ||
		o.SignInLimit == nil || o.OIDC == nil ||
		o.Metrics == nil || o.Log == nil || o.Now == nil {
		return nil, errors.New("web: a required option is not set")
	}
	w := &Web{Options: o, warnPlainHTTP: func() {}}
	if o.Secure {
		w.warnPlainHTTP = sync.OnceFunc(func() {
			o.Log.Warn("login over plain http, but the cookies are limited to https and browsers will drop them: " +
				"serve https, or set SESSION_SECURE=false")
		})
	}
	return w, nil
}

// Client returns the client's address.
func (w *Web) Client(r *http.Request) string { return w.TrustedProxies.Of(r).String() }

// LogEvent logs an event that audit.Log leaves out, for operators and programs like fail2ban. No attribute may be a
// secret, nor a name typed at a login, which could be a password.
func (w *Web) LogEvent(rw http.ResponseWriter, r *http.Request, event string, attrs ...any) {
	attrs = append([]any{"event", event, "ip", w.Client(r), "request_id", rw.Header().Get(service.RequestIDHeader)},
		attrs...)
	w.Log.InfoContext(r.Context(), "audit", attrs...)
}

// As returns the request with a context in which the caller acts, or an anonymous client if c is zero.
func (w *Web) As(rw http.ResponseWriter, r *http.Request, c Caller) *http.Request {
	groups := w.Networks(r)
	actor := audit.Actor{
		Kind: audit.Anonymous, IP: w.Client(r), Network: groups[len(groups)-1],
		Agent: session.AgentOf(r.UserAgent()), RequestID: rw.Header().Get(service.RequestIDHeader),
	}
	if c.Current != nil {
		actor.Kind, actor.ID, actor.Name, actor.SessionKey = audit.User, c.User.ID, c.User.Username, c.Key
	}
	return r.WithContext(audit.With(r.Context(), actor))
}

// Caller is the session of a request and its user, as stored now. Username and Role of the session are the user's,
// unless the user was deleted.
type Caller struct {
	*session.Current
	User user.User
}

// CheckTokenProof returns account.ErrReauthRequired where an admin, who may end any app token, has not proved lately
// who they are, and the token of an id is not their own.
func (w *Web) CheckTokenProof(ctx context.Context, c Caller, id int64) error {
	stale := w.Accounts.CheckFresh(c.Session, c.User)
	if stale == nil || c.User.Role != user.Admin {
		return nil
	}
	own, err := w.Policy.TokensOf(ctx, c.Session)
	if err != nil || slices.ContainsFunc(own, func(t token.Token) bool { return t.ID == id }) {
		return err
	}
	return stale
}

// Load returns the caller of a request: it loads the session as session.Manager.Load does, and then reads the user.
// session.ErrNotFound: the request is anonymous, or its session is not one that the user's row admits, and has been
// ended. user.ErrNotFound: the user was deleted; the caller is returned and the session is not ended yet.
func (w *Web) Load(rw http.ResponseWriter, r *http.Request) (Caller, error) {
	since := w.Accounts.Since(r.Context())
	current, err := w.Sessions.Load(r)
	if err != nil {
		return Caller{}, err
	}
	c := Caller{Current: current}
	c.User, err = w.Accounts.Holder(since, c.Session)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return Caller{}, cmp.Or(w.End(rw, r, c), err)
	case errors.Is(err, user.ErrNotFound):
		return c, err
	case err != nil:
		return Caller{}, err
	}
	c.Username, c.Role = c.User.Username, string(c.User.Role)
	return c, nil
}

// End ends the session of a caller and then clears both cookies.
func (w *Web) End(rw http.ResponseWriter, r *http.Request, c Caller) error {
	if err := w.Accounts.End(r.Context(), c.Session); err != nil {
		return err
	}
	w.Sessions.Clear(rw, c.Current)
	return nil
}

// Login checks name and password and sets the cookies of a new session; the one that the request came with ends. Of a
// user with a second factor it sets the cookie of a pending login instead, and the existing session stays valid. It
// limits no attempts. on is whose the device is. Errors are those of account.Service.Login, and of
// the session store.
func (w *Web) Login(
	rw http.ResponseWriter, r *http.Request, username, password string, on session.Device,
) (account.LoggedIn, error) {
	credentials, err := w.credentials(r, on)
	in, err := w.logIn(rw, r, credentials, err, username, password)
	if err != nil || in.Pending != nil {
		return in, err
	}
	return in, w.LoggedIn(rw, r, in)
}

// LoginKnown is Login for a page, which makes the browser known: POST /login of the API sets two cookies and no other
// (AUTH-4.5).
func (w *Web) LoginKnown(
	rw http.ResponseWriter, r *http.Request, username, password string, on session.Device,
) (account.LoggedIn, error) {
	credentials, err := w.knowing(r, on)
	in, err := w.logIn(rw, r, credentials, err, username, password)
	if err != nil || in.Pending != nil {
		return in, err
	}
	return in, w.knownIn(rw, r, in, credentials.Browser)
}

// logIn is Login, but for the cookies of a session. err is that of the credentials.
func (w *Web) logIn(
	rw http.ResponseWriter, r *http.Request, credentials account.Credentials, err error, username, password string,
) (account.LoggedIn, error) {
	r = w.As(rw, r, Caller{})
	credentials.Username, credentials.Password = username, password
	var in account.LoggedIn
	if err == nil {
		in, err = w.Accounts.Login(r.Context(), credentials)
	}
	w.Metrics.login(in.Pending != nil, err)
	if err != nil {
		if errors.Is(err, account.ErrInvalidCredentials) {
			w.LogEvent(rw, r, "login_failed", "user_id", in.User.ID)
		}
		if errors.Is(err, account.ErrClosed) {
			w.LogEvent(rw, r, "login_refused", "user_id", in.User.ID)
		}
		return account.LoggedIn{}, err
	}
	if in.Pending != nil {
		w.LogEvent(rw, r, "second_factor_asked", "user_id", in.User.ID)
		return in, w.Sessions.StartPending(rw, in.Pending.Pending, in.Pending.ID)
	}
	return in, nil
}

// credentials returns those of a login but for what proves who the user is. It fails where the session store does.
func (w *Web) credentials(r *http.Request, on session.Device) (account.Credentials, error) {
	c := account.Credentials{UserAgent: r.UserAgent(), IP: w.Client(r), Browser: w.Sessions.Browser(r), Device: on}
	replaced, err := w.Sessions.Load(r.WithContext(session.WithoutRenewal(r.Context())))
	if errors.Is(err, session.ErrNotFound) {
		return c, nil
	}
	if err == nil {
		c.Replaces = replaced.Ref
	}
	return c, err
}

// knowing is credentials of a login that makes the browser known (knownIn): Browser is a new value where the request
// has none. With CompatV0 it stays empty.
func (w *Web) knowing(r *http.Request, on session.Device) (account.Credentials, error) {
	c, err := w.credentials(r, on)
	if c.Browser == "" && !w.CompatV0 {
		c.Browser = secrets.New()
	}
	return c, err
}

// knownIn is LoggedIn for a login with the credentials of knowing. It also sets the cookie by which the browser is
// known, unless CompatV0 is set.
func (w *Web) knownIn(rw http.ResponseWriter, r *http.Request, in account.LoggedIn, browser string) error {
	if err := w.LoggedIn(rw, r, in); err != nil {
		return err
	}
	if !w.CompatV0 {
		w.Sessions.SetBrowser(rw, browser)
	}
	return nil
}

// LoggedIn sets the cookies of a finished login, however the user proved who they are, and clears that of a pending
// login, if the request has one and CompatV0 is not set.
func (w *Web) LoggedIn(rw http.ResponseWriter, r *http.Request, in account.LoggedIn) error {
	if _, err := w.Sessions.Start(rw, in.Session, in.SessionID); err != nil {
		return err
	}
	if !w.CompatV0 {
		if _, err := w.Sessions.LoadPending(r); err == nil {
			w.Sessions.ClearPending(rw)
		}
	}
	w.LogEvent(rw, r, "login", "user_id", in.User.ID)
	if r.TLS == nil && r.Header.Get("X-Forwarded-Proto") != "https" {
		w.warnPlainHTTP()
	}
	return nil
}

// Logout ends the session of a caller at their wish, and clears its cookies.
func (w *Web) Logout(rw http.ResponseWriter, r *http.Request, c Caller) error {
	if err := w.Accounts.Logout(r.Context(), c.Session); err != nil {
		return err
	}
	w.Sessions.Clear(rw, c.Current)
	w.LogEvent(rw, r, "logout", "user_id", c.UserID)
	return nil
}

// ChangePassword is account.Service.ChangePassword for a caller; a wrong current password is logged.
func (w *Web) ChangePassword(rw http.ResponseWriter, r *http.Request, c Caller, current, replacement string) error {
	err := w.Accounts.ChangePassword(r.Context(), c.Session, current, replacement)
	if errors.Is(err, account.ErrWrongPassword) {
		w.LogEvent(rw, r, "password_change_failed", "user_id", c.UserID)
	}
	return err
}

// CheckAdmin returns user.ErrNotAdmin unless a caller is an admin.
func (w *Web) CheckAdmin(rw http.ResponseWriter, r *http.Request, c Caller) error {
	if c.User.Role == user.Admin {
		return nil
	}
	w.LogEvent(rw, r, "admin_refused", "user_id", c.UserID)
	return user.ErrNotAdmin
}

// CheckCSRF returns ErrCSRF unless the token is that of a caller's session.
func (w *Web) CheckCSRF(rw http.ResponseWriter, r *http.Request, c Caller, token string) error {
	if c.ValidCSRFToken(token) {
		return nil
	}
	w.LogEvent(rw, r, "csrf_refused", "user_id", c.UserID)
	return ErrCSRF
}

// UpdateMember changes a user as a caller, who is an admin, and returns them. Errors are those of
// people.Service.UpdateMember.
func (w *Web) UpdateMember(
	rw http.ResponseWriter, r *http.Request, c Caller, id int64, change people.MemberChange,
) (user.User, error) {
	u, err := w.People.UpdateMember(r.Context(), c.Session, id, change)
	if err == nil {
		w.LogEvent(rw, r, "user_changed", "user_id", id, "role", string(u.Role), "by", c.UserID)
	}
	return u, err
}

// ParseID parses a decimal integer of digits only. user.ErrNotFound for anything else.
func ParseID(s string) (int64, error) {
	id, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, user.ErrNotFound
	}
	return int64(id), nil
}

// passwordTimeout bounds a request that computes the hash of a password, which may take seconds on a small machine.
// Waiting in the queue, and each step of a store, have their own, closer bounds.
const passwordTimeout = 30 * time.Second

// Detach returns, for a request that may compute the hash of a password, one with a context that does not end when the
// client hangs up, has passwordTimeout, and names the network for the queue.
func (w *Web) Detach(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), passwordTimeout)
	return r.WithContext(w.fromNetwork(ctx, r)), cancel
}

// Waiting returns a context for a request that waits until the file in its body has arrived, or until another request
// has ended that may compute the hash of a password. The context has passwordTimeout, not the timeout of other
// requests, and ends when the client hangs up.
func Waiting(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(service.Untimed(r.Context()), passwordTimeout)
}
