package bench

import (
	"context"
	"os"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
)

// footprint measures how soon each program serves when it starts again, and what it
// takes up.
func (s *suite) footprint() {
	names := []string{"auth", "verifier", "proxy", "devnet"}
	start, idle, own, loaded, size := map[string]samples{}, map[string]samples{}, map[string]samples{}, map[string]samples{}, map[string]samples{}
	for range s.rounds {
		w := s.open(s.bin)
		w.Extra["verifier"] = nil // the development chain and its facilitator
		programs := []stack.Program{w.Auth(), w.Verifier(), w.Proxy(), w.Devnet()}
		w.start(w.redis(), w.Devnet(), w.Auth(), w.Verifier(), w.Proxy())
		for _, program := range programs {
			info, err := os.Stat(program.Path)
			s.must(err)
			size[program.Name] = append(size[program.Name], float64(info.Size())/(1<<20))
			w.Programs.End(s.Context(), program.Name, 5*time.Second)
			start[program.Name] = append(start[program.Name], milli(w.startTime(program)))
		}
		time.Sleep(2 * time.Second) // what a start needs for a moment is given back
		w.memory("VmRSS", names, idle)
		w.memory("RssAnon", names, own)
		for _, k := range []kind{me, unpaid} {
			c := w.cell(k, w.Addresses.Proxy)
			_, err := w.wrk(c, c.requests, w.step)
			s.must(err)
		}
		w.memory("VmRSS", names, loaded)
		w.Stop()
	}
	var rows []row
	for _, name := range names {
		most := atMost(30)
		if name == "proxy" {
			most = atMost(60)
		}
		rows = append(rows,
			row{what: name + ": from the start to the first answer", unit: "ms", ours: start[name], goal: atMost(150)},
			row{what: name + ": memory, idle", unit: "MB", ours: idle[name], goal: most},
			row{what: name + ": of these not pages of the program's file", unit: "MB", ours: own[name]},
			row{what: name + ": memory, under load", unit: "MB", ours: loaded[name]},
			row{what: name + ": program", unit: "MB", ours: size[name]})
	}
	s.line("\n## Start and size\n\nEach program starts with the state that it left. The load is `GET /me` and unpaid calls through the proxy. An image holds the program, the certificate authorities (0.2 MB) and nothing else.")
	s.table("", rows...)
}

// startTime is from the start of a program until it is healthy.
func (w *world) startTime(program stack.Program) time.Duration {
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
	w.start(program)
	return time.Since(began)
}
