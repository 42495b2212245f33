package finality

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality/internal/bls"
	"github.com/pforte/pforte/pkg/receipt/finality/internal/ssz"
	"github.com/pforte/pforte/pkg/receipt/internal/evm"
)

// Trust is what the reader brings. Nothing of it but Header may come with the document.
type Trust struct {
	// Checkpoint is the root of a finalized beacon block that the reader has from a source
	// of their own.
	Checkpoint Root
	// MaxAge bounds Result.Age; 0 means DefaultMaxAge.
	MaxAge time.Duration
	// Network is the chain that the checkpoint is of. nil means the one that [NetworkOf]
	// returns for the document's chain; AnchorPinnedBlock, in which nothing is signed for one
	// network, then does not prove which chain that is.
	Network *Network
	// Header is the RLP of the block's header, as the proof of the receipt has it, or nil. It
	// shows Verify the number of the block, which LinkSame does not; VerifyBlock does not read
	// it. It may come from anywhere, because only the one with the block's hash is accepted.
	Header receipt.Hex
}

// DefaultMaxAge is below the weak subjectivity period of Ethereum, about 15.7 days:
// afterwards validators who have left can sign another history without a loss.
const DefaultMaxAge = 14 * 24 * time.Hour

// Verify checks that a finality document shows the block of a receipt to be final, and returns
// which of the receipt's facts that proves. It does not check the receipt itself, its signature and
// its proof; package receipt does. ErrOtherChain, ErrOtherBlock, and the errors of [VerifyBlock].
func Verify(r *receipt.Receipt, d *Document, t Trust) (*Result, error) {
	if d.Chain != r.Chain.ID {
		return nil, fmt.Errorf("%w: it is of %s, the receipt of %s", ErrOtherChain, d.Chain, r.Chain.ID)
	}
	number := strconv.FormatUint(uint64(d.Block.Number), 10)
	if number != r.Block.Number || d.Block.Hash.String() != r.Block.Hash {
		return nil, fmt.Errorf("%w: it is about block %s %s, the receipt about %s %s",
			ErrOtherBlock, number, d.Block.Hash, r.Block.Number, r.Block.Hash)
	}
	result, err := VerifyBlock(d, t)
	if err != nil {
		return nil, err
	}
	if len(t.Header) > 0 {
		header, err := evm.DecodeHeader(t.Header)
		if err != nil || Root(header.Hash) != d.Block.Hash || header.Number != uint64(d.Block.Number) {
			return nil, fmt.Errorf("%w: the header is not that of block %s %s", ErrOtherBlock, number, d.Block.Hash)
		}
		result.NumberShown = true
	}
	result.Proven = result.facts(r, t.Network != nil)
	return result, nil
}

// VerifyBlock checks that a document shows its block to be final. Result.Proven is empty.
// ErrMalformed, ErrNoNetwork, ErrOtherChain, ErrOtherCheckpoint, ErrCheckpointTooOld,
// ErrCommittee, ErrTooFewSigners, ErrSignature, ErrBranch, ErrLink.
func VerifyBlock(d *Document, t Trust) (*Result, error) {
	if err := d.validate(); err != nil {
		return nil, err
	}
	n := t.Network
	if n == nil {
		var ok bool
		if n, ok = NetworkOf(d.Chain); !ok {
			return nil, fmt.Errorf("%w: %s", ErrNoNetwork, d.Chain)
		}
	} else if err := n.validate(); err != nil {
		return nil, err
	}
	if d.Network != n.Name || d.Chain != n.ChainID {
		return nil, fmt.Errorf("%w: it is of %s (%s), not of %s (%s)", ErrOtherChain, d.Network, d.Chain, n.Name,
			n.ChainID)
	}
	a := &d.Anchor
	if a.Checkpoint.Root != t.Checkpoint {
		return nil, fmt.Errorf("%w: %s, not %s", ErrOtherCheckpoint, a.Checkpoint.Root, t.Checkpoint)
	}
	if err := n.VerifyCheckpoint(a.Checkpoint); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	result := &Result{
		Network: n.Name, Anchor: a.Kind, Link: d.Link.Kind, Block: d.Block,
		Checkpoint: t.Checkpoint, CheckpointSlot: a.Checkpoint.Header.Slot,
		CheckpointTime: n.timeOf(a.Checkpoint.Header.Slot),
		NumberShown:    d.Link.Kind != LinkSame, Proven: []receipt.Fact{},
	}
	finalized := a.Checkpoint.Header
	if a.Kind == AnchorSyncCommittee {
		if err := n.verifySteps(a, result); err != nil {
			return nil, err
		}
		finalized = a.Steps[len(a.Steps)-1].Finalized
		if err := n.verifyAge(result, finalized.Slot, t.MaxAge); err != nil {
			return nil, err
		}
	}
	result.FinalizedSlot = finalized.Slot
	if err := n.VerifyExecution(a.Execution, finalized); err != nil {
		return nil, err
	}
	number, err := d.Link.verify(a.Execution.BlockHash, d.Block)
	if err != nil {
		return nil, err
	}
	result.AnchorBlock = Block{Number: number, Hash: a.Execution.BlockHash}
	return result, nil
}

// VerifyCheckpoint checks that a checkpoint's header has its root and, where it names a committee,
// that this is in the header's state. The caller decides whether it trusts the root. ErrBranch.
func (n *Network) VerifyCheckpoint(c Checkpoint) error {
	if c.Header.HashTreeRoot() != c.Root {
		return fmt.Errorf("%w: the header does not have the root", ErrBranch)
	}
	if c.Committee != nil && !ssz.Leads(c.Header.StateRoot, *c.Committee, c.Branch,
		n.indices(c.Header.Slot).CurrentCommittee) {
		return fmt.Errorf("%w: the committee is not in the checkpoint's state", ErrBranch)
	}
	return nil
}

// verifySteps verifies each step, from the checkpoint's committee to the last one, and sets
// in result the periods and how many signed.
func (n *Network) verifySteps(a *Anchor, result *Result) error {
	period, committee := n.Period(uint64(a.Checkpoint.Header.Slot)), *a.Checkpoint.Committee
	result.FirstPeriod, result.CommitteeSize = Uint64(period), n.CommitteeSize
	result.LeastSigners = n.CommitteeSize
	for i := range a.Steps {
		s := &a.Steps[i]
		if err := n.VerifyStep(s, committee, period); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		result.LastPeriod = Uint64(period)
		result.LeastSigners = min(result.LeastSigners, s.Signers())
		if s.NextCommittee != nil {
			period, committee = period+1, *s.NextCommittee
		}
	}
	return nil
}

// VerifyStep checks that a step is signed by at least two thirds of the committee of a
// period, which the caller knows by its root; that what it calls final is in the state
// that was signed; and, where it names the next committee, that this is there too and
// final itself. ErrMalformed, ErrCommittee, ErrTooFewSigners, ErrSignature, ErrBranch.
func (n *Network) VerifyStep(s *Step, committee Root, period uint64) error {
	if err := s.validate(); err != nil {
		return err
	}
	if 8*len(s.Bits) != n.CommitteeSize {
		return malformed("%d bits for a committee of %d", 8*len(s.Bits), n.CommitteeSize)
	}
	attested, finalized := s.Attested, s.Finalized
	switch {
	case s.SignatureSlot <= attested.Slot || attested.Slot < finalized.Slot:
		return fmt.Errorf("%w: signed, attested and finalized slots are not in their order", ErrCommittee)
	case n.Period(uint64(s.SignatureSlot)) != period:
		return fmt.Errorf("%w: signed in period %d, not %d", ErrCommittee, n.Period(uint64(s.SignatureSlot)), period)
	case s.Signer.HashTreeRoot() != committee:
		return fmt.Errorf("%w: another committee than that of period %d", ErrCommittee, period)
	case 3*s.Signers() < 2*n.CommitteeSize:
		return fmt.Errorf("%w: %d of %d", ErrTooFewSigners, s.Signers(), n.CommitteeSize)
	}
	absent, err := s.absentKeys()
	if err != nil {
		return err
	}
	indices := n.indices(attested.Slot)
	if !ssz.Leads(attested.StateRoot, finalized.HashTreeRoot(), s.FinalityBranch, indices.Finalized) {
		return fmt.Errorf("%w: the finalized header is not in the signed state", ErrBranch)
	}
	if s.NextCommittee != nil {
		if !ssz.Leads(attested.StateRoot, *s.NextCommittee, s.NextBranch, indices.NextCommittee) {
			return fmt.Errorf("%w: the next committee is not in the signed state", ErrBranch)
		}
		// The attested header, which names the next committee, can be reverted. It is sure
		// once a header of the same period is final, which puts the attested one in it too.
		if n.Period(uint64(finalized.Slot)) != period {
			return fmt.Errorf("%w: the next committee is not final", ErrCommittee)
		}
	}
	message := n.SigningRoot(attested.HashTreeRoot(), uint64(s.SignatureSlot))
	err = bls.Verify(s.Signer.Aggregate, absent, message, s.Signature)
	if err == nil {
		return nil
	}
	if last := n.LastFork(); n.ForkAt(uint64(s.SignatureSlot)-1) == last && errors.Is(err, bls.ErrSignature) {
		return fmt.Errorf("%w: %w (this program knows forks up to %s; a later one needs a later program)", ErrSignature,
			err, last.Name)
	}
	return fmt.Errorf("%w: %w", ErrSignature, err)
}

// absentKeys returns the keys of the members that did not sign. ErrCommittee unless exactly these
// are listed, in ascending order; ErrBranch unless each is at its place in the committee.
func (s *Step) absentKeys() (keys [][bls.KeySize]byte, err error) {
	size, listed := 8*len(s.Bits), s.Signer.Absent
	for member := range size {
		if s.signed(member) {
			continue
		}
		if len(listed) == 0 || listed[0].Index != member {
			return nil, fmt.Errorf("%w: the absent keys are not those of the clear bits", ErrCommittee)
		}
		one := listed[0]
		if !ssz.Leads(s.Signer.KeysRoot, one.Key.HashTreeRoot(), one.Branch, uint64(size+member)) {
			return nil, fmt.Errorf("%w: the absent key %d is not the committee's", ErrBranch, member)
		}
		keys, listed = append(keys, one.Key), listed[1:]
	}
	if len(listed) > 0 {
		return nil, fmt.Errorf("%w: the absent keys are not those of the clear bits", ErrCommittee)
	}
	return keys, nil
}

// verifyAge sets result.Age, how far the checkpoint lies before the last finalized header,
// and returns ErrCheckpointTooOld if it is above limit. Whoever holds keys of the last
// committee can write any slot into that header, so the age reaches at least to the beginning
// of that committee's period.
func (n *Network) verifyAge(result *Result, finalized Uint64, limit time.Duration) error {
	if limit == 0 {
		limit = DefaultMaxAge
	}
	end := max(uint64(finalized), uint64(result.LastPeriod)*n.SlotsPerPeriod)
	slots := end - min(end, uint64(result.CheckpointSlot))
	const most = uint64(1<<63-1) / uint64(time.Second) // a time.Duration holds so many seconds
	if slots > most/n.SecondsPerSlot || time.Duration(slots*n.SecondsPerSlot)*time.Second > limit {
		return fmt.Errorf("%w: it lies %d slots of %d seconds before the finalized block, more than %s",
			ErrCheckpointTooOld, slots, n.SecondsPerSlot, limit)
	}
	result.Age = time.Duration(slots*n.SecondsPerSlot) * time.Second
	return nil
}

// VerifyExecution checks that an execution block's hash is in the body of a beacon block.
// ErrBranch.
func (n *Network) VerifyExecution(e Execution, header BeaconHeader) error {
	if !ssz.Leads(header.BodyRoot, e.BlockHash, e.Branch, n.indices(header.Slot).BlockHash) {
		return fmt.Errorf("%w: the execution block is not in the finalized block", ErrBranch)
	}
	return nil
}
