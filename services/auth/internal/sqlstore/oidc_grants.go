package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/tracing"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Grants keeps the grants of the OpenID Connect provider.
type Grants struct {
	db   *database
	held *sqldb.Query // for Held
}

// isOpen is the condition that a user's account is open at an instant, ?, in Unix seconds.
const isOpen = `users.disabled_at IS NULL AND (users.ends_at IS NULL OR users.ends_at > ?)`

// permits is the condition that an application's rule admits a user, as Application.Permits of package application.
const permits = `(applications.rule = 'login' OR applications.rule = 'admin' AND users.role = 'admin'
	OR applications.rule = 'group' AND EXISTS (SELECT 1 FROM group_members
	WHERE group_members.group_id = applications.group_id AND group_members.user_id = users.id))`

// personColumns are what personDest takes: what an application may learn of a user, and the user's session stamp.
const personColumns = `users.id, users.username, users.display_name, users.role, users.session_stamp,
	coalesce(users.subject, ''), coalesce(users.email, ''), users.email_confirmed_at, ` + groupsOf

func personDest(p *oidc.Person) []any {
	return []any{
		&p.User.ID, &p.User.Username, &p.User.DisplayName, &p.User.Role, &p.User.SessionStamp, &p.Subject,
		&p.Email.Address, (*instant)(&p.Email.ConfirmedAt), (*slugs)(&p.Groups),
	}
}

// Person implements oidc.Grants.
func (s *Grants) Person(
	ctx context.Context, userID, applicationID int64,
) (p oidc.Person, secondFactor bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx, span := tracing.Call(ctx, "sql", "read person")
	defer span.End("")
	var admitted bool
	now := s.db.now().Unix()
	err = s.db.row(ctx, `SELECT `+personColumns+`, applications.second_factor, `+permits+`
		FROM users, applications WHERE users.id = ? AND applications.id = ? AND `+isOpen,
		userID, applicationID, now).Scan(append(personDest(&p), &secondFactor, &admitted)...)
	switch err = found(err, "read person", user.ErrNotFound); {
	case err != nil:
		return oidc.Person{}, false, err
	case !admitted:
		return p, secondFactor, oidc.ErrNotAdmitted
	case p.Subject == "":
		p.Subject, err = s.db.subject(ctx, userID)
	}
	return p, secondFactor, err
}

// grantColumns are what grantDest takes.
const grantColumns = `oidc_grants.id, oidc_grants.application_id, oidc_grants.user_id, oidc_grants.login,
	oidc_grants.stamp, oidc_grants.scopes, oidc_grants.offline, oidc_grants.auth_time, oidc_grants.factor,
	oidc_grants.generation, oidc_grants.rotated_at, oidc_grants.created_at, oidc_grants.last_used_at`

func grantDest(g *oidc.Grant) []any {
	return []any{
		&g.ID, &g.ApplicationID, &g.UserID, &g.Login, &g.Stamp, (*scopes)(&g.Scopes), &g.Offline,
		(*instant)(&g.AuthTime), &g.Factor, &g.Generation, (*instant)(&g.RotatedAt), (*instant)(&g.CreatedAt),
		(*instant)(&g.LastUsedAt),
	}
}

// scopes are stored as a list that is separated by spaces, in their order.
type scopes []string

// Scan implements sql.Scanner.
func (s *scopes) Scan(stored any) error {
	var list sql.NullString
	err := list.Scan(stored)
	*s = strings.Fields(list.String)
	return err
}

// live is the condition that a grant holds at an instant, its one argument, in Unix seconds: it has not ended, the
// user's session stamp is the grant's and the account is open, and the application admits the user and the factor.
const live = `oidc_grants.ended_at IS NULL AND users.session_stamp = oidc_grants.stamp
	AND ` + isOpen + ` AND ` + permits + ` AND ` + enoughFactor

const selectHeld = `SELECT ` + grantColumns + `, ` + personColumns + `, ` + clientColumns + ` FROM oidc_grants
	JOIN users ON users.id = oidc_grants.user_id
	JOIN applications ON applications.id = oidc_grants.application_id
	JOIN oidc_clients ON oidc_clients.application_id = applications.id
	WHERE oidc_grants.id = ? AND ` + live

func scanHeld(row sqldb.Scanner) (h oidc.Held, err error) {
	err = row.Scan(slices.Concat(grantDest(&h.Grant), personDest(&h.Person), clientDest(&h.Client))...)
	return h, found(err, "read grant", oidc.ErrGrantEnded)
}

// Held implements oidc.Grants.
func (s *Grants) Held(ctx context.Context, id string) (oidc.Held, error) {
	if !isText(id) {
		return oidc.Held{}, oidc.ErrGrantEnded
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx, span := tracing.Call(ctx, "sql", "read grant")
	defer span.End("")
	return scanHeld(s.held.Row(ctx, id, s.db.now().Unix()))
}

// CreateGrant implements oidc.Grants.
func (s *Grants) CreateGrant(ctx context.Context, g oidc.Grant) (held oidc.Held, err error) {
	err = s.db.writeRelaxed(ctx, "create grant", func(ctx context.Context, tx *transaction) error {
		// What the grant rests on is locked by statements of their own: the next one sees what they have waited for.
		if err := tx.lockForGrant(ctx, g); err != nil {
			return err
		}
		now := s.db.now().Unix()
		n, err := tx.changed(ctx, `INSERT INTO oidc_grants (id, application_id, user_id, login, stamp, scopes, offline,
			auth_time, factor, created_at, last_used_at)
			SELECT CAST(? AS TEXT), applications.id, users.id, CAST(? AS TEXT), users.session_stamp, CAST(? AS TEXT),
			CAST(? AS BOOLEAN), CAST(? AS BIGINT), CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS BIGINT)
			FROM users, applications JOIN oidc_clients ON oidc_clients.application_id = applications.id
			WHERE users.id = ? AND applications.id = ? AND users.session_stamp = ? AND users.subject IS NOT NULL
			AND `+isOpen+` AND `+permits+` AND (NOT applications.second_factor OR CAST(? AS TEXT) NOT IN ('', 'pwd'))
			AND NOT EXISTS (SELECT 1 FROM oidc_ended_logins WHERE login = ?) ON CONFLICT (id) DO NOTHING`,
			g.ID, g.Login, strings.Join(g.Scopes, " "), g.Offline, g.AuthTime.Unix(), string(g.Factor), now, now,
			g.UserID, g.ApplicationID, g.Stamp, now, string(g.Factor), g.Login)
		if err != nil {
			return err
		}
		if n == 0 {
			return oidc.ErrNotAdmitted
		}
		if err := tx.limitGrants(ctx, g); err != nil {
			return err
		}
		n, err = tx.changed(ctx, `INSERT INTO oidc_first_logins (application_id, user_id, at) VALUES (?, ?, ?)
			ON CONFLICT DO NOTHING`, g.ApplicationID, g.UserID, now)
		if err != nil {
			return err
		}
		if held, err = scanHeld(tx.row(ctx, selectHeld, g.ID, now)); err != nil || n == 0 {
			return err
		}
		return tx.record(ctx, about("oidc_first_login", held.Person.User, map[string]any{
			"app": held.Client.Slug, "name": held.Client.Name, "scopes": strings.Join(g.Scopes, " "),
			"groups": held.Client.TellsGroups(g.Scopes),
		}))
	})
	return held, err
}

// lockForGrant locks the rows of the user and the application, so that a logout, a deletion and a change of the rule
// come before the grant or after it, and of many grants at once of a user no more than permitted stay.
// oidc.ErrNotAdmitted if the user or the application is gone. On SQLite, which has one writer, it does nothing.
func (tx *transaction) lockForGrant(ctx context.Context, g oidc.Grant) error {
	if tx.db.Dialect != sqldb.Postgres {
		return nil
	}
	for _, lock := range []struct {
		query string
		id    int64
	}{
		{`SELECT id FROM users WHERE id = ? FOR NO KEY UPDATE`, g.UserID},
		{`SELECT id FROM applications WHERE id = ? FOR SHARE`, g.ApplicationID},
	} {
		var id int64
		if err := tx.row(ctx, lock.query, lock.id).Scan(&id); err != nil {
			return orNone(err, oidc.ErrNotAdmitted)
		}
	}
	return nil
}

// tooMany returns the query for the ids of the grants that a new one makes too many: of those that meet a condition and
// have not ended, without the new one, all but the permitted-1 newest. Its arguments are the condition's and the new
// id. SQLite has an OFFSET only after a LIMIT, so there is one, too high to matter.
func tooMany(which string, permitted int) string {
	return fmt.Sprintf(`SELECT id FROM oidc_grants WHERE ended_at IS NULL AND %s AND id <> ?
		ORDER BY created_at DESC, id DESC LIMIT 10000 OFFSET %d`, which, permitted-1)
}

var (
	tooManyOfLogin = tooMany(`login = ? AND application_id = ? AND user_id = ?`, oidc.MaxGrantsPerLogin)
	tooManyOfUser  = tooMany(`user_id = ?`, oidc.MaxGrantsPerUser)
)

// limitGrants ends the grants of a user, and of a login at an application, that a new one makes too many.
func (tx *transaction) limitGrants(ctx context.Context, g oidc.Grant) error {
	if err := tx.endFound(ctx, tooManyOfLogin, g.Login, g.ApplicationID, g.UserID, g.ID); err != nil {
		return err
	}
	return tx.endFound(ctx, tooManyOfUser, g.UserID, g.ID)
}

// endFound ends the grants whose ids a query of tooMany finds. It passes the ids as arguments: with a subquery SQLite
// would search the index of all grants that have not ended.
func (tx *transaction) endFound(ctx context.Context, query string, args ...any) error {
	ids, err := all(ctx, tx, scanID, query, args...)
	if err != nil || len(ids) == 0 {
		return err
	}
	_, err = tx.endGrants(ctx, oidc.EndedLimit, `id IN (?`+strings.Repeat(`, ?`, len(ids)-1)+`)`, ids...)
	return err
}

// Rotate implements oidc.Grants.
func (s *Grants) Rotate(ctx context.Context, id string, generation int64) (rotated bool, err error) {
	err = s.db.write(ctx, timeout, "rotate grant", func(ctx context.Context, tx *transaction) error {
		now := s.db.now().Unix()
		n, err := tx.changed(ctx, `UPDATE oidc_grants SET generation = generation + 1, rotated_at = ?, last_used_at = ?
			WHERE id = ? AND generation = ? AND ended_at IS NULL`, now, now, id, generation)
		rotated = n == 1
		return err
	})
	return rotated, err
}

// Used implements oidc.Grants.
func (s *Grants) Used(ctx context.Context, id string) error {
	return s.db.writeRelaxed(ctx, "record use of a grant", func(ctx context.Context, tx *transaction) error {
		now := s.db.now()
		return tx.exec(ctx, `UPDATE oidc_grants SET last_used_at = ? WHERE id = ? AND last_used_at <= ?`, now.Unix(),
			id, now.Add(-time.Hour).Unix())
	})
}

// Connections implements oidc.Grants.
func (s *Grants) Connections(ctx context.Context, userID, applicationID int64) ([]oidc.Connection, error) {
	return list(ctx, s.db, "list grants", func(row sqldb.Scanner) (c oidc.Connection, err error) {
		err = row.Scan(append(grantDest(&c.Grant), &c.Slug, &c.Name, &c.Username)...)
		return c, err
	}, `SELECT `+grantColumns+`, applications.slug, applications.name, users.username FROM oidc_grants
		JOIN users ON users.id = oidc_grants.user_id
		JOIN applications ON applications.id = oidc_grants.application_id
		WHERE (users.id = ? OR ? = 0) AND (applications.id = ? OR ? = 0) AND `+live+`
		ORDER BY oidc_grants.created_at DESC, oidc_grants.id LIMIT 1000`,
		userID, userID, applicationID, applicationID, s.db.now().Unix())
}

// EndGrant implements oidc.Grants.
func (s *Grants) EndGrant(ctx context.Context, id, reason string) error {
	_, err := s.end(ctx, id, reason, func(context.Context, *transaction, int64) error { return nil })
	return err
}

// EndConnection implements oidc.Grants.
func (s *Grants) EndConnection(ctx context.Context, id string, by int64) error {
	found, err := s.end(ctx, id, oidc.EndedByUser, func(ctx context.Context, tx *transaction, owner int64) error {
		if by == owner {
			return nil
		}
		err := tx.mayAct(ctx, by)
		if errors.Is(err, user.ErrNotAdmin) {
			return oidc.ErrNoConnection
		}
		return err
	})
	if err == nil && !found {
		return oidc.ErrNoConnection
	}
	return err
}

// end ends a grant if may returns nil for its user, and reports whether the grant exists.
func (s *Grants) end(
	ctx context.Context, id, reason string, may func(context.Context, *transaction, int64) error,
) (found bool, err error) {
	if !isText(id) {
		return false, nil
	}
	err = s.db.write(ctx, timeout, "end grant", func(ctx context.Context, tx *transaction) error {
		found = false // a transaction may run again
		var owner int64
		var slug string
		err := tx.row(ctx, `SELECT user_id, applications.slug FROM oidc_grants
			JOIN applications ON applications.id = oidc_grants.application_id WHERE oidc_grants.id = ?`,
			id).Scan(&owner, &slug)
		if err != nil {
			return orNone(err, nil)
		}
		u, err := tx.lockUser(ctx, owner)
		if errors.Is(err, user.ErrNotFound) { // and the grant with them
			return nil
		}
		if err != nil {
			return err
		}
		found = true
		if err := may(ctx, tx, u.ID); err != nil {
			return err
		}
		n, err := tx.endGrants(ctx, reason, `id = ?`, id)
		if err != nil || n == 0 {
			return err
		}
		return tx.record(ctx, endOf(reason, u, map[string]any{"app": slug, "reason": reason}))
	})
	return found, err
}

// endOf returns the event that a grant ended for a reason.
func endOf(reason string, u user.User, detail map[string]any) audit.Event {
	switch reason {
	case oidc.EndedCode:
		return about("oidc_code_reused", u, detail)
	case oidc.EndedRefresh:
		return about("oidc_refresh_reused", u, detail)
	default:
		return about("oidc_disconnected", u, detail)
	}
}

// SweepGrants implements oidc.Grants.
func (s *Grants) SweepGrants(ctx context.Context) error {
	return s.db.write(ctx, sweepTimeout, "sweep grants", func(ctx context.Context, tx *transaction) error {
		now := s.db.now()
		const old = `last_used_at < ? OR created_at < ?`
		ages := []any{
			now.Add(-oidc.RefreshIdle - oidc.KeepEnded).Unix(), now.Add(-oidc.RefreshLifetime - oidc.KeepEnded).Unix(),
		}
		// The tokens of such a grant have expired, and the application's own session may be open. No later logout would
		// find the grant.
		if _, err := tx.endGrants(ctx, oidc.EndedByAge, old, ages...); err != nil {
			return err
		}
		err := tx.exec(ctx, `DELETE FROM oidc_grants WHERE `+old+` OR ended_at < ?`,
			append(ages, now.Add(-oidc.KeepEnded).Unix())...)
		if err != nil {
			return err
		}
		return tx.exec(ctx, `DELETE FROM oidc_ended_logins WHERE ended_at < ?`,
			now.Add(-oidc.KeepEndedLogins).Unix())
	})
}
