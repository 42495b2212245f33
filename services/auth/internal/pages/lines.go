package pages

import (
	"cmp"
	"fmt"
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
	return append(lines,
		proxyLines{"nginx", "nginx", fmt.Sprintf(`server {
	listen 443 ssl;
	server_name %s;
	client_max_body_size 0; # the application's own limit

	set $pforte_app %s;
	include pforte-server.conf;
	location / {
		include pforte-guard.conf;
		proxy_pass %s;
	}
}`, host, a.Slug, to)},
		proxyLines{"Caddy", "caddy", fmt.Sprintf(`%s {
	route {
		import guard %s
		reverse_proxy %s
	}
}`, host, a.Slug, strings.TrimPrefix(to, "http://"))},
		proxyLines{"Traefik", "traefik", traefik.Replace(strings.NewReplacer(
			"notes.example.org", host, "http://notes:8080", to, "notes", a.Slug, "svc.", appName+".",
		).Replace(traefikLines))},
	)
}

// traefik replaces each tab by two spaces, because YAML allows no tabs in indentation.
var traefik = strings.NewReplacer("\t", "  ")

// traefikLines are those of the application notes in deploy/proxies/traefik.
const traefikLines = "http:\n" +
	"\trouters:\n" +
	"\t\tnotes-login:\n" +
	"\t\t\trule: Host(`notes.example.org`) && PathPrefix(`/pforte/`)\n" +
	"\t\t\tentryPoints: [websecure]\n" +
	"\t\t\tservice: pforte\n" +
	"\t\t\ttls: {certResolver: default}\n" +
	"\t\tnotes:\n" +
	"\t\t\trule: Host(`notes.example.org`)\n" +
	"\t\t\tentryPoints: [websecure]\n" +
	"\t\t\tmiddlewares: [pforte-names, pforte-notes, pforte-after]\n" +
	"\t\t\tservice: notes\n" +
	"\t\t\ttls: {certResolver: default}\n" +
	"\tmiddlewares:\n" +
	"\t\tpforte-notes: # one for each application\n" +
	"\t\t\tforwardAuth:\n" +
	"\t\t\t\taddress: http://auth:8081/internal/forward-auth?app=notes\n" +
	"\t\t\t\ttrustForwardHeader: false\n" +
	"\t\t\t\tpreserveLocationHeader: true\n" +
	"\t\t\t\tauthResponseHeaders: [X-Auth-User-Id, X-Auth-Username, X-Auth-Role, X-Auth-Name, X-Auth-Groups]\n" +
	"\t\t\t\taddAuthCookiesToResponse: [svc.app]\n" +
	"\tservices:\n" +
	"\t\tnotes:\n" +
	"\t\t\tloadBalancer: {servers: [{url: http://notes:8080}]}"

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
