package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Save writes an archive of a stack, which may be running, to out.
func (s Settings) Save(ctx context.Context, out io.Writer, version string, now time.Time) (m Manifest, err error) {
	folder, err := os.MkdirTemp("", "pforte-backup-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	m = Manifest{Format: format, MadeAt: now.UTC().Truncate(time.Second), Version: version}
	for _, i := range s.items() {
		path := filepath.Join(folder, i.name)
		some, err := i.save(ctx, path)
		if err != nil {
			return m, fmt.Errorf("save %s: %w", i.name, err)
		}
		if !some {
			continue
		}
		if err := i.check(ctx, path); err != nil {
			return m, fmt.Errorf("save %s: %w", i.name, err)
		}
		entry, err := describe(folder, i.name, nil)
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

// Unfinished is a file beside the receipt key while a restore was begun and has not
// succeeded. While it is there, setup creates no secrets, and so no service starts
// without what was to be restored.
const Unfinished = "restore-unfinished"

// Restore restores what an archive holds to places where nothing is: all of it or,
// when a part fails, nothing. ErrArchive, ErrTaken. The services must not run.
func (s Settings) Restore(ctx context.Context, in io.Reader) (Manifest, error) {
	mark := filepath.Join(filepath.Dir(s.SigningKey), Unfinished)
	begun := absent(s.SigningKey) == nil // else the stack has its keys, and goes on as it is
	if begun {
		if err := markRestore(mark); err != nil {
			return Manifest{}, err
		}
	}
	m, err := s.restore(ctx, in)
	if err != nil && begun {
		return m, fmt.Errorf("%w\nNothing was restored. Until a restore succeeds, no new keys are made and no service starts", err)
	} else if err != nil {
		return m, err
	}
	return m, os.Remove(mark)
}

func markRestore(mark string) error {
	if err := os.MkdirAll(filepath.Dir(mark), 0o700); err != nil {
		return err
	}
	return os.WriteFile(mark, nil, 0o600)
}

func (s Settings) restore(ctx context.Context, in io.Reader) (m Manifest, err error) {
	return s.look(ctx, in, func(m Manifest, folder string) error {
		var wanted []item
		for _, i := range s.items() {
			if !m.has(i.name) {
				continue
			}
			if err := i.free(ctx); err != nil {
				return err
			}
			wanted = append(wanted, i)
		}
		return putAll(ctx, wanted, folder)
	})
}

// putAll restores items, and removes what it restored when one fails.
func putAll(ctx context.Context, items []item, folder string) error {
	for n, i := range items {
		err := i.put(ctx, filepath.Join(folder, i.name))
		if err == nil {
			continue
		}
		err = fmt.Errorf("restore %s: %w", i.name, err)
		for _, done := range items[:n] {
			err = errors.Join(err, done.remove())
		}
		return err
	}
	return nil
}

// Check returns an error unless an archive is whole and could be restored by these
// settings. It changes nothing. ErrArchive.
func (s Settings) Check(ctx context.Context, in io.Reader) (Manifest, error) {
	return s.look(ctx, in, func(Manifest, string) error { return nil })
}

// look unpacks an archive, checks every file of it, and calls do with it.
func (s Settings) look(ctx context.Context, in io.Reader, do func(m Manifest, folder string) error) (m Manifest, err error) {
	folder, err := os.MkdirTemp("", "pforte-backup-")
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
	for _, i := range items {
		if !m.has(i.name) {
			if f, ok := i.thing.(file); ok && !f.required {
				continue
			}
			return m, fmt.Errorf("%w: it has no %s", ErrArchive, i.name)
		}
		if err := i.check(ctx, filepath.Join(folder, i.name)); err != nil {
			return m, fmt.Errorf("%w: %s: %w", ErrArchive, i.name, err)
		}
	}
	return m, do(m, folder)
}
