package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/logging"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/config"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// exitCodes makes a command end with 2 for a command line that is wrong and with 3 while
// a process works on the payment.
func exitCodes(command service.Command) service.Command {
	return func(ctx context.Context, args []string) error {
		err := command(ctx, args)
		switch {
		case service.IsUsage(err):
			return service.ExitError{Err: err, Code: 2}
		case errors.Is(err, payment.ErrUnderWay):
			return service.ExitError{Err: err, Code: 3}
		}
		return err
	}
}

// paymentDetails is a payment as show prints it, with the decisions and refunds about it.
type paymentDetails struct {
	row
	Identifier  string             `json:"identifier,omitempty"`
	PayTo       string             `json:"payTo"`
	ValidBefore time.Time          `json:"validBefore"`
	Changed     time.Time          `json:"changed"`
	Month       string             `json:"month,omitempty"`
	Retries     int                `json:"repeats,omitempty"`
	Decisions   []payment.Decision `json:"decisions,omitempty"`
	Refunds     []payment.Refund   `json:"refunds,omitempty"`
}

// paymentsShow is "verifier payments show".
func (p Process) paymentsShow(ctx context.Context, args []string) error {
	flags := service.Flags()
	asJSON := flags.Bool("json", false, "")
	words, err := service.Parse(flags, args, "a nonce or a transaction")
	if err != nil {
		return err
	}
	return p.with(ctx, func(ledger *ledger.Ledger, _ config.Ledger) error {
		r, err := p.one(ctx, ledger, words[0])
		if err != nil {
			return err
		}
		shown := paymentDetails{
			row: rowOf(r, p.clock()), Identifier: r.Identifier, PayTo: r.PayTo, ValidBefore: r.ValidBefore,
			Changed: r.Changed, Month: r.Month, Retries: r.Retries,
		}
		if r.State == payment.Unknown {
			shown.Next = next(r, p.clock(), p.hasNode(r.Key.Network))
		}
		if shown.Decisions, shown.Refunds, err = ledger.Books(ctx, r.Key); err != nil {
			return err
		}
		if *asJSON {
			return printJSON(p.Stdout, shown)
		}
		return p.print(shown)
	})
}

// print prints a payment line by line.
func (p Process) print(s paymentDetails) error {
	var text strings.Builder
	for _, line := range [][2]string{
		{"state", string(s.State)},
		{"claimed", s.Claimed.Format(time.RFC3339)},
		{"changed", s.Changed.Format(time.RFC3339)},
		{"operation", s.Operation},
		{"transport", s.Transport},
		{"resource", s.Resource},
		{"amount", s.Amount},
		{"network", s.Network},
		{"asset", s.Asset},
		{"payer", s.Payer},
		{"payee", s.PayTo},
		{"nonce", s.Nonce},
		{"valid before", s.ValidBefore.Format(time.RFC3339)},
		{"identifier", s.Identifier},
		{"transaction", s.Transaction},
		{"reason", s.Reason},
		{"month", s.Month},
		{"next", s.Next},
	} {
		if line[1] != "" {
			fmt.Fprintf(&text, "%-13s %s\n", line[0], line[1])
		}
	}
	for _, d := range s.Decisions {
		fmt.Fprintf(&text, "decided       %s %s: %s to %s %s: %s\n", d.At.Format(time.RFC3339), d.By, d.From, d.To,
			d.Transaction, d.Note)
	}
	for _, r := range s.Refunds {
		proof := "not proven"
		if r.Proven {
			proof = "proven"
		}
		fmt.Fprintf(&text, "refunded      %s %s: %s by %s, %s: %s\n", r.At.Format(time.RFC3339), r.By, r.Amount,
			r.Transaction, proof, r.Note)
	}
	_, err := p.Stdout.Write([]byte(text.String()))
	return err
}

func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// one returns the one payment with a nonce or a transaction. None is an error, and so are several,
// which it prints.
func (p Process) one(ctx context.Context, ledger *ledger.Ledger, text string) (payment.Record, error) {
	found, err := ledger.Find(ctx, text)
	switch {
	case err != nil:
		return payment.Record{}, err
	case len(found) == 0:
		return payment.Record{}, errors.New("there is no payment with that nonce or transaction")
	case len(found) == 1:
		return found[0], nil
	}
	rows := make([]row, len(found))
	for i, r := range found {
		rows[i] = rowOf(r, p.clock())
	}
	if err := printRows(p.Stdout, rows, false, listHeading+"\tNONCE",
		func(r row) []any { return append(listCells(r), r.Nonce) }); err != nil {
		return payment.Record{}, err
	}
	return payment.Record{}, fmt.Errorf("there are %d such payments", len(found))
}

// lookTimeout bounds how long a command about one payment reads the payment network and writes.
const lookTimeout = 30 * time.Second

// look is what became of a payment, as the payment network shows it.
type look struct {
	Nonce string        `json:"nonce"`
	State payment.State `json:"state"`
	// Chain is a payment.AuthorizationStatus: unspent, paid, elsewhere, expired or reverted.
	Chain       string `json:"chain"`
	Transaction string `json:"transaction,omitempty"`
	// Decides is the state that follows for an open payment, or for a dead one that was paid after
	// all; empty if none. Written reports whether it was written.
	Decides payment.State `json:"decides,omitempty"`
	Written bool          `json:"written"`
}

// paymentsLook is "verifier payments look".
func (p Process) paymentsLook(ctx context.Context, args []string) error {
	flags := service.Flags()
	write, asJSON := flags.Bool("write", false, ""), flags.Bool("json", false, "")
	words, err := service.Parse(flags, args, "a nonce")
	if err != nil {
		return err
	}
	return p.decide(ctx, p.named(words[0]), func(ctx context.Context, b books) error {
		if b.network == nil {
			return errors.New("no node of the payment network is configured (PAYMENT_RPC_URL)")
		}
		if *write && (b.record.State == payment.Working || b.record.State == payment.Settling) {
			return payment.ErrUnderWay
		}
		found, outcome, err := paywall.Look(ctx, b.network, b.record)
		if err != nil {
			return err
		}
		seen := look{
			Nonce: b.record.Key.Nonce, State: b.record.State, Chain: found.Status.String(),
			Transaction: found.Transaction,
		}
		if outcome.State != b.record.State {
			seen.Decides = outcome.State
		}
		if *write && seen.Decides != "" {
			d := payment.Decision{
				From: b.record.State, To: outcome.State, Transaction: outcome.Transaction, By: service.Operator(),
				Note: "the chain: " + seen.Chain,
			}
			ended, err := b.Apply(ctx, b.record.Key,
				payment.Event{
					Kind: payment.EventDecision, By: payment.ByOperator, Outcome: outcome, Decision: d,
				})
			if err != nil {
				return err
			}
			seen.Decides, d.To = ended.State, ended.State // the money may be another copy's
			b.decided(d, "shows")
			seen.Written = true
		}
		if *asJSON {
			return printJSON(p.Stdout, seen)
		}
		_, err = fmt.Fprintf(p.Stdout, "state %s, chain %s %s\n%s", seen.State, seen.Chain, seen.Transaction,
			seen.consequence())
		return err
	})
}

// consequence describes in one line what follows for the payment; "" when nothing does.
func (l look) consequence() string {
	switch {
	case l.Written:
		return fmt.Sprintf("written: it is %s\n", l.Decides)
	case l.Decides != "":
		return fmt.Sprintf("--write makes it %s\n", l.Decides)
	}
	return ""
}

// paymentsDecide is "verifier payments decide".
func (p Process) paymentsDecide(ctx context.Context, args []string) error {
	var d payment.Decision
	flags := service.Flags()
	flags.StringVar(&d.Transaction, "transaction", "", "")
	flags.StringVar(&d.Note, "note", "", "")
	unchecked := flags.Bool("unchecked", false, "")
	words, err := service.Parse(flags, args, "a nonce", "settled or dead")
	if err != nil {
		return err
	}
	if d.Note == "" {
		return service.UsageError("payments decide: --note is missing")
	}
	return p.decideAs(ctx, "payments decide", words[1], d, *unchecked, p.named(words[0]))
}

// decideAs decides that the payment of find is in the state, "settled" or "dead". Errors about the
// command line begin with the command.
func (p Process) decideAs(
	ctx context.Context, command, state string, d payment.Decision, unchecked bool, find finder,
) error {
	d.To, d.Transaction, d.By = payment.State(state), strings.ToLower(d.Transaction), service.Operator()
	switch {
	case d.To != payment.Settled && d.To != payment.Dead:
		return service.UsageError("%s: the state is settled or dead", command)
	case d.To == payment.Settled && !payment.IsTransaction(d.Transaction):
		return service.UsageError("%s: a settled payment needs --transaction, a hash of 32 bytes", command)
	case d.To == payment.Dead && (d.Transaction != "" || unchecked):
		return service.UsageError(
			"%s: a dead payment has no --transaction, and is always checked where there is a node", command)
	}
	return p.decide(ctx, find, func(ctx context.Context, b books) error {
		d.From = b.record.State
		chain, err := paywall.Decide(ctx, b, b.network, p.clock(), b.record, d, unchecked)
		if err == nil {
			b.decided(d, chain)
		}
		return err
	})
}

// paymentsRefund is "verifier payments refund".
func (p Process) paymentsRefund(ctx context.Context, args []string) error {
	var refund payment.Refund
	flags := service.Flags()
	flags.StringVar(&refund.Transaction, "transaction", "", "")
	flags.StringVar(&refund.Amount, "amount", "", "")
	flags.StringVar(&refund.Note, "note", "", "")
	words, err := service.Parse(flags, args, "a nonce")
	if err != nil {
		return err
	}
	refund.Transaction, refund.By = strings.ToLower(refund.Transaction), service.Operator()
	switch {
	case !payment.IsTransaction(refund.Transaction):
		return service.UsageError("payments refund: --transaction must be a 32-byte hash")
	case !payment.IsAmount(refund.Amount):
		return service.UsageError("payments refund: --amount must be a number of atomic units")
	case refund.Note == "":
		return service.UsageError("payments refund: --note is missing")
	}
	return p.decide(ctx, p.named(words[0]), func(ctx context.Context, b books) error {
		if err := paywall.Refund(ctx, b, b.network, b.record, refund); err != nil {
			return err
		}
		b.log.Warn("a refund was booked", "by", refund.By, "payer", b.record.Key.Payer, "nonce", b.record.Key.Nonce,
			"transaction", refund.Transaction, "amount", refund.Amount, "proven", b.network != nil, "note", refund.Note)
		return nil
	})
}

// books are what decide calls a command with: the ledger, the one payment, its payment network, nil
// where no node of it is configured, and the log.
type books struct {
	*ledger.Ledger
	record  payment.Record
	network paywall.PaymentNetwork
	log     *slog.Logger
}

// decided logs a decision; chain is "shows" where it follows from the chain, else as paywall.Decide returns it.
func (b books) decided(d payment.Decision, chain string) {
	b.log.Warn("a payment was decided by hand", "by", d.By, "from", d.From, "to", d.To, "note", d.Note, "chain", chain,
		"network", b.record.Key.Network, "asset", b.record.Key.Asset, "payer", b.record.Key.Payer, "nonce",
		b.record.Key.Nonce, "transaction", d.Transaction)
}

// finder returns the one payment that a command is about.
type finder func(context.Context, *ledger.Ledger) (payment.Record, error)

// named returns the finder of the payment whose nonce or transaction is nonce.
func (p Process) named(nonce string) finder {
	return func(ctx context.Context, ledger *ledger.Ledger) (payment.Record, error) {
		return p.one(ctx, ledger, nonce)
	}
}

// decide calls do with the books of the payment that find returns. The context of do ends after
// lookTimeout.
func (p Process) decide(ctx context.Context, find finder, do func(context.Context, books) error) error {
	return p.with(ctx, func(ledger *ledger.Ledger, cfg config.Ledger) error {
		log, err := logging.New(p.Stderr, cfg.LogLevel)
		if err != nil {
			return err
		}
		r, err := find(ctx, ledger)
		if err != nil {
			return err
		}
		network, err := p.chainLog(r.Key.Network)
		if err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		err = do(bounded, books{ledger, r, network, log})
		if errors.Is(err, payment.ErrLost) {
			err = errors.New("the payment has changed meanwhile")
		}
		return err
	})
}
