package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/tracing"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Migrations are those of the database, for sqldb.Open.
//
//go:embed migrations
var Migrations embed.FS

const (
	timeout       = 4 * time.Second // of one method, with the wait for a connection and for locks
	importTimeout = 2 * time.Minute // of an import, which no request waits for
)

// Store keeps users and all that belongs to them. It implements the store interfaces of the
// nouns and of account over one database, so that an act, what follows from it and its
// audit row are one transaction. It is safe for concurrent use.
type Store struct {
	db   *sqldb.DB
	now  func() time.Time
	byID *sqldb.Query // of every authenticated request
	// Of every guarded request.
	visitor, tokenVisitor *sqldb.Query
	observe               func(context.Context, audit.Entry)
}

// New returns a store in a database that was opened with Migrations. now is the clock
// for the times of creation.
func New(db *sqldb.DB, now func() time.Time) *Store {
	return NewObserved(db, now, func(context.Context, audit.Entry) {})
}

// NewObserved is New with a function that is called for each event of the audit when it is
// committed, and must not wait. The entry has no ID.
func NewObserved(db *sqldb.DB, now func() time.Time, observe func(context.Context, audit.Entry)) *Store {
	return &Store{
		observe: observe,
		db:      db, now: now, byID: db.Query(selectUser + byID),
		visitor:      db.Query(`SELECT ` + columns + `, ` + groupsOf + ` FROM users WHERE ` + byID),
		tokenVisitor: db.Query(`SELECT ` + tokenColumns + `, ` + groupsOf + `, users.display_name, users.role` + tokenTables + ` WHERE app_tokens.token_hash = ?`),
	}
}

// recordedKey is the key of the events that a context's transaction has recorded.
type recordedKey struct{}

// tx runs do in one write transaction within the limit; what names the operation in
// errors.
func (s *Store) tx(ctx context.Context, limit time.Duration, what string, do func(context.Context, *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx, span := tracing.Call(ctx, "sql", what)
	var recorded []audit.Entry
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		recorded = nil // a transaction may run again
		return do(context.WithValue(ctx, recordedKey{}, &recorded), tx)
	})
	span.End(tracing.Failed(err))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for _, e := range recorded {
		s.observe(ctx, e)
	}
	return nil
}

// Create implements people.Users.
func (s *Store) Create(ctx context.Context, n user.New, by int64) (user.User, error) {
	return s.create(ctx, "create user", n, func(ctx context.Context, tx *sql.Tx) error { return s.mayAct(ctx, tx, by) })
}

// CreateFirst implements people.Users.
func (s *Store) CreateFirst(ctx context.Context, n user.New) (user.User, error) {
	return s.create(ctx, "create first user", n, s.isEmpty)
}

// create adds a user unless check returns an error.
func (s *Store) create(ctx context.Context, what string, n user.New, check func(context.Context, *sql.Tx) error) (user.User, error) {
	var created user.User
	err := s.tx(ctx, timeout, what, func(ctx context.Context, tx *sql.Tx) (err error) {
		if err := check(ctx, tx); err != nil {
			return err
		}
		if created, err = s.insert(ctx, tx, user.User{New: n}); err != nil {
			return err
		}
		return s.record(ctx, tx, about("user_created", created, map[string]any{"role": n.Role}))
	})
	return created, err
}

// mayAct returns ErrNotAdmin unless by is the Operator or an admin. It locks the
// admin's row, so that a concurrent deletion or demotion waits for the transaction.
func (s *Store) mayAct(ctx context.Context, tx *sql.Tx, by int64) error {
	if by == user.Operator {
		return nil
	}
	query := `SELECT role FROM users WHERE id = ?`
	if s.db.Dialect == sqldb.Postgres {
		query += ` FOR SHARE`
	}
	var role string
	err := tx.QueryRowContext(ctx, s.db.Rebind(query), by).Scan(&role)
	if errors.Is(err, sql.ErrNoRows) || err == nil && role != string(user.Admin) {
		return user.ErrNotAdmin
	}
	return err
}

// isEmpty returns ErrNotEmpty when there is a user, and blocks every other insert.
func (s *Store) isEmpty(ctx context.Context, tx *sql.Tx) error {
	if err := s.blockInserts(ctx, tx); err != nil {
		return err
	}
	var some bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM users)`).Scan(&some); err != nil {
		return err
	}
	if some {
		return user.ErrNotEmpty
	}
	return nil
}

// blockInserts blocks every other insert until the transaction ends. SQLite has one writer.
func (s *Store) blockInserts(ctx context.Context, tx *sql.Tx) error {
	if s.db.Dialect != sqldb.Postgres {
		return nil
	}
	_, err := tx.ExecContext(ctx, `LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE`)
	return err
}

// insert adds u, under its ID unless that is 0, and returns it as stored.
func (s *Store) insert(ctx context.Context, tx *sql.Tx, u user.User) (user.User, error) {
	if u.CreatedAt.IsZero() {
		u.CreatedAt = s.now()
	}
	u.CreatedAt, u.SessionStamp = u.CreatedAt.UTC().Truncate(time.Second), user.NewSessionStamp()
	names := `username, display_name, password_hash, avatar_color, role, created_at, session_stamp`
	args := []any{u.Username, u.DisplayName, u.PasswordHash, u.AvatarColor, string(u.Role), u.CreatedAt.Unix(), u.SessionStamp}
	if u.ID != 0 {
		names, args = names+`, id`, append(args, u.ID)
	}
	query := `INSERT INTO users (` + names + `) VALUES (?` + strings.Repeat(`, ?`, len(args)-1) + `) RETURNING id`
	err := tx.QueryRowContext(ctx, s.db.Rebind(query), args...).Scan(&u.ID)
	if sqldb.IsUnique(err) {
		return user.User{}, user.ErrUsernameTaken
	}
	if err != nil {
		return user.User{}, err
	}
	return u, nil
}

const columns = `id, username, display_name, password_hash, avatar_color, role, created_at, session_stamp, kept_session, ` + hasSecondFactor

const (
	selectUser = `SELECT ` + columns + ` FROM users WHERE `
	byID       = `id = ?`
)

// ByID implements account.Users.
func (s *Store) ByID(ctx context.Context, id int64) (user.User, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx, span := tracing.Call(ctx, "sql", "read user")
	defer span.End("")
	return scan(s.byID.Row(ctx, id))
}

// ByUsername implements account.Users.
func (s *Store) ByUsername(ctx context.Context, username string) (user.User, error) {
	if !isText(username) {
		return user.User{}, user.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// lower() uses the index, the second condition compares the case
	return s.one(ctx, s.db.Reader, `lower(username) = ? AND username = ?`, asciiLower(username), username)
}

// isText reports whether a database can hold s. Postgres refuses any other, even to compare.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// asciiLower is lower() of both indexes; stored names are ASCII.
func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// List implements account.Users.
func (s *Store) List(ctx context.Context) ([]user.User, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := s.db.Reader.QueryContext(ctx, `SELECT `+columns+` FROM users ORDER BY id`)
	users, err := sqldb.All(rows, err, scan)
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	return users, nil
}

// querier is a pool or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// one returns the user that a condition selects.
func (s *Store) one(ctx context.Context, q querier, where string, args ...any) (user.User, error) {
	ctx, span := tracing.Call(ctx, "sql", "read user")
	defer span.End("")
	return scan(q.QueryRowContext(ctx, s.db.Rebind(selectUser+where), args...))
}

func scan(row sqldb.Scanner) (user.User, error) {
	var u user.User
	var created int64
	err := row.Scan(&u.ID, &u.Username, &u.DisplayName, &u.PasswordHash, &u.AvatarColor, &u.Role, &created, &u.SessionStamp, &u.KeptSession, &u.SecondFactor)
	if errors.Is(err, sql.ErrNoRows) {
		return user.User{}, user.ErrNotFound
	}
	if err != nil {
		return user.User{}, fmt.Errorf("read user: %w", err)
	}
	u.CreatedAt, u.PasswordHash = time.Unix(created, 0).UTC(), unmarked(u.PasswordHash)
	return u, nil
}

// SetPasswordHash implements account.Users.
func (s *Store) SetPasswordHash(ctx context.Context, id int64, oldHash, newHash, keepSession string) (user.Revocation, error) {
	r := user.Revocation{UserID: id, KeepSession: keepSession}
	return s.change(ctx, "set password", r, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.swapHash(ctx, tx, id, oldHash, newHash); err != nil {
			return err
		}
		if err := s.newStamp(ctx, tx, id, keepSession); err != nil {
			return err
		}
		if err := s.closeResets(ctx, tx, id); err != nil {
			return err
		}
		return s.recordAbout(ctx, tx, "password_changed", id, nil)
	})
}

// Rehash implements account.Users.
func (s *Store) Rehash(ctx context.Context, id int64, oldHash, newHash string) error {
	return s.tx(ctx, timeout, "rehash password", func(ctx context.Context, tx *sql.Tx) error {
		return s.swapHash(ctx, tx, id, oldHash, newHash)
	})
}

// swapHash compares and sets: a second writer waits for the first one's commit and then
// finds another hash.
func (s *Store) swapHash(ctx context.Context, tx *sql.Tx, id int64, oldHash, newHash string) error {
	if _, err := s.lockUser(ctx, tx, id); err != nil {
		return err
	}
	args := append(markedHash(newHash), id, oldHash, secondFactorMark+oldHash)
	err := s.update(ctx, tx, `UPDATE users SET password_hash = `+hashSQL+` WHERE id = ? AND password_hash IN (?, ?)`, args...)
	if errors.Is(err, user.ErrNotFound) {
		return user.ErrChanged
	}
	return err
}

// ResetPassword implements account.Users.
func (s *Store) ResetPassword(ctx context.Context, id int64, newHash string) (user.Revocation, error) {
	r := user.Revocation{UserID: id}
	return s.change(ctx, "reset password", r, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.replaceHash(ctx, tx, id, newHash); err != nil {
			return err
		}
		return s.recordAbout(ctx, tx, "password_reset", id, nil)
	})
}

// replaceHash sets the password hash, and a new session stamp for all sessions to end.
func (s *Store) replaceHash(ctx context.Context, tx *sql.Tx, id int64, newHash string) error {
	if _, err := s.lockUser(ctx, tx, id); err != nil {
		return err
	}
	if err := s.update(ctx, tx, `UPDATE users SET password_hash = `+hashSQL+` WHERE id = ?`, append(markedHash(newHash), id)...); err != nil {
		return err
	}
	if err := s.newStamp(ctx, tx, id, ""); err != nil {
		return err
	}
	return s.closeResets(ctx, tx, id)
}

// EndSessions implements account.Users.
func (s *Store) EndSessions(ctx context.Context, id int64) (user.Revocation, error) {
	r := user.Revocation{UserID: id}
	return s.change(ctx, "end sessions", r, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.newStamp(ctx, tx, id, ""); err != nil {
			return err
		}
		return s.recordAbout(ctx, tx, "sessions_ended", id, nil)
	})
}

// newStamp sets a new session stamp, and the session that it does not end. The links that the user created end too: the
// sessions that end may have been another person's.
func (s *Store) newStamp(ctx context.Context, tx *sql.Tx, id int64, keepSession string) error {
	err := s.update(ctx, tx, `UPDATE users SET session_stamp = ?, kept_session = ? WHERE id = ?`, user.NewSessionStamp(), keepSession, id)
	if err != nil {
		return err
	}
	return s.voidLinks(ctx, tx, `created_by = ?`, id)
}

// SetRole implements people.Users.
func (s *Store) SetRole(ctx context.Context, id int64, role user.Role) error {
	return s.tx(ctx, timeout, "set role", func(ctx context.Context, tx *sql.Tx) error {
		if role != user.Admin {
			if err := s.keepAnAdmin(ctx, tx, id, user.Operator); err != nil {
				return err
			}
		}
		return s.setRole(ctx, tx, id, role)
	})
}

func (s *Store) setRole(ctx context.Context, tx *sql.Tx, id int64, role user.Role) error {
	if err := s.update(ctx, tx, `UPDATE users SET role = ? WHERE id = ?`, string(role), id); err != nil {
		return err
	}
	if role != user.Admin {
		if err := s.voidLinks(ctx, tx, `created_by = ?`, id); err != nil {
			return err
		}
	}
	if err := s.recordRole(ctx, tx, id); err != nil {
		return err
	}
	return s.recordAbout(ctx, tx, "role_changed", id, map[string]any{"role": role})
}

// recordRole records that a role has changed, for the release before the first with pages: it takes the role from the
// session, and follows the record within seconds, or when it starts after a roll-back. This release reads the role of
// the user's row, and no such records; there is one for each user.
func (s *Store) recordRole(ctx context.Context, tx *sql.Tx, id int64) error {
	if _, err := tx.ExecContext(ctx, s.db.Rebind(`DELETE FROM pending_revocations WHERE kind = 'role' AND user_id = ?`), id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, s.db.Rebind(`INSERT INTO pending_revocations (user_id, kind, keep_session, recorded_at) VALUES (?, 'role', '', ?)`), id, s.now().Unix())
	return err
}

// Delete implements people.Users.
func (s *Store) Delete(ctx context.Context, id, by int64) (user.Revocation, error) {
	r := user.Revocation{UserID: id}
	return s.change(ctx, "delete user", r, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.keepAnAdmin(ctx, tx, id, by); err != nil {
			return err
		}
		if err := s.recordAbout(ctx, tx, "user_deleted", id, nil); err != nil {
			return err
		}
		if err := s.voidLinks(ctx, tx, `created_by = ?`, id); err != nil { // an import may give the id again
			return err
		}
		if err := s.keepName(ctx, tx, id); err != nil {
			return err
		}
		return s.update(ctx, tx, `DELETE FROM users WHERE id = ?`, id)
	})
}

// keepName makes the name of a user a former one, which no open invite is for.
func (s *Store) keepName(ctx context.Context, tx *sql.Tx, id int64) error {
	_, err := tx.ExecContext(ctx, s.db.Rebind(`INSERT INTO former_usernames (username) SELECT lower(username) FROM users WHERE id = ?
		ON CONFLICT (username) DO NOTHING`), id)
	if err != nil {
		return err
	}
	return s.voidLinks(ctx, tx, `kind = 'invite' AND lower(username) = (SELECT lower(username) FROM users WHERE users.id = ?)`, id)
}

// CheckFormer implements people.Users.
func (s *Store) CheckFormer(ctx context.Context, username string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.checkFormer(ctx, s.db.Reader, username)
}

// checkFormer returns ErrUsernameFormer for the name of a deleted user.
func (s *Store) checkFormer(ctx context.Context, q querier, username string) error {
	if !isText(username) {
		return nil
	}
	var former bool
	query := s.db.Rebind(`SELECT EXISTS (SELECT 1 FROM former_usernames WHERE username = ?)`)
	if err := q.QueryRowContext(ctx, query, asciiLower(username)).Scan(&former); err != nil {
		return fmt.Errorf("read former usernames: %w", err)
	}
	if former {
		return user.ErrUsernameFormer
	}
	return nil
}

// change runs do and records the revocation that follows from it, in one transaction.
func (s *Store) change(ctx context.Context, what string, r user.Revocation, do func(context.Context, *sql.Tx) error) (user.Revocation, error) {
	err := s.tx(ctx, timeout, what, func(ctx context.Context, tx *sql.Tx) error {
		if err := do(ctx, tx); err != nil {
			return err
		}
		return s.recordRevocation(ctx, tx, &r)
	})
	return r, err
}

// update returns ErrNotFound unless the statement changes a row.
func (s *Store) update(ctx context.Context, tx *sql.Tx, query string, args ...any) error {
	result, err := tx.ExecContext(ctx, s.db.Rebind(query), args...)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return user.ErrNotFound
	}
	return err
}

// keepAnAdmin returns ErrLastAdmin when id is the only admin, and ErrNotAdmin unless by is
// the Operator or an admin. It locks all admins until the transaction ends, so that two
// who act on each other do so one after the other.
func (s *Store) keepAnAdmin(ctx context.Context, tx *sql.Tx, id, by int64) error {
	query := `SELECT id FROM users WHERE role = 'admin' ORDER BY id`
	if s.db.Dialect == sqldb.Postgres {
		query += ` FOR UPDATE`
	}
	rows, err := tx.QueryContext(ctx, query)
	admins, err := sqldb.All(rows, err, func(row sqldb.Scanner) (admin int64, err error) {
		err = row.Scan(&admin)
		return admin, err
	})
	switch {
	case err != nil:
		return err
	case by != user.Operator && !slices.Contains(admins, by):
		return user.ErrNotAdmin
	case len(admins) == 1 && admins[0] == id:
		return user.ErrLastAdmin
	default:
		return nil
	}
}

// recordRevocation inserts the revocation in the transaction of its cause, and sets its ID and time.
func (s *Store) recordRevocation(ctx context.Context, tx *sql.Tx, r *user.Revocation) error {
	r.RecordedAt = s.now().UTC().Truncate(time.Second)
	return tx.QueryRowContext(ctx, s.db.Rebind(`INSERT INTO pending_revocations (user_id, kind, keep_session, recorded_at)
		VALUES (?, 'sessions', ?, ?) RETURNING id`), r.UserID, r.KeepSession, r.RecordedAt.Unix()).Scan(&r.ID)
}

// PendingRevocations implements account.Users. It leaves out changes of role, which sessions need not follow.
func (s *Store) PendingRevocations(ctx context.Context, before time.Time, after int64) ([]user.Revocation, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := s.db.Reader.QueryContext(ctx, s.db.Rebind(`SELECT id, user_id, keep_session, recorded_at
		FROM pending_revocations WHERE kind = 'sessions' AND recorded_at < ? AND id > ? ORDER BY id LIMIT ?`), ceilUnix(before), after, user.MaxPending)
	pending, err := sqldb.All(rows, err, func(row sqldb.Scanner) (user.Revocation, error) {
		var r user.Revocation
		var recorded int64
		err := row.Scan(&r.ID, &r.UserID, &r.KeepSession, &recorded)
		r.RecordedAt = time.Unix(recorded, 0).UTC()
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read pending revocations: %w", err)
	}
	return pending, nil
}

// ceilUnix rounds up, so that "<" in whole seconds is "before" exactly.
func ceilUnix(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// RevocationDone implements account.Users.
func (s *Store) RevocationDone(ctx context.Context, id int64) error {
	return s.tx(ctx, timeout, "delete revocation", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, s.db.Rebind(`DELETE FROM pending_revocations WHERE id = ?`), id)
		return err
	})
}

// Import implements people.Users. It adds users with an id first, so that the ids of the
// others are not among theirs.
func (s *Store) Import(ctx context.Context, users []user.User) ([]user.Revocation, error) {
	users = slices.SortedStableFunc(slices.Values(users), func(a, b user.User) int { return cmp.Compare(b.ID, a.ID) })
	var revocations []user.Revocation
	err := s.tx(ctx, importTimeout, "import users", func(ctx context.Context, tx *sql.Tx) error {
		revocations = nil // a transaction may run again
		if err := s.blockInserts(ctx, tx); err != nil {
			return err
		}
		for _, u := range users {
			if err := s.importOne(ctx, tx, u); err != nil {
				return fmt.Errorf("%s: %w", u.Username, err)
			}
			if u.ID == 0 {
				continue
			}
			r := user.Revocation{UserID: u.ID}
			if err := s.recordRevocation(ctx, tx, &r); err != nil {
				return err
			}
			revocations = append(revocations, r)
		}
		return nil
	})
	return revocations, err
}

func (s *Store) importOne(ctx context.Context, tx *sql.Tx, u user.User) error {
	if u.ID != 0 {
		var taken bool
		err := tx.QueryRowContext(ctx, s.db.Rebind(`SELECT EXISTS (SELECT 1 FROM users WHERE id = ?)`), u.ID).Scan(&taken)
		if err == nil && taken {
			err = user.ErrIDTaken
		}
		if err == nil {
			err = s.moveIDs(ctx, tx, u.ID)
		}
		if err != nil {
			return err
		}
	}
	added, err := s.insert(ctx, tx, u)
	if err != nil {
		return err
	}
	return s.record(ctx, tx, about("user_imported", added, map[string]any{"role": u.Role}))
}

// moveIDs makes later ids higher than id, which SQLite's AUTOINCREMENT does by itself.
// A roll-back leaves the sequence of Postgres moved, which skips some ids.
func (s *Store) moveIDs(ctx context.Context, tx *sql.Tx, id int64) error {
	if s.db.Dialect != sqldb.Postgres {
		return nil
	}
	_, err := tx.ExecContext(ctx, `SELECT setval(ids, greatest($1, coalesce(pg_sequence_last_value(ids), 1)))
		FROM (SELECT pg_get_serial_sequence('users', 'id')::regclass AS ids) AS sequence`, id)
	return err
}
