package account

import (
	"context"
	"errors"

	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// NewUser is what somebody says of a user to create. An AvatarColor or Role that
// is nil means the default.
type NewUser struct {
	Username, DisplayName, Password string
	AvatarColor, Role               *string
}

// Create adds a user on behalf of the admin of a session. In this order:
// ErrMissing; password.ErrTooShort, password.ErrTooLong; the sentinels of user
// for username, display name, role, colour; session.ErrNotFound when the session
// has ended meanwhile; user.ErrNotAdmin (any more); user.ErrUsernameTaken.
//
// The session is looked at again because the caller read it before a body that
// may have taken a minute to arrive.
func (s *Service) Create(ctx context.Context, by session.Session, n NewUser) (user.User, error) {
	return s.create(ctx, n, func(ctx context.Context, record user.New) (user.User, error) {
		now, err := s.sessions.Load(ctx, by.Ref, session.Lifetime)
		if err != nil {
			return user.User{}, err
		}
		if _, err := s.Holder(ctx, now); errors.Is(err, user.ErrNotFound) {
			return user.User{}, session.ErrNotFound
		} else if err != nil {
			return user.User{}, err
		}
		return s.users.Create(ctx, record, by.UserID)
	})
}

func (s *Service) create(ctx context.Context, n NewUser, add func(context.Context, user.New) (user.User, error)) (user.User, error) {
	record, err := n.check()
	if err != nil {
		return user.User{}, err
	}
	if record.PasswordHash, err = s.hash(ctx, n.Password); err != nil {
		return user.User{}, err
	}
	return add(ctx, record)
}

// check gives the record of a user, without password hash, in the contract's
// order of validation.
func (n NewUser) check() (user.New, error) {
	if n.Username == "" || n.DisplayName == "" || n.Password == "" {
		return user.New{}, ErrMissing
	}
	if err := password.Check(n.Password); err != nil {
		return user.New{}, err
	}
	if err := user.CheckUsername(n.Username); err != nil {
		return user.New{}, err
	}
	displayName, err := user.CleanDisplayName(n.DisplayName)
	if err != nil {
		return user.New{}, err
	}
	role, err := user.ParseRole(valueOr(n.Role, string(user.Member)))
	if err != nil {
		return user.New{}, err
	}
	color := valueOr(n.AvatarColor, user.DefaultAvatarColor)
	if err := user.CheckAvatarColor(color); err != nil {
		return user.New{}, err
	}
	return user.New{Username: n.Username, DisplayName: displayName, AvatarColor: color, Role: role}, nil
}

func valueOr(s *string, otherwise string) string {
	if s == nil {
		return otherwise
	}
	return *s
}

// Holder returns the user of a session as they are now, which is what counts: the
// session store may have forgotten what it was told. user.ErrNotFound: the user
// is gone; session.ErrNotFound: the session has ended.
func (s *Service) Holder(ctx context.Context, of session.Session) (user.User, error) {
	u, err := s.users.ByID(ctx, of.UserID)
	if err != nil {
		return user.User{}, err
	}
	if !u.Admits(of.Stamp, of.Key) {
		return user.User{}, session.ErrNotFound
	}
	return u, nil
}

// List returns all users by display name, as a German reader expects.
func (s *Service) List(ctx context.Context) ([]user.User, error) {
	users, err := s.users.List(ctx)
	if err != nil {
		return nil, err
	}
	user.Sort(users)
	return users, nil
}

// Delete removes a user and ends all his sessions, on behalf of the admin of a
// session. ErrOwnAccount, user.ErrNotFound, user.ErrNotAdmin (any more),
// ErrPending.
func (s *Service) Delete(ctx context.Context, by session.Session, id int64) error {
	if id == by.UserID {
		return ErrOwnAccount
	}
	r, err := s.users.Delete(ctx, id, by.UserID)
	if err != nil {
		return err
	}
	return s.follow(ctx, r)
}
