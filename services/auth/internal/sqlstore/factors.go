package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// secondFactorMark begins the stored password hash of users with a second factor, so that
// a version without second factors, which may run beside this one, does not recognize the
// hash and refuses the password. Whether there is a second factor is in user_factors.
const secondFactorMark = "2f:"

// hashSQL is the value of password_hash for a new hash, of a user whose row is locked
// (lockUser). Its arguments are markedHash's.
const hashSQL = `CASE WHEN substr(password_hash, 1, 3) = '2f:' OR ` + hasSecondFactor + ` THEN ? ELSE ? END`

// hasSecondFactor is true for a row of users with a second factor.
const hasSecondFactor = `EXISTS (SELECT 1 FROM user_factors WHERE user_factors.user_id = users.id AND user_factors.enabled_at IS NOT NULL)`

func markedHash(hash string) []any { return []any{secondFactorMark + hash, hash} }

func unmarked(hash string) string { return strings.TrimPrefix(hash, secondFactorMark) }

// Factors implements account.Factors.
func (s *Store) Factors(ctx context.Context, id int64) (factor.State, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.factors(ctx, s.db.Reader, id)
}

func (s *Store) factors(ctx context.Context, q querier, id int64) (factor.State, error) {
	var state factor.State
	err := q.QueryRowContext(ctx, s.db.Rebind(`SELECT f.enabled_at IS NOT NULL, f.totp_sealed, f.totp_confirmed_at IS NOT NULL, coalesce(f.totp_last_step, 0),
		(SELECT count(*) FROM recovery_codes WHERE recovery_codes.user_id = users.id AND used_at IS NULL),
		(SELECT count(*) FROM passkeys WHERE passkeys.user_id = users.id)
		FROM users LEFT JOIN user_factors AS f ON f.user_id = users.id WHERE users.id = ?`), id).
		Scan(&state.Enabled, &state.Sealed, &state.Confirmed, &state.LastStep, &state.Recovery, &state.Passkeys)
	if errors.Is(err, sql.ErrNoRows) {
		return factor.State{}, user.ErrNotFound
	}
	if err != nil {
		return factor.State{}, fmt.Errorf("read second factors: %w", err)
	}
	return state, nil
}

// SetupTOTP implements account.Factors.
func (s *Store) SetupTOTP(ctx context.Context, id int64, sealed []byte) error {
	return s.tx(ctx, timeout, "set up TOTP", func(ctx context.Context, tx *sql.Tx) error {
		if _, err := s.lockUser(ctx, tx, id); err != nil {
			return err
		}
		err := s.update(ctx, tx, `INSERT INTO user_factors (user_id, totp_sealed) VALUES (?, ?)
			ON CONFLICT (user_id) DO UPDATE SET totp_sealed = excluded.totp_sealed, totp_last_step = 0 WHERE user_factors.totp_confirmed_at IS NULL`, id, sealed)
		if errors.Is(err, user.ErrNotFound) {
			return factor.ErrAlreadyEnabled
		}
		return err
	})
}

// EnableTOTP implements account.Factors.
func (s *Store) EnableTOTP(ctx context.Context, id int64, pending, sealed []byte, step int64, recovery []string, keepSession string) (user.Revocation, error) {
	r := user.Revocation{UserID: id, KeepSession: keepSession}
	return s.change(ctx, "enable TOTP", r, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := s.lockUser(ctx, tx, id); err != nil {
			return err
		}
		now := s.now().Unix()
		err := s.update(ctx, tx, `UPDATE user_factors SET totp_sealed = ?, totp_confirmed_at = ?, enabled_at = coalesce(enabled_at, ?), totp_last_step = ?
			WHERE user_id = ? AND totp_sealed = ? AND totp_confirmed_at IS NULL AND totp_last_step < ?`, sealed, now, now, step, id, pending, step)
		if errors.Is(err, user.ErrNotFound) {
			return s.whyNotEnabled(ctx, tx, id)
		}
		if err != nil {
			return err
		}
		return s.enabled(ctx, tx, id, recovery, keepSession, "totp")
	})
}

// whyNotEnabled returns why no row was waiting for its confirmation.
func (s *Store) whyNotEnabled(ctx context.Context, tx *sql.Tx, id int64) error {
	state, err := s.factors(ctx, tx, id)
	switch {
	case err != nil:
		return err
	case state.Confirmed:
		return factor.ErrAlreadyEnabled
	default:
		return factor.ErrNoPendingSetup
	}
}

// EnableByPasskey implements account.Factors.
func (s *Store) EnableByPasskey(ctx context.Context, id int64, recovery []string, keepSession string) (user.Revocation, error) {
	r := user.Revocation{UserID: id, KeepSession: keepSession}
	return s.change(ctx, "enable second factor", r, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := s.lockUser(ctx, tx, id); err != nil {
			return err
		}
		state, err := s.factors(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case state.Enabled:
			return factor.ErrAlreadyEnabled
		case state.Passkeys == 0:
			return factor.ErrNoPasskey
		}
		err = s.update(ctx, tx, `INSERT INTO user_factors (user_id, enabled_at) VALUES (?, ?)
			ON CONFLICT (user_id) DO UPDATE SET enabled_at = excluded.enabled_at`, id, s.now().Unix())
		if err != nil {
			return err
		}
		return s.enabled(ctx, tx, id, recovery, keepSession, "passkey")
	})
}

// enabled does what follows from a second factor: the hash is marked, sessions that were
// opened with the password alone end, and there are recovery codes.
func (s *Store) enabled(ctx context.Context, tx *sql.Tx, id int64, recovery []string, keepSession, method string) error {
	if err := s.replaceRecovery(ctx, tx, id, recovery); err != nil {
		return err
	}
	if err := s.remark(ctx, tx, id, secondFactorMark); err != nil {
		return err
	}
	if err := s.newStamp(ctx, tx, id, keepSession); err != nil {
		return err
	}
	return s.recordAbout(ctx, tx, "second_factor_on", id, map[string]any{"method": method})
}

// remark sets the mark of the stored hash.
func (s *Store) remark(ctx context.Context, tx *sql.Tx, id int64, mark string) error {
	var hash string
	if err := tx.QueryRowContext(ctx, s.db.Rebind(`SELECT password_hash FROM users WHERE id = ?`), id).Scan(&hash); err != nil {
		return err
	}
	return s.update(ctx, tx, `UPDATE users SET password_hash = ? WHERE id = ?`, mark+unmarked(hash), id)
}

func (s *Store) replaceRecovery(ctx context.Context, tx *sql.Tx, id int64, hashes []string) error {
	if _, err := tx.ExecContext(ctx, s.db.Rebind(`DELETE FROM recovery_codes WHERE user_id = ?`), id); err != nil {
		return err
	}
	for _, hash := range hashes {
		if _, err := tx.ExecContext(ctx, s.db.Rebind(`INSERT INTO recovery_codes (user_id, code_hash) VALUES (?, ?)`), id, hash); err != nil {
			return err
		}
	}
	return nil
}

// UseTOTP implements account.Factors. It is one statement: of any number of callers with
// a code of the same step one changes a row.
func (s *Store) UseTOTP(ctx context.Context, id int64, sealed []byte, step int64) error {
	return s.tx(ctx, timeout, "use TOTP code", func(ctx context.Context, tx *sql.Tx) error {
		err := s.update(ctx, tx, `UPDATE user_factors SET totp_last_step = ?
			WHERE user_id = ? AND totp_sealed = ? AND totp_confirmed_at IS NOT NULL AND enabled_at IS NOT NULL AND totp_last_step < ?`, step, id, sealed, step)
		if errors.Is(err, user.ErrNotFound) {
			return factor.ErrInvalidCode
		}
		return err
	})
}

// UseRecovery implements account.Factors.
func (s *Store) UseRecovery(ctx context.Context, id int64, hash string) (left int, err error) {
	err = s.tx(ctx, timeout, "use recovery code", func(ctx context.Context, tx *sql.Tx) error {
		err := s.update(ctx, tx, `UPDATE recovery_codes SET used_at = ? WHERE user_id = ? AND code_hash = ? AND used_at IS NULL
			AND EXISTS (SELECT 1 FROM user_factors WHERE user_factors.user_id = recovery_codes.user_id AND enabled_at IS NOT NULL)`, s.now().Unix(), id, hash)
		if errors.Is(err, user.ErrNotFound) {
			return factor.ErrInvalidCode
		}
		if err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, s.db.Rebind(`SELECT count(*) FROM recovery_codes WHERE user_id = ? AND used_at IS NULL`), id).Scan(&left); err != nil {
			return err
		}
		return s.recordAbout(ctx, tx, "recovery_used", id, map[string]any{"left": left})
	})
	return left, err
}

// ReplaceRecovery implements account.Factors.
func (s *Store) ReplaceRecovery(ctx context.Context, id int64, hashes []string) error {
	return s.whereEnabled(ctx, "replace recovery codes", id, func(ctx context.Context, tx *sql.Tx, u user.User) error {
		if err := s.replaceRecovery(ctx, tx, id, hashes); err != nil {
			return err
		}
		return s.record(ctx, tx, about("recovery_renewed", u, nil))
	})
}

// DisableFactor implements account.Factors.
func (s *Store) DisableFactor(ctx context.Context, id int64) error {
	return s.whereEnabled(ctx, "disable second factor", id, s.disable)
}

// whereEnabled is tx for a user with a second factor, whose row is locked.
// factor.ErrNotEnabled.
func (s *Store) whereEnabled(ctx context.Context, what string, id int64, do func(context.Context, *sql.Tx, user.User) error) error {
	return s.tx(ctx, timeout, what, func(ctx context.Context, tx *sql.Tx) error {
		u, err := s.lockUser(ctx, tx, id)
		if err != nil {
			return err
		}
		if !u.SecondFactor {
			return factor.ErrNotEnabled
		}
		return do(ctx, tx, u)
	})
}

// disable ends a user's second factor unless the household requires one. Passkeys stay:
// they still log in.
func (s *Store) disable(ctx context.Context, tx *sql.Tx, u user.User) error {
	required, err := s.requiresFactor(ctx, tx)
	if err != nil {
		return err
	}
	if required {
		return factor.ErrRequired
	}
	if err := s.clearFactors(ctx, tx, u.ID); err != nil {
		return err
	}
	return s.record(ctx, tx, about("second_factor_off", u, nil))
}

func (s *Store) clearFactors(ctx context.Context, tx *sql.Tx, id int64) error {
	_, err := tx.ExecContext(ctx, s.db.Rebind(`UPDATE user_factors SET enabled_at = NULL, totp_sealed = NULL, totp_confirmed_at = NULL, totp_last_step = 0
		WHERE user_id = ?`), id)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, s.db.Rebind(`UPDATE known_browsers SET proved_at = NULL WHERE user_id = ?`), id); err != nil {
		return err
	}
	if err := s.replaceRecovery(ctx, tx, id, nil); err != nil {
		return err
	}
	return s.remark(ctx, tx, id, "")
}

// ResetFactor implements account.Factors.
func (s *Store) ResetFactor(ctx context.Context, id, by int64) (user.Revocation, error) {
	r := user.Revocation{UserID: id}
	return s.change(ctx, "reset second factor", r, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.mayAct(ctx, tx, by); err != nil {
			return err
		}
		u, err := s.lockUser(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := s.clearFactors(ctx, tx, id); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, s.db.Rebind(`DELETE FROM passkeys WHERE user_id = ?`), id); err != nil {
			return err
		}
		if err := s.newStamp(ctx, tx, id, ""); err != nil {
			return err
		}
		return s.record(ctx, tx, about("second_factor_reset", u, nil))
	})
}

// requiresFactor reports whether the household requires a second factor.
func (s *Store) requiresFactor(ctx context.Context, tx *sql.Tx) (bool, error) {
	var value string
	err := tx.QueryRowContext(ctx, s.db.Rebind(`SELECT value FROM household WHERE key = ?`), householdRequire).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return value == "true", err
}

// RequireFactor implements account.Factors.
func (s *Store) RequireFactor(ctx context.Context, required bool, by int64) error {
	return s.tx(ctx, timeout, "require second factor", func(ctx context.Context, tx *sql.Tx) error {
		if err := s.mayAct(ctx, tx, by); err != nil {
			return err
		}
		was, err := s.requiresFactor(ctx, tx)
		if err != nil || was == required {
			return err
		}
		if err := s.setHousehold(ctx, tx, householdRequire, strconv.FormatBool(required)); err != nil {
			return err
		}
		event := about("duty_changed", user.User{}, map[string]any{"required": required})
		return s.record(ctx, tx, event)
	})
}

// EndOthers implements account.Factors.
func (s *Store) EndOthers(ctx context.Context, id int64, keepSession string) (user.Revocation, error) {
	r := user.Revocation{UserID: id, KeepSession: keepSession}
	return s.change(ctx, "end other sessions", r, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.newStamp(ctx, tx, id, keepSession); err != nil {
			return err
		}
		return s.recordAbout(ctx, tx, "sessions_ended", id, map[string]any{"others": true})
	})
}

// SealedSecrets implements account.Factors.
func (s *Store) SealedSecrets(ctx context.Context) ([]factor.Sealed, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := s.db.Reader.QueryContext(ctx, `SELECT user_id, totp_sealed FROM user_factors WHERE totp_sealed IS NOT NULL ORDER BY user_id`)
	return sqldb.All(rows, err, func(row sqldb.Scanner) (sealed factor.Sealed, err error) {
		err = row.Scan(&sealed.UserID, &sealed.Secret)
		return sealed, err
	})
}

// Reseal implements account.Factors.
func (s *Store) Reseal(ctx context.Context, id int64, old, sealed []byte) error {
	if bytes.Equal(old, sealed) {
		return nil
	}
	return s.tx(ctx, timeout, "reseal secret", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, s.db.Rebind(`UPDATE user_factors SET totp_sealed = ? WHERE user_id = ? AND totp_sealed = ?`), sealed, id, old)
		return err
	})
}

// SeeBrowser implements account.Factors.
func (s *Store) SeeBrowser(ctx context.Context, id int64, hash, label string, second bool) error {
	return s.tx(ctx, timeout, "remember browser", func(ctx context.Context, tx *sql.Tx) error {
		u, err := s.lockUser(ctx, tx, id)
		if err != nil {
			return err
		}
		now := s.now().Unix()
		proved := sql.NullInt64{Int64: now, Valid: second}
		err = s.update(ctx, tx, `UPDATE known_browsers SET last_seen_at = ?, label = ?, proved_at = coalesce(?, proved_at) WHERE user_id = ? AND hash = ?`, now, label, proved, id, hash)
		if !errors.Is(err, user.ErrNotFound) {
			return err
		}
		var others int
		if err := tx.QueryRowContext(ctx, s.db.Rebind(`SELECT count(*) FROM known_browsers WHERE user_id = ?`), id).Scan(&others); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, s.db.Rebind(`INSERT INTO known_browsers (user_id, hash, label, first_seen_at, last_seen_at, proved_at) VALUES (?, ?, ?, ?, ?, ?)`), id, hash, label, now, now, proved)
		if err != nil {
			return err
		}
		if others == 0 {
			return nil
		}
		_, err = tx.ExecContext(ctx, s.db.Rebind(`DELETE FROM known_browsers WHERE user_id = ? AND hash IN
			(SELECT hash FROM known_browsers WHERE user_id = ? AND hash <> ? ORDER BY last_seen_at DESC, hash LIMIT 1000 OFFSET ?)`), id, id, hash, factor.MaxBrowsers-1)
		if err != nil {
			return err
		}
		return s.record(ctx, tx, about("device_new", u, map[string]any{"browser": label}))
	})
}

// Browsers implements account.Factors.
func (s *Store) Browsers(ctx context.Context, id int64) ([]factor.Browser, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := s.db.Reader.QueryContext(ctx, s.db.Rebind(`SELECT hash, label, first_seen_at, last_seen_at FROM known_browsers
		WHERE user_id = ? ORDER BY last_seen_at DESC, hash`), id)
	browsers, err := sqldb.All(rows, err, func(row sqldb.Scanner) (b factor.Browser, err error) {
		var first, last int64
		err = row.Scan(&b.Hash, &b.Label, &first, &last)
		b.FirstSeenAt, b.LastSeenAt = time.Unix(first, 0).UTC(), time.Unix(last, 0).UTC()
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("list browsers: %w", err)
	}
	return browsers, nil
}

// KnowsBrowser implements account.Factors.
func (s *Store) KnowsBrowser(ctx context.Context, id int64, hash string) (known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = s.db.Reader.QueryRowContext(ctx, s.db.Rebind(`SELECT EXISTS (SELECT 1 FROM known_browsers WHERE user_id = ? AND hash = ? AND proved_at IS NOT NULL)`), id, hash).Scan(&known)
	if err != nil {
		return false, fmt.Errorf("look up browser: %w", err)
	}
	return known, nil
}

// ForgetBrowser implements account.Factors.
func (s *Store) ForgetBrowser(ctx context.Context, id int64, hash string) error {
	if !isText(hash) { // so it is no browser's
		return nil
	}
	return s.tx(ctx, timeout, "forget browser", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, s.db.Rebind(`DELETE FROM known_browsers WHERE user_id = ? AND hash = ?`), id, hash)
		return err
	})
}
