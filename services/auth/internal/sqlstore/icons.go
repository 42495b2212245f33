package sqlstore

import (
	"context"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// SetIcon implements policy.Applications.
func (s *Applications) SetIcon(ctx context.Context, slug string, icon application.Icon, by session.Session) error {
	return s.db.changePolicy(ctx, "set icon", by, func(ctx context.Context, tx *transaction) error {
		of, err := s.application(ctx, tx, slug)
		if err != nil || of.Icon == icon.Hash {
			return err
		}
		return s.setIcon(ctx, tx, of, icon)
	})
}

// setIcon replaces the picture of an application, or removes it where icon is the zero value, and records that.
func (s *Applications) setIcon(
	ctx context.Context, tx *transaction, of application.Application, icon application.Icon,
) error {
	if err := tx.exec(ctx, `DELETE FROM application_icons WHERE application_id = ?`, of.ID); err != nil {
		return err
	}
	if icon.Hash != "" {
		err := tx.exec(ctx, `INSERT INTO application_icons (application_id, sha256, png) VALUES (?, ?, ?)`,
			of.ID, icon.Hash, icon.PNG)
		if err != nil {
			return err
		}
	}
	return tx.record(ctx, audit.Event{
		Name: "app_icon_set", Detail: map[string]any{"app": of.Slug, "before": of.Icon, "after": icon.Hash},
	})
}

// Icon implements policy.Applications.
func (s *Applications) Icon(ctx context.Context, hash string) ([]byte, error) {
	png, err := read[[]byte](ctx, s.db, "read icon", `SELECT png FROM application_icons WHERE sha256 = ? LIMIT 1`, hash)
	return png, orNone(err, application.ErrNotFound)
}
