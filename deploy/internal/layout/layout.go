package layout

import (
	"context"
	"path/filepath"

	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/pkg/freeport"
)

// AdminName is the name of the first administrator.
const AdminName = "admin"

// Addresses are the host:port pairs that the programs listen on.
type Addresses struct {
	Proxy, ProxyAdmin, Auth, AuthAdmin, Verifier, VerifierAdmin, Chain, Facilitator, Redis string
}

// FreeAddresses returns addresses of this machine on which no program listens.
func FreeAddresses(ctx context.Context) (Addresses, error) {
	a, err := freeport.Addrs(ctx, 9)
	if err != nil {
		return Addresses{}, err
	}
	return Addresses{
		Proxy: a[0], ProxyAdmin: a[1], Auth: a[2], AuthAdmin: a[3], Verifier: a[4], VerifierAdmin: a[5],
		Chain: a[6], Facilitator: a[7], Redis: a[8],
	}, nil
}

// Layout is one stack: where its programs are, what they keep, and where they
// listen.
type Layout struct {
	// Bin is the folder of the built programs.
	Bin string
	// State is the folder of everything that is kept.
	State string
	Addresses
	// PublicURL is the address that clients see.
	PublicURL string
	// Extra holds further settings by the name of a program, which win.
	Extra map[string]map[string]string
}

// Path is the path of a file of the state.
func (l Layout) Path(name string) string { return filepath.Join(l.State, name) }

// program returns one program with the settings it needs, by its name in bin.
func (l Layout) program(name string, settings map[string]string, health string) stack.Program {
	for setting, value := range l.Extra[name] {
		settings[setting] = value
	}
	env := make([]string, 0, len(settings))
	for setting, value := range settings {
		env = append(env, setting+"="+value)
	}
	return stack.Program{
		Name: name, Path: filepath.Join(l.Bin, name), Env: env,
		Ready: stack.Healthy(health),
	}
}
