package people

import (
	"cmp"
	"context"
	"slices"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/picture"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// MemberChange are the fields of a user to change; nil leaves one as it is.
type MemberChange struct {
	DisplayName, AvatarColor, Role *string
	Groups                         *[]string // slugs of all their groups
	// Joins are the slugs of groups that they join (true) or leave (false); one to leave may
	// be gone.
	Joins map[string]bool
	// Username is a new name. Nobody else gets the previous one while they are here.
	Username *string
	// LastDay is that of a guest, YYYY-MM-DD in the household's time; empty: the account has no end.
	LastDay *string
	// Email is their address, which the change confirms; empty: they have none.
	Email *string
}

// OwnEmail returns the e-mail address of a session's user. user.ErrNotFound.
func (s *Service) OwnEmail(ctx context.Context, of session.Session) (user.Email, error) {
	d, err := s.users.Member(ctx, of.UserID)
	return d.Email, err
}

// SetOwnEmail sets the e-mail address of a session's user, or removes it where it is empty. A new address is
// unconfirmed. user.ErrEmail, user.ErrEmailTaken; user.ErrNotFound, session.ErrNotFound.
func (s *Service) SetOwnEmail(ctx context.Context, of session.Session, address string) error {
	address, err := user.CleanEmail(address)
	if err != nil {
		return err
	}
	return s.users.Change(ctx, of.UserID, user.Change{Email: &address}, of)
}

// UpdateMember changes a user on behalf of the admin of a session, of user.Operator for the zero Session, or of the
// session's user as Users.Change permits, and returns the user. The user's sessions have the change from the next
// request on. The sentinels of user for its fields; user.ErrNotFound, and the errors of Users.Change.
func (s *Service) UpdateMember(
	ctx context.Context, by session.Session, id int64, c MemberChange,
) (user.User, error) {
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
	if c.Username != nil {
		if err := cmp.Or(user.CheckUsername(*c.Username), user.CheckNoOption(*c.Username)); err != nil {
			return user.User{}, err
		}
		change.Username = c.Username
	}
	if c.LastDay != nil {
		ends, err := user.EndOf(*c.LastDay, s.now(), s.location)
		if err != nil {
			return user.User{}, err
		}
		change.EndsAt = &ends
	}
	if c.Email != nil {
		address, err := user.CleanEmail(*c.Email)
		if err != nil {
			return user.User{}, err
		}
		change.Email, change.ConfirmsEmail = &address, true
	}
	if err := s.users.Change(ctx, id, change, by); err != nil {
		return user.User{}, err
	}
	return s.users.ByID(ctx, id)
}

// LastDay returns the last day of a user's account, YYYY-MM-DD in the household's time; "" where it has no end.
func (s *Service) LastDay(u user.User) string { return u.LastDay(s.location) }

// LastDayOf is LastDay for the guest whom an invite creates.
func (s *Service) LastDayOf(l link.Link) string { return s.LastDay(user.User{EndsAt: l.EndsAt}) }

// Disable closes an account on behalf of the admin of a session, or of user.Operator for the zero Session: it opens
// nothing from the next request on. account.ErrUseOwnPage, user.ErrNotFound, user.ErrNotAdmin, user.ErrLastAdmin,
// account.ErrPending; session.ErrNotFound when the session has ended meanwhile.
func (s *Service) Disable(ctx context.Context, by session.Session, id int64) error {
	if by.UserID == id {
		return account.ErrUseOwnPage
	}
	r, err := s.users.Disable(ctx, id, by)
	_, err = s.accounts.Follow(ctx, r, err)
	return err
}

// Enable undoes Disable, on behalf of an admin or user.Operator as Disable does. user.ErrNotFound, user.ErrNotAdmin,
// session.ErrNotFound.
func (s *Service) Enable(ctx context.Context, by session.Session, id int64) error {
	return s.users.Enable(ctx, id, by)
}

// NameHousehold names the household on behalf of an admin or user.Operator. user.ErrHouseholdName, user.ErrNotAdmin.
func (s *Service) NameHousehold(ctx context.Context, by int64, name string) error {
	name, err := user.CleanHouseholdName(name)
	if err != nil {
		return err
	}
	return s.users.NameHousehold(ctx, name, by)
}

// pictures bounds what users send, and the memory that it takes: for each pixel of a progressive JPEG up to 24 bytes,
// 100 MB in all.
var pictures = picture.Options{
	MaxBytes: 900_000, MaxSide: 4096, MaxPixels: 4 << 20, Side: 512, MaxEncoded: 200_000, Crop: true, JPEG: true,
}

// SetPicture makes a file the picture of a session's user, encoded anew; a nil file removes the picture.
// picture.ErrFormat, picture.ErrTooLarge; user.ErrNotFound.
func (s *Service) SetPicture(ctx context.Context, of session.Session, file []byte) (err error) {
	if file != nil {
		if file, err = s.pictures.Encode(ctx, file); err != nil {
			return err
		}
	}
	return s.users.SetPicture(ctx, of.UserID, file, of.UserID)
}

// RemovePicture removes a user's picture on behalf of an admin. user.ErrNotFound, user.ErrNotAdmin.
func (s *Service) RemovePicture(ctx context.Context, by, id int64) error {
	return s.users.SetPicture(ctx, id, nil, by)
}

// Picture returns the picture of a user by its hash (user.User), a JPEG. user.ErrNotFound.
func (s *Service) Picture(ctx context.Context, id int64, hash string) ([]byte, error) {
	return s.users.Picture(ctx, id, hash)
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

// HideFirstSteps hides the first steps from all admins, on behalf of one. user.ErrNotAdmin.
func (s *Service) HideFirstSteps(ctx context.Context, by int64) error {
	return s.users.HideFirstSteps(ctx, by)
}

// FactorOverview returns all users as Members does, and whether the household requires a second factor.
func (s *Service) FactorOverview(ctx context.Context) (members []user.Details, required bool, err error) {
	if members, err = s.Members(ctx); err != nil {
		return nil, false, err
	}
	household, err := s.accounts.Household(ctx)
	return members, household.RequireSecondFactor, err
}
