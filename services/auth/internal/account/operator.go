package account

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// The operator sits at the machine itself and needs no session. He names users
// by their username.

// Bootstrap creates the first admin while there is no user at all, and tells
// whether it did. The user's name is also what is displayed.
func (s *Service) Bootstrap(ctx context.Context, username, pw string) (created bool, err error) {
	users, err := s.users.List(ctx)
	if err != nil || len(users) > 0 {
		return false, err
	}
	role := string(user.Admin)
	_, err = s.create(ctx, NewUser{Username: username, DisplayName: username, Password: pw, Role: &role}, s.users.CreateFirst)
	if errors.Is(err, user.ErrNotEmpty) || errors.Is(err, user.ErrUsernameTaken) {
		return false, nil
	}
	return err == nil, err
}

// Add creates a user. The errors are Create's, but for those of a session.
func (s *Service) Add(ctx context.Context, n NewUser) (user.User, error) {
	return s.create(ctx, n, func(ctx context.Context, record user.New) (user.User, error) {
		return s.users.Create(ctx, record, user.Operator)
	})
}

// ResetPassword gives a user a new password and ends all his sessions.
// user.ErrNotFound, password.ErrTooShort, password.ErrTooLong, ErrPending.
func (s *Service) ResetPassword(ctx context.Context, username, replacement string) error {
	if err := password.Check(replacement); err != nil {
		return err
	}
	u, err := s.users.ByUsername(ctx, username)
	if err != nil {
		return err
	}
	hash, err := s.hash(ctx, replacement)
	if err != nil {
		return err
	}
	r, err := s.users.ResetPassword(ctx, u.ID, hash)
	if err != nil {
		return err
	}
	return s.follow(ctx, r)
}

// SetRole gives a user another role, which his live sessions have at once.
// user.ErrNotFound, user.ErrRole, user.ErrLastAdmin, ErrPending.
func (s *Service) SetRole(ctx context.Context, username, role string) error {
	parsed, err := user.ParseRole(role)
	if err != nil {
		return err
	}
	u, err := s.users.ByUsername(ctx, username)
	if err != nil {
		return err
	}
	r, err := s.users.SetRole(ctx, u.ID, parsed)
	if err != nil {
		return err
	}
	return s.follow(ctx, r)
}

// Remove deletes a user and ends all his sessions. user.ErrNotFound,
// user.ErrLastAdmin, ErrPending.
func (s *Service) Remove(ctx context.Context, username string) error {
	u, err := s.users.ByUsername(ctx, username)
	if err != nil {
		return err
	}
	r, err := s.users.Delete(ctx, u.ID, user.Operator)
	if err != nil {
		return err
	}
	return s.follow(ctx, r)
}

// Sessions returns the live sessions of a user, the one used last first.
// user.ErrNotFound.
func (s *Service) Sessions(ctx context.Context, username string) ([]session.Info, error) {
	u, err := s.users.ByUsername(ctx, username)
	if err != nil {
		return nil, err
	}
	return s.sessions.List(ctx, u.ID)
}

// RevokeSession ends the session of a user whose key begins like that.
// user.ErrNotFound; session.ErrNotFound when it is none, or more than one.
func (s *Service) RevokeSession(ctx context.Context, username, key string) error {
	infos, err := s.Sessions(ctx, username)
	if err != nil {
		return err
	}
	infos = slices.DeleteFunc(infos, func(i session.Info) bool { return !strings.HasPrefix(i.Key, key) })
	if len(infos) != 1 {
		return session.ErrNotFound
	}
	return s.sessions.Delete(ctx, infos[0].Ref)
}

// RevokeSessions ends all sessions of a user and returns how many.
// user.ErrNotFound, ErrPending.
func (s *Service) RevokeSessions(ctx context.Context, username string) (int, error) {
	u, err := s.users.ByUsername(ctx, username)
	if err != nil {
		return 0, err
	}
	r, err := s.users.EndSessions(ctx, u.ID)
	if err != nil {
		return 0, err
	}
	return s.followCounting(ctx, r)
}
