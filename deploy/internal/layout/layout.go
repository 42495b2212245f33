package layout

import (
	"context"
	_ "embed" // the beacon network's file
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/pforte/pforte/deploy/internal/secrets"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/pkg/freeport"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// What devnet has on every start with its default settings.
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

// AdminName is the name of the administrator whom a layout with Admin creates.
const AdminName = "admin"

// Addresses are the host:port pairs at which the programs are reached on this machine.
type Addresses struct {
	Proxy, ProxyAdmin, Auth, AuthAdmin, Verifier, VerifierAdmin, Chain, Facilitator, Beacon, Redis string
	// Witnesses of the log of receipts.
	Witness1, Witness2 string
}

// FreeAddresses returns addresses of this machine on which no program listens.
func FreeAddresses(ctx context.Context) (Addresses, error) {
	a, err := freeport.Addrs(ctx, 12)
	if err != nil {
		return Addresses{}, err
	}
	return Addresses{
		Proxy: a[0], ProxyAdmin: a[1], Auth: a[2], AuthAdmin: a[3], Verifier: a[4], VerifierAdmin: a[5],
		Chain: a[6], Facilitator: a[7], Beacon: a[8], Redis: a[9], Witness1: a[10], Witness2: a[11],
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
	// Admin has auth create an administrator with a generated password at its first
	// start. Without it a set-up link creates the first one, unless Extra names one.
	Admin bool
	// Household has Prepare leave out the secrets and the files of the verifier, its chain and its log, and Ports
	// their ports.
	Household bool
	// Log has the verifier keep a log of receipts, which the programs of Witnesses cosign.
	Log bool
	// LogBegin is the key of a later generation of the log that the witnesses begin; else empty.
	LogBegin string
	// Extra holds further settings by the name of their program in Bin, such as pforte-proxy. They replace the
	// layout's own.
	Extra map[string]map[string]string
}

// Path returns the path of a file of the state.
func (l Layout) Path(name string) string { return filepath.Join(l.State, name) }

// Ports returns the addresses of the stack's programs with their names, and the settings of the local stack that
// choose them.
func (l Layout) Ports() []stack.Port {
	ports := []stack.Port{
		{Program: "the proxy", Setting: "PROXY_PORT", Addr: l.Addresses.Proxy},
		{Program: "the proxy's metrics", Setting: "PROXY_ADMIN_PORT", Addr: l.ProxyAdmin},
		{Program: "auth", Setting: "AUTH_PORT", Addr: l.Addresses.Auth},
		{Program: "auth's metrics", Setting: "AUTH_ADMIN_PORT", Addr: l.AuthAdmin},
		{Program: "Redis", Setting: "REDIS_PORT", Addr: l.Redis},
	}
	if l.Household {
		return ports
	}
	return append(ports, []stack.Port{
		{Program: "verifier", Setting: "VERIFIER_PORT", Addr: l.Addresses.Verifier},
		{Program: "verifier's metrics", Setting: "VERIFIER_ADMIN_PORT", Addr: l.VerifierAdmin},
		{Program: "the chain", Setting: "CHAIN_PORT", Addr: l.Chain},
		{Program: "the facilitator", Setting: "FACILITATOR_PORT", Addr: l.Facilitator},
		{Program: "the chain's beacon node", Setting: "BEACON_PORT", Addr: l.Beacon},
		{Program: "the first witness", Setting: "WITNESS_1_PORT", Addr: l.Witness1},
		{Program: "the second witness", Setting: "WITNESS_2_PORT", Addr: l.Witness2},
	}...)
}

// Prepare creates the folders and secrets that the state lacks. Without Household it also rewrites the beacon network's
// file and, with Log, the log's policy.
func (l Layout) Prepare() error {
	for _, folder := range []string{"", "redis", "proxy"} {
		if err := os.MkdirAll(l.Path(folder), 0o700); err != nil {
			return fmt.Errorf("folder for state: %w", err)
		}
	}
	if l.Admin {
		if _, err := secrets.MakeAdminPassword(l.State); err != nil {
			return err
		}
	}
	if l.Household {
		return secrets.MakeHousehold(l.State)
	}
	if err := os.WriteFile(l.BeaconNetwork(), beaconNetwork, 0o600); err != nil {
		return fmt.Errorf("the beacon network's file: %w", err)
	}
	if err := secrets.Make(l.State); err != nil || !l.Log {
		return err
	}
	host, err := l.host()
	if err != nil {
		return err
	}
	later, err := l.laterLogs(host)
	if err != nil {
		return err
	}
	// Made anew: the witnesses may have other ports by now.
	if err := os.Remove(l.LogPolicy()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := secrets.MakeLog(l.State, host, []string{"http://" + l.Witness1, "http://" + l.Witness2}); err != nil {
		return err
	}
	for _, origin := range later {
		if _, err := secrets.AddLog(l.State, origin); err != nil {
			return err
		}
	}
	return nil
}

// laterLogs returns the origins of the later generations of a host's log, the earliest first: those that the first
// witness has begun, and the one that it is to begin (LogBegin). A policy may name fewer, because Prepare was
// killed while it made it, and more, because earlier versions named generations that no witness had begun.
func (l Layout) laterLogs(host string) (origins []string, err error) {
	text, err := os.ReadFile(l.Path(secrets.WitnessState(1)))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte("{}"), nil
	}
	if err != nil {
		return nil, err
	}
	var begun struct {
		Logs map[string]string `json:"logs"`
	}
	if err := json.Unmarshal(text, &begun); err != nil {
		return nil, fmt.Errorf("what the first witness has begun: %w", err)
	}
	later := map[int64]string{}
	for _, vkey := range append(slices.Collect(maps.Keys(begun.Logs)), l.LogBegin) {
		key, err := receiptlog.ParseLogKey(vkey)
		if err != nil {
			continue // the witness says so
		}
		_, generation, _ := receiptlog.GenerationOf(key.Name())
		if generation > 1 && receiptlog.SameLog(key.Name(), host+"/v1/log/1") {
			later[generation] = key.Name()
		}
	}
	for _, generation := range slices.Sorted(maps.Keys(later)) {
		origins = append(origins, later[generation])
	}
	return origins, nil
}

// LogIsOurs reports whether a log of receipts can be kept at PublicURL: the state has none yet, or
// one whose name has that host.
func (l Layout) LogIsOurs() (bool, error) {
	host, err := l.host()
	if err != nil {
		return false, err
	}
	return secrets.LogIsOf(l.State, host)
}

// host returns the host of PublicURL, with its port.
func (l Layout) host() (string, error) {
	site, err := url.Parse(l.PublicURL)
	if err != nil {
		return "", fmt.Errorf("the public address: %w", err)
	}
	return site.Host, nil
}

// beaconNetwork is what `devnet network` prints.
//
//go:embed devnet-network.json
var beaconNetwork []byte

// BeaconNetwork returns the path of the file with the constants of the development chain's beacon
// network, as CHAIN_BEACON_NETWORK and receipt verify --network take it.
func (l Layout) BeaconNetwork() string { return l.Path("devnet-network.json") }

// AdminPassword returns the password of the administrator whom a layout with Admin creates.
func (l Layout) AdminPassword() (string, error) {
	content, err := os.ReadFile(l.Path(secrets.AdminPassword))
	if err != nil {
		return "", fmt.Errorf("the administrator's password: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// program returns the program of a name in Bin with its settings. It is ready when the URL health answers 200.
func (l Layout) program(name string, settings map[string]string, health string) stack.Program {
	maps.Copy(settings, l.Extra[name])
	var env []string
	for setting, value := range settings {
		env = append(env, setting+"="+value)
	}
	return stack.Program{
		Name: name, Path: filepath.Join(l.Bin, name), Env: env,
		Ready: stack.Healthy(health),
	}
}

// Devnet returns the program of the development chain, with its token, facilitator and beacon node.
func (l Layout) Devnet() stack.Program {
	return l.program("devnet", map[string]string{
		"RPC_ADDR":         l.Chain,
		"FACILITATOR_ADDR": l.Facilitator,
		"BEACON_ADDR":      l.Beacon,
	}, "http://"+l.Facilitator+"/health")
}

// Auth returns the program of the service of users and sessions.
func (l Layout) Auth() stack.Program {
	settings := map[string]string{
		"ADDR":                         l.Addresses.Auth,
		"ADMIN_ADDR":                   l.AuthAdmin,
		"PUBLIC_URL":                   l.PublicURL,
		"DATABASE_URL":                 "sqlite:" + l.Path("auth.db"),
		"REDIS_URL":                    "redis://" + l.Redis,
		"SESSION_SECRET_FILE":          l.Path(secrets.Session),
		"SESSION_SECRET_PREVIOUS_FILE": l.Path(secrets.PreviousSession),
		"DATA_KEY_FILE":                l.Path(secrets.DataKey),
		"DATA_KEY_PREVIOUS_FILE":       l.Path(secrets.PreviousDataKey),
		"TRUSTED_PROXIES":              "127.0.0.1",
	}
	if !strings.HasPrefix(l.PublicURL, "https:") {
		settings["SESSION_SECURE"] = "false"
	}
	if l.Admin {
		settings["BOOTSTRAP_ADMIN_USERNAME"] = AdminName
		settings["BOOTSTRAP_ADMIN_PASSWORD_FILE"] = l.Path(secrets.AdminPassword)
	}
	return l.program("auth", settings, "http://"+l.Addresses.Auth+"/health")
}

// SetupLink runs the command of auth that creates a set-up link while there is no user,
// and returns what it prints: the link, which is a secret, or where users log in. auth
// has to be ready.
func (l Layout) SetupLink(ctx context.Context) (string, error) {
	auth := l.Auth()
	var faults strings.Builder
	cmd := exec.CommandContext(ctx, auth.Path, "setup-link", "--or-login") //nolint:gosec // a program of ours
	cmd.Env, cmd.Stderr = auth.Env, &faults
	printed, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("auth setup-link: %w: %s", err, strings.TrimSpace(faults.String()))
	}
	return string(printed), nil
}

// Verifier returns the program that sells verifications, of the development chain unless Extra has
// another.
func (l Layout) Verifier() stack.Program {
	settings := map[string]string{
		"ADDR":                      l.Addresses.Verifier,
		"ADMIN_ADDR":                l.VerifierAdmin,
		"DATABASE_URL":              "sqlite:" + l.Path("verifier.db"),
		"PUBLIC_URL":                l.PublicURL,
		"TRUSTED_PROXIES":           "127.0.0.1",
		"CHAIN_NAME":                "devnet",
		"CHAIN_ID":                  "84532",
		"CHAIN_RPC_URLS":            "http://" + l.Chain,
		"RECEIPT_SIGNING_KEY_FILE":  l.Path(secrets.ReceiptKey),
		"RECEIPT_RETIRED_KEYS_FILE": l.Path(secrets.RetiredKeys),
		"FACILITATOR_URL":           "http://" + l.Facilitator,
		"PAYMENT_PAY_TO":            Payee,
		"PAYMENT_NETWORK":           Network,
		"PAYMENT_ASSET":             Token,
		"PAYMENT_ASSET_NAME":        TokenName,
		"PAYMENT_ASSET_VERSION":     TokenVersion,
		"PAYMENT_RPC_URL":           "http://" + l.Chain,
	}
	if own := l.Extra["verifier"]; own["CHAIN_ID"] == "" && own["CHAINS_FILE"] == "" {
		settings["CHAIN_BEACON_URLS"] = "http://" + l.Beacon
		settings["CHAIN_BEACON_NETWORK"] = l.BeaconNetwork()
	}
	if l.Log {
		settings["RECEIPT_LOG_KEY_FILE"] = l.Path(secrets.LogKey)
		settings["LOG_POLICY_FILE"] = l.LogPolicy()
		settings["LOG_MARK_FILE"] = l.Path("log-mark")
	}
	return l.program("verifier", settings, "http://"+l.Addresses.Verifier+"/health")
}

// LogPolicy returns the path of the policy of the log of receipts, which names its keys and witnesses.
func (l Layout) LogPolicy() string { return l.Path(secrets.LogPolicy) }

// Witnesses returns the programs of the two witnesses, which cosign the log of receipts. No sale needs them.
func (l Layout) Witnesses() ([]stack.Program, error) {
	host, err := l.host()
	if err != nil {
		return nil, err
	}
	var all []stack.Program
	for i, addr := range []string{l.Witness1, l.Witness2} {
		all = append(all, l.receipt(fmt.Sprintf("witness-%d", i+1),
			"witness", "--key", l.Path(secrets.WitnessKey(i+1)), "--name", secrets.WitnessID(host, i+1),
			"--log-policy", l.LogPolicy(), "--state", l.Path(secrets.WitnessState(i+1)), "--listen", addr, "--begin",
			l.LogBegin))
	}
	return all, nil
}

// Mirror returns the program that copies the log of receipts from PublicURL to a folder. No sale needs it.
func (l Layout) Mirror() stack.Program {
	return l.receipt("mirror", "log", "mirror", l.PublicURL, l.Path("mirror"), "--log-policy", l.LogPolicy(), "--every",
		"10s")
}

// receipt returns a command of the program receipt. It counts as ready at once, and the stack goes on when it ends.
func (l Layout) receipt(name string, args ...string) stack.Program {
	return stack.Program{
		Name: name, Path: filepath.Join(l.Bin, "receipt"), Args: args, Optional: true,
		Ready: func(context.Context) error { return nil },
	}
}

// Proxy returns the program of the reverse proxy in front of both services.
func (l Layout) Proxy() stack.Program {
	_, port, _ := net.SplitHostPort(l.Addresses.Proxy)
	_, adminPort, _ := net.SplitHostPort(l.ProxyAdmin)
	program := l.program("pforte-proxy", map[string]string{
		"SITE_ADDRESS":      ":" + port, // any host name, any interface
		"ADMIN_PORT":        adminPort,
		"AUTH_UPSTREAM":     l.Addresses.Auth,
		"VERIFIER_UPSTREAM": l.Addresses.Verifier,
		"HOME":              l.Path("proxy"),
		"XDG_DATA_HOME":     l.Path("proxy"),
		"XDG_CONFIG_HOME":   l.Path("proxy"),
	}, "http://"+l.ProxyAdmin+"/livez") // /health is the verifier's
	program.Name = "proxy"
	return program
}

// RedisServer returns the program redis-server at path, which writes every change to its
// folder within about a second.
func (l Layout) RedisServer(path string) stack.Program {
	host, port, _ := net.SplitHostPort(l.Redis)
	return stack.Program{
		Name: "redis", Path: path,
		Args: []string{
			"--bind", host, "--port", port, "--dir", filepath.Clean(l.Path("redis")),
			"--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction", "--daemonize", "no",
		},
		Ready: stack.RedisAnswers(l.Redis),
	}
}

// startRedisWithin is how long Redis may take to load its data at the start.
const startRedisWithin = 20 * time.Second

// StartRedis starts redis-server where it is installed, and else a stand-in in
// this process, which ends with ctx and keeps nothing. It returns a text that says which.
func (l Layout) StartRedis(ctx context.Context, programs *stack.Stack) (which string, err error) {
	if path, err := exec.LookPath("redis-server"); err == nil {
		return path + ", kept in " + l.Path("redis"), programs.Start(ctx, startRedisWithin, l.RedisServer(path))
	}
	standIn := miniredis.NewMiniRedis()
	if err := standIn.StartAddr(l.Redis); err != nil {
		return "", fmt.Errorf("redis: %w", err)
	}
	go func() {
		defer standIn.Close()
		for tick, last := time.Tick(time.Second), time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case now := <-tick: // its clock stands still by itself
				standIn.FastForward(now.Sub(last))
				last = now
			}
		}
	}()
	return "a stand-in inside the launcher: redis-server is not installed, so sessions end with it", nil
}

// AgentEnv returns the environment of an agent that pays at this stack.
func (l Layout) AgentEnv() []string {
	return []string{"AGENT_PRIVATE_KEY=" + PayerKey, "HOME=" + l.State}
}
