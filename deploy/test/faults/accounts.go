package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"

	"github.com/pforte/pforte/deploy/test/internal/buyer"
)

// How many accounts of each kind a world has. A run has fewer purchases than
// that, so that each has an account of its own and no buyer is held to what
// another one's payments came to.
const (
	buyers    = 40
	reverters = 6
)

// accounts are those that buyers pay from.
type accounts struct {
	honest    []*buyer.Buyer
	reverting []*buyer.Buyer // whose transfers revert
}

// ownAddresses tells whether all of 127.0.0.0/8 is this machine's, so that
// buyers can have addresses of their own.
const ownAddresses = runtime.GOOS == "linux"

// address is the n-th address of this machine in a network of its own.
func address(network, n int) net.Addr {
	if !ownAddresses {
		return nil
	}
	return &net.TCPAddr{IP: net.IPv4(127, byte(network), byte(n>>8), byte(n))}
}

// openAccounts makes all accounts, with some money each.
func (w *world) openAccounts(ctx context.Context) error {
	for i := range buyers + reverters {
		b, err := buyer.New(fmt.Sprintf("0x%064x", 0x1000+i))
		if err != nil {
			return err
		}
		if i < buyers {
			w.accounts.honest = append(w.accounts.honest, b)
			continue
		}
		w.accounts.reverting = append(w.accounts.reverting, b)
	}
	var all sync.WaitGroup
	faults := make([]error, buyers+reverters)
	for i, b := range append(w.accounts.honest[:buyers:buyers], w.accounts.reverting...) {
		all.Go(func() { faults[i] = w.give(ctx, b.Address, "100000000") })
	}
	all.Wait()
	if err := errors.Join(faults...); err != nil {
		return err
	}
	own, err := newWallet(ctx, w.chain)
	if err != nil {
		return err
	}
	return own.revertingPayers(ctx, w.accounts.reverting)
}
