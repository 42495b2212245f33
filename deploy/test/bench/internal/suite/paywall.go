package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/bench/internal/facilitator"
	"github.com/pforte/pforte/deploy/test/bench/internal/load"
	"github.com/pforte/pforte/pkg/receipt"
)

// verifyPath is where both sell.
const verifyPath = "/v1/verify/base-transaction"

// paywall compares the verifier with the official server packages.
func (s *Suite) paywall(ctx context.Context, p *page) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w, body, err := s.openPaywall(ctx)
	if err != nil {
		return err
	}
	defer w.close(ctx)
	p.line("\n## Paywall")
	sellers := []seller{
		{"verifier", w.Addresses.Verifier, []int{w.Pid("verifier")}},
		{"@x402/express", w.peers["express"], []int{w.Pid("express")}},
		{"verifier behind Caddy", w.Addresses.Proxy, []int{w.Pid("verifier"), w.Pid("proxy")}},
	}
	p.line("\nThe 402 of a call without payment, %d callers at once.", askers)
	unpaid := func(seller, time.Duration) (func() []byte, error) {
		return always(request(http.MethodPost, verifyPath, body)), nil
	}
	nothing := seller{"net/http, doing nothing", w.peers["bare"], []int{w.Pid("bare")}}
	r, err := s.sell(ctx, p, "unpaid", askers, http.StatusPaymentRequired, append(slices.Clip(sellers), nothing), unpaid)
	if err != nil {
		return err
	}
	p.ratios("unpaid", r[0], r[1], "@x402/express", atLeast(10))

	paid := func(sl seller, turn time.Duration) (func() []byte, error) {
		return s.payments(ctx, sl.addr, body, turn)
	}
	p.line("\nPaid calls, %d at once: the same facilitator, which says yes at once, and the same evidence, made before.", askers)
	if r, err = s.sell(ctx, p, "paid", askers, http.StatusOK, sellers, paid); err != nil {
		return err
	}
	p.ratios("paid", r[0], r[1], "@x402/express", atLeast(5))
	return s.oneAtATime(ctx, p, body, append(slices.Clip(sellers), seller{"the facilitator alone", w.Layout.Facilitator, []int{os.Getpid()}}))
}

// oneAtATime measures what a seller adds to what the facilitator takes, who is
// the last of the sellers.
func (s *Suite) oneAtATime(ctx context.Context, p *page, body string, sellers []seller) error {
	bank := sellers[len(sellers)-1]
	p.line("\nPaid calls, one at a time; and one of the facilitator's two answers to such a call, with nobody between.")
	r, err := s.sell(ctx, p, "paid, one at a time", 1, http.StatusOK, sellers, func(sl seller, turn time.Duration) (func() []byte, error) {
		if sl.addr == bank.addr {
			return always(request(http.MethodPost, "/verify", body)), nil
		}
		return s.payments(ctx, sl.addr, body, turn)
	})
	if err != nil {
		return err
	}
	added := r[0].p50.less(r[len(r)-1].p50, 2)
	p.line("- In the median a call takes %s ms more than the facilitator's two answers. Wanted %s.", added, atMost(2).met(added))
	return nil
}

// seller is a server that sells evidence.
type seller struct {
	name, addr string
	pids       []int
}

// openPaywall starts the verifier on a recorded block, the proxy and the peer,
// and gives the body of the request for evidence.
func (s *Suite) openPaywall(ctx context.Context) (w *world, body string, err error) {
	vector := filepath.Join(s.Top, "pkg/receipt/testdata/vectors/base/response.json")
	text, err := os.ReadFile(vector) //nolint:gosec // a file of the project
	if err != nil {
		return nil, "", err
	}
	document, err := receipt.Parse(text)
	if err != nil {
		return nil, "", fmt.Errorf("evidence of the peer: %w", err)
	}
	asked, err := json.Marshal(map[string]any{"transactionHash": document.Receipt.Request.TransactionHash, "expectations": document.Receipt.Request.Expectations})
	if err != nil {
		return nil, "", err
	}
	if w, err = s.open(ctx, "paywall"); err != nil {
		return nil, "", err
	}
	w.Extra["verifier"] = map[string]string{
		"CHAIN_NAME": "base", "CHAIN_ID": "8453", "PAYMENT_CONFIRM": "facilitator", // whose transfers are on no chain
		"FACILITATOR_FREE_SETTLEMENTS": "1000000000", "UNPAID_ATTEMPTS_PER_PAYER": manyAttempts, "UNPAID_ATTEMPTS_PER_ADDRESS": manyAttempts,
	}
	proxy := w.Layout.Proxy()
	proxy.Ready = listening(w.Addresses.Proxy)
	bank := &facilitator.Server{Network: layout.Network, Payer: payer}
	if err = bank.Serve(ctx, w.Layout.Facilitator); err == nil {
		err = w.Start(ctx, within, w.recordedNode(), w.Layout.Verifier(), proxy)
	}
	if err == nil {
		err = w.node(ctx, "express", "paid.mjs", map[string]string{
			"FACILITATOR_URL": "http://" + w.Layout.Facilitator, "NETWORK": layout.Network, "PAY_TO": layout.Payee, "ANSWER": vector,
		})
	}
	if err == nil {
		err = w.bare(ctx)
	}
	if err != nil {
		w.close(ctx)
		return nil, "", err
	}
	return w, string(asked), nil
}

// recordedNode is a node of one block of Base.
func (w *world) recordedNode() stack.Program {
	return stack.Program{
		Name: "node", Path: filepath.Join(w.Bin, "recordednode"),
		Args: []string{
			"--block", filepath.Join(w.suite.Top, "pkg/receipt/testdata/blocks/base-mainnet-2000000.json.gz"),
			"--listen", w.Chain, "--latest", "2000100", "--finalized", "2000050",
		},
		Ready: listening(w.Chain),
	}
}

// sell measures one kind of call at all sellers.
func (s *Suite) sell(ctx context.Context, p *page, what string, callers, status int, sellers []seller,
	requests func(seller, time.Duration) (func() []byte, error),
) ([]rounds, error) {
	cells := make([]cell, len(sellers))
	for i, sl := range sellers {
		cells[i] = cell{name: what + ", " + sl.name, pids: sl.pids, prepare: func(_ context.Context, d time.Duration) (load.Job, error) {
			next, err := requests(sl, d)
			return load.Job{Addr: sl.addr, Conns: callers, For: d, Request: next, Status: status}, err
		}}
	}
	r, err := s.compare(ctx, s.For, cells...)
	if err != nil {
		return nil, err
	}
	rows := [][]string{{"server", "answers/s", "µs of processor per answer", "p50 ms", "p99 ms"}}
	for i, sl := range sellers {
		rows = append(rows, []string{sl.name, r[i].rate.String(), r[i].cost.String(), r[i].p50.String(), r[i].p99.String()})
	}
	p.table(rows...)
	return r, nil
}
