package suite

import (
	"context"
	"net"

	"github.com/pforte/pforte/deploy/internal/stack"
)

func portOf(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "" // addresses here are our own
	}
	return port
}

func listening(addr string) func(context.Context) error { return stack.Listening(addr) }
