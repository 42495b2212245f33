package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/config"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

// states are what --state takes.
var states = []payment.State{payment.Working, payment.Settling, payment.Settled, payment.Dead, payment.Unknown}

// payments shows the operator what was earned, and lets them decide what is open.
func payments(ctx context.Context, e Env) (err error) {
	if len(e.Args) > 1 && e.Args[1] == "resolve" {
		return resolve(ctx, e)
	}
	if len(e.Args) < 2 || (e.Args[1] != "list" && e.Args[1] != "sum") {
		return fmt.Errorf("payments takes list, sum or resolve; %w", ErrUsage)
	}
	list := e.Args[1] == "list"
	filter, asJSON, err := paymentFlags(e.Args[2:], list)
	if err != nil {
		return err
	}
	cfg, err := config.LoadLedger(e.Getenv)
	if err != nil {
		return err
	}
	ledger, err := ledger.Open(ctx, cfg.DatabaseURL, time.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	if list {
		records, err := ledger.List(ctx, filter)
		if err != nil {
			return err
		}
		return printRecords(e.Stdout, records, asJSON)
	}
	totals, err := ledger.Totals(ctx, filter)
	if err != nil {
		return err
	}
	return printTotals(e.Stdout, totals, asJSON)
}

func paymentFlags(args []string, list bool) (payment.Filter, bool, error) {
	flags := flag.NewFlagSet("payments", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	state := flags.String("state", "", "")
	from, before := flags.String("from", "", ""), flags.String("before", "", "")
	asJSON := flags.Bool("json", false, "")
	limit := new(int)
	if list {
		limit = flags.Int("limit", 100, "")
	}
	if err := flags.Parse(args); err != nil {
		return payment.Filter{}, false, fmt.Errorf("%w; %w", err, ErrUsage)
	}
	filter := payment.Filter{State: payment.State(*state), Limit: *limit}
	var faults []error
	if flags.NArg() > 0 {
		faults = append(faults, fmt.Errorf("unknown argument %q", flags.Arg(0)))
	}
	if *state != "" && !slices.Contains(states, filter.State) {
		faults = append(faults, fmt.Errorf("--state: %q is none of %v", *state, states))
	}
	for _, day := range []struct {
		name, text string
		into       *time.Time
	}{{"from", *from, &filter.From}, {"before", *before, &filter.Before}} {
		var err error
		if day.text == "" {
			continue
		}
		if *day.into, err = time.Parse(time.DateOnly, day.text); err != nil {
			faults = append(faults, fmt.Errorf("--%s: %q is not a date like 2006-01-02", day.name, day.text))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return filter, false, fmt.Errorf("%w; %w", err, ErrUsage)
	}
	return filter, *asJSON, nil
}

// row is a payment as the operator sees it.
type row struct {
	Claimed     time.Time     `json:"claimed"`
	State       payment.State `json:"state"`
	Network     string        `json:"network"`
	Asset       string        `json:"asset"`
	Payer       string        `json:"payer"`
	Nonce       string        `json:"nonce"`
	Amount      string        `json:"amount"`
	Resource    string        `json:"resource"`
	Transaction string        `json:"transaction,omitempty"`
	Reason      string        `json:"reason,omitempty"`
}

func printRecords(w io.Writer, records []payment.Record, asJSON bool) error {
	rows := make([]row, 0, len(records))
	for _, r := range records {
		rows = append(rows, row{
			Claimed: r.Claimed, State: r.State, Network: r.Key.Network, Asset: r.Key.Asset, Payer: r.Key.Payer, Nonce: r.Key.Nonce,
			Amount: r.Amount, Resource: r.Resource, Transaction: r.Transaction, Reason: r.Reason,
		})
	}
	if asJSON {
		return printJSON(w, rows)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "CLAIMED\tSTATE\tAMOUNT\tPAYER\tTRANSACTION\tREASON")
	for _, r := range rows {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n",
			r.Claimed.Format(time.RFC3339), r.State, r.Amount, r.Payer, r.Transaction, r.Reason)
	}
	return table.Flush()
}

// totalRow is a sum as the operator sees it.
type totalRow struct {
	Month    string        `json:"month"`
	State    payment.State `json:"state"`
	Network  string        `json:"network"`
	Asset    string        `json:"asset"`
	Payments int           `json:"payments"`
	Amount   string        `json:"amount"`
}

func printTotals(w io.Writer, totals []payment.Total, asJSON bool) error {
	rows := make([]totalRow, 0, len(totals))
	for _, t := range totals {
		rows = append(rows, totalRow{t.Month, t.State, t.Network, t.Asset, t.Payments, t.Amount})
	}
	if asJSON {
		return printJSON(w, rows)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "MONTH\tSTATE\tPAYMENTS\tAMOUNT (ATOMIC UNITS)\tNETWORK\tASSET")
	for _, t := range rows {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\n", t.Month, t.State, t.Payments, t.Amount, t.Network, t.Asset)
	}
	return table.Flush()
}

func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
