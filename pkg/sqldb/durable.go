package sqldb

import (
	"context"
	"fmt"
	"os"
)

// Log is the write-ahead log of a SQLite file, to which each commit appends.
type Log struct{ file *os.File }

// logPages is after how many pages of 4 KB the log is copied into the file. At
// SQLite's own 1000, whoever commits many times a second does little else.
const logPages = 8000

// LeaveSync lets commits of the Writer return as soon as the operating system
// has them, and gives the log, whose Sync waits until they are on the disk. So
// one writer goes on while the disk is at work, and many commits share its work.
// On Postgres, in memory and in a file without a log commits wait for the disk
// by themselves: it gives nil.
//
// It is what synchronous=NORMAL promises (sqlite.org/pragma.html): the log is
// synced before a checkpoint copies it, and the copy before the log is reused;
// only commits since the last Sync can be lost with the power. A connection that
// database/sql should have to open anew waits at each commit, as without this.
func (db *DB) LeaveSync(ctx context.Context) (*Log, error) {
	if db.Dialect != SQLite {
		return nil, nil
	}
	var path, mode string
	row := db.Writer.QueryRowContext(ctx, "SELECT file, journal_mode FROM pragma_database_list, pragma_journal_mode WHERE name = 'main'")
	if err := row.Scan(&path, &mode); err != nil {
		return nil, fmt.Errorf("find the log of the database: %w", err)
	}
	if path == "" || mode != "wal" {
		return nil, nil
	}
	// The checkpoint is the last that waits for the disk as SQLite does it. What a
	// process before wrote, and could not sync, is written anew by it; a sync of
	// the log would find nothing left to do.
	pragmas := fmt.Sprintf("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=%d", logPages)
	if _, err := db.Writer.ExecContext(ctx, pragmas); err != nil {
		return nil, fmt.Errorf("leave commits to the system: %w", err)
	}
	file, err := os.OpenFile(path+"-wal", os.O_RDWR, 0) //nolint:gosec // SQLite says which
	if err != nil {
		return nil, fmt.Errorf("open the log of the database: %w", err)
	}
	return &Log{file}, nil
}

// Sync returns when all that was committed before is on the disk. After an error
// nothing that was committed since the Sync before is sure to be, whatever later
// ones say: the system reports a failed write once.
func (l *Log) Sync() error {
	if err := datasync(l.file); err != nil {
		return fmt.Errorf("sync the log of the database: %w", err)
	}
	return nil
}

// Close forgets the log. The database stays open.
func (l *Log) Close() error { return l.file.Close() }
