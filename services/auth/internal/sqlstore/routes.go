package sqlstore

import (
	"context"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
)

// setRoute replaces the route of an application, or removes it where r is the zero value, and records that.
func (s *Applications) setRoute(
	ctx context.Context, tx *transaction, of application.Application, r application.Route, by int64,
) error {
	if err := tx.exec(ctx, `DELETE FROM application_routes WHERE application_id = ?`, of.ID); err != nil {
		return err
	}
	if r != (application.Route{}) {
		err := tx.exec(ctx, `INSERT INTO application_routes
			(application_id, upstream, strip, user_header, tls_pin, recipe, changed_at, changed_by)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			of.ID, r.Upstream, r.Strip, r.UserHeader, r.Pin, r.Recipe, s.db.now().Unix(), by)
		if err != nil {
			return err
		}
	}
	return tx.record(ctx, audit.Event{Name: "app_route_set", Detail: map[string]any{
		"app": of.Slug, "before": routeOf(of.Route), "after": routeOf(r),
	}})
}

// routeOf returns a route as the audit shows it; nil for the zero value.
func routeOf(r application.Route) map[string]any {
	if r == (application.Route{}) {
		return nil
	}
	detail := map[string]any{"upstream": r.Upstream, "strip": r.Strip}
	if r.UserHeader != "" {
		detail["user_header"] = r.UserHeader
	}
	if r.Pin != "" {
		detail["pin"] = r.Pin
	}
	return detail
}

// PinRoute implements policy.Applications.
func (s *Applications) PinRoute(ctx context.Context, slug, upstream, pin string) error {
	return s.db.write(ctx, timeout, "pin route", func(ctx context.Context, tx *transaction) error {
		if err := tx.lockPolicy(ctx); err != nil {
			return err
		}
		of, err := s.application(ctx, tx, slug)
		if err != nil || of.Route.Upstream != upstream || of.Route.Pin != "" {
			return err
		}
		r := of.Route
		r.Pin = pin
		err = tx.exec(ctx, `UPDATE application_routes SET tls_pin = ? WHERE application_id = ?`, pin, of.ID)
		if err != nil {
			return err
		}
		return tx.record(ctx, audit.Event{Name: "app_route_set", Detail: map[string]any{
			"app": slug, "before": routeOf(of.Route), "after": routeOf(r),
		}})
	})
}

// SetReached implements policy.Applications.
func (s *Applications) SetReached(ctx context.Context, id int64) error {
	return s.db.exec(ctx, "application is reached",
		`UPDATE applications SET reached = TRUE WHERE id = ? AND NOT reached`, id)
}
