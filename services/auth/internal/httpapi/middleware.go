package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/serve"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/auth/internal/password"
)

const (
	// timeout bounds the work for one request: nobody waits longer because a
	// store is away.
	timeout = 4500 * time.Millisecond
	// passwordTimeout bounds a request that computes a password, which may take
	// seconds on a small machine. Waiting for its turn, and each step of a
	// store, have their own, closer bounds.
	passwordTimeout = 30 * time.Second
)

// everyAnswer are headers of every answer. Nobody may change their values.
var everyAnswer = http.Header{"Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"}}

// observe is the outermost middleware: it names the request, sets what every
// answer carries, writes the answer to an error, and then logs and counts.
func (a *api) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		started := a.Now()
		h := c.Response().Header()
		maps.Copy(h, everyAnswer)
		h[serve.RequestIDHeader] = []string{serve.RequestID(c.Request())}
		span := a.trace(c)
		err := next(c)
		if err != nil {
			c.Error(err)
		}
		span.Answered(c.Response().Status)
		took := a.Now().Sub(started)
		a.Metrics.request(c, took)
		a.logRequest(c, err, took)
		return nil
	}
}

// trace begins the request's span. Whether we are well is asked too often to be
// followed.
func (a *api) trace(c echo.Context) tracing.Span {
	if a.Tracer == nil || c.Path() == "/health" {
		return tracing.Span{}
	}
	ctx, span := a.Tracer.Request(c.Request(), methodLabel(c), routeLabel(c))
	c.SetRequest(c.Request().WithContext(ctx))
	span.Set("request_id", c.Response().Header().Get(serve.RequestIDHeader))
	return span
}

// logRequest writes one line. The path is the route's, because a real one could
// hold anything; questions that were answered and changed nothing are for
// debugging only.
func (a *api) logRequest(c echo.Context, err error, took time.Duration) {
	ctx := c.Request().Context()
	status, level := c.Response().Status, slog.LevelInfo
	switch {
	case status == http.StatusInternalServerError:
		level = slog.LevelError
	case status == http.StatusOK && isQuestion(c):
		level = slog.LevelDebug
	}
	if !a.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", methodLabel(c)), slog.String("route", routeLabel(c)), slog.Int("status", status),
		slog.Float64("took_ms", float64(took.Microseconds())/1000), slog.String("ip", c.RealIP()), slog.String("request_id", c.Response().Header().Get(serve.RequestIDHeader)),
	}
	if level == slog.LevelError {
		attrs = append(attrs, slog.Any("error", err))
	}
	a.Log.LogAttrs(ctx, level, "request", attrs...)
}

func isQuestion(c echo.Context) bool {
	method := c.Request().Method
	return method == http.MethodGet || method == http.MethodHead
}

// recover turns a panic into a 500.
func (a *api) recover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer serve.Recover(&err)
		return next(c)
	}
}

// methods refuses a path that is none of ours, and a method that the route does
// not have. To echo a parameter at the end of a route is the whole rest of the
// path, slashes too; and it would answer OPTIONS itself, with a 204, and name it to
// everybody else.
func (a *api) methods(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if path := cmp.Or(c.Request().URL.RawPath, c.Request().URL.Path); c.Path() != "" && strings.Count(path, "/") != strings.Count(c.Path(), "/") {
			c.SetPath("")
			return errNoRoute
		}
		allow, wrong := c.Get(echo.ContextKeyHeaderAllow).(string)
		if !wrong {
			return next(c)
		}
		c.Response().Header().Set("Allow", strings.TrimPrefix(allow, "OPTIONS, "))
		return errWrongMethod
	}
}

// bound gives the request its timeout.
func (a *api) bound(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, cancel := context.WithTimeout(c.Request().Context(), timeout)
		defer cancel()
		c.SetRequest(c.Request().WithContext(ctx))
		return next(c)
	}
}

// detach lets the work of a request that computes a password go on when the
// client hangs up, and take its time, which it shares with other networks. The
// function that it returns ends that.
func (a *api) detach(c echo.Context) func() {
	r := c.Request()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), passwordTimeout)
	ctx = password.From(ctx, clientaddr.Neighborhood(a.TrustedProxies.Of(r)))
	c.SetRequest(r.WithContext(ctx))
	return func() {
		cancel()
		c.SetRequest(r)
	}
}
