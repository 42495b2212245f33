package interop

import (
	"context"
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/services/verifier/internal/translog"
)

// wantWitnessed checks that the log serves so many entries with so many cosignatures.
func (v *verifier) wantWitnessed(size int64, cosignatures int) {
	v.Helper()
	policy := must[receiptlog.Policy](v)(receiptlog.ParsePolicy(v.policy))
	got := must[receiptlog.Witnessed](v)(policy.Open(v.get(v.url + "checkpoint")))
	if got.Size != size || len(got.Cosignatures) != cosignatures {
		v.Errorf("%d entries that %d witnesses saw, want %d and %d", got.Size, len(got.Cosignatures), size, cosignatures)
	}
}

// wantFrozen checks that the log signs nothing any more, for a reason.
func (v *verifier) wantFrozen(why string) {
	v.Helper()
	err := v.log.Step(context.Background())
	head := must[[]translog.Head](v)(v.store.Heads(context.Background()))[0]
	if !errors.Is(err, translog.ErrFrozen) || head.Frozen != why {
		v.Errorf("the step returned %v, and the log is frozen: %q, want %q", err, head.Frozen, why)
	}
}

func TestLitewitness_CosignsOurLog(t *testing.T) {
	line := litewitness(t, "lw", ourLogKey(t))
	policy := line + ourWitness(t, "w0", ourLogKey(t)) + "group both all lw w0\nquorum both\n"
	v := openVerifier(t, policy)
	for _, size := range []int{1, 2, 255, 256, 700} {
		v.grow("entry", size)
		v.publish()
		v.wantWitnessed(int64(size), 2)
	}

	// 409 with a smaller size than ours: the ledger remembers another one than the witness.
	read := must[receiptlog.Policy](t)(receiptlog.ParsePolicy([]byte(policy)))
	if err := v.store.SetWitness(t.Context(), 1, read.Witnesses[0].Key.String(), 2); err != nil {
		t.Fatal(err)
	}
	v.grow("entry", 701)
	v.publish()
	v.wantWitnessed(701, 2)
	if size, err := v.store.WitnessSize(t.Context(), 1, read.Witnesses[0].Key.String()); err != nil || size != 701 {
		t.Errorf("the witness has %d entries by the ledger, %v", size, err)
	}

	t.Run("409 with a greater size", func(t *testing.T) {
		older := openVerifier(t, line+"quorum lw\n")
		older.grow("entry", 300)
		older.wantFrozen(translog.FrozenBehind)
	})
	t.Run("422 at the same size", func(t *testing.T) {
		fork := openVerifier(t, line+"quorum lw\n")
		fork.grow("other", 701)
		fork.wantFrozen(translog.FrozenFork)
	})
	t.Run("422 at a greater size", func(t *testing.T) {
		fork := openVerifier(t, line+"quorum lw\n")
		fork.grow("other", 800)
		fork.wantFrozen(translog.FrozenFork)
	})
	v.grow("entry", 702) // it has seen no other history
	v.publish()
	v.wantWitnessed(702, 2)
}

// A witness that does not know our log, or knows it with another key, is none of ours.
func TestLitewitness_RefusesAnUnknownLog(t *testing.T) {
	stranger := must[receiptlog.Key](t)(receiptlog.NewLogKey(origin, seeded("another log").Public().(ed25519.PublicKey)))
	for name, known := range map[string][]receiptlog.Key{"404": nil, "403": {stranger}} {
		t.Run(name, func(t *testing.T) {
			v := openVerifier(t, litewitness(t, "lw", known...)+"quorum lw\n")
			v.grow("entry", 5)
			if err := v.log.Step(t.Context()); err == nil || errors.Is(err, translog.ErrFrozen) {
				t.Errorf("the step returned %v", err)
			}
		})
	}
}
