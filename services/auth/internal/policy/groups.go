package policy

import (
	"context"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// Groups returns all groups, by slug.
func (s *Service) Groups(ctx context.Context) ([]application.UserGroup, error) {
	return s.o.Groups.Groups(ctx)
}

// CreateGroup adds a group with members on behalf of an admin or user.Operator; an empty
// name is the slug. application.ErrSlug, ErrName, ErrSlugTaken, ErrTooMany;
// user.ErrNotFound, user.ErrNotAdmin; session.ErrNotFound when the session has ended meanwhile.
func (s *Service) CreateGroup(ctx context.Context, by session.Session, slug, name string, members ...int64) error {
	if err := application.CheckGroupSlug(slug); err != nil {
		return err
	}
	if name == "" {
		name = slug
	}
	name, err := application.CleanName(name)
	if err != nil {
		return err
	}
	return s.o.Groups.CreateGroup(ctx, slug, name, members, by)
}

// GroupChange are the fields of a group to change; nil leaves one as it is.
type GroupChange struct {
	Name    *string
	Members *[]int64 // ids of all members
}

// ChangeGroup changes a group on behalf of an admin or user.Operator.
// application.ErrGroupNotFound, ErrName; user.ErrNotFound, user.ErrNotAdmin; session.ErrNotFound.
func (s *Service) ChangeGroup(ctx context.Context, by session.Session, slug string, c GroupChange) error {
	if c.Name != nil {
		name, err := application.CleanName(*c.Name)
		if err != nil {
			return err
		}
		c.Name = &name
	}
	return s.o.Groups.ChangeGroup(ctx, slug, c.Name, c.Members, by)
}

// RemoveGroup removes a group on behalf of an admin or user.Operator.
// application.ErrGroupNotFound, ErrGroupUsed; user.ErrNotAdmin; session.ErrNotFound.
func (s *Service) RemoveGroup(ctx context.Context, by session.Session, slug string) error {
	return s.o.Groups.RemoveGroup(ctx, slug, by)
}

// ChangeMembers makes users members of a group (true) or not (false) on behalf of an admin
// or user.Operator, all of them or none. application.ErrGroupNotFound, user.ErrNotFound,
// user.ErrNotAdmin, session.ErrNotFound.
func (s *Service) ChangeMembers(ctx context.Context, by session.Session, slug string, users map[int64]bool) error {
	return s.o.Groups.ChangeMembers(ctx, slug, users, by)
}

// SetMember is ChangeMembers for the operator, who names users by username.
func (s *Service) SetMember(ctx context.Context, slug, username string, member bool) error {
	u, err := s.o.Users.ByUsername(ctx, username)
	if err != nil {
		return err
	}
	return s.ChangeMembers(ctx, session.Session{}, slug, map[int64]bool{u.ID: member})
}
