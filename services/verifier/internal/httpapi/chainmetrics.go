package httpapi

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// ChainMetrics counts how chains are read. Nodes are told apart by their host;
// outcomes are "ok" or the code of a chain.Fault.
type ChainMetrics struct {
	rpc   *prometheus.HistogramVec
	cache *prometheus.CounterVec
	proof *prometheus.HistogramVec
	heads *prometheus.GaugeVec
}

// NewChainMetrics registers the metrics. kept returns how many bytes and blocks
// are kept proven; it is called at every scrape.
func NewChainMetrics(r prometheus.Registerer, kept func() (bytes int64, blocks int)) (*ChainMetrics, error) {
	m := &ChainMetrics{
		rpc: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "verifier_rpc_exchange_duration_seconds", Help: "HTTP exchanges with nodes, by chain, node, method (or batch) and outcome.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"chain", "node", "method", "outcome"}),
		cache: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "verifier_proven_block_lookups_total", Help: "Looks for a block proven before, by chain and result: hit, miss.",
		}, []string{"chain", "result"}),
		proof: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "verifier_proof_duration_seconds", Help: "Blocks rebuilt from what a node told, by chain and outcome.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
		}, []string{"chain", "outcome"}),
		heads: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "verifier_chain_head", Help: "How far a chain is by the word of its quorum, by chain and head: latest, finalized.",
		}, []string{"chain", "head"}),
	}
	return m, service.Register(r, m.rpc, m.cache, m.proof, m.heads,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "verifier_proven_blocks_bytes", Help: "Memory of the proven blocks that are kept.",
		}, func() float64 { bytes, _ := kept(); return float64(bytes) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "verifier_proven_blocks", Help: "Proven blocks that are kept.",
		}, func() float64 { _, blocks := kept(); return float64(blocks) }))
}

// Exchanged counts an exchange with a node.
func (m *ChainMetrics) Exchanged(chain, node, method string, took time.Duration, err error) {
	m.rpc.WithLabelValues(chain, node, method, outcome(err)).Observe(took.Seconds())
}

// LookedUp counts a look for a proven block.
func (m *ChainMetrics) LookedUp(chain string, hit bool) {
	m.cache.WithLabelValues(chain, result(hit)).Inc()
}

// Proved counts a block that was proven, or not.
func (m *ChainMetrics) Proved(chain string, took time.Duration, err error) {
	m.proof.WithLabelValues(chain, outcome(err)).Observe(took.Seconds())
}

// Reached notes how far a chain is.
func (m *ChainMetrics) Reached(name string, heads chain.Heads) {
	m.heads.WithLabelValues(name, "latest").Set(float64(heads.Latest))
	m.heads.WithLabelValues(name, "finalized").Set(float64(heads.Finalized))
}

// RegisterQuorum adds whether enough of a chain's nodes have lately said how far
// it is.
func RegisterQuorum(r prometheus.Registerer, chain string, heard func() bool) error {
	return service.Register(r, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "verifier_chain_quorum_up", Help: "1 while a quorum of nodes has lately said how far the chain is, by chain.",
		ConstLabels: prometheus.Labels{"chain": chain},
	}, func() float64 { return yes(heard()) }))
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
