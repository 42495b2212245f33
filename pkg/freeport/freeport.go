// Package freeport finds addresses of this machine for programs that tests and
// tools start and that need an address to listen on.
package freeport

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports to choose from: below those that systems use for outgoing
// connections (32768 and up on Linux, 49152 on others). Port 0 would take one
// of those, which any connection may take before the program listens, or while
// it is started again.
const (
	lowest = 20_000
	count  = 6_000
)

// claims are listeners that this process keeps open: for each port that Addrs returned, one
// on that port plus count. A process that cannot listen there does not choose the port.
// They stay open until this process ends, as its programs may listen late and start again.
var claims struct {
	sync.Mutex
	listeners []net.Listener
}

// Addrs returns n different addresses 127.0.0.1:port on which no process listens. It
// has returned none of them before, in this process or in another one that still runs.
func Addrs(ctx context.Context, n int) ([]string, error) {
	var addrs []string
	for range 100 * (n + 1) {
		if len(addrs) == n {
			return addrs, nil
		}
		port := lowest + rand.IntN(count) //nolint:gosec // no secret
		claim, err := listen(ctx, port+count)
		if err != nil {
			continue
		}
		l, err := listen(ctx, port)
		if err != nil {
			_ = claim.Close()
			continue
		}
		addrs = append(addrs, l.Addr().String())
		_ = l.Close()
		claims.Lock()
		claims.listeners = append(claims.listeners, claim)
		claims.Unlock()
	}
	return nil, errors.New("no free ports")
}

func listen(ctx context.Context, port int) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
