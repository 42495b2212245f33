package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// hopHeader is the request header in which Apps and probes send the random Applications.hop of their
// proxy, so that a proxy notices a request that comes back to it.
const hopHeader = "X-Pforte-Hop"

// How long requests on a route that is no longer used may go on: where the application has another route, and where
// it has none.
const (
	changedWithin = time.Minute
	removedWithin = 2 * time.Second
)

var (
	errLoop  = errors.New("the address of the application leads back to the proxy")
	errNoApp = errors.New("the route of the application leads nowhere")
)

// Apps is a handler with a route for each application of the list: Route with the application filled in. Requests
// for no application go on to the next handler.
type Apps struct {
	// Route is the template, a subroute as of an operator's own lines for one application. In its strings {edge.app}
	// is the slug, {edge.to} the host:port, and {edge.user_header} App.UserHeader; members that have an empty
	// name then are left out.
	Route json.RawMessage `json:"route,omitempty"`
	// Hosts leaves out the applications that have no host of their own.
	Hosts bool `json:"hosts,omitempty"`

	apps   *Applications
	routes *appRoutes
}

// CaddyModule returns the Caddy module information.
func (Apps) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge_apps", New: func() caddy.Module { return new(Apps) }}
}

// parseApps reads:
//
//	edge_apps {
//		hosts
//		route {
//			<directives...>
//		}
//	}
func parseApps(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	a := new(Apps)
	h.Next()
	if h.NextArg() {
		return nil, h.ArgErr()
	}
	for h.NextBlock(0) {
		switch what := h.Val(); what {
		case "hosts":
			a.Hosts = true
		case "route":
			routes, err := httpcaddyfile.ParseSegmentAsSubroute(h.WithDispenser(h.NewFromNextSegment()))
			if err != nil {
				return nil, err
			}
			if a.Route, err = json.Marshal(routes); err != nil {
				return nil, err
			}
		default:
			return nil, h.Errf("edge_apps has no %s", what)
		}
		if h.NextArg() {
			return nil, h.ArgErr()
		}
	}
	return a, nil
}

// Provision implements caddy.Provisioner.
func (a *Apps) Provision(ctx caddy.Context) (err error) {
	if a.apps, err = applicationsOf(ctx); err != nil {
		return fmt.Errorf("edge_apps: %w", err)
	}
	if a.routes, err = a.apps.routesBy(ctx, a.Route); err != nil {
		return fmt.Errorf("edge_apps: %w", err)
	}
	// Caddy provisions the policies of a server's TLS after its routes.
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		for _, policy := range server.TLSConnPolicies {
			policy.HandshakeContextRaw = json.RawMessage(`{"module":"edge_apps"}`)
		}
	}
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (a *Apps) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	for _, line := range r.Header[hopHeader] {
		if strings.Contains(line, a.apps.hop) {
			return caddyhttp.Error(http.StatusLoopDetected, errLoop)
		}
	}
	route := a.routes.enter(r, a.Hosts)
	if route == nil {
		return next.ServeHTTP(w, r)
	}
	defer route.leave()
	if route.app.Path != "" && len(r.URL.Path) < len(route.app.Path) {
		to := route.app.Path
		if r.URL.RawQuery != "" {
			to += "?" + r.URL.RawQuery
		}
		w.Header()["Location"] = []string{to}
		w.WriteHeader(http.StatusPermanentRedirect)
		return nil
	}
	r.Header[hopHeader] = append(slices.Clip(r.Header[hopHeader]), a.apps.hop)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(route.ended, cancel)() //nolint:contextcheck // ends requests of all clients
	return route.handler.ServeHTTP(w, r.WithContext(ctx))
}

// appRoutes are the routes by one template.
type appRoutes struct {
	template []byte
	// ctx is the parent of the routes' contexts. It ends only with its own parent: canceling it would run the
	// cleanup of that parent.
	ctx caddy.Context
	now atomic.Pointer[appTable]
	// retired are routes that were replaced and may still have requests, of applications that have a route. Only
	// update reads and changes them.
	retired []*appRoute
}

// appTable has the routes of one list.
type appTable struct {
	hosts map[string]*appRoute
	// paths are sorted by length, the longest first.
	paths []*appRoute
}

// routesBy returns the routes by a template, which follow the list. Handlers with the same one share them.
func (a *Applications) routesBy(ctx caddy.Context, template []byte) (*appRoutes, error) {
	a.mu.Lock()
	known := a.routes[string(template)]
	a.mu.Unlock()
	if known != nil {
		return known, nil
	}
	t := &appRoutes{template: template}
	t.ctx, _ = caddy.NewContext(ctx)
	t.now.Store(new(appTable))
	// A template that is wrong is found at the start, not with the first application.
	sample, err := t.compile(App{Slug: "sample", Host: "sample.invalid", To: "http://sample.invalid:80"})
	if err != nil {
		return nil, err
	}
	sample.leave()
	a.mu.Lock()
	a.routes[string(template)] = t
	a.mu.Unlock()
	a.serve(t)
	return t, nil
}

// serve brings routes up to date with the present list. Applications whose routes cannot be made are logged and
// reported as skipped.
func (a *Applications) serve(t *appRoutes) {
	for slug, err := range t.update(a.now.Load().apps) {
		a.log.Error("the route of an application is not made", "app", slug, "error", err)
		a.fault(slug, skipForm)
	}
}

// update makes the routes that are new or changed. Unchanged ones stay, with their connections; others take no new
// requests, and end. It returns why routes could not be made, by slug.
func (t *appRoutes) update(apps []App) (faults map[string]error) {
	old, faults := map[App]*appRoute{}, map[string]error{}
	for _, route := range t.now.Load().all() {
		old[route.app] = route
	}
	table, slugs := &appTable{hosts: map[string]*appRoute{}}, map[string]bool{}
	for _, app := range apps {
		app.Name = "" // is not in the route
		route := old[app]
		delete(old, app)
		if route == nil {
			var err error
			if route, err = t.compile(app); err != nil {
				faults[app.Slug] = err
				continue
			}
		}
		slugs[app.Slug] = true
		if app.Host != "" {
			table.hosts[app.Host] = route
		} else {
			table.paths = append(table.paths, route)
		}
	}
	slices.SortStableFunc(table.paths, func(p, q *appRoute) int { return len(q.app.Path) - len(p.app.Path) })
	t.now.Store(table)
	for _, route := range old {
		route.leave()
		time.AfterFunc(changedWithin, route.end)
		t.retired = append(t.retired, route)
	}
	t.retired = slices.DeleteFunc(t.retired, func(route *appRoute) bool {
		if !slugs[route.app.Slug] {
			time.AfterFunc(removedWithin, route.end)
		}
		return !slugs[route.app.Slug] || route.uses.Load() == 0
	})
	return faults
}

func (t *appTable) all() []*appRoute { return append(slices.Collect(maps.Values(t.hosts)), t.paths...) }

// enter returns the route of a request, on which the caller calls leave when the request has ended, and nil where there
// is none. With hosts only the routes by host count, not those by path.
func (t *appRoutes) enter(r *http.Request, hosts bool) *appRoute {
	for {
		route := t.now.Load().find(r, hosts)
		if route == nil || route.enter() {
			return route
		}
	}
}

// find returns the route of a request, nil where there is none. Upper and lower case of a path are the same, and the
// slash at the end of a route's path may be missing.
func (t *appTable) find(r *http.Request, hosts bool) *appRoute {
	if route := t.hosts[hostOf(r)]; route != nil || hosts || len(t.paths) == 0 {
		return route
	}
	path := lowerPath(r.URL.Path)
	for _, route := range t.paths {
		if strings.HasPrefix(path, route.path) || path+"/" == route.path {
			return route
		}
	}
	return nil
}

type appRoute struct {
	app App
	// path is that of app in lower case.
	path    string
	handler caddyhttp.Handler
	// ended is done when the route's requests must end.
	ended context.Context //nolint:containedctx // of the route, not of a request
	end   context.CancelFunc
	// clean ends what the handler has: connections and checks.
	clean func()
	// uses counts the requests, and one for the table while it has the route. At 0 the route has
	// ended.
	uses atomic.Int64
}

func (t *appRoutes) compile(app App) (*appRoute, error) {
	config, err := fill(t.template, app)
	if err != nil {
		return nil, err
	}
	ctx, clean := caddy.NewContext(t.ctx)
	loaded, err := ctx.LoadModuleByID("http.handlers.subroute", config)
	if err != nil {
		clean()
		return nil, err
	}
	subroute, nothing := loaded.(caddyhttp.MiddlewareHandler), caddyhttp.HandlerFunc(
		func(http.ResponseWriter, *http.Request) error { return caddyhttp.Error(http.StatusNotFound, errNoApp) })
	route := &appRoute{app: app, path: lowerPath(app.Path), clean: clean, handler: caddyhttp.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) error { return subroute.ServeHTTP(w, r, nothing) })}
	route.ended, route.end = context.WithCancel(t.ctx.Context)
	route.uses.Store(1)
	return route, nil
}

// fill returns the template of Apps.Route filled in for an application. A transport edge_app gets its slug and pin, and
// App.Strip is a rewrite before the other handlers.
func fill(template []byte, app App) ([]byte, error) {
	var tree map[string]any
	if err := json.Unmarshal(template, &tree); err != nil {
		return nil, fmt.Errorf("template of routes: %w", err)
	}
	to, _ := parseTarget(app.To)
	values := strings.NewReplacer("{edge.app}", app.Slug, "{edge.to}", to.dial, "{edge.user_header}", app.UserHeader)
	tree, _ = fillValue(tree, values, app).(map[string]any)
	if app.Strip {
		strip := map[string]any{
			"handler": "rewrite", "strip_path_prefix": strings.TrimSuffix(app.Path, "/"),
		}
		routes, _ := tree["routes"].([]any)
		tree["routes"] = append([]any{map[string]any{"handle": []any{strip}}}, routes...)
	}
	return json.Marshal(tree)
}

func fillValue(v any, values *strings.Replacer, app App) any {
	switch v := v.(type) {
	case string:
		return values.Replace(v)
	case []any:
		for i := range v {
			v[i] = fillValue(v[i], values, app)
		}
	case map[string]any:
		filled := map[string]any{}
		for name, value := range v {
			if name = values.Replace(name); name != "" {
				filled[name] = fillValue(value, values, app)
			}
		}
		if filled["protocol"] == "edge_app" {
			filled["app"], filled["pin"] = app.Slug, app.Pin
		}
		return filled
	}
	return v
}

// enter reports whether the route may still be used, and counts a request if it may.
func (r *appRoute) enter() bool {
	for {
		n := r.uses.Load()
		if n == 0 {
			return false
		}
		if r.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave takes back one use, a request's (enter) or the table's. The last leave ends the route.
func (r *appRoute) leave() {
	if r.uses.Add(-1) > 0 {
		return
	}
	r.end()
	r.clean()
}

var (
	_ caddyhttp.MiddlewareHandler = (*Apps)(nil)
	_ caddy.Provisioner           = (*Apps)(nil)
)
