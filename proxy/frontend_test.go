package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// page is long enough to be compressed.
var page = "<!doctype html>" + strings.Repeat("<p>text</p>", 200)

func site(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"index.html": page, "app.js": "// " + page, "data.json": `{"a":"` + strings.Repeat("x", 2000) + `"}`, "sub/index.html": "sub",
		".env": "SECRET=1", ".git/config": "secret", "sub/.hidden": "secret", ".well-known/security.txt": "Contact: x",
		".wallet": "secret", ".www/config": "secret", ".WGETRC": "secret", "sub/.well-known/x": "secret", ".well-known/.htpasswd": "secret", ".well-known/a/.b/c": "secret", ".well-knownx": "secret",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFrontend_FolderIsASinglePageApplication(t *testing.T) {
	t.Parallel()
	d := open(t, map[string]string{"FRONTEND_ROOT": site(t)})
	for path, want := range map[string]string{
		"/": page, "/app.js": "// " + page, "/sub/": "sub", "/lists/3": page, "/a.b/c..d": page, "/.well-known/security.txt": "Contact: x",
	} {
		got := d.request(t, "GET", path, "")
		if got.StatusCode != 200 || got.body != want || got.Header.Get("Cache-Control") != "no-cache" || got.Header.Get("Etag") == "" {
			t.Errorf("%s: %d %.40s %s", path, got.StatusCode, got.body, got.Header)
		}
	}
	german(t, d.request(t, "GET", "/api/v1/lists", ""), 404)
	german(t, d.request(t, "POST", "/", "x"), 405)
}

func TestFrontend_FilesOutsideTheSiteStayHidden(t *testing.T) {
	t.Parallel()
	root := site(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(root), "outside.txt"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := open(t, map[string]string{"FRONTEND_ROOT": root})
	for _, path := range []string{
		"/.wallet", "/.www/config", "/.WGETRC", "/sub/.well-known/x", "/.well-known/.htpasswd", "/.well-known/a/.b/c", "/.well-knownx", "/%2ewallet", "/.well-known/%2ehtpasswd",
		"/.env", "/.git/config", "/sub/.hidden", "/%2egit/config", "/../outside.txt", "/%2e%2e/outside.txt", "/..%2foutside.txt", "/sub/..%5c..%5coutside.txt",
	} {
		if got := d.request(t, "GET", path, ""); strings.Contains(strings.ToLower(got.body), "secret") {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
		}
	}
}

func TestFrontend_ServerGetsWhatNoOtherRouteTakes(t *testing.T) {
	t.Parallel()
	frontend := stand(t, "frontend", nil)
	h := openSite(t, map[string]string{"FRONTEND_UPSTREAM": frontend.addr(), "FRONTEND_ROOT": site(t), "APP_UPSTREAM": ""})
	for _, path := range []string{"/", "/lists/3", "/.well-known/security.txt", "/v2"} {
		if got := h.request(t, "GET", path, ""); got.body != "frontend" {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
		}
	}
	// Without APP_UPSTREAM there is no guard, so no API.
	for _, path := range []string{"/api/v1/lists", "/API/v1/lists", "/x/../api/v1/lists", "//api/v1/lists", "/api/x"} {
		german(t, h.request(t, "GET", path, "", "Cookie", "svc.sid=admin"), 404)
	}
	if got := h.request(t, "GET", "/api/v1/auth/me", ""); got.body != "auth" {
		t.Errorf("got %s", got.body)
	}
}

func TestFrontend_PagesAreCompressedAndJSONIsNot(t *testing.T) {
	t.Parallel()
	h := openSite(t, map[string]string{"FRONTEND_ROOT": site(t)})
	h.auth.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.Repeat("x", 5000))
	})
	for path, want := range map[string]string{"/": "gzip", "/app.js": "gzip", "/data.json": "", "/api/v1/auth/users": ""} {
		got := h.request(t, "GET", path, "", "Accept-Encoding", "gzip")
		if enc := got.Header.Get("Content-Encoding"); enc != want {
			t.Errorf("%s: encoding %q, want %q", path, enc, want)
		}
	}
	if got := h.request(t, "GET", "/", "", "Accept-Encoding", "zstd, gzip"); got.Header.Get("Content-Encoding") != "zstd" {
		t.Errorf("got %s", got.Header)
	}
}

// Each takes more than a megabyte of memory for as long as its client reads, and clients need no login.
func TestFrontend_FewAnswersAreCompressedAtOnce(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("<p>a page"), 1<<20)
	app := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		kinds := map[string]string{"/": "text/html", "/data": "application/json", "/events": "text/event-stream"}
		w.Header().Set("Content-Type", kinds[r.URL.Path])
		for i := range text {
			text := text[i%4096:]
			if _, err := w.Write(text[:min(len(text), 1<<20)]); err != nil {
				return
			}
		}
	})
	h := openSite(t, map[string]string{"FRONTEND_UPSTREAM": app.addr()})
	// ask begins a request, and returns the Content-Encoding of its answer.
	ask := func(path string) (conn net.Conn, encoding string) {
		conn = h.dialFrom(t, "127.0.5.5")
		_ = conn.(*net.TCPConn).SetReadBuffer(4096)
		accept := map[bool]string{true: "text/event-stream", false: "*/*"}[path == "/events"]
		_, _ = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\nAccept: "+accept+"\r\nAccept-Encoding: zstd\r\n\r\n")
		got, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || got.StatusCode != http.StatusOK {
			t.Fatal(err)
		}
		return conn, got.Header.Get("Content-Encoding")
	}
	for range 40 {
		for _, path := range []string{"/data", "/events"} {
			if _, encoding := ask(path); encoding != "" {
				t.Fatalf("%s is compressed: %q", path, encoding)
			}
		}
	}
	var open []net.Conn
	for range 40 {
		conn, encoding := ask("/")
		if len(open) < 32 != (encoding == "zstd") {
			t.Fatalf("beside %d: %q", len(open), encoding)
		}
		open = append(open, conn)
	}
	for _, conn := range open {
		_ = conn.Close()
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, encoding := ask("/"); encoding == "zstd" {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("nothing is compressed any more")
		}
	}
}
