package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
)

// finalityFlags are --finality and what belongs to it.
type finalityFlags struct {
	from, checkpoint, network string
	maxAge                    time.Duration
	required                  bool

	trust finality.Trust // after read
}

func (f *finalityFlags) define(flags *flag.FlagSet) {
	flags.StringVar(&f.from, "finality", "", "")
	flags.StringVar(&f.checkpoint, "checkpoint", "", "")
	flags.StringVar(&f.network, "network", "", "")
	flags.DurationVar(&f.maxAge, "max-checkpoint-age", finality.DefaultMaxAge, "")
	flags.BoolVar(&f.required, "require-finality", false, "")
}

func (f *finalityFlags) asked() bool { return f.from != "" || f.checkpoint != "" || f.required }

// read checks the flags and sets trust. An error of the flags is an exitError.
func (f *finalityFlags) read() error {
	switch {
	case f.from != "" && f.checkpoint == "":
		return usage("pin a checkpoint: without one a finality proof proves nothing")
	case f.from == "-" || f.network == "-":
		return usage("finality proof and network cannot come from the standard input")
	case !f.asked() && (f.network != "" || f.maxAge != finality.DefaultMaxAge):
		return usage("--network and --max-checkpoint-age say how to judge a --finality, and there is none")
	case f.maxAge <= 0:
		return usage("--max-checkpoint-age must be above 0")
	}
	f.trust.MaxAge = f.maxAge
	if f.checkpoint != "" {
		if err := f.trust.Checkpoint.UnmarshalText([]byte(strings.ToLower(f.checkpoint))); err != nil {
			return usage("--checkpoint is the root of a beacon block: 0x and 64 hexadecimal digits")
		}
	}
	if f.network == "" {
		return nil
	}
	var known bool
	if f.trust.Network, known = finality.NetworkByName(f.network); known {
		return nil
	}
	text, err := readFile(f.network, nil, finality.MaxSize)
	if errors.Is(err, os.ErrNotExist) {
		return usage("--network is mainnet, sepolia, hoodi or a file: %w", err)
	}
	if err != nil {
		return err
	}
	if f.trust.Network, err = finality.ParseNetwork(text); err != nil {
		return usage("%s: %w", f.network, err)
	}
	return nil
}

// finalityReport is what is known about the block's finality, in the form of its JSON.
type finalityReport struct {
	State  string           `json:"state"`            // valid, not valid, absent, not checked
	Reason string           `json:"reason,omitempty"` // why it is absent
	Result *finality.Result `json:"result,omitempty"`
}

// errNoFinality says in a sentence why there is no finality proof.
type errNoFinality string

func (e errNoFinality) Error() string { return string(e) }

// checkFinality gets a finality document and checks that it shows the receipt's block to be final.
// Without a document only the receipt's signature says that the block is final, which is an error
// if the flags require a proof.
func (r *report) checkFinality(ctx context.Context, doc receipt.Document, f finalityFlags) {
	r.Finality = &finalityReport{State: stateInvalid}
	data, err := f.document(ctx, doc.Receipt)
	var absent errNoFinality
	var failed exitError
	switch {
	case errors.As(err, &absent):
		*r.Finality = finalityReport{State: stateAbsent, Reason: err.Error()}
		if f.required {
			r.fail(exitInvalid, errors.New("there is no finality proof"))
		}
		return
	case errors.As(err, &failed):
		r.Finality.State = stateNotChecked
		r.fail(failed.code, fmt.Errorf("finality proof: %w", failed.err))
		return
	}
	if r.Proof == stateValid {
		f.trust.Header = doc.Proof.HeaderRLP
	}
	document, err := finality.Parse(data)
	if err == nil {
		r.Finality.Result, err = finality.Verify(&doc.Receipt, document, f.trust)
	}
	if err != nil {
		r.fail(exitInvalid, fmt.Errorf("NOT SHOWN TO BE FINAL: %w", err))
		return
	}
	r.Finality.State = stateValid
	if r.Proof != stateInvalid {
		r.Attested = receipt.Attested(doc.Receipt, slices.Concat(r.Proven, r.Finality.Result.Proven))
	}
}

// document reads the finality document from a file or an address. Its error is an errNoFinality
// when there is none, or else an exitError.
func (f *finalityFlags) document(ctx context.Context, r receipt.Receipt) ([]byte, error) {
	path := "/v1/finality/" + r.Chain.Name + "/" + r.Block.Hash
	if _, known := finality.NetworkOf(r.Chain.ID); !known && f.trust.Network == nil && (f.from == "" ||
		strings.Contains(f.from, "://")) {
		return nil, errNoFinality("no finality proof exists for this chain yet.")
	}
	if f.from == "" {
		return nil, errNoFinality("No finality proof was given; ask for one at " + path)
	}
	if !strings.Contains(f.from, "://") {
		data, err := readFile(f.from, nil, finality.MaxSize)
		if err != nil {
			return nil, exitError{exitIO, err}
		}
		return data, nil
	}
	target, err := url.Parse(f.from)
	if err != nil {
		return nil, usage("not a URL")
	}
	if target.Path == "" || target.Path == "/" {
		target.Path = path
	}
	query := target.Query()
	query.Set("checkpoint", f.trust.Checkpoint.String())
	target.RawQuery = query.Encode()
	status, data, err := get(ctx, target, trusted, "a finality proof", finality.MaxSize)
	if err != nil {
		return nil, exitError{exitNoKey, err}
	}
	switch status {
	case http.StatusOK:
		return data, nil
	case http.StatusAccepted:
		return nil, errNoFinality("The finality proof is not made yet; ask again in some minutes.")
	case http.StatusNotFound:
		return nil, errNoFinality(target.Host + " has no finality proof of this block.")
	case http.StatusUnprocessableEntity:
		return nil, errNoFinality(target.Host + " cannot prove it from your checkpoint: it does not know that " +
			"checkpoint, or the checkpoint is too old.")
	case http.StatusServiceUnavailable:
		return nil, errNoFinality(target.Host + " cannot make the finality proof now; ask again in some minutes.")
	}
	return nil, exitError{exitNoKey, fmt.Errorf("%s answers %d %s", target.Redacted(), status, http.StatusText(status))}
}

// text returns what is known about the block's finality, for people who read it now, without the
// end of the line. Without a proof only the signature says that the block is final; signature is
// its state.
func (f *finalityReport) text(signature string, now time.Time) string {
	word := "attested by the signer only"
	if signature != stateValid {
		word = "only claimed, by a signature that is " + signature
	}
	var sentences []string
	switch {
	case f.State == stateValid:
		sentences = f.Result.Sentences()
		if warning := f.Result.Warning(now); warning != "" {
			sentences = append(sentences, warning)
		}
	case f.State != stateAbsent:
		sentences = []string{f.State}
	case strings.HasPrefix(f.Reason, "no "):
		sentences = []string{word + "; " + f.Reason}
	default:
		sentences = []string{word + ". " + f.Reason}
	}
	for i := range sentences {
		sentences[i] = printable(sentences[i])
	}
	return "Final:     " + strings.Join(sentences, "\n  ")
}
