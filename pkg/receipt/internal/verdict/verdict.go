package verdict

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// Question is what Judge is given. A document that is nil was not given.
type Question struct {
	// Answer is nil where the finality document alone is judged; Keys is unused then.
	Answer, Keys      []byte
	Log, Policy, List []byte
	Finality, Network []byte
	Checkpoint        string
	MaxCheckpointAge  int64  // seconds; 0 means finality.DefaultMaxAge
	Kind              string // transaction or transfer; empty for any
	WithoutProof      bool   // an answer without its proof is accepted
}

// Verdict is what Judge finds.
type Verdict struct {
	Code string `json:"code"` // valid, or the reason
	// Facts is a digest of all proven and attested facts, with how each is known.
	Facts    string           `json:"facts,omitempty"`
	Proven   int              `json:"proven,omitempty"`
	Attested int              `json:"attested,omitempty"`
	Log      *Log             `json:"log,omitempty"`
	Finality *finality.Result `json:"finality,omitempty"`
}

// Log is where the log has the receipt.
type Log struct {
	Origin       string        `json:"origin"`
	Index        int64         `json:"index"`
	Size         int64         `json:"size"`
	Leaf         string        `json:"leaf"`
	Cosignatures []Cosignature `json:"cosignatures"`
	Earliest     *string       `json:"earliest"`
}

// Cosignature is a witness and the time, in RFC 3339, at which it cosigned.
type Cosignature struct {
	Witness string `json:"witness"`
	Time    string `json:"time"`
}

// Valid is the code where no fault is found.
const Valid = "valid"

// Reasons of Judge for which package receipt and those below it have no error.
var (
	errOtherKind    = errors.New("a receipt of another kind")
	errNoProof      = errors.New("no proof")
	errNoPolicy     = errors.New("no policy")
	errNoLogProof   = errors.New("no proof of the log")
	errNoFinality   = errors.New("no finality document")
	errNoCheckpoint = errors.New("no checkpoint")
)

var codes = []struct {
	err  error
	code string
}{
	{errOtherKind, "otherKind"},
	{errNoProof, "noProof"},
	{errNoPolicy, "noPolicy"},
	{errNoLogProof, "noLogProof"},
	{errNoFinality, "noFinality"},
	{errNoCheckpoint, "noCheckpoint"},
	{receipt.ErrUnknownKey, "unknownKey"},
	{receipt.ErrRevokedKey, "revokedKey"},
	{receipt.ErrSignature, "signature"},
	{receipt.ErrProof, "proof"},
	{receiptlog.ErrUnlisted, "unlisted"}, // whatever else is wrong with the unlisted log
	{receiptlog.ErrUnknownLog, "unknownLog"},
	{receiptlog.ErrSignature, "checkpointSignature"},
	{receiptlog.ErrQuorum, "quorum"},
	{receiptlog.ErrInclusion, "inclusion"},
	{finality.ErrNoNetwork, "noNetwork"},
	{finality.ErrOtherChain, "otherChain"},
	{finality.ErrOtherBlock, "otherBlock"},
	{finality.ErrOtherCheckpoint, "otherCheckpoint"},
	{finality.ErrCheckpointTooOld, "checkpointTooOld"},
	{finality.ErrCommittee, "committee"},
	{finality.ErrTooFewSigners, "tooFewSigners"},
	{finality.ErrSignature, "committeeSignature"},
	{finality.ErrBranch, "branch"},
	{finality.ErrLink, "link"},
	{receipt.ErrMalformed, "malformed"},
	{receiptlog.ErrMalformed, "malformed"},
	{finality.ErrMalformed, "malformed"},
}

// codeOf returns the word for an error, which the packages in other languages have too:
// "unknown: " with its text for one that is not listed in codes.
func codeOf(err error) string {
	for _, known := range codes {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return "unknown: " + err.Error()
}

// Judge checks an answer, or the finality document alone, in the order in which the packages in
// other languages do, so that of several faults they find the same one.
func Judge(q Question) Verdict {
	v, err := judge(q)
	if err != nil {
		return Verdict{Code: codeOf(err)}
	}
	v.Code = Valid
	return v
}

func judge(q Question) (v Verdict, err error) {
	if q.Answer == nil {
		d, trust, err := q.final()
		if err != nil {
			return v, err
		}
		v.Finality, err = finality.VerifyBlock(d, trust)
		return v, err
	}
	doc, err := receipt.Parse(q.Answer)
	if err != nil {
		return v, err
	}
	kind := "transaction"
	if doc.Receipt.Type == receipt.TransferType {
		kind = "transfer"
	}
	if q.Kind != "" && q.Kind != kind {
		return v, errOtherKind
	}
	keys, err := receipt.ParseKeyDocument(q.Keys)
	if err != nil {
		return v, err
	}
	if v.Log, err = q.log(doc, keys); err != nil {
		return v, err
	}
	if doc.Proof == nil && !q.WithoutProof {
		return v, errNoProof
	}
	var proven []receipt.Fact
	var header receipt.Hex
	if doc.Proof != nil {
		header = doc.Proof.HeaderRLP
		if proven, _, err = receipt.VerifyProof(doc.Receipt, *doc.Proof); err != nil {
			return v, err
		}
	}
	if q.Finality != nil || q.Checkpoint != "" {
		d, trust, err := q.final()
		if err != nil {
			return v, err
		}
		trust.Header = header
		if v.Finality, err = finality.Verify(&doc.Receipt, d, trust); err != nil {
			return v, err
		}
		for _, fact := range v.Finality.Proven {
			if !slices.ContainsFunc(proven, func(known receipt.Fact) bool { return known.Field == fact.Field }) {
				proven = append(proven, fact)
			}
		}
		v.Finality.Proven = []receipt.Fact{}
	}
	attested := receipt.Attested(doc.Receipt, proven)
	v.Facts, v.Proven, v.Attested = digest(proven, attested), len(proven), len(attested)
	return v, nil
}

// log checks the signature and, where any of the log's proof, the policy and the list is given, the log. Then proof
// and policy must both be given. Where none of the three is, the Log is nil.
func (q Question) log(doc receipt.Document, keys receipt.KeyDocument) (*Log, error) {
	switch {
	case q.Log == nil && q.Policy == nil && q.List == nil:
		_, err := doc.VerifySignature(keys)
		return nil, err
	case q.Log == nil:
		return nil, errNoLogProof
	case q.Policy == nil:
		return nil, errNoPolicy
	}
	policy, err := receiptlog.ParsePolicy(q.Policy)
	if err != nil {
		return nil, err
	}
	if q.List != nil {
		list, err := receiptlog.ParseDirectory(q.List)
		if err != nil {
			return nil, err
		}
		policy = policy.WithList(list)
	}
	found, err := receiptlog.Verify(doc, keys, q.Log, policy)
	if err != nil {
		return nil, err
	}
	entry, err := receiptlog.EntryOf(doc)
	if err != nil {
		return nil, err
	}
	leaf := entry.Leaf()
	log := &Log{
		Origin: found.Origin, Index: found.Index, Size: found.Size, Leaf: hex.EncodeToString(leaf[:]),
		Cosignatures: []Cosignature{},
	}
	for _, c := range found.Cosignatures {
		log.Cosignatures = append(log.Cosignatures, Cosignature{c.Witness, c.Time.Format(time.RFC3339)})
	}
	if at, ok := found.Earliest(); ok {
		text := at.Format(time.RFC3339)
		log.Earliest = &text
	}
	return log, nil
}

func (q Question) final() (*finality.Document, finality.Trust, error) {
	trust := finality.Trust{MaxAge: time.Duration(q.MaxCheckpointAge) * time.Second}
	switch {
	case q.Finality == nil:
		return nil, trust, errNoFinality
	case q.Checkpoint == "":
		return nil, trust, errNoCheckpoint
	}
	if err := trust.Checkpoint.UnmarshalText([]byte(q.Checkpoint)); err != nil {
		return nil, trust, err
	}
	d, err := finality.Parse(q.Finality)
	if err == nil && q.Network != nil {
		trust.Network, err = finality.ParseNetwork(q.Network)
	}
	return d, trust, err
}

// digest returns the SHA-256 of all facts, hexadecimal.
func digest(proven, attested []receipt.Fact) string {
	var text strings.Builder
	for _, list := range [][]receipt.Fact{proven, attested} {
		for _, fact := range list {
			_, _ = fmt.Fprintf(&text, "%s\t%s\t%s\n", fact.Field, fact.Value, fact.How)
		}
		text.WriteString("\n")
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])
}
