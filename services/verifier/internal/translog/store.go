package translog

import (
	"context"
	"errors"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt"
)

// Faults of the log of receipts.
var (
	// ErrOtherLog means that the ledger's log has another origin or key than the settings.
	ErrOtherLog = errors.New("the ledger's log has another origin or key")
	// ErrNotFound and ErrLost are what a store returns for what is not there, or no longer is
	// as the caller read it.
	ErrNotFound = errors.New("not found")
	ErrLost     = errors.New("the log has changed")
	// ErrFrozen means that nothing may be signed until an operator has decided.
	ErrFrozen = errors.New("the log is frozen")
)

// Why a log is frozen.
const (
	FrozenRestored = "restored"       // the ledger was put back from a backup
	FrozenBehind   = "behind-witness" // a witness has cosigned a larger tree
	FrozenFork     = "fork"           // a witness knows another tree
	FrozenMark     = "behind-mark"    // the mark, or what the process signed or read, is of another or a larger tree
	FrozenNoMark   = "no-mark"        // the mark is gone, and a tree was published or the generation is not the first
)

// Head is one generation of the log and how far it is.
type Head struct {
	Log          int64 // generation, from 1
	Origin, VKey string
	Size         int64
	Root         tlog.Hash
	Frozen       string // why nothing is signed; "" when it may be
	Opened       time.Time
	Closed       time.Time // zero unless the generation has ended
	Final        []byte    // checkpoint of a closed one; empty where nothing was served
}

// Queue is how many entries wait for their places, and since when.
type Queue struct {
	Entries int
	Oldest  time.Time // zero without entries
	// SetAside counts what was queued and may not have a place in the log.
	SetAside int
}

// SetAside is something that was queued and may not have a place in the log.
type SetAside struct {
	Number int64     `json:"number"`
	Begin  []byte    `json:"begin"` // its first bytes
	Bytes  int64     `json:"bytes"`
	Queued time.Time `json:"queued"`
	Why    string    `json:"why"`
}

// Store is where a log of receipts is kept: in the database of the payments, whose ledger queues the entries of what is
// sold. Each write is atomic over all processes that share it, but for the queueing of EndLog.
type Store interface {
	// What the log is served from.

	// Heads returns all generations, the newest first. Only that one is open.
	Heads(ctx context.Context) ([]Head, error)
	// Published returns the checkpoint that is served; the zero value where none was published.
	Published(ctx context.Context, log int64) (PublishedCheckpoint, error)
	// Hashes returns stored hashes by their ids of package tlog, or ErrNotFound where one is missing.
	Hashes(ctx context.Context, log int64, ids []int64) ([]tlog.Hash, error)
	// Entries returns at most so many entries from an index on.
	Entries(ctx context.Context, log, from int64, most int) ([][]byte, error)
	// Index returns the place of a leaf, or ErrNotFound.
	Index(ctx context.Context, log int64, leaf tlog.Hash) (int64, error)
	// IsQueued reports whether a leaf waits for its place.
	IsQueued(ctx context.Context, leaf tlog.Hash) (bool, error)
	Queue(ctx context.Context) (Queue, error)

	// Giving entries their places and publishing the tree.

	// ListKeys queues, in one step, the state of each key that is not its last state in the log or in the queue. It
	// returns the keys; revoked ones may have further cut-offs, at the ends of closed generations.
	// receiptlog.ErrKeyState, and nothing is queued: a state may not follow, or a cut-off names no generation or lies
	// beyond its end. While the log is frozen nothing is queued.
	ListKeys(ctx context.Context, keys []receipt.Key) ([]receipt.Key, error)
	// Portion returns how many entries one Sequence should take: few where payments wait for it, so that they wait
	// only some milliseconds.
	Portion() int
	// Sequence gives at most so many queued entries their places, in one step that is on disk when it returns, and
	// returns the head and how many it took from the queue. ErrFrozen: it took none. What the log has already gets no
	// second place. What may not have a place is set aside. A new generation begins with the last state of each key,
	// if that is numbered.
	Sequence(ctx context.Context, most int) (Head, int, error)
	// Publish keeps the checkpoint of a size that is served, unless one of a larger tree is: the one that the function
	// returns for the one of that size that it replaces, or for nil. The function may be called more than once.
	// ErrLost: the generation is closed, or its tree is smaller than the checkpoint's.
	Publish(ctx context.Context, log, size int64, note func(replaced []byte) []byte) error
	// Freeze stops the log, unless it has stopped.
	Freeze(ctx context.Context, log int64, why string) error

	// What it takes to compare the log with what was sold, and to queue what the log lacks.

	// Logged returns at most so many entries from an index on, with what is known of their origin.
	Logged(ctx context.Context, log, from int64, most int) ([]LoggedEntry, error)
	// Missing returns those of the leaves that the log does not have.
	Missing(ctx context.Context, log int64, leaves []tlog.Hash) ([]tlog.Hash, error)
	// StoredEntries returns the entries of stored answers, in the order of the payments' numbers: of at most so many
	// payments whose number is greater than after and whose claim is older than before. last is the number of the last
	// of these payments, or after where there is none.
	StoredEntries(ctx context.Context, after int64, before time.Time,
		most int) (entries []StoredEntry, last int64, err error)
	// QueueStored queues entries that StoredEntries has returned.
	QueueStored(ctx context.Context, entries []StoredEntry) error

	// What size each witness has cosigned last.

	SetWitness(ctx context.Context, log int64, name string, size int64) error
	// WitnessSize returns 0 for a witness that has cosigned nothing.
	WitnessSize(ctx context.Context, log int64, name string) (int64, error)

	// What an operator decides about a log that does not go on by itself.

	// Resume starts the log when it is stopped for that reason and has that size. ErrLost: it is not.
	Resume(ctx context.Context, log, size int64, why string) error
	// Extend appends those entries of a copy of the log that the log does not have. first is the index of the first.
	// ErrLost: the log has another size, or the generation is closed.
	Extend(ctx context.Context, log, first int64, entries [][]byte) (Head, error)
	// EndLog closes a generation with its final checkpoint and opens the next, in one step, and then queues all stored
	// answers for the next. ErrLost: the first is closed, or another checkpoint is served.
	EndLog(ctx context.Context, log int64, final []byte, next Head) error
}

// PublishedCheckpoint is a checkpoint with its cosignatures.
type PublishedCheckpoint struct {
	Size int64
	Note []byte
	At   time.Time
}

// LoggedEntry is an entry of the log with what is known of its origin.
type LoggedEntry struct {
	Data   []byte
	Source EntrySource
	Placed time.Time
}

// EntrySource is where an entry of the log came from.
type EntrySource int

// The sources. The ledger keeps a payment when its answer is pruned, so that the source of its entry stays known.
const (
	FromNowhere EntrySource = iota // not queued here
	FromSale                       // queued with a payment whose settlement began
	FromKey                        // queued as the state of a listed key
	FromCopy                       // brought back by Extend
)

// StoredEntry is an entry of a stored answer, and the number of its payment.
type StoredEntry struct {
	Payment int64
	Data    []byte
}
