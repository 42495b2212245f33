package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/sqldb"
)

// ErrTaken is that something is where a backup would be restored.
var ErrTaken = errors.New("something is there already")

// items returns what is saved, in the order in which it is restored.
func (s Settings) items() []item {
	var all []item
	if s.Users != None {
		all = append(all, database("users", s.Users))
	}
	if s.Ledger != None {
		all = append(all, database("ledger", s.Ledger))
	}
	all = append(all, item{"receipt-key.pem", file{s.SigningKey, true, checkKey}})
	if s.RetiredKeys != "" {
		all = append(all, item{"retired-keys.json", file{s.RetiredKeys, false, func(string) error { return nil }}})
	}
	return all
}

func database(name, url string) item {
	if path, ok := sqldb.Path(url); ok {
		return item{name + ".db", sqlite{path}}
	}
	return item{name + ".dump", postgres{url}}
}

// sqlite is a SQLite file.
type sqlite struct{ path string }

func (s sqlite) save(ctx context.Context, to string) (bool, error) {
	return true, sqldb.Copy(ctx, s.path, to)
}

func (s sqlite) check(ctx context.Context, saved string) error { return sqldb.CheckFile(ctx, saved) }
func (s sqlite) put(_ context.Context, saved string) error     { return place(saved, s.path) }
func (s sqlite) remove() error                                 { return os.Remove(s.path) }

func (s sqlite) free(context.Context) error {
	// A log that was left behind would be taken for the new file's.
	return errors.Join(absent(s.path), absent(s.path+"-wal"), absent(s.path+"-journal"))
}

// file is any other file.
type file struct {
	path     string
	required bool
	whole    func(path string) error
}

func (f file) save(_ context.Context, to string) (bool, error) {
	if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) && !f.required {
		return false, nil
	}
	return true, place(f.path, to)
}

func (f file) check(_ context.Context, saved string) error { return f.whole(saved) }
func (f file) free(context.Context) error                  { return absent(f.path) }
func (f file) put(_ context.Context, saved string) error   { return place(saved, f.path) }
func (f file) remove() error                               { return os.Remove(f.path) }

// checkKey returns an error unless the file is a key that can sign. The error never
// holds the key.
func checkKey(path string) error {
	text, err := os.ReadFile(path) //nolint:gosec // in a folder of our own
	if err != nil {
		return err
	}
	_, err = receipt.ParseSigningKey(text)
	return err
}

func absent(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", path, ErrTaken)
}

// place copies a file to a path where nothing is, whole and on the disk, or not
// at all.
func place(from, to string) (err error) {
	content, err := os.Open(from) //nolint:gosec // the operator's, or in a folder of our own
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	partial := to + ".new"
	out, err := os.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // as above
	if err != nil {
		return err
	}
	_, err = out.ReadFrom(content)
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return os.Rename(partial, to)
}
