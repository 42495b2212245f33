package app

import (
	"context"
	"log/slog"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/auth/internal/config"
)

// startTracing gives nil when no traces are wanted.
func startTracing(ctx context.Context, cfg config.Config, version string, log *slog.Logger) (*tracing.Tracer, error) {
	return tracing.Start(ctx, tracing.Options{
		Settings: cfg.Tracing, Service: "auth", Version: version, Log: log,
		Trusted: clientaddr.Proxies(cfg.TrustedProxies).Sent,
	})
}
