package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/logging"
	"github.com/pforte/pforte/services/verifier/internal/config"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/chainlog"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// resolve decides an unknown payment by hand.
func resolve(ctx context.Context, e Env) (err error) {
	key, how, err := resolveFlags(e.Args[2:])
	if err != nil {
		return fmt.Errorf("%w; %w", err, ErrUsage)
	}
	cfg, err := config.LoadLedger(e.Getenv)
	if err != nil {
		return err
	}
	log, err := logging.New(e.Stderr, cfg.LogLevel)
	if err != nil {
		return err
	}
	ledger, err := ledger.Open(ctx, cfg.DatabaseURL, time.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	r, err := findUnknown(ctx, ledger, key)
	if err != nil {
		return err
	}
	truth, err := truthOf(e, r.Key.Network)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	chain, err := paywall.Resolve(asking, ledger, truth, time.Now(), r, how)
	if errors.Is(err, payment.ErrLost) {
		return errors.New("the payment was decided meanwhile")
	}
	if err != nil {
		return err
	}
	log.Warn("a payment was resolved by hand", "by", how.By, "from", r.State, "to", how.State, "why", how.Why, "chain", chain,
		"network", r.Key.Network, "asset", r.Key.Asset, "payer", r.Key.Payer, "nonce", r.Key.Nonce, "transaction", how.Transaction)
	return nil
}

// resolveFlags reads the command line: flags before and after the state.
func resolveFlags(args []string) (key payment.Key, how payment.Resolution, err error) {
	flags := flag.NewFlagSet("payments resolve", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&key.Payer, "payer", "", "")
	flags.StringVar(&key.Nonce, "nonce", "", "")
	flags.StringVar(&key.Network, "network", "", "")
	flags.StringVar(&key.Asset, "asset", "", "")
	flags.StringVar(&how.Transaction, "transaction", "", "")
	flags.StringVar(&how.Why, "reason", "", "")
	var states []string
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			return key, how, err
		}
		if args = flags.Args(); len(args) > 0 {
			states, args = append(states, args[0]), args[1:]
		}
	}
	key.Payer, key.Nonce, key.Asset = strings.ToLower(key.Payer), strings.ToLower(key.Nonce), strings.ToLower(key.Asset)
	how.Transaction, how.By = strings.ToLower(how.Transaction), operator()
	if len(states) == 1 {
		how.State = payment.State(states[0])
	}
	switch {
	case how.State != payment.Settled && how.State != payment.Dead:
		return key, how, errors.New("payments resolve takes settled or dead")
	case key.Payer == "" || key.Nonce == "":
		return key, how, errors.New("--payer and --nonce name the payment")
	case how.Why == "":
		return key, how, errors.New("--reason says what was seen")
	case (how.State == payment.Settled) != (how.Transaction != ""):
		return key, how, errors.New("--transaction is the transfer's hash, of a settled payment only")
	}
	return key, how, nil
}

// operator is who runs the command: a name, or a number where there are no names.
func operator() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// findUnknown finds the one unknown payment that is named.
func findUnknown(ctx context.Context, ledger payment.Ledger, key payment.Key) (payment.Record, error) {
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

// truthOf is the payment's network, when the settings name a node of it.
func truthOf(e Env, network string) (payment.ChainLog, error) {
	set, _ := load(e.Getenv) // the terminal may lack what only serving needs
	if len(set.truth) == 0 || set.terms.Network != network {
		return nil, nil //nolint:nilnil // no node is known: nothing can contradict
	}
	return chainlog.New(network, set.truth, set.truthQuorum)
}
