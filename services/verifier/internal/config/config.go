package config

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/config"
	"github.com/pforte/pforte/pkg/logging"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/tracing"
)

// Ledger has the settings of the database of payments, and the level of the log of the program.
type Ledger struct {
	DatabaseURL string `env:"DATABASE_URL" default:"sqlite:data/verifier.db" secret:"true" doc:"payments: sqlite:PATH for one machine, postgres://… for replicas"`
	LogLevel    string `env:"LOG_LEVEL" default:"info" doc:"debug, info, warn or error"`
}

// Config has the settings of the verifier.
type Config struct {
	Addr          string        `env:"ADDR" default:":8082" doc:"address to serve on"`
	AdminAddr     string        `env:"ADMIN_ADDR" default:"127.0.0.1:9082" doc:"address of /livez and /metrics; never behind the proxy"`
	ShutdownDelay time.Duration `env:"SHUTDOWN_DELAY" default:"0s" doc:"how long it serves after SIGTERM while reporting not ready; 5s for replicas"`
	Ledger
	PublicURL      string               `env:"PUBLIC_URL" default:"http://localhost:8082" doc:"public address, named in challenges and documents"`
	TrustedProxies []clientaddr.Network `env:"TRUSTED_PROXIES" doc:"addresses or networks (CIDR) of proxies whose X-Forwarded-For is trusted"`

	Chain              Chain
	ReceiptSigningKey  string `env:"RECEIPT_SIGNING_KEY,required" secret:"true" doc:"Ed25519 key that signs receipts, PKCS#8 PEM; see receipt keygen"`
	ReceiptRetiredKeys string `env:"RECEIPT_RETIRED_KEYS_FILE" doc:"file with retired, revoked and announced public keys, as in the key document"`
	Log                Log
	Facilitator        Facilitator
	Payment            Payment
	MCP                MCP
	AllowInsecure      bool `env:"ALLOW_INSECURE_UPSTREAMS" default:"false" doc:"allow plain http to facilitators and nodes outside private networks"`
	Tracing            tracing.Settings
}

// Log has the settings of the public log of receipts. Without Key the verifier runs none.
type Log struct {
	Key            string        `env:"RECEIPT_LOG_KEY" secret:"true" doc:"Ed25519 key that signs the log of receipts, PKCS#8 PEM, another than that of receipts; none: no log"`
	PolicyFile     string        `env:"LOG_POLICY_FILE" doc:"the log's witnesses and quorum (C2SP tlog-policy); required with RECEIPT_LOG_KEY"`
	MarkFile       string        `env:"LOG_MARK_FILE" doc:"file beside the keys, in no backup, where the greatest tree that was signed is kept; for one machine"`
	Interval       time.Duration `env:"LOG_INTERVAL" default:"1s" limit:"true" doc:"time between two checkpoints of the log"`
	WitnessTimeout time.Duration `env:"LOG_WITNESS_TIMEOUT" default:"5s" limit:"true" doc:"timeout of a request to a witness"`
}

// Logged has the settings that a command about the log of receipts needs.
type Logged struct {
	Ledger
	PublicURL string `env:"PUBLIC_URL" default:"http://localhost:8082"`
	Log       Log
}

// Chain has the settings of the chains that are verified and of their nodes. Validate leaves most of them to
// ValidateChain and ParseChains.
type Chain struct {
	Name          string        `env:"CHAIN_NAME" default:"base" doc:"name of the chain in the path /v1/verify/NAME-transaction"`
	ID            uint64        `env:"CHAIN_ID" default:"8453" doc:"its EIP-155 id"`
	RPCURLs       []string      `env:"CHAIN_RPC_URLS" secret:"true" doc:"its JSON-RPC nodes, comma-separated, best first; required without CHAINS_FILE"`
	Quorum        int           `env:"CHAIN_RPC_QUORUM" limit:"true" doc:"how many nodes must agree on blocks, finality and payments; default: the majority"`
	RPCTimeout    time.Duration `env:"CHAIN_RPC_TIMEOUT" default:"5s" limit:"true" doc:"timeout of a request to a node"`
	MaxHeadAge    time.Duration `env:"CHAIN_MAX_HEAD_AGE" default:"1m" limit:"true" doc:"maximum age of the nodes' reports of latest and finalized"`
	BeaconURLs    []string      `env:"CHAIN_BEACON_URLS" secret:"true" doc:"nodes of its beacon chain with the light-client API, comma-separated; none: its finality is only attested"`
	BeaconNetwork string        `env:"CHAIN_BEACON_NETWORK" doc:"its beacon network: mainnet, sepolia, hoodi or a file; default: by CHAIN_ID"`
	File          string        `env:"CHAINS_FILE" doc:"JSON file with several chains, in place of the eight settings above; see chains.example.json"`
	BeaconTimeout time.Duration `env:"CHAIN_BEACON_TIMEOUT" default:"5s" limit:"true" doc:"timeout of a request to a beacon node, of any chain"`
	CacheBytes    int           `env:"CHAIN_CACHE_BYTES" default:"67108864" limit:"true" doc:"memory for proven blocks"`
}

// Facilitator has the settings of the service that checks and settles payments.
type Facilitator struct {
	URL             string        `env:"FACILITATOR_URL" doc:"base URL of an x402 facilitator; default with CDP keys: Coinbase's"`
	FreeSettlements int           `env:"FACILITATOR_FREE_SETTLEMENTS" default:"1000" doc:"settlements per calendar month (UTC), a hard limit"`
	VerifyTimeout   time.Duration `env:"FACILITATOR_VERIFY_TIMEOUT" default:"10s" limit:"true" doc:"timeout of the facilitator's /verify"`
	SettleTimeout   time.Duration `env:"FACILITATOR_SETTLE_TIMEOUT" default:"45s" limit:"true" doc:"timeout of the facilitator's /settle"`
	CDPKeyID        string        `env:"CDP_API_KEY_ID" doc:"id of a Coinbase CDP key"`
	CDPKeySecret    string        `env:"CDP_API_KEY_SECRET" secret:"true" doc:"its secret: base64 (Ed25519) or PEM (P-256)"`
}

// Payment has the settings of what an answer costs, who is paid, and how payments are confirmed and limited.
type Payment struct {
	PayTo             string        `env:"PAYMENT_PAY_TO,required" doc:"address that receives payments, for this service alone"`
	Network           string        `env:"PAYMENT_NETWORK" default:"eip155:8453" doc:"chain of the payments (CAIP-2)"`
	Asset             string        `env:"PAYMENT_ASSET" doc:"address of the token, a US dollar with six decimals; default: native USDC of a known network"`
	AssetName         string        `env:"PAYMENT_ASSET_NAME" doc:"name of its EIP-712 domain; same default"`
	AssetVersion      string        `env:"PAYMENT_ASSET_VERSION" doc:"version of its EIP-712 domain; same default"`
	Amount            string        `env:"PAYMENT_AMOUNT" default:"10000" doc:"price in atomic units; 10000 is 0.01 USD with 6 decimals"`
	MaxTimeoutSeconds int           `env:"PAYMENT_MAX_TIMEOUT_SECONDS" default:"60" limit:"true" doc:"how long after signing a payment may be settled"`
	RPCURLs           []string      `env:"PAYMENT_RPC_URL" secret:"true" doc:"JSON-RPC nodes of the payment network, comma-separated; default: the chain's, on the same network"`
	Confirm           string        `env:"PAYMENT_CONFIRM" doc:"chain (default where a node of the payment network is known) confirms transfers on the chain; facilitator trusts the facilitator"`
	V1                bool          `env:"X402_V1" default:"true" doc:"also accept x402 version 1, where the network has a name in it"`
	PerPayer          int           `env:"UNPAID_ATTEMPTS_PER_PAYER" default:"300" limit:"true" doc:"unpaid calls with a valid payment, per payer, minute and replica"`
	PerAddress        int           `env:"UNPAID_ATTEMPTS_PER_ADDRESS" default:"600" limit:"true" doc:"unpaid calls per client address (IPv6: /64), minute and replica"`
	FailedPerPayer    int           `env:"FAILED_SETTLEMENTS_PER_PAYER_PER_DAY" default:"3" limit:"true" doc:"failed settlements per payer and day (UTC), over all replicas"`
	FailedPerAddress  int           `env:"FAILED_SETTLEMENTS_PER_ADDRESS_PER_DAY" default:"10" limit:"true" doc:"the same per client address (IPv6: /56) of payers who are not known; twice as many per /24 or /48"`
	ReuseWindow       time.Duration `env:"REPEAT_WINDOW" default:"24h" doc:"for how long a payer who asks the same question again, with a new payment, gets the first answer and keeps the payment; 0: never"`
	ReusesPerPayer    int           `env:"REPEATS_PER_PAYER" default:"20" limit:"true" doc:"how often a day (UTC) that is, per payer"`
	AnswerRetention   time.Duration `env:"ANSWER_RETENTION" default:"2160h" limit:"true" doc:"how long sold answers are kept; later they are computed again"`
}

// MCP has the settings of the tools that are served to agents (Model Context Protocol).
type MCP struct {
	On               bool          `env:"MCP" default:"true" doc:"serve the tools of /mcp"`
	AnswerTimeout    time.Duration `env:"MCP_ANSWER_TIMEOUT" default:"50s" limit:"true" doc:"after that a tool's call answers that it is under way; clients give up after 60s"`
	PaymentExtension bool          `env:"MCP_PAYMENT_EXTENSION" default:"false" doc:"answer clients that have org.x402/payment with its result type; most official clients cannot read it"`
}

// Load reads Config from getenv, and returns all faults that it finds together.
func Load(getenv func(string) string) (Config, error) { return config.Load[Config](getenv) }

// LoadLedger reads Ledger from getenv, as Load does.
func LoadLedger(getenv func(string) string) (Ledger, error) { return config.Load[Ledger](getenv) }

// LoadLogged reads Logged from getenv, as Load does.
func LoadLogged(getenv func(string) string) (Logged, error) { return config.Load[Logged](getenv) }

// Table returns the table of the settings that the README holds.
func Table() string { return config.Table[Config]() }

// Validate trims slashes from the end of PublicURL, and returns the faults that it finds.
func (c *Config) Validate() error {
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	faults := slices.Concat(c.faults(), c.Facilitator.faults(),
		[]error{webURL("PUBLIC_URL", c.PublicURL), c.Log.fault()})
	switch {
	case c.Chain.File == "" && len(c.Chain.RPCURLs) == 0:
		faults = append(faults, errors.New("CHAIN_RPC_URLS: is required without CHAINS_FILE"))
	case c.Chain.File != "" && len(c.Chain.RPCURLs) > 0:
		faults = append(faults, errors.New("CHAINS_FILE: comes in place of CHAIN_RPC_URLS, not together with it"))
	case c.Chain.File != "" && len(c.Chain.BeaconURLs) > 0:
		faults = append(faults, errors.New("CHAINS_FILE: comes in place of CHAIN_BEACON_URLS, not together with it"))
	}
	faults = append(faults, nodeFaults(c.Payment.RPCURLs, "PAYMENT_RPC_URL: element %d")...)
	for _, upstreams := range []struct {
		setting string
		urls    []string
	}{
		{"FACILITATOR_URL", []string{c.Facilitator.URL}},
		{"CHAIN_RPC_URLS", c.Chain.RPCURLs},
		{"CHAIN_BEACON_URLS", c.Chain.BeaconURLs},
		{"PAYMENT_RPC_URL", c.Payment.RPCURLs},
	} {
		if err := c.CheckUpstreams(upstreams.urls); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", upstreams.setting, err))
		}
	}
	if c.Chain.BeaconTimeout > time.Minute {
		faults = append(faults, errors.New("CHAIN_BEACON_TIMEOUT: must be at most a minute"))
	}
	if c.Payment.ReuseWindow < 0 {
		faults = append(faults, errors.New("REPEAT_WINDOW: is negative"))
	}
	if confirm := c.Payment.Confirm; confirm != "" && confirm != ConfirmByFacilitator && confirm != ConfirmByChain {
		faults = append(faults, errors.New("PAYMENT_CONFIRM: is neither facilitator nor chain"))
	}
	return errors.Join(append(faults, c.Tracing.Validate())...)
}

// The values of PAYMENT_CONFIRM, which may also be empty.
const (
	ConfirmByChain       = "chain"
	ConfirmByFacilitator = "facilitator"
)

// Validate returns the faults of the settings.
func (l *Ledger) Validate() error { return errors.Join(l.faults()...) }

// Validate trims slashes from the end of PublicURL, and returns the faults of the settings.
func (l *Logged) Validate() error {
	l.PublicURL = strings.TrimRight(l.PublicURL, "/")
	return errors.Join(append(l.faults(), webURL("PUBLIC_URL", l.PublicURL), l.Log.fault())...)
}

func (l *Log) fault() error {
	if (l.Key == "") != (l.PolicyFile == "") {
		return errors.New("LOG_POLICY_FILE: comes only together with RECEIPT_LOG_KEY; its line \"quorum none\" asks " +
			"for no witness")
	}
	return nil
}

func (l *Ledger) faults() (faults []error) {
	if err := sqldb.CheckURL(l.DatabaseURL); err != nil {
		faults = append(faults, fmt.Errorf("DATABASE_URL: %w", err))
	}
	if _, err := logging.New(io.Discard, l.LogLevel); err != nil {
		faults = append(faults, err)
	}
	return faults
}

func (f *Facilitator) faults() (faults []error) {
	if (f.CDPKeyID == "") != (f.CDPKeySecret == "") {
		faults = append(faults, errors.New("CDP_API_KEY_ID: comes only together with CDP_API_KEY_SECRET"))
	}
	switch {
	case f.URL != "":
		faults = append(faults, webURL("FACILITATOR_URL", f.URL))
	case f.CDPKeyID == "":
		faults = append(faults, errors.New("FACILITATOR_URL: is required without CDP_API_KEY_ID"))
	}
	if f.FreeSettlements < 0 {
		faults = append(faults, errors.New("FACILITATOR_FREE_SETTLEMENTS: is negative"))
	}
	return faults
}

// webURL returns an error unless text is an http or https URL with a host, to which a path can be added: it has no
// query, fragment or user. The error does not quote text, which may hold a key.
func webURL(setting, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil ||
		strings.ContainsAny(text, "?#") {
		return fmt.Errorf("%s: is not of the form https://host/path", setting)
	}
	return nil
}
