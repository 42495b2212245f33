package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
)

// Words for how far a part of the check came.
const (
	stateValid      = "valid"
	stateInvalid    = "not valid"
	stateNotChecked = "not checked"
	stateAbsent     = "absent"
)

// report is the outcome of verify, in the form of its JSON.
type report struct {
	Valid     bool               `json:"valid"`
	Signature string             `json:"signature"` // valid, not valid, not checked
	Proof     string             `json:"proof"`     // valid, not valid, absent, not checked
	Error     string             `json:"error,omitempty"`
	Receipt   *receipt.Receipt   `json:"receipt,omitempty"`
	Key       *receipt.Key       `json:"key,omitempty"` // that made the signature
	Proven    []receipt.Fact     `json:"proven"`
	Attested  []receipt.Fact     `json:"attested"`
	Transfers []receipt.Transfer `json:"transfers"`          // ERC-20, from proven logs
	Log       *logReport         `json:"log,omitempty"`      // only with --log
	Finality  *finalityReport    `json:"finality,omitempty"` // only with --finality, --checkpoint or --require-finality

	code int
}

func verify(ctx context.Context, args []string, s streams) error {
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	requireProof := flags.Bool("require-proof", false, "")
	var asked logFlags
	flags.StringVar(&asked.key, "key", "", "")
	flags.StringVar(&asked.proof, "log", "", "")
	flags.StringVar(&asked.policy, "log-policy", "", "")
	flags.StringVar(&asked.list, "log-list", "", "")
	var final finalityFlags
	final.define(flags)
	files, err := parse(flags, args, 1)
	if err != nil {
		return err
	}
	if err := final.read(); err != nil {
		return err
	}
	if err := asked.validate(); err != nil {
		return usage("verify: %w", err)
	}
	if files[0] == "-" && asked.key == "-" {
		return usage("verify: receipt and key cannot both come from the standard input")
	}
	data, err := readFile(files[0], s.in, receipt.MaxSize)
	if err != nil {
		return err
	}
	r := check(ctx, data, *requireProof, asked, final, s.in)
	if *asJSON {
		err = writeJSON(s.out, r, "  ")
	} else {
		_, err = s.out.Write(r.text(s.now()))
	}
	if err == nil && r.code != exitValid {
		err = exitError{r.code, errPrinted}
	}
	return err
}

// check judges a receipt as far as it can: without a key it still checks the proof.
func check(
	ctx context.Context, data []byte, requireProof bool, asked logFlags, final finalityFlags, in io.Reader,
) report {
	r := report{
		Signature: stateNotChecked, Proof: stateNotChecked,
		Proven: []receipt.Fact{}, Attested: []receipt.Fact{}, Transfers: []receipt.Transfer{},
	}
	if asked.proof != "" {
		r.Log = &logReport{State: stateNotChecked}
	}
	doc, err := receipt.Parse(data)
	if err != nil {
		r.fail(exitInvalid, err)
		return r
	}
	r.Receipt = &doc.Receipt
	r.checkProof(doc, requireProof)
	if final.asked() {
		r.checkFinality(ctx, doc, final)
	}
	if trusted, err := keyDocument(ctx, asked.key, in); err != nil {
		r.fail(exitNoKey, err)
	} else if asked.proof != "" {
		r.checkLog(ctx, doc, trusted, asked)
	} else if key, err := doc.VerifySignature(trusted); err != nil {
		r.Signature = stateInvalid
		r.fail(exitInvalid, err)
	} else {
		r.Signature, r.Key = stateValid, &key
	}
	r.Valid = r.code == exitValid
	return r
}

func (r *report) checkProof(doc receipt.Document, required bool) {
	if doc.Proof == nil {
		r.Proof, r.Attested = stateAbsent, receipt.Attested(doc.Receipt, nil)
		if required {
			r.fail(exitInvalid, errors.New("there is no proof"))
		}
		return
	}
	proven, logs, err := receipt.VerifyProof(doc.Receipt, *doc.Proof)
	if err != nil {
		r.Proof = stateInvalid
		r.fail(exitInvalid, err)
		return
	}
	r.Proof, r.Proven, r.Attested = stateValid, proven, receipt.Attested(doc.Receipt, proven)
	for _, log := range logs {
		if transfer, ok := log.Transfer(); ok {
			r.Transfers = append(r.Transfers, transfer)
		}
	}
}

// fail adds a reason and sets the exit code, unless that is exitInvalid already: an invalid
// receipt is invalid, whether or not there is a key.
func (r *report) fail(code int, err error) {
	if r.code != exitInvalid {
		r.code = code
	}
	if r.Error != "" {
		r.Error += "; "
	}
	r.Error += err.Error()
}

// text returns what was found, for people who read it now.
func (r report) text(now time.Time) []byte {
	var out bytes.Buffer
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&out, format+"\n", args...) }
	table := func(facts []receipt.Fact) {
		w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		for _, fact := range facts {
			_, _ = fmt.Fprintf(w, "  %s\t%s\t%s\n", fact.Field, fact.Value, fact.How)
		}
		_ = w.Flush() // into memory: cannot fail
	}
	switch r.code {
	case exitInvalid:
		line("NOT VALID: %s\n", printable(r.Error))
	case exitValid:
		line("VALID\n")
	default:
		line("NOT DECIDED: %s\n", printable(r.Error))
	}
	if r.Receipt != nil {
		line("%s", claim(*r.Receipt))
	}
	by := ""
	if r.Key != nil {
		by = fmt.Sprintf(", by the %s key %s", r.Key.Status, r.Key.KeyID)
	}
	line("Signature: %s%s", r.Signature, by)
	line("Proof:     %s", r.Proof)
	if r.Log != nil {
		line("%s", r.Log.text())
	} else {
		line("Log:       not asked for")
	}
	if r.Finality != nil {
		line("%s", r.Finality.text(r.Signature, now))
	}
	if r.code == exitInvalid {
		return out.Bytes()
	}
	var final *finality.Result
	if r.Finality != nil {
		final = r.Finality.Result
	}
	if len(r.Proven) > 0 {
		where := "attested below"
		if final != nil {
			where = "proven below"
		}
		line("\nProven by the Merkle proof, whoever signed. It shows what the block with the hash\n"+
			"block.hash holds; that this block is the chain's is %s.", where)
		table(r.Proven)
	}
	if len(r.Transfers) > 0 {
		line("\nToken transfers in the proven logs (worth what the token's contract is worth)")
		for _, t := range r.Transfers {
			line("  %s from %s to %s", receipt.AmountOf(r.Receipt.Chain.ID, t.Token, t.Value), t.From, t.To)
		}
	}
	if final != nil {
		line("\nProven by the finality proof, whoever signed, as far as your checkpoint is right")
		table(final.Proven)
	}
	title := "Attested by the signer only; no proof within a block can show it"
	switch {
	case r.Signature != stateValid:
		title = "Only claimed: the signature, which would attest it, is not checked"
	case final != nil:
		title = "Attested by the signer only"
	case len(r.Proven) == 0:
		title = "Attested by the signer only; without a proof, that is everything"
	}
	line("\n%s", title)
	table(r.Attested)
	return out.Bytes()
}

// claim returns what the receipt says: a line, and another for its transfer.
func claim(r receipt.Receipt) string {
	outcome := "ended without a recorded status"
	if status := r.Outcome.Status; status != nil && *status == receipt.StatusSuccess {
		outcome = "succeeded"
	} else if status != nil {
		outcome = "was reverted"
	}
	text := fmt.Sprintf("Claim:     transaction %s %s in block %s of %s (%s), %s",
		r.Transaction.Hash, outcome, r.Block.Number, r.Chain.Name, r.Chain.ID, r.Block.Date())
	if r.Transfer != nil {
		text += "\nTransfer:  " + r.Transfer.SentenceOn(r.Chain.ID)
	}
	return text
}

func inspect(args []string, s streams) error {
	files, err := parse(flag.NewFlagSet("inspect", flag.ContinueOnError), args, 1)
	if err != nil {
		return err
	}
	data, err := readFile(files[0], s.in, receipt.MaxSize)
	if err != nil {
		return err
	}
	doc, err := receipt.Parse(data)
	if err != nil {
		return exitError{exitInvalid, err}
	}
	if err := writeJSON(s.out, doc.Receipt, " "); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "\n%s\nSigned by: %s\nProof:     %s\nNothing of this has been checked; receipt "+
		"verify does.\n",
		claim(doc.Receipt), doc.Signature.KeyID, size(doc.Proof))
	return err
}

func size(proof *receipt.Proof) string {
	if proof == nil {
		return stateAbsent
	}
	bytes := len(proof.HeaderRLP)
	for _, nodes := range [][]receipt.Hex{proof.Transaction, proof.Receipt} {
		for _, node := range nodes {
			bytes += len(node)
		}
	}
	return fmt.Sprintf("header, %d nodes to the transaction, %d to its receipt, %d bytes",
		len(proof.Transaction), len(proof.Receipt), bytes)
}
