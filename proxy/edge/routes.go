package edge

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Routes is a handler for the routes of a site, behind which there is nothing. Their
// handlers are put together once, which Caddy does for each request.
type Routes struct {
	Routes caddyhttp.RouteList `json:"routes,omitempty"`

	handler caddyhttp.Handler
}

// CaddyModule returns the Caddy module information.
func (Routes) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge_routes", New: func() caddy.Module { return new(Routes) }}
}

// parseRoutes reads: edge_routes { <directives...> }.
func parseRoutes(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	subroute, err := httpcaddyfile.ParseSegmentAsSubroute(h)
	if err != nil {
		return nil, err
	}
	return &Routes{Routes: subroute.(*caddyhttp.Subroute).Routes}, nil
}

// Provision implements caddy.Provisioner.
func (rs *Routes) Provision(ctx caddy.Context) error {
	if err := rs.Routes.Provision(ctx); err != nil {
		return fmt.Errorf("edge_routes: %w", err)
	}
	routes := rs.Routes
	if len(routes) == 1 && len(routes[0].Handlers) == 1 && len(routes[0].MatcherSets) == 0 {
		if route, ok := routes[0].Handlers[0].(*caddyhttp.Subroute); ok && route.Errors == nil {
			routes = route.Routes // of the directive route
		}
	}
	rs.handler = routes.Compile(caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		caddyhttp.SetVar(r.Context(), "unhandled", true) // as Caddy's own last handler, for the log
		return nil
	}))
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (rs *Routes) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	return rs.handler.ServeHTTP(w, r)
}

var (
	_ caddyhttp.MiddlewareHandler = (*Routes)(nil)
	_ caddy.Provisioner           = (*Routes)(nil)
)
