package bench

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/internal/client"
)

// guarded is a request to an application behind the guard, which admits members of the household.
const guarded kind = "guarded request, with its application"

// before measures what each release costs beside the one before, whose programs are in bin/before. What that one
// does not have is measured alone.
func (s *suite) before() {
	folder := filepath.Join(s.bin, "before")
	if _, err := os.Stat(folder); err != nil {
		s.Skip("make bench builds the release before")
	}
	version, err := os.ReadFile(filepath.Join(folder, "version"))
	s.must(err)
	s.line("\n## Beside the release before\n\nThis release beside %s, built by the same compiler, each with Redis, databases and a facilitator of its own. "+
		"The ratio is ours now ÷ ours then: of a rate more is better, of processor time less. Whatever costs more than 5 %% of a row says so in the [changelog](changelog.md).",
		strings.TrimSpace(string(version)))
	now, then := s.open(s.bin), s.open(folder)
	for _, w := range []*world{now, then} {
		w.startGuarded(w.application())
	}
	var rows [][]string
	row := func(what, unit string, now, then samples) {
		ratio := ""
		if len(then) > 0 {
			ratio = now.over(then).String()
		}
		rows = append(rows, []string{what, unit, now.String(), then.String(), ratio})
	}
	for _, k := range []kind{me, guarded, login, unpaid, paid, paidTool} {
		cells := []cell{now.cellOf(k)}
		if c := then.cellOf(k); then.answers(c) {
			cells = append(cells, c)
		}
		r := append(s.compare(cells...), rounds{})
		row(string(k), "1/s", r[0].rate, r[1].rate)
		row(string(k), "µs of processor", r[0].cost, r[1].cost)
		row(string(k), "ms, p99", r[0].p99, r[1].p99)
	}
	names := []string{"auth", "verifier", "proxy"}
	memory := []map[string]samples{{}, {}}
	started := []map[string]samples{{}, {}}
	for i, w := range []*world{now, then} {
		w.memory("VmRSS", names, memory[i])
		for range s.rounds {
			for _, program := range []stack.Program{w.Auth(), w.Verifier(), w.Proxy()} {
				w.Programs.End(s.Context(), program.Name, 5*time.Second)
				started[i][program.Name] = append(started[i][program.Name], milli(w.startTime(program)))
			}
		}
	}
	for _, name := range names {
		row(name+": from the start to the first answer", "ms", started[0][name], started[1][name])
		row(name+": memory after these loads", "MB", memory[0][name], memory[1][name])
	}
	s.cells(append([][]string{{"", "unit", "now", "then", "now ÷ then"}}, rows...)...)
}

// startGuarded starts all of Pforte with an application behind the guard, where the release has applications.
func (w *world) startGuarded(app string) {
	w.facilitator.serve(w)
	w.start(w.redis(), w.recordedNode(), w.Auth(), w.Verifier())
	if w.Extra["pforte-proxy"] == nil {
		w.Extra["pforte-proxy"] = map[string]string{}
	}
	if w.enter("photos", guardedPath) {
		w.Extra["pforte-proxy"]["ROUTES"] = fmt.Sprintf("handle %s* {\nimport require_app photos\nreverse_proxy %s\n}\n",
			guardedPath, app)
	}
	w.start(w.Proxy())
}

// guardedPath is where the application is that the operator's lines lead to, and listedPath the one of a page's route.
const (
	guardedPath = "/photos/"
	listedPath  = "/albums/"
)

// enter adds an application, and reports whether the release has any.
func (w *world) enter(slug, path string) bool {
	admin, err := w.login(w.Addresses.Auth)
	w.must(err)
	r, err := client.NewRequest(w.Context(), http.MethodPost, "http://"+w.Addresses.Auth+"/api/v1/auth/apps",
		fmt.Sprintf(`{"slug":%q,"name":%q,"url":%q,"rule":"login"}`, slug, slug, path))
	w.must(err)
	maps.Copy(r.Header, admin)
	answer := client.Do(nil, r)
	if answer.Status != http.StatusCreated && answer.Status != http.StatusNotFound {
		w.Fatalf("add an application: %s: %s", answer, answer.Body)
	}
	return answer.Status == http.StatusCreated
}

// routes measures a route that an admin entered on the page beside the operator's own lines, to one application.
func (s *suite) routes() {
	s.line("\n## A route from the page\n\nA guarded request by a route that an admin entered on the page, beside the same by lines in `ROUTES`. " +
		"Processor time is that of proxy and auth.")
	w := s.open(s.bin)
	app := w.application()
	w.Extra["pforte-proxy"] = map[string]string{"APPS": "lan", "APPS_TO": app}
	w.startGuarded(app)
	w.enter("albums", listedPath)
	s.run(w.Auth(), "app", "route", "albums", app)
	byLines, byPage := w.cellOf(guarded), w.guardedAt(listedPath)
	for began := time.Now(); !w.answers(byPage); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			s.Fatal("the route from the page leads nowhere")
		}
	}
	r := s.compare(byLines, byPage)
	s.table("by `ROUTES`", r[1].beside("a guarded request", r[0], atLeast(.95), atLeast(.95))...)
}

// cellOf returns the load of a kind: on the service itself, or through the proxy where that takes part. It has no
// requests where the release cannot answer them.
func (w *world) cellOf(k kind) cell {
	switch k {
	case me, login:
		return w.cell(k, w.Addresses.Auth, w.pids("auth")...)
	case guarded:
		c := w.guardedAt(guardedPath)
		if w.Extra["pforte-proxy"]["ROUTES"] == "" {
			c.requests = nil
		}
		return c
	}
	return w.cell(k, w.Addresses.Verifier, w.pids("verifier")...)
}

// guardedAt returns the load of users on an application behind the guard.
func (w *world) guardedAt(path string) cell {
	c := w.cell(me, w.Addresses.Proxy, w.pids("auth", "proxy")...)
	c.name, c.requests = string(guarded)+" at "+path, slices.Clone(c.requests)
	for i, r := range c.requests {
		r = bytes.Replace(r, []byte(mePath), []byte(path), 1)
		c.requests[i] = bytes.Replace(r, []byte("Host: localhost"), []byte("Host: "+w.Addresses.Proxy), 1)
	}
	return c
}

// answers reports whether a server answers a load as it should.
func (w *world) answers(c cell) bool {
	requests := c.requestsFor(time.Second)
	return len(requests) > 0 && first(w.Context(), c, requests[0]) == nil
}
