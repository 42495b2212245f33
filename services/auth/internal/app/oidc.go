package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/config"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	oidcredis "github.com/pforte/pforte/services/auth/internal/oidc/redisstore"
	"github.com/pforte/pforte/services/auth/internal/oidc/sign"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// oidcRules are the settings of the OpenID Connect provider.
type oidcRules struct {
	publicURL         string
	dataKey, previous []byte
	// noPages: there are no pages to log in on.
	noPages bool
}

func newOIDCRules(stores config.Stores, data config.Data, noPages bool) oidcRules {
	key, previous := data.Raw()
	return oidcRules{publicURL: stores.PublicURL, dataKey: key, previous: previous, noPages: noPages}
}

// off returns why there is no provider; nil: there is.
func (r oidcRules) off() error {
	switch {
	case r.noPages:
		return oidc.ErrNoPages
	case r.publicURL == "":
		return oidc.ErrNoPublicURL
	case len(r.dataKey) == 0:
		return oidc.ErrNoDataKey
	}
	return nil
}

// provider connects the OpenID Connect provider with its stores.
func (s *stores) provider(
	name string, r oidcRules, database *sqlstore.Stores, log *slog.Logger, metrics *storeMetrics,
) (*oidc.Service, error) {
	signer, err := sign.New(sign.Options{
		DataKey: r.dataKey, Previous: r.previous,
		Observe: func(took time.Duration) { metrics.signed.Observe(took.Seconds()) },
	})
	if err != nil {
		return nil, err
	}
	o := oidc.Options{
		Off: r.off(), Clients: database.Clients, Keys: database.Keys, Grants: database.Grants,
		ShortLived: oidcredis.New(s.redis, name), Signer: signer, Users: database.Users, HasPaths: s.hasPaths,
		Audit: s.audit, Log: log, Now: time.Now,
	}
	if r.publicURL != "" {
		o.Issuer = r.publicURL + web.OIDCRoot
	}
	for _, key := range [][]byte{r.dataKey, r.previous} {
		if len(key) == 0 {
			continue
		}
		mac, err := oidc.NewMACKey(key)
		if err != nil {
			return nil, err
		}
		o.MACKeys = append(o.MACKeys, mac)
	}
	return oidc.New(o)
}

// hasPaths reports whether an application is below the portal's own origin.
func (s *stores) hasPaths(ctx context.Context) (bool, error) {
	return s.policy.Any(ctx, func(a application.Application) bool { return !a.HasHost() })
}

// warnOfProvider warns where applications know the provider and the settings turn it off: PUBLIC_URL is another one
// than they know, PUBLIC_URL or DATA_KEY is not set, or there are no pages.
func (s *server) warnOfProvider(ctx context.Context) {
	off := s.stores.oidc.Off(ctx)
	if off == nil {
		return
	}
	written, err := s.stores.oidc.WrittenIssuer(ctx)
	switch {
	case errors.Is(off, oidc.ErrIssuerChanged):
		s.Log.WarnContext(ctx, "PUBLIC_URL has changed: logins at applications by OpenID Connect are off until "+
			"the new issuer is taken (auth oidc issuer --take)", "written", written, "now", s.stores.oidc.Issuer())
	case err == nil && written != "":
		s.Log.WarnContext(ctx, "logins at applications by OpenID Connect are off", "error", off)
	}
}
