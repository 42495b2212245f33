package backup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
		older     older
	}{
		{"users", s.Users, leftOut, older{"links", voidLinks}},
		{"ledger", s.Ledger, nil, older{"log_head", freeze}},
	} {
		if path, isFile := sqldb.Path(db.url); isFile {
			all = append(all, item{name: db.name + ".db", thing: sqlite{
				file{path, copyWithout(db.leftOut), sqldb.CheckFile}, db.older,
			}})
		} else if db.url != None {
			all = append(all, item{name: db.name + ".dump", thing: postgres{db.url, db.leftOut, db.older}})
		} else {
			continue
		}
		if last := &all[len(all)-1]; db.name == "users" {
			last.thing = users{last.thing, s}
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

// older is what is changed in a service's database when it is restored, because others have seen later
// states of it: by a statement, where there is the table.
type older struct{ table, statement string }

// freeze keeps a log of receipts from signing a second history.
const freeze = "UPDATE log_head SET frozen = 'restored' WHERE frozen = '' AND closed = 0"

// voidLinks voids links that may have been used or withdrawn since.
const voidLinks = "UPDATE links SET void_at = created_at WHERE used_at IS NULL AND void_at IS NULL"

// countSealed counts the secrets of authenticator apps in use, which nobody can make anew. Set-ups that were not
// finished do not count, because they begin again, nor do the keys that sign logins at applications, because they
// are replaced.
const countSealed = "SELECT count(*) FROM user_factors WHERE totp_confirmed_at IS NOT NULL"

// users is auth's database. Where it has secrets of authenticator apps in use, which only the data key of the backup's
// time opens, put leaves the mark secrets.Sealed for setup.
type users struct {
	thing
	settings Settings
}

func (u users) put(ctx context.Context, saved string) error {
	// Before the secrets are there: after a kill in between setup must not make another key.
	if err := u.settings.leaveMark(secrets.Sealed); err != nil {
		return err
	}
	if err := u.thing.put(ctx, saved); err != nil {
		if empty, unknown := sqldb.Empty(ctx, u.settings.Users); unknown == nil && empty {
			err = errors.Join(err, u.settings.unmark(secrets.Sealed))
		}
		return err
	}
	sealed, err := sqldb.CountWhereTable(ctx, u.settings.Users, "user_factors", countSealed)
	if err == nil && sealed == 0 {
		err = u.settings.unmark(secrets.Sealed)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("look for sealed secrets: %w", err), u.remove())
	}
	return nil
}

// sqlite is a service's SQLite file, which is changed before it is in its place.
type sqlite struct {
	file
	older older
}

func (s sqlite) put(ctx context.Context, saved string) error {
	if err := sqldb.ExecWhereTable(ctx, "sqlite:"+saved, s.older.table, s.older.statement); err != nil {
		return fmt.Errorf("change what is older: %w", err)
	}
	return s.file.put(ctx, saved)
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
	older   older
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

// put has the data and the change of what is older in one transaction, which is committed only after all was
// read: what is cut off, by a kill too, is rolled back.
func (p postgres) put(ctx context.Context, saved string) error {
	name, env, err := p.connection()
	if err != nil {
		return err
	}
	psql, stderr := program(ctx, env, "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname="+name)
	script, err := psql.StdinPipe()
	if err == nil {
		err = psql.Start()
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(script, "BEGIN;\n")
	if err == nil {
		read, faults := program(ctx, nil, "pg_restore", "--file=-", "--no-owner", "--no-privileges", saved)
		read.Stdout = script
		err = outcome(read.Run(), "pg_restore", faults)
	}
	if err == nil {
		_, err = fmt.Fprintf(script, "\nRESET search_path;\nDO $change$ BEGIN IF to_regclass('%s') IS NOT NULL THEN\n"+
			"%s;\nEND IF; END $change$;\nCOMMIT;\n", p.older.table, p.older.statement)
	}
	_ = script.Close()
	// psql's error comes first: that its pipe broke follows from it.
	return errors.Join(outcome(psql.Wait(), "psql", stderr), err)
}

// remove leaves the filled database as it is: only the operator may drop it.
func (p postgres) remove() error {
	return errors.New("the database stays filled: empty it before the next try")
}

func (p postgres) run(ctx context.Context, name string, args ...string) error {
	_, env, err := p.connection()
	if err != nil {
		return err
	}
	cmd, stderr := program(ctx, env, name, args...)
	return outcome(cmd.Run(), name, stderr)
}

// program returns a program of Postgres, and what it will have written to standard error.
func program(ctx context.Context, env []string, name string, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	cmd, stderr = exec.CommandContext(ctx, name, args...), &bytes.Buffer{} //nolint:gosec // a program of Postgres
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), stderr
	return cmd, stderr
}

// outcome returns err, which a program ended with, and what the program said.
func outcome(err error, name string, stderr *bytes.Buffer) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(stderr.String()))
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
	options := u.Query().Get("options")
	if schema := u.Query().Get("search_path"); schema != "" {
		options += " -c search_path=" + strings.NewReplacer(`\`, `\\`, " ", `\ `).Replace(schema)
	}
	for variable, value := range map[string]string{
		"PGHOST": cmp.Or(u.Query().Get("host"), u.Hostname()), // the folder of a socket
		"PGPORT": u.Port(), "PGUSER": u.User.Username(), "PGPASSWORD": password, "PGDATABASE": name,
		"PGOPTIONS": options, // that the change looks for its table where the service does
		"PGSSLMODE": u.Query().Get("sslmode"), "PGSSLROOTCERT": u.Query().Get("sslrootcert"),
	} {
		if value != "" {
			env = append(env, variable+"="+value)
		}
	}
	return name, env, nil
}
