package returnpath_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/returnpath"
)

const fallback = "/pforte/"

// hostile are the known ways past a check of return addresses, by what they rely on.
var hostile = map[string][]string{
	"another origin": {
		"https://evil.example", "http://evil.example/", "HTTPS://evil.example", "https:evil.example", "https:/evil.example", "https:///evil.example", "http:evil.example",
		"ftp://evil.example", "javascript:alert(1)", "JavaScript:alert(1)", "javascript://home.example/%0aalert(1)", "data:text/html,x", "vbscript:x", "blob:https://evil.example/x", "file:///etc/passwd",
	},
	"no path at all": {"", " ", "evil.example", "evil.example/x", "@evil.example", ".evil.example", ":80", "?x", "#x", "pforte/", "./x", "../x"},
	"a host behind two slashes": {
		"//", "//evil.example", "///evil.example", "////evil.example", "//evil.example/%2e%2e", "//home.example@evil.example", "//evil.example#@home.example", "//[::1]/", "//evil%00.example", "//evil.example:443/x",
		"//%65vil.example", "//\u3002evil.example", "//evil\u3002example",
	},
	"a backslash, which browsers read as a slash": {
		`/\evil.example`, `\/evil.example`, `\\evil.example`, `/\/evil.example`, `//\evil.example`, `/\\evil.example`, `\evil.example`, `/x\..\..\evil.example`, `/\@evil.example`, "/%5cevil.example", "/%5Cevil.example", "/%5c%5cevil.example", "/x?a=\\\\evil.example",
	},
	"characters that browsers drop": {
		"/\t/evil.example", "/\n/evil.example", "/\r/evil.example", "/\r\n/evil.example", "\t//evil.example", " //evil.example", "/\x00/evil.example", "/\x0b/evil.example", "/\x0c/evil.example", "/\x1f/evil.example",
		"/\t\\evil.example", "/x\r\nLocation: https://evil.example", "/x\x7f", "/ /evil.example\x7f", "ht\ntps://evil.example", "java\tscript:alert(1)", "/x?a=\r\nSet-Cookie: a=b",
	},
	"characters that are encoded": {
		"/%09/evil.example", "/%0a/evil.example", "/%0d/evil.example", "/%0d%0aLocation:%20https://evil.example", "/%00/", "/%7f", "/%1f", "/%0D%0ASet-Cookie:a=b",
	},
	"slashes that are encoded": {
		"/%2fevil.example", "/%2Fevil.example", "/%2f%2fevil.example", "/x/%2f%2fevil.example", "/%2f/evil.example", "/x%2f%2f..%2fevil.example", "/%2f%5cevil.example", "/.%2f%2fevil.example",
	},
	"a second decoding": {"/%255cevil.example", "/%252fevil.example", "/%252f%252fevil.example", "/%25252fevil.example", "/%250d%250a", "/%252e%252e/x", "/%25"},
	"dot segments that leave two slashes": {
		"/.//evil.example", "/..//evil.example", "/../evil", "/./x", "/x/..//evil.example", "/x/../../evil.example", "/./\\evil.example", "/%2e/x", "/%2e%2e/x", "/%2E%2e//evil.example", "/.%2e//evil.example", "/x/..", "/.", "/..", "/..;/x", "/.;a=b/x", "/x/..;//evil.example", "/;/evil.example", "/x/;a/evil.example",
	},
	"two slashes later":         {"/x//evil.example", "/x//", "/pforte//evil.example"},
	"a path that is no UTF-8":   {"/\xff", "/\xc0\xafevil.example", "/%c0%afevil.example", "/%ff", "/x?a=\xff"},
	"an encoding that is wrong": {"/%", "/%2", "/%zz", "/x%u002fevil.example"},
	"a page that does something": {
		"/pforte/logout", "/pforte/logout?x=1", "/pforte/logout#x", "/pforte/logout/", "/pforte/LOGOUT", "/PForte/logout", "/pforte/%6cogout", "/pforte/logout/x",
	},
	"a route for programs": {"/api", "/api/", "/api/v1/auth/me", "/API/v1/auth/me", "/%61pi/v1/auth/me", "/internal", "/internal/forward-auth", "/Internal/x"},
	"its length":           {"/" + strings.Repeat("a", returnpath.Max), "/?" + strings.Repeat("%2f", returnpath.Max)},
}

func TestSafe_AHostilePathIsNotReturnedTo(t *testing.T) {
	for class, paths := range hostile {
		for _, to := range paths {
			if got := returnpath.Safe(to, fallback); got != fallback {
				t.Errorf("%s: %q leads to %q", class, to, got)
			}
		}
	}
}

func TestSafe_APathOnThisHostIsReturnedTo(t *testing.T) {
	for _, to := range []string{
		"/", "/pforte/", "/pforte/account?x=1", "/photos/2026/a b", "/go?return=%2Falbum%3Fx%3D1&next=//x", "/pforte/go?app=photos&return=%2Falbum%3Fx%3D%252F&state=abc", "/%C3%A4", "/ä", "/a#b", "/a:b", "/.well-known/x",
		"/a.b/..c/...", "/a;b=c", "/a@b", "/a?https://evil.example", "/apiary", "/pforte/logouts", "/internals/", "/x?a=%0a", "/" + strings.Repeat("a", returnpath.Max-1),
	} {
		if got := returnpath.Safe(to, fallback); got != to {
			t.Errorf("%q becomes %q", to, got)
		}
	}
}

// FuzzSafe checks the result as net/url, as a browser (WHATWG URL: backslashes are slashes,
// tabs and line breaks are dropped) and as a header of net/http.
func FuzzSafe(f *testing.F) {
	for _, paths := range hostile {
		for _, to := range paths {
			f.Add(to)
		}
	}
	for _, to := range []string{"/", "/pforte/account?x=1", "/a;b=c#d", "/%C3%A4?return=%2F%2Fx"} {
		f.Add(to)
	}
	base, err := url.Parse("https://home.example/pforte/login")
	if err != nil {
		f.Fatal(err)
	}
	browser := strings.NewReplacer(`\`, "/", "\t", "", "\n", "", "\r", "")
	f.Fuzz(func(t *testing.T, to string) {
		got := returnpath.Safe(to, fallback)
		if got != to && got != fallback || returnpath.Safe(got, "x") != got {
			t.Fatalf("%q becomes %q", to, got)
		}
		for _, read := range []string{got, browser.Replace(got), strings.Trim(browser.Replace(got), "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x1f ")} {
			u, err := url.Parse(read)
			if err != nil {
				t.Fatalf("%q is no URL: %v", read, err)
			}
			if at := base.ResolveReference(u); at.Host != base.Host || at.Scheme != base.Scheme || at.User != nil || strings.HasPrefix(at.Path, "//") {
				t.Fatalf("%q leads to %s", to, at)
			}
			decoded, err := url.PathUnescape(browser.Replace(u.Path))
			if err != nil || strings.Contains(decoded, "//") || strings.ContainsAny(decoded, "\\\r\n\x00") {
				t.Fatalf("%q, decoded once more, is %q: %v", to, decoded, err)
			}
		}
		w := httptest.NewRecorder()
		http.Redirect(w, httptest.NewRequest(http.MethodGet, "/pforte/login", nil), got, http.StatusSeeOther)
		at, err := base.Parse(w.Header().Get("Location"))
		if err != nil || at.Host != base.Host || at.Scheme != base.Scheme {
			t.Fatalf("%q is sent as %q: %v", to, w.Header().Get("Location"), err)
		}
	})
}
