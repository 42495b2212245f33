// Package lightclient reads what a beacon node tells light clients (beacon-APIs,
// types/*/light_client.yaml, as JSON) and makes of it the parts of a finality document,
// which are much smaller: a step needs neither the execution payload header nor the keys of
// those who signed. It checks forms, and that an execution block is in its beacon block;
// package finality verifies the rest.
package lightclient

import (
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/internal/ssz"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
)

// ErrMalformed is an answer of a beacon node that is not what the API describes.
var ErrMalformed = errors.New("malformed light client data")

// Versioned is an answer of the beacon API, or an element of one: an object, and the name
// of the fork whose form it has.
type Versioned[T any] struct {
	Version string `json:"version"`
	Data    T      `json:"data"`
}

// Bootstrap is LightClientBootstrap, the data of an answer of /light_client/bootstrap/{root}.
type Bootstrap struct {
	Header                     Header          `json:"header"`
	CurrentSyncCommittee       SyncCommittee   `json:"current_sync_committee"`
	CurrentSyncCommitteeBranch []finality.Root `json:"current_sync_committee_branch"`
}

// Update is LightClientUpdate, one of those that /light_client/updates answers with, or,
// without the next committee, LightClientFinalityUpdate.
type Update struct {
	AttestedHeader          Header          `json:"attested_header"`
	NextSyncCommittee       *SyncCommittee  `json:"next_sync_committee,omitempty"`
	NextSyncCommitteeBranch []finality.Root `json:"next_sync_committee_branch,omitempty"`
	FinalizedHeader         Header          `json:"finalized_header"`
	FinalityBranch          []finality.Root `json:"finality_branch"`
	SyncAggregate           SyncAggregate   `json:"sync_aggregate"`
	SignatureSlot           finality.Uint64 `json:"signature_slot"`
}

// SyncAggregate is who signed, and the signature.
type SyncAggregate struct {
	Bits      receipt.Hex        `json:"sync_committee_bits"`
	Signature finality.Signature `json:"sync_committee_signature"`
}

// Header is LightClientHeader. Execution is nil in the forms before Capella and from Gloas
// on; ExecutionBlockHash is nil in the forms before Gloas.
type Header struct {
	Beacon             BeaconHeader            `json:"beacon"`
	Execution          *ExecutionPayloadHeader `json:"execution,omitempty"`
	ExecutionBlockHash *finality.Root          `json:"execution_block_hash,omitempty"`
	ExecutionBranch    []finality.Root         `json:"execution_branch,omitempty"`
}

// BeaconHeader is [finality.BeaconHeader] with the names of the beacon API; each converts to the other.
type BeaconHeader struct {
	Slot          finality.Uint64 `json:"slot"`
	ProposerIndex finality.Uint64 `json:"proposer_index"`
	ParentRoot    finality.Root   `json:"parent_root"`
	StateRoot     finality.Root   `json:"state_root"`
	BodyRoot      finality.Root   `json:"body_root"`
}

// HashTreeRoot returns the root that names the block.
func (h BeaconHeader) HashTreeRoot() finality.Root { return finality.BeaconHeader(h).HashTreeRoot() }

// ExecutionPayloadHeader is the execution block as the beacon chain knows it, from Capella
// to Fulu.
type ExecutionPayloadHeader struct {
	ParentHash       finality.Root    `json:"parent_hash"`
	FeeRecipient     receipt.Hex      `json:"fee_recipient"` // 20 bytes
	StateRoot        finality.Root    `json:"state_root"`
	ReceiptsRoot     finality.Root    `json:"receipts_root"`
	LogsBloom        receipt.Hex      `json:"logs_bloom"` // 256 bytes
	PrevRandao       finality.Root    `json:"prev_randao"`
	BlockNumber      finality.Uint64  `json:"block_number"`
	GasLimit         finality.Uint64  `json:"gas_limit"`
	GasUsed          finality.Uint64  `json:"gas_used"`
	Timestamp        finality.Uint64  `json:"timestamp"`
	ExtraData        receipt.Hex      `json:"extra_data"` // at most 32 bytes
	BaseFeePerGas    Uint256          `json:"base_fee_per_gas"`
	BlockHash        finality.Root    `json:"block_hash"`
	TransactionsRoot finality.Root    `json:"transactions_root"`
	WithdrawalsRoot  finality.Root    `json:"withdrawals_root"`
	BlobGasUsed      *finality.Uint64 `json:"blob_gas_used,omitempty"`   // from Deneb on
	ExcessBlobGas    *finality.Uint64 `json:"excess_blob_gas,omitempty"` // from Deneb on
}

// blockHashField is the place, from 0, of BlockHash among the members of ExecutionPayloadHeader.
const blockHashField = 12

// tree returns the rows of the tree over the members, as ssz.Tree does. ErrMalformed.
func (p *ExecutionPayloadHeader) tree() ([][]finality.Root, error) {
	if len(p.FeeRecipient) != 20 || len(p.LogsBloom) != 256 || len(p.ExtraData) > 32 ||
		(p.BlobGasUsed == nil) != (p.ExcessBlobGas == nil) {
		return nil, fmt.Errorf("%w: execution payload header", ErrMalformed)
	}
	number := func(n finality.Uint64) finality.Root { return ssz.Uint64[finality.Root](uint64(n)) }
	var recipient, extra finality.Root
	copy(recipient[:], p.FeeRecipient)
	copy(extra[:], p.ExtraData)
	leaves := []finality.Root{
		p.ParentHash, recipient, p.StateRoot, p.ReceiptsRoot, ssz.Merkleize(ssz.Chunks[finality.Root](p.LogsBloom)),
		p.PrevRandao,
		number(p.BlockNumber), number(p.GasLimit), number(p.GasUsed), number(p.Timestamp),
		ssz.Hash(extra, number(finality.Uint64(len(p.ExtraData)))), finality.Root(p.BaseFeePerGas), p.BlockHash,
		p.TransactionsRoot, p.WithdrawalsRoot,
	}
	if p.BlobGasUsed != nil {
		leaves = append(leaves, number(*p.BlobGasUsed), number(*p.ExcessBlobGas))
	}
	return ssz.Tree(leaves), nil
}

// HashTreeRoot returns the payload's leaf in the body. ErrMalformed.
func (p *ExecutionPayloadHeader) HashTreeRoot() (finality.Root, error) {
	rows, err := p.tree()
	if err != nil {
		return finality.Root{}, err
	}
	return rows[len(rows)-1][0], nil
}

// Uint256 is a number as SSZ has it, little endian; in JSON it is a decimal string.
type Uint256 [32]byte

// MarshalText returns decimal digits.
func (u Uint256) MarshalText() ([]byte, error) {
	slices.Reverse(u[:])
	return new(big.Int).SetBytes(u[:]).Append(nil, 10), nil
}

// UnmarshalText reads a decimal number of at most 256 bits. ErrMalformed.
func (u *Uint256) UnmarshalText(text []byte) error {
	const most = 78 // digits of 2^256-1
	n, ok := new(big.Int).SetString(string(text), 10)
	if !ok || len(text) > most || n.Sign() < 0 || n.BitLen() > 8*len(u) {
		return fmt.Errorf("%w: not a number of 256 bits", ErrMalformed)
	}
	n.FillBytes(u[:])
	slices.Reverse(u[:])
	return nil
}

// SyncCommittee is the keys of a committee's members and their sum.
type SyncCommittee struct {
	Pubkeys         []finality.PublicKey `json:"pubkeys"`
	AggregatePubkey finality.PublicKey   `json:"aggregate_pubkey"`
}

func (c *SyncCommittee) keyRoots() []finality.Root {
	leaves := make([]finality.Root, len(c.Pubkeys))
	for i, key := range c.Pubkeys {
		leaves[i] = key.HashTreeRoot()
	}
	return leaves
}

// HashTreeRoot returns the root that names the committee.
func (c *SyncCommittee) HashTreeRoot() finality.Root {
	return finality.Signer{KeysRoot: ssz.Merkleize(c.keyRoots()), Aggregate: c.AggregatePubkey}.HashTreeRoot()
}

// ParseBootstrap reads the answer of /eth/v1/beacon/light_client/bootstrap/{root}. ErrMalformed.
func ParseBootstrap(data []byte) (*Bootstrap, error) { return parse[Bootstrap](data) }

// ParseFinalityUpdate reads the answer of /eth/v1/beacon/light_client/finality_update. ErrMalformed.
func ParseFinalityUpdate(data []byte) (*Update, error) { return parse[Update](data) }

func parse[T any](data []byte) (*T, error) {
	var answer Versioned[*T]
	if err := read(data, &answer); err != nil {
		return nil, err
	}
	if answer.Data == nil {
		return nil, fmt.Errorf("%w: no data", ErrMalformed)
	}
	return answer.Data, nil
}

// ParseUpdates reads the answer of /eth/v1/beacon/light_client/updates, a list. ErrMalformed.
func ParseUpdates(data []byte) ([]*Update, error) {
	var answer []Versioned[*Update]
	if err := read(data, &answer); err != nil {
		return nil, err
	}
	updates := make([]*Update, len(answer))
	for i, one := range answer {
		if updates[i] = one.Data; one.Data == nil {
			return nil, fmt.Errorf("%w: no data", ErrMalformed)
		}
	}
	return updates, nil
}

// read reads JSON of a beacon node, which may have members that are not read here.
func read(data []byte, into any) error {
	if err := strictjson.Unmarshal(data, into, strictjson.Rules{AllowUnknown: true, AllowNull: true}); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// NewCheckpoint returns the checkpoint of an anchor that begins at a bootstrap's header.
func NewCheckpoint(b *Bootstrap) finality.Checkpoint {
	committee := b.CurrentSyncCommittee.HashTreeRoot()
	return finality.Checkpoint{
		Root: b.Header.Beacon.HashTreeRoot(), Header: finality.BeaconHeader(b.Header.Beacon),
		Committee: &committee, Branch: b.CurrentSyncCommitteeBranch,
	}
}

// NewStep returns what an update shows, as signed by the committee of the period of its
// signature slot. It hands over to the next committee where the update has it; see
// [finality.Step.WithoutNext]. ErrMalformed.
func NewStep(signer *SyncCommittee, u *Update) (finality.Step, error) {
	members := len(signer.Pubkeys)
	if members == 0 || len(u.SyncAggregate.Bits)*8 != members {
		return finality.Step{}, fmt.Errorf("%w: %d bits for a committee of %d", ErrMalformed,
			len(u.SyncAggregate.Bits)*8, members)
	}
	if (u.NextSyncCommittee == nil) != (len(u.NextSyncCommitteeBranch) == 0) {
		return finality.Step{}, fmt.Errorf("%w: a committee without its branch, or a branch without its committee",
			ErrMalformed)
	}
	rows := ssz.Tree(signer.keyRoots())
	s := finality.Step{
		Attested: finality.BeaconHeader(u.AttestedHeader.Beacon), SignatureSlot: u.SignatureSlot,
		Bits: u.SyncAggregate.Bits, Signature: u.SyncAggregate.Signature,
		Signer: finality.Signer{
			Aggregate: signer.AggregatePubkey, KeysRoot: rows[len(rows)-1][0], Absent: []finality.AbsentKey{},
		},
		Finalized: finality.BeaconHeader(u.FinalizedHeader.Beacon), FinalityBranch: u.FinalityBranch,
	}
	for i, key := range signer.Pubkeys {
		if s.Bits[i/8]>>(i%8)&1 == 0 {
			s.Signer.Absent = append(s.Signer.Absent,
				finality.AbsentKey{Index: i, Key: key, Branch: ssz.Branch(rows, i)})
		}
	}
	if u.NextSyncCommittee != nil {
		next := u.NextSyncCommittee.HashTreeRoot()
		s.NextCommittee, s.NextBranch = &next, u.NextSyncCommitteeBranch
	}
	return s, nil
}

// NewExecution returns the proof of the execution block in a header's beacon block. The
// members of h.Execution, if it has one, are checked against the body, so that its number
// is the block's. From Gloas on the proof is of the parent's execution block. ErrMalformed.
func NewExecution(h Header) (finality.Execution, error) {
	if h.ExecutionBlockHash != nil && h.Execution == nil {
		return normalized(h)
	}
	if h.Execution == nil {
		return finality.Execution{}, fmt.Errorf("%w: the header has no execution block", ErrMalformed)
	}
	rows, err := h.Execution.tree()
	if err != nil {
		return finality.Execution{}, err
	}
	if !ssz.Leads(h.Beacon.BodyRoot, rows[len(rows)-1][0], h.ExecutionBranch, ssz.Payload) {
		return finality.Execution{}, fmt.Errorf("%w: the execution payload header is not in the beacon block",
			ErrMalformed)
	}
	return finality.Execution{
		BlockHash: h.Execution.BlockHash,
		Branch:    append(ssz.Branch(rows, blockHashField), h.ExecutionBranch...),
	}, nil
}

// normalized does what NewExecution does for a header in the form of Gloas. A header of an
// earlier fork may have that form too, with zeros in front of its shorter branch
// (consensus-specs, gloas/light-client/fork.md).
func normalized(h Header) (finality.Execution, error) {
	for _, fork := range []string{"gloas", "deneb", "capella"} { // Electra and Fulu are as Deneb
		indices, _ := ssz.IndicesOf(fork)
		zeros := len(h.ExecutionBranch) - ssz.Depth(indices.BlockHash)
		if zeros < 0 || slices.ContainsFunc(h.ExecutionBranch[:zeros],
			func(r finality.Root) bool { return r != finality.Root{} }) {
			continue
		}
		if branch := h.ExecutionBranch[zeros:]; ssz.Leads(h.Beacon.BodyRoot, *h.ExecutionBlockHash, branch,
			indices.BlockHash) {
			return finality.Execution{BlockHash: *h.ExecutionBlockHash, Branch: branch}, nil
		}
	}
	return finality.Execution{}, fmt.Errorf("%w: the execution block's hash is not in the beacon block", ErrMalformed)
}
