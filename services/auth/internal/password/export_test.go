package password

import (
	"context"

	"golang.org/x/crypto/bcrypt"
)

// Occupy takes one slot, as a comparison does, until release is called.
func (h *Hasher) Occupy(ctx context.Context) (release func(), err error) {
	return h.gate.release, h.gate.acquire(ctx)
}

// Dummy is the hash that VerifyDummy compares with.
func (h *Hasher) Dummy() string { return h.dummyHash() }

// Work is what a Hasher without concurrent callers has computed.
type Work struct {
	Compared []string // bcrypt's inputs
	Rounds   int      // of bcrypt: 2^cost for each input, and each hash that equalizes
}

// CountWork has the hasher count from now on.
func (h *Hasher) CountWork() *Work {
	w := &Work{}
	h.match = func(hash, password []byte) error {
		cost, err := bcrypt.Cost(hash)
		if err != nil {
			return err
		}
		w.Compared = append(w.Compared, string(password))
		w.Rounds += 1 << cost
		return bcrypt.CompareHashAndPassword(hash, password)
	}
	h.generate = func(password []byte, cost int) ([]byte, error) {
		w.Rounds += 1 << cost
		return bcrypt.GenerateFromPassword(password, cost)
	}
	return w
}

// Digest is bcrypt's input for a password that is not exact.
func Digest(password string) string { return string(digest(password)) }

// Forms are the forms of a password that Verify compares.
var Forms = forms
