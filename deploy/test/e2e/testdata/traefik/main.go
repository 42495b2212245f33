// Program traefik serves the routes of a dynamic configuration with Traefik's own middlewares
// forwardAuth and headers, behind what its entry points do with X-Forwarded-*.
//
// usage: traefik ADDRESS FILE
package main

import (
	"cmp"
	"context"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/vulcand/predicate"
	"go.yaml.in/yaml/v3"

	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/middlewares/auth"
	"github.com/traefik/traefik/v3/pkg/middlewares/forwardedheaders"
	"github.com/traefik/traefik/v3/pkg/middlewares/headers"
)

type configuration struct {
	HTTP struct {
		Routers map[string]struct {
			Rule, Service string
			Middlewares   []string
		}
		Middlewares map[string]struct {
			Headers       *dynamic.Headers
			ForwardAuth   *dynamic.ForwardAuth                 `yaml:"forwardAuth"`
			RedirectRegex *struct{ Regex, Replacement string } `yaml:"redirectRegex"`
		}
		Services map[string]struct {
			LoadBalancer struct{ Servers []struct{ URL string } } `yaml:"loadBalancer"`
		}
	}
}

type rule func(*http.Request) bool

type route struct {
	text    string
	matches rule
	handler http.Handler
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func main() {
	var c configuration
	if err := yaml.Unmarshal(must(os.ReadFile(os.Args[2])), &c); err != nil {
		log.Fatal(err)
	}
	rules := must(predicate.NewParser(predicate.Def{
		Functions: map[string]any{
			"Host": func(host string) rule {
				return func(r *http.Request) bool { name, _, _ := strings.Cut(r.Host, ":"); return name == host }
			},
			"Path": func(path string) rule { return func(r *http.Request) bool { return r.URL.Path == path } },
			"PathPrefix": func(path string) rule {
				return func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, path) }
			},
		},
		Operators: predicate.Operators{
			AND: func(a, b rule) rule { return func(r *http.Request) bool { return a(r) && b(r) } },
			OR:  func(a, b rule) rule { return func(r *http.Request) bool { return a(r) || b(r) } },
		},
	}))
	var routes []route
	for name, router := range c.HTTP.Routers {
		to := must(url.Parse(c.HTTP.Services[router.Service].LoadBalancer.Servers[0].URL))
		var h http.Handler = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
		}}
		for _, of := range slices.Backward(router.Middlewares) {
			m, next := c.HTTP.Middlewares[of], h
			switch {
			case m.Headers != nil:
				h = must(headers.NewHeader(next, *m.Headers))
			case m.ForwardAuth != nil:
				h = must(auth.NewForward(context.Background(), next, *m.ForwardAuth, of))
			case m.RedirectRegex != nil:
				from := regexp.MustCompile(m.RedirectRegex.Regex)
				h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					at := "http://" + r.Host + r.URL.RequestURI()
					if !from.MatchString(at) {
						next.ServeHTTP(w, r)
						return
					}
					http.Redirect(w, r, from.ReplaceAllString(at, m.RedirectRegex.Replacement), http.StatusFound)
				})
			default:
				log.Fatalf("router %s: no middleware %s", name, of)
			}
		}
		routes = append(routes, route{router.Rule, must(rules.Parse(router.Rule)).(rule), h})
	}
	slices.SortFunc(routes, func(a, b route) int { return cmp.Compare(len(b.text), len(a.text)) }) // as Traefik does
	entry := must(forwardedheaders.NewXForwarded(false, nil, nil, false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, route := range routes {
			if route.matches(r) {
				route.handler.ServeHTTP(w, r)
				return
			}
		}
		http.NotFound(w, r)
	})))
	log.Fatal(http.ListenAndServe(os.Args[1], entry)) //nolint:gosec // for a test
}
