package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// csrfHeader carries the CSRF token, in both directions.
const csrfHeader = "X-CSRF-Token"

// authenticated passes requests of logged-in users only. The session is loaded and, unless the context is from
// session.WithoutRenewal, renewed; then the user is read. When one of the stores fails the answer is a 500. A session
// that the user's row does not admit is ended. Both cookies are sent again when they are old, because a browser counts
// from when it received them; not with an answer of 500 and above, and not with CompatV0.
func (a *api) authenticated(h handler) handler {
	return a.loggedIn(h, a.endDead)
}

// loggedIn is authenticated, but when the user was deleted it calls gone.
func (a *api) loggedIn(h, gone handler) handler {
	return func(c echo.Context, _ web.Caller) (answer, error) {
		s, err := a.Load(c.Response(), c.Request())
		if errors.Is(err, user.ErrNotFound) {
			return gone(c, s)
		}
		if err != nil {
			return answer{}, err
		}
		if !service.IsSafe(c.Request().Method) {
			c.SetRequest(a.As(c.Response(), c.Request(), s))
		}
		ans, err := h(c, s)
		if !a.CompatV0 && (err == nil || web.FailureOf(err).Status < http.StatusInternalServerError) {
			if err := a.Sessions.ResendStale(c.Response(), s.Current); err != nil {
				return answer{}, err
			}
		}
		return ans, err
	}
}

// endDead ends the session of a deleted user. session.ErrNotFound.
func (a *api) endDead(c echo.Context, s web.Caller) (answer, error) {
	if err := a.End(c.Response(), c.Request(), s); err != nil {
		return answer{}, err
	}
	return answer{}, session.ErrNotFound
}

// admin passes requests of admins only.
func (a *api) admin(h handler) handler {
	return func(c echo.Context, s web.Caller) (answer, error) {
		if err := a.CheckAdmin(c.Response(), c.Request(), s); err != nil {
			return answer{}, err
		}
		return h(c, s)
	}
}

// csrf passes requests with the session's CSRF token only. A refusal has the token, if there is one, in
// a header, which a foreign page cannot read.
func (a *api) csrf(h handler) handler {
	return func(c echo.Context, s web.Caller) (answer, error) {
		if err := a.CheckCSRF(c.Response(), c.Request(), s, c.Request().Header.Get(csrfHeader)); err != nil {
			setCSRFHeader(c, s.Session)
			return answer{}, err
		}
		return h(c, s)
	}
}

// stepUp is arrived for sessions whose user has proved lately who they are; it refuses others before the body arrives.
func (a *api) stepUp(h handler) handler {
	h = a.arrived(h)
	return func(c echo.Context, s web.Caller) (answer, error) {
		if err := a.Accounts.CheckFresh(s.Session, s.User); err != nil {
			return answer{}, err
		}
		return h(c, s)
	}
}

// arrived waits for the body and passes requests whose session has not ended meanwhile: the thief of a session could
// send the end of a body long after its beginning. From then on the request has its timeout anew.
func (a *api) arrived(h handler) handler {
	return func(c echo.Context, s web.Caller) (answer, error) {
		r := c.Request()
		if r.ContentLength == 0 || r.ContentLength > maxBody || !service.IsJSON(r.Header) {
			return h(c, s) // there is none, or decode refuses it unread
		}
		body, err := service.ReadBody(c.Response(), r, maxBody)
		if err != nil {
			return answer{}, err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), timeout)
		defer cancel()
		defer context.AfterFunc(service.Untimed(r.Context()), cancel)() // when the client hangs up
		r = r.WithContext(ctx)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		c.SetRequest(r)
		if err := a.Accounts.CheckLive(ctx, s.Session); err != nil {
			return answer{}, err
		}
		return h(c, s)
	}
}

func setCSRFHeader(c echo.Context, s session.Session) {
	if s.CSRFToken != "" {
		c.Response().Header().Set(csrfHeader, s.CSRFToken)
	}
}

// audit is web.Web.LogEvent.
func (a *api) audit(c echo.Context, event string, attrs ...any) {
	a.LogEvent(c.Response(), c.Request(), event, attrs...)
}
