package finality

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
)

// Result is what a document shows to those who trust its checkpoint.
type Result struct {
	// Proven are the facts and checks of the receipt that the document proves, as
	// [receipt.VerifyProof] lists those of its proof; empty without a receipt.
	Proven []receipt.Fact `json:"proven"`

	Network        string `json:"network"`
	Anchor         string `json:"anchor"` // AnchorSyncCommittee or AnchorPinnedBlock
	Link           string `json:"link"`   // LinkSame, LinkHeaders or LinkHistory
	Checkpoint     Root   `json:"checkpoint"`
	CheckpointSlot Uint64 `json:"checkpointSlot"`
	// CheckpointTime is when that slot began; zero where GenesisTime is not known or the year
	// is beyond 9999.
	CheckpointTime time.Time `json:"checkpointTime,omitzero"`
	// FinalizedSlot is the slot of the final beacon block whose body has AnchorBlock. For
	// AnchorPinnedBlock it is CheckpointSlot.
	FinalizedSlot Uint64 `json:"finalizedSlot"`
	// Age is how far the checkpoint lies before the finalized block, or before the last
	// committee's period if that begins later. For AnchorPinnedBlock it is 0.
	Age time.Duration `json:"-"`
	// Block is the document's block. NumberShown reports whether its number is proven too,
	// not only its hash: with LinkSame only [Trust.Header] proves it.
	Block       Block `json:"block"`
	NumberShown bool  `json:"numberShown"`
	AnchorBlock Block `json:"anchorBlock"`

	// The next four are 0 for AnchorPinnedBlock. FirstPeriod and LastPeriod are the periods of
	// the first and the last committee; LeastSigners is how many signed the step that the
	// fewest signed.
	FirstPeriod   Uint64 `json:"firstPeriod"`
	LastPeriod    Uint64 `json:"lastPeriod"`
	LeastSigners  int    `json:"leastSigners"`
	CommitteeSize int    `json:"committeeSize"`
}

// MarshalJSON returns the fields, and Age as ageSeconds.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	return json.Marshal(struct {
		plain
		AgeSeconds int64 `json:"ageSeconds"`
	}{plain(r), int64(r.Age / time.Second)})
}

// Confirmations returns how many blocks there are from the document's block to the anchor's,
// both included. The chain may have more.
func (r *Result) Confirmations() uint64 {
	return uint64(r.AnchorBlock.Number) - uint64(r.Block.Number) + 1
}

// facts returns the facts and checks of a receipt about this block that are proven. named
// reports whether the reader said of which network the checkpoint is.
func (r *Result) facts(about *receipt.Receipt, named bool) []receipt.Fact {
	final := "the block that a sync committee signed as final"
	if r.Anchor == AnchorPinnedBlock {
		final = "the block of your checkpoint"
	}
	if r.Link != LinkSame {
		final = "an ancestor of " + final
	}
	list := []receipt.Fact{{Field: "finality.tag", Value: about.Finality.Tag, How: final}}
	if r.NumberShown { // the check is of the block at its height
		list = append(list, receipt.Fact{
			Field: "checks." + receipt.CheckCanonicalBlock, Value: receipt.Pass, How: final,
		})
	}
	if named || r.Anchor == AnchorSyncCommittee { // whose signatures cover the network
		list = slices.Insert(list, 0, receipt.Fact{
			Field: "chain.id", Value: about.Chain.ID, How: "the network of your checkpoint",
		})
	}
	if least := about.Request.Expectations.MinConfirmations; least > 0 && uint64(least) <= r.Confirmations() {
		how := "this block is final"
		if r.NumberShown {
			how = fmt.Sprintf("%d blocks are final, from this one to %d", r.Confirmations(), r.AnchorBlock.Number)
		}
		list = append(list, receipt.Fact{
			Field: "checks." + receipt.CheckMinConfirmations, Value: receipt.Pass, How: how,
		})
	}
	return list
}

// Sentences returns what the result rests on, for people.
func (r *Result) Sentences() []string {
	of := ""
	if !r.CheckpointTime.IsZero() {
		of = " of " + r.CheckpointTime.Format("2 January 2006, 15:04 UTC")
	}
	list := []string{fmt.Sprintf("proven from your checkpoint %s (slot %d%s)", r.Checkpoint, r.CheckpointSlot, of)}
	switch periods := r.LastPeriod - r.FirstPeriod; {
	case r.Anchor == AnchorPinnedBlock:
		list = append(list, "which is itself the finalized block: no sync committee is needed")
	case periods == 0:
		list = append(list, fmt.Sprintf("by 1 sync committee (period %d); %d of %d signed", r.FirstPeriod,
			r.LeastSigners, r.CommitteeSize))
	default:
		between := "to"
		if periods == 1 {
			between = "and"
		}
		list = append(list, fmt.Sprintf("by %d sync committees (periods %d %s %d); the least signed step had %d of %d",
			periods+1, r.FirstPeriod, between, r.LastPeriod, r.LeastSigners, r.CommitteeSize))
	}
	switch {
	case !r.NumberShown:
		list = append(list, fmt.Sprintf("the block %s is the finalized block; that its number is %d is not shown",
			r.Block.Hash, r.Block.Number))
	case r.Link == LinkSame:
		list = append(list, fmt.Sprintf("block %d is the finalized block", r.Block.Number))
	default:
		by := "the chain's own record of block hashes"
		if r.Link == LinkHeaders {
			by = "the headers between them"
		}
		list = append(list, fmt.Sprintf("block %d is an ancestor of the finalized block %d, by %s",
			r.Block.Number, r.AnchorBlock.Number, by))
	}
	if r.Age > DefaultMaxAge {
		list = append(list,
			fmt.Sprintf("The checkpoint lies %d days before it, more than %d: validators who left since can sign "+
				"another history without a loss.",
				r.Age/(24*time.Hour), DefaultMaxAge/(24*time.Hour)))
	}
	if r.Anchor == AnchorSyncCommittee {
		list = append(list, "A sync committee is a random sample of the validators and is not punished for lying.")
	}
	return list
}

// Warning returns a sentence for people if sync committees signed and CheckpointTime is known and
// more than DefaultMaxAge before now; else "". VerifyBlock, which has no clock, cannot tell this.
func (r *Result) Warning(now time.Time) string {
	age := now.Sub(r.CheckpointTime)
	if r.CheckpointTime.IsZero() || r.Anchor != AnchorSyncCommittee || age <= DefaultMaxAge {
		return ""
	}
	return fmt.Sprintf("The checkpoint is of %d days ago, more than %d: it counts only if you have had it since then, "+
		"because validators who left can sign another history without a loss.", age/(24*time.Hour),
		DefaultMaxAge/(24*time.Hour))
}
