package password

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/crypto/bcrypt"
)

// DefaultCost is bcrypt's cost factor (contract section 2).
const DefaultCost = 12

// queuePerSlot bounds the default queue: at 0.2 s for a comparison the last one
// in waits about 3 s.
const queuePerSlot = 16

var (
	// ErrMismatch says that the password is not the one of the hash.
	ErrMismatch = errors.New("password does not match")
	// ErrBusy says that too many are waiting for a comparison already. Come
	// back in a few seconds.
	ErrBusy = errors.New("too many password comparisons are waiting")
)

// Options says how a Hasher works; zero values mean the defaults.
type Options struct {
	// Cost of new hashes, 4 (for tests) to 31; default DefaultCost.
	Cost int
	// Concurrency is how many hashes are computed at a time; by default half of
	// GOMAXPROCS, at least one. A hash holds one of Go's processors for long; the
	// other half is for requests without a password. cmd/auth has twice as many
	// as the machine has, so that passwords may still use all of that.
	Concurrency int
	// Queue is how many more may wait; default 16 for each that computes.
	Queue int
}

// Hasher computes and compares hashes, a bounded number at a time. It is safe
// for concurrent use.
type Hasher struct {
	cost  int
	dummy string
	gate  *gate
	// highest is the highest cost of a hash seen, if over cost.
	highest atomic.Int64
}

// MaxImportCost is the highest cost of a hash that is taken over from another
// program. One more doubles the time of a login, and of every failed one.
const MaxImportCost = 14

// Seen tells the Hasher of a stored hash, so that a comparison that fails always
// costs as much as one with the costliest hash there is, up to MaxImportCost.
func (h *Hasher) Seen(hash string) {
	s, ok := parse(hash)
	if !ok {
		return
	}
	cost := int64(min(s.cost, MaxImportCost))
	for {
		highest := h.highest.Load()
		if cost <= highest || h.highest.CompareAndSwap(highest, cost) {
			return
		}
	}
}

// workCost is the cost of a comparison that fails.
func (h *Hasher) workCost() int { return max(h.cost, int(h.highest.Load())) }

// New returns a Hasher. It computes nothing, so that a program serves at once.
func New(o Options) (*Hasher, error) {
	if o.Cost == 0 {
		o.Cost = DefaultCost
	}
	if o.Concurrency <= 0 {
		o.Concurrency = max(1, runtime.GOMAXPROCS(0)/2)
	}
	if o.Queue <= 0 {
		o.Queue = queuePerSlot * o.Concurrency
	}
	if o.Cost < bcrypt.MinCost || o.Cost > bcrypt.MaxCost {
		return nil, fmt.Errorf("bcrypt cost %d is not %d to %d", o.Cost, bcrypt.MinCost, bcrypt.MaxCost)
	}
	return &Hasher{cost: o.Cost, dummy: dummyTail(), gate: newGate(o.Concurrency, o.Queue)}, nil
}

// dummyTail is salt and hash of a password that does not exist, at random: bcrypt
// compares with it as with any other, at whatever cost is written before it.
func dummyTail() string {
	var random [16 + 23]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	return alphabet.EncodeToString(random[:16]) + alphabet.EncodeToString(random[16:])
}

// alphabet is bcrypt's base64.
var alphabet = base64.NewEncoding("./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789").WithPadding(base64.NoPadding)

// dummyHash is the hash that VerifyDummy compares with.
func (h *Hasher) dummyHash() string { return fmt.Sprintf("$2a$%02d$%s", h.workCost(), h.dummy) }

// Hash returns the hash to store for a password of any length. ErrBusy, or
// ctx's error when it ends before the password's turn.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	if err := h.gate.enter(ctx); err != nil {
		return "", err
	}
	defer h.gate.leave()
	return h.generate(password)
}

func (h *Hasher) generate(password string) (string, error) {
	scheme, input := "", []byte(password)
	if !exact(password) {
		scheme, input = longScheme, digest(password)
	}
	hash, err := bcrypt.GenerateFromPassword(input, h.cost)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	return scheme + string(hash), nil
}

// Verify returns nil when the password is the one of the stored hash, else
// ErrMismatch, also for a hash that is malformed. ErrBusy, or ctx's error when
// it ends before the password's turn.
func (h *Hasher) Verify(ctx context.Context, hash, password string) error {
	if err := h.gate.enter(ctx); err != nil {
		return err
	}
	defer h.gate.leave()
	return h.compare(hash, password)
}

// VerifyDummy does the work of Verify for a user who does not exist and never
// returns nil.
func (h *Hasher) VerifyDummy(ctx context.Context, password string) error {
	if err := h.Verify(ctx, h.dummyHash(), password); err != nil {
		return err
	}
	return ErrMismatch
}

func (h *Hasher) compare(hash, password string) error {
	h.Seen(hash)
	s, ok := parse(hash)
	if !ok {
		s, _ = parse(h.dummyHash())
	}
	input, possible := s.input(password)
	err := bcrypt.CompareHashAndPassword([]byte(s.hash), input)
	if err == nil && ok && possible {
		return nil
	}
	// A hash of lower cost took 2^(cost-c) times less: 1/4 + 1/4 + 1/2 = 1.
	for c, work := s.cost, h.workCost(); c < work; c++ {
		if _, err := bcrypt.GenerateFromPassword(nil, c); err != nil {
			return fmt.Errorf("equalize work: %w", err)
		}
	}
	return ErrMismatch
}

// NeedsRehash tells, of a password that Verify has just accepted, whether it
// should be hashed again: the cost was lower. A password that another program
// may have shortened stays as it is, because we cannot know the rest.
func (h *Hasher) NeedsRehash(hash, password string) bool {
	s, ok := parse(hash)
	if !ok || s.cost >= h.cost {
		return false
	}
	return !s.foreign || (exact(password) && len(password) < maxBcrypt)
}

// Stats is the load of a Hasher.
type Stats struct {
	Computing, Waiting int
	// Refused counts the ErrBusy since the start.
	Refused uint64
}

// Stats returns the present load.
func (h *Hasher) Stats() Stats { return h.gate.stats() }
