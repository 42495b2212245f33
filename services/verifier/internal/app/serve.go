package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
	"github.com/pforte/pforte/services/verifier/internal/checkpage"
	"github.com/pforte/pforte/services/verifier/internal/config"
	"github.com/pforte/pforte/services/verifier/internal/httpapi"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/chainlog"
	"github.com/pforte/pforte/services/verifier/internal/payment/facilitator"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
	"github.com/pforte/pforte/services/verifier/internal/translog"
	"github.com/pforte/pforte/services/verifier/internal/translog/logsql"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// workTimeout bounds the work for one sale. A payment that is no longer valid when its work is done is not settled.
const workTimeout = 15 * time.Second

// server is the program while it serves.
type server struct {
	*service.Service
	settings
	process Process
	metrics *httpapi.Metrics
	ledger  *ledger.Ledger
	paywall *paywall.Paywall
	// reconciler compares payments of all replicas with the payment network, where a node of it is known,
	// and prunes the ledger.
	reconciler *paywall.Reconciler
	// logStore is the store of log in the ledger's database; log is nil without a log of receipts.
	logStore *logsql.Store
	log      *translog.Log
	readers  []*rpc.Reader // of the chains, in their order
	// finality are the chains that have proofs of finality.
	finality []*beaconchain.Chain
	// reached is set when health has found every chain reached.
	reached atomic.Bool
}

// serve is "verifier serve".
func (p Process) serve(ctx context.Context, args []string) error {
	s, err := p.server(ctx, args)
	if err != nil {
		return err
	}
	return s.Run(ctx, service.Parts{
		Open: s.open,
		Background: []func(context.Context){
			func(ctx context.Context) { s.paywall.Run(ctx) },
			func(ctx context.Context) { s.reconciler.Run(ctx) },
			s.runLog,
			s.watchChains,
			s.runFinality,
			s.checkFacilitator,
		},
		Close: s.close,
		Starting: `{"error":"The service is starting","code":503,"reason":"not_ready","retryable":true,` +
			`"retryAfterSeconds":1}`,
		Drain: s.drain(),
	})
}

// check is "verifier check": it ends where serve would open the ledger.
func (p Process) check(ctx context.Context, args []string) error {
	s, err := p.server(ctx, args)
	if err == nil {
		s.Tracer.Stop(ctx)
	}
	return err
}

// server reads the settings, and warns of those that are right but weak.
func (p Process) server(ctx context.Context, args []string) (*server, error) {
	if _, err := service.Parse(service.Flags(), args); err != nil {
		return nil, err
	}
	set, err := load(p.Getenv)
	if err != nil {
		return nil, settingsError(err)
	}
	common, err := service.New(ctx, "verifier", p.Process, service.Settings{
		Addr: set.Addr, AdminAddr: set.AdminAddr, ShutdownDelay: set.ShutdownDelay, LogLevel: set.LogLevel,
		TrustedProxies: set.TrustedProxies, Tracing: set.Tracing,
	})
	if err != nil {
		return nil, err
	}
	s := &server{Service: common, settings: set, process: p}
	if s.AllowInsecure {
		s.Log.WarnContext(ctx, "ALLOW_INSECURE_UPSTREAMS is set: requests to facilitators and nodes may use plain "+
			"http in public networks, where payments and evidence can be read and changed")
	}
	for _, weak := range s.weak {
		s.Log.WarnContext(ctx, weak)
	}
	return s, nil
}

// drain returns how long a stop waits at most for requests under way, and then as long for payments.
func (s *server) drain() time.Duration {
	return s.Facilitator.VerifyTimeout + 2*s.Facilitator.SettleTimeout + workTimeout
}

// open waits for the ledger's database, opens the chains, the paywall and the log of receipts, and
// returns the handler.
func (s *server) open(ctx context.Context) (_ http.Handler, err error) {
	if s.metrics, err = httpapi.NewMetrics(s.Registry); err != nil {
		return nil, err
	}
	err = service.WaitFor(ctx, s.Log, "the ledger's database", func(ctx context.Context) (err error) {
		s.ledger, err = s.openLedger(ctx)
		return err
	}, func(err error) bool { return errors.Is(err, sqldb.ErrUnreachable) })
	if err != nil {
		return nil, err
	}
	chains, err := s.openChains(ctx)
	if err != nil {
		return nil, err
	}
	if s.paywall, err = s.openPaywall(ctx); err != nil {
		return nil, err
	}
	err = httpapi.RegisterStatus(s.Registry, s.paywall, s.ledger.Ping) //nolint:contextcheck // a scrape has its own
	if err != nil {
		return nil, err
	}
	if s.log, err = s.openLog(ctx); err != nil {
		return nil, err
	}
	s.sells(ctx)
	if err := httpapi.RegisterBooks(s.Registry, s.terms, s.ledger, time.Now); err != nil {
		return nil, err
	}
	var tools *httpapi.MCP
	if s.MCP.On {
		tools = &httpapi.MCP{
			AnswerTimeout: s.MCP.AnswerTimeout, PaymentExtension: s.MCP.PaymentExtension, Version: s.Process.Version,
		}
	}
	return httpapi.New(httpapi.Options{
		Chains: chains, Paywall: s.paywall, Terms: s.terms, Key: s.key, Keys: s.keys, PublicURL: s.PublicURL,
		Health: s.health, Proxies: s.Service.TrustedProxies, Metrics: s.metrics, Tracer: s.Tracer, MCP: tools,
		Receipts: s.log, CheckPage: checkpage.Built(), Sold: s.ledger.Answer, Log: s.Log, Now: time.Now,
	})
}

// sells logs the terms, so that an operator sees what buyers are asked for.
func (s *server) sells(ctx context.Context) {
	var chains []string
	for _, c := range s.chains {
		chains = append(chains, fmt.Sprintf("%s (%d of %d nodes)", c.Name, c.Agreeing(), len(c.RPCURLs)))
	}
	facilitatorURL, _ := url.Parse(s.Facilitator.URL) // it was checked
	s.Log.InfoContext(ctx, "sells", "chains", chains, "network", s.terms.Network, "amount", s.terms.Amount,
		"asset", s.terms.Asset, "asset_name", s.terms.AssetName, "pay_to", s.terms.PayTo,
		"facilitator", facilitatorURL.Host, "free_settlements", s.Facilitator.FreeSettlements)
}

// openChains opens the readers of all chains and returns the chains as they are served.
func (s *server) openChains(ctx context.Context) (served []httpapi.Chain, err error) {
	memory := rpc.NewMemory(int64(s.Chain.CacheBytes), 0)
	m, err := rpc.NewMetrics(s.Registry, memory)
	if err != nil {
		return nil, err
	}
	for _, c := range s.chains {
		reader, err := rpc.Open(ctx, rpc.Options{Chain: c, Memory: memory, Log: s.Log, Hooks: m.Hooks(c.Name)})
		if err != nil {
			return nil, fmt.Errorf("open the chain %s: %w", c.Name, err)
		}
		if err := m.RegisterQuorum(c.Name, reader.HasHeads); err != nil {
			return nil, err
		}
		s.readers = append(s.readers, reader)
		served = append(served, httpapi.Chain{
			Name: c.Name, ID: c.ID, Verifier: verification.Verifier{Reader: reader}, Heads: reader.Reached,
			Progress: reader.Progress,
		})
	}
	return served, s.openFinality(ctx, memory, m, served)
}

func (s *server) openPaywall(ctx context.Context) (_ *paywall.Paywall, err error) {
	options := paywall.Options{
		Ledger: s.ledger, FreeSettlements: s.Facilitator.FreeSettlements,
		VerifyTimeout: s.Facilitator.VerifyTimeout, SettleTimeout: s.Facilitator.SettleTimeout,
		WorkTimeout:      workTimeout,
		AttemptsPerPayer: s.Payment.PerPayer, AttemptsPerAddress: s.Payment.PerAddress,
		ReuseWindow: s.Payment.ReuseWindow, ReusesPerPayer: s.Payment.ReusesPerPayer,
		FailuresPerPayer: s.Payment.FailedPerPayer, FailuresPerAddress: s.Payment.FailedPerAddress,
		Log: s.Log, Now: time.Now, Ended: s.metrics.PaymentEnded, At: s.process.at, Heartbeat: s.process.heartbeat,
		Confirm: s.Payment.Confirm != config.ConfirmByFacilitator,
	}
	called, err := s.facilitator()
	if err != nil {
		return nil, err
	}
	options.Facilitator, options.StrangersFacilitator = called, called.ForStrangers()
	options.ContractsFacilitator, options.NamedFacilitator = called.ForStrangers(), called.Uncounted()
	options.UncountedFacilitator = called.Uncounted()
	if len(s.paymentNodes) == 0 {
		s.Log.WarnContext(ctx, "no node of the payment network is configured: a settlement that the facilitator "+
			"leaves open stays open until it is resolved by hand (PAYMENT_RPC_URL)")
	} else {
		log, err := chainlog.New(s.terms.Network, s.paymentNodes, s.paymentQuorum)
		if err != nil {
			return nil, fmt.Errorf("PAYMENT_RPC_URL: %w", err)
		}
		options.ChainLog = observedChainLog{log, s.metrics}
		if options.Confirm { // else the facilitator's transfers may be on no chain, and accounts there say nothing
			options.Accounts = log
			if err := s.checkAsset(ctx, log); err != nil {
				return nil, err
			}
		}
	}
	if options.ClientKey, err = s.clientKey(); err != nil {
		return nil, err
	}
	s.reconciler = paywall.NewReconciler(paywall.ReconcilerOptions{
		Ledger: sold{s.ledger, s.bundles()}, ChainLog: options.ChainLog, Confirm: options.Confirm,
		KeepAnswers: s.Payment.AnswerRetention, Log: options.Log, Now: options.Now, Ended: options.Ended,
	})
	return paywall.Open(ctx, options)
}

// assetTimeout bounds how long the start waits for what the payment network shows of the token.
const assetTimeout = 5 * time.Second

// checkAsset compares the token of the terms with the payment network: buyers sign for its
// EIP-712 domain, and with another no payment can be settled. What cannot be compared is only
// logged.
func (s *server) checkAsset(ctx context.Context, log *chainlog.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, assetTimeout)
	defer cancel()
	t := s.terms
	asset, err := log.Asset(ctx, t.Asset)
	switch {
	case err != nil:
		s.Log.WarnContext(ctx, "PAYMENT_ASSET, PAYMENT_ASSET_NAME, PAYMENT_ASSET_VERSION cannot be compared with the "+
			"payment network", "error", err)
	case !asset.HasCode:
		return fmt.Errorf("PAYMENT_ASSET: there is no contract at %s on %s", t.Asset, t.Network)
	case asset.Separator == "":
		s.Log.WarnContext(ctx, "PAYMENT_ASSET: the token does not tell its DOMAIN_SEPARATOR, so that "+
			"PAYMENT_ASSET_NAME and PAYMENT_ASSET_VERSION cannot be checked", "asset", t.Asset)
	case asset.Separator != t.Separator():
		return fmt.Errorf("PAYMENT_ASSET_NAME, PAYMENT_ASSET_VERSION: %q and %q are not those of the EIP-712 domain "+
			"of the token %s on %s: no payment could be settled",
			t.AssetName, t.AssetVersion, t.Asset, t.Network)
	}
	return nil
}

// clientKey returns the key of the hashes by which the ledger stores client addresses. It is
// derived from the signing key, so that all replicas have the same.
func (s *server) clientKey() ([]byte, error) {
	pem, err := s.key.PEM()
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(append([]byte("clients in the payment ledger\n"), pem...))
	return key[:], nil
}

func (s *server) facilitator() (*facilitator.Client, error) {
	client, err := facilitator.New(facilitator.Options{
		URL: s.Facilitator.URL, Token: s.cdp, Now: time.Now, Called: s.metrics.FacilitatorCalled,
	})
	if err != nil {
		return nil, fmt.Errorf("FACILITATOR_URL: %w", err)
	}
	return client, nil
}

// health fails while the ledger does not answer, and until it has once found every chain reached.
// Later a chain that cannot be reached is an error of the requests for it (422), because other
// chains, documents and paid answers can still be served.
func (s *server) health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	errs := []error{s.ledger.Ping(ctx)}
	if !s.reached.Load() {
		for _, reader := range s.readers {
			if _, err := reader.Reached(ctx); err != nil {
				return errors.Join(append(errs, fmt.Errorf("chain %s: %w", reader.Identity().Name, err))...)
			}
		}
		s.reached.Store(true)
	}
	return errors.Join(errs...)
}

// watchChains watches the heads of all chains until ctx ends.
func (s *server) watchChains(ctx context.Context) {
	var all sync.WaitGroup
	for _, reader := range s.readers {
		all.Go(func() { reader.Run(ctx) })
	}
	all.Wait()
}

// close waits for payments under way, for drain at most, and closes the paywall and the ledger.
func (s *server) close(ctx context.Context) error {
	var errs []error
	if s.paywall != nil {
		ctx, cancel := context.WithTimeout(ctx, s.drain())
		defer cancel()
		errs = append(errs, s.paywall.Close(ctx))
	}
	if s.ledger != nil {
		errs = append(errs, s.ledger.Close())
	}
	return errors.Join(errs...)
}

// checkFacilitator logs when the facilitator's list of supported networks lacks the payment network,
// or cannot be read. It has a client of its own, so that a failure does not open the circuit of
// payments.
func (s *server) checkFacilitator(ctx context.Context) {
	client, err := s.facilitator()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Facilitator.VerifyTimeout)
	defer cancel()
	answer, err := client.Supported(ctx)
	if err != nil {
		s.Log.WarnContext(ctx, "facilitator: list of supported networks not available", "error", err)
		return
	}
	for _, kind := range answer.Kinds {
		if kind.X402Version == x402.V2 && kind.Scheme == x402.SchemeExact && kind.Network == s.terms.Network {
			return
		}
	}
	s.Log.WarnContext(ctx, "facilitator: the payment network is not in its list of supported networks", "network",
		s.terms.Network)
}

// observedChainLog records the lookups of authorizations in the metrics.
type observedChainLog struct {
	payment.ChainLog
	metrics *httpapi.Metrics
}

// Authorization implements payment.ChainLog.
func (w observedChainLog) Authorization(ctx context.Context, q payment.Record) (payment.Authorization, error) {
	began := time.Now()
	found, err := w.ChainLog.Authorization(ctx, q)
	w.metrics.LookedAt(found, err, time.Since(began))
	return found, err
}
