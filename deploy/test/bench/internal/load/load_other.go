//go:build !linux

package load

import (
	"context"
	"errors"
)

// Run needs epoll.
func Run(context.Context, Job) (Result, error) {
	return Result{}, errors.New("load: runs on Linux only")
}
