package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/user"
)

const memberColumns = `users.id, users.username, users.display_name, users.password_hash, users.avatar_color,
	users.role, users.created_at, users.session_stamp, users.kept_session,
	user_factors.enabled_at IS NOT NULL, (SELECT count(*) FROM passkeys WHERE passkeys.user_id = users.id),
	coalesce((` + lastLogin + `), 0), coalesce(user_factors.reset_asked_at, 0), ` + groupsOf

// lastLogin is when a row of users logged in last. The sum keeps Postgres from reading the
// index of all times backwards until it meets a login of that user, who may have none.
const lastLogin = `SELECT max(at + 0) FROM audit WHERE audit.subject_id = users.id AND audit.event = 'login'`

const memberTables = ` FROM users LEFT JOIN user_factors ON user_factors.user_id = users.id`

func scanMember(row sqldb.Scanner) (user.Details, error) {
	var m user.Details
	var created, login, asked int64
	var groups string
	err := row.Scan(&m.ID, &m.Username, &m.DisplayName, &m.PasswordHash, &m.AvatarColor, &m.Role, &created,
		&m.SessionStamp, &m.KeptSession,
		&m.SecondFactor, &m.Passkeys, &login, &asked, &groups)
	if errors.Is(err, sql.ErrNoRows) {
		return user.Details{}, user.ErrNotFound
	}
	m.CreatedAt, m.LastLoginAt, m.ResetAskedAt = time.Unix(created, 0).UTC(), instant(login), instant(asked)
	m.Groups, m.PasswordHash = slugs(groups), unmarked(m.PasswordHash)
	return m, err
}

// instant is the zero time for 0.
func instant(unix int64) time.Time {
	if unix == 0 {
		return time.Time{}
	}
	return time.Unix(unix, 0).UTC()
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
func (s *Users) Change(ctx context.Context, id int64, c user.Change, by int64) error {
	return s.db.write(ctx, timeout, "change user", func(ctx context.Context, tx *transaction) error {
		if err := s.mayChange(ctx, tx, id, c, by); err != nil {
			return err
		}
		u, err := tx.user(ctx, id)
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
		if c.Role == nil || *c.Role == u.Role {
			return nil
		}
		return tx.setRole(ctx, id, *c.Role)
	})
}

// mayChange returns ErrNotAdmin and ErrLastAdmin. It locks what it depends on, and the
// row that changes.
func (s *Users) mayChange(ctx context.Context, tx *transaction, id int64, c user.Change, by int64) error {
	changesGroups := c.Groups != nil || len(c.Joins) > 0
	switch {
	case c.Role != nil && *c.Role != user.Admin:
		if err := tx.keepAnAdmin(ctx, id, by); err != nil {
			return err
		}
	case c.Role != nil || changesGroups || by != id:
		if err := tx.mayAct(ctx, by); err != nil {
			return err
		}
	}
	if changesGroups {
		if err := tx.lockPolicy(ctx); err != nil {
			return err
		}
	}
	return tx.update(ctx, `UPDATE users SET id = id WHERE id = ?`, id)
}

// AskForReset implements people.Users.
func (s *Users) AskForReset(ctx context.Context, username string) error {
	u, err := s.ByUsername(ctx, username)
	if err != nil {
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

// Keys of the table household.
const (
	householdName    = "name"
	householdRequire = "require_second_factor" // "true", or not there
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
		}
	}
	return h, nil
}

// setHousehold sets one of the household's settings.
func (tx *transaction) setHousehold(ctx context.Context, key, value string) error {
	err := tx.exec(ctx, `INSERT INTO household (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = `+
		`excluded.value`, key, value)
	return err
}
