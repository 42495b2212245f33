package app

import (
	"context"
	"net/http"
	"time"

	"github.com/pforte/pforte/services/auth/internal/oidc"
)

// maxLogoutHeaders bounds the headers of an application's answer to a logout, in bytes.
const maxLogoutHeaders = 8 << 10

// deliverLogouts tells applications of logouts until ctx ends.
func (s *server) deliverLogouts(ctx context.Context) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: maxLogoutHeaders, DisableKeepAlives: true,
		ForceAttemptHTTP2: true, TLSHandshakeTimeout: 5 * time.Second,
	}
	m, err := oidc.NewLogoutSender(oidc.LogoutOptions{
		Store: s.stores.logouts, Off: s.stores.oidc.Off, Sign: s.stores.oidc.Sign,
		Issuer: s.stores.oidc.Issuer(), Transport: transport,
		Count:   func(outcome string) { s.metrics.logouts.WithLabelValues(outcome).Inc() },
		Waiting: func(n int) { s.metrics.logoutsWaiting.Set(float64(n)) },
		Log:     s.Log, Now: time.Now,
	})
	if err != nil {
		s.Log.ErrorContext(ctx, "logouts are not delivered", "error", err)
		return
	}
	m.Run(ctx)
}
