package finality

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality/internal/bls"
	"github.com/pforte/pforte/pkg/receipt/finality/internal/ssz"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
)

// Fixed values of the format.
const (
	MediaType = "application/vnd.chain-evidence.finality.v1+json"
	Type      = "chain-evidence-finality"
	Version   = 1
)

// Bounds of a document.
const (
	MaxSize    = 256 << 10 // bytes of JSON
	MaxSteps   = 64
	MaxHeaders = 64
	maxNodes   = 64  // of a trie proof
	maxMembers = 512 // of a sync committee
	maxName    = 64  // bytes of a network's name
)

// Kinds of anchors: why an execution block is final.
const (
	AnchorSyncCommittee = "sync-committee" // signed by sync committees, from the checkpoint on
	AnchorPinnedBlock   = "pinned-block"   // in the checkpoint's own beacon block
)

// Kinds of links: how the document's block is tied to the anchor's.
const (
	LinkSame    = "same"    // it is the anchor's block
	LinkHeaders = "headers" // by the headers between them
	LinkHistory = "history" // by the chain's record of block hashes (EIP-2935)
)

// Document is a finality document, in the form of its JSON.
type Document struct {
	Type    string `json:"type"`    // always Type
	Version int    `json:"version"` // always Version
	Chain   string `json:"chain"`   // CAIP-2, such as eip155:1
	Network string `json:"network"` // Name of the Network
	Block   Block  `json:"block"`   // the one that is shown to be final
	Anchor  Anchor `json:"anchor"`
	Link    Link   `json:"link"`
}

// Block is an execution block.
type Block struct {
	Number Uint64 `json:"number"`
	Hash   Root   `json:"hash"` // Keccak-256 of the header
}

// Anchor shows that an execution block is final, to those who trust the checkpoint.
type Anchor struct {
	Kind       string     `json:"kind"` // AnchorSyncCommittee or AnchorPinnedBlock
	Checkpoint Checkpoint `json:"checkpoint"`
	// Steps are there for AnchorSyncCommittee: one for each committee, from the
	// checkpoint's on.
	Steps []Step `json:"steps,omitempty"`
	// Execution is in the body of the last step's finalized block, or for AnchorPinnedBlock of
	// the checkpoint's block.
	Execution Execution `json:"execution"`
}

// Checkpoint is the beacon block that a reader must have pinned.
type Checkpoint struct {
	Root   Root         `json:"root"` // hash-tree-root of Header
	Header BeaconHeader `json:"header"`
	// Committee is the root of the sync committee of the header's period, and Branch
	// its place in the header's state. Both are absent for AnchorPinnedBlock.
	Committee *Root  `json:"committee,omitempty"`
	Branch    []Root `json:"branch,omitempty"`
}

// BeaconHeader is BeaconBlockHeader of the consensus specifications.
type BeaconHeader struct {
	Slot          Uint64 `json:"slot"`
	ProposerIndex Uint64 `json:"proposerIndex"`
	ParentRoot    Root   `json:"parentRoot"`
	StateRoot     Root   `json:"stateRoot"`
	BodyRoot      Root   `json:"bodyRoot"`
}

// HashTreeRoot returns the root that names the block.
func (h BeaconHeader) HashTreeRoot() Root {
	return ssz.Merkleize([]Root{
		ssz.Uint64[Root](uint64(h.Slot)), ssz.Uint64[Root](uint64(h.ProposerIndex)), h.ParentRoot, h.StateRoot,
		h.BodyRoot,
	})
}

// Step is what a sync committee signed: a header whose state calls another one final.
type Step struct {
	Attested BeaconHeader `json:"attested"`
	// SignatureSlot is the slot of the signature. The committee does not sign it: it only
	// picks the committee's period and the fork, so within both it is not proven.
	SignatureSlot Uint64       `json:"signatureSlot"`
	Bits          receipt.Hex  `json:"bits"`      // who signed; one bit for each member, the lowest first
	Signature     Signature    `json:"signature"` // over Attested
	Signer        Signer       `json:"signer"`
	Finalized     BeaconHeader `json:"finalized"`
	// FinalityBranch is the place of Finalized in the state of Attested.
	FinalityBranch []Root `json:"finalityBranch"`
	// NextCommittee signs in the next period, and NextBranch is its place in the state of
	// Attested. Both are absent in the last step of an anchor.
	NextCommittee *Root  `json:"nextCommittee,omitempty"`
	NextBranch    []Root `json:"nextBranch,omitempty"`
}

// Signers returns how many members signed.
func (s *Step) Signers() (n int) {
	for _, b := range s.Bits {
		n += bits.OnesCount8(b)
	}
	return n
}

// WithoutNext returns the step as the last one of an anchor.
func (s *Step) WithoutNext() Step {
	last := *s
	last.NextCommittee, last.NextBranch = nil, nil
	return last
}

func (s *Step) signed(member int) bool { return s.Bits[member/8]>>(member%8)&1 == 1 }

// Signer is a sync committee without the keys of those who signed. Its root is that of
// SyncCommittee of the consensus specifications.
type Signer struct {
	Aggregate PublicKey `json:"aggregate"` // sum of all keys of the committee
	KeysRoot  Root      `json:"keysRoot"`  // over all keys of the committee
	// Absent are the members that did not sign, ascending.
	Absent []AbsentKey `json:"absent"`
}

// HashTreeRoot returns the root that names the committee.
func (s Signer) HashTreeRoot() Root { return ssz.Hash(s.KeysRoot, s.Aggregate.HashTreeRoot()) }

// AbsentKey is a member of a committee that did not sign.
type AbsentKey struct {
	Index  int       `json:"index"`
	Key    PublicKey `json:"key"`
	Branch []Root    `json:"branch"` // from Key to Signer.KeysRoot
}

// Execution is the hash of an execution block in the body of a beacon block. Branch leads from the
// hash to the BodyRoot of the beacon block's header.
type Execution struct {
	BlockHash Root   `json:"blockHash"`
	Branch    []Root `json:"branch"`
}

// Link ties the document's block to the anchor's.
type Link struct {
	Kind string `json:"kind"` // LinkSame, LinkHeaders or LinkHistory
	// Headers are there for LinkHeaders: RLP, from the anchor's block down to the
	// child of the document's block.
	Headers []receipt.Hex `json:"headers,omitempty"`
	// Header, Account and Storage are there for LinkHistory. Header is the RLP of the anchor's
	// block. Account are the trie nodes from its stateRoot to [HistoryContract], Storage those from
	// there to the [HistorySlot] of the document's block, as eth_getProof returns them (EIP-1186).
	Header  receipt.Hex   `json:"header,omitempty"`
	Account []receipt.Hex `json:"account,omitempty"`
	Storage []receipt.Hex `json:"storage,omitempty"`
}

// Parse reads a document without verifying it. White space, the order of members and escapes do not
// matter; everything else that json.Marshal would not have written is ErrMalformed.
func Parse(data []byte) (*Document, error) {
	d := new(Document)
	if err := read(data, d); err != nil {
		return nil, err
	}
	return d, d.validate()
}

// read reads JSON and refuses what does not marshal to the same again: members that are
// missing, empty where they must be absent, or spelled otherwise.
func read(data []byte, into any) error {
	if len(data) > MaxSize {
		return malformed("more than %d bytes", MaxSize)
	}
	canonical, err := receipt.Canonicalize(data)
	if err != nil {
		return malformed("%v", err)
	}
	if err := strictjson.Unmarshal(canonical, into, strictjson.Rules{}); err != nil {
		return malformed("%v", err)
	}
	text, err := json.Marshal(into)
	if err != nil {
		return malformed("%v", err)
	}
	if again, err := receipt.Canonicalize(text); err != nil || !bytes.Equal(again, canonical) {
		return malformed("members are missing or empty")
	}
	return nil
}

// validate returns ErrMalformed unless the document has a form that can be verified.
func (d *Document) validate() error {
	a, l := &d.Anchor, &d.Link
	signed := a.Kind == AnchorSyncCommittee
	headers, history := l.Kind == LinkHeaders, l.Kind == LinkHistory
	for _, fault := range []struct {
		what string
		ok   bool
	}{
		{"type", d.Type == Type && d.Version == Version},
		{"network", d.Network != "" && len(d.Network) <= maxName},
		{"anchor.kind", signed || a.Kind == AnchorPinnedBlock},
		{"anchor.checkpoint", (a.Checkpoint.Committee != nil) == signed && (len(a.Checkpoint.Branch) > 0) == signed},
		{"anchor.steps", (len(a.Steps) > 0) == signed && len(a.Steps) <= MaxSteps},
		{"link.kind", headers || history || l.Kind == LinkSame},
		{"link.headers", (len(l.Headers) > 0) == headers && len(l.Headers) <= MaxHeaders},
		{"link.header", (len(l.Header) > 0) == history},
		{"link.account", (len(l.Account) > 0) == history && len(l.Account) <= maxNodes},
		{"link.storage", (len(l.Storage) > 0) == history && len(l.Storage) <= maxNodes},
	} {
		if !fault.ok {
			return malformed("%s is not as the format has it", fault.what)
		}
	}
	for i := range a.Steps {
		s := &a.Steps[i]
		if (s.NextCommittee != nil) != (i < len(a.Steps)-1) {
			return malformed("anchor.steps: each but the last hands over to the next committee")
		}
		if err := s.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Step) validate() error {
	switch {
	case (s.NextCommittee != nil) != (len(s.NextBranch) > 0):
		return malformed("anchor.steps: a committee without its branch, or a branch without its committee")
	case 8*len(s.Bits) > maxMembers, len(s.Signer.Absent) > 8*len(s.Bits):
		return malformed("anchor.steps: a committee has at most %d members", maxMembers)
	}
	return nil
}

// Root is 32 bytes, such as a hash-tree-root or the hash of an execution block: in JSON, 0x
// and 64 lower-case hexadecimal digits.
type Root [32]byte

// String returns 0x and lower-case hexadecimal digits.
func (r Root) String() string { return receipt.Hex(r[:]).String() }

// MarshalText returns 0x and lower-case hexadecimal digits.
func (r Root) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText returns, and nothing else. ErrMalformed.
func (r *Root) UnmarshalText(text []byte) error { return fixed(r[:], text) }

// PublicKey is a compressed point of BLS12-381's first group.
type PublicKey [bls.KeySize]byte

// HashTreeRoot returns the key's leaf in a committee.
func (k PublicKey) HashTreeRoot() Root { return ssz.Merkleize(ssz.Chunks[Root](k[:])) }

// MarshalText returns 0x and lower-case hexadecimal digits.
func (k PublicKey) MarshalText() ([]byte, error) { return receipt.Hex(k[:]).MarshalText() }

// UnmarshalText reads what MarshalText returns, and nothing else. ErrMalformed.
func (k *PublicKey) UnmarshalText(text []byte) error { return fixed(k[:], text) }

// Signature is a compressed point of BLS12-381's second group.
type Signature [bls.SignatureSize]byte

// MarshalText returns 0x and lower-case hexadecimal digits.
func (s Signature) MarshalText() ([]byte, error) { return receipt.Hex(s[:]).MarshalText() }

// UnmarshalText reads what MarshalText returns, and nothing else. ErrMalformed.
func (s *Signature) UnmarshalText(text []byte) error { return fixed(s[:], text) }

// fixed reads 0x and lower-case hexadecimal digits, which must fill into exactly.
func fixed(into, text []byte) error {
	var data receipt.Hex
	if err := data.UnmarshalText(text); err != nil || len(data) != len(into) {
		return malformed("not 0x and %d lower-case hexadecimal digits", 2*len(into))
	}
	copy(into, data)
	return nil
}

// Uint64 is a number that is a decimal string in JSON, without leading zeros.
type Uint64 uint64

// MarshalText returns decimal digits.
func (u Uint64) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(u), 10), nil }

// UnmarshalText reads what MarshalText returns, and nothing else. ErrMalformed.
func (u *Uint64) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || strconv.FormatUint(v, 10) != string(text) {
		return malformed("not a decimal number")
	}
	*u = Uint64(v)
	return nil
}

// Why a document does not show that a block is final; compare with errors.Is.
var (
	// ErrMalformed is a document, or a file of a network, that the format does not allow.
	ErrMalformed = errors.New("malformed finality document")
	// ErrNoNetwork is a chain that [NetworkOf] does not know, where [Trust] has no Network.
	ErrNoNetwork = errors.New("no finality proof exists for this chain yet")
	// ErrOtherChain is a document of another chain or network.
	ErrOtherChain = errors.New("finality document of another chain")
	// ErrOtherBlock is a document, or a Header of [Trust], of another block.
	ErrOtherBlock = errors.New("finality document of another block")
	// ErrOtherCheckpoint is a document that begins at another checkpoint than the
	// trusted one.
	ErrOtherCheckpoint = errors.New("finality document from another checkpoint")
	// ErrCheckpointTooOld is a checkpoint that lies further back than the reader accepts.
	ErrCheckpointTooOld = errors.New("the checkpoint is too old")
	// ErrCommittee is a step whose signer is not the committee of its period, whose listed
	// absent members are not those that did not sign, whose signature slot is not in that
	// period, whose slots are not in their order, or whose next committee is not final.
	ErrCommittee = errors.New("not signed by the sync committee of its period")
	// ErrTooFewSigners is a step that less than two thirds of the committee signed.
	ErrTooFewSigners = errors.New("less than two thirds of the sync committee signed")
	// ErrSignature is a step whose signature does not match.
	ErrSignature = errors.New("the sync committee's signature does not match")
	// ErrBranch is a Merkle branch that does not lead where it should, or a checkpoint whose header
	// has another root.
	ErrBranch = errors.New("a Merkle branch does not lead where it should")
	// ErrLink is a block that the link does not tie to the anchor's.
	ErrLink = errors.New("the block is not shown to precede the finalized one")
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}
