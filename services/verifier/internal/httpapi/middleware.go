package httpapi

import (
	"log/slog"
	"maps"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/serve"
	"github.com/pforte/pforte/pkg/tracing"
)

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
// hold anything; questions that cost and change nothing are for debugging only.
func (a *api) logRequest(c echo.Context, err error, took time.Duration) {
	ctx := c.Request().Context()
	status, level := c.Response().Status, slog.LevelInfo
	switch {
	case status == http.StatusInternalServerError:
		level = slog.LevelError
	case err == nil && (status != http.StatusOK || c.Request().Method != http.MethodPost):
		level = slog.LevelDebug
	}
	if !a.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", methodLabel(c)), slog.String("route", routeLabel(c)), slog.Int("status", status),
		slog.Duration("took", took), slog.String("client", c.RealIP()), slog.String("request_id", c.Response().Header().Get(serve.RequestIDHeader)),
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	a.Log.LogAttrs(ctx, level, "request", attrs...)
}

// recover turns a panic into an error.
func (a *api) recover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer serve.Recover(&err)
		return next(c)
	}
}

// What browsers may send. The official client sends
// Access-Control-Expose-Headers as a request header on its paid retry.
const allowHeaders = "Content-Type, Accept, PAYMENT-SIGNATURE, X-PAYMENT, Access-Control-Expose-Headers, X-Request-Id, If-None-Match"

// Headers of every answer, and those of the answer to a preflight. Nobody may
// change their values.
var (
	everyAnswer = http.Header{
		"X-Content-Type-Options":        {"nosniff"},
		"Access-Control-Allow-Origin":   {"*"},
		"Access-Control-Expose-Headers": {"PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, Retry-After, X-Request-Id, ETag"},
	}
	preflight = http.Header{
		"Access-Control-Allow-Methods": {"GET, HEAD, POST, OPTIONS"},
		"Access-Control-Allow-Headers": {allowHeaders},
		"Access-Control-Max-Age":       {"7200"},
	}
)

// crossOrigin answers the preflights of browsers. Pages of any origin may use the
// service: there is no cookie and no session that they could abuse.
func crossOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h, r := c.Response().Header(), c.Request()
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			maps.Copy(h, preflight)
			return c.NoContent(http.StatusNoContent)
		}
		return next(c)
	}
}
