package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
)

// recovery is how long a buyer may have to try again when nothing fails any more. A
// verifier that was killed is known to be dead after ten seconds, and its payments
// are free to be resumed only then. What stays open is decided when its
// authorization has ended, a minute after it was signed.
const recovery = 90 * time.Second

// run is one seed in one world.
type run struct {
	*journal
	*world
	seed   uint64
	random *rand.Rand
	terms  terms
	names  []string // of the faults
}

// terms are what changes between runs in how the services are set up.
type terms struct {
	limit    int    // of free settlements
	confirm  string // what confirms a settlement: the facilitator or the chain
	nodes    int    // of the verified chain; most of them have to agree
	reverter bool   // whether there are buyers whose transfers revert
	once     bool   // whether a payer pays once for a question (REPEAT_WINDOW)
	observed bool   // whether another carries out some of the payments before they are sent
}

// settings are those of the services in a run with faults.
func (r *run) settings() settings {
	window := "0"
	if r.terms.once {
		window = "24h"
	}
	return settings{
		"auth": {"RATE_LIMIT_MAX_ATTEMPTS": "1000000", clockSetting: string(r.clocks["auth"])},
		"verifier": {
			"FACILITATOR_FREE_SETTLEMENTS": strconv.Itoa(r.terms.limit), "PAYMENT_CONFIRM": r.terms.confirm,
			"FACILITATOR_VERIFY_TIMEOUT": "1s", "FACILITATOR_SETTLE_TIMEOUT": "3s", "CHAIN_RPC_TIMEOUT": "700ms",
			"UNPAID_ATTEMPTS_PER_PAYER": "1000000", "UNPAID_ATTEMPTS_PER_ADDRESS": "1000000", "REPEAT_WINDOW": window, "REPEATS_PER_PAYER": "1000000",
			clockSetting: string(r.clocks["verifier"]),
		},
	}
}

// source returns the randomness of one part of a run.
func source(seed, part uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, part))
}

// do does the run. An error means that there was no run to judge.
func (r *run) do(ctx context.Context) error {
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
	r.terms.once = r.random.IntN(2) == 0
	r.terms.observed = source(r.seed, 400).IntN(2) == 0 // a source of its own keeps the rest of the plan
	r.note("seed %d, %+v", r.seed, r.terms)
	if err := r.world.begin(ctx, r.terms.nodes, r.settings()); err != nil {
		return err
	}
	a, err := newAudit(ctx, r.journal, r.world, r.terms.limit)
	if err != nil {
		return err
	}
	a.once, a.observed = r.terms.once, r.terms.observed
	u, err := newUsers(ctx, r.journal, r.world, r.random)
	if err != nil {
		return err
	}
	r.storm(ctx, u, a.buyers)
	r.recover(ctx, u, a.buyers)
	a.clockWrong = slices.Contains(r.names, "clock of verifier")
	a.believed = r.terms.confirm == "facilitator" && slices.Contains(r.names, "facilitator: all valid")
	return a.judge(ctx)
}

// storm has users and buyers work while faults come and go.
func (r *run) storm(ctx context.Context, u *users, b *buyers) {
	plan := r.draw(r.random, r.terms, *lasting)
	ctx, cancel := context.WithTimeout(ctx, *lasting)
	defer cancel()
	var all sync.WaitGroup
	for i := range uint64(3) {
		all.Go(func() { b.buyUntil(ctx, source(r.seed, 100+i)) })
	}
	all.Go(func() { b.buyBeforeFinality(ctx, source(r.seed, 110)) })
	all.Go(func() { r.addTransactions(ctx) })
	if r.terms.reverter {
		for i, payer := range r.reverting {
			for k := range 2 {
				all.Go(func() { b.revert(ctx, payer, source(r.seed, 120+uint64(2*i+k))) })
			}
		}
	}
	all.Go(func() { u.act(ctx, source(r.seed, 200)) })
	for _, line := range plan {
		for _, f := range line {
			r.names = append(r.names, f.name)
		}
		all.Go(func() { r.fail(context.WithoutCancel(ctx), line) })
	}
	all.Wait()
}

// addTransactions adds transactions to the chain, to be verified before they are
// final, until ctx ends.
func (r *run) addTransactions(ctx context.Context) {
	for ctx.Err() == nil {
		if _, err := r.chain.transfer(ctx, bystander, "1"); err != nil {
			pause(ctx, 100*time.Millisecond) // the chain is frozen
		}
	}
}

// fail begins and ends the faults of one target, one after the other.
func (r *run) fail(ctx context.Context, line []fault) {
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

// recover ends all faults; users and buyers find out what became of their calls.
func (r *run) recover(ctx context.Context, u *users, b *buyers) {
	r.heal()
	gaveUp, err := r.revive(ctx)
	if err != nil {
		r.violated("the stack is not ready again: %s", stack.Explain(err))
		return
	}
	r.count("programs started again because they had given up", len(gaveUp))
	r.note("nothing fails any more; given up had %v", gaveUp)
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() { u.judge(ctx, r.Path("disk/auth.db")) })
	both.Go(func() { b.retryAll(ctx, r.seed) })
	both.Wait()
	for _, name := range r.panicked() {
		r.violated("%s panicked", name)
	}
}
