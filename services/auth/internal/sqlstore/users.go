package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Users keeps users, the revocations of their sessions, and the settings of the household.
type Users struct {
	db   *database
	byID *sqldb.Kept[int64, user.User] // for ByID
}

// Create implements people.Users.
func (s *Users) Create(ctx context.Context, n user.New, by session.Session) (user.User, error) {
	return s.create(ctx, "create user", n, func(ctx context.Context, tx *transaction) error {
		return tx.sessionMayAct(ctx, by)
	})
}

// CreateFirst implements people.Users.
func (s *Users) CreateFirst(ctx context.Context, n user.New) (user.User, error) {
	return s.create(ctx, "create first user", n, func(ctx context.Context, tx *transaction) error {
		return tx.isEmpty(ctx)
	})
}

// create adds a user unless check returns an error.
func (s *Users) create(
	ctx context.Context, what string, n user.New, check func(context.Context, *transaction) error,
) (user.User, error) {
	var created user.User
	err := s.db.write(ctx, timeout, what, func(ctx context.Context, tx *transaction) (err error) {
		if err := check(ctx, tx); err != nil {
			return err
		}
		if created, err = tx.insert(ctx, user.User{New: n}); err != nil {
			return err
		}
		return tx.record(ctx, about("user_created", created, map[string]any{"role": n.Role}))
	})
	return created, err
}

// mayAct returns user.ErrNotAdmin unless by is user.Operator or an admin who is not disabled. It locks the admin's row,
// so that a concurrent deletion, demotion or disabling waits for the transaction.
func (tx *transaction) mayAct(ctx context.Context, by int64) error {
	if by == user.Operator {
		return nil
	}
	query := `SELECT role FROM users WHERE id = ? AND disabled_at IS NULL`
	if tx.db.Dialect == sqldb.Postgres {
		query += ` FOR SHARE`
	}
	var role string
	err := tx.row(ctx, query, by).Scan(&role)
	if errors.Is(err, sql.ErrNoRows) || err == nil && role != string(user.Admin) {
		return user.ErrNotAdmin
	}
	return err
}

// sessionMayAct is mayAct for the admin of a session, or user.Operator for the zero Session. session.ErrNotFound: the
// session has been revoked. A revocation under way came before the lock of mayAct, or waits for the transaction.
func (tx *transaction) sessionMayAct(ctx context.Context, by session.Session) error {
	if err := tx.mayAct(ctx, by.UserID); err != nil {
		return err
	}
	return tx.holds(ctx, by)
}

// holds returns session.ErrNotFound for a session that has been revoked, or whose user's account is closed. The caller
// has locked the user's row. user.Operator needs no session.
func (tx *transaction) holds(ctx context.Context, by session.Session) error {
	if by.UserID == user.Operator {
		return nil
	}
	_, err := tx.userOf(ctx, by)
	return err
}

// isEmpty returns user.ErrNotEmpty when there is a user. Until the transaction ends no other one adds a user.
func (tx *transaction) isEmpty(ctx context.Context) error {
	if err := tx.lock(ctx, "users"); err != nil {
		return err
	}
	return refuse(ctx, tx, user.ErrNotEmpty, anyUser)
}

const anyUser = `SELECT EXISTS (SELECT 1 FROM users)`

// insert adds u, under its ID unless that is 0, and returns it as stored. user.ErrUsernameTaken where the name is, or
// was, that of a user who exists.
func (tx *transaction) insert(ctx context.Context, u user.User) (user.User, error) {
	if u.CreatedAt.IsZero() {
		u.CreatedAt = tx.db.now()
	}
	u.CreatedAt, u.SessionStamp = u.CreatedAt.UTC().Truncate(time.Second), user.NewSessionStamp()
	names := `username, display_name, password_hash, avatar_color, role, created_at, session_stamp`
	args := []any{
		u.Username, u.DisplayName, u.PasswordHash, u.AvatarColor, string(u.Role), u.CreatedAt.Unix(), u.SessionStamp,
	}
	if !u.EndsAt.IsZero() {
		names, args = names+`, ends_at`, append(args, u.EndsAt.Unix())
	}
	if u.ID != 0 {
		names, args = names+`, id`, append(args, u.ID)
	}
	query := `INSERT INTO users (` + names + `) VALUES (?` + strings.Repeat(`, ?`, len(args)-1) + `) RETURNING id`
	err := tx.row(ctx, query, args...).Scan(&u.ID)
	if sqldb.IsUnique(err) {
		return user.User{}, user.ErrUsernameTaken
	}
	if err != nil {
		return user.User{}, err
	}
	// After the insert, which waits for a transaction in which the name becomes another user's former one.
	if err := tx.checkTheirs(ctx, u.Username); err != nil {
		return user.User{}, err
	}
	return u, nil
}

// checkTheirs returns user.ErrUsernameTaken for a former name of a user who still exists. No other user may have it.
func (tx *transaction) checkTheirs(ctx context.Context, username string) error {
	return refuse(ctx, tx, user.ErrUsernameTaken,
		`SELECT EXISTS (SELECT 1 FROM former_usernames WHERE username = ? AND user_id IS NOT NULL)`,
		asciiLower(username))
}

const columns = `id, username, display_name, password_hash, avatar_color, role, created_at, session_stamp, ` +
	`kept_session, ` + hasSecondFactor + `, disabled_at, ends_at, picture`

const (
	selectUser = `SELECT ` + columns + ` FROM users WHERE `
	byID       = `id = ?`
)

// ByID implements account.Users.
func (s *Users) ByID(ctx context.Context, id int64) (user.User, error) { return s.byID.Get(ctx, id) }

// Since implements account.Users.
func (s *Users) Since(ctx context.Context) context.Context { return s.db.Since(ctx) }

// userReader returns the function that reads a user by id. user.ErrNotFound.
func (d *database) userReader() func(context.Context, int64) (user.User, error) {
	query := d.Query(selectUser + byID)
	return func(ctx context.Context, id int64) (user.User, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ctx, span := tracing.Call(ctx, "sql", "read user")
		defer span.End("")
		return scan(query.Row(ctx, id))
	}
}

// ByUsername implements account.Users.
func (s *Users) ByUsername(ctx context.Context, username string) (user.User, error) {
	if !isText(username) {
		return user.User{}, user.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// lower() uses the index, the second condition compares the case
	return readUser(ctx, s.db, `lower(username) = ? AND username = ?`, asciiLower(username), username)
}

// isText reports whether s is UTF-8 without NUL. Postgres returns an error for other strings, even where it only
// compares them.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// asciiLower returns s with its ASCII letters in lower case, as the indexes on lower(username) and lower(email) do;
// stored names and addresses are ASCII.
func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// List implements account.Users.
func (s *Users) List(ctx context.Context) ([]user.User, error) {
	return list(ctx, s.db, "list users", scan, `SELECT `+columns+` FROM users ORDER BY id`)
}

func (tx *transaction) user(ctx context.Context, id int64) (user.User, error) {
	return readUser(ctx, tx, byID, id)
}

// readUser returns the user that the condition where selects. user.ErrNotFound.
func readUser(ctx context.Context, q querier, where string, args ...any) (user.User, error) {
	ctx, span := tracing.Call(ctx, "sql", "read user")
	defer span.End("")
	return scan(q.row(ctx, selectUser+where, args...))
}

func scan(row sqldb.Scanner) (user.User, error) {
	var u user.User
	err := row.Scan(&u.ID, &u.Username, &u.DisplayName, &u.PasswordHash, &u.AvatarColor, &u.Role,
		(*instant)(&u.CreatedAt), &u.SessionStamp, &u.KeptSession, &u.SecondFactor, (*instant)(&u.DisabledAt),
		(*instant)(&u.EndsAt), &u.Picture)
	u.PasswordHash = unmarked(u.PasswordHash)
	return u, found(err, "read user", user.ErrNotFound)
}

// SetPasswordHash implements account.Users.
func (s *Users) SetPasswordHash(
	ctx context.Context, of session.Session, oldHash, newHash string,
) (user.Revocation, error) {
	id, r := of.UserID, user.Revocation{UserID: of.UserID, KeepSession: of.Key}
	return s.db.change(ctx, "set password", r, func(ctx context.Context, tx *transaction) error {
		if _, err := tx.lockUserOf(ctx, of); err != nil {
			return err
		}
		if err := tx.swapHash(ctx, id, oldHash, newHash); err != nil {
			return err
		}
		if err := tx.newStamp(ctx, id, of.Key); err != nil {
			return err
		}
		if err := tx.closeResets(ctx, id); err != nil {
			return err
		}
		return tx.recordAbout(ctx, "password_changed", id, nil)
	})
}

// Rehash implements account.Users.
func (s *Users) Rehash(ctx context.Context, id int64, oldHash, newHash string) error {
	return s.db.write(ctx, timeout, "rehash password", func(ctx context.Context, tx *transaction) error {
		return tx.swapHash(ctx, id, oldHash, newHash)
	})
}

// swapHash replaces the password hash of a user if it is oldHash. user.ErrChanged if it is another, user.ErrNotFound. A
// second writer waits for the first one's commit and then finds another hash.
func (tx *transaction) swapHash(ctx context.Context, id int64, oldHash, newHash string) error {
	if _, err := tx.lockUser(ctx, id); err != nil {
		return err
	}
	args := append(markedHash(newHash), id, oldHash, secondFactorMark+oldHash)
	return tx.updateOr(ctx, user.ErrChanged,
		`UPDATE users SET password_hash = `+hashSQL+` WHERE id = ? AND password_hash IN (?, ?)`, args...)
}

// ResetPassword implements account.Users.
func (s *Users) ResetPassword(ctx context.Context, id int64, newHash string) (user.Revocation, error) {
	r := user.Revocation{UserID: id}
	return s.db.change(ctx, "reset password", r, func(ctx context.Context, tx *transaction) error {
		if err := tx.replaceHash(ctx, id, newHash); err != nil {
			return err
		}
		return tx.recordAbout(ctx, "password_reset", id, nil)
	})
}

// replaceHash sets the password hash, ends all sessions, and calls closeResets. user.ErrNotFound.
func (tx *transaction) replaceHash(ctx context.Context, id int64, newHash string) error {
	if _, err := tx.lockUser(ctx, id); err != nil {
		return err
	}
	if err := tx.update(ctx, `UPDATE users SET password_hash = `+hashSQL+` WHERE id = ?`,
		append(markedHash(newHash), id)...); err != nil {
		return err
	}
	if err := tx.newStamp(ctx, id, ""); err != nil {
		return err
	}
	return tx.closeResets(ctx, id)
}

// EndSessions implements account.Users.
func (s *Users) EndSessions(ctx context.Context, id int64, by session.Session) (user.Revocation, error) {
	r := user.Revocation{UserID: id}
	return s.db.change(ctx, "end sessions", r, func(ctx context.Context, tx *transaction) error {
		if err := tx.sessionMayAct(ctx, by); err != nil {
			return err
		}
		if err := tx.newStamp(ctx, id, ""); err != nil {
			return err
		}
		return tx.recordAbout(ctx, "sessions_ended", id, nil)
	})
}

// EndOthers implements account.Users.
func (s *Users) EndOthers(ctx context.Context, of session.Session) (user.Revocation, error) {
	r := user.Revocation{UserID: of.UserID, KeepSession: of.Key}
	return s.db.change(ctx, "end other sessions", r, func(ctx context.Context, tx *transaction) error {
		if _, err := tx.lockUserOf(ctx, of); err != nil {
			return err
		}
		if err := tx.newStamp(ctx, of.UserID, of.Key); err != nil {
			return err
		}
		return tx.recordAbout(ctx, "sessions_ended", of.UserID, map[string]any{"others": true})
	})
}

// newStamp sets a new session stamp, which ends all sessions but keepSession, if that is not empty. It ends all of the
// user's logins at applications too, and makes the unused links void that the user created: the sessions that end may
// have been another person's.
func (tx *transaction) newStamp(ctx context.Context, id int64, keepSession string) error {
	err := tx.update(ctx, `UPDATE users SET session_stamp = ?, kept_session = ? WHERE id = ?`, user.NewSessionStamp(),
		keepSession, id)
	if err != nil {
		return err
	}
	if _, err := tx.endGrants(ctx, oidc.EndedByStamp, `user_id = ?`, id); err != nil {
		return err
	}
	return tx.voidLinks(ctx, `created_by = ?`, id)
}

// SetRole implements people.Users.
func (s *Users) SetRole(ctx context.Context, id int64, role user.Role) error {
	return s.db.write(ctx, timeout, "set role", func(ctx context.Context, tx *transaction) error {
		if role != user.Admin {
			if err := tx.keepAnAdmin(ctx, id, user.Operator); err != nil {
				return err
			}
			return tx.setRole(ctx, id, role)
		}
		u, err := tx.lockUser(ctx, id)
		if err != nil {
			return err
		}
		if !u.EndsAt.IsZero() {
			return user.ErrGuestAdmin
		}
		return tx.setRole(ctx, id, role)
	})
}

func (tx *transaction) setRole(ctx context.Context, id int64, role user.Role) error {
	if err := tx.update(ctx, `UPDATE users SET role = ? WHERE id = ?`, string(role), id); err != nil {
		return err
	}
	if role != user.Admin {
		if err := tx.voidLinks(ctx, `created_by = ?`, id); err != nil {
			return err
		}
	}
	if err := tx.endUnadmitted(ctx); err != nil {
		return err
	}
	if err := tx.recordRole(ctx, id); err != nil {
		return err
	}
	return tx.recordAbout(ctx, "role_changed", id, map[string]any{"role": role})
}

// recordRole records that a role has changed, for the last release without pages: that one takes roles from sessions,
// and reads these records every few seconds, and at its start after a roll-back. This release takes the role from the
// user's row and reads no such records. A user has at most one.
func (tx *transaction) recordRole(ctx context.Context, id int64) error {
	if err := tx.exec(ctx, `DELETE FROM pending_revocations WHERE kind = 'role' AND user_id = ?`, id); err != nil {
		return err
	}
	return tx.exec(ctx, `INSERT INTO pending_revocations (user_id, kind, keep_session, recorded_at) VALUES (?, `+
		`'role', '', ?)`, id, tx.db.now().Unix())
}

// Delete implements people.Users.
func (s *Users) Delete(ctx context.Context, id int64, by session.Session) (user.Revocation, error) {
	r := user.Revocation{UserID: id}
	return s.db.change(ctx, "delete user", r, func(ctx context.Context, tx *transaction) error {
		admin := by.UserID
		if admin == id { // who goes needs no role
			admin = user.Operator
		}
		if err := tx.keepAnAdmin(ctx, id, admin); err != nil {
			return err
		}
		// A grant under way is created before this, and ends below, or finds no user.
		if _, err := tx.lockUser(ctx, id); err != nil {
			return err
		}
		if err := tx.holds(ctx, by); err != nil {
			return err
		}
		if err := tx.recordAbout(ctx, "user_deleted", id, nil); err != nil {
			return err
		}
		if err := tx.voidLinks(ctx, `created_by = ?`, id); err != nil { // an import may give the id again
			return err
		}
		if err := s.keepName(ctx, tx, id); err != nil {
			return err
		}
		if err := tx.exec(ctx, `UPDATE former_usernames SET user_id = NULL WHERE user_id = ?`, id); err != nil {
			return err
		}
		if _, err := tx.endGrants(ctx, oidc.EndedByStamp, `user_id = ?`, id); err != nil { // for the logouts
			return err
		}
		return tx.update(ctx, `DELETE FROM users WHERE id = ?`, id)
	})
}

// keepName makes the name of a user a former one of theirs, and makes unused invites for that name void.
func (s *Users) keepName(ctx context.Context, tx *transaction, id int64) error {
	err := tx.exec(ctx, `INSERT INTO former_usernames (username, user_id) SELECT lower(username), id FROM users
		WHERE id = ? ON CONFLICT (username) DO UPDATE SET user_id = excluded.user_id`, id)
	if err != nil {
		return err
	}
	return tx.voidLinks(ctx, `kind = 'invite' AND lower(username) = (SELECT lower(username) FROM users WHERE `+
		`users.id = ?)`, id)
}

// CheckFormer implements people.Users.
func (s *Users) CheckFormer(ctx context.Context, username string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return checkFormer(ctx, s.db, username)
}

// CheckTaken implements people.Users.
func (s *Users) CheckTaken(ctx context.Context, username string) error {
	if !isText(username) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return checkTaken(ctx, s.db, username)
}

// checkTaken returns user.ErrUsernameTaken for the name of a user, in whatever case.
func checkTaken(ctx context.Context, q querier, username string) error {
	return refuse(ctx, q, user.ErrUsernameTaken, `SELECT EXISTS (SELECT 1 FROM users WHERE lower(username) = ?)`,
		asciiLower(username))
}

// checkFormer returns user.ErrUsernameFormer for a former name of a user, of one who was deleted too.
func checkFormer(ctx context.Context, q querier, username string) error {
	if !isText(username) {
		return nil
	}
	return refuse(ctx, q, user.ErrUsernameFormer, `SELECT EXISTS (SELECT 1 FROM former_usernames WHERE username = ?)`,
		asciiLower(username))
}

// keepAnAdmin returns user.ErrNotAdmin unless by is user.Operator or an admin whose account is open, and
// user.ErrLastAdmin when id is the only such admin. It locks these admins until the transaction ends, so that two who
// act on each other do so one after the other.
func (tx *transaction) keepAnAdmin(ctx context.Context, id, by int64) error {
	query := `SELECT id FROM users WHERE role = 'admin' AND disabled_at IS NULL AND ends_at IS NULL ORDER BY id`
	if tx.db.Dialect == sqldb.Postgres {
		query += ` FOR UPDATE`
	}
	admins, err := all(ctx, tx, scanOne[int64], query)
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

// recordRevocation stores a revocation in the transaction of its cause, and sets r's ID and RecordedAt.
func (tx *transaction) recordRevocation(ctx context.Context, r *user.Revocation) error {
	r.RecordedAt = tx.db.now().UTC().Truncate(time.Second)
	return tx.row(ctx, `INSERT INTO pending_revocations (user_id, kind, keep_session, recorded_at)
		VALUES (?, 'sessions', ?, ?) RETURNING id`, r.UserID, r.KeepSession, r.RecordedAt.Unix()).Scan(&r.ID)
}

// PendingRevocations implements account.Users. It leaves out changes of role, which sessions need not follow.
func (s *Users) PendingRevocations(ctx context.Context, before time.Time, after int64) ([]user.Revocation, error) {
	return list(ctx, s.db, "read pending revocations", scanRevocation, `SELECT id, user_id, keep_session, recorded_at
		FROM pending_revocations WHERE kind = 'sessions' AND recorded_at < ? AND id > ? ORDER BY id LIMIT ?`,
		ceilUnix(before), after, user.MaxPending)
}

func scanRevocation(row sqldb.Scanner) (user.Revocation, error) {
	var r user.Revocation
	err := row.Scan(&r.ID, &r.UserID, &r.KeepSession, (*instant)(&r.RecordedAt))
	return r, err
}

// ceilUnix returns t in Unix seconds, rounded up: whole seconds are less than it exactly if they are before t.
func ceilUnix(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// RevocationDone implements account.Users.
func (s *Users) RevocationDone(ctx context.Context, id int64) error {
	return s.db.exec(ctx, "delete revocation", `DELETE FROM pending_revocations WHERE id = ?`, id)
}

// Import implements people.Users. It adds users with an id first, so that the ids of the
// others are not among theirs.
func (s *Users) Import(ctx context.Context, users []user.User) ([]user.Revocation, error) {
	users = slices.SortedStableFunc(slices.Values(users), func(a, b user.User) int { return cmp.Compare(b.ID, a.ID) })
	var revocations []user.Revocation
	err := s.db.write(ctx, importTimeout, "import users", func(ctx context.Context, tx *transaction) error {
		revocations = nil // a transaction may run again
		if err := tx.lock(ctx, "users"); err != nil {
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
			if err := tx.recordRevocation(ctx, &r); err != nil {
				return err
			}
			revocations = append(revocations, r)
		}
		return nil
	})
	return revocations, err
}

func (s *Users) importOne(ctx context.Context, tx *transaction, u user.User) error {
	if u.ID != 0 {
		err := refuse(ctx, tx, user.ErrIDTaken, `SELECT EXISTS (SELECT 1 FROM users WHERE id = ?)`, u.ID)
		if err == nil {
			err = s.moveIDs(ctx, tx, u.ID)
		}
		if err != nil {
			return err
		}
	}
	added, err := tx.insert(ctx, u)
	if err != nil {
		return err
	}
	return tx.record(ctx, about("user_imported", added, map[string]any{"role": u.Role}))
}

// moveIDs makes later ids higher than id, which SQLite's AUTOINCREMENT does by itself.
// A roll-back leaves the sequence of Postgres moved, which skips some ids.
func (s *Users) moveIDs(ctx context.Context, tx *transaction, id int64) error {
	if s.db.Dialect != sqldb.Postgres {
		return nil
	}
	return tx.exec(ctx, `SELECT setval(ids, greatest($1, coalesce(pg_sequence_last_value(ids), 1)))
		FROM (SELECT pg_get_serial_sequence('users', 'id')::regclass AS ids) AS sequence`, id)
}
