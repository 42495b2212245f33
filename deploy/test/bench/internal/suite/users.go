package suite

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/pforte/pforte/deploy/test/bench/internal/load"
)

const usersPath = "/api/v1/auth/users"

// users measures the list of users as it grows.
func (s *Suite) users(ctx context.Context, p *page) error {
	w, err := s.open(ctx, "users")
	if err != nil {
		return err
	}
	defer w.close(ctx)
	if err := w.redis(ctx); err != nil {
		return err
	}
	auth := w.Layout.Auth()
	if err := w.Start(ctx, within, auth); err != nil {
		return err
	}
	admin, err := w.admin(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"users", "`GET /users`, answers/s", "µs of processor per answer", "p50 of one caller, ms"}}
	var costs []samples
	for before, n := 1, 1; n <= 1000; before, n = n, n*10 {
		if err := w.importUsers(ctx, auth.Path, auth.Env, before, n); err != nil {
			return err
		}
		ask := func(callers int) func(context.Context, time.Duration) (load.Job, error) {
			return func(_ context.Context, d time.Duration) (load.Job, error) {
				return load.Job{Addr: w.Addresses.Auth, Conns: callers, For: d, Request: always(admin.request(http.MethodGet, usersPath, "")), Status: http.StatusOK}, nil
			}
		}
		pids := []int{w.Pid("auth")}
		r, err := s.compare(ctx, s.For/3,
			cell{name: fmt.Sprintf("list of %d", n), pids: pids, prepare: ask(8)}, cell{name: "by one", pids: pids, prepare: ask(1)})
		if err != nil {
			return err
		}
		costs = append(costs, r[0].cost)
		rows = append(rows, []string{count(n), r[0].rate.String(), r[0].cost.String(), r[1].p50.String()})
	}
	p.line("\n## More users\n\nTurns are a third as long here.")
	p.table(rows...)
	p.line("- A user more in the list costs %s µs.", figure((costs[len(costs)-1].median()-costs[0].median())/999))
	return nil
}

// importUsers brings the number of users from before to n by auth's own import.
func (w *world) importUsers(ctx context.Context, program string, env []string, before, n int) error {
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
	cmd := exec.CommandContext(ctx, program, "user", "import", "--from", file, "--apply") //nolint:gosec // our own program
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import users: %w: %s", err, out)
	}
	return nil
}
