package application_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/application"
)

func TestAddress_HasOneSpelling(t *testing.T) {
	for from, want := range map[string]string{
		"/photos/": "/photos/", "/": "/", "/a/B_c~1.x/": "/a/B_c~1.x/",
		"https://photos.example.org": "https://photos.example.org", "HTTPS://Photos.Example.ORG.": "https://photos.example.org",
		"https://photos.example.org:443": "https://photos.example.org", "https://photos.example.org:8443": "https://photos.example.org:8443",
		"https://xn--bcher-kva.example": "https://xn--bcher-kva.example", "https://192.0.2.1": "https://192.0.2.1", "https://[2001:DB8::1]:8443": "https://[2001:db8::1]:8443",
		"https://[2001:db8:0:0::1]": "https://[2001:db8::1]", "https://[::ffff:192.0.2.1]": "https://[::ffff:192.0.2.1]",
	} {
		if got, err := application.ParseURL(from, false); err != nil || got != want {
			t.Errorf("%s becomes %q, %v", from, got, err)
		}
	}
	if got, err := application.ParseURL("http://nas.lan:80", true); err != nil || got != "http://nas.lan" {
		t.Errorf("plain http becomes %q, %v", got, err)
	}
}

func TestAddress_WithoutOriginOrPathIsRefused(t *testing.T) {
	for _, from := range []string{
		"", "photos", "photos/", "/photos", "//evil.example/", "/photos//", "/../", "/a/../", "/./", "/.well-known/", `/\evil/`, "/a b/", "/ä/", "/a%2f/", "/a?b/", "/a#/",
		"/pforte/", "/PForte/x/", "/v1/", "/V1/x/", "/mcp/", "/health/", "/.well-known/x/", "/openapi.json/", "/llms.txt/", "/api/", "/api/v1/", "/internal/", "/" + strings.Repeat("a", 255) + "/",
		"http://photos.example.org", "ftp://x.example", "javascript://x", "https://", "https:///", "https://photos.example.org/", "https://photos.example.org/x", "https://a@photos.example.org", "https://a:b@x.example",
		"https://x.example?y", "https://x.example#y", "https://x.example:", "https://x.example:0", "https://x.example:99999", "https://x.example:0443", "https://x.example:a", "https://bücher.example", "https://x..example", "https://.example",
		"https://x.example..", "https://[fe80::1%25eth0]", "https://[::1", "https://x y.example", "https://x.example\n", "https://*.example", "https://x%2eexample", "https://ex\\ample", "https://" + strings.Repeat("a", 256),
	} {
		if got, err := application.ParseURL(from, false); !errors.Is(err, application.ErrURL) {
			t.Errorf("%q becomes %q, %v", from, got, err)
		}
	}
}

func TestRule_AdmitsWhomItNames(t *testing.T) {
	kids := []string{"kids"}
	for _, c := range []struct {
		app    application.Application
		role   string
		groups []string
		want   bool
	}{
		{application.Application{Rule: application.Login}, "member", nil, true},
		{application.Application{Rule: application.Admin}, "member", kids, false},
		{application.Application{Rule: application.Admin}, "admin", nil, true},
		{application.Application{Rule: application.Group, Group: "kids"}, "member", kids, true},
		{application.Application{Rule: application.Group, Group: "kids"}, "member", []string{"kid", "kidss"}, false},
		{application.Application{Rule: application.Group, Group: "kids"}, "admin", nil, false},
		{application.Application{Rule: application.Group}, "admin", []string{""}, false},
		{application.Application{Rule: "all"}, "admin", kids, false},
		{application.Application{}, "admin", kids, false},
	} {
		if got := c.app.Permits(c.role, c.groups); got != c.want {
			t.Errorf("%+v: %s %v: %t", c.app, c.role, c.groups, got)
		}
	}
}

func TestText_IsOneBoundedLine(t *testing.T) {
	if got, err := application.CleanName("  Fotos  "); err != nil || got != "Fotos" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, name := range []string{"", " ", "a\nb", "a\u2028b", "\xff", strings.Repeat("ä", application.MaxName+1)} {
		if _, err := application.CleanName(name); !errors.Is(err, application.ErrName) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	if got, err := application.CleanDescription(" "); err != nil || got != "" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := application.CleanDescription(strings.Repeat("x", application.MaxDescription+1)); !errors.Is(err, application.ErrDescription) {
		t.Errorf("a long description: %v", err)
	}
	for _, slug := range []string{"", "A", "a_b", "a.b", "ä", "a\n", strings.Repeat("a", 33)} {
		if err := application.CheckSlug(slug); !errors.Is(err, application.ErrSlug) {
			t.Errorf("the slug %q: %v", slug, err)
		}
	}
	if err := application.CheckSlug("home-assistant-2"); err != nil {
		t.Error(err)
	}
}
