// Command release makes what is published, from programs that were built before: archives,
// images and the compose files that run them. `make release` runs it. What it makes depends on the
// checkout, the programs and the flags, and neither on the machine nor on when it runs.
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
	// top is the project's folder, built has a folder of programs for every platform, such as
	// "linux_amd64", and out is where the archives go.
	top, built, out string
	// registry is where the images are to be.
	registry string
	// local is whether only images are made, for docker load on this machine.
	local bool
	// cache and root are Go's GOMODCACHE and GOROOT.
	cache, root string
}

var errPath = errors.New("it contains a path of the machine that built it")

// pages are files that go into an archive, and folders whose pages, units, alerts and
// dashboard do; endings are those of the files that go from a folder.
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
	flag.StringVar(&o.registry, "registry", "", "where the images are to be, such as ghcr.io/owner")
	flag.BoolVar(&o.local, "local", false, "make the images of one platform alone, for docker load")
	flag.Parse()
	o.at = time.Unix(*epoch, 0).UTC()
	if o.version == "" || o.built == "" || o.cache == "" || o.root == "" || o.out == "" ||
		o.registry == "" && !o.local || flag.NArg() > 0 {
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

// release writes all files and, unless local, SHA256SUMS, and returns their names.
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
		if name != sumsName {
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), name)
		}
		return os.WriteFile(filepath.Join(o.out, name), content, 0o644) //nolint:gosec // to be published
	}
	var contained []string // the platforms that containers have
	for _, platform := range platforms {
		if strings.HasPrefix(platform.Name(), "linux_") {
			contained = append(contained, platform.Name())
		}
		if o.local {
			continue
		}
		folder := fmt.Sprintf("pforte_%s_%s", o.version, platform.Name())
		files, err := o.files(platform.Name())
		var archive []byte
		if err == nil {
			archive, err = pack(folder, files, o.at)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", folder, err)
		}
		if err := write(folder+".tar.gz", archive); err != nil {
			return nil, err
		}
	}
	if o.local && len(contained) != 1 {
		return nil, fmt.Errorf("docker loads one platform, and built are %v", contained)
	}
	for _, i := range images {
		files := map[string][]byte{}
		if err := o.addImage(i, contained, files); err != nil {
			return nil, fmt.Errorf("image %s: %w", i.name, err)
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if err := write(name, files[name]); err != nil {
				return nil, err
			}
		}
	}
	if o.local {
		return names, nil
	}
	return names, write(sumsName, []byte(sums.String()))
}

// sumsName is the file with the sums of all others.
const sumsName = "SHA256SUMS"

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
	plain, err := tarOf(folder, files, at)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = compressed.Write(plain)
	err = errors.Join(err, compressed.Close())
	return out.Bytes(), err
}

// tarOf returns a tar: files by name, owned by root, all of one time, below folder, "" for none.
func tarOf(folder string, files map[string][]byte, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
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
	err := archive.Close()
	return out.Bytes(), err
}
