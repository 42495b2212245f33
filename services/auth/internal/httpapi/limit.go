package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
)

// limitLogin limits failed logins by client address, and by the networks around
// an IPv6 address.
func (a *api) limitLogin(h handler) handler {
	return func(c echo.Context) (answer, error) {
		return a.limited(c, limitLogin, a.loginLimit, clientaddr.Groups(a.proxies.Of(c.Request())), h)
	}
}

// limitPassword limits wrong current passwords by user, so that a stolen session
// does not lead to the password.
func (a *api) limitPassword(h memberHandler) memberHandler {
	return func(c echo.Context, s caller) (answer, error) {
		return a.limited(c, limitPassword, a.passwordLimit, []string{strconv.FormatInt(s.UserID, 10)}, func(c echo.Context) (answer, error) { return h(c, s) })
	}
}

// limited takes an attempt before anything is looked at, and gives it back
// unless the answer is 401. The client may hang up: the work is finished all the
// same, and the attempt counts or not as if it had waited. A 503 because too many
// passwords wait gives it back too: nothing was compared. What keeps a storm of
// these from others is that passwords are computed fairly between networks.
func (a *api) limited(c echo.Context, limit string, limiter *ratelimit.Limiter, keys []string, h handler) (answer, error) {
	defer a.detach(c)()
	ctx := c.Request().Context()
	decision, err := limiter.Spend(ctx, keys...)
	if err != nil {
		a.metrics.decided(limit, decisionError)
		return answer{}, err
	}
	if !decision.Allowed {
		tellLimit(c, decision)
		c.Response().Header().Set("Retry-After", strconv.Itoa(max(1, decision.ResetSeconds())))
		a.metrics.decided(limit, decisionRefused)
		a.audit(c, "limited", "route", routeLabel(c))
		return answer{}, errLimited
	}
	a.metrics.decided(limit, decisionTaken)
	status := http.StatusInternalServerError // of a panic, which is no wrong password either
	defer func() {
		if status != http.StatusUnauthorized {
			decision = a.giveBack(ctx, limit, limiter, keys, decision)
		}
		tellLimit(c, decision)
	}()
	ans, err := h(c)
	status = ans.status
	if err != nil {
		status = failureOf(err).status
	}
	return ans, err
}

// refundTimeout is how long an answer waits for the attempt to be given back:
// the store may be what kept it waiting already.
const refundTimeout = 500 * time.Millisecond

// giveBack gives an attempt back and returns how things stand then. A failure is
// logged: the attempt is counted until its window ends.
func (a *api) giveBack(ctx context.Context, limit string, limiter *ratelimit.Limiter, keys []string, d ratelimit.Decision) ratelimit.Decision {
	ctx, cancel := context.WithTimeout(ctx, refundTimeout)
	defer cancel()
	refunded, err := limiter.Refund(ctx, d, keys...)
	if err != nil {
		a.metrics.decided(limit, decisionError)
		a.log.ErrorContext(ctx, "attempt not given back", "error", err)
		return d
	}
	a.metrics.decided(limit, decisionGivenBack)
	return refunded
}

// tellLimit sets the headers of draft-ietf-httpapi-ratelimit-headers-06, the
// "standard" ones of the contract (section 8).
func tellLimit(c echo.Context, d ratelimit.Decision) {
	h := c.Response().Header()
	h.Set("RateLimit-Policy", fmt.Sprintf("%d;w=%d", d.Limit, d.WindowSeconds()))
	h.Set("RateLimit-Limit", strconv.Itoa(d.Limit))
	h.Set("RateLimit-Remaining", strconv.Itoa(d.Remaining))
	h.Set("RateLimit-Reset", strconv.Itoa(d.ResetSeconds()))
}
