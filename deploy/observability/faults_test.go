package observability

import (
	"fmt"
	"maps"
	"math"
	"strconv"
)

// series are time series by name and labels, each with how it goes on from one
// minute to the next. Which job and instance one is of, world adds.
type series map[string]shape

// shape returns a series' next value from its last one; not a number is none.
type shape func(last float64) float64

func steady(value float64) shape { return func(float64) float64 { return value } }

// rising is a counter, or the number of a block.
func rising(aMinute float64) shape {
	return func(last float64) float64 {
		if math.IsNaN(last) {
			last = 0
		}
		return last + aMinute
	}
}

// gone is a program that is not scraped.
var gone = steady(math.NaN())

// with returns the series and others, which win.
func (s series) with(others ...series) series {
	all := maps.Clone(s)
	for _, other := range others {
		maps.Copy(all, other)
	}
	return all
}

// The buckets that the programs have, as far as alerts look at them.
var (
	toFive      = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
	toThirty    = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	toSixty     = append(toThirty[:len(toThirty):len(toThirty)], 60)
	redisCounts = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 3}
)

// taking is a histogram of so many things a minute that all take equally long.
func taking(seconds float64, buckets []float64, aMinute float64, name, labels string) series {
	h := series{fmt.Sprintf("%s_count{%s}", name, labels): rising(aMinute), fmt.Sprintf("%s_sum{%s}", name, labels): rising(aMinute * seconds)}
	for _, le := range append(buckets[:len(buckets):len(buckets)], math.Inf(1)) {
		below := rising(0)
		if seconds <= le {
			below = rising(aMinute)
		}
		h[fmt.Sprintf(`%s_bucket{%s,le="%s"}`, name, labels, formatLE(le))] = below
	}
	return h
}

func formatLE(le float64) string {
	if math.IsInf(le, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(le, 'g', -1, 64)
}

const (
	atMe        = `route="/api/v1/auth/me",method="GET"`
	atLogin     = `route="/api/v1/auth/login",method="POST"`
	atVerify    = `route="/v1/verify/chain-transaction",method="POST"`
	authTook    = "auth_http_request_duration_seconds"
	verifyTook  = "verifier_http_request_duration_seconds"
	redisTook   = "auth_redis_command_duration_seconds"
	askedTook   = "verifier_facilitator_call_duration_seconds"
	lookedTook  = "verifier_truth_lookup_duration_seconds"
	nodeTook    = "verifier_rpc_exchange_duration_seconds"
	provedTook  = "verifier_proof_duration_seconds"
	proxyTook   = "caddy_http_request_duration_seconds"
	oneNode     = `chain="base",node="a",method="batch"`
	anotherNode = `chain="base",node="b",method="batch"`
)

// healthy is a busy day without a fault, with the odd failure that a day has.
func healthy() series {
	return series{
		`up{job="auth"}`: steady(1), `up{job="verifier"}`: steady(1), `up{job="proxy"}`: steady(1),
		`probe_success{job="site"}`: steady(1), `probe_ssl_earliest_cert_expiry{job="site"}`: steady(60 * 86400),
		`caddy_reverse_proxy_upstreams_healthy{upstream="auth:8081"}`: steady(1),
		`auth_store_up{store="redis"}`:                                steady(1), `auth_store_up{store="database"}`: steady(1), `verifier_store_up{store="database"}`: steady(1),
		`edge_refused_requests_total{service="auth",kind="quick"}`: rising(1), proxyTook + `_count{handler="timeouts",code="200"}`: rising(1000), proxyTook + `_count{handler="timeouts",code="502"}`: rising(1),
		`auth_http_requests_total{route="/api/v1/auth/me",status="200"}`: rising(600), `auth_http_requests_total{route="/api/v1/auth/me",status="500"}`: rising(1),
		`auth_http_requests_total{route="/health",status="503"}`:                          rising(0),
		`verifier_http_requests_total{route="/v1/verify/chain-transaction",status="200"}`: rising(60),
		`process_open_fds{job="auth"}`:                                                    steady(100), `process_max_fds{job="auth"}`: steady(1024),
		`auth_limiter_decisions_total{limit="login",decision="refused"}`: rising(2), `auth_limiter_decisions_total{limit="login",decision="error"}`: rising(0),
		`auth_logins_total{outcome="success"}`: rising(10), `auth_logins_total{outcome="invalid_credentials"}`: rising(2),
		`auth_passwords_refused_total`:           rising(0),
		`auth_oidc_logouts_total{result="sent"}`: rising(2), `auth_oidc_logouts_total{result="failed"}`: rising(0), `auth_oidc_logouts_waiting`: steady(0),
		`verifier_settlements_left`: steady(600), `verifier_settlements_limit`: steady(1000), `verifier_settlements_failed`: steady(5), `verifier_payments_unknown_oldest_seconds`: steady(20),
		`verifier_sales_total{operation="base-transaction",transport="http",outcome="paid"}`:     rising(30),
		`verifier_sales_total{operation="base-transaction",transport="mcp",outcome="paid"}`:      rising(10),
		`verifier_sales_total{operation="base-token-transfer",transport="mcp",outcome="paid"}`:   rising(5),
		`verifier_sales_total{operation="base-transaction",transport="http",outcome="repeated"}`: rising(5), `verifier_sales_total{operation="base-transaction",transport="http",outcome="refused"}`: rising(10),
		`verifier_income_units_month{network="eip155:8453",asset="0x8335"}`: steady(2.5e6), `verifier_refunds_units_month{network="eip155:8453",asset="0x8335"}`: steady(5e5),
		`verifier_repeats_total`: rising(1), `verifier_decisions_total{to="dead"}`: steady(2),
		`verifier_payments_total{outcome="paid"}`: rising(50), `verifier_payments_total{outcome="not_settled"}`: rising(1),
		`verifier_payments_total{outcome="work_failed"}`: rising(2), `verifier_payments_total{outcome="ledger"}`: rising(0),
		`verifier_log_size`: rising(30), `verifier_log_published_size`: rising(30), `verifier_log_queue_age_seconds`: steady(0), `verifier_log_set_aside`: steady(0), `verifier_log_published_age_seconds`: steady(3),
		`verifier_log_frozen{why="restored"}`: steady(0), `verifier_log_frozen{why="fork"}`: steady(0),
		`verifier_log_witness_age_seconds{name="a"}`: steady(3), `verifier_log_witness_errors_total{name="a"}`: rising(1),
		`verifier_log_audit_ok`: steady(1), `verifier_log_audit_age_seconds`: steady(40000),
		`verifier_finality_anchor_age_seconds{chain="base"}`: steady(800), `verifier_finality_participation{chain="base"}`: steady(.99), `verifier_finality_pending_age_seconds{chain="base"}`: steady(0),
		`verifier_finality_bundles{chain="base",state="made"}`: rising(2), `verifier_finality_bundles{chain="base",state="pending"}`: steady(0),
		`verifier_finality_failures_total{chain="base",cause="update"}`: rising(0), `verifier_finality_failures_total{chain="base",cause="handover"}`: rising(0),
		`verifier_finality_failures_total{chain="base",cause="node"}`: rising(1),
		`verifier_chain_quorum_up{chain="base"}`:                      steady(1),
		`verifier_chain_head{chain="base",head="latest"}`:             rising(30), `verifier_chain_head{chain="base",head="finalized"}`: rising(30),
	}.with(
		taking(.004, toFive, 600, authTook, atMe), taking(.3, toFive, 10, authTook, atLogin),
		taking(.0004, redisCounts, 600, redisTook, `command="evalsha",outcome="ok"`), taking(.0004, redisCounts, 0, redisTook, `command="evalsha",outcome="error"`),
		taking(.1, toSixty, 60, askedTook, `call="verify",outcome="ok"`), taking(2, toSixty, 50, askedTook, `call="settle",outcome="ok"`),
		taking(.1, toSixty, 0, askedTook, `call="verify",outcome="unusable"`), taking(.1, toSixty, 0, askedTook, `call="settle",outcome="limit"`),
		taking(.2, toThirty, 5, lookedTook, `outcome="paid"`), taking(.2, toThirty, 0, lookedTook, `outcome="failed"`),
		taking(2.3, toSixty, 60, verifyTook, atVerify),
		taking(.2, toThirty, 120, nodeTook, oneNode+`,outcome="ok"`), taking(.2, toThirty, 3, nodeTook, oneNode+`,outcome="timeout"`),
		taking(.2, toThirty, 20, nodeTook, anotherNode+`,outcome="ok"`),
		taking(.02, toThirty, 10, provedTook, `chain="base",outcome="ok"`),
	)
}

// fault is what changes when something fails.
type fault struct {
	changes series
	// also are the alerts that rightly come with it.
	also []string
}

// faults are those that each alert is there for, after its name.
var faults = map[string]fault{
	"ProgramDown":        {changes: series{`up{job="verifier"}`: steady(0)}},
	"ProgramDown, gone":  {changes: series{`up{job="proxy"}`: gone}},
	"SiteDown":           {changes: series{`probe_success{job="site"}`: steady(0)}},
	"CertificateExpires": {changes: series{`probe_ssl_earliest_cert_expiry{job="site"}`: steady(14 * 86400)}},
	"ReplicaUnwell":      {changes: series{`caddy_reverse_proxy_upstreams_healthy{upstream="auth:8081"}`: steady(0)}},
	"StoreDown":          {changes: series{`auth_store_up{store="redis"}`: steady(0)}},
	"ProxyErrors":        {changes: series{proxyTook + `_count{handler="timeouts",code="502"}`: rising(100)}},
	// Caddy calls the outermost handler so where the site's address has a host.
	"ProxyErrors, with a host": {changes: series{
		proxyTook + `_count{handler="timeouts",code="200"}`: gone, proxyTook + `_count{handler="timeouts",code="502"}`: gone,
		proxyTook + `_count{handler="subroute",code="200"}`: rising(1000), proxyTook + `_count{handler="subroute",code="502"}`: rising(100),
	}},
	"ServiceFull":    {changes: series{`edge_refused_requests_total{service="auth",kind="quick"}`: rising(600)}},
	"AuthErrors":     {changes: series{`auth_http_requests_total{route="/api/v1/auth/me",status="500"}`: rising(30)}},
	"VerifierErrors": {changes: series{`verifier_http_requests_total{route="/v1/verify/chain-transaction",status="500"}`: steady(1)}},
	"FilesRunOut":    {changes: series{`process_open_fds{job="auth"}`: steady(900)}},

	"AuthSlow":          {changes: taking(.8, toFive, 600, authTook, atMe)},
	"LoginSlow":         {changes: taking(4, toFive, 10, authTook, atLogin)},
	"LoginStorm":        {changes: series{`auth_limiter_decisions_total{limit="login",decision="refused"}`: rising(120)}},
	"PasswordGuessing":  {changes: series{`auth_logins_total{outcome="invalid_credentials"}`: rising(40)}},
	"PasswordQueueFull": {changes: series{`auth_passwords_refused_total`: rising(1)}},
	"LimiterFails":      {changes: series{`auth_limiter_decisions_total{limit="login",decision="error"}`: rising(1)}},
	"RedisErrors":       {changes: taking(.0004, redisCounts, 20, redisTook, `command="evalsha",outcome="error"`)},
	"RedisSlow":         {changes: taking(.2, redisCounts, 600, redisTook, `command="evalsha",outcome="ok"`)},

	"LogoutsFail": {changes: series{`auth_oidc_logouts_total{result="failed"}`: rising(.1)}},
	"LogoutsWait": {changes: series{`auth_oidc_logouts_waiting`: steady(3)}},

	"SettlementsRunOut": {changes: series{`verifier_settlements_left`: steady(150)}},
	"SettlementsUsedUp": {changes: series{`verifier_settlements_left`: steady(0)}, also: []string{"SettlementsRunOut"}},
	"SettlementsInVain": {changes: series{`verifier_settlements_failed`: rising(1)}},
	"PaymentsOpen":      {changes: series{`verifier_payments_unknown_oldest_seconds`: rising(60)}},
	"FacilitatorFails":  {changes: taking(.1, toSixty, 30, askedTook, `call="verify",outcome="unusable"`)},
	"FacilitatorLimit":  {changes: series{askedTook + `_count{call="settle",outcome="limit"}`: steady(1)}},
	"FacilitatorSlow":   {changes: taking(40, toSixty, 50, askedTook, `call="settle",outcome="ok"`)},
	"SettlementsFail":   {changes: series{`verifier_payments_total{outcome="not_settled"}`: rising(20)}},
	"TruthUnreadable":   {changes: taking(.2, toThirty, 2, lookedTook, `outcome="failed"`)},
	"LedgerFails":       {changes: series{`verifier_payments_total{outcome="ledger"}`: rising(1)}},
	"LogFrozen":         {changes: series{`verifier_log_frozen{why="fork"}`: steady(1)}},
	"LogWaits":          {changes: series{`verifier_log_queue_age_seconds`: steady(100)}},
	"LogStandsStill":    {changes: series{`verifier_log_queue_age_seconds`: steady(1000)}, also: []string{"LogWaits"}},
	"LogSetAside":       {changes: series{`verifier_log_set_aside`: steady(1)}},
	"LogUnwitnessed":    {changes: series{`verifier_log_published_age_seconds`: steady(700), `verifier_log_published_size`: steady(3)}},
	"LogUnwitnessedLong": {
		changes: series{`verifier_log_published_age_seconds`: steady(8000), `verifier_log_published_size`: steady(3)}, also: []string{"LogUnwitnessed"},
	},
	"LogAuditFails":      {changes: series{`verifier_log_audit_ok`: steady(0)}},
	"LogAuditMissing":    {changes: series{`verifier_log_audit_age_seconds`: steady(200000)}},
	"FinalityStale":      {changes: series{`verifier_finality_anchor_age_seconds{chain="base"}`: steady(2000)}},
	"FinalityNone":       {changes: series{`verifier_finality_anchor_age_seconds{chain="base"}`: gone, `verifier_finality_participation{chain="base"}`: gone}},
	"FinalityThin":       {changes: series{`verifier_finality_participation{chain="base"}`: steady(.7)}},
	"FinalityWaits":      {changes: series{`verifier_finality_pending_age_seconds{chain="base"}`: steady(1000)}},
	"FinalityUnverified": {changes: series{`verifier_finality_failures_total{chain="base",cause="update"}`: rising(1)}},
	"FinalityHandover":   {changes: series{`verifier_finality_failures_total{chain="base",cause="handover"}`: rising(1)}},
	"VerifierSlow":       {changes: taking(45, toSixty, 60, verifyTook, atVerify)},
	"EvidenceFails":      {changes: series{`verifier_payments_total{outcome="work_failed"}`: rising(60)}},

	"QuorumLost":      {changes: series{`verifier_chain_quorum_up{chain="base"}`: steady(0)}},
	"ChainStalled":    {changes: series{`verifier_chain_head{chain="base",head="latest"}`: rising(0)}},
	"FinalityStalled": {changes: series{`verifier_chain_head{chain="base",head="finalized"}`: rising(0)}},
	"NodeFails":       {changes: taking(.2, toThirty, 60, nodeTook, oneNode+`,outcome="timeout"`)},
	"NodeSlow":        {changes: taking(6, toThirty, 20, nodeTook, anotherNode+`,outcome="ok"`)},
	"ProofFails":      {changes: series{provedTook + `_count{chain="base",outcome="integrity_failure"}`: steady(1)}},
}
