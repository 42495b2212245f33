//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package witness

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock opens a file, which it creates if there is none, and locks it until it is closed or the
// process ends. It is not the file of the state, because each write replaces that.
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
