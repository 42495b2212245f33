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

// Ports are the addresses with the names of their programs, and the settings of the
// local stack that choose them.
func (a Addresses) Ports() []stack.Port {
	return []stack.Port{
		{Program: "the proxy", Setting: "PROXY_PORT", Addr: a.Proxy},
		{Program: "the proxy's metrics", Setting: "PROXY_ADMIN_PORT", Addr: a.ProxyAdmin},
		{Program: "auth", Setting: "AUTH_PORT", Addr: a.Auth},
		{Program: "auth's metrics", Setting: "AUTH_ADMIN_PORT", Addr: a.AuthAdmin},
		{Program: "verifier", Setting: "VERIFIER_PORT", Addr: a.Verifier},
		{Program: "verifier's metrics", Setting: "VERIFIER_ADMIN_PORT", Addr: a.VerifierAdmin},
		{Program: "the chain", Setting: "CHAIN_PORT", Addr: a.Chain},
		{Program: "the facilitator", Setting: "FACILITATOR_PORT", Addr: a.Facilitator},
		{Program: "Redis", Setting: "REDIS_PORT", Addr: a.Redis},
	}
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
