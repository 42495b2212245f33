package rpc_test

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
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
)

func TestMetrics_HaveTheirLabels(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := rpc.NewMetrics(registry, rpc.NewMemory(1<<20, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.RegisterQuorum("base", func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	count := m.Hooks("base")
	count.RPC("node.example", "batch", time.Millisecond, nil)
	count.RPC("node.example", "batch", time.Millisecond, fmt.Errorf("node.example: %w", chain.ErrRateLimited))
	count.Cache(true)
	count.Cache(false)
	count.Proof(3, time.Millisecond, chain.ErrIntegrity)
	count.Heads(chain.Heads{Latest: 20, Finalized: 10})
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
		`verifier_chain_quorum_up{chain="base"} 1`,
		`verifier_proven_blocks_bytes 0`,
		`verifier_proven_blocks 0`,
	} {
		if !strings.Contains(answer.Body.String(), want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}
