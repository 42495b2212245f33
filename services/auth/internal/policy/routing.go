package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/application"
)

// tagOf returns one half of a tag: 16 hexadecimal digits of the SHA-256 of what, as JSON.
func tagOf(what any) (string, error) {
	encoded, err := json.Marshal(what)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8]), nil
}

// ETag returns the tag, in quotes, of the list without its probes and of the household's name. Replicas, commands and
// restored backups need no versions: the same list has the same tag. The second half of a tag is of Own alone.
func (l RouteList) ETag(household string) (string, error) {
	type entry struct {
		Slug, Name, URL string
		Route           application.Route
	}
	entries := make([]entry, len(l.Applications))
	for i, a := range l.Applications {
		entries[i] = entry{a.Slug, a.Name, a.URL, a.Route}
	}
	routes, err := tagOf([]any{household, entries})
	if err != nil {
		return "", err
	}
	own, err := tagOf(slices.Sorted(slices.Values(l.Own)))
	return `"` + routes + own + `"`, err
}

// sameRoutes reports whether two tags are of the same routes. Only their first halves are compared,
// because the addresses of the replicas of auth differ.
func sameRoutes(a, b string) bool { return a[:len(a)/2] == b[:len(b)/2] }

// Routing is how far the proxies have taken over the route of an application.
type Routing struct {
	// Proxies is how many asked for routes within the last 10 s; of more than 32, it is 32.
	Proxies int
	// Taken reports that there are some, and that all of them serve the route as it is stored.
	Taken bool
	// Skipped is why a proxy that has the present list leaves the route out; empty: none does.
	Skipped string
	// Certifies reports that a proxy gets certificates, Certified that one has that of the application's host.
	Certifies, Certified bool
}

// RoutingOf returns how far the proxies have taken over the route of an application. household is the
// household's name.
func (s *Service) RoutingOf(ctx context.Context, household string, a application.Application) (Routing, error) {
	apps, err := s.o.Applications.Applications(ctx)
	if err != nil {
		return Routing{}, err
	}
	list := s.listOf(ctx, apps)
	tag, err := list.ETag(household)
	if err != nil {
		return Routing{}, err
	}
	proxies, err := s.o.Proxies.Proxies(ctx)
	if err != nil {
		return Routing{}, err
	}
	listed := slices.ContainsFunc(list.Applications, func(l application.Application) bool { return l.Slug == a.Slug })
	r := Routing{Proxies: len(proxies), Taken: listed && len(proxies) > 0}
	for _, p := range proxies {
		current := sameRoutes(p.Have, tag)
		if !current || p.Skipped[a.Slug] != "" {
			r.Taken = false
		}
		if current && p.Skipped[a.Slug] != "" {
			r.Skipped = p.Skipped[a.Slug]
		}
		r.Certifies = r.Certifies || p.TLS != "" && p.TLS != "off"
		r.Certified = r.Certified || slices.Contains(p.Certified, a.Slug)
	}
	return r, nil
}

// listOf returns the list of the applications whose route can be served, by slug.
func (s *Service) listOf(ctx context.Context, apps []application.Application) RouteList {
	list := RouteList{Own: s.o.Own(ctx)}
	for _, a := range apps {
		if a.Route != (application.Route{}) && s.routable(a) && !waitsForPin(a) {
			list.Applications = append(list.Applications, a)
		}
	}
	slices.SortFunc(list.Applications, func(a, b application.Application) int {
		return strings.Compare(a.Slug, b.Slug)
	})
	return list
}
