package app_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	pkgconfig "github.com/pforte/pforte/pkg/config"
	"github.com/pforte/pforte/pkg/redistest"
	"github.com/pforte/pforte/services/auth/internal/config"
)

var update = flag.Bool("update", false, "write the table of settings into the README")

const (
	module = "../.." // services/auth
	begin  = "<!-- settings -->\n"
	ending = "<!-- end -->"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(module, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestREADME_ListsTheSettingsAsTheyAre(t *testing.T) {
	text := readme(t)
	before, rest, ok1 := strings.Cut(text, begin)
	table, after, ok2 := strings.Cut(rest, ending)
	if !ok1 || !ok2 {
		t.Fatal("the README has no place for the settings")
	}
	want := pkgconfig.Table[config.Config]()
	if *update {
		if err := os.WriteFile(filepath.Join(module, "README.md"), []byte(before+begin+want+ending+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("run go test ./internal/app -run README -update: %s", diff)
	}
}

func TestMetrics_PageListsEveryOneOfOurs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(module, "../../deploy/docs/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, settings(t, redistest.Start(t)))
	p.loggedIn(adminName, adminPass)
	_, metrics := get(t, p.admin+"/metrics")
	var there []string
	for _, name := range regexp.MustCompile(`(?m)^# TYPE (auth_\w+ \w+)$`).FindAllStringSubmatch(metrics, -1) {
		there = append(there, name[1])
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(auth_\\w+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, row[1]+" "+row[2])
	}
	slices.Sort(listed)
	if diff := cmp.Diff(listed, there); diff != "" {
		t.Errorf("the page lists (-), the service has (+): %s", diff)
	}
}

func TestREADME_ListsEveryEvent(t *testing.T) {
	text := readme(t)
	sources, err := filepath.Glob("../httpapi/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range sources {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range regexp.MustCompile(`a\.audit\(c, "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
			if !strings.Contains(text, "`"+event[1]+"`") {
				t.Errorf("the event %s is not in the README", event[1])
			}
		}
	}
}
