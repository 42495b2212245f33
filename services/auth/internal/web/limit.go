package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
)

// Networks returns what a client's address counts as for limits: itself, or the /64, /56 and /48 of IPv6 (AUTH-5.7).
func (w *Web) Networks(r *http.Request) []string {
	return clientaddr.Groups(w.TrustedProxies.Of(r))
}

func (w *Web) fromNetwork(ctx context.Context, r *http.Request) context.Context {
	return password.From(ctx, clientaddr.Neighborhood(w.TrustedProxies.Of(r)))
}

// Limited counts an attempt before do runs, and refunds it unless do returns the status 401.
// On an error, ErrLimited or one of the store, do did not run. route is the pattern of the
// request's route, for the log.
//
// When the client hangs up the work is finished all the same, if the request is detached,
// and the attempt counts or not as if the client had waited. A 503 because the password queue
// is full is refunded too: nothing was compared, and the queue is fair between networks.
func (w *Web) Limited(
	rw http.ResponseWriter, r *http.Request, route, limit string, limiter *ratelimit.Limiter, keys []string,
	do func() (status int),
) error {
	decision, err := w.spend(rw, r, route, limit, limiter, keys)
	if err != nil {
		return err
	}
	ctx := r.Context()
	status := http.StatusInternalServerError // of a panic, which is not a wrong password
	defer func() {
		if status != http.StatusUnauthorized {
			decision = w.refund(ctx, limit, limiter, decision)
		}
		SetLimitHeaders(rw, decision)
	}()
	status = do()
	return nil
}

// spend counts an attempt. ErrLimited, for which it sets the headers of the answer.
func (w *Web) spend(
	rw http.ResponseWriter, r *http.Request, route, limit string, limiter *ratelimit.Limiter, keys []string,
) (ratelimit.Decision, error) {
	decision, err := limiter.Spend(r.Context(), keys...)
	if err != nil {
		w.Metrics.decided(limit, decisionError)
		return ratelimit.Decision{}, err
	}
	if !decision.Allowed {
		refusedHeaders(rw, decision)
		w.Metrics.decided(limit, decisionRefused)
		w.LogEvent(rw, r, "limited", "route", route)
		return ratelimit.Decision{}, ErrLimited
	}
	w.Metrics.decided(limit, decisionTaken)
	return decision, nil
}

// LinkAttempts and LinkWindow limit what LinkLimit counts, of an address or a user.
const (
	LinkAttempts = 10
	LinkWindow   = time.Minute
)

// Counted counts a request that uses a link, such as one to set up, that looks at an invite by the API, or that reports
// a forgotten password, whatever its answer. A page of another site can use up no limit of its visitor.
// ErrLimited, ErrForeignPage.
func (w *Web) Counted(rw http.ResponseWriter, r *http.Request, route string) error {
	return w.countedHere(rw, r, route, LimitLink, w.LinkLimit)
}

// countedHere is counted for a request that no page of another site may send.
func (w *Web) countedHere(
	rw http.ResponseWriter, r *http.Request, route, limit string, limiter *ratelimit.Limiter,
) error {
	if isForeign(r) || isAhead(r) {
		w.LogEvent(rw, r, "origin_refused")
		return ErrForeignPage
	}
	return w.counted(rw, r, route, limit, limiter)
}

// CheckPart returns ErrForeignPage, and logs it, for a part of a page of another site, such as a picture or a frame,
// and for a page that is fetched ahead: such a request could use up a limit of the page's visitor, unseen. A page that
// a person opens is none, from another site too.
func (w *Web) CheckPart(rw http.ResponseWriter, r *http.Request) error {
	dest := r.Header.Get("Sec-Fetch-Dest") // of all browsers that name the site
	if isForeign(r) && dest != "" && dest != "document" || isAhead(r) {
		w.LogEvent(rw, r, "origin_refused")
		return ErrForeignPage
	}
	return nil
}

func isForeign(r *http.Request) bool { return r.Header.Get("Sec-Fetch-Site") == "cross-site" }

// isAhead reports whether a browser fetches a page before a person opens it. A page of another site can have it do so
// (speculation rules), and Chromium then says that no site did (Sec-Fetch-Site: none). What is refused is fetched again
// when the person opens it.
func isAhead(r *http.Request) bool { return strings.HasPrefix(r.Header.Get("Sec-Purpose"), "prefetch") }

func (w *Web) counted(rw http.ResponseWriter, r *http.Request, route, limit string, limiter *ratelimit.Limiter) error {
	decision, err := w.spend(rw, r, route, limit, limiter, w.Networks(r))
	if err == nil {
		SetLimitHeaders(rw, decision)
	}
	return err
}

// refundTimeout bounds how long an answer waits for the refund, as the store may have
// delayed it already.
const refundTimeout = 500 * time.Millisecond

// refund refunds an attempt and returns the new state. Where that fails it returns d, and the attempt may count until
// its window ends.
func (w *Web) refund(
	ctx context.Context, limit string, limiter *ratelimit.Limiter, d ratelimit.Decision,
) ratelimit.Decision {
	ctx, cancel := context.WithTimeout(ctx, refundTimeout)
	defer cancel()
	refunded, err := limiter.Refund(ctx, d)
	if err != nil {
		w.Metrics.decided(limit, decisionError)
		w.Log.ErrorContext(ctx, "refund attempt failed", "error", err)
		return d
	}
	w.Metrics.decided(limit, decisionRefunded)
	return refunded
}

// SetLimitHeaders sets the RateLimit headers of draft-ietf-httpapi-ratelimit-headers-06 (AUTH-5.8).
func SetLimitHeaders(rw http.ResponseWriter, d ratelimit.Decision) {
	h := rw.Header()
	h.Set("RateLimit-Policy", fmt.Sprintf("%d;w=%d", d.Limit, d.WindowSeconds()))
	h.Set("RateLimit-Limit", strconv.Itoa(d.Limit))
	h.Set("RateLimit-Remaining", strconv.Itoa(d.Remaining))
	h.Set("RateLimit-Reset", strconv.Itoa(d.ResetSeconds()))
}

// refusedHeaders sets the headers of SetLimitHeaders, and when to try again.
func refusedHeaders(rw http.ResponseWriter, d ratelimit.Decision) {
	SetLimitHeaders(rw, d)
	rw.Header().Set("Retry-After", strconv.Itoa(max(1, d.ResetSeconds())))
}
