package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// Options are the parts of the API. All fields are required unless noted.
type Options struct {
	Accounts *account.Service
	Sessions *session.Manager
	// LoginLimit counts failed logins by client address, PasswordLimit wrong
	// current passwords by user.
	LoginLimit, PasswordLimit *ratelimit.Limiter
	// Health returns an error while a store does not answer.
	Health func(context.Context) error
	// TrustedProxies are the peers whose X-Forwarded-For is used; may be empty.
	TrustedProxies clientaddr.Proxies
	Secure         bool // the cookies are for https only
	CompatV0       bool // serve the contract's earlier variant (section 9)
	Metrics        *Metrics
	Tracer         *tracing.Tracer // nil: requests are not traced
	Log            *slog.Logger
	Now            func() time.Time
}

// api holds the handlers.
type api struct {
	Options
	warnPlainHTTP func()
}

// timeout bounds the work for one request, so that no client waits longer because
// a store does not answer.
const timeout = 4500 * time.Millisecond

// New checks the options and returns the handler of auth's address.
func New(o Options) (http.Handler, error) {
	if o.Accounts == nil || o.Sessions == nil || o.LoginLimit == nil || o.PasswordLimit == nil || o.Health == nil ||
		o.Metrics == nil || o.Log == nil || o.Now == nil {
		return nil, errors.New("httpapi: a required option is not set")
	}
	a := &api{Options: o, warnPlainHTTP: func() {}}
	if o.Secure {
		a.warnPlainHTTP = sync.OnceFunc(func() {
			o.Log.Warn("login over plain http, but the cookies are limited to https and browsers will drop them: serve https, or set SESSION_SECURE=false")
		})
	}
	e := service.HTTP{
		Log: o.Log, Metrics: o.Metrics.requests, Now: o.Now, Tracer: o.Tracer,
		Client:     func(r *http.Request) string { return o.TrustedProxies.Of(r).String() },
		WriteError: writeError, Timeout: timeout,
		Headers: http.Header{"Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"}},
	}.Echo()
	a.route(e)
	return e, nil
}
