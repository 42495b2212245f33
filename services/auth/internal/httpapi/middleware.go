package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/serve"
	"github.com/pforte/pforte/pkg/tracing"
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

// observe is the outermost middleware: it names the request, sets what every
// answer carries, writes the answer to an error, and then logs and counts.
func (a *api) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		started := a.now()
		h := c.Response().Header()
		h.Set(serve.RequestIDHeader, serve.RequestID(c.Request()))
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		span := a.trace(c)
		err := next(c)
		if err != nil {
			c.Error(err)
		}
		span.Answered(c.Response().Status)
		took := a.now().Sub(started)
		a.metrics.request(c, took)
		a.logRequest(c, err, took)
		return nil
	}
}

// trace begins the request's span. Whether we are well is asked too often to be
// followed.
func (a *api) trace(c echo.Context) tracing.Span {
	if a.tracer == nil || c.Path() == "/health" {
		return tracing.Span{}
	}
	ctx, span := a.tracer.Request(c.Request(), methodLabel(c), routeLabel(c))
	c.SetRequest(c.Request().WithContext(ctx))
	span.Set("request_id", c.Response().Header().Get(serve.RequestIDHeader))
	return span
}

// logRequest writes one line. The path is the route's, because a real one could
// hold anything; the questions of machines are for debugging only.
func (a *api) logRequest(c echo.Context, err error, took time.Duration) {
	status, level := c.Response().Status, slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("method", methodLabel(c)), slog.String("route", routeLabel(c)), slog.Int("status", status),
		slog.Float64("took_ms", float64(took.Microseconds())/1000), slog.String("ip", c.RealIP()), slog.String("request_id", c.Response().Header().Get(serve.RequestIDHeader)),
	}
	switch {
	case status == http.StatusInternalServerError:
		level = slog.LevelError
		attrs = append(attrs, slog.Any("error", err))
	case status == http.StatusOK && isMachine(c):
		level = slog.LevelDebug
	}
	a.log.LogAttrs(c.Request().Context(), level, "request", attrs...)
}

func isMachine(c echo.Context) bool {
	return c.Path() == "/health" || strings.HasPrefix(c.Path(), "/internal/")
}

// recover turns a panic into a 500.
func (a *api) recover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer serve.Recover(&err)
		return next(c)
	}
}

// methods refuses a method that the route does not have. echo would answer
// OPTIONS itself, with a 204, and name it to everybody else.
func (a *api) methods(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
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
// client hangs up, and take its time. The function that it returns ends that.
func detach(c echo.Context) func() {
	r := c.Request()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), passwordTimeout)
	c.SetRequest(r.WithContext(ctx))
	return func() {
		cancel()
		c.SetRequest(r)
	}
}
