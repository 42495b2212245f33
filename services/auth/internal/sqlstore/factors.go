package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// secondFactorMark begins the stored password hash of users with a second factor, so that
// a version without second factors, which may run beside this one, does not recognize the
// hash and refuses the password. Whether there is a second factor is in user_factors.
const secondFactorMark = "2f:"

// hashSQL is the SQL value of password_hash for a new hash: marked where the stored one is
// or the user has a second factor. Its arguments are markedHash's. The caller has locked the
// user's row (lockUser).
const hashSQL = `CASE WHEN substr(password_hash, 1, 3) = '2f:' OR ` + hasSecondFactor + ` THEN ? ELSE ? END`

// hasSecondFactor is the condition that the user of a row of users has a second factor.
const hasSecondFactor = `EXISTS (SELECT 1 FROM user_factors WHERE user_factors.user_id = users.id AND ` +
	`user_factors.enabled_at IS NOT NULL)`

func markedHash(hash string) []any { return []any{secondFactorMark + hash, hash} }

func unmarked(hash string) string { return strings.TrimPrefix(hash, secondFactorMark) }

// Factors keeps who has a second factor, the secrets of TOTP, and recovery codes.
type Factors struct{ db *database }

// Factors implements account.Factors.
func (s *Factors) Factors(ctx context.Context, id int64) (factor.State, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return factorsOf(ctx, s.db, id)
}

func factorsOf(ctx context.Context, q querier, id int64) (factor.State, error) {
	var state factor.State
	err := q.row(ctx, `SELECT f.enabled_at IS NOT NULL, f.totp_sealed, f.totp_confirmed_at IS NOT NULL,
		coalesce(f.totp_last_step, 0),
		(SELECT count(*) FROM recovery_codes WHERE recovery_codes.user_id = users.id AND used_at IS NULL),
		(SELECT count(*) FROM passkeys WHERE passkeys.user_id = users.id)
		FROM users LEFT JOIN user_factors AS f ON f.user_id = users.id WHERE users.id = ?`, id).
		Scan(&state.Enabled, &state.Sealed, &state.Confirmed, &state.LastStep, &state.Recovery, &state.Passkeys)
	return state, found(err, "read second factors", user.ErrNotFound)
}

// SetupTOTP implements account.Factors.
func (s *Factors) SetupTOTP(ctx context.Context, id int64, sealed []byte) error {
	return s.db.write(ctx, timeout, "set up TOTP", func(ctx context.Context, tx *transaction) error {
		if _, err := tx.lockUser(ctx, id); err != nil {
			return err
		}
		return tx.updateOr(ctx, factor.ErrAlreadyEnabled, `INSERT INTO user_factors (user_id, totp_sealed) VALUES (?, ?)
			ON CONFLICT (user_id) DO UPDATE SET totp_sealed = excluded.totp_sealed, totp_last_step = 0
			WHERE user_factors.totp_confirmed_at IS NULL`, id, sealed)
	})
}

// EnableTOTP implements account.Factors.
func (s *Factors) EnableTOTP(
	ctx context.Context, of session.Session, pending, sealed []byte, step int64, recovery []string,
) (user.Revocation, error) {
	id, r := of.UserID, user.Revocation{UserID: of.UserID, KeepSession: of.Key}
	return s.db.change(ctx, "enable TOTP", r, func(ctx context.Context, tx *transaction) error {
		if _, err := tx.lockUserOf(ctx, of); err != nil {
			return err
		}
		now := s.db.now().Unix()
		err := tx.update(ctx, `UPDATE user_factors SET totp_sealed = ?, totp_confirmed_at = ?,
			enabled_at = coalesce(enabled_at, ?), totp_last_step = ?
			WHERE user_id = ? AND totp_sealed = ? AND totp_confirmed_at IS NULL AND totp_last_step < ?`,
			sealed, now, now, step, id, pending, step)
		if errors.Is(err, user.ErrNotFound) {
			return s.whyNotEnabled(ctx, tx, id)
		}
		if err != nil {
			return err
		}
		return s.enabled(ctx, tx, id, recovery, of.Key, "totp")
	})
}

// whyNotEnabled returns factor.ErrAlreadyEnabled for a user who has confirmed TOTP, else factor.ErrNoPendingSetup.
func (s *Factors) whyNotEnabled(ctx context.Context, tx *transaction, id int64) error {
	state, err := factorsOf(ctx, tx, id)
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
func (s *Factors) EnableByPasskey(ctx context.Context, of session.Session, recovery []string) (user.Revocation, error) {
	id, r := of.UserID, user.Revocation{UserID: of.UserID, KeepSession: of.Key}
	return s.db.change(ctx, "enable second factor", r, func(ctx context.Context, tx *transaction) error {
		if _, err := tx.lockUserOf(ctx, of); err != nil {
			return err
		}
		state, err := factorsOf(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case state.Enabled:
			return factor.ErrAlreadyEnabled
		case state.Passkeys == 0:
			return factor.ErrNoPasskey
		}
		err = tx.update(ctx, `INSERT INTO user_factors (user_id, enabled_at) VALUES (?, ?)
			ON CONFLICT (user_id) DO UPDATE SET enabled_at = excluded.enabled_at`, id, s.db.now().Unix())
		if err != nil {
			return err
		}
		return s.enabled(ctx, tx, id, recovery, of.Key, "passkey")
	})
}

// enabled does what follows when a second factor is enabled: it replaces the recovery codes, marks the password hash,
// ends all sessions but keepSession, and records the event.
func (s *Factors) enabled(
	ctx context.Context, tx *transaction, id int64, recovery []string, keepSession, method string,
) error {
	if err := tx.replaceRecovery(ctx, id, recovery); err != nil {
		return err
	}
	if err := tx.setHashMark(ctx, id, secondFactorMark); err != nil {
		return err
	}
	if err := tx.newStamp(ctx, id, keepSession); err != nil {
		return err
	}
	return tx.recordAbout(ctx, "second_factor_on", id, map[string]any{"method": method})
}

// setHashMark sets the mark at the beginning of the stored hash; "" removes it.
func (tx *transaction) setHashMark(ctx context.Context, id int64, mark string) error {
	var hash string
	if err := tx.row(ctx, `SELECT password_hash FROM users WHERE id = ?`, id).Scan(&hash); err != nil {
		return err
	}
	return tx.update(ctx, `UPDATE users SET password_hash = ? WHERE id = ?`, mark+unmarked(hash), id)
}

func (tx *transaction) replaceRecovery(ctx context.Context, id int64, hashes []string) error {
	if err := tx.exec(ctx, `DELETE FROM recovery_codes WHERE user_id = ?`, id); err != nil {
		return err
	}
	for _, hash := range hashes {
		if err := tx.exec(ctx, `INSERT INTO recovery_codes (user_id, code_hash) VALUES (?, ?)`, id, hash); err != nil {
			return err
		}
	}
	return nil
}

// UseTOTP implements account.Factors. It is one statement: of any number of callers with
// a code of the same step at most one changes a row.
func (s *Factors) UseTOTP(ctx context.Context, id int64, sealed []byte, step int64) error {
	return s.db.write(ctx, timeout, "use TOTP code", func(ctx context.Context, tx *transaction) error {
		return tx.updateOr(ctx, factor.ErrInvalidCode, `UPDATE user_factors SET totp_last_step = ?
			WHERE user_id = ? AND totp_sealed = ? AND totp_confirmed_at IS NOT NULL AND enabled_at IS NOT NULL
			AND totp_last_step < ?`, step, id, sealed, step)
	})
}

// UseRecovery implements account.Factors.
func (s *Factors) UseRecovery(ctx context.Context, id int64, hash string) (left int, err error) {
	err = s.db.write(ctx, timeout, "use recovery code", func(ctx context.Context, tx *transaction) error {
		err := tx.updateOr(ctx, factor.ErrInvalidCode, `UPDATE recovery_codes SET used_at = ?
			WHERE user_id = ? AND code_hash = ? AND used_at IS NULL
			AND EXISTS (SELECT 1 FROM user_factors WHERE user_factors.user_id = recovery_codes.user_id
			AND enabled_at IS NOT NULL)`, s.db.now().Unix(), id, hash)
		if err != nil {
			return err
		}
		if err := tx.row(ctx, `SELECT count(*) FROM recovery_codes WHERE user_id = ? AND used_at IS NULL`,
			id).Scan(&left); err != nil {
			return err
		}
		return tx.recordAbout(ctx, "recovery_used", id, map[string]any{"left": left})
	})
	return left, err
}

// ReplaceRecovery implements account.Factors.
func (s *Factors) ReplaceRecovery(ctx context.Context, of session.Session, hashes []string) error {
	return s.whereEnabled(ctx, "replace recovery codes", of,
		func(ctx context.Context, tx *transaction, u user.User) error {
			if err := tx.replaceRecovery(ctx, u.ID, hashes); err != nil {
				return err
			}
			return tx.record(ctx, about("recovery_renewed", u, nil))
		})
}

// DisableFactor implements account.Factors.
func (s *Factors) DisableFactor(ctx context.Context, of session.Session) error {
	return s.whereEnabled(ctx, "disable second factor", of,
		func(ctx context.Context, tx *transaction, u user.User) error {
			return tx.disable(ctx, u)
		})
}

// whereEnabled is write for the user of a session, with a second factor, whose row it locks.
// factor.ErrNotEnabled, session.ErrNotFound, user.ErrNotFound.
func (s *Factors) whereEnabled(
	ctx context.Context, what string, of session.Session, do func(context.Context, *transaction, user.User) error,
) error {
	return s.db.write(ctx, timeout, what, func(ctx context.Context, tx *transaction) error {
		u, err := tx.lockUserOf(ctx, of)
		if err != nil {
			return err
		}
		if !u.SecondFactor {
			return factor.ErrNotEnabled
		}
		return do(ctx, tx, u)
	})
}

// disable ends a user's second factor unless the household requires one. Passkeys stay: they still log in.
// factor.ErrRequired.
func (tx *transaction) disable(ctx context.Context, u user.User) error {
	required, err := tx.requiresFactor(ctx)
	if err != nil {
		return err
	}
	if required {
		return factor.ErrRequired
	}
	if err := tx.clearFactors(ctx, u.ID); err != nil {
		return err
	}
	return tx.record(ctx, about("second_factor_off", u, nil))
}

func (tx *transaction) clearFactors(ctx context.Context, id int64) error {
	err := tx.exec(ctx, `UPDATE user_factors SET enabled_at = NULL, totp_sealed = NULL, totp_confirmed_at = NULL,
		totp_last_step = 0
		WHERE user_id = ?`, id)
	if err != nil {
		return err
	}
	if err := tx.exec(ctx, `UPDATE known_browsers SET proved_at = NULL WHERE user_id = ?`, id); err != nil {
		return err
	}
	if err := tx.replaceRecovery(ctx, id, nil); err != nil {
		return err
	}
	return tx.setHashMark(ctx, id, "")
}

// ResetFactor implements account.Factors.
func (s *Factors) ResetFactor(ctx context.Context, id int64, by session.Session) (user.Revocation, error) {
	r := user.Revocation{UserID: id}
	return s.db.change(ctx, "reset second factor", r, func(ctx context.Context, tx *transaction) error {
		if err := tx.sessionMayAct(ctx, by); err != nil {
			return err
		}
		u, err := tx.lockUser(ctx, id)
		if err != nil {
			return err
		}
		if err := tx.clearFactors(ctx, id); err != nil {
			return err
		}
		if err := tx.exec(ctx, `DELETE FROM passkeys WHERE user_id = ?`, id); err != nil {
			return err
		}
		if err := tx.newStamp(ctx, id, ""); err != nil {
			return err
		}
		return tx.record(ctx, about("second_factor_reset", u, nil))
	})
}

func (tx *transaction) requiresFactor(ctx context.Context) (bool, error) {
	return scanOne[bool](tx.row(ctx, `SELECT EXISTS (SELECT 1 FROM household WHERE key = ? AND value = 'true')`,
		householdRequire))
}

// RequireFactor implements account.Factors.
func (s *Factors) RequireFactor(ctx context.Context, required bool, by session.Session) error {
	return s.db.write(ctx, timeout, "require second factor", func(ctx context.Context, tx *transaction) error {
		if err := tx.sessionMayAct(ctx, by); err != nil {
			return err
		}
		was, err := tx.requiresFactor(ctx)
		if err != nil || was == required {
			return err
		}
		if err := tx.setHousehold(ctx, householdRequire, strconv.FormatBool(required)); err != nil {
			return err
		}
		event := about("duty_changed", user.User{}, map[string]any{"required": required})
		return tx.record(ctx, event)
	})
}

// SealedSecrets implements account.Factors.
func (s *Factors) SealedSecrets(ctx context.Context) ([]factor.Sealed, error) {
	return list(ctx, s.db, "read TOTP secrets", func(row sqldb.Scanner) (sealed factor.Sealed, err error) {
		err = row.Scan(&sealed.UserID, &sealed.Secret)
		return sealed, err
	}, `SELECT user_id, totp_sealed FROM user_factors WHERE totp_sealed IS NOT NULL ORDER BY user_id`)
}

// Reseal implements account.Factors.
func (s *Factors) Reseal(ctx context.Context, id int64, old, sealed []byte) error {
	if bytes.Equal(old, sealed) {
		return nil
	}
	return s.db.exec(ctx, "reseal secret",
		`UPDATE user_factors SET totp_sealed = ? WHERE user_id = ? AND totp_sealed = ?`, sealed, id, old)
}
