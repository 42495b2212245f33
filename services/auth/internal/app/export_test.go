package app

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/config"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// Commands are the names of all commands.
func Commands() []string { return slices.Sorted(maps.Keys(Process{}.commands())) }

// Sweep is the sweep of expired sessions.
var Sweep = sweep

// Every carries out a sweep at once and then at each interval.
var Every = every

// CountSessions counts the sessions of a store; live is how many live.
func CountSessions(store session.Stores) (counted session.Store, live prometheus.Gauge) {
	metrics := newStoreMetrics(nil)
	return countedSessions{store, metrics}, metrics.live
}

// OpenedWorkCost opens the service as serve does before the first request, and returns
// the cost of a comparison that fails by then.
func OpenedWorkCost(ctx context.Context, p Process) (cost int, err error) {
	cfg, err := config.Load(p.Getenv)
	if err != nil {
		return 0, err
	}
	common, err := service.New(ctx, "auth", p.Process, service.Settings{LogLevel: cfg.LogLevel})
	if err != nil {
		return 0, err
	}
	s := &server{Service: common, cfg: cfg, process: p, metrics: newStoreMetrics(nil), bootstrapped: make(chan struct{})}
	defer func() { err = errors.Join(err, s.stores.Close()) }()
	if _, err := s.open(ctx); err != nil {
		return 0, err
	}
	return s.stores.hasher.WorkCost(), nil
}
