// Command release makes the archives that are published, from programs that were
// built before. `make release` runs it. An archive depends on the programs, the
// version and the time it is given, and on nothing of the machine.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// options is what is released.
type options struct {
	version string
	// at is the time of everything in the archives.
	at time.Time
	// top is the project's folder, built has a folder of programs for every
	// platform, named "linux_amd64", and out is where the archives go.
	top, built, out string
	// cache and root are Go's GOMODCACHE and GOROOT.
	cache, root string
}

// errPath means that a program depends on where it was built.
var errPath = errors.New("it contains a path of the machine that built it")

// pages are the files and folders whose pages, units, alerts and dashboard go
// into an archive; endings are those of their files.
var (
	pages = []string{
		"README.md", "LICENSE", "deploy/docs", "deploy/systemd", "deploy/observability", "pkg/README.md",
		"proxy/README.md", "services/auth/README.md", "services/verifier/README.md",
		"services/verifier/api/server.json",
	}
	endings = []string{".md", ".service", ".target", ".conf", ".env", ".timer", ".yml", ".json"}
)

func main() {
	var o options
	flag.StringVar(&o.version, "version", "", "what is released")
	epoch := flag.Int64("epoch", 0, "seconds since 1970: the time of everything in the archives")
	flag.StringVar(&o.top, "top", ".", "the project's folder")
	flag.StringVar(&o.built, "built", "", "folder with a folder of programs for every platform")
	flag.StringVar(&o.cache, "modcache", "", "Go's GOMODCACHE")
	flag.StringVar(&o.root, "goroot", "", "Go's GOROOT")
	flag.StringVar(&o.out, "out", "", "where the archives go")
	flag.Parse()
	o.at = time.Unix(*epoch, 0).UTC()
	if o.version == "" || o.built == "" || o.cache == "" || o.root == "" || o.out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	names, err := release(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(names, "\n"))
}

// release writes the archives and SHA256SUMS, and returns their names.
func release(o options) (names []string, err error) {
	platforms, err := os.ReadDir(o.built)
	if err != nil || len(platforms) == 0 {
		return nil, errors.Join(errors.New("nothing was built"), err)
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil { //nolint:gosec // to be published
		return nil, err
	}
	var sums strings.Builder
	write := func(name string, content []byte) error {
		names = append(names, name)
		return os.WriteFile(filepath.Join(o.out, name), content, 0o644) //nolint:gosec // to be published
	}
	for _, platform := range platforms {
		folder := fmt.Sprintf("pforte_%s_%s", o.version, platform.Name())
		files, err := o.files(platform.Name())
		var archive []byte
		if err == nil {
			archive, err = pack(folder, files, o.at)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", folder, err)
		}
		fmt.Fprintf(&sums, "%x  %s.tar.gz\n", sha256.Sum256(archive), folder)
		if err := write(folder+".tar.gz", archive); err != nil {
			return nil, err
		}
	}
	return names, write("SHA256SUMS", []byte(sums.String()))
}

// files returns the content of an archive by name: programs, SBOM, licences, pages.
func (o options) files(platform string) (map[string][]byte, error) {
	programs, err := filepath.Glob(filepath.Join(o.built, platform, "*"))
	if err != nil {
		return nil, err
	}
	modules, err := modulesIn(programs, o.cache, o.root)
	if err != nil {
		return nil, err
	}
	files := licenceFiles(modules)
	if files["sbom.cdx.json"], err = sbom(modules, o.version, o.at); err != nil {
		return nil, err
	}
	for _, program := range programs {
		content, err := os.ReadFile(program) //nolint:gosec // just built
		if err != nil {
			return nil, err
		}
		if bytes.Contains(content, []byte(o.cache)) || bytes.Contains(content, []byte(o.root+"/src")) {
			return nil, fmt.Errorf("%s: %w", filepath.Base(program), errPath)
		}
		files["bin/"+filepath.Base(program)] = content
	}
	project := os.DirFS(o.top)
	for _, page := range pages {
		err := fs.WalkDir(project, page, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || name != page && !slices.Contains(endings, path.Ext(name)) {
				return err
			}
			files[name], err = fs.ReadFile(project, name)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// pack returns a compressed tar: files by name, owned by root, all of one time,
// below one folder.
func pack(folder string, files map[string][]byte, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(folder, name), Size: int64(len(files[name])), Mode: 0o644,
			ModTime: at, Format: tar.FormatUSTAR,
		}
		if strings.HasPrefix(name, "bin/") {
			header.Mode = 0o755
		}
		err := archive.WriteHeader(&header)
		if err == nil {
			_, err = archive.Write(files[name])
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	err = errors.Join(archive.Close(), compressed.Close())
	return out.Bytes(), err
}
