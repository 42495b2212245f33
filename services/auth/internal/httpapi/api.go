package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// Options is what the API is made of. All fields but those that say otherwise
// are required.
type Options struct {
	Accounts *account.Service
	Sessions *session.Manager
	// LoginLimit counts failed logins by client address, PasswordLimit wrong
	// current passwords by user.
	LoginLimit, PasswordLimit *ratelimit.Limiter
	// Health fails while a store does not answer.
	Health func(context.Context) error
	// TrustedProxies are the peers whose X-Forwarded-For is believed; may be
	// empty.
	TrustedProxies clientaddr.Proxies
	// Secure tells that the cookies are for https only.
	Secure bool
	// CompatV0 serves the contract's earlier variant (section 9).
	CompatV0 bool
	Metrics  *Metrics
	// Tracer may be nil: then requests are not traced.
	Tracer *tracing.Tracer
	Log    *slog.Logger
	Now    func() time.Time
}

// api holds the handlers.
type api struct {
	accounts      *account.Service
	sessions      *session.Manager
	loginLimit    *ratelimit.Limiter
	passwordLimit *ratelimit.Limiter
	health        func(context.Context) error
	compatV0      bool
	metrics       *Metrics
	tracer        *tracing.Tracer
	log           *slog.Logger
	now           func() time.Time
	warnPlainHTTP func()
	proxies       clientaddr.Proxies
}

// New checks the options and returns the handler of auth's address.
func New(o Options) (http.Handler, error) {
	if o.Accounts == nil || o.Sessions == nil || o.LoginLimit == nil || o.PasswordLimit == nil || o.Health == nil ||
		o.Metrics == nil || o.Log == nil || o.Now == nil {
		return nil, errors.New("httpapi: an option is missing")
	}
	a := &api{
		accounts: o.Accounts, sessions: o.Sessions, loginLimit: o.LoginLimit, passwordLimit: o.PasswordLimit,
		health: o.Health, compatV0: o.CompatV0, metrics: o.Metrics, tracer: o.Tracer, log: o.Log, now: o.Now,
		warnPlainHTTP: func() {},
	}
	if o.Secure {
		a.warnPlainHTTP = sync.OnceFunc(func() {
			o.Log.Warn("a login came over plain http, but the cookies are for https only and the browser will drop them; serve https, or set SESSION_SECURE=false")
		})
	}
	e := echo.New()
	e.IPExtractor = func(r *http.Request) string { return o.TrustedProxies.Of(r).String() }
	a.proxies = o.TrustedProxies
	e.HTTPErrorHandler = writeError
	e.Use(a.observe, a.recover, a.methods, a.bound)
	a.route(e)
	return e, nil
}
