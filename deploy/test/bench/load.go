package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed" // load.lua
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// script makes wrk send the requests of a file.
//
//go:embed load.lua
var script []byte

// job is what wrk does: so many clients, each with one request under way, send
// the requests one after the other.
type job struct {
	addr     string
	clients  int
	duration time.Duration // whole seconds, as wrk wants it
	requests [][]byte
	// once is set where no request may be sent twice, as a payment.
	once bool
	// status is that of the first answer; those below 400, or all others, count
	// as answers like it.
	status int
}

// result is what wrk measured.
type result struct {
	Answers, Microseconds, Refused, Failed int
	P50, P99                               float64 // microseconds
}

// load runs wrk.
func (s *suite) load(ctx context.Context, j job) (result, error) {
	lua, file := filepath.Join(s.scratch, "load.lua"), filepath.Join(s.scratch, "requests-"+portOf(j.addr))
	if err := errors.Join(os.WriteFile(lua, script, 0o600), os.WriteFile(file, bytes.Join(j.requests, []byte{0}), 0o600)); err != nil {
		return result{}, err
	}
	cmd := exec.CommandContext(ctx, "wrk", "--threads", "1", "--connections", strconv.Itoa(j.clients), "--timeout", "30s", //nolint:gosec // our own arguments
		"--duration", strconv.Itoa(int(j.duration.Seconds()))+"s", "--script", lua, "http://"+j.addr, "--", file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	var r result
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		return result{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	refusals := 0
	if j.status >= http.StatusBadRequest {
		refusals = r.Answers
	}
	switch {
	case r.Answers == 0 || r.Failed > 0 || r.Refused != refusals:
		return r, fmt.Errorf("%s: of %d answers %d were above 399, and %d requests failed", j.addr, r.Answers, r.Refused, r.Failed)
	case j.once && r.Answers+j.clients > len(j.requests):
		return r, fmt.Errorf("%s: %d answers are more than %d requests can have", j.addr, r.Answers, len(j.requests))
	}
	return r, nil
}

// first sends the first request of a job alone and checks the status of its answer.
func first(ctx context.Context, j job) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", j.addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(j.requests[0]); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != j.status {
		return fmt.Errorf("%s: %s, not %d: %.600s, %w", j.addr, resp.Status, j.status, text, err)
	}
	return nil
}

// cell is one server under one load.
type cell struct {
	name string
	// pids are the processes whose work it is.
	pids []int
	// prepare returns the job of one turn.
	prepare func(ctx context.Context, duration time.Duration) (job, error)
}

// rounds are the figures of a cell's turns.
type rounds struct {
	// rate is in answers a second, cost in microseconds of the servers' processor
	// time for an answer, p50 and p99 in milliseconds.
	rate, cost, p50, p99 samples
}

// turns is how many turns compared servers have for one round of other figures:
// the machine's speed changes within seconds, and by more than the difference
// between some of them.
const turns = 4

// compare puts the load on one cell after the other, again and again, so that
// their figures can be divided turn by turn.
func (s *suite) compare(ctx context.Context, cells ...cell) ([]rounds, error) {
	results := make([]rounds, len(cells))
	for n := range turns*s.rounds + 1 {
		for i, c := range cells {
			if err := s.turn(ctx, c, s.turnLength, &results[i]); err != nil {
				return nil, err
			}
		}
		if n == 0 { // connections and compilers are warm after the first turn
			clear(results)
		}
	}
	return results, nil
}

// turn runs one cell once and adds its figures.
func (s *suite) turn(ctx context.Context, c cell, duration time.Duration, into *rounds) error {
	j, err := c.prepare(ctx, duration)
	if err == nil {
		err = first(ctx, j)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if j.once {
		j.requests = j.requests[1:]
	}
	before, err := processorTime(c.pids)
	if err != nil {
		return err
	}
	r, err := s.load(ctx, j)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	after, err := processorTime(c.pids)
	if err != nil {
		return err
	}
	rate, cost := float64(r.Answers)/float64(r.Microseconds)*1e6, micro(after-before)/float64(r.Answers)
	into.rate, into.cost = append(into.rate, rate), append(into.cost, cost)
	into.p50, into.p99 = append(into.p50, r.P50/1000), append(into.p99, r.P99/1000)
	s.progress("%s: %s/s, %s µs, p99 %s ms", c.name, figure(rate), figure(cost), figure(r.P99/1000))
	return nil
}

// tick is the unit of processor time in /proc, fixed by the kernel's interface.
const tick = time.Second / 100

// processorTime is what processes have used, user and system together, with
// their ended threads (proc(5), /proc/pid/stat, utime and stime).
func processorTime(pids []int) (total time.Duration, err error) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, fmt.Errorf("processor time: %w", err)
		}
		// The name, in parentheses, may hold anything; what follows has no spaces.
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 13 {
			return 0, fmt.Errorf("processor time: %q", text)
		}
		for _, field := range fields[11:13] {
			ticks, err := strconv.Atoi(field)
			if err != nil {
				return 0, fmt.Errorf("processor time: %w", err)
			}
			total += time.Duration(ticks) * tick
		}
	}
	return total, nil
}

// memory is what a process holds of the machine's memory, in megabytes.
func memory(pid int) (float64, error) {
	kilobytes, err := strconv.Atoi(strings.TrimSuffix(valueIn(fmt.Sprintf("/proc/%d/status", pid), "VmRSS"), " kB"))
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return float64(kilobytes) / 1024, nil
}

// valueIn returns what follows the first "name:" of a file of the kernel.
func valueIn(path, name string) string {
	text, err := os.ReadFile(path) //nolint:gosec // a file of the kernel
	if err != nil {
		return ""
	}
	lines := strings.Split(string(text), "\n")
	at := slices.IndexFunc(lines, func(line string) bool {
		key, _, found := strings.Cut(line, ":")
		return found && strings.TrimSpace(key) == name
	})
	if at < 0 {
		return ""
	}
	_, value, _ := strings.Cut(lines[at], ":")
	return strings.TrimSpace(value)
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func milli(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
