package backup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pforte/pforte/deploy/internal/secrets"
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/sqldb"
)

type item struct {
	// name is that of its file in the archive.
	name string
	// optional is whether there may be none.
	optional bool
	thing
}

// thing can be saved to a file and restored from one.
type thing interface {
	// save writes a new file. The error is fs.ErrNotExist where there is nothing to save.
	save(ctx context.Context, to string) error
	// check returns an error unless the file is whole, as far as that can be seen.
	check(ctx context.Context, file string) error
	// free returns an error when something is where it would be put.
	free(ctx context.Context) error
	// put restores the file.
	put(ctx context.Context, file string) error
	// remove undoes put, or returns why it cannot.
	remove() error
}

// ErrTaken is returned when there is data already where a backup would be restored.
var ErrTaken = errors.New("something is there already")

// items returns what is saved, in the order in which it is restored.
func (s Settings) items() []item {
	var all []item
	for _, db := range []struct {
		name, url string
		leftOut   []string
	}{{"users", s.Users, leftOut}, {"ledger", s.Ledger, nil}} {
		if path, isFile := sqldb.Path(db.url); isFile {
			all = append(all, item{name: db.name + ".db", thing: file{path, copyWithout(db.leftOut), sqldb.CheckFile}})
		} else if db.url != None {
			all = append(all, item{name: db.name + ".dump", thing: postgres{db.url, db.leftOut}})
		} else {
			continue
		}
		last := &all[len(all)-1]
		if db.name == "ledger" {
			last.thing = older{last.thing, db.url, func(ctx context.Context, url string) error {
				return sqldb.ExecWhereTable(ctx, url, "log_head", freeze)
			}}
		} else {
			last.thing = older{last.thing, db.url, s.changeUsers}
		}
	}
	if s.SigningKey == None {
		return all
	}
	next := filepath.Join(filepath.Dir(s.SigningKey), secrets.NextReceiptKey)
	all = append(all,
		item{name: secrets.ReceiptKey, thing: file{s.SigningKey, place, checkKey}},
		item{secrets.NextReceiptKey, true, file{next, place, checkKey}})
	if s.LogKey != "" {
		all = append(all, item{"log-key.pem", true, file{s.LogKey, place, checkKey}})
	}
	if s.RetiredKeys != "" {
		anything := func(context.Context, string) error { return nil }
		all = append(all, item{"retired-keys.json", true, file{s.RetiredKeys, place, anything}})
	}
	return all
}

// leftOut are the tables of auth whose rows are in no archive: the logins at applications, which may have ended
// since, as sessions may, the logins that ended lately, and the logout messages that are still to be sent.
var leftOut = []string{"oidc_grants", "oidc_logouts", "oidc_ended_logins"}

// copyWithout returns a function that copies a SQLite database without the rows of tables, of which some may not exist.
func copyWithout(tables []string) func(ctx context.Context, from, to string) error {
	return func(ctx context.Context, from, to string) error {
		if err := sqldb.Copy(ctx, from, to); err != nil {
			return err
		}
		for _, table := range tables {
			if err := sqldb.ExecWhereTable(ctx, "sqlite:"+to, table, "DELETE FROM "+table); err != nil {
				return fmt.Errorf("leave %s out: %w", table, err)
			}
		}
		return nil
	}
}

// older is a service's database, which is changed when it is restored, because others have seen
// later states of it: a SQLite file before it is put in its place, a Postgres after it was filled.
type older struct {
	thing
	url    string
	change func(ctx context.Context, url string) error
}

// freeze keeps a log of receipts from signing a second history.
const freeze = "UPDATE log_head SET frozen = 'restored' WHERE frozen = '' AND closed = 0"

// voidLinks voids links that may have been used or withdrawn since.
const voidLinks = "UPDATE links SET void_at = created_at WHERE used_at IS NULL AND void_at IS NULL"

// countSealed counts the secrets of authenticator apps in use, which nobody can make anew. Set-ups that were not
// finished do not count, because they begin again, nor do the keys that sign logins at applications, because they
// are replaced.
const countSealed = "SELECT count(*) FROM user_factors WHERE totp_confirmed_at IS NOT NULL"

func (o older) put(ctx context.Context, saved string) error {
	if _, isFile := sqldb.Path(o.url); isFile {
		if err := o.change(ctx, "sqlite:"+saved); err != nil {
			return fmt.Errorf("change what is older: %w", err)
		}
		return o.thing.put(ctx, saved)
	}
	if err := o.thing.put(ctx, saved); err != nil {
		return err
	}
	if err := o.change(ctx, o.url); err != nil {
		return fmt.Errorf("change what is older: %w; %w", err, o.remove())
	}
	return nil
}

// changeUsers voids the open links of auth's database, and leaves a mark for setup where only
// the earlier data key opens what is in it.
func (s Settings) changeUsers(ctx context.Context, url string) error {
	if err := sqldb.ExecWhereTable(ctx, url, "links", voidLinks); err != nil {
		return err
	}
	sealed, err := sqldb.CountWhereTable(ctx, url, "user_factors", countSealed)
	switch {
	case err != nil:
		return err
	case sealed > 0:
		return s.leaveMark(secrets.Sealed)
	}
	return s.unmark(secrets.Sealed) // of a restore that failed before
}

// file is a thing that is one file, at path. copy saves it, and whole checks what was saved.
type file struct {
	path  string
	copy  func(ctx context.Context, from, to string) error
	whole func(ctx context.Context, path string) error
}

func (f file) save(ctx context.Context, to string) error     { return f.copy(ctx, f.path, to) }
func (f file) check(ctx context.Context, saved string) error { return f.whole(ctx, saved) }
func (f file) put(ctx context.Context, saved string) error   { return place(ctx, saved, f.path) }
func (f file) remove() error                                 { return os.Remove(f.path) }

func (f file) free(context.Context) error {
	// A database's log that was left behind would be taken for the new file's.
	return errors.Join(absent(f.path), absent(f.path+"-wal"), absent(f.path+"-journal"))
}

// checkKey returns an error unless the file is a key that can sign. The error never
// holds the key.
func checkKey(_ context.Context, path string) error {
	text, err := os.ReadFile(path) //nolint:gosec // in a folder of our own
	if err != nil {
		return err
	}
	_, err = receipt.ParseSigningKey(text)
	return err
}

func absent(path string) error {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%s: %w", path, ErrTaken)
	}
	return err
}

// place copies a file to a path where nothing is, whole and on the disk, or not
// at all.
func place(_ context.Context, from, to string) error {
	content, err := os.Open(from) //nolint:gosec // the operator's, or in a folder of our own
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return secrets.WriteFile(to, content, 0o600)
}

// postgres is a database that the programs of Postgres save and restore.
type postgres struct {
	url     string
	leftOut []string // tables of which no row is saved
}

func (p postgres) save(ctx context.Context, to string) error {
	args := []string{"--format=custom", "--no-owner", "--no-privileges", "--file=" + to}
	for _, table := range p.leftOut {
		args = append(args, "--exclude-table-data="+table)
	}
	return p.run(ctx, "pg_dump", args...)
}

// check reads the table of contents alone.
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
	return p.run(ctx, "pg_restore", "--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges",
		"--dbname="+name, saved)
}

// remove leaves the filled database as it is: only the operator may drop it.
func (p postgres) remove() error {
	return errors.New("the database stays filled: empty it before the next try")
}

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
		"PGHOST": cmp.Or(u.Query().Get("host"), u.Hostname()), // the folder of a socket
		"PGPORT": u.Port(), "PGUSER": u.User.Username(), "PGPASSWORD": password, "PGDATABASE": name,
		"PGSSLMODE": u.Query().Get("sslmode"), "PGSSLROOTCERT": u.Query().Get("sslrootcert"),
	} {
		if value != "" {
			env = append(env, variable+"="+value)
		}
	}
	return name, env, nil
}
