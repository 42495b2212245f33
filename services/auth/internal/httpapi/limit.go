package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
)

// networks are the keys of the login limit: the client address, and for IPv6 the
// networks around it.
func (a *api) networks(c echo.Context, _ caller) []string {
	return clientaddr.Groups(a.TrustedProxies.Of(c.Request()))
}

// userID is the key of the limit of wrong current passwords, so that a stolen session
// does not lead to the password.
func userID(_ echo.Context, s caller) []string { return []string{strconv.FormatInt(s.UserID, 10)} }

// limited counts an attempt before the handler runs, and refunds it unless the answer is
// 401. When the client hangs up the work is finished all the same, and the attempt counts
// or not as if it had waited. A 503 because the password queue is full is refunded too:
// nothing was compared. The queue is fair between networks, which protects others.
func (a *api) limited(limit string, limiter *ratelimit.Limiter, keys func(echo.Context, caller) []string, h handler) handler {
	return func(c echo.Context, s caller) (answer, error) {
		defer a.detach(c)()
		ctx := c.Request().Context()
		decision, err := limiter.Spend(ctx, keys(c, s)...)
		if err != nil {
			a.Metrics.decided(limit, decisionError)
			return answer{}, err
		}
		if !decision.Allowed {
			setLimitHeaders(c, decision)
			c.Response().Header().Set("Retry-After", strconv.Itoa(max(1, decision.ResetSeconds())))
			a.Metrics.decided(limit, decisionRefused)
			a.audit(c, "limited", "route", service.RouteLabel(c))
			return answer{}, errLimited
		}
		a.Metrics.decided(limit, decisionTaken)
		status := http.StatusInternalServerError // of a panic, which is not a wrong password
		defer func() {
			if status != http.StatusUnauthorized {
				decision = a.refund(ctx, limit, limiter, decision)
			}
			setLimitHeaders(c, decision)
		}()
		ans, err := h(c, s)
		status = ans.status
		if err != nil {
			status = failureOf(err).status
		}
		return ans, err
	}
}

// refundTimeout bounds how long an answer waits for the refund, as the store may have
// delayed it already.
const refundTimeout = 500 * time.Millisecond

// refund refunds an attempt and returns the new state. After a failure the attempt
// counts until its window ends.
func (a *api) refund(ctx context.Context, limit string, limiter *ratelimit.Limiter, d ratelimit.Decision) ratelimit.Decision {
	ctx, cancel := context.WithTimeout(ctx, refundTimeout)
	defer cancel()
	refunded, err := limiter.Refund(ctx, d)
	if err != nil {
		a.Metrics.decided(limit, decisionError)
		a.Log.ErrorContext(ctx, "refund attempt failed", "error", err)
		return d
	}
	a.Metrics.decided(limit, decisionRefunded)
	return refunded
}

// setLimitHeaders sets the headers of draft-ietf-httpapi-ratelimit-headers-06, the
// "standard" ones of the contract (section 8).
func setLimitHeaders(c echo.Context, d ratelimit.Decision) {
	h := c.Response().Header()
	h.Set("RateLimit-Policy", fmt.Sprintf("%d;w=%d", d.Limit, d.WindowSeconds()))
	h.Set("RateLimit-Limit", strconv.Itoa(d.Limit))
	h.Set("RateLimit-Remaining", strconv.Itoa(d.Remaining))
	h.Set("RateLimit-Reset", strconv.Itoa(d.ResetSeconds()))
}

// passwordTimeout bounds a request that computes a password, which may take
// seconds on a small machine. Waiting in the queue, and each step of a store,
// have their own, closer bounds.
const passwordTimeout = 30 * time.Second

// detach sets, for a request that computes a password, a context that does not end when the
// client hangs up, has passwordTimeout, and names the network for the queue. The returned
// function restores the request.
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
