package app

import (
	"cmp"
	"context"
	_ "embed" // the help
	"errors"
	"fmt"
	"time"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/config"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
	"github.com/pforte/pforte/services/verifier/internal/translog"
)

// help is what --help prints before the table of settings.
//
//go:embed help.txt
var help string

// Process is what the operating system passes to the program.
type Process struct {
	service.Process

	// For tests: at and atLog are called at each point of a sale and of the log, heartbeat is the interval of the
	// paywall's heartbeats unless zero, and now is the clock of the commands about payments.
	at        func(paywall.Point)
	atLog     func(translog.Point)
	heartbeat time.Duration
	now       func() time.Time
}

func (p Process) clock() time.Time {
	if p.now != nil {
		return p.now()
	}
	return time.Now()
}

// Run carries out the command line and returns the exit code.
func Run(ctx context.Context, p Process) int {
	return service.Program{
		Name: "verifier", Help: help + config.Table(), UsageCode: 1,
		Commands: map[string]service.Command{
			"serve":              p.serve,
			"check":              p.check,
			"migrate":            p.migrate,
			"healthcheck":        p.healthcheck,
			"payments list":      p.paymentsList,
			"payments sum":       p.paymentsSum,
			"payments statement": p.paymentsStatement,
			"payments resolve":   p.paymentsResolve,
			"payments show":      exitCodes(p.paymentsShow),
			"payments look":      exitCodes(p.paymentsLook),
			"payments decide":    exitCodes(p.paymentsDecide),
			"payments refund":    exitCodes(p.paymentsRefund),
			"log status":         p.logStatus,
			"log audit":          p.logAudit,
			"log resume":         p.logResume,
			"log recover":        p.logRecover,
			"log close":          p.logClose,
			"log aside":          p.logAside,
		},
	}.Run(ctx, p.Process)
}

func settingsError(err error) error { return fmt.Errorf("the settings are wrong:\n%w", err) }

// with calls do with the ledger of the settings, for a command at the terminal, and prints to Stderr
// where the ledger is. A ledger that is not there is an error and is not created: an empty one would
// answer that nothing is open.
func (p Process) with(ctx context.Context, do func(*ledger.Ledger, config.Ledger) error) error {
	cfg, err := config.LoadLedger(p.Getenv)
	if err != nil {
		return settingsError(err)
	}
	place := sqldb.Place(cfg.DatabaseURL)
	if err := sqldb.Existing(ctx, cfg.DatabaseURL); errors.Is(err, sqldb.ErrMissing) {
		return fmt.Errorf("there is no ledger at %s; set DATABASE_URL to that of the verifier", place)
	} else if err != nil {
		return fmt.Errorf("open the ledger %s: %w", place, err)
	}
	_, _ = fmt.Fprintln(p.Stderr, "ledger: "+place)
	return open(ctx, cfg, do)
}

// open opens the ledger, makes what is missing of its file and tables, calls do with it, and closes it.
func open(ctx context.Context, cfg config.Ledger, do func(*ledger.Ledger, config.Ledger) error) (err error) {
	ledger, err := ledger.Open(ctx, cfg.DatabaseURL, ledger.Options{Now: time.Now})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	return do(ledger, cfg)
}

// migrate is "verifier migrate".
func (p Process) migrate(ctx context.Context, args []string) error {
	if _, err := service.Parse(service.Flags(), args); err != nil {
		return err
	}
	cfg, err := config.LoadLedger(p.Getenv)
	if err != nil {
		return settingsError(err)
	}
	return open(ctx, cfg, func(*ledger.Ledger, config.Ledger) error { return nil })
}

// healthcheck is "verifier healthcheck", which a container runs. The only
// setting that it reads is ADDR.
func (p Process) healthcheck(ctx context.Context, args []string) error {
	if _, err := service.Parse(service.Flags(), args); err != nil {
		return err
	}
	return service.Healthcheck(ctx, cmp.Or(p.Getenv("ADDR"), ":8082"))
}
