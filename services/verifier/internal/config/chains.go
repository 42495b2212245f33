package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// ValidateChain returns the faults that it finds in a chain, or nil. Their texts hold no URL.
func ValidateChain(c chain.Config) error {
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
	faults = append(faults, nodeFaults(c.RPCURLs, "rpcUrls.%d")...)
	if c.Quorum < 0 || len(c.RPCURLs) > 0 && c.Quorum > len(c.RPCURLs) {
		fault("quorum: must be 1 to the number of rpcUrls (%d)", len(c.RPCURLs))
	}
	if c.RPCTimeout < 0 || c.RPCTimeout > time.Minute {
		fault("rpcTimeoutSeconds: must be 1 to 60")
	}
	if c.MaxHeadAge != 0 && (c.MaxHeadAge < 2*time.Second || c.MaxHeadAge > time.Hour) {
		fault("maxHeadAgeSeconds: must be 2 to 3600")
	}
	for i, raw := range c.BeaconURLs {
		if u, err := url.Parse(raw); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			fault("beaconUrls.%d: must be an http or https URL", i)
		}
	}
	if c.BeaconNetwork != "" && len(c.BeaconURLs) == 0 {
		fault("beaconNetwork: comes only together with beaconUrls")
	}
	if t := c.USDToken; t != nil {
		if _, err := chain.ParseAddress(t.Address); err != nil {
			fault("usdToken.address: %w", err)
		}
		if t.Name == "" || t.Version == "" {
			fault("usdToken: name and version are needed, as the token's EIP-712 domain has them")
		}
	}
	return errors.Join(faults...)
}

// nodeFaults returns the faults of a list of JSON-RPC nodes. name formats the name of an element from its index.
func nodeFaults(urls []string, name string) (faults []error) {
	seen := map[string]bool{}
	for i, raw := range urls {
		u, err := url.Parse(strings.TrimSpace(raw))
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			faults = append(faults, fmt.Errorf(name+": must be an http or https URL", i))
			continue
		}
		if seen[nodeOf(u)] {
			faults = append(faults, fmt.Errorf(name+": comes twice, which would count as two nodes", i))
		}
		seen[nodeOf(u)] = true
	}
	return faults
}

// nodeOf returns the host, port, path and query of u in one spelling, so that a node that is listed twice is
// found.
func nodeOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "127.0.0.1" || host == "::1" {
		host = "localhost"
	}
	return host + ":" + port + strings.TrimRight(u.EscapedPath(), "/") + "?" + u.RawQuery
}

// wireFile is the content of the file that CHAINS_FILE names.
type wireFile struct {
	Chains []struct {
		Name              string       `json:"name"`
		ID                uint64       `json:"id"`
		RPCURLs           []string     `json:"rpcUrls"`
		Quorum            int          `json:"quorum"`
		RPCTimeoutSeconds int          `json:"rpcTimeoutSeconds"`
		MaxHeadAgeSeconds int          `json:"maxHeadAgeSeconds"`
		BeaconURLs        []string     `json:"beaconUrls"`
		BeaconNetwork     string       `json:"beaconNetwork"`
		USDToken          *chain.Token `json:"usdToken"`
	} `json:"chains"`
}

// ParseChains reads the text of a CHAINS_FILE: {"chains": [...]}, where each chain has "name", "id" and
// "rpcUrls", and may have "quorum", "rpcTimeoutSeconds", "maxHeadAgeSeconds", "beaconUrls", "beaconNetwork" and
// "usdToken" with "address", "name" and "version". No two chains share a name or an id. In a path the name
// "chain" stands for the first of them, so that none may have it. The faults of all chains are returned
// together.
func ParseChains(text []byte) ([]chain.Config, error) {
	var file wireFile
	if err := strictjson.Unmarshal(text, &file, strictjson.Rules{}); err != nil {
		return nil, err
	}
	var configs []chain.Config
	var faults []error
	names, ids := map[string]bool{}, map[uint64]bool{}
	for i, wire := range file.Chains {
		for _, urls := range [][]string{wire.RPCURLs, wire.BeaconURLs} {
			for j := range urls {
				urls[j] = strings.TrimSpace(urls[j])
			}
		}
		c := chain.Config{
			Name: wire.Name, ID: wire.ID, RPCURLs: wire.RPCURLs, Quorum: wire.Quorum, USDToken: wire.USDToken,
			RPCTimeout: time.Duration(wire.RPCTimeoutSeconds) * time.Second,
			MaxHeadAge: time.Duration(wire.MaxHeadAgeSeconds) * time.Second,
			BeaconURLs: wire.BeaconURLs, BeaconNetwork: wire.BeaconNetwork,
		}
		if err := ValidateChain(c); err != nil {
			faults = append(faults, fmt.Errorf("chains.%d (%s): %w", i, wire.Name, err))
		}
		if names[c.Name] || ids[c.ID] || c.Name == "chain" {
			faults = append(faults, fmt.Errorf("chains.%d (%s): name and id must come once, and not be chain", i,
				wire.Name))
		}
		names[c.Name], ids[c.ID] = true, true
		configs = append(configs, c)
	}
	if len(configs) == 0 {
		faults = append(faults, errors.New("chains: at least one is needed"))
	}
	return configs, errors.Join(faults...)
}
