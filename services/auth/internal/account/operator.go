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

// The commands of the operator, who needs no session and names users by username.

// Bootstrap creates the first admin while there is no user at all, and reports
// whether it did. The username is also the display name.
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

// Add creates a user. The errors are Create's without those of a session.
func (s *Service) Add(ctx context.Context, n NewUser) (user.User, error) {
	return s.create(ctx, n, func(ctx context.Context, record user.New) (user.User, error) {
		return s.users.Create(ctx, record, user.Operator)
	})
}

// ResetPassword sets a user's password and ends all of their sessions.
// user.ErrNotFound, password.ErrTooShort, password.ErrTooLong, ErrPending.
func (s *Service) ResetPassword(ctx context.Context, username, replacement string) error {
	if err := password.Check(replacement); err != nil {
		return err
	}
	_, err := s.change(ctx, username, func(id int64) (user.Revocation, error) {
		hash, err := s.passwords.Hash(ctx, replacement)
		if err != nil {
			return user.Revocation{}, err
		}
		return s.users.ResetPassword(ctx, id, hash)
	})
	return err
}

// SetRole changes a user's role, in live sessions at once. user.ErrNotFound,
// user.ErrRole, user.ErrLastAdmin.
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

// Remove deletes a user and ends all of their sessions. user.ErrNotFound,
// user.ErrLastAdmin, ErrPending.
func (s *Service) Remove(ctx context.Context, username string) error {
	_, err := s.change(ctx, username, func(id int64) (user.Revocation, error) { return s.users.Delete(ctx, id, user.Operator) })
	return err
}

// RevokeSessions ends all sessions of a user and returns how many.
// user.ErrNotFound, ErrPending.
func (s *Service) RevokeSessions(ctx context.Context, username string) (int, error) {
	return s.change(ctx, username, func(id int64) (user.Revocation, error) { return s.users.EndSessions(ctx, id) })
}

// change makes a change of a user and carries out its revocation. It returns how
// many sessions were ended.
func (s *Service) change(ctx context.Context, username string, do func(id int64) (user.Revocation, error)) (int, error) {
	u, err := s.users.ByUsername(ctx, username)
	if err != nil {
		return 0, err
	}
	r, err := do(u.ID)
	if err != nil {
		return 0, err
	}
	return s.follow(ctx, r)
}

// Sessions returns the live sessions of a user with their current role, the one used
// last first. user.ErrNotFound.
func (s *Service) Sessions(ctx context.Context, username string) ([]session.Info, error) {
	u, err := s.users.ByUsername(ctx, username)
	if err != nil {
		return nil, err
	}
	infos, err := s.sessions.List(ctx, u.ID)
	for i := range infos {
		infos[i].Role = string(u.Role)
	}
	return infos, err
}

// RevokeSession ends the session of a user whose key has the prefix.
// user.ErrNotFound; session.ErrNotFound when none or several have it.
func (s *Service) RevokeSession(ctx context.Context, username, prefix string) error {
	infos, err := s.Sessions(ctx, username)
	if err != nil {
		return err
	}
	infos = slices.DeleteFunc(infos, func(i session.Info) bool { return !strings.HasPrefix(i.Key, prefix) })
	if len(infos) != 1 {
		return session.ErrNotFound
	}
	return s.sessions.Delete(ctx, infos[0].Ref)
}
