package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// format is the version of the archive's form.
const format = 1

// Bounds of what is read, in bytes.
const (
	maxManifest = 64 << 10
	maxFile     = 1 << 40
)

// ErrArchive is returned for an archive that is not one of ours, not whole, or not for the settings.
var ErrArchive = errors.New("the archive is not a whole backup")

const manifestName = "manifest.json"

// Manifest describes an archive, in its first file.
type Manifest struct {
	Format int `json:"format"`
	// MadeAt is when saving began.
	MadeAt time.Time `json:"madeAt"`
	// Version is that of the program that made it.
	Version string  `json:"version"`
	Files   []Entry `json:"files"`
}

// Entry is one file of an archive.
type Entry struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// pack writes the manifest and its files, which lie in folder, as a tar.
func pack(out io.Writer, folder string, m Manifest) error {
	archive := tar.NewWriter(out)
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	add := func(name string, size int64, content io.Reader) error {
		err := archive.WriteHeader(&tar.Header{
			Name: name, Size: size, Mode: 0o600, ModTime: m.MadeAt, Format: tar.FormatPAX,
		})
		if err == nil {
			_, err = io.Copy(archive, content)
		}
		return err
	}
	if err := add(manifestName, int64(len(text)), bytes.NewReader(text)); err != nil {
		return err
	}
	for _, entry := range m.Files {
		f, err := os.Open(filepath.Join(folder, entry.Name)) //nolint:gosec // in a folder of our own
		if err != nil {
			return err
		}
		if err := errors.Join(add(entry.Name, entry.Size, f), f.Close()); err != nil {
			return err
		}
	}
	return archive.Close()
}

// unpack writes the files of a tar into folder and fails, with ErrArchive, unless
// they are those that its manifest names.
func unpack(in io.Reader, folder string) (Manifest, error) {
	archive := tar.NewReader(in)
	var m Manifest
	first, err := archive.Next()
	if err != nil || first.Name != manifestName {
		return m, fmt.Errorf("%w: it does not begin with a manifest", ErrArchive)
	}
	if err := json.NewDecoder(io.LimitReader(archive, maxManifest)).Decode(&m); err != nil {
		return m, fmt.Errorf("%w: manifest: %w", ErrArchive, err)
	}
	if m.Format != format {
		return m, fmt.Errorf("%w: its format is %d, and this program knows %d", ErrArchive, m.Format, format)
	}
	for _, entry := range m.Files {
		header, err := archive.Next()
		if err != nil || header.Name != entry.Name || header.Size != entry.Size ||
			filepath.Base(entry.Name) != entry.Name {
			return m, fmt.Errorf("%w: %s is missing", ErrArchive, entry.Name)
		}
		got, err := describe(folder, entry.Name, archive)
		if err != nil {
			return m, fmt.Errorf("%w: %s: %w", ErrArchive, entry.Name, err)
		}
		if got != entry {
			return m, fmt.Errorf("%w: %s is not what was saved", ErrArchive, entry.Name)
		}
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		return m, fmt.Errorf("%w: it has more files than its manifest names", ErrArchive)
	}
	return m, nil
}

// describe returns the entry of a file in folder. Unless in is nil, it first writes the file from
// in.
func describe(folder, name string, in io.Reader) (_ Entry, err error) {
	path, sum := filepath.Join(folder, name), sha256.New()
	var f *os.File
	if in == nil {
		f, err = os.Open(path) //nolint:gosec // in a folder of our own
		in = f
	} else {
		f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // in a folder of our own
		in = io.TeeReader(io.LimitReader(in, maxFile), f)
	}
	if err != nil {
		return Entry{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := io.Copy(sum, in)
	return Entry{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}
