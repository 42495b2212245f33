package httpapi

import (
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// networks returns the keys of the login limit, the networks of the client's address.
func (a *api) networks(c echo.Context, _ web.Caller) []string { return a.Networks(c.Request()) }

// userID returns the key of the limit of wrong current passwords, so that a stolen session does not
// lead to the password.
func userID(_ echo.Context, s web.Caller) []string { return []string{strconv.FormatInt(s.UserID, 10)} }

// limited returns a handler that runs h behind a limit (web.Web.Limited), with its request detached (detach).
func (a *api) limited(
	limit string, limiter *ratelimit.Limiter, keys func(echo.Context, web.Caller) []string, h handler,
) handler {
	return func(c echo.Context, s web.Caller) (ans answer, err error) {
		defer a.detach(c)()
		refused := a.Limited(c.Response(), c.Request(), service.RouteLabel(c), limit, limiter, keys(c, s), func() int {
			if ans, err = h(c, s); err != nil {
				return web.FailureOf(err).Status
			}
			return ans.status
		})
		if refused != nil {
			return answer{}, refused
		}
		return ans, err
	}
}

// proving sends the RateLimit headers of a proof of who the user is, where one was attempted.
func (a *api) proving(h handler) handler {
	return func(c echo.Context, s web.Caller) (answer, error) {
		ctx, limit := account.WatchLimit(c.Request().Context())
		c.SetRequest(c.Request().WithContext(ctx))
		ans, err := h(c, s)
		if limit.Limit > 0 {
			web.SetLimitHeaders(c.Response(), *limit)
		}
		return ans, err
	}
}

// counted passes at most web.LinkAttempts requests of an address in web.LinkWindow, whatever
// their answers. It detaches them, and their actor is anonymous.
func (a *api) counted(h handler) handler {
	return func(c echo.Context, s web.Caller) (answer, error) {
		defer a.detach(c)()
		c.SetRequest(a.As(c.Response(), c.Request(), web.Caller{}))
		if err := a.Counted(c.Response(), c.Request(), service.RouteLabel(c)); err != nil {
			return answer{}, err
		}
		return h(c, s)
	}
}

// detach replaces the request by a detached one (web.Web.Detach). The returned function restores it.
func (a *api) detach(c echo.Context) func() {
	r := c.Request()
	detached, cancel := a.Detach(r)
	c.SetRequest(detached)
	return func() {
		cancel()
		c.SetRequest(r)
	}
}
