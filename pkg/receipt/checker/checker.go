package checker

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
)

const (
	// MaxTexts bounds how many texts are judged at once. Further ones are not read.
	MaxTexts = 32
	// maxKeys bounds a key document in bytes.
	maxKeys = 1 << 20
)

// Kind is the kind of a text.
type Kind string

// Kinds of texts.
const (
	KindReceipt  Kind = "receipt"  // an answer, or a DSSE envelope
	KindKeys     Kind = "keys"     // a key document
	KindLogProof Kind = "logProof" // C2SP tlog-proof
	KindPolicy   Kind = "policy"   // C2SP tlog-policy
	KindLogs     Kind = "logs"     // a verifier's list of its logs, which has a policy
	KindFinality Kind = "finality" // a finality document
	// KindCheckpoint is the root of a beacon block alone, or a beacon node's answer about one block,
	// which has the root (/eth/v1/beacon/headers/<block>).
	KindCheckpoint Kind = "checkpoint"
	KindNetwork    Kind = "network" // the file of a network, for package finality
	KindUnknown    Kind = "unknown"
)

// State is how far a part of the check came.
type State string

// States of a part.
const (
	Holds     State = "holds"
	Fails     State = "fails"
	Absent    State = "absent"    // nothing was given that could show it
	Unchecked State = "unchecked" // it was given, and the text that it is judged by was not, or cannot be read
)

// Verdicts.
const (
	Valid     = "valid"     // the signature holds, and no part fails
	NotValid  = "notValid"  // a part fails
	Undecided = "undecided" // no part fails, and the signature is unchecked
	NoReceipt = "noReceipt" // no text is a receipt, or the last that is one cannot be read
)

// Report is what was found.
type Report struct {
	Verdict string `json:"verdict"`
	// Texts says of each text, in order, what it is.
	Texts     []Text           `json:"texts"`
	Receipt   *receipt.Receipt `json:"receipt"` // as given, whether or not it holds; nil with NoReceipt
	Signature Signature        `json:"signature"`
	Proof     Part             `json:"proof"` // the proof that the receipt carries
	Log       Log              `json:"log"`
	Finality  Finality         `json:"finality"`
	// Proven follows from proofs alone. Attested is the rest, for which only the signature stands.
	Proven    []receipt.Fact     `json:"proven"`
	Attested  []receipt.Fact     `json:"attested"`
	Transfers []receipt.Transfer `json:"transfers"` // ERC-20, in the proven logs
}

// Text is what a report says of one of the texts.
type Text struct {
	Kind Kind `json:"kind"`
	// Used is false for a text that is not recognised or cannot be read, that a later one of
	// its kind replaces, or that is the file of a network which the receipt does not need.
	Used  bool   `json:"used"`
	Error string `json:"error,omitempty"` // why it cannot be read
}

// Part is the outcome of a part of the check.
type Part struct {
	State State `json:"state"`
	// Reason is a fixed word for why the part fails or is unchecked, such as unknownKey.
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"` // of a part that fails: the reason in full, in English
}

// Signature is whether the signature holds, and whose it is.
type Signature struct {
	Part
	KeyID string       `json:"keyId"`         // as the receipt names it
	Key   *receipt.Key `json:"key,omitempty"` // as the key document lists it; nil if it does not
	// CutOff reports whether the signature holds although the key is revoked, because the
	// receipt was logged before the key's cut-off.
	CutOff bool `json:"cutOff"`
}

// Log is whether the receipt is in a log of receipts, and who saw that. The fields after
// Leaf are set only where the part holds.
type Log struct {
	Part
	Leaf      string `json:"leaf"` // of the receipt's entry, hexadecimal
	Origin    string `json:"origin,omitempty"`
	Index     int64  `json:"index"`              // of the entry
	Size      int64  `json:"size"`               // of the checkpoint, in entries
	Witnesses int    `json:"witnesses"`          // how many of the policy's witnesses cosigned
	Of        int    `json:"of"`                 // how many witnesses the policy has
	Earliest  string `json:"earliest,omitempty"` // receiptlog.Witnessed.Earliest, RFC 3339
	// Unwitnessed reports whether no witness of the policy cosigned, which a policy may allow.
	Unwitnessed bool `json:"unwitnessed"`
	// OwnPolicy reports whether the policy comes from the operator's list of logs.
	OwnPolicy bool `json:"ownPolicy"`
}

// Finality is whether the finality document shows the block to be final.
type Finality struct {
	Part
	// Provable reports whether the network of the receipt's chain is known or was given.
	Provable bool `json:"provable"`
	// Checkpoint is the root that was given; nil where none can be read, and with NoReceipt.
	Checkpoint *finality.Root   `json:"checkpoint,omitempty"`
	Result     *finality.Result `json:"result,omitempty"`
}

// reasons are the values of Part.Reason for errors. The page has a sentence for each.
var reasons = []struct {
	err  error
	word string
}{
	{receipt.ErrUnknownKey, "unknownKey"},
	{receipt.ErrRevokedKey, "revokedKey"},
	{receipt.ErrSignature, "signature"},
	{receipt.ErrProof, "proof"},
	{receipt.ErrMalformed, "malformed"},
	{receiptlog.ErrUnlisted, "unlisted"}, // whatever else is wrong with the unlisted log
	{receiptlog.ErrUnknownLog, "unknownLog"},
	{receiptlog.ErrSignature, "checkpointSignature"},
	{receiptlog.ErrQuorum, "quorum"},
	{receiptlog.ErrInclusion, "inclusion"},
	{receiptlog.ErrMalformed, "malformed"},
	{finality.ErrMalformed, "malformed"},
	{finality.ErrOtherChain, "otherChain"},
	{finality.ErrOtherBlock, "otherBlock"},
	{finality.ErrOtherCheckpoint, "otherCheckpoint"},
	{finality.ErrCheckpointTooOld, "checkpointTooOld"},
	{finality.ErrTooFewSigners, "tooFewSigners"},
}

// Reasons that are not in reasons.
const (
	reasonNoKey        = "noKey"
	reasonNoPolicy     = "noPolicy"
	reasonNoCheckpoint = "noCheckpoint"
	reasonNoNetwork    = "noNetwork"
	reasonOther        = "other"
)

func failed(err error) Part {
	word := reasonOther
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			word = r.word
			break
		}
	}
	return Part{State: Fails, Reason: word, Error: err.Error()}
}

type check struct {
	report Report
	// What was given and can be read; else nil. Where no policy was given, policy is the list's.
	doc    *receipt.Document
	keys   *receipt.KeyDocument
	proof  []byte
	policy *receiptlog.Policy
	own    bool // the policy is the operator's own
	list   *receiptlog.Directory

	finality   *finality.Document
	faults     map[Kind]error // of what was given and cannot be read
	checkpoint *finality.Root
	network    *finality.Network
}

// Check judges texts, in whatever order they come. Of two of a kind only the later one
// counts, even if it cannot be read.
func Check(texts []string) Report {
	c := check{faults: map[Kind]error{}, report: Report{
		Verdict: NoReceipt, Texts: make([]Text, len(texts)), Signature: Signature{Part: Part{State: Absent}},
		Proof: Part{State: Absent}, Log: Log{Part: Part{State: Absent}}, Finality: Finality{Part: Part{State: Absent}},
		Proven: []receipt.Fact{}, Attested: []receipt.Fact{}, Transfers: []receipt.Transfer{},
	}}
	c.read(texts)
	if c.doc == nil {
		return c.report
	}
	r := &c.report
	r.Receipt, r.Signature.KeyID = &c.doc.Receipt, c.doc.Signature.KeyID
	c.checkProof()
	c.checkLog()
	c.checkSignature()
	c.checkFinality()
	r.Attested = receipt.Attested(c.doc.Receipt, r.Proven)
	switch {
	case r.Signature.State == Fails || r.Proof.State == Fails || r.Log.State == Fails || r.Finality.State == Fails:
		r.Verdict = NotValid
	case r.Signature.State == Holds:
		r.Verdict = Valid
	default:
		r.Verdict = Undecided
	}
	return c.report
}

// read recognises and reads the texts, from the last to the first.
func (c *check) read(texts []string) {
	seen := map[Kind]bool{}
	for i := len(texts) - 1; i >= 0; i-- {
		t := &c.report.Texts[i]
		if i >= MaxTexts {
			*t = Text{Kind: KindUnknown, Error: fmt.Sprintf("more than %d texts", MaxTexts)}
			continue
		}
		t.Kind = recognise(texts[i])
		if seen[t.Kind] {
			continue
		}
		seen[t.Kind] = true
		if err := c.take(t.Kind, texts[i]); err != nil {
			t.Error, c.faults[t.Kind] = err.Error(), err
			continue
		}
		t.Used = t.Kind != KindUnknown
	}
	// A reader's policy counts before the operator's, and that it cannot be read does not
	// put the operator's in its place. The operator's list still says which logs there are.
	if c.faults[KindPolicy] != nil {
		c.policy, c.own = nil, false
	}
}

func (c *check) take(kind Kind, text string) error {
	switch kind {
	case KindReceipt:
		doc, err := receipt.Parse([]byte(text))
		if err != nil {
			return err
		}
		c.doc = &doc
	case KindKeys:
		if len(text) > maxKeys {
			return fmt.Errorf("a key document of more than %d bytes", maxKeys)
		}
		keys, err := receipt.ParseKeyDocument([]byte(text))
		if err != nil {
			return err
		}
		c.keys = &keys
	case KindLogProof:
		if _, err := receiptlog.ParseProof([]byte(text)); err != nil {
			return err
		}
		c.proof = []byte(text)
	case KindPolicy:
		policy, err := receiptlog.ParsePolicy([]byte(text))
		if err != nil {
			return err
		}
		c.policy, c.own = &policy, false
	case KindLogs:
		directory, err := receiptlog.ParseDirectory([]byte(text))
		if err != nil {
			return err
		}
		c.list = &directory
		if policy, err := receiptlog.ParsePolicy([]byte(directory.Policy)); err == nil && c.policy == nil {
			c.policy, c.own = &policy, true
		}
	case KindFinality:
		document, err := finality.Parse([]byte(text))
		if err != nil {
			return err
		}
		c.finality = document
	case KindCheckpoint:
		root, err := parseCheckpoint(text)
		if err != nil {
			return err
		}
		c.checkpoint = &root
	case KindNetwork:
		network, err := finality.ParseNetwork([]byte(text))
		if err != nil {
			return err
		}
		c.network = network
	case KindUnknown:
	}
	return nil
}

// parseCheckpoint reads a root, or a beacon node's answer about one header.
func parseCheckpoint(text string) (root finality.Root, err error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") {
		var answer struct {
			Data struct {
				Root string `json:"root"`
			} `json:"data"`
			Finalized *bool `json:"finalized"`
		}
		if err := strictjson.Unmarshal([]byte(text), &answer,
			strictjson.Rules{AllowUnknown: true, AllowNull: true}); err != nil {
			return root, err
		}
		if answer.Finalized != nil && !*answer.Finalized {
			return root, errors.New("the node does not call this block final")
		}
		text = answer.Data.Root
	}
	return root, root.UnmarshalText([]byte(strings.ToLower(text)))
}

// recognise returns what a text seems to be. It does not check that the text can be read as that.
func recognise(text string) Kind {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "{") {
		return recogniseObject(trimmed)
	}
	if strings.HasPrefix(trimmed, receiptlog.ProofHeader) {
		return KindLogProof
	}
	if strings.HasPrefix(trimmed, "0x") {
		return KindCheckpoint
	}
	if len(trimmed) > receiptlog.MaxPolicy {
		return KindUnknown
	}
	for line := range strings.Lines(trimmed) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		switch words[0] {
		case "log", "witness", "group", "quorum":
			return KindPolicy
		}
		return KindUnknown
	}
	return KindUnknown
}

func recogniseObject(text string) Kind {
	if len(text) > receipt.MaxSize {
		return KindUnknown
	}
	var has struct {
		Receipt, Payload, Signatures, Keys, Algorithm, Logs, Policy, Anchor, Link, GenesisValidatorsRoot json.RawMessage

		Data struct{ Root json.RawMessage }
	}
	if err := json.Unmarshal([]byte(text), &has); err != nil {
		return KindUnknown
	}
	switch {
	case has.Receipt != nil || has.Payload != nil && has.Signatures != nil:
		return KindReceipt
	case has.Keys != nil && has.Algorithm != nil:
		return KindKeys
	case has.Logs != nil && has.Policy != nil:
		return KindLogs
	case has.Anchor != nil && has.Link != nil:
		return KindFinality
	case has.GenesisValidatorsRoot != nil:
		return KindNetwork
	case has.Data.Root != nil:
		return KindCheckpoint
	}
	return KindUnknown
}

func (c *check) checkProof() {
	if c.doc.Proof == nil {
		return
	}
	proven, logs, err := receipt.VerifyProof(c.doc.Receipt, *c.doc.Proof)
	if err != nil {
		c.report.Proof = failed(err)
		return
	}
	c.report.Proof, c.report.Proven = Part{State: Holds}, proven
	for _, log := range logs {
		if transfer, ok := log.Transfer(); ok {
			c.report.Transfers = append(c.report.Transfers, transfer)
		}
	}
}

// checkLog judges whether the receipt's entry is in the log. checkSignature runs after it: whether a
// revoked key's signature is still good depends on the entry's index.
func (c *check) checkLog() {
	log := &c.report.Log
	entry, err := receiptlog.EntryOf(*c.doc)
	if err != nil {
		log.Part = failed(err)
		return
	}
	leaf := entry.Leaf()
	log.Leaf = hex.EncodeToString(leaf[:])
	switch {
	case c.faults[KindLogProof] != nil:
		log.Part = failed(c.faults[KindLogProof])
		return
	case c.proof == nil:
		return
	case c.policy == nil:
		log.Part = Part{State: Unchecked, Reason: reasonNoPolicy}
		return
	case c.faults[KindLogs] != nil: // it would say which logs there are
		log.Part = failed(fmt.Errorf("%w: the list cannot be read: %w", receiptlog.ErrUnlisted, c.faults[KindLogs]))
		return
	}
	policy := *c.policy
	if c.list != nil {
		policy = policy.WithList(*c.list)
	}
	found, err := receiptlog.Included(*c.doc, c.proof, policy)
	if err != nil {
		log.Part = failed(err)
		return
	}
	log.Part = Part{State: Holds}
	log.Origin, log.Index, log.Size = found.Origin, found.Index, found.Size
	log.Witnesses, log.Of, log.OwnPolicy = len(found.Cosignatures), len(c.policy.Witnesses), c.own
	log.Unwitnessed = len(found.Cosignatures) == 0
	if at, ok := found.Earliest(); ok {
		log.Earliest = at.Format(time.RFC3339)
	}
}

// checkSignature judges the signature. A signature of a revoked key is good if the log has the
// receipt before the key's cut-off.
func (c *check) checkSignature() {
	s, log := &c.report.Signature, c.report.Log
	if c.keys == nil {
		s.Part = Part{State: Unchecked, Reason: reasonNoKey}
		return
	}
	key, err := c.doc.VerifySignature(*c.keys)
	if key.KeyID != "" {
		s.Key = &key
	}
	if errors.Is(err, receipt.ErrRevokedKey) && log.State == Holds && key.GoodAt(log.Origin, log.Index) {
		err = c.doc.VerifySignatureBy(key)
		s.CutOff = err == nil
	}
	if err != nil {
		s.Part = failed(err)
		return
	}
	s.Part = Part{State: Holds}
}

// checkFinality judges whether the finality document shows the block to be final.
func (c *check) checkFinality() {
	f := &c.report.Finality
	_, known := finality.NetworkOf(c.doc.Receipt.Chain.ID)
	// The file of a network may come with the receipt: it must not replace what is known,
	// such as how long a slot is, by which a checkpoint is too old.
	if c.network != nil && (known || c.network.ChainID != c.doc.Receipt.Chain.ID) {
		c.network = nil
		for i := range c.report.Texts {
			if t := &c.report.Texts[i]; t.Kind == KindNetwork {
				t.Used = false
			}
		}
	}
	f.Provable, f.Checkpoint = known || c.network != nil, c.checkpoint
	switch {
	case c.faults[KindFinality] != nil:
		f.Part = failed(c.faults[KindFinality])
		return
	case c.finality == nil:
		return
	case c.checkpoint == nil:
		f.Part = Part{State: Unchecked, Reason: reasonNoCheckpoint}
		return
	}
	trust := finality.Trust{Checkpoint: *c.checkpoint, Network: c.network}
	if c.report.Proof.State == Holds {
		trust.Header = c.doc.Proof.HeaderRLP
	}
	result, err := finality.Verify(&c.doc.Receipt, c.finality, trust)
	if errors.Is(err, finality.ErrNoNetwork) {
		f.Part = Part{State: Unchecked, Reason: reasonNoNetwork}
		return
	}
	if err != nil {
		f.Part = failed(err)
		return
	}
	f.Part, f.Result = Part{State: Holds}, result
	for _, fact := range result.Proven {
		if !slices.ContainsFunc(c.report.Proven, func(known receipt.Fact) bool { return known.Field == fact.Field }) {
			c.report.Proven = append(c.report.Proven, fact)
		}
	}
}
