package account

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// ChangePassword gives the user of a session a new password and ends all other
// sessions of that user. In this order: ErrMissing; password.ErrTooShort,
// password.ErrTooLong; user.ErrNotFound; ErrWrongPassword; ErrPending. Of several
// changes that know the same old password exactly one succeeds.
func (s *Service) ChangePassword(ctx context.Context, by session.Session, current, replacement string) error {
	if current == "" || replacement == "" {
		return ErrMissing
	}
	if err := password.Check(replacement); err != nil {
		return err
	}
	if utf8.RuneCountInString(current) > maxPassword {
		return password.ErrTooLong
	}
	for range loginTries {
		err := s.change(ctx, by, current, replacement)
		if !errors.Is(err, user.ErrChanged) {
			return err
		}
	}
	return ErrWrongPassword
}

// change is one try. user.ErrChanged: the hash is another one by now, which the
// next try compares with.
func (s *Service) change(ctx context.Context, by session.Session, current, replacement string) error {
	u, err := s.users.ByID(ctx, by.UserID)
	if err != nil {
		return err
	}
	if err := s.verify(ctx, u.PasswordHash, current); errors.Is(err, password.ErrMismatch) {
		return ErrWrongPassword
	} else if err != nil {
		return err
	}
	hash, err := s.hash(ctx, replacement)
	if err != nil {
		return err
	}
	r, err := s.users.SetPasswordHash(ctx, u.ID, u.PasswordHash, hash, by.Key)
	if err != nil {
		return err
	}
	return s.follow(ctx, r)
}
