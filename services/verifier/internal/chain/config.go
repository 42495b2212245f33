package chain

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
)

// Config describes one chain and how to read it.
type Config struct {
	Name    string   // the word in the route: lower-case letters, digits, hyphens
	ID      uint64   // EIP-155 chain id
	RPCURLs []string // JSON-RPC over http or https, best first; may hold keys
	// Quorum is how many of the endpoints must agree on a block's hash and on how
	// far the chain is finalized: 1 to len(RPCURLs); 0 means the majority of them.
	Quorum int
	// RPCTimeout bounds one exchange with a node; 0 means 5 seconds.
	RPCTimeout time.Duration
	// MaxHeadAge is how old the word of the nodes about latest and finalized may
	// be; 0 means a minute.
	MaxHeadAge time.Duration
	// USDToken is the chain's native USD stablecoin, for payments on it; may be nil.
	USDToken *Token
}

// Token is an ERC-20 token with the domain that its EIP-712 signatures use.
type Token struct {
	Address string // 0x and 40 hexadecimal digits
	Name    string
	Version string
}

// Agreeing is how many of the endpoints must agree: Quorum, or the majority.
func (c Config) Agreeing() int {
	if c.Quorum > 0 {
		return c.Quorum
	}
	return len(c.RPCURLs)/2 + 1
}

// Identity names the chain.
func (c Config) Identity() Identity { return Identity{Name: c.Name, ID: c.ID} }

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// Validate reports all faults at once. It never repeats an RPC URL.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !nameForm.MatchString(c.Name) {
		fault("name %q: must be 1 to 32 lower-case letters, digits and inner hyphens", c.Name)
	}
	if c.ID == 0 {
		fault("id: must be a positive EIP-155 chain id")
	}
	if len(c.RPCURLs) == 0 {
		fault("rpcUrls: at least one is needed")
	}
	c.validateURLs(fault)
	if c.Quorum < 0 || len(c.RPCURLs) > 0 && c.Quorum > len(c.RPCURLs) {
		fault("quorum: must be 1 to the number of rpcUrls (%d)", len(c.RPCURLs))
	}
	if c.RPCTimeout < 0 || c.RPCTimeout > time.Minute {
		fault("rpcTimeoutSeconds: must be 1 to 60")
	}
	if c.MaxHeadAge != 0 && (c.MaxHeadAge < 2*time.Second || c.MaxHeadAge > time.Hour) {
		fault("maxHeadAgeSeconds: must be 2 to 3600")
	}
	if t := c.USDToken; t != nil {
		if _, err := ParseAddress(t.Address); err != nil {
			fault("usdToken.address: %w", err)
		}
		if t.Name == "" || t.Version == "" {
			fault("usdToken: name and version are needed, as the token's EIP-712 domain has them")
		}
	}
	return errors.Join(faults...)
}

func (c Config) validateURLs(fault func(format string, args ...any)) {
	seen := map[string]bool{}
	for i, raw := range c.RPCURLs {
		u, err := url.Parse(raw)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			fault("rpcUrls.%d: must be an http or https URL", i)
			continue
		}
		if seen[nodeOf(u)] {
			fault("rpcUrls.%d: comes twice, which would count as two nodes", i)
		}
		seen[nodeOf(u)] = true
	}
}

// nodeOf is the URL in one spelling: a quorum of one node under two names would be
// none.
func nodeOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return host + ":" + port + strings.TrimRight(u.EscapedPath(), "/") + "?" + u.RawQuery
}

// wireFile is the file that CHAINS_FILE names.
type wireFile struct {
	Chains []struct {
		Name              string   `json:"name"`
		ID                uint64   `json:"id"`
		RPCURLs           []string `json:"rpcUrls"`
		Quorum            int      `json:"quorum"`
		RPCTimeoutSeconds int      `json:"rpcTimeoutSeconds"`
		MaxHeadAgeSeconds int      `json:"maxHeadAgeSeconds"`
		USDToken          *struct {
			Address string `json:"address"`
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"usdToken"`
	} `json:"chains"`
}

// ParseFile reads a CHAINS_FILE: {"chains": [{"name", "id", "rpcUrls"} and, where
// wanted, {"quorum", "rpcTimeoutSeconds", "maxHeadAgeSeconds", "usdToken":
// {"address", "name", "version"}}]}. Names and ids come once each; the first chain
// is the one that the route "chain" stands for. All faults are reported at once.
func ParseFile(text []byte) ([]Config, error) {
	var file wireFile
	if err := strictjson.Unmarshal(text, &file, strictjson.Rules{}); err != nil {
		return nil, err
	}
	var configs []Config
	var faults []error
	names, ids := map[string]bool{}, map[uint64]bool{}
	for i, wire := range file.Chains {
		c := Config{
			Name: wire.Name, ID: wire.ID, RPCURLs: wire.RPCURLs, Quorum: wire.Quorum,
			RPCTimeout: time.Duration(wire.RPCTimeoutSeconds) * time.Second,
			MaxHeadAge: time.Duration(wire.MaxHeadAgeSeconds) * time.Second,
		}
		if wire.USDToken != nil {
			c.USDToken = &Token{wire.USDToken.Address, wire.USDToken.Name, wire.USDToken.Version}
		}
		if err := c.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("chains.%d (%s): %w", i, wire.Name, err))
		}
		if names[c.Name] || ids[c.ID] || c.Name == "chain" {
			faults = append(faults, fmt.Errorf("chains.%d (%s): name and id must come once, and not be the word chain", i, wire.Name))
		}
		names[c.Name], ids[c.ID] = true, true
		configs = append(configs, c)
	}
	if len(configs) == 0 {
		faults = append(faults, errors.New("chains: at least one is needed"))
	}
	return configs, errors.Join(faults...)
}
