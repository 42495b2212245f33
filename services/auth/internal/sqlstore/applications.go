package sqlstore

import (
	"context"
	"database/sql"

	"github.com/pforte/pforte/pkg/sqldb"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
)

const selectApplication = `SELECT applications.id, applications.slug, applications.name, description, url, rule,
	coalesce(user_groups.slug, ''), second_factor, tokens, color, position, reached,
	coalesce(application_routes.upstream, ''), coalesce(application_routes.strip, FALSE),
	coalesce(application_routes.user_header, ''), coalesce(application_routes.tls_pin, ''),
	coalesce(application_routes.recipe, ''), coalesce(application_icons.sha256, '')
	FROM applications LEFT JOIN user_groups ON user_groups.id = applications.group_id
	LEFT JOIN application_routes ON application_routes.application_id = applications.id
	LEFT JOIN application_icons ON application_icons.application_id = applications.id`

func scanApplication(row sqldb.Scanner) (application.Application, error) {
	var a application.Application
	err := row.Scan(&a.ID, &a.Slug, &a.Name, &a.Description, &a.URL, &a.Rule, &a.Group, &a.SecondFactor, &a.Tokens,
		&a.Color, &a.Position, &a.Reached, &a.Route.Upstream, &a.Route.Strip, &a.Route.UserHeader, &a.Route.Pin,
		&a.Route.Recipe, &a.Icon)
	return a, orNone(err, application.ErrNotFound)
}

// changePolicy runs do, on behalf of by as in sessionMayAct, while no other transaction changes applications or groups.
// After do it calls endUnadmitted. user.ErrNotAdmin, session.ErrNotFound.
func (d *database) changePolicy(
	ctx context.Context, what string, by session.Session, do func(context.Context, *transaction) error,
) error {
	return d.write(ctx, timeout, what, func(ctx context.Context, tx *transaction) error {
		if err := tx.sessionMayAct(ctx, by); err != nil {
			return err
		}
		if err := tx.lockPolicy(ctx); err != nil {
			return err
		}
		if err := do(ctx, tx); err != nil {
			return err
		}
		return tx.endUnadmitted(ctx)
	})
}

// lockPolicy keeps other transactions from changing applications until this one ends. Those that change groups, or add
// members to them, call it too, and so wait as well.
func (tx *transaction) lockPolicy(ctx context.Context) error { return tx.lock(ctx, "applications") }

// Applications keeps applications.
type Applications struct{ db *database }

// Applications implements policy.Applications.
func (s *Applications) Applications(ctx context.Context) ([]application.Application, error) {
	return list(ctx, s.db, "list applications", scanApplication,
		selectApplication+` ORDER BY position, lower(applications.name), applications.id`)
}

// CreateApplication implements policy.Applications.
func (s *Applications) CreateApplication(
	ctx context.Context, a application.Application, icon application.Icon, by session.Session,
) error {
	return s.db.changePolicy(ctx, "create application", by, func(ctx context.Context, tx *transaction) error {
		err := refuse(ctx, tx, application.ErrTooMany, `SELECT count(*) >= ? FROM applications`,
			application.MaxApplications)
		if err != nil {
			return err
		}
		if err := s.isFree(ctx, tx, a); err != nil {
			return err
		}
		group, err := s.ruleGroup(ctx, tx, a)
		if err != nil {
			return err
		}
		err = tx.exec(ctx, `INSERT INTO applications (slug, name, description, url, rule, group_id, second_factor,
			tokens, color, position, reached)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			a.Slug, a.Name, a.Description, a.URL, string(a.Rule), group, a.SecondFactor, a.Tokens, a.Color, a.Position,
			a.Reached)
		if err != nil {
			return err
		}
		if err := tx.record(ctx, audit.Event{Name: "app_made", Detail: policyOf(a)}); err != nil {
			return err
		}
		created, err := s.application(ctx, tx, a.Slug)
		if err == nil && a.Route != (application.Route{}) {
			err = s.setRoute(ctx, tx, created, a.Route, by.UserID)
		}
		if err == nil && icon.Hash != "" {
			err = s.setIcon(ctx, tx, created, icon)
		}
		return err
	})
}

// policyOf returns the detail of an event about an application: its address, and who may use it.
func policyOf(a application.Application) map[string]any {
	policy := map[string]any{
		"app": a.Slug, "url": a.URL, "rule": a.Rule, "second_factor": a.SecondFactor, "tokens": a.Tokens,
	}
	if a.Group != "" {
		policy["group"] = a.Group
	}
	return policy
}

// isFree returns application.ErrSlugTaken or application.ErrURLTaken when another application has a's slug or URL.
func (s *Applications) isFree(ctx context.Context, tx *transaction, a application.Application) error {
	err := refuse(ctx, tx, application.ErrSlugTaken,
		`SELECT EXISTS (SELECT 1 FROM applications WHERE slug = ? AND id <> ?)`, a.Slug, a.ID)
	if err != nil {
		return err
	}
	return refuse(ctx, tx, application.ErrURLTaken,
		`SELECT EXISTS (SELECT 1 FROM applications WHERE url = ? AND id <> ?)`, a.URL, a.ID)
}

// ruleGroup returns the id of the group that a's rule names; NULL for another rule. application.ErrGroupNotFound.
func (s *Applications) ruleGroup(
	ctx context.Context, tx *transaction, a application.Application,
) (id sql.NullInt64, err error) {
	if a.Rule != application.Group {
		return id, nil
	}
	id.Int64, err = tx.groupID(ctx, a.Group)
	id.Valid = err == nil
	return id, err
}

func (s *Applications) application(ctx context.Context, tx *transaction, slug string) (application.Application, error) {
	if !isText(slug) {
		return application.Application{}, application.ErrNotFound
	}
	return scanApplication(tx.row(ctx, selectApplication+` WHERE applications.slug = ?`, slug))
}

// ChangeApplication implements policy.Applications.
func (s *Applications) ChangeApplication(
	ctx context.Context, slug string, change func(*application.Application) error, by session.Session,
) error {
	return s.db.changePolicy(ctx, "change application", by, func(ctx context.Context, tx *transaction) error {
		before, err := s.application(ctx, tx, slug)
		if err != nil {
			return err
		}
		a := before
		if err := change(&a); err != nil {
			return err
		}
		a.ID, a.Reached, a.Icon = before.ID, before.Reached, before.Icon
		if a.Route != before.Route {
			if err := s.setRoute(ctx, tx, before, a.Route, by.UserID); err != nil {
				return err
			}
		}
		if a.Route = before.Route; a == before {
			return nil
		}
		if err := s.isFree(ctx, tx, a); err != nil {
			return err
		}
		group, err := s.ruleGroup(ctx, tx, a)
		if err != nil {
			return err
		}
		err = tx.update(ctx, `UPDATE applications SET slug = ?, name = ?, description = ?, url = ?, rule = ?, `+
			`group_id = ?, second_factor = ?, tokens = ?, color = ?, position = ? WHERE id = ?`,
			a.Slug, a.Name, a.Description, a.URL, string(a.Rule), group, a.SecondFactor, a.Tokens, a.Color, a.Position,
			a.ID)
		if err != nil {
			return err
		}
		return tx.record(ctx, audit.Event{
			Name: "app_changed", Detail: map[string]any{"before": policyOf(before), "after": policyOf(a)},
		})
	})
}

// RemoveApplication implements policy.Applications.
func (s *Applications) RemoveApplication(ctx context.Context, slug string, by session.Session) error {
	return s.db.changePolicy(ctx, "remove application", by, func(ctx context.Context, tx *transaction) error {
		a, err := s.application(ctx, tx, slug)
		if err != nil {
			return err
		}
		if err := tx.endGrantsAt(ctx, a.ID, oidc.EndedRemoved); err != nil {
			return err
		}
		if err := tx.update(ctx, `DELETE FROM applications WHERE id = ?`, a.ID); err != nil {
			return err
		}
		return tx.record(ctx, audit.Event{Name: "app_removed", Detail: policyOf(a)})
	})
}
