package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// open is the condition of a link that can be used at an instant: nothing else may decide
// it. Its one argument is the instant in Unix seconds.
const openLink = `used_at IS NULL AND void_at IS NULL AND expires_at > ?
	AND (created_by = 0 OR EXISTS (SELECT 1 FROM users AS creator WHERE creator.id = links.created_by AND creator.role = 'admin'))`

const linkColumns = `links.id, links.kind, links.user_id, links.username, links.display_name, links.role, links.group_slugs, links.created_by, links.created_at, links.expires_at,
	coalesce((SELECT username FROM users WHERE users.id = links.user_id), ''),
	coalesce((SELECT display_name FROM users WHERE users.id = links.user_id), ''),
	coalesce((SELECT display_name FROM users WHERE users.id = links.created_by), '')`

func scanLink(row sqldb.Scanner) (link.Link, error) {
	var l link.Link
	var userID sql.NullInt64
	var created, expires int64
	var username, displayName, groups string
	err := row.Scan(&l.ID, &l.Kind, &userID, &l.Username, &l.DisplayName, &l.Role, &groups, &l.CreatedBy, &created, &expires, &username, &displayName, &l.CreatorName)
	if errors.Is(err, sql.ErrNoRows) {
		return link.Link{}, link.ErrInvalid
	}
	if userID.Valid {
		l.UserID, l.Username, l.DisplayName = userID.Int64, username, displayName
	}
	l.Groups = slugs(groups)
	l.CreatedAt, l.ExpiresAt = time.Unix(created, 0).UTC(), time.Unix(expires, 0).UTC()
	return l, err
}

// CreateLink implements people.Links.
func (s *Store) CreateLink(ctx context.Context, l link.Link, hash string, by int64) (link.Link, error) {
	var created link.Link
	err := s.tx(ctx, timeout, "create link", func(ctx context.Context, tx *sql.Tx) error {
		if err := s.mayAct(ctx, tx, by); err != nil {
			return err
		}
		event, err := s.beforeLink(ctx, tx, l)
		if err != nil {
			return err
		}
		now := s.now()
		var id int64
		err = tx.QueryRowContext(ctx, s.db.Rebind(`INSERT INTO links (kind, token_hash, user_id, username, display_name, role, group_slugs, created_by, created_at, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`),
			string(l.Kind), hash, sql.NullInt64{Int64: l.UserID, Valid: l.UserID != 0}, l.Username, l.DisplayName, l.Role, strings.Join(l.Groups, " "), by,
			now.Unix(), now.Add(l.Kind.Lifetime()).Unix()).Scan(&id)
		if err != nil {
			return err
		}
		if created, err = scanLink(tx.QueryRowContext(ctx, s.db.Rebind(`SELECT `+linkColumns+` FROM links WHERE id = ?`), id)); err != nil {
			return err
		}
		return s.record(ctx, tx, event)
	})
	if err != nil {
		return link.Link{}, err
	}
	return created, nil
}

// beforeLink checks what a kind of link demands, makes earlier ones void and returns the
// event.
func (s *Store) beforeLink(ctx context.Context, tx *sql.Tx, l link.Link) (audit.Event, error) {
	switch l.Kind {
	case link.Setup:
		if err := s.isEmpty(ctx, tx); err != nil {
			return audit.Event{}, err
		}
		return audit.Event{Name: "setup_made"}, s.voidLinks(ctx, tx, `kind = 'setup'`)
	case link.Reset:
		u, err := s.one(ctx, tx, byID, l.UserID)
		if err != nil {
			return audit.Event{}, err
		}
		return about("reset_made", u, nil), s.closeResets(ctx, tx, u.ID)
	default:
		if l.Username != "" {
			var taken bool
			err := tx.QueryRowContext(ctx, s.db.Rebind(`SELECT EXISTS (SELECT 1 FROM users WHERE lower(username) = ?)`), strings.ToLower(l.Username)).Scan(&taken)
			if err != nil {
				return audit.Event{}, err
			}
			if taken {
				return audit.Event{}, user.ErrUsernameTaken
			}
			if !l.Former {
				if err := s.checkFormer(ctx, tx, l.Username); err != nil {
					return audit.Event{}, err
				}
			}
		}
		return audit.Event{Name: "invite_made", SubjectName: l.Username, Detail: invited(l)}, s.groupsExist(ctx, tx, l.Groups)
	}
}

// invited returns what the audit holds of an invite.
func invited(l link.Link) map[string]any {
	detail := map[string]any{"role": l.Role}
	if len(l.Groups) > 0 {
		detail["groups"] = l.Groups
	}
	return detail
}

// groupsExist returns application.ErrGroupNotFound unless all groups exist, and keeps them
// from being removed until the transaction ends.
func (s *Store) groupsExist(ctx context.Context, tx *sql.Tx, groups []string) error {
	if len(groups) == 0 {
		return nil
	}
	if err := s.lockPolicy(ctx, tx); err != nil {
		return err
	}
	for _, slug := range groups {
		if _, err := s.groupID(ctx, tx, slug); err != nil {
			return err
		}
	}
	return nil
}

// voidLinks makes the unused links that a condition selects void.
func (s *Store) voidLinks(ctx context.Context, tx *sql.Tx, where string, args ...any) error {
	_, err := tx.ExecContext(ctx, s.db.Rebind(`UPDATE links SET void_at = ? WHERE used_at IS NULL AND void_at IS NULL AND `+where), append([]any{s.now().Unix()}, args...)...)
	return err
}

// closeResets makes a user's reset links void and closes their request for one.
func (s *Store) closeResets(ctx context.Context, tx *sql.Tx, id int64) error {
	if err := s.voidLinks(ctx, tx, `kind = 'reset' AND user_id = ?`, id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, s.db.Rebind(`UPDATE user_factors SET reset_asked_at = NULL WHERE user_id = ? AND reset_asked_at IS NOT NULL`), id)
	return err
}

// Link implements people.Links.
func (s *Store) Link(ctx context.Context, kind link.Kind, hash string) (link.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if kind == link.Setup {
		var some bool
		if err := s.db.Reader.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM users)`).Scan(&some); err != nil {
			return link.Link{}, err
		}
		if some {
			return link.Link{}, user.ErrNotEmpty
		}
	}
	return scanLink(s.db.Reader.QueryRowContext(ctx, s.db.Rebind(`SELECT `+linkColumns+` FROM links WHERE kind = ? AND token_hash = ? AND `+openLink),
		string(kind), hash, s.now().Unix()))
}

// Invites implements people.Links.
func (s *Store) Invites(ctx context.Context) ([]link.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := s.db.Reader.QueryContext(ctx, s.db.Rebind(`SELECT `+linkColumns+` FROM links WHERE kind = 'invite' AND `+openLink+` ORDER BY id DESC`), s.now().Unix())
	return sqldb.All(rows, err, scanLink)
}

// RevokeInvite implements people.Links.
func (s *Store) RevokeInvite(ctx context.Context, id, by int64) error {
	return s.tx(ctx, timeout, "revoke invite", func(ctx context.Context, tx *sql.Tx) error {
		if err := s.mayAct(ctx, tx, by); err != nil {
			return err
		}
		now := s.now().Unix()
		var username string
		err := tx.QueryRowContext(ctx, s.db.Rebind(`UPDATE links SET void_at = ? WHERE id = ? AND kind = 'invite' AND `+openLink+` RETURNING username`), now, id, now).Scan(&username)
		if errors.Is(err, sql.ErrNoRows) {
			return link.ErrNotFound
		}
		if err != nil {
			return err
		}
		return s.record(ctx, tx, audit.Event{Name: "invite_revoked", SubjectName: username})
	})
}

// useLink marks an open link as used and returns it. It is one statement: a second use
// waits for the first one's transaction and then finds a used link. link.ErrInvalid.
func (s *Store) useLink(ctx context.Context, tx *sql.Tx, kind link.Kind, hash string) (link.Link, error) {
	now := s.now().Unix()
	return scanLink(tx.QueryRowContext(ctx, s.db.Rebind(`UPDATE links SET used_at = ? WHERE kind = ? AND token_hash = ? AND `+openLink+` RETURNING `+linkColumns),
		now, string(kind), hash, now))
}

// Setup implements people.Links.
func (s *Store) Setup(ctx context.Context, hash string, n user.New, household string) (user.User, error) {
	var created user.User
	err := s.tx(ctx, timeout, "set up", func(ctx context.Context, tx *sql.Tx) error {
		if err := s.isEmpty(ctx, tx); err != nil {
			return err
		}
		if _, err := s.useLink(ctx, tx, link.Setup, hash); err != nil {
			return err
		}
		var err error
		if created, err = s.insert(ctx, tx, user.User{New: n}); err != nil {
			return err
		}
		if household != "" {
			if err := s.setHousehold(ctx, tx, householdName, household); err != nil {
				return err
			}
		}
		return s.record(ctx, tx, about("setup", created, nil))
	})
	return created, err
}

// Join implements people.Links.
func (s *Store) Join(ctx context.Context, hash string, n user.New) (user.User, error) {
	var created user.User
	err := s.tx(ctx, timeout, "accept invite", func(ctx context.Context, tx *sql.Tx) error {
		// Before the link's row: RemoveGroup locks them in this order.
		var groups string
		err := tx.QueryRowContext(ctx, s.db.Rebind(`SELECT group_slugs FROM links WHERE token_hash = ?`), hash).Scan(&groups)
		if err == nil && groups != "" {
			err = s.lockPolicy(ctx, tx)
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		l, err := s.useLink(ctx, tx, link.Invite, hash)
		if err != nil {
			return err
		}
		chosen := l.Username == ""
		if !chosen {
			n.Username = l.Username
		}
		n.Role = user.Role(l.Role)
		if created, err = s.insert(ctx, tx, user.User{New: n}); err != nil {
			return err
		}
		if chosen {
			if err := s.checkFormer(ctx, tx, n.Username); err != nil {
				return err
			}
		}
		for _, slug := range l.Groups { // which exist
			_, err := tx.ExecContext(ctx, s.db.Rebind(`INSERT INTO group_members (group_id, user_id) SELECT id, CAST(? AS BIGINT) FROM user_groups WHERE slug = ?`), created.ID, slug)
			if err != nil {
				return err
			}
		}
		return s.record(ctx, tx, about("invite_accepted", created, invited(l)))
	})
	return created, err
}

// ResetByLink implements people.Links.
func (s *Store) ResetByLink(ctx context.Context, hash, newHash string) (user.Revocation, error) {
	var r user.Revocation
	err := s.tx(ctx, timeout, "reset password by link", func(ctx context.Context, tx *sql.Tx) error {
		l, err := s.useLink(ctx, tx, link.Reset, hash)
		if err != nil {
			return err
		}
		r = user.Revocation{UserID: l.UserID}
		if err := s.replaceHash(ctx, tx, l.UserID, newHash); err != nil {
			return err
		}
		if err := s.recordAbout(ctx, tx, "reset_used", l.UserID, nil); err != nil {
			return err
		}
		return s.recordRevocation(ctx, tx, &r)
	})
	return r, err
}
