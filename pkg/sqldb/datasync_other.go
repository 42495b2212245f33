//go:build !linux

package sqldb

import "os"

// datasync waits until a file is on the disk.
func datasync(file *os.File) error { return file.Sync() }
