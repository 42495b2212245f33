package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/bench/internal/load"
)

// deletions is how many users are deleted for each figure.
const deletions = 5

// sessions measures whether anybody notices how many others are logged in.
func (s *Suite) sessions(ctx context.Context, p *page) error {
	w, err := s.open(ctx, "sessions")
	if err != nil {
		return err
	}
	defer w.close(ctx)
	if err := w.redis(ctx); err != nil {
		return err
	}
	if err := w.Start(ctx, within, w.Layout.Auth()); err != nil {
		return err
	}
	admin, err := w.admin(ctx) // whose session the others get as well
	if err != nil {
		return err
	}
	few, many := 1_000, 1_000_000
	rows := [][]string{{"sessions in Redis", "`GET /me`, answers/s", "µs of auth and Redis per answer", "delete a user, ms"}}
	me, deleting := make([]rounds, 2), make([]samples, 2)
	for i, n := range []int{few, many} {
		if err := w.fill(ctx, i*few, n); err != nil {
			return err
		}
		if me[i], deleting[i], err = w.among(ctx, admin, n); err != nil {
			return err
		}
		rows = append(rows, []string{count(n), me[i].rate.String(), me[i].cost.String(), deleting[i].String()})
	}
	p.line("\n## More sessions")
	p.table(rows...)
	ratio := samples{me[1].cost.median() / me[0].cost.median()}
	p.line("- `GET /me`, a million ÷ a thousand: %s by processor time. Wanted %s.", figure(ratio[0]), atMost(1.1).met(ratio))
	p.line("- Deleting a user with his session, a million ÷ a thousand: %s.", figure(deleting[1].median()/deleting[0].median()))
	return nil
}

// fill brings the number of sessions of others from before to n.
func (w *world) fill(ctx context.Context, before, n int) error {
	w.suite.progress("%d sessions", n)
	redis, err := dialRedis(ctx, w.Redis)
	if err != nil {
		return err
	}
	defer redis.close()
	return redis.manySessions(before, n)
}

// among measures GET /me and the deletion of users among n sessions.
func (w *world) among(ctx context.Context, admin *member, n int) (me rounds, deleting samples, err error) {
	job := func(_ context.Context, d time.Duration) (load.Job, error) {
		return load.Job{Addr: w.Addresses.Auth, Conns: askers, For: d, Request: always(admin.request(http.MethodGet, mePath, "")), Status: http.StatusOK}, nil
	}
	r, err := w.suite.compare(ctx, w.suite.For, cell{name: fmt.Sprintf("/me among %d sessions", n), pids: []int{w.Pid("auth"), w.Pid("redis")}, prepare: job})
	if err != nil {
		return me, nil, err
	}
	deleting, err = admin.deleteUsers(ctx, deletions)
	return r[0], deleting, err
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
