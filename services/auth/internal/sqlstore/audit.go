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
func (tx *transaction) recordAbout(ctx context.Context, event string, id int64, detail map[string]any) error {
	u, err := tx.user(ctx, id)
	if err != nil {
		return err
	}
	return tx.record(ctx, about(event, u, detail))
}

// repeated returns the bucket of an event about a user that this user causes, or somebody without a session; "" for
// other events. Events of one name, user, hour, network, browser and application, where one is named, are one row, so
// that a client cannot fill the disk: admins enter applications, so there are few. It is "" also for passkeys that are
// added or removed and for changes of groups, each of which has a row of its own.
func repeated(now time.Time, by audit.Actor, e audit.Event) string {
	own := by.Kind == audit.Anonymous || by.Kind == audit.User && by.ID == e.SubjectID
	if !own || e.SubjectID == 0 || slices.Contains([]string{"passkey_added", "passkey_removed", "groups_changed"},
		e.Name) {
		return ""
	}
	bucket := fmt.Sprintf("%s %d %d %s %s", e.Name, now.Truncate(time.Hour).Unix(), e.SubjectID, by.Network, by.Agent)
	if app, named := e.Detail["app"].(string); named {
		bucket += " at " + app
	}
	return bucket
}

// record writes the row of an event of the context's actor. If there is a row of the same actor and bucket, it counts
// the event there instead, and the row then describes the last one. The actor is a part of the stored bucket: what a
// stranger does is never counted with what a user did.
func (tx *transaction) record(ctx context.Context, e audit.Event) error {
	detail, err := e.EncodedDetail()
	if err != nil {
		return err
	}
	by, now := audit.From(ctx), tx.db.now()
	bucket := cmp.Or(e.Bucket, repeated(now, by, e))
	if bucket != "" {
		bucket += fmt.Sprintf(" by %s %d %s", by.Kind, by.ID, by.Name)
	}
	err = tx.exec(ctx, `INSERT INTO audit
		(at, event, actor_kind, actor_id, actor_name, subject_id, subject_name, ip, agent, request_id, session_key,
		detail, bucket)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (bucket) DO UPDATE SET count = audit.count + 1, at = excluded.at, ip = excluded.ip,
		agent = excluded.agent, request_id = excluded.request_id, session_key = excluded.session_key,
		detail = excluded.detail`,
		now.Unix(), e.Name, string(by.Kind), by.ID, by.Name, e.SubjectID, e.SubjectName, by.IP, by.Agent, by.RequestID,
		by.SessionKey, detail,
		sql.NullString{String: bucket, Valid: bucket != ""})
	if err != nil {
		return fmt.Errorf("record %s: %w", e.Name, err)
	}
	tx.recorded = append(tx.recorded, audit.Entry{At: now, Actor: by, Event: e, Count: 1})
	return nil
}

// Audit keeps the entries of the audit.
type Audit struct{ db *database }

// Record implements audit.Store. It does not wait for the disk: the row may be lost when the machine loses power.
func (s *Audit) Record(ctx context.Context, e audit.Event) error {
	return s.db.writeRelaxed(ctx, "record event", func(ctx context.Context, tx *transaction) error {
		return tx.record(ctx, e)
	})
}

const auditColumns = `id, at, event, actor_kind, actor_id, actor_name, subject_id, subject_name, ip, agent, ` +
	`request_id, session_key, detail, count`

func scanEntry(row sqldb.Scanner) (audit.Entry, error) {
	var e audit.Entry
	var detail string
	err := row.Scan(&e.ID, (*instant)(&e.At), &e.Event.Name, &e.Kind, &e.Actor.ID, &e.Actor.Name, &e.SubjectID,
		&e.SubjectName, &e.IP, &e.Agent, &e.RequestID, &e.SessionKey, &detail, &e.Count)
	if err == nil && detail != "" {
		err = json.Unmarshal([]byte(detail), &e.Detail)
	}
	return e, err
}

// Entries implements audit.Store.
func (s *Audit) Entries(ctx context.Context, q audit.Query) ([]audit.Entry, error) {
	if !isText(q.Event) {
		return nil, nil
	}
	where, args := []string{"1 = 1"}, []any{}
	add := func(condition string, values ...any) {
		where, args = append(where, condition), append(args, values...)
	}
	switch id := q.Before.ID; {
	case id > 0 && q.Before.At.IsZero():
		// where the entry is gone: all of lower ids
		add(`(at, id) < (coalesce((SELECT at FROM audit WHERE id = ?), (SELECT max(at) FROM audit WHERE id < ?)), ?)`,
			id, id, id)
	case id > 0:
		add(`(at, id) < (?, ?)`, q.Before.At.Unix(), id)
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
	return list(ctx, s.db, "read audit", scanEntry, `SELECT `+auditColumns+` FROM audit WHERE `+
		strings.Join(where, ` AND `)+` ORDER BY at DESC, id DESC LIMIT ?`, append(args, q.Limit)...)
}

// maxNotices bounds what Notices and AdminNotices each return.
const maxNotices = 50

// Notices implements audit.Store.
func (s *Audit) Notices(ctx context.Context, userID int64, names []string, all bool) ([]audit.Entry, error) {
	args := []any{userID, all, userID}
	for _, name := range names {
		args = append(args, name)
	}
	return list(ctx, s.db, "read notices", scanEntry, `SELECT `+auditColumns+` FROM audit
		WHERE subject_id = ? AND (? OR at > coalesce((SELECT notices_seen_at FROM user_factors WHERE user_id = ?), 0))
		AND event IN (?`+strings.Repeat(`, ?`, len(names)-1)+`) ORDER BY at DESC, id DESC LIMIT ?`,
		append(args, maxNotices)...)
}

// AdminNotices implements audit.Store. Of what the service itself does it returns the logouts of which it could not
// tell an application, and nothing else.
func (s *Audit) AdminNotices(
	ctx context.Context, userID int64, names []string, since time.Time,
) ([]audit.Entry, error) {
	args := []any{since.Unix(), userID, userID, userID}
	for _, name := range names {
		args = append(args, name)
	}
	return list(ctx, s.db, "read notices of admins", scanEntry, `SELECT `+auditColumns+` FROM audit
		WHERE at >= ? AND at >= (SELECT created_at FROM users WHERE id = ? AND role = 'admin')
		AND at > coalesce((SELECT notices_seen_at FROM user_factors WHERE user_id = ?), 0)
		AND (actor_kind IN ('user', 'operator') AND actor_id <> ? OR event = 'oidc_logout_failed') AND event IN (?`+
		strings.Repeat(`, ?`, len(names)-1)+`) ORDER BY at DESC, id DESC LIMIT ?`,
		append(args, maxNotices)...)
}

// NoticesSeen implements audit.Store.
func (s *Audit) NoticesSeen(ctx context.Context, userID int64, upTo time.Time) error {
	return s.db.exec(ctx, "mark notices as seen", `INSERT INTO user_factors (user_id, notices_seen_at)
		SELECT id, ? FROM users WHERE id = ?
		ON CONFLICT (user_id) DO UPDATE SET notices_seen_at = excluded.notices_seen_at
		WHERE user_factors.notices_seen_at < excluded.notices_seen_at`, upTo.Unix(), userID)
}

// Sweep implements audit.Store.
func (s *Audit) Sweep(ctx context.Context, before time.Time) (swept int64, err error) {
	err = s.db.write(ctx, sweepTimeout, "sweep audit", func(ctx context.Context, tx *transaction) error {
		if swept, err = tx.changed(ctx, `DELETE FROM audit WHERE at < ?`, before.Unix()); err != nil || swept == 0 {
			return err
		}
		return tx.record(ctx, audit.Event{Name: "audit_swept", Detail: map[string]any{"entries": swept}})
	})
	return swept, err
}
