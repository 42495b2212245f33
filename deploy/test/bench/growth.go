package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// measuredSessions is how many sessions those clients use who are measured among
// the sessions of others; deletions is how many users are deleted for a figure.
const (
	measuredSessions = 16
	deletions        = 5
)

// manySessions measures whether the sessions of others slow down a client: two
// services side by side, each with its own Redis.
func (s *suite) manySessions(ctx context.Context) error {
	counts := []int{1_000, 1_000_000}
	cells, deleting, keys := make([]cell, 2), make([]samples, 2), make([]int, 2)
	admins := make([]func() (samples, error), 2)
	for i, n := range counts {
		s.progress("%d sessions", n)
		w, stop, err := s.open(ctx)
		if err != nil {
			return err
		}
		defer stop()
		if err := w.start(ctx, w.redis(), w.Auth()); err != nil {
			return err
		}
		admin, err := w.login(ctx, w.Addresses.Auth)
		if err != nil {
			return err
		}
		if keys[i], err = w.copySessions(ctx, n); err != nil {
			return err
		}
		requests, err := w.me(ctx, w.Addresses.Auth, measuredSessions)
		if err != nil {
			return err
		}
		cells[i] = steady(fmt.Sprintf("among %d sessions", n), w.Addresses.Auth, clients, http.StatusOK, requests, w.pids("auth", "redis")...)
		admins[i] = func() (samples, error) { return w.deleteUsers(ctx, admin) }
	}
	r, err := s.compare(ctx, cells...)
	if err != nil {
		return err
	}
	rows := [][]string{{"sessions", "keys in Redis", "`GET /me`, answers/s", "µs of auth and Redis per answer", "delete a user, ms"}}
	for i, n := range counts {
		if deleting[i], err = admins[i](); err != nil {
			return err
		}
		rows = append(rows, []string{count(n), count(keys[i]), r[i].rate.String(), r[i].cost.String(), deleting[i].String()})
	}
	p, ratio := &s.page, r[1].cost.over(r[0].cost)
	p.line("\n## More sessions\n\nEach of the others is logged in once. The clients have %d sessions.", measuredSessions)
	p.table(rows...)
	p.line("- `GET /me`, a million ÷ a thousand: %s by processor time. Wanted %s.", ratio, atMost(1.1).met(ratio))
	p.line("- Deleting a user with their session, a million ÷ a thousand: %s.", figure(deleting[1].median()/deleting[0].median()))
	return nil
}

// noteKeys remembers the keys of user 1, because looking for them among a million
// others takes a second.
const noteKeys = `
redis.call('DEL', 'noted')
return redis.call('SADD', 'noted', unpack(redis.call('KEYS', '*:{u1}:*')))`

// copyKeys copies the sessions of user 1 for users from..to: all their keys, under
// the hash tags of the others. It knows nothing of what is in them. A script that
// names keys it was not given is fine on one server.
const copyKeys = `
local made = 0
for _, key in ipairs(redis.call('SMEMBERS', 'noted')) do
  local before, after = string.match(key, '^(.*){u1}(.*)$')
  for user = tonumber(ARGV[1]), tonumber(ARGV[2]) do
    made = made + redis.call('COPY', key, before .. '{u' .. string.format('%d', user) .. '}' .. after, 'REPLACE')
  end
end
return made`

// firstOther is the first of the users who get copies: no user has such an id.
const firstOther = 1_000_000_000

// copySessions makes n sessions and returns how many keys there are then.
func (w *world) copySessions(ctx context.Context, n int) (keys int, err error) {
	const step = 20_000 // so that Redis answers others meanwhile
	if _, err := w.redisCLI(ctx, "EVAL", noteKeys, "0"); err != nil {
		return 0, err
	}
	for from := 0; from < n; from += step {
		to := min(from+step, n) - 1
		made, err := w.redisCLI(ctx, "EVAL", copyKeys, "0", strconv.Itoa(firstOther+from), strconv.Itoa(firstOther+to))
		if err != nil {
			return 0, err
		}
		if made < to-from+1 {
			return 0, fmt.Errorf("redis: %d keys copied for %d users", made, to-from+1)
		}
	}
	return w.redisCLI(ctx, "DBSIZE")
}

// redisCLI runs a command whose reply is an integer.
func (w *world) redisCLI(ctx context.Context, words ...string) (int, error) {
	out, err := exec.CommandContext(ctx, "redis-cli", append([]string{"-p", portOf(w.Redis)}, words...)...).CombinedOutput() //nolint:gosec // our own arguments
	if err != nil {
		return 0, fmt.Errorf("redis-cli: %w: %s", err, out)
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

// deleteUsers creates users, logs each in, deletes them, and returns how long the
// deletions took, in milliseconds.
func (w *world) deleteUsers(ctx context.Context, admin http.Header) (took samples, err error) {
	for i := range deletions {
		credentials := fmt.Sprintf(`{"username":"guest-%d","password":"a password"}`, i)
		var made struct{ User struct{ ID int64 } }
		body := strings.Replace(credentials, "{", `{"display_name":"guest",`, 1)
		if _, err := call(ctx, w.Addresses.Auth, http.MethodPost, usersPath, body, admin, &made); err != nil {
			return nil, err
		}
		if _, err := call(ctx, w.Addresses.Auth, http.MethodPost, loginPath, credentials, nil, nil); err != nil {
			return nil, err
		}
		began := time.Now()
		if _, err := call(ctx, w.Addresses.Auth, http.MethodDelete, fmt.Sprintf("%s/%d", usersPath, made.User.ID), "", admin, nil); err != nil {
			return nil, err
		}
		took = append(took, milli(time.Since(began)))
	}
	return took, nil
}

// manyUsers measures the list of users as it grows.
func (s *suite) manyUsers(ctx context.Context) error {
	w, stop, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := w.start(ctx, w.redis(), w.Auth()); err != nil {
		return err
	}
	admin, err := w.login(ctx, w.Addresses.Auth)
	if err != nil {
		return err
	}
	list := [][]byte{request(http.MethodGet, usersPath, "", admin)}
	rows := [][]string{{"users", "`GET /users`, answers/s", "µs of processor per answer", "p50 of one client, ms"}}
	var costs samples
	for before, n := 1, 1; n <= 1000; before, n = n, n*10 {
		if err := w.importUsers(ctx, before, n); err != nil {
			return err
		}
		r, err := s.compare(ctx,
			steady(fmt.Sprintf("list of %d", n), w.Addresses.Auth, 8, http.StatusOK, list, w.Programs.Pid("auth")),
			steady("one client", w.Addresses.Auth, 1, http.StatusOK, list, w.Programs.Pid("auth")))
		if err != nil {
			return err
		}
		costs = append(costs, r[0].cost.median())
		rows = append(rows, []string{count(n), r[0].rate.String(), r[0].cost.String(), r[1].p50.String()})
	}
	s.page.line("\n## More users\n\n8 clients, and one.")
	s.page.table(rows...)
	s.page.line("- A user more in the list costs %s µs.", figure((costs[len(costs)-1]-costs[0])/999))
	return nil
}

// importUsers raises the number of users from before to n with auth's own import.
func (w *world) importUsers(ctx context.Context, before, n int) error {
	if n == before {
		return nil
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("a password"), bcrypt.MinCost)
	if err != nil {
		return fmt.Errorf("bcrypt: %w", err)
	}
	var csv strings.Builder
	csv.WriteString("username,display_name,password_hash\n")
	for i := before; i < n; i++ {
		fmt.Fprintf(&csv, "user-%d,Benutzer Nr. %d,%s\n", i, (i*7919)%n, hash)
	}
	file := filepath.Join(w.State, "users.csv")
	if err := os.WriteFile(file, []byte(csv.String()), 0o600); err != nil {
		return err
	}
	auth := w.Auth()
	cmd := exec.CommandContext(ctx, auth.Path, "user", "import", "--from", file, "--apply") //nolint:gosec // our own program
	cmd.Env = auth.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import users: %w: %s", err, out)
	}
	return nil
}
