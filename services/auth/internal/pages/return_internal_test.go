package pages

import (
	"net/url"
	"strings"
	"testing"
)

// hostile are paths that lead to another host in some browser or server, from advisories
// of oauth2-proxy and others.
var hostile = []string{
	"", "pforte/", "//evil.example", "///evil.example", `/\evil.example`, `\/evil.example`, `/\/evil.example`, `//\evil.example`, "/\t/evil.example", "/\n/evil.example", "/\r/evil.example",
	"/%09/evil.example", "/%0a/evil.example", "/%0d%0aLocation:x", "/%5cevil.example", "/%2fevil.example", "/%2f%2fevil.example", "/a/%2f%2fevil.example", "/%255cevil.example", "/%00/",
	"https://evil.example", "http:evil.example", "javascript:alert(1)", "data:text/html,x", "/a//evil.example", "/./\\evil.example", "/..//evil.example", "/../evil", "/./x", "/%2e%2e/x",
	"/ /evil.example\x7f", "/pforte/logout", "/pforte/logout?x=1", "/api/v1/auth/me", "/%61pi/v1/auth/me", "/pforte/%6cogout", "@evil.example", "/" + strings.Repeat("a", maxReturn),
}

func TestAHostilePathBecomesTheStartPage(t *testing.T) {
	for _, to := range hostile {
		if got := safeReturn(to); got != root {
			t.Errorf("%q leads to %q", to, got)
		}
	}
}

func TestAPathOnThisHostIsKept(t *testing.T) {
	for _, to := range []string{"/", "/pforte/", "/pforte/account?x=1", "/photos/2026/a b", "/go?return=%2Falbum%3Fx%3D1&next=//x", "/%C3%A4", "/a#b", "/a:b", "/.well-known/x"} {
		if got := safeReturn(to); got != to {
			t.Errorf("%q becomes %q", to, got)
		}
	}
}

func FuzzSafeReturn(f *testing.F) {
	for _, to := range hostile {
		f.Add(to)
	}
	f.Add("/pforte/account?x=1")
	base, err := url.Parse("https://home.example/pforte/login")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, to string) {
		got := safeReturn(to)
		u, err := url.Parse(got)
		if err != nil {
			t.Fatalf("%q is no URL: %v", got, err)
		}
		if at := base.ResolveReference(u); at.Host != base.Host || at.Scheme != base.Scheme || at.User != nil {
			t.Fatalf("%q leads to %s", to, at)
		}
		if len(got) > 1 && (got[1] == '/' || got[1] == '\\') || strings.ContainsAny(got, "\\\t\r\n") {
			t.Fatalf("%q becomes %q, which a browser may read as a host", to, got)
		}
		if safeReturn(got) != got {
			t.Fatalf("%q is not kept", got)
		}
	})
}
