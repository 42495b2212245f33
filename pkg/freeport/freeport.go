// Package freeport finds addresses of this machine for programs that tests and
// tools start and that need an address to listen on.
package freeport

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports to choose from: below those that systems use for outgoing
// connections (32768 and up on Linux, 49152 on others). Port 0 would take one
// of those, which any connection may take before the program listens, or while
// it is started again.
const (
	lowest  = 20_000
	highest = 32_000
)

// Addrs returns n different addresses 127.0.0.1:port on which no process listens.
func Addrs(ctx context.Context, n int) ([]string, error) {
	var addrs []string
	for range 100 * (n + 1) {
		if len(addrs) == n {
			return addrs, nil
		}
		number := lowest + rand.IntN(highest-lowest) //nolint:gosec // no secret
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(number))
		if l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr); err == nil {
			defer func() { _ = l.Close() }() // all at the end, so that no port comes twice
			addrs = append(addrs, addr)
		}
	}
	return nil, errors.New("no free ports")
}
