// Command local runs the whole stack on this machine: what `make up` does. See
// `bin/local --help`.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/pkg/buildinfo"
	"github.com/pforte/pforte/pkg/config"
)

const usage = `local runs the whole stack on this machine.

  local [-bin bin] [-state .pforte] [--household]
                                           start everything, or with --household the login
                                           alone: auth, proxy and Redis; Ctrl-C stops it
  local [-bin bin] [-state .pforte] demo [ARGUMENT...]
                                           pay for a verification there; the
                                           arguments are the agent's
  local --version, --help

Settings are environment variables:

`

// Settings are the ports of the local stack, on which everything but the proxy listens on
// 127.0.0.1 only, and what else may be chosen for its programs.
type Settings struct {
	Proxy         int `env:"PROXY_PORT" default:"8080" doc:"the proxy: the only port a browser or a buyer needs"`
	ProxyAdmin    int `env:"PROXY_ADMIN_PORT" default:"9080" doc:"the proxy's /metrics and /livez"`
	Auth          int `env:"AUTH_PORT" default:"8081" doc:"auth"`
	AuthAdmin     int `env:"AUTH_ADMIN_PORT" default:"9081" doc:"auth's /metrics and /livez"`
	Verifier      int `env:"VERIFIER_PORT" default:"8082" doc:"verifier"`
	VerifierAdmin int `env:"VERIFIER_ADMIN_PORT" default:"9082" doc:"verifier's /metrics and /livez"`
	Chain         int `env:"CHAIN_PORT" default:"8545" doc:"the development chain's JSON-RPC"`
	Facilitator   int `env:"FACILITATOR_PORT" default:"8402" doc:"the development chain's x402 facilitator"`
	Beacon        int `env:"BEACON_PORT" default:"5052" doc:"the development chain's beacon node"`
	Redis         int `env:"REDIS_PORT" default:"16379" doc:"Redis; not its usual port, where the machine's own may be"`
	Witness1      int `env:"WITNESS_1_PORT" default:"8091" doc:"the first witness of the log of receipts"`
	Witness2      int `env:"WITNESS_2_PORT" default:"8092" doc:"the second one"`

	PublicURL   string `env:"PUBLIC_URL" doc:"where people open it, http://localhost:PROXY_PORT unless set; phones need an address of this machine, such as http://192.168.1.20:8080"`
	SiteAddress string `env:"SITE_ADDRESS" doc:"the proxy's; every host at PROXY_PORT unless set"`
	Routes      string `env:"ROUTES" doc:"the proxy's"`
	Apps        string `env:"APPS" default:"lan" doc:"the proxy's"`
	AppsTo      string `env:"APPS_TO" doc:"the proxy's"`

	LogBegin string `env:"LOG_BEGIN" doc:"key of a later generation of the log of receipts, which both witnesses begin at this start"`

	AdminUsername string `env:"BOOTSTRAP_ADMIN_USERNAME" doc:"first administrator, created at the first start; without one a set-up link is printed"`
	AdminPassword string `env:"BOOTSTRAP_ADMIN_PASSWORD" secret:"true" doc:"their password"`
}

var version string //nolint:gochecknoglobals // -ldflags -X

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout)
	stop()
	var ended *exec.ExitError // the agent has said why
	if errors.As(err, &ended) {
		os.Exit(ended.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	flags := flag.NewFlagSet("local", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() { _, _ = io.WriteString(out, usage+config.Table[Settings]()) }
	bin := flags.String("bin", "bin", "folder of the built programs")
	state := flags.String("state", ".pforte", "folder of everything that is kept")
	household := flags.Bool("household", false, "the login alone: neither verifier nor chain")
	showVersion := flags.Bool("version", false, "show the version")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if *showVersion {
		_, err := fmt.Fprintln(out, "local", buildinfo.Version(version))
		return err
	}
	s, err := config.Load[Settings](getenv)
	if err != nil {
		return err
	}
	l := layout.Layout{
		PublicURL: cmp.Or(s.PublicURL, fmt.Sprintf("http://localhost:%d", s.Proxy)), Household: *household,
		Addresses: layout.Addresses{
			Proxy: local(s.Proxy), ProxyAdmin: local(s.ProxyAdmin),
			Auth: local(s.Auth), AuthAdmin: local(s.AuthAdmin),
			Verifier: local(s.Verifier), VerifierAdmin: local(s.VerifierAdmin),
			Chain: local(s.Chain), Facilitator: local(s.Facilitator), Beacon: local(s.Beacon), Redis: local(s.Redis),
			Witness1: local(s.Witness1), Witness2: local(s.Witness2),
		},
		Log: !*household, LogBegin: s.LogBegin,
		Extra: map[string]map[string]string{
			"auth":         {"BOOTSTRAP_ADMIN_USERNAME": s.AdminUsername, "BOOTSTRAP_ADMIN_PASSWORD": s.AdminPassword},
			"pforte-proxy": {"ROUTES": s.Routes, "APPS": s.Apps, "APPS_TO": s.AppsTo},
		},
	}
	if s.SiteAddress != "" {
		l.Extra["pforte-proxy"]["SITE_ADDRESS"] = s.SiteAddress
	}
	if l.Bin, err = filepath.Abs(*bin); err != nil {
		return err
	}
	if l.State, err = filepath.Abs(*state); err != nil {
		return err
	}
	switch flags.Arg(0) {
	case "":
		return up(ctx, l, out)
	case "demo":
		return demo(ctx, l, flags.Args()[1:], out)
	}
	return fmt.Errorf("no command %q; see local --help", flags.Arg(0))
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
