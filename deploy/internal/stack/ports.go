package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Port is an address that a program of the stack will listen on, and the
// setting that chooses it.
type Port struct {
	Program string
	Setting string
	Addr    string
}

// Free returns an error when addresses are taken, with a line for each and what to
// do about it.
func Free(ctx context.Context, ports ...Port) error {
	var faults []error
	for _, p := range ports {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.Addr)
		if err != nil {
			faults = append(faults, fmt.Errorf("port %s for %s is taken: stop what listens there, or set %s to another", port(p.Addr), p.Program, p.Setting))
			continue
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return errors.Join(faults...)
}

func port(addr string) string {
	_, number, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return number
}
