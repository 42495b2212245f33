package httpapi

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// proxyRoutes answers proxies that ask for the routes of applications.
type proxyRoutes struct {
	*api
	// answering bounds how many questions are answered at once, waiting how many more wait.
	answering, waiting chan struct{}
}

const (
	maxAnswering = 4
	maxWaiting   = 64
)

func newProxyRoutes(a *api) proxyRoutes {
	return proxyRoutes{a, make(chan struct{}, maxAnswering), make(chan struct{}, maxWaiting)}
}

// Bounds of what a proxy reports.
const (
	maxReported = 2 * application.MaxApplications
	maxNamed    = 64
	maxMS       = 60_000
)

// The forms of what a proxy reports, which is stored and shown. Most values of another form are left out; a question
// of a proxy whose ID has another form is refused.
var (
	reportedID   = regexp.MustCompile(`\A[A-Za-z0-9_-]{1,64}\z`)
	reportedWord = regexp.MustCompile(`\A[a-z_-]{1,32}\z`)
	reportedETag = regexp.MustCompile(`\A"[0-9a-f]{1,64}"\z`)
	reportedHost = regexp.MustCompile(`\A[0-9A-Za-z._:/\[\]-]{1,255}\z`)
)

// questionBody is the question of a proxy.
type questionBody struct {
	Proxy     string            `json:"proxy"`
	Apps      string            `json:"apps"`
	TLS       string            `json:"tls"`
	Have      string            `json:"have"`
	Skipped   map[string]string `json:"skipped"`
	Certified []string          `json:"certified"`
	Named     []string          `json:"named"`
	Probed    []probedBody      `json:"probed"`
}

type probedBody struct {
	ID     string `json:"id"`
	Status int    `json:"status"`
	Error  string `json:"error"`
	MS     int    `json:"ms"`
	Pin    string `json:"pin"`
}

// routesBody is the answer to POST /internal/routes. Its ETag does not depend on the probes.
type routesBody struct {
	Version   int         `json:"version"`
	ETag      string      `json:"etag"`
	Household string      `json:"household"`
	Apps      []routeBody `json:"apps"`
	Never     []string    `json:"never"`
	Probe     []probeBody `json:"probe,omitempty"`
}

// routeBody is the route of an application, at a host or at a path of the portal's host.
type routeBody struct {
	Slug       string `json:"slug"`
	Name       string `json:"name"`
	Host       string `json:"host,omitempty"`
	Path       string `json:"path,omitempty"`
	To         string `json:"to"`
	Strip      bool   `json:"strip,omitempty"`
	UserHeader string `json:"user_header,omitempty"`
	Pin        string `json:"pin,omitempty"`
}

type probeBody struct {
	ID string `json:"id"`
	To string `json:"to"`
}

// list is POST /internal/routes. It takes what a proxy reports and answers with the routes, or with 204 where the proxy
// has them already and there is nothing to probe. With CompatV0, for anybody but trusted proxies, and for requests that
// a proxy forwards, it returns service.ErrNoRoute.
func (a proxyRoutes) list(c echo.Context, _ web.Caller) (answer, error) {
	r := c.Request()
	if a.CompatV0 || !a.TrustedProxies.Sent(r) || isForwarded(r.Header) {
		return answer{}, service.ErrNoRoute
	}
	var q questionBody
	if err := decode(c.Response(), r, &q); err != nil {
		return answer{}, err
	}
	if !reportedID.MatchString(q.Proxy) {
		return answer{}, web.ErrMalformed
	}
	if err := a.queue(r.Context()); err != nil {
		return answer{}, err
	}
	defer func() { <-a.answering }()
	listed, err := a.Policy.RoutesFor(r.Context(), q.proxy(), q.probes())
	if err != nil {
		return answer{}, err
	}
	household, err := a.Accounts.Household(r.Context())
	if err != nil {
		return answer{}, err
	}
	body, err := routesOf(listed, household.Name)
	if err != nil {
		return answer{}, err
	}
	if body.ETag == q.Have && len(body.Probe) == 0 {
		return answer{http.StatusNoContent, nil}, nil
	}
	return answer{http.StatusOK, body}, nil
}

// queue waits until the question may be answered; then the caller must receive from answering. web.ErrQueueFull.
func (a proxyRoutes) queue(ctx context.Context) error {
	select {
	case a.waiting <- struct{}{}:
		defer func() { <-a.waiting }()
	default:
		return web.ErrQueueFull
	}
	select {
	case a.answering <- struct{}{}:
		return nil
	case <-ctx.Done():
		return web.ErrQueueFull
	}
}

// isForwarded reports whether a request is one that a proxy forwards for a client.
func isForwarded(h http.Header) bool {
	for name := range h {
		if name == "Forwarded" || name == "Via" || strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}

// proxy returns what a proxy reports of itself, without values of another form.
func (q questionBody) proxy() application.Proxy {
	p := application.Proxy{ID: q.Proxy, Skipped: map[string]string{}}
	if reportedWord.MatchString(q.Apps) {
		p.Apps = q.Apps
	}
	if reportedWord.MatchString(q.TLS) {
		p.TLS = q.TLS
	}
	if reportedETag.MatchString(q.Have) {
		p.Have = q.Have
	}
	for slug, reason := range q.Skipped {
		if len(p.Skipped) < maxReported && application.CheckSlug(slug) == nil && reportedWord.MatchString(reason) {
			p.Skipped[slug] = reason
		}
	}
	for _, slug := range q.Certified[:min(len(q.Certified), maxReported)] {
		if application.CheckSlug(slug) == nil {
			p.Certified = append(p.Certified, slug)
		}
	}
	for _, entry := range q.Named[:min(len(q.Named), maxNamed)] {
		if reportedHost.MatchString(entry) {
			p.Named = append(p.Named, entry)
		}
	}
	return p
}

// probes returns those of the first maxReported answers to probes whose ID, and status or error, are valid.
func (q questionBody) probes() []application.Probe {
	var probes []application.Probe
	for _, p := range q.Probed[:min(len(q.Probed), maxReported)] {
		status := p.Status >= 100 && p.Status <= 599 && p.Error == ""
		if reportedID.MatchString(p.ID) && (status || p.Status == 0 && reportedWord.MatchString(p.Error)) {
			probes = append(probes, application.Probe{
				ID: p.ID, Status: p.Status, Error: p.Error, MS: min(max(p.MS, 0), maxMS), Pin: p.Pin,
			})
		}
	}
	return probes
}

func routesOf(listed policy.RouteList, household string) (routesBody, error) {
	body := routesBody{
		Version: 1, Household: household, Apps: make([]routeBody, len(listed.Applications)),
		Never: list(slices.Sorted(slices.Values(listed.Own))),
	}
	for i, app := range listed.Applications {
		r := routeBody{
			Slug: app.Slug, Name: app.Name,
			To: app.Route.Upstream, UserHeader: app.Route.UserHeader, Pin: app.Route.Pin,
		}
		if app.HasHost() {
			r.Host = app.OwnHost()
		} else {
			r.Path, r.Strip = app.URL, app.Route.Strip
		}
		body.Apps[i] = r
	}
	var err error
	if body.ETag, err = listed.ETag(household); err != nil {
		return routesBody{}, err
	}
	for _, p := range listed.Probes {
		body.Probe = append(body.Probe, probeBody{p.ID, p.To})
	}
	return body, nil
}
