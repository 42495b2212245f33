package bench

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/pkg/freeport"
)

// profile writes profiles of the processor and of allocations, of each program
// under each load through the proxy. The programs are built with one file more,
// which serves them (pprof.go.txt).
func (s *suite) profile() {
	s.must(os.MkdirAll(s.profiles, 0o755))
	w := s.open(filepath.Join(s.bin, "profiled"))
	addrs, err := freeport.Addrs(s.Context(), 3)
	s.must(err)
	w.Extra["pforte-proxy"] = map[string]string{"PPROF_ADDR": addrs[0]}
	w.Extra["auth"]["PPROF_ADDR"], w.Extra["verifier"]["PPROF_ADDR"] = addrs[1], addrs[2]
	at := map[string]string{"proxy": addrs[0], "auth": addrs[1], "verifier": addrs[2]}
	w.startGuarded(w.application())
	lines := [][]string{{"load", "program", "processor", "bytes allocated"}}
	for _, k := range slices.Concat(kinds, []kind{guarded}) {
		c := w.cellOf(k)
		c.addr = w.Addresses.Proxy
		for _, program := range []string{"proxy", k.service()} {
			file := filepath.Join(s.profiles, strings.Trim(slug.ReplaceAllString(string(k), "-"), "-")+"."+program)
			cpu, allocations := w.watch(c, file, at[program])
			lines = append(lines, []string{string(k), program, cpu, allocations})
		}
	}
	s.line("\n## Profiles\n\nWhat takes the time under each load through the proxy: the share of each package's own functions (Go's runtime does the collection and the scheduling,\n" +
		"internal/runtime/syscall the network). `make profile` writes the files into bin/profiles, for `go tool pprof`. What was tried and dropped is in the [decision records](adr).")
	s.cells(lines...)
}

// slug is what does not belong in the name of a file.
var slug = regexp.MustCompile(`[^A-Za-z0-9]+`)

// watch puts a load on the stack, writes both profiles of a program meanwhile, and
// returns what is in them.
func (w *world) watch(c cell, name, addr string) (cpu, allocations string) {
	requests := c.requestsFor(w.step + 2*time.Second)
	files := map[string]string{"profile": name + ".cpu.pb.gz", "allocs": name + ".allocs.pb.gz"}
	faults := make(chan error, len(files))
	for kind, file := range files {
		go func() {
			time.Sleep(time.Second) // until the load is there
			answer := client.Get(w.Context(), fmt.Sprintf("http://%s/debug/pprof/%s?seconds=%.0f", addr, kind, w.step.Seconds()))
			faults <- errors.Join(answer.Err, os.WriteFile(file, answer.Body, 0o644))
		}()
	}
	_, err := w.wrk(c, requests, w.step+2*time.Second)
	w.must(err)
	for range files {
		w.must(<-faults)
	}
	return w.packages(files["profile"]), w.packages(files["allocs"], "-sample_index=alloc_space")
}

// flat finds the share of a function's own work, and its package, in what `go tool
// pprof -top` prints.
var flat = regexp.MustCompile(`(?m)^\s*\S+\s+([\d.]+)%\s+\S+\s+\S+\s+\S+\s+((?:[\w.~-]+/)*[\w~-]+)\.`)

// packages returns the packages with the greatest shares in a profile.
func (s *suite) packages(file string, flags ...string) string {
	out := s.run(stack.Program{Path: "go", Env: os.Environ()}, slices.Concat([]string{"tool", "pprof", "-top", "-nodecount=1000", "-nodefraction=0"}, flags, []string{file})...)
	shares := map[string]float64{}
	for _, match := range flat.FindAllStringSubmatch(string(out), -1) {
		share, err := strconv.ParseFloat(match[1], 64)
		s.must(err)
		shares[match[2]] += share
	}
	greatest := slices.SortedFunc(maps.Keys(shares), func(a, b string) int { return cmp.Compare(shares[b], shares[a]) })
	var parts []string
	for _, name := range greatest[:min(6, len(greatest))] {
		if shares[name] >= 1 {
			parts = append(parts, fmt.Sprintf("%s %.0f %%", strings.TrimPrefix(name, "github.com/"), shares[name]))
		}
	}
	return strings.Join(parts, ", ")
}
