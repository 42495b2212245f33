package app

import (
	"context"
	"errors"
	"flag"

	"github.com/pforte/pforte/pkg/receipt"
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
	Transfers []receipt.Transfer `json:"transfers"` // ERC-20, from proven logs

	code int
}

func verify(ctx context.Context, args []string, streams Streams) error {
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	from := flags.String("key", "", "")
	asJSON := flags.Bool("json", false, "")
	requireProof := flags.Bool("require-proof", false, "")
	files, err := parse(flags, args, 1)
	if err != nil {
		return err
	}
	if files[0] == "-" && *from == "-" {
		return exitError{exitUsage, errors.New("verify: receipt and key cannot both come from the standard input")}
	}
	data, err := readFile(files[0], streams.In, receipt.MaxSize)
	if err != nil {
		return err
	}
	r := check(data, func() (receipt.KeyDocument, error) {
		if *from == "" {
			return receipt.KeyDocument{}, exitError{exitNoKey, errors.New("no key given (--key), so the signature is not checked")}
		}
		return keyDocument(ctx, *from, streams.In)
	}, *requireProof)
	write := writeText
	if *asJSON {
		write = writeJSON
	}
	if err := write(streams.Out, r); err != nil {
		return err
	}
	if r.code != exitValid {
		return exitError{r.code, errPrinted}
	}
	return nil
}

// check does all that can be done: without a key the proof is still looked at.
func check(data []byte, keys func() (receipt.KeyDocument, error), requireProof bool) report {
	r := report{
		Signature: stateNotChecked, Proof: stateNotChecked,
		Proven: []receipt.Fact{}, Attested: []receipt.Fact{}, Transfers: []receipt.Transfer{},
	}
	doc, err := receipt.Parse(data)
	if err != nil {
		return r.fail(exitInvalid, err)
	}
	r.Receipt = &doc.Receipt
	r.checkProof(doc, requireProof)
	if trusted, err := keys(); err != nil {
		r = r.fail(exitNoKey, err)
	} else {
		r.checkSignature(doc, trusted)
	}
	r.Valid = r.code == exitValid
	return r
}

func (r *report) checkProof(doc receipt.Document, required bool) {
	if doc.Proof == nil {
		r.Proof = stateAbsent
		if required {
			*r = r.fail(exitInvalid, errors.New("there is no proof"))
		}
		r.Attested = receipt.Attested(doc.Receipt, nil)
		return
	}
	proven, logs, err := receipt.VerifyProof(doc.Receipt, *doc.Proof)
	if err != nil {
		r.Proof = stateInvalid
		*r = r.fail(exitInvalid, err)
		return
	}
	r.Proof, r.Proven, r.Attested = stateValid, proven, receipt.Attested(doc.Receipt, proven)
	for _, log := range logs {
		if transfer, ok := log.Transfer(); ok {
			r.Transfers = append(r.Transfers, transfer)
		}
	}
}

func (r *report) checkSignature(doc receipt.Document, keys receipt.KeyDocument) {
	key, err := doc.VerifySignature(keys)
	if err != nil {
		r.Signature = stateInvalid
		*r = r.fail(exitInvalid, err)
		return
	}
	r.Signature, r.Key = stateValid, &key
}

// fail keeps the first reason and the gravest code: an invalid receipt is
// invalid, whether or not there is a key.
func (r report) fail(code int, err error) report {
	if r.code != exitInvalid {
		r.code = code
	}
	if r.Error == "" {
		r.Error = err.Error()
	} else {
		r.Error += "; " + err.Error()
	}
	return r
}
