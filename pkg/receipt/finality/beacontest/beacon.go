package beacontest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/internal/ssz"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
)

// Execution is the execution chain that a Beacon follows. It must not reorganize, and each
// block after its genesis block must have a later time than the one before and GenesisTime.
type Execution interface {
	// Latest returns the number of the latest block.
	Latest(ctx context.Context) (uint64, error)
	// Header returns the header of a block in the form of the beacon chain.
	Header(ctx context.Context, number uint64) (*lightclient.ExecutionPayloadHeader, error)
}

// Faults are what a Beacon does wrong, for tests.
type Faults struct {
	// Down has all that Handler serves but /faults answered 503.
	Down bool `json:"down"`
	// Withhold has the node find no updates.
	Withhold bool `json:"withhold"`
	// Signers is how many of a committee's 512 members sign; zero means 508.
	Signers int `json:"signers"`
	// WrongSignature has the committee sign something else.
	WrongSignature bool `json:"wrongSignature"`
	// OtherNetwork has the committee sign for another genesis validators root.
	OtherNetwork bool `json:"otherNetwork"`
	// WrongBlock has the committee sign that an execution block is final which the
	// execution chain does not have.
	WrongBlock bool `json:"wrongBlock"`
	// EarlyUpdates has the update of a period come from the period's first slots: the header that
	// it proves final is of the period before, so clients must not take the next committee from it.
	EarlyUpdates bool `json:"earlyUpdates"`
}

// honestSigners is how many of a committee sign: some are absent on mainnet too.
const honestSigners = 508

// Config is what New needs.
type Config struct {
	// Name is the network's name; its genesis validators root and keys follow from it.
	Name string
	// ChainID is the execution chain's, as in CAIP-2, such as eip155:1337.
	ChainID string
	// Fork is the name of the fork of every slot; empty means electra.
	Fork string
	// Depth is how many blocks a block is above the one that its state calls final, at least 1.
	Depth uint64
	// Execution is the chain that the node follows; it is required.
	Execution Execution
}

// Beacon is a beacon node of a development network. It may be used by several
// goroutines.
type Beacon struct {
	config     Config
	network    *finality.Network
	indices    ssz.Indices
	committees [2]func() *committee // by period modulo 2

	faults atomic.Pointer[Faults]

	mu    sync.Mutex
	known []named // the blocks from number 1 on
}

// named is what the beacon keeps of a block.
type named struct {
	slot uint64
	root finality.Root
}

// GenesisTime is when slot 0 was, in Unix seconds. A slot is a second long.
const GenesisTime = 1_700_000_000

// Slots of an epoch and of a sync committee period, as in the minimal preset.
const (
	slotsPerEpoch  = 8
	slotsPerPeriod = 64
)

// NewNetwork returns the constants of the development network with a name: those that
// verification needs. fork is the name of its last fork, deneb or later; empty means electra.
func NewNetwork(name, chainID, fork string) (*finality.Network, error) {
	n := &finality.Network{
		Name: name, ChainID: chainID, GenesisValidatorsRoot: sha256.Sum256([]byte(name)),
		SecondsPerSlot: 1, SlotsPerEpoch: slotsPerEpoch, SlotsPerPeriod: slotsPerPeriod,
		CommitteeSize: committeeSize,
	}
	if fork == "" {
		fork = "electra"
	}
	last := slices.Index(ssz.Forks, fork)
	if last < slices.Index(ssz.Forks, "deneb") {
		return nil, fmt.Errorf("no development beacon of fork %q", fork)
	}
	for i, name := range ssz.Forks[:last+1] {
		n.Forks = append(n.Forks, finality.Fork{
			Name: name, Version: finality.ForkVersion{byte(i + 1), 0xde, 0xfe, 0x17},
		})
	}
	return n, nil
}

// New returns a node whose network is that of NewNetwork.
func New(c Config) (*Beacon, error) {
	network, err := NewNetwork(c.Name, c.ChainID, c.Fork)
	if err != nil {
		return nil, err
	}
	if c.Execution == nil || c.Depth < 1 {
		return nil, errors.New("a development beacon needs an execution chain and a depth of at least 1")
	}
	b := &Beacon{config: c, network: network}
	b.indices, _ = ssz.IndicesOf(b.fork()) // NewNetwork knows the fork
	b.Break(Faults{})
	for i := range b.committees {
		b.committees[i] = sync.OnceValue(func() *committee {
			return newCommittee(fmt.Sprintf("%s committee %d", c.Name, i))
		})
	}
	return b, nil
}

// Network returns the constants that verification needs.
func (b *Beacon) Network() *finality.Network { return b.network }

// Break has the node do wrong what f says from now on, and nothing else. A new node does
// nothing wrong.
func (b *Beacon) Break(f Faults) { b.faults.Store(&f) }

func (b *Beacon) committee(period uint64) *committee { return b.committees[period%2]() }

// block is a beacon block with its state.
type block struct {
	slot   uint64
	parent finality.Root
	// payload is the execution header that the body leads to: the block's own, and from
	// Gloas on its parent's.
	payload *lightclient.ExecutionPayloadHeader
	// finalizedSlot and finalized are the slot and the root of the block that the state calls
	// final.
	finalizedSlot uint64
	finalized     finality.Root

	light lightclient.Header
	state tree
}

func (b *block) root() finality.Root { return b.light.Beacon.HashTreeRoot() }

// complete returns the block with its state and its header.
func (b *Beacon) complete(made block) (*block, error) {
	period := b.network.Period(made.slot)
	made.state = tree{
		// the checkpoint's epoch
		b.indices.Finalized - 1:    ssz.Uint64[finality.Root](made.finalizedSlot / slotsPerEpoch),
		b.indices.Finalized:        made.finalized,
		b.indices.CurrentCommittee: b.committee(period).root,
		b.indices.NextCommittee:    b.committee(period + 1).root,
	}
	body, index := tree{}, uint64(ssz.Payload)
	if b.gloas() {
		index = b.indices.BlockHash
		body[index] = made.payload.BlockHash
		made.light.ExecutionBlockHash = &made.payload.BlockHash
	} else {
		root, err := made.payload.HashTreeRoot()
		if err != nil {
			return nil, err
		}
		body[index] = root
		made.light.Execution = made.payload
	}
	made.light.ExecutionBranch = body.branch(index)
	made.light.Beacon = lightclient.BeaconHeader{
		Slot: finality.Uint64(made.slot), ParentRoot: made.parent, StateRoot: made.state.root(1),
		BodyRoot: body.root(1),
	}
	return &made, nil
}

// fork returns the name of the fork that every slot has.
func (b *Beacon) fork() string { return b.network.LastFork().Name }

func (b *Beacon) gloas() bool { return b.fork() == "gloas" }

// block returns the beacon block of the execution block with a number, 1 or more.
func (b *Beacon) block(ctx context.Context, number uint64) (*block, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		at := min(number, uint64(len(b.known))+1)
		own, err := b.config.Execution.Header(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("read block %d: %w", at, err)
		}
		next := block{slot: uint64(own.Timestamp) - GenesisTime, payload: own}
		if b.gloas() {
			if next.payload, err = b.config.Execution.Header(ctx, at-1); err != nil {
				return nil, fmt.Errorf("read block %d: %w", at-1, err)
			}
		}
		if at > 1 {
			next.parent = b.known[at-2].root
		}
		if at > b.config.Depth {
			final := b.known[at-b.config.Depth-1]
			next.finalizedSlot, next.finalized = final.slot, final.root
		}
		made, err := b.complete(next)
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", at, err)
		}
		if at > uint64(len(b.known)) {
			b.known = append(b.known, named{made.slot, made.root()})
		}
		if at == number {
			return made, nil
		}
	}
}

// errNotFound means that the node does not have what was asked for.
var errNotFound = errors.New("not found")

// blocks returns what is kept of all blocks up to the latest; block n is at n-1. errNotFound
// when there is only the genesis block.
func (b *Beacon) blocks(ctx context.Context) ([]named, error) {
	head, err := b.config.Execution.Latest(ctx)
	if err != nil {
		return nil, err
	}
	if head == 0 {
		return nil, errNotFound
	}
	if _, err := b.block(ctx, head); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known[:head], nil
}

// Finalized returns the finalized block: the one that the head's state calls so.
func (b *Beacon) Finalized(ctx context.Context) (finality.BeaconHeader, error) {
	all, err := b.blocks(ctx)
	if err != nil {
		return finality.BeaconHeader{}, err
	}
	head := uint64(len(all))
	if head <= b.config.Depth {
		return finality.BeaconHeader{}, errNotFound
	}
	made, err := b.block(ctx, head-b.config.Depth)
	if err != nil {
		return finality.BeaconHeader{}, err
	}
	return finality.BeaconHeader(made.light.Beacon), nil
}

// Bootstrap returns the header and the sync committee with which a light client begins at
// the finalized block with a root.
func (b *Beacon) Bootstrap(ctx context.Context, root finality.Root) (*lightclient.Bootstrap, error) {
	all, err := b.blocks(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(n named) bool { return n.root == root })
	if at < 0 || uint64(at)+b.config.Depth >= uint64(len(all)) {
		return nil, errNotFound
	}
	made, err := b.block(ctx, uint64(at)+1)
	if err != nil {
		return nil, err
	}
	return &lightclient.Bootstrap{
		Header: made.light, CurrentSyncCommittee: b.committee(b.network.Period(made.slot)).SyncCommittee,
		CurrentSyncCommitteeBranch: made.state.branch(b.indices.CurrentCommittee),
	}, nil
}

// FinalityUpdate returns the latest update, without the next committee.
func (b *Beacon) FinalityUpdate(ctx context.Context) (*lightclient.Update, error) {
	all, err := b.blocks(ctx)
	if err != nil {
		return nil, err
	}
	attested := uint64(len(all)) - 1
	if attested <= b.config.Depth || b.faults.Load().Withhold {
		return nil, errNotFound
	}
	u, err := b.update(ctx, all, attested)
	if err != nil {
		return nil, err
	}
	u.NextSyncCommittee, u.NextSyncCommitteeBranch = nil, nil
	return u, nil
}

// Update returns the last update of a period that the period's own committee has signed, with
// the next committee. Its finalized header may still be of the period before while the period
// lasts. For a past period that has no update with a finalized header of its own, it invents blocks for one.
func (b *Beacon) Update(ctx context.Context, period uint64) (*lightclient.Update, error) {
	all, err := b.blocks(ctx)
	if err != nil {
		return nil, err
	}
	faults := *b.faults.Load()
	first, end := period*slotsPerPeriod, (period+1)*slotsPerPeriod-1
	// so many blocks are before the period
	before := uint64(sort.Search(len(all), func(i int) bool { return all[i].slot >= first }))
	last := uint64(sort.Search(len(all), func(i int) bool { return all[i].slot > end })) // the number of its last block
	attested := max(last, 1) - 1
	signed := attested > before && attested > b.config.Depth
	head := all[len(all)-1].slot
	switch {
	case faults.Withhold:
		return nil, errNotFound
	case faults.EarlyUpdates && head > first:
		return b.invent(first-1, first, first+1)
	case signed && (head <= end || all[attested-b.config.Depth-1].slot >= first):
		return b.update(ctx, all, attested)
	case head > end:
		// The execution chain did not run then, or with too few blocks. Light clients that
		// followed an earlier run get over such periods with an update of any blocks.
		return b.invent(end-2, end-1, end)
	}
	return nil, errNotFound
}

// update returns the update about a block, by number, that is signed in the next block's slot.
func (b *Beacon) update(ctx context.Context, all []named, number uint64) (*lightclient.Update, error) {
	attested, err := b.block(ctx, number)
	if err != nil {
		return nil, err
	}
	finalized, err := b.block(ctx, number-b.config.Depth)
	if err != nil {
		return nil, err
	}
	if b.faults.Load().WrongBlock {
		other := *finalized.payload
		other.BlockHash = sha256.Sum256(other.BlockHash[:])
		finalized.payload, finalized.light = &other, lightclient.Header{}
		if finalized, err = b.complete(*finalized); err != nil {
			return nil, err
		}
		attested.finalized = finalized.root()
		if attested, err = b.complete(*attested); err != nil {
			return nil, err
		}
	}
	return b.sign(attested, finalized, all[number].slot)
}

// invent returns an update over blocks that the execution chain does not have, at the
// slots of the finalized and the attested one and of the signature.
func (b *Beacon) invent(final, slot, signed uint64) (*lightclient.Update, error) {
	var none finality.Uint64
	payload := &lightclient.ExecutionPayloadHeader{
		FeeRecipient: make([]byte, 20), LogsBloom: make([]byte, 256), BlobGasUsed: &none, ExcessBlobGas: &none,
	}
	finalized, err := b.complete(block{slot: final, payload: payload})
	if err != nil {
		return nil, err
	}
	attested, err := b.complete(block{
		slot: slot, payload: payload, parent: finalized.root(), finalizedSlot: final, finalized: finalized.root(),
	})
	if err != nil {
		return nil, err
	}
	return b.sign(attested, finalized, signed)
}

// sign returns the update in which the committee of a slot signs attested, whose state calls
// finalized final.
func (b *Beacon) sign(attested, finalized *block, slot uint64) (*lightclient.Update, error) {
	faults, network := *b.faults.Load(), *b.network
	if faults.OtherNetwork {
		network.GenesisValidatorsRoot = sha256.Sum256(network.GenesisValidatorsRoot[:])
	}
	message := network.SigningRoot(attested.root(), slot)
	if faults.WrongSignature {
		message = sha256.Sum256(message[:])
	}
	bits := participation(slot, faults.Signers)
	signature, err := b.committee(network.Period(slot)).sign(message, bits)
	if err != nil {
		return nil, err
	}
	return &lightclient.Update{
		AttestedHeader: attested.light, NextSyncCommittee: &b.committee(network.Period(attested.slot) +
			1).SyncCommittee,
		NextSyncCommitteeBranch: attested.state.branch(b.indices.NextCommittee),
		FinalizedHeader:         finalized.light, FinalityBranch: attested.state.branch(b.indices.Finalized),
		SyncAggregate: lightclient.SyncAggregate{Bits: bits, Signature: signature},
		SignatureSlot: finality.Uint64(slot),
	}, nil
}

// participation returns the bits of a committee of which signers members sign; which ones depends on the slot.
func participation(slot uint64, signers int) []byte {
	if signers == 0 {
		signers = honestSigners
	}
	bits := make([]byte, committeeSize/8)
	for i := range signers {
		at := (slot*7 + uint64(i)) % committeeSize
		bits[at/8] |= 1 << (at % 8)
	}
	return bits
}
