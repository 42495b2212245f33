package main

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

var update = flag.Bool("update", false, "write testdata/caddy.json anew")

// goldens are what Caddy makes of the file, by the setting SITE_ADDRESS: with a host it wraps the routes.
var goldens = map[string]string{"": "testdata/caddy.json", "home.example.org": "testdata/caddy-host.json"}

// What Caddy makes of the file with no other setting is part of the review of a
// change: go test -run Golden -update.
func TestCaddyfile_GoldenConfiguration(t *testing.T) {
	t.Parallel()
	for site, golden := range goldens {
		settings := map[string]string{"SITE_ADDRESS": site}
		got, err := program(t, settings, "adapt", "--config", "Caddyfile", "--adapter", "caddyfile", "--pretty").Output()
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from what Caddy makes of the Caddyfile; run go test -run Golden -update and look at the change", golden)
		}
	}
}

// The pages and alerts of the operator select these handlers, whatever the site's address is.
func TestMetrics_CountEachRequestOnceWithAndWithoutAHost(t *testing.T) {
	t.Parallel()
	alerts, err := os.ReadFile("../deploy/observability/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	selector := regexp.MustCompile(`request_duration_seconds_count\{handler=~?"([^"]+)"`).FindSubmatch(alerts)
	if selector == nil {
		t.Fatal("no alert selects a handler")
	}
	series := regexp.MustCompile(`(?m)^caddy_http_request_duration_seconds_count\{[^}]*handler="(?:` + string(selector[1]) + `)"[^}]*\} (\d+)$`)
	for _, site := range []string{":PORT", "http://home.example.org:PORT"} {
		d := openSite(t, map[string]string{"SITE_ADDRESS": site})
		counted := func() (n int) {
			for _, line := range series.FindAllStringSubmatch((&server{url: d.admin}).request(t, "GET", "/metrics", "").body, -1) {
				one, _ := strconv.Atoi(line[1])
				n += one
			}
			return n
		}
		before := counted()
		for _, path := range []string{"/health", "/nothing", "/api/v1/auth/me", "/pforte/"} {
			d.request(t, "GET", path, "", "Host", "home.example.org")
		}
		if got := counted() - before; before != 0 || got != 4 {
			t.Errorf("%s: %d requests before the first, and 4 were counted as %d", site, before, got)
		}
	}
}

func TestCaddyfile_IsFormatted(t *testing.T) {
	t.Parallel()
	if got := string(caddyfile.Format([]byte(configuration))); got != configuration {
		t.Error("run pforte-proxy fmt --overwrite Caddyfile")
	}
}

func TestReadme_HasEverySetting(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| (.*?) \\|").FindAllStringSubmatch(string(readme), -1) {
		listed = append(listed, row[1]+":"+strings.Trim(row[2], "`"))
	}
	var taken []string
	for _, match := range regexp.MustCompile(`\{\$([A-Z_]+):?([^}]*)\}`).FindAllStringSubmatch(configuration, -1) {
		fallback := match[2]
		if strings.HasSuffix(fallback, ":9") || fallback == "/nonexistent" || strings.HasPrefix(fallback, "192.0.2.") {
			fallback = "" // stands for none
		}
		if !strings.HasSuffix(match[1], "_REPLICAS") && !strings.HasSuffix(match[1], "_SWITCH") && !strings.HasSuffix(match[1], "_SITES") { // set by the program
			taken = append(taken, match[1]+":"+fallback)
		}
	}
	slices.Sort(taken)
	slices.Sort(listed)
	if taken = slices.Compact(taken); !slices.Equal(taken, listed) {
		t.Errorf("the Caddyfile has\n%s\nthe README lists\n%s", strings.Join(taken, "\n"), strings.Join(listed, "\n"))
	}
}
