package rpc

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// Metrics counts how chains are read. Nodes are told apart by their name; an outcome is "ok",
// the code of a chain.Fault, or "failed" for an error without one.
type Metrics struct {
	registry prometheus.Registerer
	rpc      *prometheus.HistogramVec
	cache    *prometheus.CounterVec
	proof    *prometheus.HistogramVec
	heads    *prometheus.GaugeVec
}

// NewMetrics registers the metrics, and those of the proven blocks that are kept.
func NewMetrics(r prometheus.Registerer, kept *Memory) (*Metrics, error) {
	m := &Metrics{
		registry: r,
		rpc: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "verifier_rpc_exchange_duration_seconds", Help: "HTTP exchanges with nodes, by chain, node, method " +
				"(or batch) and outcome.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"chain", "node", "method", "outcome"}),
		cache: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "verifier_proven_block_lookups_total", Help: "Looks for a block proven before, by chain and " +
				"result: hit, miss.",
		}, []string{"chain", "result"}),
		proof: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "verifier_proof_duration_seconds",
			Help:    "Blocks rebuilt from what a node told, by chain and outcome.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
		}, []string{"chain", "outcome"}),
		heads: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "verifier_chain_head", Help: "How far a chain is by the word of its quorum, by chain and head: " +
				"latest, finalized.",
		}, []string{"chain", "head"}),
	}
	gauge := func(name, help string, value func(bytes int64, blocks int) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			return value(kept.Cached())
		})
	}
	return m, errors.Join(r.Register(m.rpc), r.Register(m.cache), r.Register(m.proof), r.Register(m.heads),
		r.Register(gauge("verifier_proven_blocks_bytes", "Memory of the proven blocks that are kept.",
			func(bytes int64, _ int) float64 { return float64(bytes) })),
		r.Register(gauge("verifier_proven_blocks", "Proven blocks that are kept.",
			func(_ int64, blocks int) float64 { return float64(blocks) })))
}

// RegisterQuorum adds a metric of a chain that is 1 while heard returns true, and else 0.
func (m *Metrics) RegisterQuorum(name string, heard func() bool) error {
	return m.registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "verifier_chain_quorum_up", Help: "1 while a quorum of nodes has lately said how far the chain is, " +
			"by chain.",
		ConstLabels: prometheus.Labels{"chain": name},
	}, func() float64 {
		if heard() {
			return 1
		}
		return 0
	}))
}

// Hooks returns hooks that count how a chain is read.
func (m *Metrics) Hooks(name string) Hooks {
	return Hooks{
		RPC: func(node, method string, took time.Duration, err error) {
			m.rpc.WithLabelValues(name, node, method, outcome(err)).Observe(took.Seconds())
		},
		Cache: func(hit bool) {
			result := "miss"
			if hit {
				result = "hit"
			}
			m.cache.WithLabelValues(name, result).Inc()
		},
		Proof: func(_ int, took time.Duration, err error) {
			m.proof.WithLabelValues(name, outcome(err)).Observe(took.Seconds())
		},
		Heads: func(heads chain.Heads) {
			m.heads.WithLabelValues(name, "latest").Set(float64(heads.Latest))
			m.heads.WithLabelValues(name, "finalized").Set(float64(heads.Finalized))
		},
	}
}

func outcome(err error) string {
	var fault *chain.Fault
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &fault):
		return fault.Code
	default:
		return "failed"
	}
}
