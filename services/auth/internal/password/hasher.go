package password

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"

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
}

// New returns a Hasher. It computes one hash, of a password that nobody knows,
// for VerifyDummy.
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
	h := &Hasher{cost: o.Cost, gate: newGate(o.Concurrency, o.Queue)}
	dummy, err := h.generate(rand.Text())
	if err != nil {
		return nil, err
	}
	h.dummy = dummy
	return h, nil
}

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
	if err := h.Verify(ctx, h.dummy, password); err != nil {
		return err
	}
	return ErrMismatch
}

func (h *Hasher) compare(hash, password string) error {
	s, ok := parse(hash)
	if !ok {
		s, _ = parse(h.dummy)
	}
	input, possible := s.input(password)
	err := bcrypt.CompareHashAndPassword([]byte(s.hash), input)
	if err == nil && ok && possible {
		return nil
	}
	// A hash of lower cost took 2^(cost-c) times less: 1/4 + 1/4 + 1/2 = 1.
	for c := s.cost; c < h.cost; c++ {
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
