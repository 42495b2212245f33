package main

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

var update = flag.Bool("update", false, "write testdata/caddy.json anew")

const golden = "testdata/caddy.json"

// What Caddy makes of the file without any setting is part of the review of a
// change: go test -run Golden -update.
func TestGoldenConfiguration(t *testing.T) {
	t.Parallel()
	got, err := program(t, nil, "adapt", "--config", "Caddyfile", "--adapter", "caddyfile", "--pretty").Output()
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

func TestTheCaddyfileIsFormatted(t *testing.T) {
	t.Parallel()
	if got := string(caddyfile.Format([]byte(configuration))); got != configuration {
		t.Error("run pforte-proxy fmt --overwrite Caddyfile")
	}
}

func TestTheReadmeHasEverySetting(t *testing.T) {
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
		if !strings.HasSuffix(match[1], "_REPLICAS") && !strings.HasSuffix(match[1], "_SWITCH") { // set by the program
			taken = append(taken, match[1]+":"+fallback)
		}
	}
	slices.Sort(taken)
	slices.Sort(listed)
	if taken = slices.Compact(taken); !slices.Equal(taken, listed) {
		t.Errorf("the Caddyfile has\n%s\nthe README lists\n%s", strings.Join(taken, "\n"), strings.Join(listed, "\n"))
	}
}
