package buildinfo

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
)

func TestVersion_TheLinkersComesBeforeGos(t *testing.T) {
	installed := &debug.BuildInfo{Main: debug.Module{Version: "v1.1.0"}}
	for _, c := range []struct {
		name, linked string
		noted        *debug.BuildInfo
		want         string
	}{
		{"linked", "v1.2.3", installed, "v1.2.3"},
		{"linked, nothing noted", "v1.2.3", nil, "v1.2.3"},
		{"installed by Go", "", installed, "v1.1.0"},
		{"noted without a version", "", &debug.BuildInfo{}, "(unknown)"},
		{"nothing set", "", nil, "(unknown)"},
	} {
		if got := choose(c.linked, c.noted); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// It is built as the Makefile and the Dockerfile build every program, and without
// the linker's flag.
func TestVersion_IsReportedHoweverAProgramIsBuilt(t *testing.T) {
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"-ldflags", "-s -w -X main.version=v1.2.3"}, "v1.2.3\n"},
		{nil, "(devel)\n"},
	} {
		program := filepath.Join(t.TempDir(), "program")
		args := append([]string{"build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-o", program},
			c.flags...)
		build := exec.CommandContext(t.Context(), "go", append(args, "./testdata/program")...)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		out, err := exec.CommandContext(t.Context(), program).CombinedOutput()
		if err != nil || string(out) != c.want {
			t.Errorf("built with %q it prints %q, %v; want %q", c.flags, out, err, c.want)
		}
	}
}
