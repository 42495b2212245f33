package suite

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/bench/internal/load"
)

const (
	loginPath = "/api/v1/auth/login"
	mePath    = "/api/v1/auth/me"
)

// How many wait at once: enough to keep every server busy.
const (
	askers  = 64
	logging = 4
)

// sessions is how many there are where callers do not share one.
const sessions = 16

const manyAttempts = "1000000"

// accounts compares auth with the same routes on Express and on scs.
func (s *Suite) accounts(ctx context.Context, p *page) error {
	w, err := s.openAccounts(ctx)
	if err != nil {
		return err
	}
	defer w.close(ctx)
	p.line("\n## Accounts")
	p.line("\n`GET /me` by %d callers at once, with a live session in the same Redis: one for all, as a page asks for many things, and in one row %d in turn.", askers, sessions)
	p.line("The peers keep their users in memory.")
	if err := w.compareMe(ctx, p); err != nil {
		return err
	}
	return w.compareLogin(ctx, p)
}

// openAccounts starts auth, the proxy and both peers.
func (s *Suite) openAccounts(ctx context.Context) (*world, error) {
	w, err := s.open(ctx, "accounts")
	if err != nil {
		return nil, err
	}
	// All callers share one address, and a login under way counts until it ends.
	w.Extra["auth"] = map[string]string{"RATE_LIMIT_MAX_ATTEMPTS": manyAttempts}
	err = w.redis(ctx)
	if err == nil {
		err = w.Start(ctx, within, w.Layout.Auth())
	}
	if err == nil {
		proxy := w.Layout.Proxy()
		proxy.Ready = listening(w.Addresses.Proxy)
		err = w.Start(ctx, within, proxy)
	}
	if err == nil {
		err = w.node(ctx, "express", "household.mjs", map[string]string{"REDIS_PORT": portOf(w.Redis), "PASSWORD": w.password, "LIMIT": manyAttempts})
	}
	if err == nil {
		err = w.peer(ctx, "scs", filepath.Join(s.Bin, "bench-scs"), nil, map[string]string{"REDIS_ADDR": w.Redis, "PASSWORD": w.password})
	}
	if err != nil {
		w.close(ctx)
		return nil, err
	}
	return w, nil
}

func (w *world) compareMe(ctx context.Context, p *page) error {
	servers := []struct {
		name, addr string
		sessions   int
		pids       []int
	}{
		{"auth", w.Addresses.Auth, 1, []int{w.Pid("auth")}},
		{"Express", w.peers["express"], 1, []int{w.Pid("express")}},
		{"scs", w.peers["scs"], 1, []int{w.Pid("scs")}},
		{fmt.Sprintf("auth, %d sessions", sessions), w.Addresses.Auth, sessions, []int{w.Pid("auth")}},
		{"auth behind Caddy", w.Addresses.Proxy, 1, []int{w.Pid("auth"), w.Pid("proxy")}},
	}
	var cells []cell
	for _, server := range servers {
		me := make([][]byte, server.sessions)
		for i := range me {
			var err error
			if me[i], err = w.me(ctx, server.addr); err != nil {
				return fmt.Errorf("%s: %w", server.name, err)
			}
		}
		cells = append(cells, cell{name: "/me, " + server.name, pids: server.pids, prepare: func(_ context.Context, d time.Duration) (load.Job, error) {
			return load.Job{Addr: server.addr, Conns: askers, For: d, Request: inTurn(me), Status: http.StatusOK}, nil
		}})
	}
	r, err := w.suite.compare(ctx, w.suite.For, cells...)
	if err != nil {
		return err
	}
	rows := [][]string{{"server", "answers/s", "µs of processor per answer", "p50 ms", "p99 ms"}}
	for i, server := range servers {
		rows = append(rows, []string{server.name, r[i].rate.String(), r[i].cost.String(), r[i].p50.String(), r[i].p99.String()})
	}
	p.table(rows...)
	p.ratios("`GET /me`", r[0], r[1], "Express", atLeast(8))
	p.ratios("`GET /me`", r[0], r[2], "scs", atLeast(.9))
	return nil
}

// ratios compares with a peer, by answers and by the processor time of one.
func (p *page) ratios(what string, ours, theirs rounds, peer string, want goal) {
	p.line("- %s ÷ %s: %s by answers/s, %s by processor time. Wanted %s.", what, peer,
		ours.rate.over(theirs.rate), theirs.cost.over(ours.cost), want.met(ours.rate.over(theirs.rate)))
}

// me logs in and gives the request of somebody who is.
func (w *world) me(ctx context.Context, addr string) ([]byte, error) {
	header, err := w.login(ctx, addr)
	if err != nil {
		return nil, err
	}
	return request(http.MethodGet, mePath, "", cookies(header.Values("Set-Cookie"))), nil
}

// login gives the header of the answer to a login.
func (w *world) login(ctx context.Context, addr string) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+loginPath, strings.NewReader(w.credentials()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("log in at %s: %s: %s, %w", addr, resp.Status, text, err)
	}
	return resp.Header, nil
}

func (w *world) credentials() string {
	return fmt.Sprintf(`{"username":%q,"password":%q}`, layout.AdminName, w.password)
}

func (w *world) compareLogin(ctx context.Context, p *page) error {
	servers := []struct{ name, addr, pid string }{
		{"auth", w.Addresses.Auth, "auth"}, {"Express", w.peers["express"], "express"}, {"scs", w.peers["scs"], "scs"},
	}
	cells := make([]cell, len(servers))
	login := request(http.MethodPost, loginPath, w.credentials())
	for i, server := range servers {
		cells[i] = cell{name: "login, " + server.name, pids: []int{w.Pid(server.pid)}, prepare: func(_ context.Context, d time.Duration) (load.Job, error) {
			return load.Job{Addr: server.addr, Conns: logging, For: d, Request: always(login), Status: http.StatusOK}, nil
		}}
	}
	r, ideal, err := w.withIdeal(ctx, cells)
	if err != nil {
		return err
	}
	rows := [][]string{{"server", "logins/s", "ms of processor per login"}}
	for i, server := range servers {
		rows = append(rows, []string{server.name, r[i].rate.String(), scaled(r[i].cost, 1e-3).String()})
	}
	rows = append(rows, []string{fmt.Sprintf("%d cores ÷ one bcrypt of cost 12", runtime.NumCPU()), ideal.String(), ""})
	p.line("\n`POST /login` by %d callers at once, each with the right password; bcrypt of cost 12 everywhere.", logging)
	p.table(rows...)
	p.line("- login ÷ (cores ÷ one bcrypt): %s. Wanted %s.", r[0].rate.over(ideal), atLeast(.95).met(r[0].rate.over(ideal)))
	return nil
}
