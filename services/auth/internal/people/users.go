package people

import (
	"context"
	"errors"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// NewUser are the fields of a user to create. A nil AvatarColor or Role means the
// default.
type NewUser struct {
	Username, DisplayName, Password string
	AvatarColor, Role               *string
}

// Create adds a user on behalf of the admin of a session. In this order: account.ErrMissing; password.ErrTooShort,
// password.ErrTooLong; the sentinels of user for username, display name, role, colour; the errors of
// account.Service.CheckSetPassword, password.ErrBusy; session.ErrNotFound when the session has ended meanwhile;
// user.ErrNotAdmin; user.ErrUsernameTaken.
//
// The session is checked again because it may have ended while the password was hashed, which may take seconds.
func (s *Service) Create(ctx context.Context, by session.Session, n NewUser) (user.User, error) {
	return s.create(ctx, n, func(ctx context.Context, record user.New) (user.User, error) {
		if err := s.accounts.CheckLive(ctx, by); err != nil {
			return user.User{}, err
		}
		return s.users.Create(ctx, record, by)
	})
}

func (s *Service) create(
	ctx context.Context, n NewUser, add func(context.Context, user.New) (user.User, error),
) (user.User, error) {
	record, err := n.check()
	if err == nil {
		err = s.accounts.CheckSetPassword(ctx, n.Password, record.Username, record.DisplayName)
	}
	if err != nil {
		return user.User{}, err
	}
	if record.PasswordHash, err = s.passwords.Hash(ctx, n.Password); err != nil {
		return user.User{}, err
	}
	return add(ctx, record)
}

// check validates in the order of AUTH-6.9 and returns the record without password
// hash.
func (n NewUser) check() (user.New, error) {
	if n.Username == "" || n.DisplayName == "" || n.Password == "" {
		return user.New{}, account.ErrMissing
	}
	if err := password.Check(n.Password); err != nil {
		return user.New{}, err
	}
	return n.record()
}

// record checks the fields but the password, and returns the record without password hash.
func (n NewUser) record() (user.New, error) {
	if n.Username == "" || n.DisplayName == "" {
		return user.New{}, account.ErrMissing
	}
	if err := user.CheckUsername(n.Username); err != nil {
		return user.New{}, err
	}
	displayName, err := user.CleanDisplayName(n.DisplayName)
	if err != nil {
		return user.New{}, err
	}
	role, color := string(user.Member), user.DefaultAvatarColor
	if n.Role != nil {
		role = *n.Role
	}
	if n.AvatarColor != nil {
		color = *n.AvatarColor
	}
	parsed, err := user.ParseRole(role)
	if err != nil {
		return user.New{}, err
	}
	if err := user.CheckAvatarColor(color); err != nil {
		return user.New{}, err
	}
	return user.New{Username: n.Username, DisplayName: displayName, AvatarColor: color, Role: parsed}, nil
}

// ByUsername returns the user of exactly this name (case matters). user.ErrNotFound.
func (s *Service) ByUsername(ctx context.Context, username string) (user.User, error) {
	return s.users.ByUsername(ctx, username)
}

// List returns all users by display name in German collation.
func (s *Service) List(ctx context.Context) ([]user.User, error) {
	users, err := s.users.List(ctx)
	if err != nil {
		return nil, err
	}
	user.Sort(users)
	return users, nil
}

// Delete removes a user and ends all of their sessions, on behalf of the admin of a session, or of user.Operator for
// the zero Session. ErrOwnAccount, user.ErrNotFound, user.ErrNotAdmin, user.ErrLastAdmin, account.ErrPending;
// session.ErrNotFound when the session has ended meanwhile.
func (s *Service) Delete(ctx context.Context, by session.Session, id int64) error {
	if id == by.UserID {
		return ErrOwnAccount
	}
	return s.delete(ctx, id, by)
}

// DeleteOwn deletes the account of a session's user, at their wish. session.ErrNotFound when the session has ended
// meanwhile, or user.ErrNotFound when the user was deleted meanwhile; user.ErrLastAdmin, account.ErrPending.
func (s *Service) DeleteOwn(ctx context.Context, of session.Session) error {
	if err := s.accounts.CheckLive(ctx, of); err != nil {
		return err
	}
	return s.delete(ctx, of.UserID, of)
}

func (s *Service) delete(ctx context.Context, id int64, by session.Session) error {
	r, err := s.users.Delete(ctx, id, by)
	_, err = s.accounts.Follow(ctx, r, err)
	return err
}

// Commands of the operator, who needs no session.

// Bootstrap creates the first admin while there is no user at all, and reports whether it did. The username is also
// the display name. Errors are those of Add but user.ErrUsernameTaken.
func (s *Service) Bootstrap(ctx context.Context, username, pw string) (created bool, err error) {
	users, err := s.users.List(ctx)
	if err != nil || len(users) > 0 {
		return false, err
	}
	role := string(user.Admin)
	_, err = s.create(ctx, NewUser{Username: username, DisplayName: username, Password: pw, Role: &role},
		s.users.CreateFirst)
	if errors.Is(err, user.ErrNotEmpty) || errors.Is(err, user.ErrUsernameTaken) {
		return false, nil
	}
	return err == nil, err
}

// Add creates a user. The errors are Create's without session.ErrNotFound and user.ErrNotAdmin.
func (s *Service) Add(ctx context.Context, n NewUser) (user.User, error) {
	return s.create(ctx, n, func(ctx context.Context, record user.New) (user.User, error) {
		return s.users.Create(ctx, record, session.Session{})
	})
}

// CheckFormer returns user.ErrUsernameFormer for a name that a user had before, or that a deleted user had:
// applications may take the next user of that name for the earlier one.
func (s *Service) CheckFormer(ctx context.Context, username string) error {
	return s.users.CheckFormer(ctx, username)
}

// SetRole changes a user's role, in live sessions at once. user.ErrNotFound, user.ErrRole, user.ErrLastAdmin,
// user.ErrGuestAdmin.
func (s *Service) SetRole(ctx context.Context, username, role string) error {
	parsed, err := user.ParseRole(role)
	if err != nil {
		return err
	}
	u, err := s.users.ByUsername(ctx, username)
	if err != nil {
		return err
	}
	return s.users.SetRole(ctx, u.ID, parsed)
}
