//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package witness

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock creates a file and locks it for this process until it is closed, or the process ends.
// It is a file of its own, because the file of the state is replaced by each write.
func lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: another process has it: %w", path, err), file.Close())
	}
	return file, nil
}
