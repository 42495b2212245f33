package stack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ErrRunning is that another stack uses the same state.
var ErrRunning = errors.New("a stack with this state runs already")

// Lock claims a folder of state for this process until the file is closed or
// the process ends.
func Lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder for state: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the caller's folder
	if err != nil {
		return nil, fmt.Errorf("lock the state: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w (%s)", ErrRunning, dir)
		}
		return nil, fmt.Errorf("lock the state: %w", err)
	}
	return f, nil
}
