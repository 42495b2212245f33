package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/pforte/pforte/pkg/receipt"
)

func writeJSON(out io.Writer, r report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = out.Write(append(text, '\n'))
	return err
}

// writeText prints what was found, for people.
func writeText(out io.Writer, r report) error {
	var text bytes.Buffer
	r.headline(&text)
	if r.code != exitInvalid {
		r.facts(&text)
	}
	_, err := out.Write(text.Bytes())
	return err
}

func (r report) headline(out *bytes.Buffer) {
	switch r.code {
	case exitInvalid:
		printLine(out, "NOT VALID: %s", printable(r.Error))
	case exitNoKey:
		printLine(out, "NOT DECIDED: %s", printable(r.Error))
	default:
		printLine(out, "VALID")
	}
	printLine(out, "")
	if r.Receipt != nil {
		printLine(out, "%s", claim(*r.Receipt))
	}
	printLine(out, "Signature: %s%s", r.Signature, r.by())
	printLine(out, "Proof:     %s", r.Proof)
}

func (r report) by() string {
	if r.Key == nil {
		return ""
	}
	return fmt.Sprintf(", by the %s key %s", r.Key.Status, r.Key.KeyID)
}

// claim is the receipt in one sentence.
func claim(r receipt.Receipt) string {
	outcome := "ended without a recorded status"
	if status := r.Outcome.Status; status != nil && *status == receipt.StatusSuccess {
		outcome = "succeeded"
	} else if status != nil {
		outcome = "was reverted"
	}
	return fmt.Sprintf("Claim:     transaction %s %s in block %s of %s (%s)",
		r.Transaction.Hash, outcome, r.Block.Number, r.Chain.Name, r.Chain.ID)
}

func (r report) facts(out *bytes.Buffer) {
	if len(r.Proven) > 0 {
		printLine(out, "\nProven by the Merkle proof, whoever signed. It shows what the block with the hash\n"+
			"block.hash holds; that this block is the chain's is attested below.")
		table(out, r.Proven)
	}
	if len(r.Transfers) > 0 {
		printLine(out, "\nToken transfers in the proven logs (atomic units; worth what the token's contract is worth)")
		for _, t := range r.Transfers {
			printLine(out, "  %s of token %s from %s to %s", t.Value, t.Token, t.From, t.To)
		}
	}
	if len(r.Attested) > 0 {
		printLine(out, "\n%s", r.attestedTitle())
		table(out, r.Attested)
	}
}

func (r report) attestedTitle() string {
	switch {
	case r.Signature != stateValid:
		return "Only claimed: the signature, which would attest it, is not checked"
	case len(r.Proven) == 0:
		return "Attested by the signer only; without a proof, that is everything"
	default:
		return "Attested by the signer only; no proof within a block can show it"
	}
}

func table(out *bytes.Buffer, facts []receipt.Fact) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, fact := range facts {
		_, _ = fmt.Fprintf(w, "  %s\t%s\t%s\n", fact.Field, fact.Value, fact.How)
	}
	_ = w.Flush() // into memory: cannot fail
}

func printLine(out *bytes.Buffer, format string, args ...any) {
	out.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

// printable keeps a hostile document from writing to the terminal through the
// name of a member that an error quotes.
func printable(text string) string {
	return strings.Map(func(char rune) rune {
		if !unicode.IsPrint(char) && char != '\n' {
			return '?'
		}
		return char
	}, text)
}
