package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

const memberColumns = columns + `, (SELECT count(*) FROM passkeys WHERE passkeys.user_id = users.id),
	(` + lastLogin + `), user_factors.reset_asked_at, coalesce(users.subject, ''), coalesce(users.email, ''),
	users.email_confirmed_at, ` + groupsOf

// lastLogin selects the time of the last login that the audit has of a row of users. Adding 0 keeps Postgres from
// reading the index of all times backwards until it meets a login of that user, who may have none.
const lastLogin = `SELECT max(at + 0) FROM audit WHERE audit.subject_id = users.id AND audit.event = 'login'`

const memberTables = ` FROM users LEFT JOIN user_factors ON user_factors.user_id = users.id`

func scanMember(row sqldb.Scanner) (user.Details, error) {
	var m user.Details
	u, err := scan(withMore{row, []any{
		&m.Passkeys, (*instant)(&m.LastLoginAt), (*instant)(&m.ResetAskedAt), &m.Subject, &m.Email.Address,
		(*instant)(&m.Email.ConfirmedAt), (*slugs)(&m.Groups),
	}})
	m.User = u
	return m, err
}

// Member implements people.Users.
func (s *Users) Member(ctx context.Context, id int64) (user.Details, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return scanMember(s.db.row(ctx, `SELECT `+memberColumns+memberTables+` WHERE users.id = ?`, id))
}

// Members implements people.Users.
func (s *Users) Members(ctx context.Context) ([]user.Details, error) {
	return list(ctx, s.db, "list members", scanMember, `SELECT `+memberColumns+memberTables+` ORDER BY users.id`)
}

// Change implements people.Users.
func (s *Users) Change(ctx context.Context, id int64, c user.Change, by session.Session) error {
	return s.db.write(ctx, timeout, "change user", func(ctx context.Context, tx *transaction) error {
		u, err := s.mayChange(ctx, tx, id, c, by)
		if err != nil {
			return err
		}
		fields := []string{}
		if c.DisplayName != nil && *c.DisplayName != u.DisplayName {
			fields = append(fields, "display_name")
			u.DisplayName = *c.DisplayName
		}
		if c.AvatarColor != nil && *c.AvatarColor != u.AvatarColor {
			fields = append(fields, "avatar_color")
			u.AvatarColor = *c.AvatarColor
		}
		if len(fields) > 0 {
			if err := tx.update(ctx, `UPDATE users SET display_name = ?, avatar_color = ? WHERE id = ?`, u.DisplayName,
				u.AvatarColor, id); err != nil {
				return err
			}
			if err := tx.record(ctx, about("profile_changed", u, map[string]any{"fields": fields})); err != nil {
				return err
			}
		}
		if c.Groups != nil {
			if err := tx.setGroups(ctx, id, *c.Groups); err != nil {
				return err
			}
		}
		if err := tx.changeGroups(ctx, id, c.Joins); err != nil {
			return err
		}
		if c.Groups != nil || len(c.Joins) > 0 {
			if err := tx.endUnadmitted(ctx); err != nil {
				return err
			}
		}
		if err := s.changeEnd(ctx, tx, u, c); err != nil {
			return err
		}
		if c.Username != nil && *c.Username != u.Username {
			if err := s.rename(ctx, tx, u, *c.Username); err != nil {
				return err
			}
		}
		if c.Email != nil {
			if err := s.setEmail(ctx, tx, u, *c.Email, c.ConfirmsEmail, by.UserID); err != nil {
				return err
			}
		}
		if c.Role == nil || *c.Role == u.Role {
			return nil
		}
		return tx.setRole(ctx, id, *c.Role)
	})
}

// changeEnd sets when the account of a user ends. If it had closed, the sessions of before stay ended, as when one is
// enabled. user.ErrGuestAdmin where an account with an end would be an admin's: end and role are those of c, or else
// of u.
func (s *Users) changeEnd(ctx context.Context, tx *transaction, u user.User, c user.Change) error {
	role, ends := u.Role, u.EndsAt
	if c.Role != nil {
		role = *c.Role
	}
	if c.EndsAt != nil {
		ends = c.EndsAt.UTC()
	}
	if role == user.Admin && !ends.IsZero() {
		return user.ErrGuestAdmin
	}
	if ends.Equal(u.EndsAt) {
		return nil
	}
	if err := tx.update(ctx, `UPDATE users SET ends_at = ? WHERE id = ?`, orNull(ends), u.ID); err != nil {
		return err
	}
	if u.Closed(s.db.now()) {
		if err := tx.newStamp(ctx, u.ID, ""); err != nil {
			return err
		}
	}
	detail := map[string]any{"ends_at": ""}
	if !ends.IsZero() {
		detail["ends_at"] = ends.Format(time.RFC3339)
	}
	return tx.record(ctx, about("guest_changed", u, detail))
}

// orNull returns a time as Unix seconds to store; NULL for the zero time.
func orNull(at time.Time) sql.NullInt64 { return sql.NullInt64{Int64: at.Unix(), Valid: !at.IsZero()} }

// rename gives a user another name. The previous name, unless it differs in letter case only, stays reserved for them,
// because applications know them by it. user.ErrUsernameTaken, user.ErrUsernameFormer.
func (s *Users) rename(ctx context.Context, tx *transaction, u user.User, name string) error {
	if asciiLower(name) != asciiLower(u.Username) {
		if err := s.keepName(ctx, tx, u.ID); err != nil {
			return err
		}
	}
	err := tx.update(ctx, `UPDATE users SET username = ? WHERE id = ?`, name, u.ID)
	if sqldb.IsUnique(err) {
		return user.ErrUsernameTaken
	}
	if err != nil {
		return err
	}
	// After the update, which waits for a transaction in which the name becomes another user's former one.
	err = tx.exec(ctx, `DELETE FROM former_usernames WHERE username = ? AND user_id = ?`, asciiLower(name), u.ID)
	if err != nil {
		return err
	}
	if err := checkFormer(ctx, tx, name); err != nil {
		return err
	}
	before := u.Username
	u.Username = name
	return tx.record(ctx, about("username_changed", u, map[string]any{"from": before, "to": name}))
}

// setEmail sets a user's e-mail address; "" removes it. If confirms is true, it is confirmed in the name of the actor
// by, unless it is already, and taken from another user who has it unconfirmed. user.ErrEmailTaken.
func (s *Users) setEmail(
	ctx context.Context, tx *transaction, u user.User, address string, confirms bool, by int64,
) error {
	var at, who sql.NullInt64
	if address != "" && confirms {
		at, who = orNull(s.db.now()), sql.NullInt64{Int64: by, Valid: true}
		if err := tx.takeEmail(ctx, u.ID, address); err != nil {
			return err
		}
	}
	text := sql.NullString{String: address, Valid: address != ""}
	n, err := tx.changed(ctx, `UPDATE users SET email = ?, email_confirmed_at = ?, email_confirmed_by = ?
		WHERE id = ? AND (coalesce(email, '') <> ? OR ? AND email_confirmed_at IS NULL)`,
		text, at, who, u.ID, address, at.Valid)
	if sqldb.IsUnique(err) {
		return user.ErrEmailTaken
	}
	if err != nil || n == 0 {
		return err
	}
	return tx.record(ctx, about("email_changed", u, map[string]any{"confirmed": at.Valid, "removed": address == ""}))
}

// takeEmail removes an address from a user who has it unconfirmed, unless that is the one who is to have it.
func (tx *transaction) takeEmail(ctx context.Context, to int64, address string) error {
	var from int64
	err := tx.row(ctx, `UPDATE users SET email = NULL
		WHERE lower(email) = ? AND id <> ? AND email_confirmed_at IS NULL RETURNING id`,
		asciiLower(address), to).Scan(&from)
	if err != nil {
		return orNone(err, nil)
	}
	return tx.recordAbout(ctx, "email_changed", from, map[string]any{"confirmed": false, "removed": true})
}

// subject returns the identifier by which applications know a user. The first call for a user creates it.
// user.ErrNotFound.
func (d *database) subject(ctx context.Context, id int64) (subject string, err error) {
	err = d.write(ctx, timeout, "name a user for applications", func(ctx context.Context, tx *transaction) error {
		err := tx.row(ctx, `UPDATE users SET subject = coalesce(subject, ?) WHERE id = ? RETURNING subject`,
			user.NewSubject(), id).Scan(&subject)
		return orNone(err, user.ErrNotFound)
	})
	return subject, err
}

// Disable implements people.Users.
func (s *Users) Disable(ctx context.Context, id int64, by session.Session) (user.Revocation, error) {
	r := user.Revocation{UserID: id}
	return s.db.change(ctx, "disable user", r, func(ctx context.Context, tx *transaction) error {
		if err := tx.keepAnAdmin(ctx, id, by.UserID); err != nil {
			return err
		}
		if err := tx.holds(ctx, by); err != nil {
			return err
		}
		n, err := tx.changed(ctx, `UPDATE users SET disabled_at = ? WHERE id = ? AND disabled_at IS NULL`,
			s.db.now().Unix(), id)
		if err != nil {
			return err
		}
		if err := tx.newStamp(ctx, id, ""); err != nil || n == 0 {
			return err
		}
		if err := tx.closeResets(ctx, id); err != nil {
			return err
		}
		return tx.recordAbout(ctx, "user_disabled", id, nil)
	})
}

// Enable implements people.Users.
func (s *Users) Enable(ctx context.Context, id int64, by session.Session) error {
	return s.db.write(ctx, timeout, "enable user", func(ctx context.Context, tx *transaction) error {
		if err := tx.sessionMayAct(ctx, by); err != nil {
			return err
		}
		u, err := tx.lockUser(ctx, id)
		if err != nil || u.DisabledAt.IsZero() {
			return err
		}
		if err := tx.update(ctx, `UPDATE users SET disabled_at = NULL WHERE id = ?`, id); err != nil {
			return err
		}
		return tx.record(ctx, about("user_enabled", u, nil))
	})
}

// SetPicture implements people.Users.
func (s *Users) SetPicture(ctx context.Context, id int64, jpeg []byte, by int64) error {
	return s.db.write(ctx, timeout, "set picture", func(ctx context.Context, tx *transaction) error {
		if by != id {
			if err := tx.mayAct(ctx, by); err != nil {
				return err
			}
		}
		u, err := tx.lockUser(ctx, id)
		if err != nil {
			return err
		}
		hash := ""
		if jpeg == nil {
			err = tx.exec(ctx, `DELETE FROM user_pictures WHERE user_id = ?`, id)
		} else {
			sum := sha256.Sum256(jpeg)
			hash = hex.EncodeToString(sum[:])
			err = tx.exec(ctx, `INSERT INTO user_pictures (user_id, jpeg) VALUES (?, ?)
				ON CONFLICT (user_id) DO UPDATE SET jpeg = excluded.jpeg`, id, jpeg)
		}
		if err != nil || hash == u.Picture {
			return err
		}
		if err := tx.update(ctx, `UPDATE users SET picture = ? WHERE id = ?`, hash, id); err != nil {
			return err
		}
		return tx.record(ctx, about("profile_changed", u, map[string]any{"fields": []string{"picture"}}))
	})
}

// Picture implements people.Users.
func (s *Users) Picture(ctx context.Context, id int64, hash string) ([]byte, error) {
	jpeg, err := read[[]byte](ctx, s.db, "read picture", `SELECT jpeg FROM user_pictures
		JOIN users ON users.id = user_pictures.user_id WHERE user_id = ? AND users.picture = ?`, id, hash)
	return jpeg, orNone(err, user.ErrNotFound)
}

// mayChange returns the user with an id if by may make the change, and locks what that depends on and the user's row.
// user.ErrNotAdmin, user.ErrLastAdmin, user.ErrNotFound; session.ErrNotFound.
func (s *Users) mayChange(
	ctx context.Context, tx *transaction, id int64, c user.Change, by session.Session,
) (user.User, error) {
	changesGroups := c.Groups != nil || len(c.Joins) > 0
	switch {
	case c.Role != nil && *c.Role != user.Admin:
		if err := tx.keepAnAdmin(ctx, id, by.UserID); err != nil {
			return user.User{}, err
		}
		if err := tx.holds(ctx, by); err != nil {
			return user.User{}, err
		}
	case c.Role != nil || c.Username != nil || c.EndsAt != nil || c.ConfirmsEmail || changesGroups || by.UserID != id:
		if err := tx.sessionMayAct(ctx, by); err != nil {
			return user.User{}, err
		}
	default:
		return tx.lockUserOf(ctx, by)
	}
	if changesGroups {
		if err := tx.lockPolicy(ctx); err != nil {
			return user.User{}, err
		}
	}
	return tx.lockUser(ctx, id)
}

// AskForReset implements people.Users.
func (s *Users) AskForReset(ctx context.Context, username string) error {
	u, err := s.ByUsername(ctx, username)
	if err != nil || u.Closed(s.db.now()) {
		return err
	}
	return s.db.write(ctx, timeout, "ask for a new password", func(ctx context.Context, tx *transaction) error {
		n, err := tx.changed(ctx, `INSERT INTO user_factors (user_id, reset_asked_at) SELECT id, ? FROM users
			WHERE id = ?
			ON CONFLICT (user_id) DO UPDATE SET reset_asked_at = excluded.reset_asked_at
			WHERE user_factors.reset_asked_at IS NULL`, s.db.now().Unix(), u.ID)
		if err != nil || n == 0 {
			return err
		}
		return tx.record(ctx, about("reset_asked", u, nil))
	})
}

// DismissReset implements people.Users.
func (s *Users) DismissReset(ctx context.Context, id, by int64) error {
	return s.db.write(ctx, timeout, "dismiss a request for a new password", func(
		ctx context.Context, tx *transaction,
	) error {
		if err := tx.mayAct(ctx, by); err != nil {
			return err
		}
		u, err := tx.user(ctx, id)
		if err != nil {
			return err
		}
		n, err := tx.changed(ctx, `UPDATE user_factors SET reset_asked_at = NULL
			WHERE user_id = ? AND reset_asked_at IS NOT NULL`, id)
		if err != nil || n == 0 {
			return err
		}
		return tx.record(ctx, about("reset_dismissed", u, nil))
	})
}

// Keys of the table household, beside oidc_issuer (Clients.Issuer).
const (
	householdName    = "name"
	householdRequire = "require_second_factor" // "true" or "false", or not there
	householdSteps   = "first_steps_done"      // "true", or not there
	householdBackup  = "last_backup"           // in RFC 3339, or not there; the program backup writes it
)

// Household implements account.Users.
func (s *Users) Household(ctx context.Context) (user.Household, error) {
	pairs, err := list(ctx, s.db, "read household", func(row sqldb.Scanner) (pair [2]string, err error) {
		err = row.Scan(&pair[0], &pair[1])
		return pair, err
	}, `SELECT key, value FROM household`)
	if err != nil {
		return user.Household{}, err
	}
	var h user.Household
	for _, pair := range pairs {
		switch pair[0] {
		case householdName:
			h.Name = pair[1]
		case householdRequire:
			h.RequireSecondFactor = pair[1] == "true"
		case householdSteps:
			h.FirstStepsDone = pair[1] == "true"
		case householdBackup:
			// A value that is no time counts as none: nothing else depends on it.
			h.LastBackup, _ = time.Parse(time.RFC3339, pair[1])
		}
	}
	return h, nil
}

// NameHousehold implements people.Users.
func (s *Users) NameHousehold(ctx context.Context, name string, by int64) error {
	return s.db.write(ctx, timeout, "name household", func(ctx context.Context, tx *transaction) error {
		if err := tx.mayAct(ctx, by); err != nil {
			return err
		}
		if err := tx.lock(ctx, "household"); err != nil {
			return err
		}
		var before string
		err := tx.row(ctx, `SELECT value FROM household WHERE key = ?`, householdName).Scan(&before)
		if err := orNone(err, nil); err != nil {
			return err
		}
		if before == name {
			return nil
		}
		if name == "" {
			err = tx.exec(ctx, `DELETE FROM household WHERE key = ?`, householdName)
		} else {
			err = tx.setHousehold(ctx, householdName, name)
		}
		if err != nil {
			return err
		}
		return tx.record(ctx, audit.Event{
			Name: "household_renamed", Detail: map[string]any{"from": before, "to": name},
		})
	})
}

// HideFirstSteps implements people.Users.
func (s *Users) HideFirstSteps(ctx context.Context, by int64) error {
	return s.db.write(ctx, timeout, "hide first steps", func(ctx context.Context, tx *transaction) error {
		if err := tx.mayAct(ctx, by); err != nil {
			return err
		}
		return tx.setHousehold(ctx, householdSteps, "true")
	})
}

func (tx *transaction) setHousehold(ctx context.Context, key, value string) error {
	return tx.exec(ctx, `INSERT INTO household (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = `+
		`excluded.value`, key, value)
}
