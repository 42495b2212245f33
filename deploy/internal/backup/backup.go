package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/internal/secrets"
	"github.com/pforte/pforte/pkg/sqldb"
)

// Settings are the places of what is saved.
type Settings struct {
	Users       string `env:"USERS_DATABASE_URL,required" secret:"true" doc:"auth's DATABASE_URL, or none"`
	Ledger      string `env:"LEDGER_DATABASE_URL,required" secret:"true" doc:"the verifier's DATABASE_URL, or none"`
	SigningKey  string `env:"RECEIPT_SIGNING_KEY_FILE,required" doc:"the verifier's, or none"`
	LogKey      string `env:"RECEIPT_LOG_KEY_FILE" doc:"the verifier's, where it has one"`
	RetiredKeys string `env:"RECEIPT_RETIRED_KEYS_FILE" doc:"the verifier's, where it has one"`
	Marks       string `env:"RESTORE_MARKS" doc:"folder where setup looks for the marks of a restore; the key's unless set"`
}

// None as a database's URL means that the database is saved in another way, or that there is none;
// as the signing key, that there is no verifier. Archives are made without the database, or
// without keys, and an archive that has them is refused.
const None = "none"

// Validate returns what is wrong with the settings.
func (s *Settings) Validate() error {
	var faults []error
	if s.SigningKey == None && s.Marks == "" {
		faults = append(faults, errors.New("RESTORE_MARKS: needed where RECEIPT_SIGNING_KEY_FILE is none"))
	}
	for name, url := range map[string]string{"USERS_DATABASE_URL": s.Users, "LEDGER_DATABASE_URL": s.Ledger} {
		if url == None {
			continue
		}
		err := sqldb.CheckURL(url)
		if _, isFile := sqldb.Path(url); err == nil && strings.HasPrefix(url, "sqlite:") && !isFile {
			err = errors.New("a database in memory ends with its process")
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(faults...)
}

// temporary is how the names of folders begin in which archives are made and read.
const temporary = "pforte-backup-"

// Save writes an archive of a stack, which may be running, to out.
func (s Settings) Save(ctx context.Context, out io.Writer, version string, now time.Time) (m Manifest, err error) {
	folder, err := os.MkdirTemp("", temporary)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	m = Manifest{Format: format, MadeAt: now.UTC().Truncate(time.Second), Version: version}
	for _, i := range s.items() {
		path := filepath.Join(folder, i.name)
		err := i.save(ctx, path)
		if i.optional && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = i.check(ctx, path)
		}
		var entry Entry
		if err == nil {
			entry, err = describe(folder, i.name, nil)
		}
		if err != nil {
			return m, fmt.Errorf("save %s: %w", i.name, err)
		}
		m.Files = append(m.Files, entry)
	}
	return m, pack(out, folder, m)
}

// SaveFile is Save to a file. It reads and checks what it wrote before it renames
// the file: an earlier one stays until then.
func (s Settings) SaveFile(ctx context.Context, file, version string, now time.Time) (m Manifest, err error) {
	partial := file + ".new"
	out, err := os.OpenFile(partial, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600) //nolint:gosec // the operator's
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(partial))
		}
	}()
	_, err = s.Save(ctx, out, version, now)
	if err := errors.Join(err, out.Sync()); err != nil {
		return m, errors.Join(err, out.Close())
	}
	_, err = out.Seek(0, io.SeekStart)
	if err == nil {
		m, err = s.Check(ctx, out)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return m, fmt.Errorf("what was written: %w", err)
	}
	return m, os.Rename(partial, file)
}

// Restore restores what an archive holds to places where nothing is: all of it or, when a part
// fails, nothing; but a Postgres that was filled by then stays so. The services must not run. Where
// the signing key was missing or, in a household, the SQLite file of the users, setup creates no keys
// until a restore has succeeded. Afterwards setup creates no data key unasked if auth's database holds
// secrets of authenticator apps, which only the earlier one opens. ErrArchive, ErrTaken.
func (s Settings) Restore(ctx context.Context, in io.Reader) (m Manifest, err error) {
	begun := s.lost() // else the stack can start, whether this succeeds or not
	if begun {
		if err := s.leaveMark(secrets.Unfinished); err != nil {
			return m, err
		}
	}
	m, err = s.look(ctx, in, func(saved []item, folder string) error {
		for _, i := range saved {
			if err := i.free(ctx); err != nil {
				return err
			}
		}
		for n, i := range saved {
			if err := i.put(ctx, filepath.Join(folder, i.name)); err != nil {
				err = fmt.Errorf("restore %s: %w", i.name, err)
				for _, done := range saved[:n] {
					if left := done.remove(); left != nil {
						err = fmt.Errorf("%w\n%s: %w", err, done.name, left)
					}
				}
				return err
			}
		}
		return nil
	})
	if err != nil && begun {
		return m, fmt.Errorf("%w\nNo file was restored. Until a restore succeeds, no new keys are made and no "+
			"service starts", err)
	} else if err != nil {
		return m, err
	}
	return m, s.unmark(secrets.Unfinished) // perhaps of a restore that failed before
}

// lost reports whether the stack lacks what it needs to go on and a restore puts back: the signing
// key or, in a household, the SQLite file of the users. In a household with users in a Postgres it returns false.
func (s Settings) lost() bool {
	if s.SigningKey != None {
		return absent(s.SigningKey) == nil
	}
	path, isFile := sqldb.Path(s.Users)
	return isFile && absent(path) == nil
}

// mark returns the path of a mark: an empty file by which a restore tells setup something.
func (s Settings) mark(name string) string {
	return filepath.Join(cmp.Or(s.Marks, filepath.Dir(s.SigningKey)), name)
}

// leaveMark makes a mark, and its folder.
func (s Settings) leaveMark(name string) error {
	mark := s.mark(name)
	if err := os.MkdirAll(filepath.Dir(mark), 0o700); err != nil {
		return err
	}
	return secrets.WriteFile(mark, strings.NewReader(""), 0o600)
}

// unmark removes a mark, where there is one.
func (s Settings) unmark(name string) error {
	if err := os.Remove(s.mark(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Check returns what an archive has, and an error unless the archive is whole, these settings name a
// place for each of its files, and it has each file that they require. It does not look whether the
// places are free, as Restore does. It changes nothing. ErrArchive.
func (s Settings) Check(ctx context.Context, in io.Reader) (Manifest, error) {
	return s.look(ctx, in, func([]item, string) error { return nil })
}

// look unpacks an archive, checks every file of it, and calls do with the items that it has, and the
// folder with their files.
func (s Settings) look(
	ctx context.Context, in io.Reader, do func(saved []item, folder string) error,
) (m Manifest, err error) {
	folder, err := os.MkdirTemp("", temporary)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if m, err = unpack(in, folder); err != nil {
		return m, err
	}
	items := s.items()
	for _, entry := range m.Files {
		if !slices.ContainsFunc(items, func(i item) bool { return i.name == entry.Name }) {
			return m, fmt.Errorf("%w: the settings name no place for its %s", ErrArchive, entry.Name)
		}
	}
	var saved []item
	for _, i := range items {
		if !slices.ContainsFunc(m.Files, func(e Entry) bool { return e.Name == i.name }) {
			if i.optional {
				continue
			}
			return m, fmt.Errorf("%w: it has no %s", ErrArchive, i.name)
		}
		if err := i.check(ctx, filepath.Join(folder, i.name)); err != nil {
			return m, fmt.Errorf("%w: %s: %w", ErrArchive, i.name, err)
		}
		saved = append(saved, i)
	}
	return m, do(saved, folder)
}
