package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// top is the project's folder as seen from this package.
const top = "../../.."

func none(t *testing.T, faults []string) {
	t.Helper()
	for _, fault := range faults {
		t.Error(fault)
	}
}

func TestArchitecture_Holds(t *testing.T) {
	packages, err := Load(t.Context(), top)
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 20 {
		t.Fatalf("only %d packages found", len(packages))
	}
	t.Run("imports run down", func(t *testing.T) { none(t, Arrows(packages)) })
	t.Run("each library is imported where it may be", func(t *testing.T) { none(t, Libraries(packages)) })
	t.Run("every permission is used", func(t *testing.T) { none(t, Unused(packages)) })
	t.Run("each package has a package comment", func(t *testing.T) { none(t, Docs(packages)) })
	t.Run("what pages and comments name exists", func(t *testing.T) {
		faults, err := Names(os.DirFS(top))
		if err != nil {
			t.Fatal(err)
		}
		none(t, faults)
	})
	t.Run("rules are proven, and what is cited is a rule", func(t *testing.T) {
		faults, err := Law(os.DirFS(top))
		if err != nil {
			t.Fatal(err)
		}
		none(t, faults)
	})
	t.Run("files are finished", func(t *testing.T) {
		faults, err := Files(os.DirFS(top))
		if err != nil {
			t.Fatal(err)
		}
		none(t, faults)
	})
}

func TestModules_AreAllBuiltAndTested(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(top, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "MODULES  := " + strings.Join(Modules, " ") + "\n"; !strings.Contains(string(makefile), want) {
		t.Errorf("the Makefile has no line %q", want)
	}
	work, err := os.ReadFile(filepath.Join(top, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	workflow, err := os.ReadFile(filepath.Join(top, ".github/workflows/ci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range Modules {
		if !strings.Contains(string(work), "./"+module+"\n") {
			t.Errorf("go.work does not use %s", module)
		}
		if !strings.Contains(string(workflow), "- test/"+module+"\n") {
			t.Errorf("ci.yml does not test %s", module)
		}
	}
}
