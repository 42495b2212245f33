package finality

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality/internal/ssz"
)

// Network is what binds a signature to one beacon chain, and how that chain counts. It
// never comes from a document. Its JSON is the form of a network's file.
type Network struct {
	Name    string `json:"name"`
	ChainID string `json:"chain"` // CAIP-2 of the execution chain
	// GenesisValidatorsRoot is the hash-tree-root of the validators at genesis. The signatures of sync committees
	// cover it.
	GenesisValidatorsRoot Root `json:"genesisValidatorsRoot"`
	// GenesisTime is when slot 0 was, in Unix seconds; 0 where it is not known. It dates
	// checkpoints for people, and decides nothing in a verification.
	GenesisTime    Uint64 `json:"genesisTime,omitempty"`
	SecondsPerSlot uint64 `json:"secondsPerSlot"`
	SlotsPerEpoch  uint64 `json:"slotsPerEpoch"`
	SlotsPerPeriod uint64 `json:"slotsPerPeriod"` // how long a sync committee signs
	CommitteeSize  int    `json:"committeeSize"`  // a power of two
	Forks          []Fork `json:"forks"`          // Altair and later ones, in their order
}

// Fork is a change of the network's rules.
type Fork struct {
	Name    string      `json:"name"`  // altair, bellatrix, capella, deneb, electra, fulu or gloas
	Epoch   Uint64      `json:"epoch"` // from which it is in force
	Version ForkVersion `json:"version"`
}

// ForkVersion is the version of a fork. The signatures of its time cover it.
type ForkVersion [4]byte

// MarshalText returns 0x and lower-case hexadecimal digits.
func (v ForkVersion) MarshalText() ([]byte, error) { return receipt.Hex(v[:]).MarshalText() }

// UnmarshalText reads what MarshalText returns, and nothing else. ErrMalformed.
func (v *ForkVersion) UnmarshalText(text []byte) error { return fixed(v[:], text) }

// Mainnet returns Ethereum's main network (consensus-specs, configs/mainnet.yaml).
func Mainnet() *Network {
	return known("mainnet", "eip155:1", "0x4b363db94e286120d76eb905340fdd4e54bfe9f06bf33ff6cf5ad27f511bfe95",
		1606824023,
		func(fork byte) ForkVersion { return ForkVersion{fork} },
		74240, 144896, 194048, 269568, 364032, 411392)
}

// Sepolia returns the test network Sepolia (eth-clients/sepolia, metadata/config.yaml).
func Sepolia() *Network {
	return known("sepolia", "eip155:11155111", "0xd8ea171f3c94aea21ebc42a1ed61052acf3f9209c00e4efbaaddac09ed9b8078",
		1655733600,
		func(fork byte) ForkVersion { return ForkVersion{0x90, 0, 0, 0x6f + fork} },
		50, 100, 56832, 132608, 222464, 272640, 353024)
}

// Hoodi returns the test network Hoodi (eth-clients/hoodi, metadata/config.yaml).
func Hoodi() *Network {
	return known("hoodi", "eip155:560048", "0x212f13fc4df078b6cb7db228f1c8307566dcecf900867401a92023d7ba99cb5f",
		1742213400,
		func(fork byte) ForkVersion { return ForkVersion{0x10 + fork<<4, 0, 0x09, 0x10} },
		0, 0, 0, 0, 2048, 50688)
}

// known returns a network of the mainnet preset. epochs are those in which its forks begin, from
// Altair on. version returns the version of a fork by its number, which is 1 for Altair.
func known(name, chain, root string, genesis Uint64, version func(fork byte) ForkVersion, epochs ...Uint64) *Network {
	n := &Network{
		Name: name, ChainID: chain, GenesisTime: genesis,
		SecondsPerSlot: 12, SlotsPerEpoch: 32, SlotsPerPeriod: 8192, CommitteeSize: maxMembers,
	}
	if err := n.GenesisValidatorsRoot.UnmarshalText([]byte(root)); err != nil {
		panic(err) // a constant of ours
	}
	for i, epoch := range epochs {
		n.Forks = append(n.Forks, Fork{Name: ssz.Forks[i], Epoch: epoch, Version: version(byte(i + 1))})
	}
	return n
}

// NetworkByName returns mainnet, sepolia or hoodi; false for any other name.
func NetworkByName(name string) (*Network, bool) {
	return find(func(n *Network) bool { return n.Name == name })
}

// NetworkOf returns which of mainnet, sepolia and hoodi has the execution chain with a CAIP-2
// id; false when none has it.
func NetworkOf(chain string) (*Network, bool) {
	return find(func(n *Network) bool { return n.ChainID == chain })
}

func find(match func(*Network) bool) (*Network, bool) {
	all := []*Network{Mainnet(), Sepolia(), Hoodi()}
	if i := slices.IndexFunc(all, match); i >= 0 {
		return all[i], true
	}
	return nil, false
}

// timeOf returns when a slot began; the zero Time where GenesisTime is not known or the year is
// beyond 9999.
func (n *Network) timeOf(slot Uint64) time.Time {
	const most = 253_402_300_799 // the last second of 9999: RFC 3339 cannot write a later year
	if n.GenesisTime == 0 || uint64(slot) > (most-uint64(n.GenesisTime))/n.SecondsPerSlot {
		return time.Time{}
	}
	return time.Unix(int64(uint64(n.GenesisTime)+uint64(slot)*n.SecondsPerSlot), 0).UTC()
}

// ParseNetwork reads the file of a network. ErrMalformed.
func ParseNetwork(data []byte) (*Network, error) {
	n := new(Network)
	if err := read(data, n); err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	return n, n.validate()
}

// Bounds of a network's numbers, within which no sum or product overflows.
const (
	maxSeconds = 1 << 16
	maxSlots   = 1 << 20
	maxGenesis = 1 << 37
)

func (n *Network) validate() error {
	chain, ok := strings.CutPrefix(n.ChainID, "eip155:")
	for _, fault := range []struct {
		what string
		ok   bool
	}{
		{"name", n.Name != "" && len(n.Name) <= maxName},
		{"chain", ok && chain != ""},
		{"genesisTime", n.GenesisTime <= maxGenesis},
		{"secondsPerSlot", n.SecondsPerSlot > 0 && n.SecondsPerSlot <= maxSeconds},
		{"slotsPerEpoch", n.SlotsPerEpoch > 0 && n.SlotsPerEpoch <= maxSlots},
		{"slotsPerPeriod", n.SlotsPerPeriod > 0 && n.SlotsPerPeriod <= maxSlots && n.SlotsPerPeriod%max(n.SlotsPerEpoch,
			1) == 0},
		{"committeeSize", n.CommitteeSize >= 8 && n.CommitteeSize <= maxMembers &&
			bits.OnesCount(uint(n.CommitteeSize)) == 1},
		{"forks", len(n.Forks) > 0},
	} {
		if !fault.ok {
			return fmt.Errorf("network: %w", malformed("%s is not as the format has it", fault.what))
		}
	}
	last, epoch := -1, Uint64(0)
	for _, fork := range n.Forks {
		at := slices.Index(ssz.Forks, fork.Name)
		if at <= last || fork.Epoch < epoch {
			return fmt.Errorf("network: %w", malformed("forks are not known ones in their order"))
		}
		last, epoch = at, fork.Epoch
	}
	return nil
}

// Period returns the number of the sync committee period that a slot is in, from 0.
func (n *Network) Period(slot uint64) uint64 { return slot / n.SlotsPerPeriod }

// ForkAt returns the fork in force in a slot; the zero Fork before the first one.
func (n *Network) ForkAt(slot uint64) (at Fork) {
	for _, fork := range n.Forks {
		if slot/n.SlotsPerEpoch >= uint64(fork.Epoch) {
			at = fork
		}
	}
	return at
}

// LastFork returns the last fork that is known.
func (n *Network) LastFork() Fork { return n.Forks[len(n.Forks)-1] }

// indices returns where the leaves are in a block of this slot and its state; all are 0
// before the first fork.
func (n *Network) indices(slot Uint64) ssz.Indices {
	indices, _ := ssz.IndicesOf(n.ForkAt(uint64(slot)).Name)
	return indices
}

// SigningRoot returns what a sync committee signs in a slot for the root of a beacon block
// (compute_signing_root with DOMAIN_SYNC_COMMITTEE). The fork is that of the slot before.
func (n *Network) SigningRoot(root Root, signatureSlot uint64) Root {
	version := n.ForkAt(max(signatureSlot, 1) - 1).Version
	var chunk Root
	copy(chunk[:], version[:])
	forkData := ssz.Hash(chunk, n.GenesisValidatorsRoot)
	domain := Root{0: 7}
	copy(domain[4:], forkData[:28])
	return ssz.Hash(root, domain)
}
