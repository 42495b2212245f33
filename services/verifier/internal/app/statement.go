package app

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/config"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

// usd returns atomic units of a token with six decimals as US dollars. They may be negative. Text that
// is no number gives "".
func usd(atomic string) string {
	digits, isNegative := strings.CutPrefix(atomic, "-")
	n, ok := new(big.Int).SetString(digits, 10)
	switch {
	case !ok:
		return ""
	case isNegative:
		return "-" + x402.Dollars(n)
	}
	return x402.Dollars(n)
}

// writeCSV writes rows as CSV below a heading, whose names are separated by spaces. A cell that begins
// as a formula of a spreadsheet, and is no number, gets an apostrophe before it, also in the caller's rows.
func writeCSV(w io.Writer, heading string, rows [][]string) error {
	out := csv.NewWriter(w)
	if err := out.Write(strings.Split(heading, " ")); err != nil {
		return err
	}
	for _, row := range rows {
		for i, cell := range row {
			_, err := strconv.ParseFloat(cell, 64)
			if err != nil && cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r") {
				row[i] = "'" + cell
			}
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// printPayments prints payments as CSV.
func printPayments(w io.Writer, records []payment.Record) error {
	rows := make([][]string, 0, len(records))
	for _, r := range records {
		rows = append(rows, []string{
			r.Claimed.Format(time.RFC3339), payment.Month(r.Claimed), string(r.State), usd(r.Amount), r.Amount,
			r.Key.Network, r.Key.Asset, r.Key.Payer, r.PayTo, r.Transaction, r.Key.Nonce, r.Operation, r.Transport,
		})
	}
	return writeCSV(w, "claimed month state usd amount network asset payer payee transaction nonce operation transport",
		rows)
}

// splitOf returns what a total grouped by one of ledger.Groups is about: a month, or an operation,
// transport, day or payer.
func splitOf(t payment.Total, by string) string {
	if by == ledger.ByMonth {
		return t.Month
	}
	return t.Operation + t.Transport + t.Day + t.Payer
}

// printSums prints totals as CSV; by is the one of ledger.Groups that they are grouped by, or "".
func printSums(w io.Writer, totals []payment.Total, by string) error {
	rows := make([][]string, 0, len(totals))
	for _, t := range totals {
		net := ""
		if t.State == payment.Settled {
			net = cmp.Or(t.Net, t.Amount)
		}
		rows = append(rows, []string{
			t.Month, splitOf(t, by), string(t.State), strconv.Itoa(t.Payments), usd(t.Amount),
			usd(cmp.Or(t.Refunded, "0")), usd(net), t.Amount, cmp.Or(t.Refunded, "0"), net, t.Network, t.Asset,
		})
	}
	const columns = " state payments usd refunded_usd net_usd amount refunded net network asset"
	return writeCSV(w, "month "+cmp.Or(by, "all")+columns, rows)
}

// paymentsStatement is "verifier payments statement".
func (p Process) paymentsStatement(ctx context.Context, args []string) error {
	flags := service.Flags()
	closes := flags.Bool("close", false, "")
	asCSV, asJSON := flags.Bool("csv", false, ""), flags.Bool("json", false, "")
	words, err := service.Parse(flags, args, "a month like 2006-01")
	if err != nil {
		return err
	}
	month, err := time.Parse("2006-01", words[0])
	switch {
	case err != nil:
		return service.UsageError("payments statement: %q is no month like 2006-01", words[0])
	case *closes && p.clock().Before(payment.NextMonth(month)):
		return service.UsageError("payments statement: --close: %s has not ended (UTC)", words[0])
	}
	return p.with(ctx, func(ledger *ledger.Ledger, _ config.Ledger) error {
		if *closes {
			if err := ledger.CloseMonth(ctx, month, service.Operator()); err != nil {
				return err
			}
		}
		s, err := ledger.Statement(ctx, month)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return printJSON(p.Stdout, s)
		case *asCSV:
			return printStatementCSV(p.Stdout, s)
		}
		return printStatement(p.Stdout, s)
	})
}

func printStatementCSV(w io.Writer, s payment.Statement) error {
	var rows [][]string
	closed := ""
	if !s.Closed.IsZero() {
		closed = s.Closed.Format(time.RFC3339)
	}
	for _, line := range s.Lines {
		rows = append(rows, []string{
			s.Month, "income", closed, strconv.Itoa(line.Payments), usd(line.Amount), usd(line.Refunded), usd(line.Net),
			line.Net, line.Network, line.Asset, "", s.By, "",
		})
	}
	for _, c := range s.Corrections {
		at := ""
		if !c.At.IsZero() {
			at = c.At.Format(time.RFC3339)
		}
		rows = append(rows, []string{
			s.Month, "correction: " + c.Why, at, "", "", "", usd(c.Amount), c.Amount, c.Network, c.Asset, c.Nonce, c.By,
			c.Note,
		})
	}
	return writeCSV(w, "month line at payments usd refunded_usd net_usd net network asset nonce by note", rows)
}

func printStatement(w io.Writer, s payment.Statement) error {
	state := "not closed: its lines may still change"
	if !s.Closed.IsZero() {
		state = "closed " + s.Closed.Format(time.RFC3339) + " by " + s.By
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "Statement of %s (UTC), %s. Payments without an outcome: %d.\n", s.Month, state, s.Open)
	_, _ = fmt.Fprintln(table, "LINE\tPAYMENTS\tUSD\tREFUNDED\tNET\tNETWORK\tASSET\tNOTE")
	for _, line := range s.Lines {
		_, _ = fmt.Fprintf(table, "income\t%d\t%s\t%s\t%s\t%s\t%s\t\n", line.Payments, usd(line.Amount),
			usd(line.Refunded), usd(line.Net), line.Network, line.Asset)
	}
	for _, c := range s.Corrections {
		note := "by the chain, about a payment that was open or lost"
		if !c.At.IsZero() {
			note = fmt.Sprintf("%s %s by %s: %s", c.At.Format(time.RFC3339), c.Nonce, c.By, c.Note)
		}
		_, _ = fmt.Fprintf(table, "correction: %s\t\t\t\t%s\t%s\t%s\t%s\n", c.Why, usd(c.Amount), c.Network, c.Asset,
			note)
	}
	return table.Flush()
}
