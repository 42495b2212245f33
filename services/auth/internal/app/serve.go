package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/periodic"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/config"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/factor/passkey"
	"github.com/pforte/pforte/services/auth/internal/httpapi"
	"github.com/pforte/pforte/services/auth/internal/once"
	"github.com/pforte/pforte/services/auth/internal/pages"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// server is the program while it serves.
type server struct {
	*service.Service
	cfg     config.Config
	process Process
	metrics *storeMetrics
	stores  *stores // nil until they are open
	// notifier sends notifications of what the stores record.
	notifier *audit.Notifier
	// bootstrapped is closed when bootstrap has returned.
	bootstrapped chan struct{}
}

// serve is "auth serve".
func (p Process) serve(ctx context.Context, args []string) error {
	ctx = audit.With(ctx, audit.Actor{Kind: audit.System})
	s, err := p.server(ctx, args)
	if err != nil {
		return err
	}
	return s.Run(ctx, service.Parts{
		Open:   s.open,
		Opened: s.bootstrap,
		Background: []func(context.Context){
			func(ctx context.Context) { s.stores.accounts.Replay(ctx) },
			func(ctx context.Context) { s.stores.audit.Work(ctx) },
			func(ctx context.Context) { every(ctx, day, s.stores.audit.Sweep, "sweep of the audit", s.Log) },
			func(ctx context.Context) { every(ctx, day, s.stores.policy.SweepTokens, "sweep of app tokens", s.Log) },
			func(ctx context.Context) {
				every(ctx, time.Hour, s.stores.oidc.Sweep, "sweep of logins at applications", s.Log)
			},
			s.deliverLogouts,
			s.notifier.Run,
			func(ctx context.Context) { sweep(ctx, s.stores.sessions, s.Log) },
		},
		Close: func(ctx context.Context) error {
			if s.stores == nil {
				return nil
			}
			s.stores.audit.Drain()
			s.notifier.Drain(ctx)
			return s.stores.Close()
		},
		Starting: `{"error":"Der Dienst startet gerade. Bitte gleich erneut versuchen.","code":503}`,
	})
}

// check is "auth check": it ends where serve would open the stores.
func (p Process) check(ctx context.Context, args []string) error {
	s, err := p.server(ctx, args)
	if err != nil {
		return err
	}
	s.Tracer.Stop(ctx)
	_, err = s.rules()
	return err
}

// server reads the settings, and warns of those that are right but weak.
func (p Process) server(ctx context.Context, args []string) (*server, error) {
	if _, err := service.Parse(service.Flags(), args); err != nil {
		return nil, err
	}
	cfg, err := config.Load(p.Getenv)
	if err != nil {
		return nil, settingsError(err)
	}
	common, err := service.New(ctx, "auth", p.Process, service.Settings{
		Addr: cfg.Addr, AdminAddr: cfg.AdminAddr, ShutdownDelay: cfg.ShutdownDelay, LogLevel: cfg.LogLevel,
		TrustedProxies: cfg.TrustedProxies, Tracing: cfg.Tracing,
	})
	if err != nil {
		return nil, err
	}
	s := &server{
		Service: common, cfg: cfg, process: p, metrics: newStoreMetrics(common.Registry),
		bootstrapped: make(chan struct{}),
	}
	if s.notifier, err = s.newNotifier(); err != nil {
		return nil, settingsError(err)
	}
	redis.SetLogger(redisLog{s.Log})
	if cfg.RandomSecret {
		s.Log.WarnContext(ctx, "SESSION_SECRET is not set: all sessions end with this process")
	}
	if cfg.WeakSecret() {
		s.Log.WarnContext(ctx, "SESSION_SECRET or SESSION_SECRET_PREVIOUS is short: session cookies can be forged by "+
			"guessing it; create one with openssl rand -hex 32")
	}
	if zone := p.Getenv("TZ"); unknownZone(zone) {
		s.Log.WarnContext(ctx, "TZ is not the name of a zone, such as Europe/Berlin: times are in UTC", "tz", zone)
	}
	return s, nil
}

// open waits for both stores and returns the handler.
func (s *server) open(ctx context.Context) (http.Handler, error) {
	rules, err := s.rules()
	if err != nil {
		return nil, err
	}
	err = service.WaitFor(ctx, s.Log, "the database", func(ctx context.Context) (err error) {
		s.stores, err = openStores(ctx, s.cfg.Stores, s.process.Passwords, rules, s.observe, s.Log, s.metrics)
		return err
	}, func(err error) bool { return errors.Is(err, sqldb.ErrUnreachable) })
	if err != nil {
		return nil, err
	}
	if err := service.WaitFor(ctx, s.Log, "Redis", s.stores.pingRedis, func(error) bool { return true }); err != nil {
		return nil, err
	}
	handler, err := s.handler() //nolint:contextcheck // requests have their own
	if err != nil {
		return nil, err
	}
	if err := s.stores.accounts.LearnCosts(ctx); err != nil {
		return nil, err
	}
	if err := s.stores.accounts.SecondFactor.Reseal(ctx); err != nil {
		return nil, err
	}
	s.warnOfProvider(ctx)
	foreign, err := s.stores.accounts.Passkeys.Foreign(ctx)
	if err != nil {
		return nil, err
	}
	for id, n := range foreign {
		s.Log.WarnContext(ctx,
			"passkeys belong to another address and cannot be used: see PUBLIC_URL and PASSKEY_RP_ID", "rp_id", id,
			"passkeys", n)
	}
	return s.untilBootstrapped(handler), nil
}

// unknownZone reports whether Go finds no zone of the name that TZ has. A path, which TZ may be too, is not looked at.
func unknownZone(tz string) bool {
	tz = strings.TrimPrefix(tz, ":")
	_, err := time.LoadLocation(tz)
	return err != nil && !filepath.IsAbs(tz)
}

func (s *server) newNotifier() (*audit.Notifier, error) {
	target, err := s.cfg.NotifyTarget()
	if err != nil {
		return nil, err
	}
	return audit.NewNotifier(audit.NotifierOptions{
		Target: target, Events: s.cfg.NotifyEvents, Transport: http.DefaultTransport, Log: s.Log,
		Count: func(outcome string) { s.metrics.notifications.WithLabelValues(outcome).Inc() },
	})
}

func (s *server) rules() (rules, error) {
	a := account.Options{
		SessionLifetimes: s.cfg.Lifetimes(), HouseholdName: s.cfg.HouseholdName,
		RefuseCommon: s.cfg.CommonPasswords == "refuse",
	}
	var err error
	a.Party, err = passkey.New(passkey.Options{PublicURL: s.cfg.PublicURL, RPID: s.cfg.PasskeyRPID})
	if errors.Is(err, factor.ErrPasskeysUnavailable) {
		a.PasskeysOff, err = err, nil
	}
	if err == nil {
		a.Sealer, err = s.cfg.Sealer()
	}
	if err != nil {
		return rules{}, settingsError(err)
	}
	return rules{
		accounts: a, policy: policy.Options{PlainHTTP: !s.cfg.Secure(), Own: newOwnAddresses(&s.cfg).list},
		audit: audit.RecorderOptions{Retention: s.cfg.AuditRetention},
		oidc:  newOIDCRules(s.cfg.Stores, s.cfg.Data, !s.cfg.Pages || s.cfg.CompatV0),
	}, nil
}

// untilBootstrapped has requests, but those of /health, wait until bootstrap has returned:
// the first admin's password takes a moment to be hashed.
func (s *server) untilBootstrapped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			select {
			case <-s.bootstrapped:
			case <-r.Context().Done():
			}
		}
		next.ServeHTTP(w, r)
	})
}

// handler connects the packages over the stores, and returns the handler of the API and the pages.
func (s *server) handler() (http.Handler, error) {
	sameSite := http.SameSiteLaxMode
	if s.cfg.CompatV0 {
		sameSite = http.SameSiteStrictMode
	}
	manager, err := session.NewManager(session.Options{
		Store: s.stores.sessions, Name: s.cfg.AppName, Secret: s.cfg.SessionSecret,
		PreviousSecret: s.cfg.SessionSecretPrevious,
		Secure:         s.cfg.Secure(), SameSite: sameSite, Lifetimes: s.cfg.Lifetimes(), Now: time.Now,
	})
	if err != nil {
		return nil, err
	}
	limit := s.stores.limit
	loginLimit, loginErr := limit("login", s.cfg.RateLimitMaxAttempts, s.cfg.Window())
	passwordLimit, passwordErr := limit("password", s.cfg.RateLimitMaxAttempts, s.cfg.Window())
	linkLimit, linkErr := limit("link", web.LinkAttempts, web.LinkWindow)
	passkeyLimit, passkeyErr := limit("passkey", web.PasskeyAttempts, web.PasskeyWindow)
	signInLimit, signInErr := limit("signin", web.SignInAttempts, web.SignInWindow)
	s.stores.register(s.Registry)
	metrics, metricsErr := web.NewMetrics(s.Registry)
	if err := errors.Join(loginErr, passwordErr, linkErr, passkeyErr, signInErr, metricsErr); err != nil {
		return nil, err
	}
	shared, err := web.New(web.Options{
		Accounts: s.stores.accounts, People: s.stores.people, Policy: s.stores.policy,
		Audit: s.stores.audit, Sessions: manager, LoginLimit: loginLimit, PasswordLimit: passwordLimit,
		LinkLimit: linkLimit, PasskeyLimit: passkeyLimit, SignInLimit: signInLimit, OIDC: s.stores.oidc,
		TrustedProxies: s.cfg.TrustedProxies, Secure: s.cfg.Secure(), CompatV0: s.cfg.CompatV0,
		PublicURL: s.cfg.PublicURL,
		Metrics:   metrics, Log: s.Log, Now: time.Now,
	})
	if err != nil {
		return nil, err
	}
	qr := func(text string) (string, error) {
		svg, err := pages.QR(text, "QR-Code")
		return string(svg), err
	}
	options := httpapi.Options{
		Web: shared, GuardToken: s.cfg.GuardToken, Health: s.stores.health, Tracer: s.Tracer, QR: qr,
	}
	if s.cfg.Pages && !s.cfg.CompatV0 {
		kept, err := once.New(once.Options{Client: s.stores.redis, App: s.cfg.AppName})
		if err != nil {
			return nil, err
		}
		shown, err := pages.New(pages.Options{Web: shared, Once: kept, AppName: s.cfg.AppName})
		if err != nil {
			return nil, err
		}
		options.Pages, options.Refusal, options.SignInPage = shown.Routes, shown.Refusal, shown.SignIn
	}
	return httpapi.New(options)
}

// observe logs an event of the audit, and notifies of it.
func (s *server) observe(ctx context.Context, e audit.Entry) {
	audit.Log(ctx, s.Log, e)
	s.notifier.Observe(e)
}

// bootstrap creates the first admin of the settings while there is no user.
func (s *server) bootstrap(ctx context.Context) error {
	defer close(s.bootstrapped)
	if s.cfg.BootstrapAdminUsername == "" {
		return nil
	}
	created, err := s.stores.people.Bootstrap(ctx, s.cfg.BootstrapAdminUsername, s.cfg.BootstrapAdminPassword)
	if err != nil {
		return fmt.Errorf("BOOTSTRAP_ADMIN_USERNAME, BOOTSTRAP_ADMIN_PASSWORD: %w", err)
	}
	if created {
		s.Log.InfoContext(ctx, "audit", "event", "first_admin_created", "username", s.cfg.BootstrapAdminUsername)
	}
	return nil
}

// sweep removes what is left of expired sessions, every 15 minutes
// (AUTH-2.8), until ctx ends.
func sweep(ctx context.Context, store session.Store, log *slog.Logger) {
	periodic.Run(ctx, session.SweepInterval, func() {
		swept, err := store.Sweep(ctx)
		if err != nil {
			if ctx.Err() == nil {
				log.WarnContext(ctx, "sweep of expired sessions failed", "error", err)
			}
			return
		}
		log.DebugContext(ctx, "expired sessions swept", "expired", swept.Expired, "live", swept.Live)
	})
}

const day = 24 * time.Hour

// every carries out a sweep at once and then at each interval, until ctx ends.
func every(
	ctx context.Context, interval time.Duration, sweep func(context.Context) error, what string, log *slog.Logger,
) {
	once := func() {
		if err := sweep(ctx); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, what+" failed", "error", err)
		}
	}
	once()
	periodic.Run(ctx, interval, once)
}
