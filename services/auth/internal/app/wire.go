package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/pforte/pforte/services/auth/internal/httpapi"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	limitredis "github.com/pforte/pforte/services/auth/internal/ratelimit/redisstore"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// handler puts the parts together.
func (s *service) handler() (http.Handler, error) {
	sameSite := http.SameSiteLaxMode
	if s.cfg.CompatV0 {
		sameSite = http.SameSiteStrictMode
	}
	manager, err := session.NewManager(session.Options{
		Store: s.stores.sessions, Name: s.cfg.AppName, Secret: s.cfg.SessionSecret, PreviousSecret: s.cfg.SessionSecretPrevious,
		Secure: s.cfg.Secure(), SameSite: sameSite, Now: time.Now,
	})
	if err != nil {
		return nil, err
	}
	limits := limitredis.New(s.stores.redis, s.cfg.AppName)
	loginLimit, loginErr := ratelimit.New(limits, "login", s.cfg.RateLimitMaxAttempts, s.cfg.Window())
	passwordLimit, passwordErr := ratelimit.New(limits, "password", s.cfg.RateLimitMaxAttempts, s.cfg.Window())
	metrics, metricsErr := httpapi.NewMetrics(s.registry)
	if err := errors.Join(loginErr, passwordErr, metricsErr, registerPasswords(s.registry, s.stores.hasher), s.watch.register(s.registry, s.stores)); err != nil {
		return nil, err
	}
	return httpapi.New(httpapi.Options{
		Accounts: s.stores.accounts, Sessions: manager, LoginLimit: loginLimit, PasswordLimit: passwordLimit, Health: s.stores.health,
		TrustedProxies: s.cfg.TrustedProxies, Secure: s.cfg.Secure(), CompatV0: s.cfg.CompatV0,
		Metrics: metrics, Tracer: s.tracer, Log: s.log, Now: time.Now,
	})
}

// sweep removes what is left of expired sessions, every 15 minutes (contract,
// section 8), until ctx ends.
func sweep(ctx context.Context, store session.Store, log *slog.Logger) {
	ticker := time.NewTicker(session.SweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		swept, err := store.Sweep(ctx)
		if err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "expired sessions not swept", "error", err)
		}
		log.DebugContext(ctx, "expired sessions swept", "expired", swept.Expired, "live", swept.Live)
	}
}
