package sqlstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Passkeys keeps passkeys and user handles.
type Passkeys struct{ db *database }

// PasskeyHandle implements factor.PasskeyStore.
func (s *Passkeys) PasskeyHandle(ctx context.Context, userID int64) (handle []byte, err error) {
	made := make([]byte, factor.HandleBytes)
	_, _ = rand.Read(made)
	err = s.db.write(ctx, timeout, "read user handle", func(ctx context.Context, tx *transaction) error {
		err := tx.row(ctx, `INSERT INTO user_factors (user_id, handle) SELECT id, ? FROM users WHERE id = ?
			ON CONFLICT (user_id) DO UPDATE SET handle = coalesce(user_factors.handle, excluded.handle)
			RETURNING handle`, made, userID).Scan(&handle)
		return orNone(err, user.ErrNotFound)
	})
	return handle, err
}

// HandleOwner implements factor.PasskeyStore.
func (s *Passkeys) HandleOwner(ctx context.Context, handle []byte) (int64, error) {
	userID, err := read[int64](ctx, s.db, "find user handle", `SELECT user_id FROM user_factors WHERE handle = ?`,
		handle)
	return userID, orNone(err, factor.ErrNoPasskey)
}

//nolint:gosec // names of columns
const passkeyColumns = `id, user_id, credential_id, rp_id, name, record, sign_count, created_at, last_used_at`

func scanPasskey(row sqldb.Scanner) (factor.Passkey, error) {
	var p factor.Passkey
	err := row.Scan(&p.ID, &p.UserID, &p.CredentialID, &p.RPID, &p.Name, &p.Record, &p.SignCount,
		(*instant)(&p.CreatedAt), (*instant)(&p.LastUsedAt))
	return p, found(err, "read passkey", factor.ErrNoPasskey)
}

// Passkeys implements factor.PasskeyStore.
func (s *Passkeys) Passkeys(ctx context.Context, userID int64) ([]factor.Passkey, error) {
	return list(ctx, s.db, "list passkeys", scanPasskey, `SELECT `+passkeyColumns+` FROM passkeys WHERE user_id = ? `+
		`ORDER BY id`, userID)
}

// AddPasskey implements factor.PasskeyStore.
func (s *Passkeys) AddPasskey(
	ctx context.Context, userID int64, name string, c factor.Credential, stamp, sessionKey string,
) (added factor.Passkey, err error) {
	err = s.db.write(ctx, timeout, "add passkey", func(ctx context.Context, tx *transaction) error {
		of := session.Session{Ref: session.Ref{UserID: userID, Key: sessionKey}, Stamp: stamp}
		u, err := tx.lockUserOf(ctx, of)
		if err != nil {
			return err
		}
		err = refuse(ctx, tx, factor.ErrTooManyPasskeys, `SELECT count(*) >= ? FROM passkeys WHERE user_id = ?`,
			factor.MaxPasskeys, userID)
		if err != nil {
			return err
		}
		added, err = scanPasskey(tx.row(ctx, `INSERT INTO passkeys (user_id, credential_id, rp_id, name, record,
			sign_count, created_at)
			VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING `+passkeyColumns,
			userID, c.CredentialID, c.RPID, name, c.Record, c.SignCount, s.db.now().Unix()))
		if sqldb.IsUnique(err) {
			return factor.ErrPasskeyExists
		}
		if err != nil {
			return err
		}
		return tx.record(ctx, about("passkey_added", u, map[string]any{"passkey": name}))
	})
	return added, err
}

// addFirst stores the passkey that a new user has registered, and its user handle. factor.ErrPasskeyExists.
func (tx *transaction) addFirst(ctx context.Context, id int64, key factor.FirstPasskey) error {
	err := tx.exec(ctx, `INSERT INTO user_factors (user_id, handle) VALUES (?, ?)
		ON CONFLICT (user_id) DO UPDATE SET handle = excluded.handle`, id, key.Handle)
	if err != nil {
		return err
	}
	err = tx.exec(ctx, `INSERT INTO passkeys (user_id, credential_id, rp_id, name, record, sign_count, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)`, id, key.CredentialID, key.RPID, key.Name, key.Record, key.SignCount,
		tx.db.now().Unix())
	if sqldb.IsUnique(err) {
		return factor.ErrPasskeyExists
	}
	return err
}

// lockUser returns a user, and keeps other transactions from changing or locking the user's row until this one ends. On
// Postgres it locks and reads in two statements: one that waits for a lock sees the other tables as they were before
// its wait. user.ErrNotFound.
func (tx *transaction) lockUser(ctx context.Context, id int64) (user.User, error) {
	if err := tx.lockRow(ctx, id, "UPDATE"); err != nil {
		return user.User{}, err
	}
	return tx.user(ctx, id)
}

// lockRow locks the row of a user, if there is one, until the transaction ends. strength is what follows FOR in
// Postgres' SELECT. SQLite, with its one writer, needs no lock.
func (tx *transaction) lockRow(ctx context.Context, id int64, strength string) error {
	if tx.db.Dialect != sqldb.Postgres {
		return nil
	}
	if err := tx.exec(ctx, `SELECT 1 FROM users WHERE id = ? FOR `+strength, id); err != nil {
		return fmt.Errorf("lock user: %w", err)
	}
	return nil
}

// lockUserOf is lockUser for the user of a session. session.ErrNotFound: the session has been revoked, or the account
// is closed.
func (tx *transaction) lockUserOf(ctx context.Context, of session.Session) (user.User, error) {
	if err := tx.lockRow(ctx, of.UserID, "UPDATE"); err != nil {
		return user.User{}, err
	}
	return tx.userOf(ctx, of)
}

// userOf is lockUserOf for a user whose row is locked.
func (tx *transaction) userOf(ctx context.Context, of session.Session) (user.User, error) {
	u, err := tx.user(ctx, of.UserID)
	if err == nil && !u.Admits(of.Stamp, of.Key, tx.db.now()) {
		err = session.ErrNotFound
	}
	return u, err
}

// UsePasskey implements factor.PasskeyStore. A counter that did not advance, unless both are 0, changes nothing but
// the audit; a flag "backup eligible" that changed is in the audit too.
func (s *Passkeys) UsePasskey(ctx context.Context, a factor.Assertion) error {
	var cloned bool
	p := a.Passkey
	err := s.db.write(ctx, timeout, "use passkey", func(ctx context.Context, tx *transaction) error {
		cloned = false
		err := tx.update(ctx, `UPDATE passkeys SET record = ?, sign_count = ?, last_used_at = ?
			WHERE id = ? AND user_id = ? AND (sign_count < ? OR (sign_count = 0 AND sign_count = ?))`,
			p.Record, p.SignCount, s.db.now().Unix(), p.ID, p.UserID, p.SignCount, p.SignCount)
		switch {
		case err == nil && a.FlagsChanged:
			return tx.recordAbout(ctx, "passkey_flags_changed", p.UserID, map[string]any{"passkey": p.Name})
		case !errors.Is(err, user.ErrNotFound):
			return err
		}
		if _, err := s.passkey(ctx, tx, p.UserID, p.ID); err != nil {
			return err
		}
		cloned = true
		return tx.recordAbout(ctx, "passkey_clone", p.UserID, map[string]any{"passkey": p.Name})
	})
	if err == nil && cloned {
		return factor.ErrPasskeyCloned
	}
	return err
}

// passkey returns a passkey of a user. factor.ErrNoPasskey.
func (s *Passkeys) passkey(ctx context.Context, tx *transaction, userID, id int64) (factor.Passkey, error) {
	return scanPasskey(tx.row(ctx, `SELECT `+passkeyColumns+` FROM passkeys WHERE id = ? AND user_id = ?`, id, userID))
}

// RenamePasskey implements factor.PasskeyStore.
func (s *Passkeys) RenamePasskey(
	ctx context.Context, userID, id int64, name string,
) (renamed factor.Passkey, err error) {
	err = s.db.write(ctx, timeout, "rename passkey", func(ctx context.Context, tx *transaction) error {
		var err error
		renamed, err = scanPasskey(tx.row(ctx, `UPDATE passkeys SET name = ? WHERE id = ? AND user_id = ? RETURNING `+
			passkeyColumns, name, id, userID))
		if err != nil {
			return err
		}
		return tx.recordAbout(ctx, "passkey_renamed", userID, map[string]any{"passkey": name})
	})
	return renamed, err
}

// RemovePasskey implements factor.PasskeyStore.
func (s *Passkeys) RemovePasskey(ctx context.Context, userID, id int64, rpID, stamp, sessionKey string) error {
	return s.db.write(ctx, timeout, "remove passkey", func(ctx context.Context, tx *transaction) error {
		of := session.Session{Ref: session.Ref{UserID: userID, Key: sessionKey}, Stamp: stamp}
		u, err := tx.lockUserOf(ctx, of)
		if err != nil {
			return err
		}
		removed, err := s.passkey(ctx, tx, userID, id)
		if err != nil {
			return err
		}
		if !u.HasPassword() {
			err := refuse(ctx, tx, factor.ErrLastPasskey, `SELECT NOT EXISTS (SELECT 1 FROM passkeys
				WHERE user_id = ? AND id <> ? AND rp_id = ?)`, userID, id, removed.RPID)
			if err != nil {
				return err
			}
		}
		if err := tx.update(ctx, `DELETE FROM passkeys WHERE id = ?`, id); err != nil {
			return err
		}
		if err := tx.record(ctx, about("passkey_removed", u, map[string]any{"passkey": removed.Name})); err != nil {
			return err
		}
		return s.withoutFactor(ctx, tx, u, removed.RPID, rpID)
	})
}

// withoutFactor turns the second factor of a user off when they have neither TOTP nor a passkey, once one of the RP ID
// removed is gone. Where that is here, this server's, passkeys of other RP IDs do not count, as they do not work here.
// factor.ErrRequired where the household requires a second factor.
func (s *Passkeys) withoutFactor(ctx context.Context, tx *transaction, u user.User, removed, here string) error {
	state, err := factorsOf(ctx, tx, u.ID)
	if err != nil || !state.Enabled || state.Confirmed {
		return err
	}
	var left int
	err = tx.row(ctx, `SELECT count(*) FROM passkeys WHERE user_id = ? AND (rp_id = ? OR ?)`, u.ID, here,
		removed != here).Scan(&left)
	if err != nil || left > 0 {
		return err
	}
	return tx.disable(ctx, u)
}

// ForeignPasskeys implements factor.PasskeyStore.
func (s *Passkeys) ForeignPasskeys(ctx context.Context, rpID string) (map[string]int, error) {
	type count struct {
		id string
		n  int
	}
	counts, err := list(ctx, s.db, "count passkeys", func(row sqldb.Scanner) (c count, err error) {
		err = row.Scan(&c.id, &c.n)
		return c, err
	}, `SELECT rp_id, count(*) FROM passkeys WHERE rp_id <> ? GROUP BY rp_id ORDER BY rp_id LIMIT 20`, rpID)
	if err != nil {
		return nil, err
	}
	foreign := map[string]int{}
	for _, c := range counts {
		foreign[c.id] = c.n
	}
	return foreign, nil
}
