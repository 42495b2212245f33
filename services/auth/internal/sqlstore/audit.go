package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// about returns an event whose subject is a user.
func about(name string, u user.User, detail map[string]any) audit.Event {
	return audit.Event{Name: name, SubjectID: u.ID, SubjectName: u.Username, Detail: detail}
}

// recordAbout is record for an event whose subject is the user of an id, who exists.
func (s *Store) recordAbout(ctx context.Context, tx *sql.Tx, event string, id int64, detail map[string]any) error {
	u, err := s.one(ctx, tx, byID, id)
	if err != nil {
		return err
	}
	return s.record(ctx, tx, about(event, u, detail))
}

// repeated returns the bucket of an event that its user can cause again and again without
// another person: an act on their own account. Those of an hour, network and browser are one
// row, so that no user can fill the disk. "" for all other events; for a new passkey or one
// that is removed, which are limited and worth their names; and for admins who change their
// own groups, which opens applications to them.
func (s *Store) repeated(by audit.Actor, e audit.Event) string {
	own := by.Kind == audit.Anonymous || by.Kind == audit.User && by.ID == e.SubjectID
	if !own || e.SubjectID == 0 || slices.Contains([]string{"passkey_added", "passkey_removed", "groups_changed"}, e.Name) {
		return ""
	}
	return fmt.Sprintf("%s %d %d %s %s", e.Name, s.now().Truncate(time.Hour).Unix(), e.SubjectID, by.Network, by.Agent)
}

// record writes the row of an event of the context's actor, or counts it with those of
// the same bucket, of which the row then tells the last.
func (s *Store) record(ctx context.Context, tx *sql.Tx, e audit.Event) error {
	detail := ""
	if e.Detail != nil {
		encoded, err := json.Marshal(e.Detail)
		if err != nil {
			return fmt.Errorf("encode detail of %s: %w", e.Name, err)
		}
		detail = string(encoded)
	}
	by, now := audit.From(ctx), s.now()
	bucket := cmp.Or(e.Bucket, s.repeated(by, e))
	_, err := tx.ExecContext(ctx, s.db.Rebind(`INSERT INTO audit
		(at, event, actor_kind, actor_id, actor_name, subject_id, subject_name, ip, agent, request_id, session_key, detail, bucket)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (bucket) DO UPDATE SET count = audit.count + 1, at = excluded.at, actor_name = excluded.actor_name, ip = excluded.ip,
		agent = excluded.agent, request_id = excluded.request_id, session_key = excluded.session_key, detail = excluded.detail`),
		now.Unix(), e.Name, string(by.Kind), by.ID, by.Name, e.SubjectID, e.SubjectName, by.IP, by.Agent, by.RequestID, by.SessionKey, detail,
		sql.NullString{String: bucket, Valid: bucket != ""})
	if err != nil {
		return fmt.Errorf("record %s: %w", e.Name, err)
	}
	if recorded, ok := ctx.Value(recordedKey{}).(*[]audit.Entry); ok {
		*recorded = append(*recorded, audit.Entry{At: now, Actor: by, Event: e, Count: 1})
	}
	return nil
}

// Record implements audit.Store.
func (s *Store) Record(ctx context.Context, e audit.Event) error {
	return s.tx(ctx, timeout, "record event", func(ctx context.Context, tx *sql.Tx) error { return s.record(ctx, tx, e) })
}

const auditColumns = `id, at, event, actor_kind, actor_id, actor_name, subject_id, subject_name, ip, agent, request_id, session_key, detail, count`

func scanEntry(row sqldb.Scanner) (audit.Entry, error) {
	var e audit.Entry
	var at int64
	var detail string
	err := row.Scan(&e.ID, &at, &e.Event.Name, &e.Kind, &e.Actor.ID, &e.Actor.Name, &e.SubjectID, &e.SubjectName, &e.IP, &e.Agent, &e.RequestID, &e.SessionKey, &detail, &e.Count)
	e.At = time.Unix(at, 0).UTC()
	if err == nil && detail != "" {
		err = json.Unmarshal([]byte(detail), &e.Detail)
	}
	return e, err
}

// Entries implements audit.Store.
func (s *Store) Entries(ctx context.Context, q audit.Query) ([]audit.Entry, error) {
	if !isText(q.Event) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	where, args := []string{"1 = 1"}, []any{}
	add := func(condition string, values ...any) {
		where, args = append(where, condition), append(args, values...)
	}
	if q.Before > 0 {
		add(`id < ?`, q.Before)
	}
	if q.Event != "" {
		add(`event = ?`, q.Event)
	}
	if q.UserID != 0 {
		add(`(subject_id = ? OR actor_id = ?)`, q.UserID, q.UserID)
	}
	if !q.From.IsZero() {
		add(`at >= ?`, ceilUnix(q.From))
	}
	if !q.To.IsZero() {
		add(`at < ?`, ceilUnix(q.To))
	}
	rows, err := s.db.Reader.QueryContext(ctx, s.db.Rebind(`SELECT `+auditColumns+` FROM audit WHERE `+strings.Join(where, ` AND `)+` ORDER BY id DESC LIMIT ?`), append(args, q.Limit)...)
	entries, err := sqldb.All(rows, err, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("read audit: %w", err)
	}
	return entries, nil
}

// maxNotices bounds what Notices returns.
const maxNotices = 50

// Notices implements audit.Store.
func (s *Store) Notices(ctx context.Context, userID int64, names []string) ([]audit.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	args := []any{userID, userID}
	for _, name := range names {
		args = append(args, name)
	}
	rows, err := s.db.Reader.QueryContext(ctx, s.db.Rebind(`SELECT `+auditColumns+` FROM audit
		WHERE subject_id = ? AND at > coalesce((SELECT notices_seen_at FROM user_factors WHERE user_id = ?), 0)
		AND event IN (?`+strings.Repeat(`, ?`, len(names)-1)+`) ORDER BY at DESC, id DESC LIMIT ?`), append(args, maxNotices)...)
	entries, err := sqldb.All(rows, err, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("read notices: %w", err)
	}
	return entries, nil
}

// NoticesSeen implements audit.Store.
func (s *Store) NoticesSeen(ctx context.Context, userID int64, upTo time.Time) error {
	return s.tx(ctx, timeout, "mark notices as seen", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, s.db.Rebind(`INSERT INTO user_factors (user_id, notices_seen_at) SELECT id, ? FROM users WHERE id = ?
			ON CONFLICT (user_id) DO UPDATE SET notices_seen_at = excluded.notices_seen_at WHERE user_factors.notices_seen_at < excluded.notices_seen_at`), upTo.Unix(), userID)
		return err
	})
}

// sweepTimeout bounds a sweep, which no request waits for.
const sweepTimeout = time.Minute

// Sweep implements audit.Store.
func (s *Store) Sweep(ctx context.Context, before time.Time) (swept int64, err error) {
	err = s.tx(ctx, sweepTimeout, "sweep audit", func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, s.db.Rebind(`DELETE FROM audit WHERE at < ?`), before.Unix())
		if err != nil {
			return err
		}
		if swept, err = result.RowsAffected(); err != nil || swept == 0 {
			return err
		}
		return s.record(ctx, tx, audit.Event{Name: "audit_swept", Detail: map[string]any{"entries": swept}})
	})
	return swept, err
}
