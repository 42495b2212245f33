package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
)

const (
	// assets is how many pictures the page of an application has, each of assetBytes.
	assets     = 100
	assetBytes = 8 << 10
	// openPath is where the same application is that guardedPath leads to, without the guard.
	openPath = "/open/"
)

// assets measures how long a browser waits for a page of many pictures behind the guard, beside the same without it.
func (s *suite) assets() {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		s.Skip("needs Chromium")
	}
	node, err := exec.LookPath("node")
	s.must(err)
	s.line("\n## A page behind the guard\n\nA page of %d pictures of %d KB, in Chromium over HTTP/2 with TLS, behind the guard and beside the same without it: "+
		"from the start of the navigation to the end of the load, each in turn. Cold: a browser that has never seen it; warm: loaded once more, where each picture is asked for "+
		"and has not changed (304). Browser, proxy, auth and application share the cores.", assets, assetBytes>>10)
	app := httptest.NewServer(album())
	s.Cleanup(app.Close)
	w := s.open(s.bin)
	w.PublicURL = "https://home.test:" + portOf(w.Addresses.Proxy)
	w.Extra["pforte-proxy"] = map[string]string{
		"SITE_ADDRESS": w.PublicURL, "TLS": "internal",
		"ROUTES": fmt.Sprintf("handle %s* {\nimport require_app photos\nreverse_proxy %s\n}\nhandle %s* {\nreverse_proxy %[2]s\n}\n",
			guardedPath, app.Listener.Addr(), openPath),
	}
	w.start(w.redis(), w.Auth())
	w.enter("photos", guardedPath)
	w.start(w.Proxy())
	script := filepath.Join(w.top, "deploy/test/e2e/clients/assets.mjs")
	out := w.run(stack.Program{Path: node, Env: append(os.Environ(),
		"CHROMIUM="+chromium, "ORIGIN="+w.PublicURL, "PAGES="+guardedPath+" "+openPath, fmt.Sprint("ASSETS=", assets),
		"USERNAME="+layout.AdminName, "PASSWORD="+w.password, fmt.Sprint("TURNS=", turns*s.rounds))}, script)
	cold, warm := map[string]samples{}, map[string]samples{}
	for line := range bytes.Lines(out) {
		var took struct {
			Path       string
			Cold, Warm float64
		}
		w.must(json.Unmarshal(line, &took))
		cold[took.Path], warm[took.Path] = append(cold[took.Path], took.Cold), append(warm[took.Path], took.Warm)
	}
	beside := func(what string, took map[string]samples) row {
		ratio := took[guardedPath].over(took[openPath])
		return row{what: what, unit: "ms", ours: took[guardedPath], beside: took[openPath], ratio: ratio, goal: atMost(1.3)}
	}
	s.table("without the guard", beside("cold", cold), beside("warm", warm))
}

// album is an application: a page of pictures, which a browser may keep and has to ask for again.
func album() http.Handler {
	var page strings.Builder
	page.WriteString("<!DOCTYPE html><title>Album</title>")
	for i := range assets {
		fmt.Fprintf(&page, "<img src=%d.svg width=8 height=8 alt>", i)
	}
	picture := `<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><path d="M0 0h8v8H0z"/><!--` + strings.Repeat("x", assetBytes) + `--></svg>`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".svg") {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte(page.String()))
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = w.Write([]byte(picture))
	})
}
