package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
)

// Schedule saves archives into a folder, again and again.
type Schedule struct {
	Settings
	Folder string
	// Every is the time from one archive to the next, and Keep how many stay.
	Every time.Duration
	Keep  int
	// Version is that of the program.
	Version string
	Now     func() time.Time
	// Wait returns after d, or ctx's error when ctx ends before.
	Wait func(ctx context.Context, d time.Duration) error
	// Saved and Failed are told of archives and faults. A try may have both: an archive, and a fault after it.
	Saved  func(file string, m Manifest)
	Failed func(error)
}

// nameLayout is the name of an archive as a layout of package time, in UTC, so that names sort by time.
const nameLayout = "pforte-20060102T150405Z.tar"

const (
	// retry is how long Run waits after a try that failed.
	retry = 5 * time.Minute
	// look is after how long, at most, Run reads the clock again: a machine may sleep, or get another time.
	look = time.Minute
)

// Run saves until ctx ends, and then returns nil. It saves at once unless an archive is
// younger than Every. It removes what a save that was killed left in Folder, and old archives
// after a new one is there. It returns an error of Every, Keep or the folder; one of a save goes to Failed.
func (s Schedule) Run(ctx context.Context) error {
	if s.Every <= 0 || s.Keep < 1 {
		return errors.New("the time between two archives, and how many are kept, must be more than 0")
	}
	if err := errors.Join(s.removeLeft(), s.mayWrite()); err != nil {
		return err
	}
	var notBefore time.Time // after a try that failed
	for {
		archives, err := s.archives()
		if err != nil {
			return err
		}
		now := s.Now()
		if notBefore.After(now.Add(retry)) { // the clock was set back
			notBefore = now
		}
		due := notBefore
		for _, at := range archives {
			if !at.After(now) && at.Add(s.Every).After(due) { // not from before the clock was set back
				due = at.Add(s.Every)
			}
		}
		if left := due.Sub(now); left > 0 {
			if err := s.Wait(ctx, min(left, look)); err != nil {
				return nil //nolint:nilerr // it was stopped
			}
			continue
		}
		if err := s.save(ctx, now); ctx.Err() != nil {
			return nil
		} else if err != nil {
			s.Failed(err)
			notBefore = s.Now().Add(retry)
		}
	}
}

// save makes an archive, removes old ones, and notes it.
func (s Schedule) save(ctx context.Context, now time.Time) error {
	file := filepath.Join(s.Folder, now.UTC().Format(nameLayout))
	m, err := s.SaveFile(ctx, file, s.Version, now)
	if err != nil {
		return err
	}
	s.Saved(file, m)
	archives, err := s.archives()
	n := slices.IndexFunc(archives, func(at time.Time) bool { return at.After(now) })
	if n >= 0 { // from before the clock was set back: the oldest
		archives = slices.Concat(archives[n:], archives[:n])
	}
	for _, at := range archives[:max(0, len(archives)-s.Keep)] {
		err = errors.Join(err, os.Remove(filepath.Join(s.Folder, at.Format(nameLayout))))
	}
	return errors.Join(err, s.Note(ctx, m))
}

// archives returns the times of the archives in the folder, the oldest first.
func (s Schedule) archives() (times []time.Time, err error) {
	entries, err := os.ReadDir(s.Folder)
	for _, entry := range entries {
		if at, err := time.Parse(nameLayout, entry.Name()); err == nil && entry.Type().IsRegular() {
			times = append(times, at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times, err
}

// removeLeft removes from Folder what saves that were killed left there. No other save may run.
func (s Schedule) removeLeft() error {
	var faults []error
	for _, pattern := range []string{"pforte-*.tar.new", temporary + "*"} {
		left, err := filepath.Glob(filepath.Join(s.Folder, pattern))
		faults = append(faults, err)
		for _, path := range left {
			faults = append(faults, os.RemoveAll(path))
		}
	}
	return errors.Join(faults...)
}

// mayWrite returns why no archive can be written into the folder, nil if one can.
func (s Schedule) mayWrite() error {
	tried, err := os.MkdirTemp(s.Folder, temporary)
	if err != nil {
		return fmt.Errorf("no archive can be written: %w", err)
	}
	return os.Remove(tried)
}

// Note writes the time at which an archive was made into auth's database, for the page of administrators, unless
// Users is None or there is no table household yet. The database in the archive does not have that time.
func (s Settings) Note(ctx context.Context, m Manifest) error {
	if s.Users == None {
		return nil
	}
	statement := fmt.Sprintf("INSERT INTO household (key, value) VALUES ('last_backup', '%s') "+
		"ON CONFLICT (key) DO UPDATE SET value = excluded.value", m.MadeAt.Format(time.RFC3339))
	if err := sqldb.ExecWhereTable(ctx, s.Users, "household", statement); err != nil {
		return fmt.Errorf("note the archive in auth's database: %w", err)
	}
	return nil
}
