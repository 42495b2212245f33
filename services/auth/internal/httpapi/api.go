package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/auth/internal/access"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// Options are the parts of the API. All fields are required unless noted.
type Options struct {
	*web.Web
	// GuardToken is what a proxy of no trusted address sends to be trusted; empty: no such proxy is trusted.
	GuardToken string
	// Health returns an error while a store does not answer.
	Health func(context.Context) error
	Tracer *tracing.Tracer // nil: requests are not traced
	// QR returns a text as a QR code in SVG; nil: answers have none.
	QR func(text string) (svg string, err error)
	// Pages adds the routes of the pages; nil: there are none.
	Pages func(*echo.Echo)
	// Refusal writes the page of an application's refusal for a person; the application is zero with the
	// reason access.UnknownApp. to is the path on its host that leads back. nil: the answer is JSON.
	Refusal func(
		c echo.Context, status int, reason access.Reason, app application.Application, by access.Caller, to string,
	) error
	// SignInPage writes a page of a login at an application; nil: the OpenID Connect provider is off.
	SignInPage func(c echo.Context, page web.OIDCPage) error
}

// api is what all handlers have: the options, guards and answers. Most handlers are methods
// of one type for each capability.
type api struct {
	Options
	warnUntrusted func() // logs once that a proxy is not in TRUSTED_PROXIES
}

// timeout bounds the work for a request that is not detached, so that its client waits no longer
// because a store does not answer.
const timeout = 4500 * time.Millisecond

// New checks the options and returns the handler of auth's address.
func New(o Options) (http.Handler, error) {
	if o.Web == nil || o.Health == nil {
		return nil, errors.New("httpapi: a required option is not set")
	}
	a := &api{o, sync.OnceFunc(func() {
		o.Log.Warn("a request to an application was refused, because TRUSTED_PROXIES does not name the proxy that " +
			"asked about it")
	})}
	e := service.HTTP{
		Log: o.Log, Metrics: o.Metrics.Requests, Now: o.Now, Tracer: o.Tracer,
		Client:     o.Client,
		WriteError: writeError, Timeout: timeout,
		Headers: http.Header{"Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"}},
	}.Echo()
	a.route(e)
	if o.Pages != nil {
		o.Pages(e)
	}
	return clientaddr.WithToken(o.GuardToken, e), nil
}

// answer is what a handler returns beside a nil error.
type answer struct {
	status int
	body   any
}

// done is the answer {"ok": true}.
var done = answer{http.StatusOK, struct {
	OK bool `json:"ok"`
}{true}}

// handler answers a request. It sets headers and does not write. s is zero in handlers that neither authenticated nor
// loggedIn wraps. An answer beside an error is not written.
type handler func(c echo.Context, s web.Caller) (answer, error)

// answered returns a handler of echo that writes the answer of h, or returns its error.
func answered(h handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		ans, err := h(c, web.Caller{})
		if err != nil {
			return err
		}
		if b, ok := ans.body.(blob); ok {
			return c.Blob(ans.status, b.mediaType, b.content)
		}
		if ans.status == http.StatusNoContent {
			return c.NoContent(ans.status)
		}
		return writeJSON(c, ans.status, ans.body)
	}
}

// writeJSON encodes an answer before it writes any of it.
func writeJSON(c echo.Context, status int, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return c.Blob(status, "application/json", data)
}

// healthy is GET /health: whether SQL and Redis answer. web.ErrUnhealthy.
func (a *api) healthy(c echo.Context, _ web.Caller) (answer, error) {
	if err := a.Health(c.Request().Context()); err != nil {
		a.Log.WarnContext(c.Request().Context(), "health check failed", "error", err)
		return answer{}, web.ErrUnhealthy
	}
	return answer{http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"}}, nil
}

// maxBody bounds a request body, in bytes.
const maxBody = 64 << 10

// decode reads the body, one JSON object, into v, a pointer to a struct. Names match exactly
// and occur once; unknown names are ignored, and a member that is null is missing. A body of another
// media type is refused before it is read, so that a form of a foreign page cannot log a user in.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	if r.ContentLength > maxBody {
		return service.ErrBodyTooLarge
	}
	if r.ContentLength != 0 && !service.IsJSON(r.Header) {
		return service.ErrMediaType
	}
	body, err := service.ReadBody(w, r, maxBody)
	if err != nil {
		return err
	}
	if err := strictjson.Unmarshal(body, v, strictjson.Rules{AllowUnknown: true, AllowNull: true}); err != nil {
		return fmt.Errorf("%w: %w", web.ErrMalformed, err)
	}
	return nil
}

// with returns a handler that calls h with the body of the request (decode).
func with[T any](h func(c echo.Context, s web.Caller, body T) (answer, error)) handler {
	return func(c echo.Context, s web.Caller) (answer, error) {
		var body T
		if err := decode(c.Response(), c.Request(), &body); err != nil {
			return answer{}, err
		}
		return h(c, s, body)
	}
}

// byID returns a handler that calls h with the number that the path has as its id, or returns missing where it is none.
func byID(missing error, h func(c echo.Context, s web.Caller, id int64) (answer, error)) handler {
	return func(c echo.Context, s web.Caller) (answer, error) {
		id, err := web.ParseID(c.Param("id"))
		if err != nil {
			return answer{}, missing
		}
		return h(c, s, id)
	}
}
