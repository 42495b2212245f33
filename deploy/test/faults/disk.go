package main

import (
	"errors"
	"os"
	"path/filepath"
)

// diskSize is the size of a world's disk, in bytes.
const diskSize = "24m"

// disk is a folder that can be made full.
type disk struct{ path string }

func newDisk(path string) (disk, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return disk{}, err
	}
	return disk{path: path}, mountDisk(path)
}

func (d disk) ballast() string { return filepath.Join(d.path, "ballast") }

// fill writes until no space is left. A disk that is not its own stays as it is.
func (d disk) fill() error {
	if !ownDisks {
		return nil
	}
	file, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for size := 1 << 20; size > 0; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return nil
}

// free ends what fill did.
func (d disk) free() { _ = os.Remove(d.ballast()) }

// empty removes everything.
func (d disk) empty() error {
	files, err := filepath.Glob(filepath.Join(d.path, "*"))
	for _, file := range files {
		err = errors.Join(err, os.RemoveAll(file))
	}
	return err
}

func (d disk) close() {
	if d.path != "" {
		unmountDisk(d.path)
	}
}
