package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
)

// recovery is how long a buyer may have to come back when all is well again. A
// verifier that was killed is known to be dead after ten seconds, and what it had
// begun is free to be taken up again only then. What stays open is decided when
// its authorization has ended, a minute after it was signed.
const recovery = 90 * time.Second

// run is one seed in one world.
type run struct {
	*journal
	*world
	seed   uint64
	random *rand.Rand
	chaos  time.Duration
	terms  terms
	names  []string // of the faults
}

func newRun(w *world, seed uint64, chaos time.Duration) *run {
	return &run{journal: newJournal(), world: w, seed: seed, chaos: chaos, random: source(seed, 0)}
}

// source gives the randomness of one part of a run.
func source(seed, part uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, part)) //nolint:gosec // not a secret
}

// do does the run. An error means that there was no run to judge.
func (r *run) do(ctx context.Context, earlier receipts) error {
	r.terms = terms{limit: 1000, confirm: "facilitator", nodes: 1 + r.random.IntN(len(r.nodes))}
	if r.random.IntN(2) == 0 {
		r.terms.confirm = "chain"
	}
	switch r.random.IntN(4) {
	case 0:
		r.terms.limit = 1 + r.random.IntN(5)
	case 1:
		r.terms.reverter, r.terms.limit = ownAddresses, 24
	}
	r.note("seed %d, %+v", r.seed, r.terms)
	if err := r.world.begin(ctx, r.terms); err != nil {
		return err
	}
	keys, err := r.keys(ctx)
	if err != nil {
		return err
	}
	since, err := r.chain.head(ctx, "latest")
	if err != nil {
		return err
	}
	transactions, err := r.chain.transactions(ctx)
	if err != nil {
		return err
	}
	h, err := newHouse(r.journal, r.world)
	if err != nil {
		return err
	}
	s := newShop(r.journal, r.world, transactions)
	if err := h.furnish(ctx, r.random); err != nil {
		return err
	}
	r.storm(ctx, h, s)
	r.recover(ctx, h, s)
	return r.judge(ctx, s, since+1, keys, earlier)
}

// storm lets everybody do what he does while faults come and go.
func (r *run) storm(ctx context.Context, h *house, s *shop) {
	plan := r.draw(r.random, r.terms, r.chaos)
	ctx, cancel := context.WithTimeout(ctx, r.chaos)
	defer cancel()
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() { s.visit(ctx, source(r.seed, 100+uint64(i))) })
	}
	all.Go(func() { s.hurry(ctx, source(r.seed, 110)) })
	all.Go(func() { r.stir(ctx) })
	if r.terms.reverter {
		for i, b := range s.accounts.reverting {
			for k := range 2 {
				all.Go(func() { s.revert(ctx, b, source(r.seed, 120+uint64(2*i+k))) })
			}
		}
	}
	all.Go(func() { h.live(ctx, source(r.seed, 200)) })
	for _, line := range plan {
		for _, f := range line {
			r.names = append(r.names, f.name)
		}
		all.Go(func() { r.happen(context.WithoutCancel(ctx), line) })
	}
	all.Wait()
}

// stir makes transactions to ask about before they are final, until ctx ends.
func (r *run) stir(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.give(ctx, bystander, "1"); err != nil {
			pause(ctx, 100*time.Millisecond) // the chain stands still
		}
	}
}

// happen lets the faults of one target happen, one after the other.
func (r *run) happen(ctx context.Context, line []fault) {
	begin := time.Now()
	for _, f := range line {
		time.Sleep(time.Until(begin.Add(f.at)))
		r.note("%s begins", f.name)
		err := f.begin(ctx)
		time.Sleep(f.lasts)
		err = errors.Join(err, f.end(ctx))
		r.note("%s ends", f.name)
		if err != nil {
			r.note("%s: %v", f.name, err)
		}
	}
}

// recover ends all faults and lets everybody find out what became of things.
func (r *run) recover(ctx context.Context, h *house, s *shop) {
	r.heal()
	gaveUp, err := r.revive(ctx)
	if err != nil {
		r.violated("the stack is not well again: %s", explain(err))
		return
	}
	r.count("programs started again because they had given up", len(gaveUp))
	r.note("all is well again; given up had %v", gaveUp)
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() { h.settle(ctx, r.Path("disk/auth.db")) })
	both.Go(func() { s.settleUp(ctx); s.sellsAgain(ctx, r.seed) })
	both.Wait()
	for _, name := range r.panicked() {
		r.violated("%s panicked", name)
	}
}

// sellsAgain buys one more thing, which must work.
func (s *shop) sellsAgain(ctx context.Context, seed uint64) {
	s.last = s.buy(ctx, s.questions[0], source(seed, 300))
}

// judge waits until what was sent to the chain is on it, and judges.
func (r *run) judge(ctx context.Context, s *shop, since uint64, keys receipt.KeyDocument, earlier receipts) error {
	r.settler.Wait()
	if err := r.chain.nextBlocks(ctx, 2); err != nil {
		return err
	}
	transfers, strange, err := r.chain.transfers(ctx, since)
	if err != nil {
		return err
	}
	failed, err := r.chain.failed(ctx, since)
	if err != nil {
		return err
	}
	account{
		shop: s, transfers: transfers, strange: strange, failed: failed, limit: r.terms.limit,
		stepped: slices.Contains(r.names, "clock of verifier"),
	}.judge()
	s.judge(ctx, r.chain, keys, earlier)
	return nil
}

// keys reads the published keys while nothing fails.
func (r *run) keys(ctx context.Context) (document receipt.KeyDocument, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.PublicURL+"/.well-known/receipt-signing-key.json", nil)
	if err != nil {
		return document, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return document, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return document, err
	}
	if document, err = receipt.ParseKeyDocument(text); err != nil {
		return document, fmt.Errorf("the key document: %w", err)
	}
	return document, nil
}
