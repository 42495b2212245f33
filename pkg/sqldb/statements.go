package sqldb

import (
	"context"
	"database/sql"
	"maps"
	"sync"
)

// Statements are those of transactions that run often, by their texts: SQLite parses each once, which costs it more
// than to carry most of them out. pgx keeps those of Postgres by itself. The zero value has none. It is safe for
// concurrent use.
type Statements struct {
	mu       sync.RWMutex
	texts    []string
	prepared map[string]*sql.Stmt // closed with the database
}

// NewStatements returns those with these texts, whose placeholders are ?.
func NewStatements(texts ...string) *Statements { return &Statements{texts: texts} }

// Prepare parses them, once. It is called outside of transactions: SQLite's one writer parses them. A failure is
// nothing to report: the transaction that comes next fails for the same reason, or carries them out unprepared.
func (s *Statements) Prepare(ctx context.Context, db *DB) {
	s.mu.RLock()
	done := s.prepared != nil
	s.mu.RUnlock()
	if done || db.Dialect != SQLite {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prepared != nil {
		return
	}
	prepared := make(map[string]*sql.Stmt, len(s.texts))
	for _, text := range s.texts {
		stmt, err := db.Writer.PrepareContext(ctx, text)
		if err != nil {
			for stmt := range maps.Values(prepared) {
				_ = stmt.Close()
			}
			return
		}
		prepared[text] = stmt
	}
	s.prepared = prepared
}

// In returns a statement for a transaction, nil where it is not prepared.
func (s *Statements) In(ctx context.Context, tx *sql.Tx, text string) *sql.Stmt {
	s.mu.RLock()
	stmt := s.prepared[text]
	s.mu.RUnlock()
	if stmt == nil {
		return nil
	}
	return tx.StmtContext(ctx, stmt)
}
