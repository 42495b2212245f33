package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/pkg/tracing"
)

// HTTP configures what the APIs of both services have in common. Log, Metrics, Now,
// Client and WriteError are required.
type HTTP struct {
	Log     *slog.Logger
	Metrics *HTTPMetrics
	Now     func() time.Time
	// Client returns the client's address or network, for the log and for echo's RealIP.
	Client func(*http.Request) string
	// WriteError answers an error. Nothing has been written yet.
	WriteError func(error, echo.Context)
	// Headers are sent with every answer. Their values must not be changed.
	Headers http.Header

	// Tracer may be nil: then requests are not traced.
	Tracer *tracing.Tracer
	// Timeout bounds the context of a request; zero means no bound.
	Timeout time.Duration
	// LogErrors puts the text of a request's error into its line of the log. Without it
	// the line has the text only where the status is 500 or above: texts of others may
	// quote the client.
	LogErrors bool
	// Options has OPTIONS answered, with 204 and Allow, where there is a route.
	Options bool
	// Use are handlers that run after the request has its id and before one without a route is refused.
	Use []echo.MiddlewareFunc
}

// Echo returns a router whose requests pass what is common: they get an id, a trace
// (all but /health), the headers of every answer, an answer to an error or a panic, a
// line in the log and their place in the metrics. A path or a method that is not
// routed is ErrNoRoute or ErrWrongMethod.
func (h HTTP) Echo() *echo.Echo {
	e := echo.New()
	e.IPExtractor = h.Client
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		if !c.Response().Committed {
			h.WriteError(err, c)
		}
	}
	e.Use(h.observe, recovered)
	e.Use(h.Use...)
	e.Use(h.routed)
	return e
}

// clientGone is the status that is logged and counted of a request whose client went away before it could be
// answered. No client sees it; Caddy and nginx log the same.
const clientGone = 499

// observe is the outermost handler, so that what it logs and counts is what the client gets, or clientGone.
func (h HTTP) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := h.Now()
		maps.Copy(c.Response().Header(), h.Headers)
		id := RequestID(c.Request())
		c.Response().Header()[RequestIDHeader] = []string{id}
		var span tracing.Span
		if h.Tracer != nil && c.Path() != "/health" {
			var ctx context.Context
			ctx, span = h.Tracer.Request(c.Request(), methodLabel(c), RouteLabel(c))
			c.SetRequest(c.Request().WithContext(ctx))
			span.Set("request_id", id)
		}
		connected := c.Request().Context()
		err := next(c)
		if err != nil {
			c.Error(err)
			if c.Response().Status >= http.StatusInternalServerError && connected.Err() != nil &&
				errors.Is(err, context.Canceled) {
				c.Response().Status = clientGone
			}
		}
		span.Answered(c.Response().Status)
		took := h.Now().Sub(began)
		h.Metrics.count(c, took)
		h.log(c, err, took)
		return nil
	}
}

// log writes the request's line in the access log. Its route is the pattern, because a
// path could hold anything. Its level is error for the status 500; debug for a request without an
// error that is a read (IsSafe) or has another answer than 2xx, such as the price of an unpaid call; else info.
func (h HTTP) log(c echo.Context, err error, took time.Duration) {
	ctx, status, level := c.Request().Context(), c.Response().Status, slog.LevelInfo
	switch {
	case status == http.StatusInternalServerError:
		level = slog.LevelError
	case err == nil && (IsSafe(c.Request().Method) || status/100 != 2):
		level = slog.LevelDebug
	}
	if !h.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", methodLabel(c)),
		slog.String("route", RouteLabel(c)),
		slog.Int("status", status),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.String("client", c.RealIP()),
		slog.String("request_id", c.Response().Header().Get(RequestIDHeader)),
		slog.String("trace_id", tracing.ID(ctx)),
	}
	if err != nil && (h.LogErrors || status >= http.StatusInternalServerError) {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	h.Log.LogAttrs(context.Background(), level, "request", attrs...) // a context with a trace would add its id again
}

// recovered turns a panic into an error that holds its stack. It lets http.ErrAbortHandler pass, with which a handler
// drops the connection.
func recovered(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler: // net/http compares it so
				panic(p)
			default:
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		return next(c)
	}
}

// Errors of requests that no route's handler sees.
var (
	ErrNoRoute     = errors.New("no such route")
	ErrWrongMethod = errors.New("method not allowed")
)

// routed refuses what has no route, and sets the request's timeout. To echo, a parameter at the end
// of a route is the whole rest of the path: a path with more slashes than its route is refused here.
func (h HTTP) routed(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if path := cmp.Or(r.URL.RawPath, r.URL.Path); c.Path() == "" ||
			strings.Count(path, "/") != strings.Count(c.Path(), "/") {
			c.SetPath("")
			return ErrNoRoute
		}
		if allow, wrong := c.Get(echo.ContextKeyHeaderAllow).(string); wrong {
			if h.Options && r.Method == http.MethodOptions {
				return next(c) // echo's own answer
			}
			if !h.Options {
				allow = strings.TrimPrefix(allow, http.MethodOptions+", ")
			}
			c.Response().Header().Set(echo.HeaderAllow, allow)
			return ErrWrongMethod
		}
		if h.Timeout > 0 {
			ctx := context.WithValue(r.Context(), untimedKey{}, r.Context())
			ctx, cancel := context.WithTimeout(ctx, h.Timeout)
			defer cancel()
			c.SetRequest(r.WithContext(ctx))
		}
		return next(c)
	}
}

type untimedKey struct{}

// Untimed returns what a request's context was before Timeout bounded it: it ends when the client hangs up, and has no
// value that was set since. A context without such a bound is returned as it is.
func Untimed(ctx context.Context) context.Context {
	if before, ok := ctx.Value(untimedKey{}).(context.Context); ok {
		return before
	}
	return ctx
}

// IsSafe reports whether a method is GET, HEAD or OPTIONS, which only read (RFC 9110, section 9.2.1).
func IsSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// RouteLabel returns the pattern of the request's route, or "none" where it has none.
func RouteLabel(c echo.Context) string { return cmp.Or(c.Path(), "none") }

// methodLabel returns the request's method if it is one of the usual ones, else "other".
func methodLabel(c echo.Context) string {
	switch m := c.Request().Method; m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return m
	default:
		return "other"
	}
}

// HTTPMetrics counts and times requests. A client cannot make up values of its labels.
type HTTPMetrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// NewHTTPMetrics registers NAME_http_requests_total and
// NAME_http_request_duration_seconds.
func NewHTTPMetrics(r prometheus.Registerer, name string, buckets []float64) (*HTTPMetrics, error) {
	m := &HTTPMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name + "_http_requests_total", Help: "Requests answered, by route, method and status.",
		}, []string{"route", "method", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name + "_http_request_duration_seconds", Help: "Time to answer a request, by route and method.",
			Buckets: buckets,
		}, []string{"route", "method"}),
	}
	return m, Register(r, m.requests, m.durations)
}

func (m *HTTPMetrics) count(c echo.Context, took time.Duration) {
	route, method := RouteLabel(c), methodLabel(c)
	m.requests.WithLabelValues(route, method, strconv.Itoa(c.Response().Status)).Inc()
	m.durations.WithLabelValues(route, method).Observe(took.Seconds())
}

// Register registers all collectors and returns all errors.
func Register(r prometheus.Registerer, all ...prometheus.Collector) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

// Failure is a row of a service's one table from errors to answers. The rest of
// the row is the status, and what the service's contract has as a body.
type Failure interface{ Sentinel() error }

// Find returns the first row of the table whose sentinel err is, or other. What
// an error holds that is not in the table must not reach the client.
func Find[F Failure](table []F, err error, other F) F {
	for _, f := range table {
		if errors.Is(err, f.Sentinel()) {
			return f
		}
	}
	return other
}

// Errors of a request's body.
var (
	ErrMediaType    = errors.New("body is not application/json")
	ErrBodyTooLarge = errors.New("body is too large")
	ErrBodyRead     = errors.New("body could not be read to its end")
)

// readAtOnce is the largest Content-Length, in bytes, for which ReadBody allocates the whole body
// before reading it.
const readAtOnce = 512

// ReadBody reads a body of at most limit bytes. Its errors wrap ErrBodyTooLarge or ErrBodyRead.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, ErrBodyTooLarge
	}
	if n := r.ContentLength; n >= 0 && n <= readAtOnce { // net/http ends it there
		body := make([]byte, n)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBodyRead, err)
		}
		return body, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, ErrBodyTooLarge
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBodyRead, err)
	}
	return body, nil
}

// IsJSON reports whether the headers declare a body of plain JSON.
func IsJSON(h http.Header) bool {
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return false
	}
	if h.Get("Content-Type") == "application/json" { // nearly always
		return true
	}
	declared, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && declared == "application/json"
}

// RequestIDHeader names a request: in the request, in its answer and in the log.
const RequestIDHeader = "X-Request-Id"

var wellFormedID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// RequestID returns the id in the request's RequestIDHeader if it is 1 to 64
// characters of A-Z a-z 0-9 . _ -, else a new one.
func RequestID(r *http.Request) string {
	if id := r.Header.Get(RequestIDHeader); id != "" && wellFormedID.MatchString(id) {
		return id
	}
	return rand.Text()
}
