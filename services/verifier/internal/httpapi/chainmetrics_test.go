package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/httpapi"
)

func TestChainMetricsAndTheirLabels(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := httpapi.NewChainMetrics(registry, func() (int64, int) { return 4096, 2 })
	if err != nil {
		t.Fatal(err)
	}
	m.Exchanged("base", "node.example", "batch", time.Millisecond, nil)
	m.Exchanged("base", "node.example", "batch", time.Millisecond, fmt.Errorf("node.example: %w", chain.ErrRateLimited))
	m.LookedUp("base", true)
	m.LookedUp("base", false)
	m.Proved("base", time.Millisecond, chain.ErrIntegrity)
	m.Reached("base", chain.Heads{Latest: 20, Finalized: 10})
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer,
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`verifier_rpc_exchange_duration_seconds_count{chain="base",method="batch",node="node.example",outcome="ok"} 1`,
		`verifier_rpc_exchange_duration_seconds_count{chain="base",method="batch",node="node.example",outcome="upstream_rate_limited"} 1`,
		`verifier_proven_block_lookups_total{chain="base",result="hit"} 1`,
		`verifier_proven_block_lookups_total{chain="base",result="miss"} 1`,
		`verifier_proof_duration_seconds_count{chain="base",outcome="integrity_failure"} 1`,
		`verifier_chain_head{chain="base",head="latest"} 20`,
		`verifier_chain_head{chain="base",head="finalized"} 10`,
		`verifier_proven_blocks_bytes 4096`,
		`verifier_proven_blocks 2`,
	} {
		if !strings.Contains(answer.Body.String(), want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}
