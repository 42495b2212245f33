//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package witness

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock makes a file and has it for this process until it is closed, or the process ends.
// The lock is one of its own file: Replace puts another in the place of the state.
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
