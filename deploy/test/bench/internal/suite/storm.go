package suite

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/pforte/pforte/deploy/test/bench/internal/load"
)

// pace is how many GET /me a second somebody makes who wants to know how long
// they take.
const pace = 200

// storm measures GET /me while others log in.
func (s *Suite) storm(ctx context.Context, p *page) error {
	w, err := s.openAccounts(ctx)
	if err != nil {
		return err
	}
	defer w.close(ctx)
	servers := []struct{ name, addr string }{
		{"auth", w.Addresses.Auth}, {"Express", w.peers["express"]}, {"scs", w.peers["scs"]},
	}
	idle, stormy := make([]samples, len(servers)), make([]samples, len(servers))
	for i, server := range servers {
		me, err := w.me(ctx, server.addr)
		if err != nil {
			return err
		}
		for range s.Rounds {
			quiet, err := s.paced(ctx, server.addr, me)
			if err != nil {
				return fmt.Errorf("%s: %w", server.name, err)
			}
			during, err := w.duringLogins(ctx, server.addr, me)
			if err != nil {
				return fmt.Errorf("%s: %w", server.name, err)
			}
			idle[i], stormy[i] = append(idle[i], quiet), append(stormy[i], during)
			s.progress("p99 of /me, %s: %s ms idle, %s ms in a storm of logins", server.name, figure(quiet), figure(during))
		}
	}
	p.line("\n## A storm of logins")
	p.line("\np99 of `GET /me`, asked for %d times a second, while nobody else is there and while %d callers do nothing but log in.", pace, logging)
	rows := [][]string{{"server", "idle, ms", "in the storm, ms", "ratio"}}
	for i, server := range servers {
		rows = append(rows, []string{server.name, idle[i].String(), stormy[i].String(), stormy[i].over(idle[i]).String()})
	}
	p.table(rows...)
	p.line("- auth, storm ÷ idle: wanted %s.", atMost(3).met(stormy[0].over(idle[0])))
	return nil
}

// paced gives the p99 of a steady stream of requests, in milliseconds.
func (s *Suite) paced(ctx context.Context, addr string, me []byte) (float64, error) {
	r, err := load.Pace(ctx, load.Job{Addr: addr, For: max(s.For, 2*time.Second), Request: always(me), Status: http.StatusOK}, pace)
	return milli(r.Quantile(.99)), err
}

// duringLogins is the same while as many log in as a server lets in.
func (w *world) duringLogins(ctx context.Context, addr string, me []byte) (float64, error) {
	storming, stop := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() {
		login := request(http.MethodPost, loginPath, w.credentials())
		_, err := load.Run(storming, load.Job{Addr: addr, Conns: logging, For: time.Hour, Request: always(login), Status: http.StatusOK})
		if storming.Err() != nil {
			err = nil
		}
		over <- err
	}()
	time.Sleep(500 * time.Millisecond) // until all of them compute
	p99, err := w.suite.paced(ctx, addr, me)
	stop()
	if stormErr := <-over; err == nil {
		err = stormErr
	}
	return p99, err
}
