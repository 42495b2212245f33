package release

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// File is one file of an archive.
type File struct {
	// Name is its path in the archive, with slashes.
	Name       string
	Content    []byte
	Executable bool
}

// writeArchive writes a compressed tar that depends on its arguments only: files
// by name, owned by nobody, all of one time, below one folder.
func writeArchive(out io.Writer, folder string, files []File, at time.Time) error {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		header := tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(folder, f.Name), Size: int64(len(f.Content)), Mode: 0o644, ModTime: at.UTC(), Format: tar.FormatUSTAR,
		}
		if f.Executable {
			header.Mode = 0o755
		}
		if err := archive.WriteHeader(&header); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if _, err := archive.Write(f.Content); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

// licenceFiles are a list of all modules with their licences, and the texts.
func licenceFiles(modules []Module) []File {
	var list strings.Builder
	list.WriteString("# What is compiled into these programs\n\n| Module | Version | Licence |\n|---|---|---|\n")
	var files []File
	for _, m := range modules {
		fmt.Fprintf(&list, "| %s | %s | %s |\n", m.Path, m.Version, strings.Join(m.ids(), ", "))
		for _, l := range m.Licences {
			files = append(files, File{Name: path.Join("licences", m.Path+"@"+m.Version, l.File), Content: []byte(l.Text)})
		}
	}
	return append(files, File{Name: "licences.md", Content: []byte(list.String())})
}

// filesBelow reads every file of a folder whose name ends in one of the endings,
// to stand in the archive below at.
func filesBelow(folder, at string, endings ...string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		wanted := name == folder || slices.Contains(endings, filepath.Ext(name))
		if err != nil || !entry.Type().IsRegular() || !wanted {
			return err
		}
		content, err := os.ReadFile(name) //nolint:gosec // of the project
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, name)
		files = append(files, File{Name: path.Join(at, filepath.ToSlash(relative)), Content: content})
		return err
	})
	return files, err
}
