package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/test/bench/internal/load"
)

// deletions is how many users are deleted for each figure.
const deletions = 5

// sessions measures whether anybody notices how many others are logged in: two
// services side by side, each with its own Redis.
func (s *Suite) sessions(ctx context.Context, p *page) error {
	crowds := make([]*crowd, 2)
	cells := make([]cell, len(crowds))
	for i, n := range []int{1_000, 1_000_000} {
		c, err := s.crowd(ctx, n)
		if c != nil {
			defer c.w.close(ctx)
		}
		if err != nil {
			return err
		}
		crowds[i], cells[i] = c, c.me()
	}
	me, err := s.compare(ctx, s.For, cells...)
	if err != nil {
		return err
	}
	rows := [][]string{{"sessions", "keys in Redis", "`GET /me`, answers/s", "µs of auth and Redis per answer", "delete a user, ms"}}
	deleting := make([]samples, len(crowds))
	for i, c := range crowds {
		if deleting[i], err = c.admin.deleteUsers(ctx, deletions); err != nil {
			return err
		}
		rows = append(rows, []string{count(c.n), count(c.keys), me[i].rate.String(), me[i].cost.String(), deleting[i].String()})
	}
	p.line("\n## More sessions")
	p.line("\nEach of the others is logged in once. Who asks has %d sessions and uses them in turn.", sessions)
	p.table(rows...)
	ratio := me[1].cost.over(me[0].cost)
	p.line("- `GET /me`, a million ÷ a thousand: %s by processor time. Wanted %s.", ratio, atMost(1.1).met(ratio))
	p.line("- Deleting a user with his session, a million ÷ a thousand: %s.", figure(deleting[1].median()/deleting[0].median()))
	return nil
}

// crowd is a world in which n sessions of others are in Redis.
type crowd struct {
	w     *world
	admin *member // whose one session the others get as well
	asks  [][]byte
	n     int // sessions
	keys  int // in Redis
}

func (s *Suite) crowd(ctx context.Context, n int) (*crowd, error) {
	s.progress("%d sessions", n)
	w, err := s.open(ctx, fmt.Sprintf("sessions-%d", n))
	if err != nil {
		return nil, err
	}
	c := &crowd{w: w, n: n}
	if err := w.redis(ctx); err != nil {
		return c, err
	}
	if err := w.Start(ctx, within, w.Layout.Auth()); err != nil {
		return c, err
	}
	if c.admin, err = w.admin(ctx); err != nil {
		return c, err
	}
	redis, err := dialRedis(ctx, w.Redis)
	if err != nil {
		return c, err
	}
	defer redis.close()
	if c.keys, err = redis.manySessions(n); err != nil {
		return c, err
	}
	for range sessions { // of one alone, those who ask at once would share the answer
		login, err := w.admin(ctx)
		if err != nil {
			return c, err
		}
		c.asks = append(c.asks, login.request(http.MethodGet, mePath, ""))
	}
	return c, nil
}

// me asks for who the admin is, in one session after the other.
func (c *crowd) me() cell {
	return cell{
		name: fmt.Sprintf("/me among %d sessions", c.n), pids: []int{c.w.Pid("auth"), c.w.Pid("redis")},
		prepare: func(_ context.Context, d time.Duration) (load.Job, error) {
			return load.Job{Addr: c.w.Addresses.Auth, Conns: askers, For: d, Request: inTurn(c.asks), Status: http.StatusOK}, nil
		},
	}
}

// member is somebody who is logged in.
type member struct {
	w      *world
	cookie string
	token  string
}

func (w *world) admin(ctx context.Context) (*member, error) {
	header, err := w.login(ctx, w.Addresses.Auth)
	if err != nil {
		return nil, err
	}
	return &member{w: w, cookie: cookies(header.Values("Set-Cookie")), token: header.Get("X-CSRF-Token")}, nil
}

func (m *member) request(method, path, body string) []byte {
	return request(method, path, body, m.cookie, "X-CSRF-Token: "+m.token)
}

// do makes one call and decodes its answer into v.
func (m *member) do(ctx context.Context, method, path, body string, v any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+m.w.Addresses.Auth+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	if name, value, ok := strings.Cut(m.cookie, ": "); ok {
		req.Header.Set(name, value)
		req.Header.Set("X-CSRF-Token", m.token)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return json.Unmarshal(text, v)
}

// deleteUsers makes users, lets each log in, and deletes them; it gives what the
// deletions took, in milliseconds.
func (m *member) deleteUsers(ctx context.Context, n int) (took samples, err error) {
	for i := range n {
		name := fmt.Sprintf("guest-%d", i)
		credentials := fmt.Sprintf(`{"username":%q,"password":"a password"}`, name)
		var made struct {
			User struct {
				ID int64 `json:"id"`
			} `json:"user"`
		}
		body := strings.Replace(credentials, "{", `{"display_name":"guest",`, 1)
		if err := m.do(ctx, http.MethodPost, "/api/v1/auth/users", body, &made); err != nil {
			return nil, err
		}
		if err := (&member{w: m.w}).do(ctx, http.MethodPost, loginPath, credentials, &struct{}{}); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := m.do(ctx, http.MethodDelete, fmt.Sprintf("/api/v1/auth/users/%d", made.User.ID), "", &struct{}{}); err != nil {
			return nil, err
		}
		took = append(took, milli(time.Since(began)))
	}
	return took, nil
}
