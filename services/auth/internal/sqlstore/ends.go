package sqlstore

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// An act that ends grants does so in its own transaction, by endGrants. Before that, in a statement of its own, it
// changes or locks the row of the user or of the application, and a grant is created while both rows are locked: of
// the two transactions, the later one sees what the earlier one did. EndClosed and SweepGrants alone lock nothing:
// their next calls end what they missed.

// enoughFactor is the condition that the login of a grant had the factor that its application demands.
const enoughFactor = `(NOT applications.second_factor OR oidc_grants.factor NOT IN ('', 'pwd'))`

// endedAtOnce is for how many grants at most one statement queues logouts.
const endedAtOnce = 200

// endGrants ends the grants that a condition selects and that have not ended, and returns how many. It queues logouts
// for the applications with an address for them, unless the reason is oidc.EndedByClient.
func (tx *transaction) endGrants(ctx context.Context, reason, where string, args ...any) (int, error) {
	now := tx.db.now().Unix()
	ids, err := all(ctx, tx, scanID, `UPDATE oidc_grants SET ended_at = ?, reason = ? WHERE ended_at IS NULL AND (`+
		where+`) RETURNING id`, append([]any{now, reason}, args...)...)
	if err != nil || reason == oidc.EndedByClient { // the application ended it itself
		return len(ids), err
	}
	for chunk := range slices.Chunk(ids, endedAtOnce) {
		err := tx.exec(ctx, `INSERT INTO oidc_logouts
			(application_id, client_id, alg, sub, sid, uri, due_at, created_at)
			SELECT oidc_clients.application_id, oidc_clients.client_id, oidc_clients.alg, coalesce(users.subject, ''),
				oidc_grants.id, oidc_clients.logout_uri, CAST(? AS BIGINT), CAST(? AS BIGINT)
			FROM oidc_grants JOIN oidc_clients ON oidc_clients.application_id = oidc_grants.application_id
			JOIN users ON users.id = oidc_grants.user_id
			WHERE oidc_clients.logout_uri <> '' AND oidc_grants.id IN (?`+strings.Repeat(`, ?`, len(chunk)-1)+`)`,
			append([]any{now, now}, chunk...)...)
		if err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

// endGrantsAt ends the grants at an application, as endGrants does. It locks the application's row, so that a grant
// under way comes before and is ended, or after. SQLite has one writer and needs no lock.
func (tx *transaction) endGrantsAt(ctx context.Context, application int64, reason string) error {
	if tx.db.Dialect == sqldb.Postgres {
		if err := tx.exec(ctx, `SELECT 1 FROM applications WHERE id = ? FOR UPDATE`, application); err != nil {
			return err
		}
	}
	_, err := tx.endGrants(ctx, reason, `application_id = ?`, application)
	return err
}

// scanID reads the id of a grant as an argument of a later query.
func scanID(row sqldb.Scanner) (any, error) {
	var id string
	err := row.Scan(&id)
	return id, err
}

// endUnadmitted ends the grants whose application does not admit the user, or demands a second factor that the login
// did not have.
func (tx *transaction) endUnadmitted(ctx context.Context) error {
	_, err := tx.endGrants(ctx, oidc.EndedByRule, `NOT EXISTS (SELECT 1 FROM applications, users
		WHERE applications.id = oidc_grants.application_id AND users.id = oidc_grants.user_id
		AND `+permits+` AND `+enoughFactor+`)`)
	return err
}

// EndLogin implements account.Users.
func (s *Users) EndLogin(ctx context.Context, id int64, login string) error {
	some, err := read[bool](ctx, s.db, "read clients", `SELECT EXISTS (SELECT 1 FROM oidc_clients)`)
	if err != nil || !some { // then no code is under way either
		return err
	}
	return s.db.write(ctx, timeout, "end login", func(ctx context.Context, tx *transaction) error {
		if _, err := tx.lockUser(ctx, id); errors.Is(err, user.ErrNotFound) {
			return nil // the grants are gone with the user
		} else if err != nil {
			return err
		}
		err := tx.exec(ctx, `INSERT INTO oidc_ended_logins (login, ended_at) VALUES (?, ?)
			ON CONFLICT (login) DO UPDATE SET ended_at = excluded.ended_at`, login, s.db.now().Unix())
		if err != nil {
			return err
		}
		_, err = tx.endGrants(ctx, oidc.EndedByLogout, `login = ? AND NOT offline`, login)
		return err
	})
}
