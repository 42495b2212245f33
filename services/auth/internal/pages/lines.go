package pages

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/application"
)

// proxyLines are the lines by which a proxy leads to an application. ID is that of their element.
type proxyLines struct{ Name, ID, Lines string }

// linesOf returns the lines of an application for Pforte's proxy and, for one with a host of its own, for other
// proxies with the files of deploy/proxies. At a path the other proxies would pass the session itself to the
// application. appName is APP_NAME.
func linesOf(a application.Application, appName string) []proxyLines {
	lines := []proxyLines{{"Pforte (ROUTES)", "routes", routes(a)}}
	if !a.HasHost() {
		return lines
	}
	host := a.OwnHost()
	if u, err := url.Parse(a.URL); err == nil {
		host = u.Hostname()
	}
	to := upstreamOf(a)
	fill := strings.NewReplacer("{host}", host, "{app}", a.Slug, "{name}", appName, "{to}", to,
		"{address}", strings.TrimPrefix(to, "http://"))
	for _, proxy := range []string{"nginx", "Caddy", "Traefik"} {
		id := strings.ToLower(proxy)
		text, _ := files.ReadFile("proxies/" + id + ".txt") // embedded
		lines = append(lines, proxyLines{proxy, id, fill.Replace(strings.TrimSuffix(string(text), "\n"))})
	}
	return lines
}

// upstreamOf returns the internal address of an application or, without a route, an example that the operator
// replaces.
func upstreamOf(a application.Application) string {
	return cmp.Or(a.Route.Upstream, "http://"+a.Slug+":8080")
}

// routes returns the lines of an application for the proxy's setting ROUTES, with the address of upstreamOf.
func routes(a application.Application) string {
	matcher := "path " + strings.TrimSuffix(a.URL, "/") + " " + a.URL + "*"
	if a.URL == "/" { // what the proxy leads to services of its own stays theirs
		matcher = "not path /api/* /v1/* /mcp /health /.well-known/* /openapi.json /llms.txt"
	} else if address, err := url.Parse(a.URL); err == nil && a.HasHost() {
		matcher = "host " + address.Hostname()
	}
	handle := "@" + a.Slug + " " + matcher + "\nhandle @" + a.Slug
	if a.Route.Strip && !a.HasHost() && a.URL != "/" {
		handle = "redir " + strings.TrimSuffix(a.URL, "/") + " " + a.URL + "\nhandle_path " + a.URL + "*"
	}
	return handle + " {\n    import require_app " + a.Slug + "\n    reverse_proxy " +
		strings.TrimPrefix(upstreamOf(a), "http://") + "\n}"
}
