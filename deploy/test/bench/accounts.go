package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// loggingIn is how many clients log in at once.
const loggingIn = 4

// accounts compares auth with the same routes on Express and on scs.
func (s *suite) accounts(ctx context.Context) error {
	w, stop, err := s.openAccounts(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := w.compareMe(ctx); err != nil {
		return err
	}
	return w.compareLogin(ctx)
}

// openAccounts starts auth, the proxy and both peers.
func (s *suite) openAccounts(ctx context.Context) (*world, func(), error) {
	w, stop, err := s.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	// All clients share one address, and a login under way counts until it ends.
	w.Extra["auth"] = map[string]string{"RATE_LIMIT_MAX_ATTEMPTS": manyAttempts}
	password, err := w.AdminPassword()
	if err == nil {
		err = w.start(ctx, w.redis(), w.Auth(), w.proxy())
	}
	if err == nil {
		err = w.node(ctx, "Express", "household.mjs", map[string]string{"REDIS_PORT": portOf(w.Redis), "PASSWORD": password, "LIMIT": manyAttempts})
	}
	if err == nil {
		err = w.peer(ctx, "scs", filepath.Join(s.bin, "bench-scs"), nil, map[string]string{"REDIS_ADDR": w.Redis, "PASSWORD": password})
	}
	if err == nil {
		err = w.bareCaddy(ctx, "caddy-auth", w.Addresses.Auth)
	}
	if err == nil {
		err = w.bareCaddy(ctx, "caddy-express", w.peers["Express"])
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return w, stop, nil
}

func (w *world) compareMe(ctx context.Context) error {
	cells := make([]cell, 0, 7)
	for _, server := range []struct {
		name, addr string
		sessions   int
		programs   []string
	}{
		{"auth", w.Addresses.Auth, w.suite.sessions, []string{"auth"}},
		{"Express", w.peers["Express"], w.suite.sessions, []string{"Express"}},
		{"scs", w.peers["scs"], w.suite.sessions, []string{"scs"}},
		{"auth, one session for all", w.Addresses.Auth, 1, []string{"auth"}},
		{"auth behind the proxy", w.Addresses.Proxy, w.suite.sessions, []string{"auth", "proxy"}},
		{"auth behind bare Caddy", w.peers["caddy-auth"], w.suite.sessions, []string{"auth", "caddy-auth"}},
		{"Express behind bare Caddy", w.peers["caddy-express"], w.suite.sessions, []string{"Express", "caddy-express"}},
	} {
		requests, err := w.me(ctx, server.addr, server.sessions)
		if err != nil {
			return fmt.Errorf("%s: %w", server.name, err)
		}
		cells = append(cells, steady(server.name, server.addr, clients, http.StatusOK, requests, w.pids(server.programs...)...))
	}
	r, err := w.suite.compare(ctx, cells...)
	if err != nil {
		return err
	}
	p := &w.suite.page
	p.line("\n## Accounts\n\n`GET /me` with live sessions in the same Redis. The peers keep their users in memory. Bare Caddy is the proxy's program with nothing but `reverse_proxy`.")
	p.servers(cells, r)
	p.ratio("`GET /me` ÷ Express", r[0], r[1], atLeast(8))
	p.ratio("`GET /me` ÷ scs", r[0], r[2], atLeast(.9))
	p.ratio("behind the proxy ÷ behind bare Caddy", r[4], r[5], atLeast(.9))
	return nil
}

func (w *world) pids(programs ...string) []int {
	pids := make([]int, len(programs))
	for i, program := range programs {
		pids[i] = w.Programs.Pid(program)
	}
	return pids
}

// compareLogin measures, in the same rounds, what the machine could do if a
// login were nothing but bcrypt.
func (w *world) compareLogin(ctx context.Context) error {
	hash, err := bcrypt.GenerateFromPassword([]byte("a password"), 12)
	if err != nil {
		return fmt.Errorf("bcrypt: %w", err)
	}
	login := [][]byte{request(http.MethodPost, loginPath, w.credentials, nil)}
	cells := []cell{
		steady("auth", w.Addresses.Auth, loggingIn, http.StatusOK, login, w.Programs.Pid("auth")),
		steady("Express", w.peers["Express"], loggingIn, http.StatusOK, login, w.Programs.Pid("Express")),
		steady("scs", w.peers["scs"], loggingIn, http.StatusOK, login, w.Programs.Pid("scs")),
	}
	duration := 10 * w.suite.turnLength // wrk leaves out the logins under way at the end
	r, ideal := make([]rounds, len(cells)), samples{}
	for range w.suite.rounds {
		ideal = append(ideal, bcryptRate(hash, duration))
		for i, c := range cells {
			if err := w.suite.turn(ctx, c, duration, &r[i]); err != nil {
				return err
			}
		}
	}
	rows := [][]string{{"server", "logins/s", "ms of processor per login"}}
	for i, c := range cells {
		rows = append(rows, []string{c.name, r[i].rate.String(), r[i].cost.over(slices.Repeat(samples{1000}, len(r[i].cost))).String()})
	}
	rows = append(rows, []string{fmt.Sprintf("%d cores ÷ one bcrypt of cost 12", runtime.NumCPU()), ideal.String(), ""})
	p := &w.suite.page
	p.line("\n`POST /login` by %d clients, each with the right password; bcrypt of cost 12 everywhere.", loggingIn)
	p.table(rows...)
	p.line("- login ÷ (cores ÷ one bcrypt): %s. Wanted %s.", r[0].rate.over(ideal), atLeast(.95).met(r[0].rate.over(ideal)))
	return nil
}

// bcryptRate returns how many comparisons all cores do in a second: a machine may
// not run all of them as fast as one alone.
func bcryptRate(hash []byte, duration time.Duration) (rate float64) {
	var all sync.WaitGroup
	rates := make(chan float64, runtime.NumCPU())
	for range runtime.NumCPU() {
		all.Go(func() {
			began, n := time.Now(), 0
			for ; time.Since(began) < duration; n++ {
				_ = bcrypt.CompareHashAndPassword(hash, []byte("a password"))
			}
			rates <- float64(n) / time.Since(began).Seconds()
		})
	}
	all.Wait()
	close(rates)
	for one := range rates {
		rate += one
	}
	return rate
}

// pace is how many GET /me a second a client sends to know how long they take.
const pace = 200

// storm measures GET /me while other clients log in.
func (s *suite) storm(ctx context.Context) error {
	w, stop, err := s.openAccounts(ctx)
	if err != nil {
		return err
	}
	defer stop()
	p := &s.page
	p.line("\n## A storm of logins\n\np99 of `GET /me`, sent %d times a second, while nothing else happens and while %d clients do nothing but log in.", pace, loggingIn)
	rows := [][]string{{"server", "idle, ms", "in the storm, ms", "ratio"}}
	var ours samples
	for _, server := range []struct{ name, addr string }{{"auth", w.Addresses.Auth}, {"Express", w.peers["Express"]}, {"scs", w.peers["scs"]}} {
		header, err := w.login(ctx, server.addr)
		if err != nil {
			return err
		}
		var idle, stormy samples
		for range s.rounds {
			quiet, err := s.paced(ctx, server.addr, header)
			if err != nil {
				return fmt.Errorf("%s: %w", server.name, err)
			}
			during, err := w.pacedDuringLogins(ctx, server.addr, header)
			if err != nil {
				return fmt.Errorf("%s: %w", server.name, err)
			}
			idle, stormy = append(idle, quiet), append(stormy, during)
			s.progress("p99 of /me, %s: %s ms idle, %s ms in a storm of logins", server.name, figure(quiet), figure(during))
		}
		rows = append(rows, []string{server.name, idle.String(), stormy.String(), stormy.over(idle).String()})
		if server.name == "auth" {
			ours = stormy.over(idle)
		}
	}
	p.table(rows...)
	p.line("- auth, storm ÷ idle: wanted %s.", atMost(3).met(ours))
	return nil
}

// paced returns the p99 of GET /me at a steady rate on one connection, in
// milliseconds. wrk knows no rate. A latency counts from when the request was
// due, so that a slow answer makes those behind it late as well.
func (s *suite) paced(ctx context.Context, addr string, header http.Header) (float64, error) {
	began := time.Now()
	var latencies []time.Duration
	for due := began; due.Before(began.Add(2 * s.turnLength)); due = due.Add(time.Second / pace) {
		time.Sleep(time.Until(due))
		if _, err := call(ctx, addr, http.MethodGet, mePath, "", header, nil); err != nil {
			return 0, err
		}
		latencies = append(latencies, time.Since(due))
	}
	slices.Sort(latencies)
	return milli(latencies[len(latencies)*99/100]), nil
}

// pacedDuringLogins is the same while clients log in.
func (w *world) pacedDuringLogins(ctx context.Context, addr string, header http.Header) (float64, error) {
	login := job{
		addr: addr, clients: loggingIn, duration: 4 * w.suite.turnLength, status: http.StatusOK,
		requests: [][]byte{request(http.MethodPost, loginPath, w.credentials, nil)},
	}
	over := make(chan error, 1)
	go func() {
		_, err := w.suite.load(ctx, login)
		over <- err
	}()
	time.Sleep(w.suite.turnLength / 2) // until all of them compute
	p99, err := w.suite.paced(ctx, addr, header)
	if loadErr := <-over; err == nil {
		err = loadErr
	}
	return p99, err
}
