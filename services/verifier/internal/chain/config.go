package chain

import "time"

// Config describes one chain and how to read it.
type Config struct {
	Name    string   // the name in the route: lower-case letters, digits, hyphens
	ID      uint64   // EIP-155 chain id
	RPCURLs []string // JSON-RPC over http or https, best first; may hold keys
	// Quorum is how many of the endpoints must agree on a block's hash and on how
	// far the chain is finalized: 1 to len(RPCURLs); 0 means the majority of them.
	Quorum int
	// RPCTimeout bounds one exchange with a node; 0 means 5 seconds.
	RPCTimeout time.Duration
	// MaxHeadAge is how old the nodes' reports of latest and finalized may be; 0
	// means a minute.
	MaxHeadAge time.Duration
	// BeaconURLs are nodes of its beacon chain with the light-client API; may hold keys.
	// Without any, there are no proofs of finality.
	BeaconURLs []string
	// BeaconNetwork is the name of its beacon network, or a file that describes it; "" means
	// the network that package finality knows for ID.
	BeaconNetwork string
	// USDToken is the chain's native USD stablecoin, for payments on it; may be nil.
	USDToken *Token
}

// Token is an ERC-20 token with the domain that its EIP-712 signatures use.
type Token struct {
	Address string `json:"address"` // 0x and 40 hexadecimal digits
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Agreeing returns how many of the endpoints must agree: Quorum, or the majority.
func (c Config) Agreeing() int {
	if c.Quorum > 0 {
		return c.Quorum
	}
	return len(c.RPCURLs)/2 + 1
}

// Identity returns name and id.
func (c Config) Identity() Identity { return Identity{Name: c.Name, ID: c.ID} }
