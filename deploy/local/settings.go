package main

import (
	"fmt"
	"net"
	"strconv"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/pkg/config"
)

// Settings are the ports of the local stack. Everything but the proxy listens
// on 127.0.0.1 only.
type Settings struct {
	Proxy         int `env:"PROXY_PORT" default:"8080" doc:"the proxy: the only port a browser or a buyer needs"`
	ProxyAdmin    int `env:"PROXY_ADMIN_PORT" default:"9080" doc:"the proxy's /metrics and /livez"`
	Auth          int `env:"AUTH_PORT" default:"8081" doc:"auth"`
	AuthAdmin     int `env:"AUTH_ADMIN_PORT" default:"9081" doc:"auth's /metrics and /livez"`
	Verifier      int `env:"VERIFIER_PORT" default:"8082" doc:"verifier"`
	VerifierAdmin int `env:"VERIFIER_ADMIN_PORT" default:"9082" doc:"verifier's /metrics and /livez"`
	Chain         int `env:"CHAIN_PORT" default:"8545" doc:"the development chain's JSON-RPC"`
	Facilitator   int `env:"FACILITATOR_PORT" default:"8402" doc:"the development chain's x402 facilitator"`
	Redis         int `env:"REDIS_PORT" default:"16379" doc:"Redis; not its usual port, where the machine's own may be"`
}

func loadSettings(getenv func(string) string) (Settings, error) {
	return config.Load[Settings](getenv)
}

func (s Settings) layout(bin, state string) layout.Layout {
	return layout.Layout{
		Bin: bin, State: state,
		PublicURL: fmt.Sprintf("http://localhost:%d", s.Proxy),
		Addresses: layout.Addresses{
			Proxy: local(s.Proxy), ProxyAdmin: local(s.ProxyAdmin),
			Auth: local(s.Auth), AuthAdmin: local(s.AuthAdmin),
			Verifier: local(s.Verifier), VerifierAdmin: local(s.VerifierAdmin),
			Chain: local(s.Chain), Facilitator: local(s.Facilitator), Redis: local(s.Redis),
		},
	}
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
