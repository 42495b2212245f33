package main

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
)

// footprint is what is measured of one program's size and start.
type footprint struct{ start, idle, loaded, size samples }

// footprint measures how soon each service serves, and what it takes up.
func (s *suite) footprint(ctx context.Context) error {
	programs := map[string]*footprint{"auth": {}, "verifier": {}, "proxy": {}}
	for range s.rounds {
		if err := s.startOnce(ctx, programs); err != nil {
			return err
		}
	}
	s.page.line("\n## Start, memory, size")
	rows := [][]string{{"program", "start to first answer, ms", "memory idle, MB", "memory under load, MB", "program, MB"}}
	for _, name := range []string{"auth", "verifier", "proxy"} {
		f := programs[name]
		rows = append(rows, []string{name, f.start.String(), f.idle.String(), f.loaded.String(), figure(f.size.median())})
	}
	s.page.table(rows...)
	s.page.line("An image holds the program, the certificate authorities (0.2 MB) and nothing else. auth computes one bcrypt of cost 12 when it starts.")
	return nil
}

// startOnce starts everything once and measures each program.
func (s *suite) startOnce(ctx context.Context, programs map[string]*footprint) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, stop, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer stop()
	w.Extra["verifier"] = map[string]string{"CHAIN_NAME": "base", "CHAIN_ID": "8453"}
	if err := serve(ctx, w.Facilitator, facilitator()); err != nil {
		return err
	}
	if err := w.start(ctx, w.redis(), w.recordedNode()); err != nil {
		return err
	}
	for _, program := range []stack.Program{w.Auth(), w.Verifier(), w.Proxy()} {
		took, err := w.startTime(ctx, program)
		if err != nil {
			return err
		}
		info, err := os.Stat(program.Path)
		if err != nil {
			return err
		}
		f := programs[program.Name]
		f.start, f.size = append(f.start, milli(took)), append(f.size, float64(info.Size())/(1<<20))
	}
	for name, f := range programs {
		held, err := memory(w.Programs.Pid(name))
		if err != nil {
			return err
		}
		f.idle = append(f.idle, held)
	}
	me, err := w.me(ctx, w.Addresses.Proxy, s.sessions)
	if err != nil {
		return err
	}
	busy := []job{{requests: me, status: http.StatusOK}, {requests: [][]byte{request(http.MethodPost, verifyPath, "{}", nil)}, status: http.StatusPaymentRequired}}
	for _, j := range busy {
		j.addr, j.clients, j.duration = w.Addresses.Proxy, clients, s.turnLength
		if _, err := s.load(ctx, j); err != nil {
			return err
		}
	}
	for name, f := range programs {
		held, err := memory(w.Programs.Pid(name))
		if err != nil {
			return err
		}
		f.loaded = append(f.loaded, held)
	}
	return nil
}

// startTime is from the start of a program until it is healthy.
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
	err := w.start(ctx, program)
	return time.Since(began), err
}
