package sqldb

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
)

// ErrNotSQLite is returned for a file that is not a SQLite database.
var ErrNotSQLite = errors.New("the file is not a SQLite database")

// How every SQLite file begins (SQLite file format, section 1.3).
const (
	magic        = "SQLite format 3\x00"
	headerLength = 100
	writeVersion = 18 // the offset of the file format write version
	inLogMode    = 2
)

// head returns the header of a SQLite file. ErrNotSQLite.
func head(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // chosen by the caller
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	header := make([]byte, headerLength)
	_, err = io.ReadFull(f, header)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err == nil && !bytes.HasPrefix(header, []byte(magic)):
		return nil, ErrNotSQLite
	case err != nil:
		return nil, err
	}
	return header, nil
}

// OpenFile opens the SQLite file of another program, only to read it; its views
// and triggers are not trusted. The program may be running: what it wrote to its
// log (WAL) is read too. ErrNotSQLite.
func OpenFile(path string) (*sql.DB, error) {
	header, err := head(path)
	if err != nil {
		return nil, err
	}
	q := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)", "query_only(1)", "trusted_schema(0)"}}
	if _, err := os.Stat(path + "-wal"); header[writeVersion] == inLogMode && errors.Is(err, fs.ErrNotExist) {
		// No process has it open and everything is in the file. Without this it could
		// not be read in a folder that is read-only, where SQLite would create its log.
		q.Set("immutable", "1")
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, fmt.Errorf("open SQLite: %w", err)
	}
	keepOne(db)
	return db, nil
}
