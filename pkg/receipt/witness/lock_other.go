//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package witness

import (
	"errors"
	"os"
)

// lock refuses: without it two processes could cosign two histories.
func lock(string) (*os.File, error) { return nil, errors.ErrUnsupported }
