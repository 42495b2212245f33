package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// small returns a program that is built from files.
func small(t *testing.T, files map[string]string) []byte {
	t.Helper()
	source := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(source, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false",
		"-ldflags=-s -w", "-o", "small", ".")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return read(t, source, "small")
}

// imaged are options with the programs of the household's image for platforms. A small program
// stands for all.
func imaged(t *testing.T, platforms ...string) options {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("images are of Linux")
	}
	content := small(t, map[string]string{
		"go.mod": "module example.org/small\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() {}\n",
	})
	o := options{
		version: "v1.2.3", at: at, top: "../..", built: t.TempDir(), out: t.TempDir(), registry: "registry.example.org/pforte",
		cache: goenv(t, "GOMODCACHE"), root: goenv(t, "GOROOT"),
	}
	for _, on := range platforms {
		if err := os.Mkdir(filepath.Join(o.built, on), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, program := range images[0].programs {
			if err := os.WriteFile(filepath.Join(o.built, on, program), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return o
}

// headers returns what a tar has, by name.
func headers(t *testing.T, content []byte) (found map[string]*tar.Header, files map[string][]byte) {
	t.Helper()
	found, files = map[string]*tar.Header{}, map[string][]byte{}
	if end := make([]byte, 1024); !bytes.HasSuffix(content, end) { // which Go does not ask for, and others do
		t.Error("the archive has no end")
	}
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found, files
		} else if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(at) {
			t.Errorf("%s is of %s", header.Name, header.ModTime)
		}
		found[header.Name] = header
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// opened returns a file of a layout by its description, whose size and sum it checks.
func opened(t *testing.T, layout map[string][]byte, d descriptor) []byte {
	t.Helper()
	content := layout[blob(d)]
	if len(content) != d.Size || d.Digest != fmt.Sprintf("sha256:%x", sha256.Sum256(content)) {
		t.Fatalf("%s is not what is described", d.Digest)
	}
	return content
}

func decoded[T any](t *testing.T, content []byte) (value T) {
	t.Helper()
	if err := json.Unmarshal(content, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestImage_HasThePlatformsProgramsAndNothingElse(t *testing.T) {
	o := imaged(t, "linux_amd64", "linux_arm64")
	names, err := release(o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"pforte_v1.2.3_linux_amd64.tar.gz", "pforte_v1.2.3_linux_arm64.tar.gz", "compose.household.yml", "pforte.ref", "pforte_v1.2.3_image.cdx.json",
		"pforte_v1.2.3_image.tar", "SHA256SUMS",
	}, names); diff != "" {
		t.Fatalf("made (-want +got):\n%s", diff)
	}
	first := read(t, o.out, "pforte_v1.2.3_image.tar")
	_, layout := headers(t, first)
	top := decoded[manifest](t, layout["index.json"])
	if len(top.Manifests) != 1 || layout["manifest.json"] != nil {
		t.Fatalf("the layout has %+v", top)
	}
	index := decoded[manifest](t, opened(t, layout, top.Manifests[0]))
	var platforms []string
	for _, d := range index.Manifests {
		platforms = append(platforms, d.Platform.OS+"/"+d.Platform.Architecture)
		variantHas(t, layout, d, read(t, filepath.Join(o.built, "linux_amd64"), "auth"))
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("it is for %v", platforms)
	}
	reference := "registry.example.org/pforte/pforte:v1.2.3@" + top.Manifests[0].Digest
	compose := string(read(t, o.out, "compose.household.yml"))
	if !strings.Contains(compose, "${PFORTE_IMAGE:-"+reference+"}") || strings.Contains(compose, "localhost/pforte") || string(read(t, o.out, "pforte.ref")) != reference+"\n" {
		t.Errorf("the compose file does not run %s", reference)
	}
	sums := string(read(t, o.out, "SHA256SUMS"))
	for _, name := range names[:len(names)-1] {
		if !strings.Contains(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(read(t, o.out, name)), name)) {
			t.Errorf("no sum of %s", name)
		}
	}
	o.out = t.TempDir()
	if _, err := release(o); err != nil || !bytes.Equal(first, read(t, o.out, "pforte_v1.2.3_image.tar")) {
		t.Errorf("a second time it is another one, %v", err)
	}
}

// variantHas checks the image for one platform.
func variantHas(t *testing.T, layout map[string][]byte, d descriptor, program []byte) {
	t.Helper()
	m := decoded[manifest](t, opened(t, layout, d))
	c := decoded[configuration](t, opened(t, layout, *m.Config))
	if c.Config.User != "65532:65532" || c.Architecture != d.Platform.Architecture || !slices.Contains(c.Config.Env, "PATH=/bin") {
		t.Errorf("it is %+v", c)
	}
	all, files := map[string]*tar.Header{}, map[string][]byte{}
	for i, layer := range m.Layers {
		compressed, err := gzip.NewReader(bytes.NewReader(opened(t, layout, layer)))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(compressed)
		if err != nil || c.RootFS.DiffIDs[i] != fmt.Sprintf("sha256:%x", sha256.Sum256(plain)) {
			t.Fatalf("layer %d: %v", i, err)
		}
		found, content := headers(t, plain)
		maps.Copy(all, found)
		maps.Copy(files, content)
	}
	for _, name := range images[0].programs {
		if header := all["bin/"+name]; header == nil || header.Mode != 0o755 || header.Uid != 0 || !bytes.Equal(files["bin/"+name], program) {
			t.Errorf("%s is %+v", name, header)
		}
	}
	for name, header := range all {
		owned := header.Typeflag == tar.TypeDir && slices.Contains(folders, strings.TrimSuffix(name, "/"))
		if owned != (header.Uid == user) {
			t.Errorf("%s is of user %d", name, header.Uid)
		}
		if header.Typeflag == tar.TypeReg && !strings.HasPrefix(name, "bin/") && !strings.HasPrefix(name, "licences") &&
			!slices.Contains([]string{"etc/passwd", "etc/ssl/certs/ca-certificates.crt", "LICENSE"}, name) {
			t.Errorf("it has %s", name)
		}
	}
	if roots := x509.NewCertPool(); !roots.AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]) || !strings.Contains(string(files["licences.md"]), "| std |") {
		t.Error("it lacks authorities or licences")
	}
}

func TestImage_IsLoadedOfOnePlatform(t *testing.T) {
	o := imaged(t, "linux_amd64")
	o.local, o.registry = true, ""
	names, err := release(o)
	if err != nil || !slices.Equal(names, []string{"pforte_v1.2.3_image.tar"}) {
		t.Fatalf("%v, %v", names, err)
	}
	_, layout := headers(t, read(t, o.out, names[0]))
	saved := decoded[[]struct {
		Config           string
		RepoTags, Layers []string
	}](t, layout["manifest.json"])
	if len(saved) != 1 || !slices.Equal(saved[0].RepoTags, []string{"localhost/pforte:devel"}) || layout[saved[0].Config] == nil || len(saved[0].Layers) != 5 {
		t.Errorf("docker reads %+v", saved)
	}
	o = imaged(t, "linux_amd64", "linux_arm64")
	o.local = true
	if _, err := release(o); err == nil {
		t.Error("two platforms are no fault")
	}
}
