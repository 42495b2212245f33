package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pforte/pforte/pkg/sqldb"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/user"
)

const selectApplication = `SELECT applications.id, applications.slug, applications.name, description, url, rule, coalesce(user_groups.slug, ''), second_factor, tokens, color, position
	FROM applications LEFT JOIN user_groups ON user_groups.id = applications.group_id`

func scanApplication(row sqldb.Scanner) (application.Application, error) {
	var a application.Application
	err := row.Scan(&a.ID, &a.Slug, &a.Name, &a.Description, &a.URL, &a.Rule, &a.Group, &a.SecondFactor, &a.Tokens, &a.Color, &a.Position)
	if errors.Is(err, sql.ErrNoRows) {
		return application.Application{}, application.ErrNotFound
	}
	return a, err
}

// changePolicy runs do, on behalf of an admin or the Operator, while no other transaction
// changes applications or groups.
func (s *Store) changePolicy(ctx context.Context, what string, by int64, do func(context.Context, *sql.Tx) error) error {
	return s.tx(ctx, timeout, what, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.mayAct(ctx, tx, by); err != nil {
			return err
		}
		if err := s.lockPolicy(ctx, tx); err != nil {
			return err
		}
		return do(ctx, tx)
	})
}

// lockPolicy keeps every other transaction from changing applications, groups or their
// members until this one ends. SQLite has one writer.
func (s *Store) lockPolicy(ctx context.Context, tx *sql.Tx) error {
	if s.db.Dialect != sqldb.Postgres {
		return nil
	}
	_, err := tx.ExecContext(ctx, `LOCK TABLE applications IN SHARE ROW EXCLUSIVE MODE`)
	return err
}

// Applications implements policy.Applications.
func (s *Store) Applications(ctx context.Context) ([]application.Application, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := s.db.Reader.QueryContext(ctx, selectApplication+` ORDER BY position, lower(applications.name), applications.id`)
	apps, err := sqldb.All(rows, err, scanApplication)
	if err != nil {
		return nil, fmt.Errorf("list applications: %w", err)
	}
	return apps, nil
}

// CreateApplication implements policy.Applications.
func (s *Store) CreateApplication(ctx context.Context, a application.Application, by int64) error {
	return s.changePolicy(ctx, "create application", by, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.hasRoom(ctx, tx, `SELECT count(*) FROM applications`, application.MaxApplications); err != nil {
			return err
		}
		if err := s.isFree(ctx, tx, a); err != nil {
			return err
		}
		group, err := s.ruleGroup(ctx, tx, a)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, s.db.Rebind(`INSERT INTO applications (slug, name, description, url, rule, group_id, second_factor, tokens, color, position)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`), a.Slug, a.Name, a.Description, a.URL, string(a.Rule), group, a.SecondFactor, a.Tokens, a.Color, a.Position)
		if err != nil {
			return err
		}
		return s.record(ctx, tx, audit.Event{Name: "app_made", Detail: policyOf(a)})
	})
}

// policyOf returns what decides about access to an application, for the audit.
func policyOf(a application.Application) map[string]any {
	policy := map[string]any{"app": a.Slug, "url": a.URL, "rule": a.Rule, "second_factor": a.SecondFactor, "tokens": a.Tokens}
	if a.Group != "" {
		policy["group"] = a.Group
	}
	return policy
}

// hasRoom returns ErrTooMany when a query counts most or more.
func (s *Store) hasRoom(ctx context.Context, tx *sql.Tx, query string, most int, args ...any) error {
	var n int
	err := tx.QueryRowContext(ctx, s.db.Rebind(query), args...).Scan(&n)
	if err == nil && n >= most {
		return application.ErrTooMany
	}
	return err
}

// isFree returns ErrSlugTaken or ErrURLTaken when another application has that of a.
func (s *Store) isFree(ctx context.Context, tx *sql.Tx, a application.Application) error {
	var slug, address bool
	err := tx.QueryRowContext(ctx, s.db.Rebind(`SELECT EXISTS (SELECT 1 FROM applications WHERE slug = ? AND id <> ?), EXISTS (SELECT 1 FROM applications WHERE url = ? AND id <> ?)`),
		a.Slug, a.ID, a.URL, a.ID).Scan(&slug, &address)
	switch {
	case err != nil:
		return err
	case slug:
		return application.ErrSlugTaken
	case address:
		return application.ErrURLTaken
	}
	return nil
}

// ruleGroup returns the id of the group that a's rule names. ErrGroupNotFound.
func (s *Store) ruleGroup(ctx context.Context, tx *sql.Tx, a application.Application) (id sql.NullInt64, err error) {
	if a.Rule != application.Group {
		return id, nil
	}
	id.Int64, err = s.groupID(ctx, tx, a.Group)
	id.Valid = err == nil
	return id, err
}

func (s *Store) groupID(ctx context.Context, tx *sql.Tx, slug string) (id int64, err error) {
	if !isText(slug) {
		return 0, application.ErrGroupNotFound
	}
	err = tx.QueryRowContext(ctx, s.db.Rebind(`SELECT id FROM user_groups WHERE slug = ?`), slug).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = application.ErrGroupNotFound
	}
	return id, err
}

func (s *Store) application(ctx context.Context, tx *sql.Tx, slug string) (application.Application, error) {
	if !isText(slug) {
		return application.Application{}, application.ErrNotFound
	}
	return scanApplication(tx.QueryRowContext(ctx, s.db.Rebind(selectApplication+` WHERE applications.slug = ?`), slug))
}

// ChangeApplication implements policy.Applications.
func (s *Store) ChangeApplication(ctx context.Context, slug string, change func(*application.Application) error, by int64) error {
	return s.changePolicy(ctx, "change application", by, func(ctx context.Context, tx *sql.Tx) error {
		before, err := s.application(ctx, tx, slug)
		if err != nil {
			return err
		}
		a := before
		if err := change(&a); err != nil {
			return err
		}
		a.ID = before.ID
		if a == before {
			return nil
		}
		if err := s.isFree(ctx, tx, a); err != nil {
			return err
		}
		group, err := s.ruleGroup(ctx, tx, a)
		if err != nil {
			return err
		}
		err = s.update(ctx, tx, `UPDATE applications SET slug = ?, name = ?, description = ?, url = ?, rule = ?, group_id = ?, second_factor = ?, tokens = ?, color = ?, position = ? WHERE id = ?`,
			a.Slug, a.Name, a.Description, a.URL, string(a.Rule), group, a.SecondFactor, a.Tokens, a.Color, a.Position, a.ID)
		if err != nil {
			return err
		}
		return s.record(ctx, tx, audit.Event{Name: "app_changed", Detail: map[string]any{"before": policyOf(before), "after": policyOf(a)}})
	})
}

// RemoveApplication implements policy.Applications.
func (s *Store) RemoveApplication(ctx context.Context, slug string, by int64) error {
	return s.changePolicy(ctx, "remove application", by, func(ctx context.Context, tx *sql.Tx) error {
		a, err := s.application(ctx, tx, slug)
		if err != nil {
			return err
		}
		if err := s.update(ctx, tx, `DELETE FROM applications WHERE id = ?`, a.ID); err != nil {
			return err
		}
		return s.record(ctx, tx, audit.Event{Name: "app_removed", Detail: policyOf(a)})
	})
}

// Groups implements policy.Applications.
func (s *Store) Groups(ctx context.Context) ([]application.UserGroup, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rows, err := s.db.Reader.QueryContext(ctx, `SELECT user_groups.id, user_groups.slug, user_groups.name, coalesce(users.id, 0), coalesce(users.username, '') FROM user_groups
		LEFT JOIN group_members ON group_members.group_id = user_groups.id LEFT JOIN users ON users.id = group_members.user_id ORDER BY user_groups.slug`)
	type member struct {
		group    application.UserGroup
		id       int64 // 0: the group has none
		username string
	}
	members, err := sqldb.All(rows, err, func(row sqldb.Scanner) (m member, err error) {
		err = row.Scan(&m.group.ID, &m.group.Slug, &m.group.Name, &m.id, &m.username)
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	var groups []application.UserGroup
	for _, m := range members {
		if len(groups) == 0 || groups[len(groups)-1].ID != m.group.ID {
			groups = append(groups, m.group)
		}
		if last := &groups[len(groups)-1]; m.id != 0 {
			last.Members, last.MemberIDs = append(last.Members, m.username), append(last.MemberIDs, m.id)
		}
	}
	for _, g := range groups {
		slices.Sort(g.Members)
		slices.Sort(g.MemberIDs)
	}
	return groups, nil
}

// CreateGroup implements policy.Applications.
func (s *Store) CreateGroup(ctx context.Context, slug, name string, members []int64, by int64) error {
	return s.changePolicy(ctx, "create group", by, func(ctx context.Context, tx *sql.Tx) error {
		if err := s.hasRoom(ctx, tx, `SELECT count(*) FROM user_groups`, application.MaxGroups); err != nil {
			return err
		}
		if _, err := s.groupID(ctx, tx, slug); !errors.Is(err, application.ErrGroupNotFound) {
			if err == nil {
				err = application.ErrSlugTaken
			}
			return err
		}
		var group int64
		if err := tx.QueryRowContext(ctx, s.db.Rebind(`INSERT INTO user_groups (slug, name) VALUES (?, ?) RETURNING id`), slug, name).Scan(&group); err != nil {
			return err
		}
		if err := s.record(ctx, tx, audit.Event{Name: "group_made", Detail: map[string]any{"group": slug}}); err != nil {
			return err
		}
		return s.setMembers(ctx, tx, group, slug, members)
	})
}

// ChangeGroup implements policy.Applications.
func (s *Store) ChangeGroup(ctx context.Context, slug string, name *string, members *[]int64, by int64) error {
	return s.changePolicy(ctx, "change group", by, func(ctx context.Context, tx *sql.Tx) error {
		group, err := s.groupID(ctx, tx, slug)
		if err != nil {
			return err
		}
		if name != nil {
			err := s.update(ctx, tx, `UPDATE user_groups SET name = ? WHERE id = ? AND name <> ?`, *name, group, *name)
			if err == nil {
				err = s.record(ctx, tx, audit.Event{Name: "group_changed", Detail: map[string]any{"group": slug, "name": *name}})
			}
			if err != nil && !errors.Is(err, user.ErrNotFound) {
				return err
			}
		}
		if members == nil {
			return nil
		}
		return s.setMembers(ctx, tx, group, slug, *members)
	})
}

// setMembers makes users the members of a group. user.ErrNotFound.
func (s *Store) setMembers(ctx context.Context, tx *sql.Tx, group int64, slug string, ids []int64) error {
	rows, err := tx.QueryContext(ctx, s.db.Rebind(`SELECT user_id FROM group_members WHERE group_id = ?`), group)
	before, err := sqldb.All(rows, err, func(row sqldb.Scanner) (id int64, err error) {
		err = row.Scan(&id)
		return id, err
	})
	if err != nil {
		return err
	}
	members := make(map[int64]bool, len(before)+len(ids))
	for _, id := range before {
		members[id] = false
	}
	for _, id := range ids {
		members[id] = true
	}
	return s.changeEach(ctx, tx, group, slug, members)
}

// setGroups makes groups those of a user, whose row exists. application.ErrGroupNotFound.
func (s *Store) setGroups(ctx context.Context, tx *sql.Tx, id int64, groups []string) error {
	var before string
	if err := tx.QueryRowContext(ctx, s.db.Rebind(`SELECT `+groupsOf+` FROM users WHERE id = ?`), id).Scan(&before); err != nil {
		return err
	}
	member := map[string]bool{}
	for slug := range strings.FieldsSeq(before) {
		member[slug] = false
	}
	for _, slug := range groups {
		member[slug] = true
	}
	return s.changeGroups(ctx, tx, id, member)
}

// changeGroups makes a user, whose row exists, a member of groups (true) or not (false), by
// slug. application.ErrGroupNotFound for one to join.
func (s *Store) changeGroups(ctx context.Context, tx *sql.Tx, id int64, joins map[string]bool) error {
	for _, slug := range slices.Sorted(maps.Keys(joins)) {
		group, err := s.groupID(ctx, tx, slug)
		if errors.Is(err, application.ErrGroupNotFound) && !joins[slug] {
			continue
		}
		if err != nil {
			return err
		}
		if err := s.changeMember(ctx, tx, group, slug, id, joins[slug]); err != nil {
			return err
		}
	}
	return nil
}

// RemoveGroup implements policy.Applications.
func (s *Store) RemoveGroup(ctx context.Context, slug string, by int64) error {
	return s.changePolicy(ctx, "remove group", by, func(ctx context.Context, tx *sql.Tx) error {
		id, err := s.groupID(ctx, tx, slug)
		if err != nil {
			return err
		}
		var used bool
		if err := tx.QueryRowContext(ctx, s.db.Rebind(`SELECT EXISTS (SELECT 1 FROM applications WHERE group_id = ?)`), id).Scan(&used); err != nil {
			return err
		}
		if used {
			return application.ErrGroupUsed
		}
		if err := s.update(ctx, tx, `DELETE FROM user_groups WHERE id = ?`, id); err != nil {
			return err
		}
		// Another group of this slug may be created while invites are open.
		_, err = tx.ExecContext(ctx, s.db.Rebind(`UPDATE links SET group_slugs = trim(replace(' ' || group_slugs || ' ', ?, ' ')) WHERE ' ' || group_slugs || ' ' LIKE ?`),
			" "+slug+" ", "% "+slug+" %")
		if err != nil {
			return err
		}
		return s.record(ctx, tx, audit.Event{Name: "group_removed", Detail: map[string]any{"group": slug}})
	})
}

// ChangeMembers implements policy.Applications.
func (s *Store) ChangeMembers(ctx context.Context, slug string, users map[int64]bool, by int64) error {
	return s.changePolicy(ctx, "change members of a group", by, func(ctx context.Context, tx *sql.Tx) error {
		group, err := s.groupID(ctx, tx, slug)
		if err != nil {
			return err
		}
		return s.changeEach(ctx, tx, group, slug, users)
	})
}

// changeEach is changeMember for several users, in the order of their ids.
func (s *Store) changeEach(ctx context.Context, tx *sql.Tx, group int64, slug string, users map[int64]bool) error {
	for _, id := range slices.Sorted(maps.Keys(users)) {
		if err := s.changeMember(ctx, tx, group, slug, id, users[id]); err != nil {
			return err
		}
	}
	return nil
}

// changeMember adds a user to a group or removes them, and records it unless nothing
// changes. user.ErrNotFound.
func (s *Store) changeMember(ctx context.Context, tx *sql.Tx, group int64, slug string, id int64, member bool) error {
	query, change := `DELETE FROM group_members WHERE group_id = ? AND user_id = ?`, "removed"
	if member {
		query, change = `INSERT INTO group_members (group_id, user_id) VALUES (?, ?) ON CONFLICT DO NOTHING`, "added"
	}
	// The user's row first: without one, the insert would fail for its foreign key.
	if _, err := s.lockUser(ctx, tx, id); err != nil {
		return err
	}
	err := s.update(ctx, tx, query, group, id)
	if errors.Is(err, user.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.recordAbout(ctx, tx, "groups_changed", id, map[string]any{change: slug})
}

// groupsOf are the slugs of the groups of a row of users, separated by spaces.
const groupsOf = `coalesce((SELECT string_agg(user_groups.slug, ' ') FROM group_members JOIN user_groups ON user_groups.id = group_members.group_id
	WHERE group_members.user_id = users.id), '')`

// slugs returns a list that is separated by spaces, sorted.
func slugs(list string) []string { return slices.Sorted(strings.FieldsSeq(list)) }

// Visitor implements policy.Applications.
func (s *Store) Visitor(ctx context.Context, id int64) (user.User, []string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var groups string
	u, err := scan(withMore{s.visitor.Row(ctx, id), []any{&groups}})
	return u, slugs(groups), err
}

// withMore is a row with more columns than those of a user.
type withMore struct {
	sqldb.Scanner
	more []any
}

func (w withMore) Scan(dest ...any) error { return w.Scanner.Scan(append(dest, w.more...)...) }
