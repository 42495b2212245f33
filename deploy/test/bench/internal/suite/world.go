package suite

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/pkg/freeport"
)

// within is how long a program may take to start.
const within = 30 * time.Second

// world is one set of running programs.
type world struct {
	layout.Layout
	*stack.Stack
	suite *Suite
	// peers are the addresses of the servers that are compared with.
	peers map[string]string
	// password is the administrator's everywhere.
	password string
}

// open makes a world in which nothing runs yet.
func (s *Suite) open(ctx context.Context, name string) (*world, error) {
	folder, err := s.folder(name)
	if err != nil {
		return nil, err
	}
	addrs, err := freeport.Addrs(ctx, 9)
	if err != nil {
		return nil, err
	}
	l := layout.Layout{
		Bin: s.Bin, State: folder, PublicURL: "http://" + addrs[0], Extra: map[string]map[string]string{},
		Addresses: layout.Addresses{
			Proxy: addrs[0], ProxyAdmin: addrs[1], Auth: addrs[2], AuthAdmin: addrs[3], Verifier: addrs[4], VerifierAdmin: addrs[5],
			Chain: addrs[6], Facilitator: addrs[7], Redis: addrs[8],
		},
	}
	if err := l.Prepare(); err != nil {
		return nil, err
	}
	password, err := l.AdminPassword()
	if err != nil {
		return nil, err
	}
	programs, err := stack.New(filepath.Join(folder, "log"))
	return &world{Layout: l, Stack: programs, suite: s, peers: map[string]string{}, password: password}, err
}

// close ends everything.
func (w *world) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	w.Stop(ctx, 5*time.Second)
}

// redis starts redis-server, which must be installed and writes nothing to the
// disk here.
func (w *world) redis(ctx context.Context) error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("redis-server is not installed: %w", err)
	}
	program := w.RedisServer(path)
	program.Args = append(program.Args, "--appendonly", "no")
	return w.Start(ctx, within, program)
}

// peer starts a server that is compared with, and remembers its address. Its
// settings get the port as PORT and the address as ADDR.
func (w *world) peer(ctx context.Context, name, path string, args []string, settings map[string]string) error {
	addrs, err := freeport.Addrs(ctx, 1)
	if err != nil {
		return err
	}
	w.peers[name] = addrs[0]
	env := []string{"ADDR=" + addrs[0], "PORT=" + portOf(addrs[0])}
	for setting, value := range settings {
		env = append(env, setting+"="+value)
	}
	return w.Start(ctx, within, stack.Program{Name: name, Path: path, Args: args, Env: env, Ready: stack.Healthy("http://" + addrs[0] + "/health")})
}

// node starts a script of the folder peers.
func (w *world) node(ctx context.Context, name, script string, settings map[string]string) error {
	path, err := exec.LookPath("node")
	if err != nil {
		return fmt.Errorf("node is not installed: %w", err)
	}
	settings["NODE_ENV"] = "production"
	return w.peer(ctx, name, path, []string{filepath.Join(w.suite.Top, "deploy/test/bench/peers", script)}, settings)
}

// bare starts a server that does nothing, which is this program itself.
func (w *world) bare(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("the server that does nothing: %w", err)
	}
	return w.peer(ctx, "bare", self, []string{"bare"}, nil)
}
