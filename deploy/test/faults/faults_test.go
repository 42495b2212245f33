package faults

import (
	"context"
	"math/rand/v2"
	"syscall"
	"time"
)

// fault is something that goes wrong for a while.
type fault struct {
	name string
	// at is when it begins, lasts how long until it ends.
	at, lasts time.Duration
	// atLeast is the shortest time in which what it is about happens at all.
	atLeast    time.Duration
	begin, end func(ctx context.Context) error
}

// aBlock is longer than a block takes: settlements wait for one, and heads are
// read once in one.
const aBlock = 1300 * time.Millisecond

// draw returns the faults of one run, by what they happen to. Nothing has two at
// once. In every second run the node or the facilitator is among them, because
// they fail in the most ways. A facilitator confirms falsely only where the chain
// decides.
func (w *world) draw(random *rand.Rand, t terms, during time.Duration) (plan [][]fault) {
	targets := w.targets(random, t)
	rest := targets
	if random.IntN(2) == 0 {
		liar := random.IntN(2) // node or facilitator
		targets[0], targets[liar], rest = targets[liar], targets[0], targets[1:]
	}
	random.Shuffle(len(rest), func(i, k int) { rest[i], rest[k] = rest[k], rest[i] })
	for _, kinds := range targets[:2+random.IntN(4)] {
		var line []fault
		at := time.Duration(0)
		for at < during && len(line) < 2 {
			f := kinds[random.IntN(len(kinds))]()
			f.at = at + time.Duration(random.Int64N(int64(during/2)))
			f.lasts = 50*time.Millisecond + time.Duration(random.Int64N(int64(during/2)))
			f.lasts = max(f.lasts, f.atLeast)
			at = f.at + f.lasts
			line = append(line, f)
		}
		plan = append(plan, line)
	}
	return plan
}

// targets returns, for everything that can fail, the ways in which it does: the
// node and the facilitator first.
func (w *world) targets(random *rand.Rand, t terms) [][]func() fault {
	settler := w.answers("facilitator", w.settler, random)
	for range 8 {
		settler = append(settler, func() fault { return w.lies("facilitator: any text", w.settler, broadcaster, random, aBlock) })
	}
	for range 4 {
		settler = append(settler, func() fault { return w.lies("facilitator: all valid", w.settler, believes, random, aBlock) })
	}
	if t.confirm == "chain" {
		settler = append(settler, func() fault { return w.lies("facilitator: lie", w.settler, lieAsFacilitator, random, 0) })
	}
	targets := [][]func() fault{
		w.node(random, t), settler,
		w.deaths("auth"), w.deaths("verifier"), w.deaths("proxy"),
		{
			func() fault { return w.kill("redis") }, func() fault { return w.freeze("redis") },
			w.forget,
		},
		{func() fault { return w.freeze("devnet") }},
		w.redisLink(random), w.answers("payment node", w.payNode, random),
		w.answers("witness", w.log.witnesses[random.IntN(2)].link, random),
	}
	if *wrongClocks {
		targets = append(targets, []func() fault{w.clockStep("auth", random)}, []func() fault{w.clockStep("verifier", random)})
	}
	if ownDisks {
		targets = append(targets, []func() fault{w.full})
	}
	return targets
}

// node returns the ways in which one node of the verified chain fails; the others
// do not. A single one lies about its heads once only: when all nodes lie for
// longer, no honest node is left.
func (w *world) node(random *rand.Rand, t terms) []func() fault {
	one := w.nodes[random.IntN(t.nodes)]
	answers := int64(1)
	if t.nodes > 1 {
		answers = 1 + random.Int64N(30)
	}
	heads := lieAboutHeads(random.Uint64(), answers)
	kinds := append(w.answers("node", one, random), func() fault { return w.lies("node: lie", one, lieAsNode, random, 0) })
	for range 8 {
		kinds = append(kinds, func() fault { return w.lies("node: heads", one, heads, random, aBlock) })
	}
	return kinds
}

func (w *world) deaths(name string) []func() fault {
	return []func() fault{
		func() fault { return w.kill(name) }, func() fault { return w.kill(name) },
		func() fault { return w.freeze(name) },
	}
}

// kill ends a program as kill -9 does, and starts it again with what it kept.
func (w *world) kill(name string) fault {
	return fault{
		name:  "kill " + name,
		begin: func(context.Context) error { w.Programs.Kill(name); return nil },
		end: func(ctx context.Context) error {
			p := w.program(name)
			p.Ready = func(context.Context) error { return nil } // revive waits for it
			return w.Start(ctx, p)
		},
	}
}

// freeze stops a program without ending it, as a machine whose processors are busy
// does.
func (w *world) freeze(name string) fault {
	signal := func(s syscall.Signal) func(context.Context) error {
		return func(context.Context) error {
			if pid := w.Programs.Pid(name); pid != 0 {
				return syscall.Kill(pid, s)
			}
			return nil
		}
	}
	return fault{name: "freeze " + name, begin: signal(syscall.SIGSTOP), end: signal(syscall.SIGCONT)}
}

// forget restarts Redis with nothing in it.
func (w *world) forget() fault {
	f := w.kill("redis")
	f.name = "lose redis"
	start := f.end
	f.end = func(ctx context.Context) error {
		if err := w.memory.empty(); err != nil {
			return err
		}
		return start(ctx)
	}
	return f
}

// full fills the disk of both services.
func (w *world) full() fault {
	return fault{
		name:  "disk full",
		begin: func(context.Context) error { return w.disk.fill() },
		end:   func(context.Context) error { w.disk.free(); return nil },
	}
}

// clockStep sets the wall clock of a service wrong by up to ten minutes.
func (w *world) clockStep(name string, random *rand.Rand) func() fault {
	return func() fault {
		by := time.Duration(random.Int64N(int64(20*time.Minute))) - 10*time.Minute
		if random.IntN(4) > 0 {
			by /= 60 // seconds
		}
		return fault{
			name:  "clock of " + name,
			begin: func(context.Context) error { return w.clocks[name].set(by) },
			end:   func(context.Context) error { return w.clocks[name].set(0) },
		}
	}
}

// redisLink returns the faults between auth and Redis.
func (w *world) redisLink(random *rand.Rand) (kinds []func() fault) {
	for _, of := range []linkFault{hang, refuse, cutBefore, cutAfter, slow} {
		kinds = append(kinds, func() fault {
			delay := time.Duration(1+random.IntN(300)) * time.Millisecond
			return fault{
				name:  "redis: " + string(of),
				begin: func(context.Context) error { w.redis.set(of, delay); return nil },
				end:   func(context.Context) error { w.redis.set(noFault, 0); return nil },
			}
		})
	}
	return kinds
}

// answers are the faults of the answer to a request.
func (w *world) answers(name string, link *httpProxy, random *rand.Rand) (kinds []func() fault) {
	for _, of := range []linkFault{slow, hang, refuse, cutAfter, status500, late500, garbage, half} {
		kinds = append(kinds, func() fault { return w.on(name+": "+string(of), link, of, random) })
	}
	return kinds
}

// on hits a share of the requests that pass.
func (w *world) on(name string, link *httpProxy, of linkFault, random *rand.Rand) fault {
	share, delay := 0.3+0.7*random.Float64(), time.Duration(1+random.IntN(1500))*time.Millisecond
	return fault{
		name:  name,
		begin: func(context.Context) error { link.set(of, share, delay); return nil },
		end:   func(context.Context) error { link.set(noFault, 0, 0); return nil },
	}
}

// lies answers a share of the requests that pass, for some time at least.
func (w *world) lies(name string, link *httpProxy, by liar, random *rand.Rand, atLeast time.Duration) fault {
	f := w.on(name, link, lying, random)
	seed, begin := random.Uint64(), f.begin
	f.atLeast = atLeast
	f.begin = func(ctx context.Context) error {
		link.setLiar(by, source(seed, 1))
		return begin(ctx)
	}
	return f
}
