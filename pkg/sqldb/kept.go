package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// maxKept is how many values a Kept holds at most.
const maxKept = 4096

// Kept is what was read of a SQLite file, until any process writes to the file. It is for what every request reads:
// to ask whether the file has changed costs a quarter of a query. On Postgres, and in memory, it keeps nothing.
type Kept[K comparable, V any] struct {
	db   *DB
	read func(context.Context, K) (V, error)

	mu      sync.Mutex
	version int64 // of the file from which values were read
	values  map[K]V
}

// Keep returns a Kept of what read reads by Reader, outside of a transaction. Errors are not kept.
func Keep[K comparable, V any](db *DB, read func(context.Context, K) (V, error)) *Kept[K, V] {
	return &Kept[K, V]{db: db, read: read, values: map[K]V{}}
}

// Get returns the value of a key as the database has it at some moment between the call, or that of DB.Since for ctx,
// and its return. All callers share the value and must not change it.
func (k *Kept[K, V]) Get(ctx context.Context, key K) (V, error) {
	before, err := k.db.versions.since(ctx, k.db.versions.moment(ctx))
	if err != nil {
		return k.read(ctx, key)
	}
	if v, ok := k.at(before, key); ok {
		return v, nil
	}
	v, err := k.read(ctx, key)
	if err != nil {
		return v, err
	}
	// What was read is of this version only where no other was begun meanwhile.
	if after, err := k.db.versions.since(ctx, k.db.versions.asked.Load()); err == nil && after == before {
		k.keep(before, key, v)
	}
	return v, nil
}

// at returns the value that is kept of a key, if it was read at this version of the file.
func (k *Kept[K, V]) at(version int64, key K) (v V, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.version != version {
		return v, false
	}
	v, ok = k.values[key]
	return v, ok
}

// keep keeps a value that was read at a version. It first drops all that were read at another, or all when there are
// maxKept.
func (k *Kept[K, V]) keep(version int64, key K, v V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.version != version || len(k.values) >= maxKept {
		k.version = version
		clear(k.values)
	}
	k.values[key] = v
}

// errNoVersion is returned where it cannot be asked whether the database has changed, as on Postgres, in memory, and
// after Close.
var errNoVersion = errors.New("the database has no version")

// versions reads the version of a SQLite file, which tells whether what was read before is still true: PRAGMA
// data_version of one connection that writes nothing (sqlite.org/pragma.html#pragma_data_version). It differs after
// each commit of another connection, of this process or another. A new connection counts anew, so since makes its
// numbers differ from those of the earlier one.
type versions struct {
	open func() (*sql.DB, error)

	mu    sync.Mutex
	pool  *sql.DB // nil before the first use, and after an error
	conn  *sql.Conn
	query driver.StmtQueryContext
	row   [1]driver.Value
	epoch int64 // how many connections there were
	ended bool

	asked  atomic.Int64 // how many questions were begun: reads of the version
	answer int64        // to the last one, while there is a pool
}

// maxVersion bounds SQLite's number, which has 32 bits.
const maxVersion = 1 << 32

// Since returns a context in which Kept.Get may return what the database has at any moment since this call. It is for
// a request that waits for something else first: those that waited together ask once whether the file has changed.
func (db *DB) Since(ctx context.Context) context.Context {
	if db.versions == nil {
		return ctx
	}
	return context.WithValue(ctx, begun{}, db.versions.asked.Load())
}

// begun is the key of a moment in a context: how many questions had been begun.
type begun struct{}

// moment returns that of Since, or the present one.
func (v *versions) moment(ctx context.Context) int64 {
	if v == nil {
		return 0
	}
	if moment, ok := ctx.Value(begun{}).(int64); ok {
		return moment
	}
	return v.asked.Load()
}

// since returns the file's version at some time between a moment and its return: the last answer if its question was
// begun after the moment, else the answer to a new one. Between two equal versions nothing was written.
func (v *versions) since(ctx context.Context, moment int64) (int64, error) {
	if v == nil {
		return 0, errNoVersion
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended {
		return 0, errNoVersion
	}
	if v.pool != nil && v.asked.Load() > moment {
		return v.answer, nil
	}
	v.asked.Add(1)
	if v.pool == nil {
		if err := v.connect(ctx); err != nil {
			return 0, errors.Join(err, v.close())
		}
	}
	if err := v.conn.Raw(v.ask); err != nil {
		return 0, errors.Join(fmt.Errorf("read the version of the database: %w", err), v.close())
	}
	number, ok := v.row[0].(int64)
	if !ok {
		return 0, errors.Join(errNoVersion, v.close())
	}
	v.answer = v.epoch*maxVersion + number
	return v.answer, nil
}

// connect prepares the query on a connection of its own. Later requests use the connection too, so the end of
// ctx does not close it.
func (v *versions) connect(ctx context.Context) (err error) {
	ctx = context.WithoutCancel(ctx)
	if v.pool, err = v.open(); err != nil {
		return err
	}
	if v.conn, err = v.pool.Conn(ctx); err != nil {
		return err
	}
	v.epoch++
	return v.conn.Raw(func(c any) error {
		preparer, ok := c.(driver.ConnPrepareContext)
		if !ok {
			return errNoVersion
		}
		prepared, err := preparer.PrepareContext(ctx, "PRAGMA data_version")
		if err != nil {
			return err
		}
		if v.query, ok = prepared.(driver.StmtQueryContext); !ok {
			return errNoVersion
		}
		return nil
	})
}

// ask reads the version into row. It uses the driver alone, without what database/sql does for each query, which
// takes more than the query.
func (v *versions) ask(any) (err error) {
	rows, err := v.query.QueryContext(context.Background(), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	return rows.Next(v.row[:])
}

// shut closes the connection for good.
func (v *versions) shut() error {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended = true
	return v.close()
}

func (v *versions) close() error {
	if v.pool == nil {
		return nil
	}
	pool := v.pool
	v.pool, v.query = nil, nil
	if v.conn != nil {
		_ = v.conn.Close()
		v.conn = nil
	}
	return pool.Close()
}
