package pages

import (
	"strings"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/application"
)

func TestApplications_LinesForTheProxy(t *testing.T) {
	for url, matcher := range map[string]string{
		"https://photos.example.org":      "host photos.example.org",
		"https://photos.example.org:8443": "host photos.example.org",
		"https://[2001:db8::1]":           "host 2001:db8::1",
		"/photos/":                        "path /photos /photos/*",
		"/a/b/":                           "path /a/b /a/b/*",
		"/":                               "not path /api/* /v1/* /mcp /health /.well-known/* /openapi.json /llms.txt",
	} {
		want := "@photos " + matcher + "\nhandle @photos {\n    import require_app photos\n    reverse_proxy photos:8080\n}"
		if got := routes(application.Application{Slug: "photos", URL: url}); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", url, got, want)
		}
	}
}

func TestApplications_LinesForTraefikNameTheCookie(t *testing.T) {
	lines := linesOf(application.Application{Slug: "photos", URL: "https://photos.example.org"}, "haus")
	if got := lines[len(lines)-1]; got.Name != "Traefik" || !strings.Contains(got.Lines, "addAuthCookiesToResponse: [haus.app]") {
		t.Errorf("got %s\n%s", got.Name, got.Lines)
	}
}
