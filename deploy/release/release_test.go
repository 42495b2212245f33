package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var at = time.Unix(1_700_000_000, 0).UTC()

// built returns a folder with one program for one platform.
func built(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	program := filepath.Join(folder, runtime.GOOS+"_"+runtime.GOARCH, "backup")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false",
		"-o", program, "../backup")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return folder
}

func goenv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func released(t *testing.T) options {
	t.Helper()
	return options{
		version: "v1.2.3", at: at, top: "../..", built: built(t), cache: goenv(t, "GOMODCACHE"), root: goenv(t, "GOROOT"), out: t.TempDir(),
	}
}

// unpack returns the files of an archive by name.
func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(compressed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(at) || header.Uid != 0 || header.Uname != "" {
			t.Errorf("%s is of %s and of user %d %s", header.Name, header.ModTime, header.Uid, header.Uname)
		}
		if program := strings.Contains(header.Name, "/bin/"); program != (header.Mode == 0o755) {
			t.Errorf("%s has the mode %o", header.Name, header.Mode)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

func TestRelease_IsCompleteAndReproducible(t *testing.T) {
	o := released(t)
	names, err := release(o)
	if err != nil {
		t.Fatal(err)
	}
	folder := fmt.Sprintf("pforte_v1.2.3_%s_%s", runtime.GOOS, runtime.GOARCH)
	if diff := cmp.Diff([]string{folder + ".tar.gz", "SHA256SUMS"}, names); diff != "" {
		t.Fatalf("differs (-want +got):\n%s", diff)
	}
	first := read(t, o.out, names[0])
	if sums := string(read(t, o.out, names[1])); sums != fmt.Sprintf("%x  %s\n", sha256.Sum256(first), names[0]) {
		t.Errorf("the sums are %s", sums)
	}
	o.out = t.TempDir()
	if _, err := release(o); err != nil || !bytes.Equal(first, read(t, o.out, names[0])) {
		t.Errorf("a second time it is another one, %v", err)
	}
	files := unpack(t, first)
	for name, want := range map[string]string{
		"README.md": "# Pforte", "LICENSE": "Apache License", "services/auth/README.md": "SESSION_SECRET", "deploy/docs/operations.md": "# Operations",
		"licences.md": "| modernc.org/sqlite |", "licences/std@" + strings.TrimPrefix(runtime.Version(), "go") + "/LICENSE": "The Go Authors",
		"sbom.cdx.json": `"pkg:golang/modernc.org/sqlite@`, "bin/backup": "backup restore",
		"services/verifier/api/server.json": `"remotes"`,
		"deploy/systemd/auth.env":           "OTEL_EXPORTER_OTLP_ENDPOINT", "deploy/observability/alerts.yml": "alert: ProgramDown",
		"deploy/observability/prometheus.yml": "rule_files", "deploy/observability/grafana/pforte.json": "auth_sessions_live",
	} {
		if !strings.Contains(files[folder+"/"+name], want) {
			t.Errorf("%s is not there, or does not contain %q", name, want)
		}
	}
	everyModule(t, files[folder+"/sbom.cdx.json"], files[folder+"/licences.md"])
}

// everyModule checks that the two lists agree, and have a licence everywhere.
func everyModule(t *testing.T, sbom, list string) {
	t.Helper()
	var bom struct {
		SpecVersion string
		Metadata    struct {
			Component struct {
				Licenses []struct{ License struct{ ID string } }
			}
		}
		Components []struct {
			Name, Version string
			Hashes        []struct{ Alg, Content string }
			Licenses      []struct{ License struct{ ID string } }
		}
	}
	if err := json.Unmarshal([]byte(sbom), &bom); err != nil {
		t.Fatal(err)
	}
	if bom.SpecVersion != "1.6" || len(bom.Components) < 10 {
		t.Errorf("version %s, %d components", bom.SpecVersion, len(bom.Components))
	}
	if own := bom.Metadata.Component.Licenses; len(own) != 1 || own[0].License.ID != "Apache-2.0" {
		t.Errorf("the release's own licence is %v", own)
	}
	for _, c := range bom.Components {
		if len(c.Licenses) == 0 || !strings.Contains(list, fmt.Sprintf("| %s | %s | %s", c.Name, c.Version, c.Licenses[0].License.ID)) {
			t.Errorf("%s has no licence, or not the one of the list", c.Name)
		}
		if c.Name != "std" && (len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64) {
			t.Errorf("%s has no sum: %+v", c.Name, c.Hashes)
		}
		if strings.HasPrefix(c.Name, "github.com/pforte/") {
			t.Errorf("%s is ours", c.Name)
		}
	}
}

func read(t *testing.T, folder, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestRelease_RefusesAPathOfTheBuilder(t *testing.T) {
	o := released(t)
	programs, err := filepath.Glob(filepath.Join(o.built, "*", "*"))
	if err != nil || len(programs) != 1 {
		t.Fatal(programs, err)
	}
	f, err := os.OpenFile(programs[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(o.cache + "/example.org/x.s"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := release(o); !errors.Is(err, errPath) {
		t.Errorf("got %v", err)
	}
}
