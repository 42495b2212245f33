package layout

import (
	"path/filepath"

	"github.com/pforte/pforte/deploy/internal/stack"
)

// What devnet has on every start, as in `devnet --help`.
const (
	Network      = "eip155:84532"
	Token        = "0x036CbD53842c5426634e7929541eC2318f3dCF7e" //nolint:gosec // an address
	TokenName    = "USD Coin"
	TokenVersion = "2"
	// Payee is the account that is paid for verifications.
	Payee = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
	// PayerKey is the key of an account with a million of the token, public and
	// worth nothing on any other chain.
	PayerKey = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	// SettlerKey is the key of an account that can pay for gas.
	SettlerKey = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
)

// Devnet is the development chain with its token and facilitator.
func (l Layout) Devnet() stack.Program {
	return l.program("devnet", map[string]string{
		"RPC_ADDR":         l.Chain,
		"FACILITATOR_ADDR": l.Facilitator,
	}, "http://"+l.Facilitator+"/health")
}

// Auth is the service of users and sessions.
func (l Layout) Auth() stack.Program {
	return l.program("auth", map[string]string{
		"ADDR":                          l.Addresses.Auth,
		"ADMIN_ADDR":                    l.AuthAdmin,
		"DATABASE_URL":                  "sqlite:" + l.Path("auth.db"),
		"REDIS_URL":                     "redis://" + l.Redis,
		"SESSION_SECRET_FILE":           l.Path(sessionSecret),
		"SESSION_SECRET_PREVIOUS_FILE":  l.Path(previousSecret),
		"SESSION_SECURE":                "false", // plain http on this machine
		"TRUSTED_PROXIES":               "127.0.0.1",
		"BOOTSTRAP_ADMIN_USERNAME":      AdminName,
		"BOOTSTRAP_ADMIN_PASSWORD_FILE": l.Path(adminPassword),
	}, "http://"+l.Addresses.Auth+"/health")
}

// Verifier is the service that sells verifications, of the development chain
// unless Extra has another.
func (l Layout) Verifier() stack.Program {
	return l.program("verifier", map[string]string{
		"ADDR":                      l.Addresses.Verifier,
		"ADMIN_ADDR":                l.VerifierAdmin,
		"DATABASE_URL":              "sqlite:" + l.Path("verifier.db"),
		"PUBLIC_URL":                l.PublicURL,
		"TRUSTED_PROXIES":           "127.0.0.1",
		"CHAIN_NAME":                "devnet",
		"CHAIN_ID":                  "84532",
		"CHAIN_RPC_URLS":            "http://" + l.Chain,
		"RECEIPT_SIGNING_KEY_FILE":  l.Path(receiptKey),
		"RECEIPT_RETIRED_KEYS_FILE": l.Path(retiredKeys),
		"FACILITATOR_URL":           "http://" + l.Facilitator,
		"PAYMENT_PAY_TO":            Payee,
		"PAYMENT_NETWORK":           Network,
		"PAYMENT_ASSET":             Token,
		"PAYMENT_ASSET_NAME":        TokenName,
		"PAYMENT_ASSET_VERSION":     TokenVersion,
		"PAYMENT_RPC_URL":           "http://" + l.Chain,
	}, "http://"+l.Addresses.Verifier+"/health")
}

// Proxy is the reverse proxy before both services.
func (l Layout) Proxy() stack.Program {
	_, port := split(l.Addresses.Proxy)
	_, adminPort := split(l.ProxyAdmin)
	program := l.program("pforte-proxy", map[string]string{
		"SITE_ADDRESS":      ":" + port, // any host name, any interface
		"ADMIN_PORT":        adminPort,
		"AUTH_UPSTREAM":     l.Addresses.Auth,
		"VERIFIER_UPSTREAM": l.Addresses.Verifier,
		"HOME":              l.Path("proxy"),
		"XDG_DATA_HOME":     l.Path("proxy"),
		"XDG_CONFIG_HOME":   l.Path("proxy"),
	}, "http://"+l.Addresses.Proxy+"/health")
	program.Name = "proxy"
	return program
}

// RedisServer is the program redis-server, which writes every change to its
// folder within a second.
func (l Layout) RedisServer(path string) stack.Program {
	host, port := split(l.Redis)
	return stack.Program{
		Name: "redis", Path: path,
		Args: []string{
			"--bind", host, "--port", port, "--dir", filepath.Clean(l.Path("redis")),
			"--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction", "--daemonize", "no",
		},
		Ready: stack.RedisAnswers(l.Redis),
	}
}

// AgentEnv is the environment of an agent that pays at this stack.
func (l Layout) AgentEnv() []string {
	return []string{"AGENT_PRIVATE_KEY=" + PayerKey, "HOME=" + l.State}
}
