package layout

import (
	"path/filepath"

	"github.com/pforte/pforte/deploy/internal/stack"
)

// AdminName is the name of the first administrator.
const AdminName = "admin"

// Addresses are the host:port pairs that the programs listen on.
type Addresses struct {
	Proxy, ProxyAdmin, Auth, AuthAdmin, Verifier, VerifierAdmin, Chain, Facilitator, Redis string
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

// program gives one program with the settings it needs, by its name in bin.
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
