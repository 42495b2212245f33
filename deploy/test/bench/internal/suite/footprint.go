package suite

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/bench/internal/facilitator"
	"github.com/pforte/pforte/deploy/test/bench/internal/load"
	"github.com/pforte/pforte/deploy/test/bench/internal/machine"
)

// footprint measures how soon each service serves, and what it takes up.
func (s *Suite) footprint(ctx context.Context, p *page) error {
	p.line("\n## Start, memory, size")
	rows := [][]string{{"program", "start to first answer, ms", "memory idle, MB", "memory under load, MB", "program, MB"}}
	starts := map[string]samples{}
	idle, loaded := map[string]samples{}, map[string]samples{}
	names := []string{"auth", "verifier", "proxy"}
	sizes := map[string]int64{}
	for range s.Rounds {
		if err := s.oneStart(ctx, starts, idle, loaded, sizes); err != nil {
			return err
		}
	}
	for _, name := range names {
		s.progress("%s: start %s ms, idle %s MB, loaded %s MB", name, starts[name], idle[name], loaded[name])
		rows = append(rows, []string{name, starts[name].String(), idle[name].String(), loaded[name].String(), figure(float64(sizes[name]) / (1 << 20))})
	}
	p.table(rows...)
	p.line("An image holds the program, the certificate authorities (0.2 MB) and nothing else. auth computes one bcrypt of cost 12 when it starts.")
	return nil
}

// oneStart starts everything once and measures each program.
func (s *Suite) oneStart(ctx context.Context, starts, idle, loaded map[string]samples, sizes map[string]int64) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w, err := s.open(ctx, "footprint")
	if err != nil {
		return err
	}
	defer w.close(ctx)
	if err := w.redis(ctx); err != nil {
		return err
	}
	if err := (&facilitator.Server{Network: layout.Network, Payer: payer}).Serve(ctx, w.Layout.Facilitator); err != nil {
		return err
	}
	if err := w.Start(ctx, within, w.recordedNode()); err != nil {
		return err
	}
	w.Extra["verifier"] = map[string]string{"CHAIN_NAME": "base", "CHAIN_ID": "8453"}
	for _, program := range []stack.Program{w.Layout.Auth(), w.Layout.Verifier(), w.Layout.Proxy()} {
		took, err := w.startTime(ctx, program)
		if err != nil {
			return err
		}
		starts[program.Name] = append(starts[program.Name], milli(took))
		info, err := os.Stat(program.Path)
		if err != nil {
			return err
		}
		sizes[program.Name] = info.Size()
	}
	if err := w.memory(idle); err != nil {
		return err
	}
	if err := w.busy(ctx); err != nil {
		return err
	}
	return w.memory(loaded)
}

// startTime is from the start of a program until it says that it is healthy.
func (w *world) startTime(ctx context.Context, program stack.Program) (time.Duration, error) {
	healthy := program.Ready
	program.Ready = func(ctx context.Context) error {
		for {
			if err := healthy(ctx); err == nil || ctx.Err() != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	}
	began := time.Now()
	err := w.Start(ctx, within, program)
	return time.Since(began), err
}

func (w *world) memory(into map[string]samples) error {
	for _, name := range []string{"auth", "verifier", "proxy"} {
		held, err := machine.Memory(w.Pid(name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		into[name] = append(into[name], float64(held)/(1<<20))
	}
	return nil
}

// busy asks auth and the verifier through the proxy.
func (w *world) busy(ctx context.Context) error {
	me, err := w.me(ctx, w.Addresses.Proxy)
	if err != nil {
		return err
	}
	for _, job := range []load.Job{
		{Request: always(me), Status: http.StatusOK},
		{Request: always(request(http.MethodPost, verifyPath, "{}")), Status: http.StatusPaymentRequired},
	} {
		job.Addr, job.Conns, job.For = w.Addresses.Proxy, askers, w.suite.For/3
		if _, err := load.Run(ctx, job); err != nil {
			return err
		}
	}
	return nil
}
