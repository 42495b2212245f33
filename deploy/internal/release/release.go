package release

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options say what is released.
type Options struct {
	Version string
	// At is the time of everything in the archives.
	At time.Time
	// Top is the project's folder, for its pages.
	Top string
	// Built has a folder of programs for every platform, named "linux_amd64".
	Built string
	// Cache and Root are Go's GOMODCACHE and GOROOT.
	Cache, Root string
	// Out is where the archives and SHA256SUMS go.
	Out string
}

// Make writes the archives and SHA256SUMS, and gives their names.
func Make(o Options) ([]string, error) {
	platforms, err := os.ReadDir(o.Built)
	if err != nil {
		return nil, fmt.Errorf("what was built: %w", err)
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil { //nolint:gosec // to be published
		return nil, err
	}
	var names []string
	var sums strings.Builder
	for _, platform := range platforms {
		name := fmt.Sprintf("pforte_%s_%s.tar.gz", o.Version, platform.Name())
		sum, err := o.archive(platform.Name(), filepath.Join(o.Out, name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		names = append(names, name)
		fmt.Fprintf(&sums, "%x  %s\n", sum, name)
	}
	if len(names) == 0 {
		return nil, errors.New("nothing was built")
	}
	return append(names, "SHA256SUMS"), os.WriteFile(filepath.Join(o.Out, "SHA256SUMS"), []byte(sums.String()), 0o644) //nolint:gosec // to be published
}

// archive writes one archive and gives its SHA-256.
func (o Options) archive(platform, to string) (_ []byte, err error) {
	programs, err := filepath.Glob(filepath.Join(o.Built, platform, "*"))
	if err != nil {
		return nil, err
	}
	modules, err := Inventory(programs, o.Cache, o.Root)
	if err != nil {
		return nil, err
	}
	files, err := o.files(programs, modules)
	if err != nil {
		return nil, err
	}
	out, err := os.Create(to) //nolint:gosec // to be published
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	sum := sha256.New()
	folder := fmt.Sprintf("pforte_%s_%s", o.Version, platform)
	if err := writeArchive(io.MultiWriter(out, sum), folder, files, o.At); err != nil {
		return nil, err
	}
	return sum.Sum(nil), nil
}

// ErrPath says that a program depends on where it was built.
var ErrPath = errors.New("it holds a path of the machine that built it")

// pages are the files and folders whose pages, units, alerts and dashboard go
// into an archive.
var pages = []string{"README.md", "LICENSE", "deploy/docs", "deploy/systemd", "deploy/observability", "pkg/README.md", "proxy/README.md", "services/auth/README.md", "services/verifier/README.md"}

func (o Options) files(programs []string, modules []Module) ([]File, error) {
	sbom, err := SBOM(modules, o.Version, o.At)
	if err != nil {
		return nil, err
	}
	files := append(licenceFiles(modules), File{Name: "sbom.cdx.json", Content: sbom})
	for _, program := range programs {
		content, err := os.ReadFile(program) //nolint:gosec // just built
		if err != nil {
			return nil, err
		}
		if bytes.Contains(content, []byte(o.Cache)) || bytes.Contains(content, []byte(o.Root+"/src")) {
			return nil, fmt.Errorf("%s: %w", filepath.Base(program), ErrPath)
		}
		files = append(files, File{Name: "bin/" + filepath.Base(program), Content: content, Executable: true})
	}
	for _, page := range pages {
		found, err := filesBelow(filepath.Join(o.Top, page), page, ".md", ".service", ".target", ".conf", ".env", ".timer", ".yml", ".json")
		if err != nil {
			return nil, err
		}
		files = slices.Concat(files, found)
	}
	return files, nil
}
