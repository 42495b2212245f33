package people

import (
	"context"
	"slices"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Profile is what users change of themselves; nil leaves a field as it is.
type Profile struct{ DisplayName, AvatarColor *string }

// MemberChange is what admins change of a user; nil leaves a field as it is.
type MemberChange struct {
	DisplayName, AvatarColor, Role *string
	Groups                         *[]string // slugs of all their groups
	// Joins are the slugs of groups that they join (true) or leave (false); one to leave may
	// be gone.
	Joins map[string]bool
}

// UpdateProfile changes the profile of a session's user and returns the user. The
// sentinels of user for its fields; user.ErrNotFound.
func (s *Service) UpdateProfile(ctx context.Context, of session.Session, p Profile) (user.User, error) {
	return s.changeUser(ctx, of.UserID, of.UserID, MemberChange{DisplayName: p.DisplayName, AvatarColor: p.AvatarColor})
}

// UpdateMember changes a user on behalf of an admin and returns the user. Live sessions
// follow at once. The sentinels of user for its fields; user.ErrNotFound,
// user.ErrNotAdmin, user.ErrLastAdmin; application.ErrGroupNotFound.
func (s *Service) UpdateMember(ctx context.Context, by, id int64, c MemberChange) (user.User, error) {
	return s.changeUser(ctx, by, id, c)
}

func (s *Service) changeUser(ctx context.Context, by, id int64, c MemberChange) (user.User, error) {
	change := user.Change{Groups: c.Groups, Joins: c.Joins}
	if c.DisplayName != nil {
		name, err := user.CleanDisplayName(*c.DisplayName)
		if err != nil {
			return user.User{}, err
		}
		change.DisplayName = &name
	}
	if c.AvatarColor != nil {
		if err := user.CheckAvatarColor(*c.AvatarColor); err != nil {
			return user.User{}, err
		}
		change.AvatarColor = c.AvatarColor
	}
	if c.Role != nil {
		role, err := user.ParseRole(*c.Role)
		if err != nil {
			return user.User{}, err
		}
		change.Role = &role
	}
	if err := s.users.Change(ctx, id, change, by); err != nil {
		return user.User{}, err
	}
	return s.users.ByID(ctx, id)
}

// Member returns a user as admins see them. user.ErrNotFound.
func (s *Service) Member(ctx context.Context, id int64) (user.Details, error) {
	return s.users.Member(ctx, id)
}

// Members returns all users as admins see them, by display name in German collation.
func (s *Service) Members(ctx context.Context) ([]user.Details, error) {
	members, err := s.users.Members(ctx)
	if err != nil {
		return nil, err
	}
	users, place := make([]user.User, len(members)), make(map[int64]int, len(members))
	for i, m := range members {
		users[i] = m.User
	}
	user.Sort(users)
	for i, u := range users {
		place[u.ID] = i
	}
	slices.SortFunc(members, func(a, b user.Details) int { return place[a.ID] - place[b.ID] })
	return members, nil
}

// FactorOverview returns all users as admins see them, with whether they have a second
// factor, and whether the household requires one.
func (s *Service) FactorOverview(ctx context.Context) (members []user.Details, required bool, err error) {
	if members, err = s.Members(ctx); err != nil {
		return nil, false, err
	}
	household, err := s.accounts.Household(ctx)
	return members, household.RequireSecondFactor, err
}
