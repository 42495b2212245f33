package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Groups keeps groups of users.
type Groups struct {
	db      *database
	visitor *sqldb.Kept[int64, visitor] // for Visitor
}

// visitor is a user and the slugs of their groups, sorted.
type visitor struct {
	user   user.User
	groups []string
}

func (tx *transaction) groupID(ctx context.Context, slug string) (id int64, err error) {
	if !isText(slug) {
		return 0, application.ErrGroupNotFound
	}
	err = tx.row(ctx, `SELECT id FROM user_groups WHERE slug = ?`, slug).Scan(&id)
	return id, orNone(err, application.ErrGroupNotFound)
}

// Groups implements policy.Groups.
func (s *Groups) Groups(ctx context.Context) ([]application.UserGroup, error) {
	type member struct {
		group    application.UserGroup
		id       int64 // 0: the group has no members
		username string
	}
	members, err := list(ctx, s.db, "list groups", func(row sqldb.Scanner) (m member, err error) {
		err = row.Scan(&m.group.ID, &m.group.Slug, &m.group.Name, &m.id, &m.username)
		return m, err
	}, `SELECT user_groups.id, user_groups.slug, user_groups.name, coalesce(users.id, 0), coalesce(users.username, '')
		FROM user_groups
		LEFT JOIN group_members ON group_members.group_id = user_groups.id LEFT
		JOIN users ON users.id = group_members.user_id ORDER BY user_groups.slug`)
	if err != nil {
		return nil, err
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

// CreateGroup implements policy.Groups.
func (s *Groups) CreateGroup(ctx context.Context, slug, name string, members []int64, by session.Session) error {
	return s.db.changePolicy(ctx, "create group", by, func(ctx context.Context, tx *transaction) error {
		err := refuse(ctx, tx, application.ErrTooMany, `SELECT count(*) >= ? FROM user_groups`, application.MaxGroups)
		if err != nil {
			return err
		}
		if _, err := tx.groupID(ctx, slug); !errors.Is(err, application.ErrGroupNotFound) {
			return cmp.Or(err, application.ErrSlugTaken)
		}
		var group int64
		if err := tx.row(ctx, `INSERT INTO user_groups (slug, name) VALUES (?, ?) RETURNING id`, slug,
			name).Scan(&group); err != nil {
			return err
		}
		if err := tx.record(ctx, audit.Event{Name: "group_made", Detail: map[string]any{"group": slug}}); err != nil {
			return err
		}
		return s.setMembers(ctx, tx, group, slug, members)
	})
}

// ChangeGroup implements policy.Groups.
func (s *Groups) ChangeGroup(
	ctx context.Context, slug string, name *string, members *[]int64, by session.Session,
) error {
	return s.db.changePolicy(ctx, "change group", by, func(ctx context.Context, tx *transaction) error {
		group, err := tx.groupID(ctx, slug)
		if err != nil {
			return err
		}
		if name != nil {
			n, err := tx.changed(ctx, `UPDATE user_groups SET name = ? WHERE id = ? AND name <> ?`, *name, group, *name)
			if err == nil && n > 0 {
				err = tx.record(ctx, audit.Event{
					Name: "group_changed", Detail: map[string]any{"group": slug, "name": *name},
				})
			}
			if err != nil {
				return err
			}
		}
		if members == nil {
			return nil
		}
		return s.setMembers(ctx, tx, group, slug, *members)
	})
}

// setMembers makes these users, and no others, the members of a group. user.ErrNotFound.
func (s *Groups) setMembers(ctx context.Context, tx *transaction, group int64, slug string, ids []int64) error {
	before, err := all(ctx, tx, scanOne[int64], `SELECT user_id FROM group_members WHERE group_id = ?`, group)
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

// setGroups makes a user, whose row exists, a member of these groups and no others. application.ErrGroupNotFound.
func (tx *transaction) setGroups(ctx context.Context, id int64, groups []string) error {
	var before string
	if err := tx.row(ctx, `SELECT `+groupsOf+` FROM users WHERE id = ?`, id).Scan(&before); err != nil {
		return err
	}
	member := map[string]bool{}
	for slug := range strings.FieldsSeq(before) {
		member[slug] = false
	}
	for _, slug := range groups {
		member[slug] = true
	}
	return tx.changeGroups(ctx, id, member)
}

// changeGroups makes a user, whose row exists, a member of groups (true) or not (false), by
// slug. application.ErrGroupNotFound for a group to join; an unknown one to leave is skipped.
func (tx *transaction) changeGroups(ctx context.Context, id int64, joins map[string]bool) error {
	for _, slug := range slices.Sorted(maps.Keys(joins)) {
		group, err := tx.groupID(ctx, slug)
		if errors.Is(err, application.ErrGroupNotFound) && !joins[slug] {
			continue
		}
		if err != nil {
			return err
		}
		if err := tx.changeMember(ctx, group, slug, id, joins[slug]); err != nil {
			return err
		}
	}
	return nil
}

// RemoveGroup implements policy.Groups.
func (s *Groups) RemoveGroup(ctx context.Context, slug string, by session.Session) error {
	return s.db.changePolicy(ctx, "remove group", by, func(ctx context.Context, tx *transaction) error {
		id, err := tx.groupID(ctx, slug)
		if err != nil {
			return err
		}
		err = refuse(ctx, tx, application.ErrGroupUsed,
			`SELECT EXISTS (SELECT 1 FROM applications WHERE group_id = ?)`, id)
		if err != nil {
			return err
		}
		if err := tx.update(ctx, `DELETE FROM user_groups WHERE id = ?`, id); err != nil {
			return err
		}
		// Another group of this slug may be created while invites are open.
		err = tx.exec(ctx, `UPDATE links SET group_slugs = trim(replace(' ' || group_slugs || ' ', ?, ' '))
			WHERE ' ' || group_slugs || ' ' LIKE ?`,
			" "+slug+" ", "% "+slug+" %")
		if err != nil {
			return err
		}
		return tx.record(ctx, audit.Event{Name: "group_removed", Detail: map[string]any{"group": slug}})
	})
}

// ChangeMembers implements policy.Groups.
func (s *Groups) ChangeMembers(ctx context.Context, slug string, users map[int64]bool, by session.Session) error {
	return s.db.changePolicy(ctx, "change members of a group", by, func(ctx context.Context, tx *transaction) error {
		group, err := tx.groupID(ctx, slug)
		if err != nil {
			return err
		}
		return s.changeEach(ctx, tx, group, slug, users)
	})
}

// changeEach is changeMember for several users, in the order of their ids.
func (s *Groups) changeEach(
	ctx context.Context, tx *transaction, group int64, slug string, users map[int64]bool,
) error {
	for _, id := range slices.Sorted(maps.Keys(users)) {
		if err := tx.changeMember(ctx, group, slug, id, users[id]); err != nil {
			return err
		}
	}
	return nil
}

// changeMember adds a user to a group or removes them, and records it unless nothing
// changes. user.ErrNotFound.
func (tx *transaction) changeMember(ctx context.Context, group int64, slug string, id int64, member bool) error {
	query, change := `DELETE FROM group_members WHERE group_id = ? AND user_id = ?`, "removed"
	if member {
		query, change = `INSERT INTO group_members (group_id, user_id) VALUES (?, ?) ON CONFLICT DO NOTHING`, "added"
	}
	// The user's row first: without one, the insert would fail for its foreign key.
	if _, err := tx.lockUser(ctx, id); err != nil {
		return err
	}
	n, err := tx.changed(ctx, query, group, id)
	if err != nil || n == 0 {
		return err
	}
	return tx.recordAbout(ctx, "groups_changed", id, map[string]any{change: slug})
}

// groupsOf selects the slugs of the groups of a row of users, separated by spaces.
const groupsOf = `coalesce((SELECT string_agg(user_groups.slug, ' ') FROM group_members
	JOIN user_groups ON user_groups.id = group_members.group_id
	WHERE group_members.user_id = users.id), '')`

// Visitor implements policy.Groups. The caller must not change the groups.
func (s *Groups) Visitor(ctx context.Context, id int64) (user.User, []string, error) {
	v, err := s.visitor.Get(ctx, id)
	return v.user, v.groups, err
}

// visitorReader returns the function that reads a visitor by id. user.ErrNotFound.
func (d *database) visitorReader() func(context.Context, int64) (visitor, error) {
	query := d.Query(`SELECT ` + columns + `, ` + groupsOf + ` FROM users WHERE ` + byID)
	return func(ctx context.Context, id int64) (visitor, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		var groups slugs
		u, err := scan(withMore{query.Row(ctx, id), []any{&groups}})
		return visitor{u, groups}, err
	}
}

// withMore is a row with more columns, after those that its reader knows.
type withMore struct {
	sqldb.Scanner
	more []any
}

func (w withMore) Scan(dest ...any) error { return w.Scanner.Scan(append(dest, w.more...)...) }
