package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
)

const (
	// maxStatements is how many statements a connection holds prepared, a few kB each.
	maxStatements = 128
	// maxStatement bounds the text of such a statement, in bytes: a longer one names each of many rows, and does not
	// come again.
	maxStatement = 4 << 10
)

// preparing has each connection to SQLite keep the statements prepared for which isHeld is true, after their first
// use: parsing a short statement costs SQLite more than carrying it out.
type preparing struct{ driver.Connector }

// Connect implements driver.Connector.
func (p preparing) Connect(ctx context.Context) (driver.Conn, error) {
	opened, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c, ok := opened.(connection)
	if !ok {
		return nil, errors.Join(errors.New("the driver of SQLite has other connections"), opened.Close())
	}
	return &preparedConn{connection: c, held: map[string]*statement{}}, nil
}

// connection is what the driver's connections can do.
type connection interface {
	driver.Conn
	driver.Pinger
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// preparedConn is a connection with its prepared statements. database/sql uses it for one call at a time.
type preparedConn struct {
	connection
	held map[string]*statement // by text
}

type statement struct {
	executor
	busy bool // its rows are being read
}

// executor is what the driver's statements can do.
type executor interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// ExecContext implements driver.ExecerContext.
func (c *preparedConn) ExecContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Result, error) {
	s, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.connection.ExecContext(ctx, query, args)
	}
	return s.ExecContext(ctx, args)
}

// QueryContext implements driver.QueryerContext.
func (c *preparedConn) QueryContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Rows, error) {
	s, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.connection.QueryContext(ctx, query, args)
	}
	found, err := s.QueryContext(ctx, args)
	if err != nil {
		return nil, err
	}
	s.busy = true
	return &statementRows{found, s}, nil
}

// statement returns the prepared statement of a text, or nil where the text is to be carried out as it is.
func (c *preparedConn) statement(ctx context.Context, text string) (*statement, error) {
	if s, ok := c.held[text]; ok {
		if s.busy {
			return nil, nil
		}
		return s, nil
	}
	if !isHeld(text) {
		return nil, nil
	}
	if len(c.held) >= maxStatements {
		if err := c.forget(); err != nil {
			return nil, err
		}
	}
	prepared, err := c.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	s, ok := prepared.(executor)
	if !ok {
		return nil, prepared.Close()
	}
	c.held[text] = &statement{executor: s}
	return c.held[text], nil
}

// isHeld reports whether a statement is one that may be prepared once and carried out often. A PRAGMA is not: SQLite
// carries out some of them where they are prepared (sqlite.org/pragma.html#pragma_syntax).
func isHeld(text string) bool {
	verb, _, _ := strings.Cut(strings.TrimLeft(text, " \t\n"), " ")
	switch verb {
	case "SELECT", "INSERT", "UPDATE", "DELETE":
		return len(text) <= maxStatement && !strings.Contains(text, ";")
	default:
		return false
	}
}

// forget closes the statements that are not being read.
func (c *preparedConn) forget() (err error) {
	for text, s := range c.held {
		if !s.busy {
			delete(c.held, text)
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

// Close implements driver.Conn.
func (c *preparedConn) Close() (err error) {
	for _, s := range c.held {
		err = errors.Join(err, s.Close())
	}
	clear(c.held)
	return errors.Join(err, c.connection.Close())
}

// statementRows are the rows of a prepared statement. The statement may be used again once they are closed.
type statementRows struct {
	driver.Rows
	of *statement
}

// Close implements driver.Rows.
func (r *statementRows) Close() error {
	err := r.Rows.Close()
	r.of.busy = false
	return err
}
