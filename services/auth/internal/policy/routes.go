package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// RouteChange are the fields of a route to set. A nil Pin keeps the route's pin unless the address changes; an empty
// Pin has the next probe take a new one.
type RouteChange struct {
	Upstream           string
	Strip              bool
	UserHeader, Recipe string
	Pin                *string
}

// SetRoute sets the route of an application on behalf of an admin or user.Operator. application.ErrNotFound,
// ErrUpstream, ErrUpstreamBlocked, ErrUserHeader, ErrPin, and ErrURL where the application is the portal's whole host;
// user.ErrNotAdmin, session.ErrNotFound.
func (s *Service) SetRoute(ctx context.Context, by session.Session, slug string, c RouteChange) error {
	r, err := s.checkRoute(ctx, c.route())
	if err != nil {
		return err
	}
	return s.changeRoute(ctx, by, slug, func(a *application.Application) error {
		if !s.routable(*a) {
			return application.ErrURL
		}
		before := a.Route
		a.Route = r
		if c.Pin == nil && before.Upstream == r.Upstream {
			a.Route.Pin = before.Pin
		}
		return nil
	})
}

// routable reports whether an application may have a route. One that is the portal's whole host may not: proxies would
// lead the requests of the API there, with passwords. They compare hosts without ports.
func (s *Service) routable(a application.Application) bool {
	return a.URL != "/" && (!a.HasHost() || hostname(a.URL) != hostname(s.o.PublicURL))
}

// hostname returns the host of an origin, in lower case and without port and trailing dot.
func hostname(origin string) string {
	u, err := url.Parse(strings.ToLower(origin))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(u.Hostname(), ".")
}

// route returns the route that a change makes where there was none.
func (c RouteChange) route() application.Route {
	r := application.Route{Upstream: c.Upstream, Strip: c.Strip, UserHeader: c.UserHeader, Recipe: c.Recipe}
	if c.Pin != nil {
		r.Pin = *c.Pin
	}
	return r
}

// RemoveRoute removes the route of an application on behalf of an admin or user.Operator. application.ErrNotFound,
// ErrNoRoute; user.ErrNotAdmin, session.ErrNotFound.
func (s *Service) RemoveRoute(ctx context.Context, by session.Session, slug string) error {
	return s.changeRoute(ctx, by, slug, func(a *application.Application) error {
		if a.Route == (application.Route{}) {
			return application.ErrNoRoute
		}
		a.Route = application.Route{}
		return nil
	})
}

func (s *Service) changeRoute(
	ctx context.Context, by session.Session, slug string, change func(*application.Application) error,
) error {
	defer s.snapshot.Outdate()
	return s.o.Applications.ChangeApplication(ctx, slug, change, by)
}

// checkRoute returns a route in its one spelling. Errors are those of Route.Check; ErrUpstreamBlocked also for an
// address of auth or its stores, and for one that the operator of a proxy has to name and none has.
func (s *Service) checkRoute(ctx context.Context, r application.Route) (application.Route, error) {
	r, err := r.Check()
	if err != nil {
		return application.Route{}, err
	}
	_, authority, _ := strings.Cut(r.Upstream, "://")
	if slices.Contains(s.o.Own(ctx), authority) {
		return application.Route{}, application.ErrUpstreamBlocked
	}
	if !application.NeedsNaming(r.Upstream) {
		return r, nil
	}
	proxies, err := s.o.Proxies.Proxies(ctx)
	if err != nil {
		return application.Route{}, err
	}
	for _, p := range proxies {
		if slices.ContainsFunc(p.Named, func(entry string) bool { return application.IsNamed(r.Upstream, entry) }) {
			return r, nil
		}
	}
	return application.Route{}, application.ErrUpstreamBlocked
}

// RouteList is the answer to a proxy that asks for the routes.
type RouteList struct {
	// Applications are those with a route that can be served now, by slug.
	Applications []application.Application
	// Own are the addresses, host:port, of auth and its stores.
	Own []string
	// Probes are those to try: of the last 30 s, at most 64, that no proxy has answered yet.
	Probes []application.Probe
}

// RoutesFor returns the routes as stored now, and keeps what a proxy reports. While Redis does not answer it keeps the
// pins alone, and the list has no probes.
func (s *Service) RoutesFor(
	ctx context.Context, p application.Proxy, answers []application.Probe,
) (RouteList, error) {
	apps, err := s.o.Applications.Applications(ctx)
	if err != nil {
		return RouteList{}, err
	}
	apps, err = s.pinned(ctx, apps, answers)
	if err != nil {
		return RouteList{}, err
	}
	list := s.listOf(ctx, apps)
	for _, a := range apps {
		if waitsForPin(a) {
			s.ask(ctx, application.Probe{ID: pinProbe(a), To: a.Route.Upstream})
		}
	}
	list.Probes, err = s.o.Proxies.Report(ctx, p, answers)
	if err != nil {
		s.o.Log.WarnContext(ctx, "what a proxy reports is not kept", "error", err)
	}
	return list, nil
}

// waitsForPin reports whether the route of an application cannot be served before a proxy has told its pin.
func waitsForPin(a application.Application) bool { return a.Route.IsHTTPS() && a.Route.Pin == "" }

// pinProbe returns the ID of the probe that finds the pin of an application's route. It is another one for each
// application and address.
func pinProbe(a application.Application) string {
	sum := sha256.Sum256([]byte(a.Route.Upstream))
	return "pin-" + a.Slug + "-" + hex.EncodeToString(sum[:8])
}

// pinned stores the pins that answers to probes have for routes without a pin, and returns the applications with them.
func (s *Service) pinned(
	ctx context.Context, apps []application.Application, answers []application.Probe,
) ([]application.Application, error) {
	changed := false
	for _, a := range apps {
		if !waitsForPin(a) {
			continue
		}
		i := slices.IndexFunc(answers, func(p application.Probe) bool { return p.ID == pinProbe(a) && p.Pin != "" })
		if i < 0 {
			continue
		}
		if _, err := (application.Route{Upstream: a.Route.Upstream, Pin: answers[i].Pin}).Check(); err != nil {
			continue
		}
		if err := s.o.Applications.PinRoute(ctx, a.Slug, a.Route.Upstream, answers[i].Pin); err != nil {
			return nil, err
		}
		changed = true
	}
	if !changed {
		return apps, nil
	}
	s.snapshot.Outdate()
	return s.o.Applications.Applications(ctx)
}

// ask has the proxies try an address. A failure is only logged: the next question of a proxy asks again.
func (s *Service) ask(ctx context.Context, p application.Probe) {
	if err := s.o.Proxies.Ask(ctx, p); err != nil {
		s.o.Log.WarnContext(ctx, "proxies are not asked to try an address", "error", err)
	}
}
