package password

import "context"

// Occupy takes one slot, as a comparison does, until release is called.
func (h *Hasher) Occupy(ctx context.Context) (release func(), err error) {
	return h.gate.release, h.gate.acquire(ctx)
}

// Dummy is the hash that VerifyDummy compares with.
func (h *Hasher) Dummy() string { return h.dummyHash() }
