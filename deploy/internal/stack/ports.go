package stack

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Port is an address that a program of the stack will listen on, and the
// setting that chooses it.
type Port struct {
	Program string
	Setting string
	Addr    string
}

// Free fails when an address is taken, with a line for each that says what to
// do.
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

// Ports that FreePorts chooses from: below those that systems give to outgoing
// connections, which could take a free one before its program does.
const (
	lowestPort  = 20_000
	highestPort = 32_000
)

// FreePorts gives n different ports of 127.0.0.1 that nobody listens on.
func FreePorts(ctx context.Context, n int) ([]string, error) {
	var addrs []string
	for range 100 * (n + 1) {
		if len(addrs) == n {
			return addrs, nil
		}
		number := lowestPort + rand.IntN(highestPort-lowestPort) //nolint:gosec // no secret
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(number))
		if l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr); err == nil {
			defer func() { _ = l.Close() }() // all at the end, so that no port comes twice
			addrs = append(addrs, addr)
		}
	}
	return nil, errors.New("no free ports")
}
