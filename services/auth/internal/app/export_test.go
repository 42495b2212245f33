package app

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// Commands are the names of all commands.
func Commands() []string { return slices.Sorted(maps.Keys(Process{}.commands())) }

// Sweep is the sweep of expired sessions.
var Sweep = sweep

// CountSessions counts the sessions of a store; live is how many live.
func CountSessions(store session.Store) (counted session.Store, live prometheus.Gauge) {
	metrics := newStoreMetrics()
	return countedSessions{store, metrics}, metrics.live
}
