package backup

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"github.com/pforte/pforte/pkg/sqldb"
)

// postgres is a database that the programs of Postgres save and restore.
type postgres struct{ url string }

func (p postgres) save(ctx context.Context, to string) (bool, error) {
	return true, p.run(ctx, "pg_dump", "--format=custom", "--no-owner", "--no-privileges", "--file="+to)
}

// check reads the table of contents: the sums of the archive are checked before.
func (p postgres) check(ctx context.Context, saved string) error {
	return p.run(ctx, "pg_restore", "--list", saved)
}

func (p postgres) free(ctx context.Context) error {
	empty, err := sqldb.Empty(ctx, p.url)
	if err == nil && !empty {
		err = fmt.Errorf("the database has tables: %w", ErrTaken)
	}
	return err
}

func (p postgres) put(ctx context.Context, saved string) error {
	name, _, err := p.connection()
	if err != nil {
		return err
	}
	return p.run(ctx, "pg_restore", "--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", "--dbname="+name, saved)
}

// remove leaves a database that was filled: to drop it is the operator's.
func (p postgres) remove() error { return nil }

func (p postgres) run(ctx context.Context, program string, args ...string) error {
	_, env, err := p.connection()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // a program of Postgres
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

// connection takes the URL apart into the name of the database and variables that
// libpq reads: a password among the arguments could be read by every user of the
// machine.
func (p postgres) connection() (name string, env []string, err error) {
	u, err := url.Parse(p.url)
	if err != nil {
		return "", nil, sqldb.ErrURL // not the URL itself
	}
	name = strings.TrimPrefix(u.Path, "/")
	password, _ := u.User.Password()
	for variable, value := range map[string]string{
		"PGHOST": u.Hostname(), "PGPORT": u.Port(), "PGUSER": u.User.Username(), "PGPASSWORD": password, "PGDATABASE": name,
		"PGSSLMODE": u.Query().Get("sslmode"), "PGSSLROOTCERT": u.Query().Get("sslrootcert"),
	} {
		if value != "" {
			env = append(env, variable+"="+value)
		}
	}
	if host := u.Query().Get("host"); host != "" { // the folder of a socket
		env = append(env, "PGHOST="+host)
	}
	return name, env, nil
}
