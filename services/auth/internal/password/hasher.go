package password

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"

	"github.com/pforte/pforte/pkg/tracing"
)

// Lengths of a new password in code points (AUTH-7.2), as normalize returns it. Check also refuses
// one of more than MaxLength as it was sent.
const (
	MinLength = 8
	MaxLength = 1024
)

// Errors of Check.
var (
	ErrTooShort = errors.New("password has fewer than 8 characters")
	ErrTooLong  = errors.New("password has more than 1024 characters")
)

// Check returns ErrTooShort, ErrTooLong or nil for a password to set.
func Check(password string) error {
	if utf8.RuneCountInString(password) > MaxLength {
		return ErrTooLong
	}
	switch n := utf8.RuneCountInString(normalize(password)); {
	case n < MinLength:
		return ErrTooShort
	case n > MaxLength:
		return ErrTooLong
	default:
		return nil
	}
}

// DefaultCost is the bcrypt cost of new hashes (AUTH-8.1).
const DefaultCost = 12

// queuePerSlot sets the default queue: at 0.2 s for a comparison the last caller
// waits a little more than a second. In a longer one clients would give up before
// their turn, while others who could be told at once to retry wait behind them.
const queuePerSlot = 6

// maxWait bounds how long a caller waits in the queue.
const maxWait = 4 * time.Second

// Errors of a Hasher, beside those of a context.
var (
	// ErrMismatch is returned for a password that is not the hash's.
	ErrMismatch = errors.New("password does not match")
	// ErrBusy is returned when the queue is full or was too slow; a retry in a few
	// seconds may succeed.
	ErrBusy = errors.New("queue of password comparisons is full")
)

// Options configure a Hasher; zero values mean the defaults.
type Options struct {
	Cost int // of new hashes, 4 (for tests) to 31; default DefaultCost
	// Concurrency is how many hashes are computed at a time; by default half of
	// GOMAXPROCS, at least one. A hash occupies one of Go's processors for long; the
	// other half is for requests without a password. cmd/auth sets GOMAXPROCS to
	// twice the machine's, so that passwords may still use all of them.
	Concurrency int
	Queue       int // how many more may wait; default 6 for each that computes
}

// Hasher computes and compares hashes, a bounded number at a time. It is safe
// for concurrent use.
type Hasher struct {
	cost  int
	dummy string
	gate  gate
	// highest is the highest cost of a hash seen, at most MaxImportCost.
	highest atomic.Int64
	// match and generate are bcrypt's functions; tests count their calls.
	match    func(hash, password []byte) error
	generate func(password []byte, cost int) ([]byte, error)
}

// MaxImportCost is the highest cost of a hash imported from another program. One more
// doubles the time of every failed login.
const MaxImportCost = 14

// Seen records the cost of a stored hash, so that a comparison that fails costs as much as
// one with the costliest hash, up to MaxImportCost. A malformed hash is ignored.
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

// WorkCost returns the least cost of a comparison that fails.
func (h *Hasher) WorkCost() int { return max(h.cost, int(h.highest.Load())) }

// New returns a Hasher. It computes no hash, so that a program starts at once.
func New(o Options) (*Hasher, error) {
	o.Cost = cmp.Or(o.Cost, DefaultCost)
	if o.Concurrency <= 0 {
		o.Concurrency = max(1, runtime.GOMAXPROCS(0)/2)
	}
	if o.Queue <= 0 {
		o.Queue = queuePerSlot * o.Concurrency
	}
	if o.Cost < bcrypt.MinCost || o.Cost > bcrypt.MaxCost {
		return nil, fmt.Errorf("bcrypt cost %d is not %d to %d", o.Cost, bcrypt.MinCost, bcrypt.MaxCost)
	}
	return &Hasher{
		cost: o.Cost, dummy: dummyTail(), gate: gate{slots: o.Concurrency, queue: o.Queue},
		match: bcrypt.CompareHashAndPassword, generate: bcrypt.GenerateFromPassword,
	}, nil
}

// dummyTail returns a random salt and hash for dummyHash to write a cost before. bcrypt
// compares with them as with any other.
func dummyTail() string {
	var random [16 + 23]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	return alphabet.EncodeToString(random[:16]) + alphabet.EncodeToString(random[16:])
}

// alphabet is bcrypt's base64.
var alphabet = base64.NewEncoding("./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789").WithPadding(
	base64.NoPadding)

// dummyHash returns the hash that VerifyDummy compares with.
func (h *Hasher) dummyHash() string { return fmt.Sprintf("$2a$%02d$%s", h.WorkCost(), h.dummy) }

// Hash returns the hash to store for a password of any length, normalized. ErrBusy,
// or ctx's error when it is cancelled in the queue.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	password = normalize(password)
	scheme, input := "", []byte(password)
	if !exact(password) {
		scheme, input = longScheme, digest(password)
	}
	var hash []byte
	err := h.compute(ctx, func() (err error) {
		if hash, err = h.generate(input, h.cost); err != nil {
			return fmt.Errorf("hash password: %w", err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return scheme + string(hash), nil
}

// Verify returns nil when a form of the password matches the stored hash, else
// ErrMismatch, also for a malformed hash. ErrBusy, or ctx's error when it is cancelled in
// the queue. The forms are compared one after the other in one slot.
//
// rehash reports whether the password that matched should be hashed again, because the
// cost was lower or the form was not NFC. One that another program may have shortened
// stays as it is, because its end was not verified.
func (h *Hasher) Verify(ctx context.Context, hash, password string) (rehash bool, err error) {
	err = h.compute(ctx, func() error {
		for i, form := range forms(password) {
			s, err := h.compare(hash, form)
			if err == nil {
				rehash = (s.cost < h.cost || i > 0) && (!s.foreign || exact(form) && len(form) < maxBcrypt)
				return nil
			}
			if !errors.Is(err, ErrMismatch) {
				return err
			}
		}
		return ErrMismatch
	})
	return rehash, err
}

// VerifyDummy does the work of Verify for an unknown user and never returns nil.
func (h *Hasher) VerifyDummy(ctx context.Context, password string) error {
	if _, err := h.Verify(ctx, h.dummyHash(), password); err != nil {
		return err
	}
	return ErrMismatch
}

// compute calls do while it holds a slot. ErrBusy, ctx's error, and those of do.
func (h *Hasher) compute(ctx context.Context, do func() error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	ctx, span := tracing.Step(ctx, "password", "compute")
	defer func() {
		if errors.Is(err, ErrMismatch) {
			span.End("")
		} else {
			span.End(tracing.Failed(err))
		}
	}()
	if err := h.gate.acquire(ctx); errors.Is(err, context.DeadlineExceeded) {
		return ErrBusy
	} else if err != nil {
		return err
	}
	defer h.gate.release()
	return do()
}

// compare compares one form of a password with a stored hash, which it returns parsed. ErrMismatch.
func (h *Hasher) compare(hash, form string) (stored, error) {
	h.Seen(hash)
	s, ok := parse(hash)
	if !ok {
		s, _ = parse(h.dummyHash())
	}
	input, possible := s.input(form)
	err := h.match([]byte(s.hash), input)
	if err == nil && ok && possible {
		return s, nil
	}
	// A hash of a lower cost c took 2^(work-c) times less. One more hash of each cost from c to work-1 makes up for
	// it: where c is work-2, 1/4 + 1/4 + 1/2 = 1.
	for c, work := s.cost, h.WorkCost(); c < work; c++ {
		if _, err := h.generate(nil, c); err != nil {
			return s, fmt.Errorf("equalize work: %w", err)
		}
	}
	return s, ErrMismatch
}

// Stats is the load of a Hasher.
type Stats struct {
	Computing, Waiting int
	Refused            uint64 // by a full queue, since the start
}

// Stats returns the current load.
func (h *Hasher) Stats() Stats { return h.gate.stats() }
