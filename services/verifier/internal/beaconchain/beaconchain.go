package beaconchain

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/pforte/pforte/pkg/periodic"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// Why there is no proof.
var (
	// ErrUnknownBlock means that no sale of a receipt about the block is known.
	ErrUnknownBlock = errors.New("no receipt about this block was sold")
	// ErrExpired means that the block was sold, and its proof is no longer kept.
	ErrExpired = errors.New("the proof of finality is no longer kept")
	// ErrPending means that the proof is not made yet.
	ErrPending = errors.New("the proof of finality is not made yet")
	// ErrUnavailable means that the proof was not made in time, that the block was too old for one, or that no
	// document of it from this checkpoint can be had.
	ErrUnavailable = errors.New("the proof of finality is not available")
	// ErrCheckpointUnknown means that no node knows the checkpoint, or that it is of a later
	// period than the proof or of another chain.
	ErrCheckpointUnknown = errors.New("the checkpoint is not known")
	// ErrCheckpointTooOld means that the checkpoint is too old to begin at, or that no steps lead from it.
	ErrCheckpointTooOld = errors.New("the checkpoint is too old")
	// ErrNotKept means that only a node may know the checkpoint, and that none was to be asked.
	ErrNotKept = errors.New("the checkpoint is not kept")
)

// Blocks reads the execution chain: what links a sold block to a finalized one.
type Blocks interface {
	// Headers returns the headers of blocks from last down to first, in RLP; block last has
	// this hash.
	Headers(ctx context.Context, first, last uint64, hash chain.Hash) ([][]byte, error)
	// StorageProof returns a block's header in RLP and the proof of a slot in its state.
	StorageProof(ctx context.Context, number uint64, hash chain.Hash, contract chain.Address,
		slot chain.Hash) (header []byte, account, storage [][]byte, err error)
	BlockNumber(ctx context.Context, hash chain.Hash) (uint64, error)
}

// Options is what a Chain is made of. All fields are required.
type Options struct {
	// Name is the chain's, for logs and metrics.
	Name    string
	Network *finality.Network
	Nodes   []chain.BeaconNode
	Blocks  Blocks
	Store   Store
	// Failed is called with one of Causes when that has happened.
	Failed func(cause string)
	Log    *slog.Logger
	Now    func() time.Time
}

// The causes of failures.
const (
	// CauseNode: a beacon node gave no answer, one that cannot be read, or one that cannot be
	// used for a reason that has no cause of its own, such as a failure of the store.
	CauseNode = "node"
	// CauseNetwork: a beacon node is one of another network.
	CauseNetwork = "network"
	// CauseUpdate: what a beacon node returned does not verify.
	CauseUpdate = "update"
	// CauseHandover: a period is over, and no beacon node that answers has an update that
	// hands over to the next committee.
	CauseHandover = "handover"
	// CauseLink: a sold block could not be linked to a finalized one.
	CauseLink = "link"
	// CauseBundle: a bundle that was made does not verify, or cannot be kept.
	CauseBundle = "bundle"
)

// Causes lists all causes.
var Causes = []string{CauseNode, CauseNetwork, CauseUpdate, CauseHandover, CauseLink, CauseBundle}

// Chain proves that blocks of one chain are final.
type Chain struct {
	Options
	nodes []*node

	// named bounds how many checkpoints that callers name are read.
	named allowance

	following sync.Mutex // guards what is needed to follow the beacon chain
	// committees are the verified roots of the sync committees by their periods; keys are
	// the members of the last ones.
	committees map[uint64]finality.Root
	keys       map[uint64]*lightclient.SyncCommittee
	// steps holds, by period, whether the period was over when its kept handover was read. checkpoints holds
	// the roots of our own checkpoints by period.
	steps       map[uint64]bool
	checkpoints map[uint64]finality.Root
	// verified is when an update was last verified, by our clock; zero before the first.
	verified time.Time
	// lackingSince is when it was first seen that no node that answers has the handover of a period that
	// is over; zero before that, and again once a new update is accepted.
	lackingSince time.Time

	mu sync.Mutex // guards what follows, and what is known of nodes
	// anchors are the verified updates of the latest execution blocks, by the numbers of
	// those, ascending.
	anchors       []anchor
	participation float64
	newest        time.Time
}

// anchor is a finalized execution block and what shows that it is final.
type anchor struct {
	number    uint64
	slot      uint64 // of its beacon block
	period    uint64 // of the committee that signed
	step      finality.Step
	execution finality.Execution
}

// New checks the options and returns a chain, which follows nothing before Run.
func New(o Options) (*Chain, error) {
	if o.Name == "" || o.Network == nil || len(o.Nodes) == 0 || o.Blocks == nil || o.Store == nil || o.Failed == nil ||
		o.Log == nil || o.Now == nil {
		return nil, errors.New("beaconchain: an option is missing")
	}
	o.Log = o.Log.With("chain", o.Name)
	c := &Chain{
		Options: o, committees: map[uint64]finality.Root{}, keys: map[uint64]*lightclient.SyncCommittee{},
		steps: map[uint64]bool{}, checkpoints: map[uint64]finality.Root{},
	}
	for _, n := range o.Nodes {
		c.nodes = append(c.nodes, &node{BeaconNode: n})
	}
	return c, nil
}

// Bounds of the interval at which updates are looked for. The finalized block usually changes once an epoch.
const (
	shortestPause = time.Second
	longestPause  = 30 * time.Second
	// bundlePause is the interval at which sold blocks are looked for.
	bundlePause = time.Second
)

// Run follows the beacon chain and makes bundles until ctx ends.
func (c *Chain) Run(ctx context.Context) {
	epoch := c.seconds(c.Network.SlotsPerEpoch)
	var both sync.WaitGroup
	repeat := func(interval time.Duration, look func(context.Context) error) {
		once := func() { _ = look(ctx) } // what fails is logged
		once()
		periodic.Run(ctx, interval, once)
	}
	both.Go(func() { repeat(min(max(epoch/12, shortestPause), longestPause), c.Follow) })
	both.Go(func() { repeat(bundlePause, c.MakeBundles) })
	both.Wait()
}

// Status is how far the proofs of a chain have come.
type Status struct {
	// Anchor is the time of the newest finalized block that is verified; zero before the
	// first.
	Anchor time.Time
	// Participation is the part of the sync committee, from 0 to 1, that signed the update that was
	// verified last.
	Participation float64
	Bundles       BundleCounts
}

// Status returns how far the proofs of the chain have come.
func (c *Chain) Status(ctx context.Context) (Status, error) {
	c.mu.Lock()
	s := Status{Anchor: c.newest, Participation: c.participation}
	c.mu.Unlock()
	var err error
	s.Bundles, err = c.Store.BundleCounts(ctx, c.Network.ChainID)
	return s, err
}

// allowance counts the checkpoints that clients have nodes asked for in a minute, and remembers
// those that were read but cannot be used.
type allowance struct {
	mu    sync.Mutex
	since time.Time
	all   int
	by    map[string]int // by the network of the client, at most namedByAll of them
	// refusals holds at most as many refusals as spend permits within refusedFor.
	refusals map[finality.Root]refusal
}

// refusal is a checkpoint that was read at a time and is not kept. known is false where no node
// knew it; else its slot was too old.
type refusal struct {
	at    time.Time
	known bool
	slot  uint64
}

// stale reports whether the checkpoint is to be read again.
func (r refusal) stale(now time.Time) bool {
	return now.Before(r.at) || now.Sub(r.at) >= refusedFor
}

// refuse remembers a checkpoint that was read but cannot be used.
func (a *allowance) refuse(root finality.Root, r refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refusals == nil {
		a.refusals = map[finality.Root]refusal{}
	}
	maps.DeleteFunc(a.refusals, func(_ finality.Root, old refusal) bool { return old.stale(r.at) })
	a.refusals[root] = r
}

// refused returns why a checkpoint need not be read again where it has to be of a slot from
// oldest on: ErrCheckpointUnknown, ErrCheckpointTooOld, or nil.
func (a *allowance) refused(root finality.Root, oldest uint64, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch r, there := a.refusals[root]; {
	case !there, r.stale(now):
		return nil
	case !r.known:
		return ErrCheckpointUnknown
	case r.slot < oldest:
		return ErrCheckpointTooOld
	}
	return nil
}

// spend reports whether nodes may be asked for one more checkpoint of a client, and counts it then.
func (a *allowance) spend(client string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil || now.Sub(a.since) >= time.Minute || now.Before(a.since) {
		a.since, a.all, a.by = now, 0, map[string]int{}
	}
	if a.all >= namedByAll || a.by[client] >= namedByOne {
		return false
	}
	a.all++
	a.by[client]++
	return true
}
