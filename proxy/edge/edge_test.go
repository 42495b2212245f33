package edge

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestPath_UnambiguousOnes(t *testing.T) {
	t.Parallel()
	for _, target := range []string{
		"/", "/a", "/a/", "/a/b", "/%C3%BCber", "/?x=//../", "/a.b/x..y", "/.well-known/x", "/a%20b", "/~user", "/@scope/pkg", "/a+b", "/files/report..final.pdf",
		"/%E2%9C%93", "/a:b", "/$a:b/!a:b", "/a%2Fb", "/a%2f", "/100%25", "/100%25%20", "/x?;\\%00", "/wiki/Dr.", "/...x",
	} {
		if !unambiguous(target) {
			t.Errorf("%s is refused", target)
		}
	}
	for _, target := range []string{
		"", "*", "a/b", "?x", "http://other/x", "http:/x", "http:x", "//x", "/a//b", "/a//", "/%2f", "/a%2f/b", "/a%2f%2fb", "/%2fa", "/.", "/..", "/./a", "/../a", "/a/..", "/a/.", "/a/%2e%2E/b", "/a/.%2e", "/a%2f..", "/a%2f..%2fb",
		`/a\b`, "/a%5cb", "/a;b", "/a%3bb", "/..;/a", "/a%00", "/a%09b", "/a%7f", "/a\tb", "/a%c2%85", "/%252e", "/a%252fb", "/%25%32%65", "/%25u002f", "/%u002f", "/%", "/%2", "/%zz",
		"/%c0%ae", "/%c0%af", "/%e0%80%af", "/%ff", "/a\xff", "/a::$INDEX_ALLOCATION/b", "/a:$i30:$Index_Allocation/b", "/a%3a%3a%24DATA", "/a./b", "/a%20/b", "/a /b", "/. /b", "/...", "/%20", "/a#b", "/#",
		"/a b", "/a?b HTTP/1.0",
	} {
		if unambiguous(target) {
			t.Errorf("%q passes", target)
		}
	}
}

func FuzzUnambiguousPathIsTheSameWhenTidied(f *testing.F) {
	for _, seed := range []string{"/a/b", "/a%2fb", "/a/../b", "/%252e%252e/x", "/a;b/..", "/%c0%ae/", "/a?b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		r, err := http.NewRequest(http.MethodGet, "/", nil)
		if err != nil || !unambiguous(target) {
			return
		}
		if r.URL, err = r.URL.Parse(strings.SplitN(target, "?", 2)[0]); err != nil {
			return
		}
		// What Caddy routes by is what it was given.
		if got := caddyhttp.CleanPath(r.URL.Path, true); got != r.URL.Path {
			t.Errorf("%q: %q is tidied to %q", target, r.URL.Path, got)
		}
	})
}

func TestPath_MatcherTakesItAsSent(t *testing.T) {
	t.Parallel()
	p := new(Path)
	if err := p.UnmarshalCaddyfile(caddyfile.NewTestDispenser("edge_path / /login /assets/* /a%20b")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"/": true, "/login": true, "/assets/": true, "/assets/a%2Fb": true, "/a%20b": true, "/login?x": true,
		"/LOGIN": false, "/%6cogin": false, "/assets": false, "/Assets/x": false, "/assets%2fx": false, "/x/login": false, "/login/": false,
	} {
		if got, err := p.MatchWithError(httptest.NewRequest("GET", path, nil)); got != want || err != nil {
			t.Errorf("%s: %t, %v", path, got, err)
		}
	}
}

func TestCookies_AreTakenOutByName(t *testing.T) {
	t.Parallel()
	ours := names{"svc.*", "csrf-token"}
	for sent, want := range map[string][]string{
		"":                            nil,
		"a=1":                         {"a=1"},
		" a=1 ;; b ":                  {" a=1 ;; b "}, // none of ours: byte for byte
		"svc.sid=x":                   nil,
		"svc.sid=x; a=1":              {"a=1"},
		"a=1; svc.sid=x; b=2":         {"a=1; b=2"},
		"a=1;\tsvc.sid = x;b=2":       {"a=1;b=2"},
		`a="1; svc.sid=x"; b=2`:       {`a="1; b=2`},
		"csrf-token=x; xcsrf-token=y": {"xcsrf-token=y"},
		"SVC.sid=x; svc=y; svcx.sid":  {"SVC.sid=x; svc=y; svcx.sid"},
		"svc.=x;svc.a":                nil,
		"svc.2fa=x; svc.ceremony=x; a=1; svc.dev=x; svc.lang=de": {"a=1"},
	} {
		var lines []string
		if sent != "" {
			lines = []string{sent}
		}
		if got := withoutCookies(lines, ours); !slices.Equal(got, want) {
			t.Errorf("%q became %q, want %q", sent, got, want)
		}
	}
	if got := withoutCookies([]string{"svc.a=1", "b=2", "svc.c=3; d=4"}, ours); !slices.Equal(got, []string{"b=2", "d=4"}) {
		t.Errorf("several lines became %q", got)
	}
}

func TestHeaders_AreDroppedInAnySpelling(t *testing.T) {
	t.Parallel()
	n := headerNames([]string{"X-Auth-*", "Remote_User"})
	for name, want := range map[string]bool{
		"X-Auth-Role": true, "x_auth_role": true, "X.Auth-Role": true, "X-Auth-": true, "REMOTE_USER": true, "Remote.User": true,
		"X+Auth~Role": true, "X!auth!": true, "Remote*User": true, "Remote*": false, "X-Auth*": true,
		"X-Auth": false, "X-Author": false, "Remote-Users": false, "": false,
	} {
		if n.has(headerName(name)) != want {
			t.Errorf("%q: dropped is %t", name, !want)
		}
	}
}

// A cookie that comes late could overwrite that of a later login.
func TestCookies_ALateAnswerBringsNoRenewedOne(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		w := httptest.NewRecorder()
		x := &exchange{cookies: names{"svc.*"}, renewed: []string{"svc.sid=new"}, until: time.Now().Add(time.Minute)}
		if late {
			x.until = time.Now().Add(-time.Nanosecond)
		}
		a := &answer{ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, exchange: x}
		a.Header().Set("Cache-Control", "public")
		a.WriteHeader(http.StatusEarlyHints)
		a.WriteHeader(http.StatusOK)
		set, cache := w.Header().Get("Set-Cookie"), w.Header().Get("Cache-Control")
		if late && (set != "" || cache != "public") || !late && (set != "svc.sid=new" || cache != "private, no-store") {
			t.Errorf("late is %t: %q, %q", late, set, cache)
		}
	}
}

func TestEdge_WithoutItNothingPasses(t *testing.T) {
	t.Parallel()
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		t.Error("it passed")
		return nil
	})
	r := httptest.NewRequest("GET", "/", nil)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, &caddyhttp.Server{})
	for _, h := range []caddyhttp.MiddlewareHandler{new(Guard), new(Cookies)} {
		if err := h.ServeHTTP(httptest.NewRecorder(), r, next); err == nil {
			t.Errorf("%T: no error", h)
		}
	}
}

func TestCaddyfile_WhatItCannotMean(t *testing.T) {
	t.Parallel()
	for text, parse := range map[string]httpcaddyfile.UnmarshalHandlerFunc{
		"edge x": parseEdge, "edge {\n drop\n}": parseEdge, "edge {\n keep x\n}": parseEdge,
		"edge_cookies x": parseAlone[Cookies], "edge_cookies {\n x\n}": parseAlone[Cookies],
	} {
		if _, err := parse(httpcaddyfile.Helper{Dispenser: caddyfile.NewTestDispenser(text)}); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	if err := new(Path).UnmarshalCaddyfile(caddyfile.NewTestDispenser("edge_path")); err == nil {
		t.Error("edge_path: no error")
	}
}
