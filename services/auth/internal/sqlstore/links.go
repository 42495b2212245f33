package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// openLink is the condition that a link is open at an instant, its one argument, in Unix seconds: it is unused, not
// void and not expired, and was created by the operator or a user who is an admin now.
const openLink = `used_at IS NULL AND void_at IS NULL AND expires_at > ?
	AND (created_by = 0 OR EXISTS (SELECT 1 FROM users AS creator WHERE creator.id = links.created_by
	AND creator.role = 'admin'))`

// usedLink is the condition that a link was used and has a user: the one whom it created, or whose password it reset.
// An invite or a set-up that was used with an earlier version has none.
const usedLink = `(used_at IS NOT NULL AND user_id IS NOT NULL)`

const linkColumns = `links.id, links.kind, links.user_id, links.username, links.display_name, links.role,
	links.group_slugs, links.created_at, links.expires_at, links.used_at, links.ends_at,
	coalesce((SELECT username FROM users WHERE users.id = links.user_id), ''),
	coalesce((SELECT display_name FROM users WHERE users.id = links.user_id), ''),
	coalesce((SELECT display_name FROM users WHERE users.id = links.created_by), '')`

func scanLink(row sqldb.Scanner) (link.Link, error) {
	var l link.Link
	var userID sql.NullInt64
	var username, displayName string
	err := row.Scan(&l.ID, &l.Kind, &userID, &l.Username, &l.DisplayName, &l.Role, (*slugs)(&l.Groups),
		(*instant)(&l.CreatedAt), (*instant)(&l.ExpiresAt), (*instant)(&l.UsedAt), (*instant)(&l.EndsAt), &username,
		&displayName, &l.CreatorName)
	if userID.Valid {
		l.UserID, l.Username, l.DisplayName = userID.Int64, username, displayName
	}
	return l, orNone(err, link.ErrInvalid)
}

// Links keeps links, and carries out what they are for.
type Links struct{ db *database }

// CreateLink implements people.Links.
func (s *Links) CreateLink(ctx context.Context, l link.Link, hash string, by session.Session) (link.Link, error) {
	var created link.Link
	err := s.db.write(ctx, timeout, "create link", func(ctx context.Context, tx *transaction) error {
		// A newStamp of the same user comes before this, which then sees its stamp, or after, and makes the link void.
		if err := tx.sessionMayAct(ctx, by); err != nil {
			return err
		}
		event, err := s.beforeLink(ctx, tx, l)
		if err != nil {
			return err
		}
		now := s.db.now()
		expires := now.Add(l.Kind.Lifetime()).Unix()
		ends := orNull(l.EndsAt)
		if ends.Valid { // a guest whose time is over cannot join
			expires = min(expires, ends.Int64)
		}
		var id int64
		err = tx.row(ctx, `INSERT INTO links (kind, token_hash, user_id, username, display_name, role, group_slugs,
			created_by, created_at, expires_at, ends_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
			string(l.Kind), hash, sql.NullInt64{Int64: l.UserID, Valid: l.UserID != 0}, l.Username, l.DisplayName,
			l.Role, strings.Join(l.Groups, " "), by.UserID,
			now.Unix(), expires, ends).Scan(&id)
		if err != nil {
			return err
		}
		if created, err = scanLink(tx.row(ctx, `SELECT `+linkColumns+` FROM links WHERE id = ?`, id)); err != nil {
			return err
		}
		return tx.record(ctx, event)
	})
	return created, err
}

// beforeLink checks what a kind of link demands, and returns its audit event. A set-up link makes earlier ones void, a
// reset calls closeResets, an invite neither.
func (s *Links) beforeLink(ctx context.Context, tx *transaction, l link.Link) (audit.Event, error) {
	switch l.Kind {
	case link.Setup:
		if err := tx.isEmpty(ctx); err != nil {
			return audit.Event{}, err
		}
		return audit.Event{Name: "setup_made"}, tx.voidLinks(ctx, `kind = 'setup'`)
	case link.Reset:
		// The weakest lock for which a new password waits: two admins who do this for each other lock both rows, and
		// must not wait for each other.
		if err := tx.lockRow(ctx, l.UserID, "KEY SHARE"); err != nil {
			return audit.Event{}, err
		}
		u, err := tx.user(ctx, l.UserID)
		if err != nil {
			return audit.Event{}, err
		}
		return about("reset_made", u, nil), tx.closeResets(ctx, u.ID)
	default:
		if l.Username != "" {
			err := checkTaken(ctx, tx, l.Username)
			if err == nil {
				err = tx.checkTheirs(ctx, l.Username)
			}
			if err == nil && !l.Former {
				err = checkFormer(ctx, tx, l.Username)
			}
			if err != nil {
				return audit.Event{}, err
			}
		}
		return audit.Event{Name: "invite_made", SubjectName: l.Username, Detail: invited(l)},
			s.groupsExist(ctx, tx, l.Groups)
	}
}

// invited returns the detail of an event about an invite.
func invited(l link.Link) map[string]any {
	detail := map[string]any{"role": l.Role}
	if len(l.Groups) > 0 {
		detail["groups"] = l.Groups
	}
	return detail
}

// groupsExist returns application.ErrGroupNotFound unless all groups exist, and keeps them
// from being removed until the transaction ends.
func (s *Links) groupsExist(ctx context.Context, tx *transaction, groups []string) error {
	if len(groups) == 0 {
		return nil
	}
	if err := tx.lockPolicy(ctx); err != nil {
		return err
	}
	for _, slug := range groups {
		if _, err := tx.groupID(ctx, slug); err != nil {
			return err
		}
	}
	return nil
}

// voidLinks makes the unused links that a condition selects void.
func (tx *transaction) voidLinks(ctx context.Context, where string, args ...any) error {
	return tx.exec(ctx, `UPDATE links SET void_at = ? WHERE used_at IS NULL AND void_at IS NULL AND `+where,
		append([]any{tx.db.now().Unix()}, args...)...)
}

// closeResets makes a user's unused reset links void and closes their request for one. The user's row is locked before:
// of all that locks a user and their reset links, nothing locks a link first.
func (tx *transaction) closeResets(ctx context.Context, id int64) error {
	if err := tx.voidLinks(ctx, `kind = 'reset' AND user_id = ?`, id); err != nil {
		return err
	}
	return tx.exec(ctx,
		`UPDATE user_factors SET reset_asked_at = NULL WHERE user_id = ? AND reset_asked_at IS NOT NULL`, id)
}

// Link implements people.Links.
func (s *Links) Link(ctx context.Context, kind link.Kind, hash string) (link.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l, err := scanLink(s.db.row(ctx, `SELECT `+linkColumns+` FROM links WHERE kind = ? AND token_hash = ? AND (`+
		usedLink+` OR `+openLink+`)`, string(kind), hash, s.db.now().Unix()))
	if err == nil && !l.UsedAt.IsZero() {
		return l, link.ErrUsed
	}
	if kind == link.Setup {
		if err := refuse(ctx, s.db, user.ErrNotEmpty, anyUser); err != nil {
			return link.Link{}, err
		}
	}
	return l, err
}

// Invite implements people.Links.
func (s *Links) Invite(ctx context.Context, id int64) (link.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l, err := scanLink(s.db.row(ctx, `SELECT `+linkColumns+` FROM links WHERE kind = 'invite' AND id = ? AND (`+
		usedLink+` OR `+openLink+`)`, id, s.db.now().Unix()))
	switch {
	case errors.Is(err, link.ErrInvalid):
		return link.Link{}, link.ErrNotFound
	case err == nil && !l.UsedAt.IsZero():
		return l, link.ErrUsed
	}
	return l, err
}

// Invites implements people.Links.
func (s *Links) Invites(ctx context.Context) ([]link.Link, error) {
	return list(ctx, s.db, "list invites", scanLink, `SELECT `+linkColumns+` FROM links WHERE kind = 'invite' AND `+
		openLink+` ORDER BY id DESC`, s.db.now().Unix())
}

// RevokeInvite implements people.Links.
func (s *Links) RevokeInvite(ctx context.Context, id, by int64) error {
	return s.db.write(ctx, timeout, "revoke invite", func(ctx context.Context, tx *transaction) error {
		if err := tx.mayAct(ctx, by); err != nil {
			return err
		}
		now := s.db.now().Unix()
		var username string
		err := tx.row(ctx, `UPDATE links SET void_at = ? WHERE id = ? AND kind = 'invite' AND `+openLink+
			` RETURNING username`, now, id, now).Scan(&username)
		if err != nil {
			return orNone(err, link.ErrNotFound)
		}
		return tx.record(ctx, audit.Event{Name: "invite_revoked", SubjectName: username})
	})
}

// useLink marks an open link as used, in one statement, and returns it: a second use waits for the first one's
// transaction and then finds a used link. link.ErrInvalid, link.ErrUsed.
func (s *Links) useLink(ctx context.Context, tx *transaction, kind link.Kind, hash string) (link.Link, error) {
	now := s.db.now().Unix()
	l, err := scanLink(tx.row(ctx, `UPDATE links SET used_at = ? WHERE kind = ? AND token_hash = ? AND `+openLink+
		` RETURNING `+linkColumns,
		now, string(kind), hash, now))
	if !errors.Is(err, link.ErrInvalid) {
		return l, err
	}
	return link.Link{}, cmp.Or(tx.wasUsed(ctx, kind, hash), err)
}

// wasUsed returns link.ErrUsed for a link that meets usedLink.
func (tx *transaction) wasUsed(ctx context.Context, kind link.Kind, hash string) error {
	return refuse(ctx, tx, link.ErrUsed,
		`SELECT EXISTS (SELECT 1 FROM links WHERE kind = ? AND token_hash = ? AND `+usedLink+`)`, string(kind), hash)
}

// newcomer adds the user whom a link creates, with their first passkey unless key is nil, and keeps in the link who it
// is.
func (tx *transaction) newcomer(
	ctx context.Context, l link.Link, u user.User, key *factor.FirstPasskey,
) (user.User, error) {
	created, err := tx.insert(ctx, u)
	if err == nil && key != nil {
		err = tx.addFirst(ctx, created.ID, *key)
	}
	if err != nil {
		return user.User{}, err
	}
	return created, tx.exec(ctx, `UPDATE links SET user_id = ? WHERE id = ?`, created.ID, l.ID)
}

// Setup implements people.Links.
func (s *Links) Setup(
	ctx context.Context, hash string, n user.New, key *factor.FirstPasskey, household string,
) (user.User, error) {
	var created user.User
	err := s.db.write(ctx, timeout, "set up", func(ctx context.Context, tx *transaction) error {
		if err := tx.isEmpty(ctx); err != nil {
			return cmp.Or(tx.wasUsed(ctx, link.Setup, hash), err)
		}
		l, err := s.useLink(ctx, tx, link.Setup, hash)
		if err != nil {
			return err
		}
		if created, err = tx.newcomer(ctx, l, user.User{New: n}, key); err != nil {
			return err
		}
		if household != "" {
			if err := tx.setHousehold(ctx, householdName, household); err != nil {
				return err
			}
		}
		return tx.record(ctx, about("setup", created, nil))
	})
	return created, err
}

// Join implements people.Links.
func (s *Links) Join(
	ctx context.Context, hash string, n user.New, key *factor.FirstPasskey,
) (user.User, error) {
	var created user.User
	err := s.db.write(ctx, timeout, "accept invite", func(ctx context.Context, tx *transaction) error {
		// Before the link's row: RemoveGroup locks them in this order.
		var groups string
		err := tx.row(ctx, `SELECT group_slugs FROM links WHERE token_hash = ?`, hash).Scan(&groups)
		if err == nil && groups != "" {
			err = tx.lockPolicy(ctx)
		}
		if err := orNone(err, nil); err != nil {
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
		if created, err = tx.newcomer(ctx, l, user.User{New: n, EndsAt: l.EndsAt}, key); err != nil {
			return err
		}
		if chosen {
			if err := checkFormer(ctx, tx, n.Username); err != nil {
				return err
			}
		}
		for _, slug := range l.Groups { // which exist
			err := tx.exec(ctx, `INSERT INTO group_members (group_id, user_id) SELECT id, CAST(? AS BIGINT) FROM `+
				`user_groups WHERE slug = ?`, created.ID, slug)
			if err != nil {
				return err
			}
		}
		return tx.record(ctx, about("invite_accepted", created, invited(l)))
	})
	return created, err
}

// ResetByLink implements people.Links.
func (s *Links) ResetByLink(ctx context.Context, hash, newHash string) (user.Revocation, error) {
	var r user.Revocation
	err := s.db.write(ctx, timeout, "reset password by link", func(ctx context.Context, tx *transaction) error {
		var id sql.NullInt64
		err := tx.row(ctx, `SELECT user_id FROM links WHERE token_hash = ?`, hash).Scan(&id)
		if err == nil {
			err = tx.lockRow(ctx, id.Int64, "UPDATE") // as closeResets demands
		}
		if err := orNone(err, nil); err != nil {
			return err
		}
		l, err := s.useLink(ctx, tx, link.Reset, hash)
		if err != nil {
			return err
		}
		r = user.Revocation{UserID: l.UserID}
		if err := tx.replaceHash(ctx, l.UserID, newHash); err != nil {
			return err
		}
		if err := tx.recordAbout(ctx, "reset_used", l.UserID, nil); err != nil {
			return err
		}
		return tx.recordRevocation(ctx, &r)
	})
	return r, err
}
