package app

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/config"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/chainlog"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// states are the values of --state.
var states = []payment.State{payment.Working, payment.Settling, payment.Settled, payment.Dead, payment.Unknown}

// row is a payment as it is printed.
type row struct {
	Claimed     time.Time     `json:"claimed"`
	State       payment.State `json:"state"`
	Network     string        `json:"network"`
	Asset       string        `json:"asset"`
	Payer       string        `json:"payer"`
	Nonce       string        `json:"nonce"`
	Amount      string        `json:"amount"`
	Resource    string        `json:"resource"`
	Operation   string        `json:"operation"`
	Transport   string        `json:"transport"`
	AgeSeconds  int64         `json:"ageSeconds"`
	Transaction string        `json:"transaction,omitempty"`
	Reason      string        `json:"reason,omitempty"`
	// Next is what the operator can do about an open payment.
	Next string `json:"next,omitempty"`
}

// rowOf returns a record as it is printed, with its age at now and without Next.
func rowOf(r payment.Record, now time.Time) row {
	return row{
		Claimed: r.Claimed, State: r.State, Network: r.Key.Network, Asset: r.Key.Asset, Payer: r.Key.Payer,
		Nonce: r.Key.Nonce, Amount: r.Amount, Resource: r.Resource, Operation: r.Operation, Transport: r.Transport,
		AgeSeconds: int64(now.Sub(r.Claimed) / time.Second), Transaction: r.Transaction, Reason: r.Reason,
	}
}

func (r row) age() time.Duration { return time.Duration(r.AgeSeconds) * time.Second }

// next returns what the operator can do about an open payment. hasNode reports whether
// a node of the payment network is configured.
func next(r payment.Record, now time.Time, hasNode bool) string {
	switch ends := r.ValidBefore.Add(paywall.DecidableAfter); {
	case now.Before(ends):
		return "wait until " + ends.Format(time.RFC3339) + ", when the authorization has ended for certain"
	case hasNode:
		return "payments look " + r.Key.Nonce + " --write"
	default:
		return "look the nonce up in an explorer, then payments decide " + r.Key.Nonce
	}
}

// paymentsList is "verifier payments list".
func (p Process) paymentsList(ctx context.Context, args []string) error {
	flags := service.Flags()
	limit, asCSV := flags.Int("limit", 100, ""), flags.Bool("csv", false, "")
	operation, transport := flags.String("operation", "", ""), flags.String("transport", "", "")
	payer, open := flags.String("payer", "", ""), flags.Bool("open", false, "")
	filter, asJSON, err := paymentFilter(flags, args)
	if err != nil {
		return err
	}
	filter.Limit, filter.Operation, filter.Transport, filter.Payer = *limit, *operation, *transport,
		strings.ToLower(*payer)
	if *open {
		if filter.State != "" && filter.State != payment.Unknown {
			return service.UsageError("payments list: --open lists the unknown ones")
		}
		filter.State, filter.Oldest = payment.Unknown, true
	}
	return p.with(ctx, func(ledger *ledger.Ledger, _ config.Ledger) error {
		records, err := ledger.List(ctx, filter)
		if err != nil {
			return err
		}
		now := p.clock()
		rows := make([]row, len(records))
		hasNode := map[string]bool{} // by network: to read the settings for each row takes long
		for i, r := range records {
			if rows[i] = rowOf(r, now); !*open {
				continue
			}
			if _, known := hasNode[r.Key.Network]; !known {
				hasNode[r.Key.Network] = p.hasNode(r.Key.Network)
			}
			rows[i].Next = next(r, now, hasNode[r.Key.Network])
		}
		if *asCSV {
			return printPayments(p.Stdout, records)
		}
		if *open {
			return printRows(p.Stdout, rows, asJSON,
				"CLAIMED\tAGE\tAMOUNT\tPAYER\tNONCE\tOPERATION\tTRANSPORT\tREASON\tNEXT", func(r row) []any {
					return []any{
						r.Claimed.Format(time.RFC3339), r.age(), r.Amount, r.Payer, r.Nonce, r.Operation, r.Transport,
						r.Reason, r.Next,
					}
				})
		}
		return printRows(p.Stdout, rows, asJSON, listHeading, listCells)
	})
}

const listHeading = "CLAIMED\tSTATE\tAMOUNT\tPAYER\tTRANSACTION\tREASON\tOPERATION\tTRANSPORT\tAGE"

func listCells(r row) []any {
	return []any{
		r.Claimed.Format(time.RFC3339), r.State, r.Amount, r.Payer, r.Transaction, r.Reason, r.Operation, r.Transport,
		r.age(),
	}
}

// paymentsSum is "verifier payments sum".
func (p Process) paymentsSum(ctx context.Context, args []string) error {
	flags := service.Flags()
	by, asCSV := flags.String("by", "", ""), flags.Bool("csv", false, "")
	filter, asJSON, err := paymentFilter(flags, args)
	if err == nil && *by != "" && !slices.Contains(ledger.Groups(), *by) {
		err = service.UsageError("payments sum: --by is none of %v", ledger.Groups())
	}
	if err != nil {
		return err
	}
	return p.with(ctx, func(ledger *ledger.Ledger, _ config.Ledger) (err error) {
		var totals []payment.Total
		heading := "MONTH\tSTATE\tPAYMENTS\tAMOUNT (ATOMIC UNITS)\tNETWORK\tASSET\tREFUNDED\tNET"
		if *by == "" {
			totals, err = ledger.Totals(ctx, filter)
		} else {
			heading = strings.ToUpper(*by) + "\t" + heading
			totals, err = ledger.Grouped(ctx, filter, *by)
		}
		if err != nil {
			return err
		}
		if *asCSV {
			return printSums(p.Stdout, totals, *by)
		}
		return printRows(p.Stdout, totals, asJSON, heading, func(t payment.Total) []any {
			net := "-" // dead and open payments are no income
			if t.State == payment.Settled {
				net = cmp.Or(t.Net, t.Amount)
			}
			cells := []any{t.Month, t.State, t.Payments, t.Amount, t.Network, t.Asset, cmp.Or(t.Refunded, "0"), net}
			if *by != "" {
				cells = slices.Insert(cells, 0, any(splitOf(t, *by)))
			}
			return cells
		})
	})
}

// paymentFilter adds the flags that list and sum share, parses the arguments, and returns what these flags say.
func paymentFilter(flags *flag.FlagSet, args []string) (filter payment.Filter, asJSON bool, err error) {
	flags.Func("state", "", func(text string) error {
		if filter.State = payment.State(text); !slices.Contains(states, filter.State) {
			return fmt.Errorf("none of %v", states)
		}
		return nil
	})
	date := func(into *time.Time) func(string) error {
		return func(text string) (err error) {
			if *into, err = time.Parse(time.DateOnly, text); err != nil {
				return errors.New("not a date like 2006-01-02")
			}
			return nil
		}
	}
	flags.Func("from", "", date(&filter.From))
	flags.Func("before", "", date(&filter.Before))
	flags.BoolVar(&asJSON, "json", false, "")
	_, err = service.Parse(flags, args)
	return filter, asJSON, err
}

// printRows prints rows as a JSON array, or as a table with the cells of each.
func printRows[T any](w io.Writer, rows []T, asJSON bool, heading string, cells func(T) []any) error {
	if asJSON {
		return printJSON(w, append([]T{}, rows...)) // without rows it is [] and not null
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, heading)
	format := strings.Repeat("%v\t", strings.Count(heading, "\t")) + "%v\n"
	for _, r := range rows {
		_, _ = fmt.Fprintf(table, format, cells(r)...)
	}
	return table.Flush()
}

// paymentsResolve is "verifier payments resolve": payments decide for scripts that name a payment
// by payer and nonce.
func (p Process) paymentsResolve(ctx context.Context, args []string) error {
	var key payment.Key
	var d payment.Decision
	flags := service.Flags()
	flags.StringVar(&key.Payer, "payer", "", "")
	flags.StringVar(&key.Nonce, "nonce", "", "")
	flags.StringVar(&key.Network, "network", "", "")
	flags.StringVar(&key.Asset, "asset", "", "")
	flags.StringVar(&d.Transaction, "transaction", "", "")
	flags.StringVar(&d.Note, "reason", "", "")
	unchecked := flags.Bool("unchecked", false, "")
	words, err := service.Parse(flags, args, "settled or dead")
	if err != nil {
		return err
	}
	key.Payer, key.Nonce, key.Asset = strings.ToLower(key.Payer), strings.ToLower(key.Nonce), strings.ToLower(key.Asset)
	switch {
	case key.Payer == "" || key.Nonce == "":
		return service.UsageError("payments resolve: --payer or --nonce is missing")
	case d.Note == "":
		return service.UsageError("payments resolve: --reason is missing")
	}
	find := func(ctx context.Context, ledger *ledger.Ledger) (payment.Record, error) {
		return findUnknown(ctx, ledger, key)
	}
	return p.decideAs(ctx, "payments resolve", words[0], d, *unchecked, find)
}

// findUnknown returns the one unknown payment that key names; an empty Network or Asset matches any.
func findUnknown(ctx context.Context, ledger *ledger.Ledger, key payment.Key) (payment.Record, error) {
	open, err := ledger.List(ctx, payment.Filter{State: payment.Unknown})
	if err != nil {
		return payment.Record{}, err
	}
	var found []payment.Record
	for _, r := range open {
		if r.Key.Payer == key.Payer && r.Key.Nonce == key.Nonce &&
			(key.Network == "" || r.Key.Network == key.Network) && (key.Asset == "" || r.Key.Asset == key.Asset) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		return payment.Record{}, errors.New("there is no unknown payment of that payer with that nonce")
	case 1:
		return found[0], nil
	}
	return payment.Record{}, errors.New("there are several such payments: name --network and --asset too")
}

// chainLog returns the reader of a payment network, or nil when it is not that of the settings or they
// name no node of it.
func (p Process) chainLog(network string) (paywall.PaymentNetwork, error) {
	set, err := load(p.Getenv) // what only serving needs may be missing
	if len(set.paymentNodes) == 0 && len(set.chains) == 0 {
		return nil, settingsError(err) // CHAINS_FILE cannot be read, and may name nodes
	}
	if len(set.paymentNodes) == 0 || set.terms.Network != network {
		return nil, nil //nolint:nilnil // see above
	}
	return chainlog.New(network, set.paymentNodes, set.paymentQuorum)
}

// hasNode reports whether the settings name a node of a payment network; false where they cannot be read.
func (p Process) hasNode(network string) bool {
	chainLog, err := p.chainLog(network)
	return err == nil && chainLog != nil
}
