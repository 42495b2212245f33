package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// about returns an event whose subject is a user.
func about(name string, u user.User, detail map[string]any) audit.Event {
	return audit.Event{Name: name, SubjectID: u.ID, SubjectName: u.Username, Detail: detail}
}

// recordAbout is record for an event whose subject is the user of an id, who exists.
func (s *store) recordAbout(ctx context.Context, tx *sql.Tx, event string, id int64, detail map[string]any) error {
	u, err := s.one(ctx, tx, byID, id)
	if err != nil {
		return err
	}
	return s.record(ctx, tx, about(event, u, detail))
}

// record writes the row of an event of the context's actor, or counts it with those of
// the same bucket.
func (s *store) record(ctx context.Context, tx *sql.Tx, e audit.Event) error {
	detail := ""
	if e.Detail != nil {
		encoded, err := json.Marshal(e.Detail)
		if err != nil {
			return fmt.Errorf("encode detail of %s: %w", e.Name, err)
		}
		detail = string(encoded)
	}
	by := audit.From(ctx)
	_, err := tx.ExecContext(ctx, s.db.Rebind(`INSERT INTO audit
		(at, event, actor_kind, actor_id, actor_name, subject_id, subject_name, ip, agent, request_id, session_key, detail, bucket)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (bucket) DO UPDATE SET count = audit.count + 1, at = excluded.at`),
		s.now().Unix(), e.Name, string(by.Kind), by.ID, by.Name, e.SubjectID, e.SubjectName, by.IP, by.Agent, by.RequestID, by.SessionKey, detail,
		sql.NullString{String: e.Bucket, Valid: e.Bucket != ""})
	if err != nil {
		return fmt.Errorf("record %s: %w", e.Name, err)
	}
	return nil
}
