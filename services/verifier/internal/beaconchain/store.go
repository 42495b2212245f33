package beaconchain

import (
	"context"
	"errors"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality"
)

// ErrNotFound is returned by a store for what it does not have.
var ErrNotFound = errors.New("not found")

// SoldBlock is a block about which a receipt was sold.
type SoldBlock struct {
	Chain  string        // CAIP-2, "eip155:1"
	Hash   finality.Root // of the execution block
	Number uint64
}

// BundleState is how far the proof of finality of a sold block has come.
type BundleState string

// The states. Only an unavailable or expired bundle becomes pending again: when its block is
// queued again, as by another sale.
const (
	BundlePending     BundleState = "pending"
	BundleMade        BundleState = "made"
	BundleUnavailable BundleState = "unavailable" // it could not be made, or not in time
	BundleExpired     BundleState = "expired"     // it is no longer kept
)

// Bundle is the proof of finality of one sold block.
type Bundle struct {
	SoldBlock
	State BundleState
	// Queued is when the block began to wait, and Tried when the first try to make the bundle
	// that failed was begun; zero before.
	Queued, Tried time.Time
	// Tries counts the tries that failed.
	Tries int
	// Period is that of the committee that signed the last step, and Slot that of the finalized
	// header that it ends in.
	Period, Slot uint64
	// Content is the proof without what leads from a checkpoint to the last period; nil unless
	// the bundle is made.
	Content []byte
	Made    time.Time
}

// Makeable is which pending bundles DueBundles returns: those of blocks up to UpTo, which can be made, and of later
// blocks those queued before QueuedBefore, which are given up. It does not put off the others: they may be many,
// where beacon nodes are away for hours, and a write may make sales wait.
type Makeable struct {
	UpTo         uint64 // a block's number
	QueuedBefore time.Time
}

// Step is a handover: the sync committee of Period has signed which committee
// follows it.
type Step struct {
	Chain  string
	Period uint64
	// Signers is how many have signed, and Final reports that the period was over when a step
	// of it was read, so that no better one comes.
	Signers int
	Final   bool
	Step    []byte
}

// Checkpoint is a finalized beacon block from which a proof can begin.
type Checkpoint struct {
	Chain        string
	Root         finality.Root
	Slot, Period uint64
	// Own reports that the server took it by itself; a caller has named the others.
	Own        bool
	Checkpoint []byte
}

// BundleCounts is how many bundles of a chain are in each state. Each queued block counts as a pending one.
type BundleCounts struct {
	States map[BundleState]int
	// Oldest is when the longest pending one was queued; zero without one.
	Oldest time.Time
}

// Store is where proofs of finality are kept: in the database of the payments, whose ledger queues the sold blocks.
// Each write is atomic over all processes that share it.
type Store interface {
	// TakeSold takes at most so many sold blocks from the queue, of all chains, makes a pending
	// bundle for each, and returns how many it took. A made bundle stays.
	TakeSold(ctx context.Context, most int) (int, error)
	// Bundle returns the bundle of a block, or ErrNotFound. For a queued block whose bundle is
	// missing, unavailable or expired it returns a pending one.
	Bundle(ctx context.Context, chain string, block finality.Root) (Bundle, error)
	// DueBundles returns at most so many pending bundles of a chain that are due and within
	// can, and puts them off until next, so that two processes do not make the same.
	DueBundles(ctx context.Context, chain string, can Makeable, next time.Time, most int) ([]Bundle, error)
	// KeepBundle writes a bundle as made, unless it is made already: then the first one
	// stays. ErrNotFound: there is no such bundle, or it has expired.
	KeepBundle(ctx context.Context, b Bundle) error
	// PutOff writes State, Tried and Tries of a bundle that could not be made, to be tried
	// again at next. A bundle that is not pending stays.
	PutOff(ctx context.Context, b Bundle, next time.Time) error
	BundleCounts(ctx context.Context, chain string) (BundleCounts, error)

	// KeepStep writes a step, unless one of its period is there with at least as many signers.
	// That it is Final is noted in any case.
	KeepStep(ctx context.Context, s Step) error
	// Steps returns the steps of periods from first to last, in their order, without gaps:
	// what comes after a missing one is left out.
	Steps(ctx context.Context, chain string, first, last uint64) ([]Step, error)
	// KeepCheckpoint writes a checkpoint, unless it is there. One that is or becomes Own stays so.
	KeepCheckpoint(ctx context.Context, c Checkpoint) error
	// Checkpoint returns a checkpoint, or ErrNotFound.
	Checkpoint(ctx context.Context, chain string, root finality.Root) (Checkpoint, error)
	// OwnCheckpoints returns the server's own checkpoints of a chain from a slot on, the
	// oldest first.
	OwnCheckpoints(ctx context.Context, chain string, from uint64) ([]Checkpoint, error)
}
