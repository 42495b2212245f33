package account

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// ChangePassword sets the password of a session's user and ends all their other sessions. In this order: ErrMissing;
// password.ErrTooShort, password.ErrTooLong; the errors of CheckSetPassword; user.ErrNotFound; ErrWrongPassword,
// password.ErrBusy; session.ErrNotFound when the session has ended meanwhile; ErrPending. Of several concurrent changes
// of an old password to other ones at most one succeeds.
func (s *Service) ChangePassword(ctx context.Context, by session.Session, current, replacement string) error {
	if current == "" || replacement == "" {
		return ErrMissing
	}
	if err := password.Check(replacement); err != nil {
		return err
	}
	if utf8.RuneCountInString(current) > password.MaxLength {
		return password.ErrTooLong
	}
	if err := s.CheckSetPassword(ctx, replacement, by.Username); err != nil {
		return err
	}
	for range loginTries {
		err := s.changeOnce(ctx, by, current, replacement)
		if errors.Is(err, ErrWrongPassword) {
			s.recordFailed(ctx, "password_change_failed", by)
		}
		if !errors.Is(err, user.ErrChanged) {
			return err
		}
	}
	return ErrWrongPassword
}

// changeOnce is one try of ChangePassword. user.ErrChanged: the hash was replaced meanwhile; the next try
// compares with the new one.
func (s *Service) changeOnce(ctx context.Context, by session.Session, current, replacement string) error {
	u, err := s.users.ByID(ctx, by.UserID)
	if err != nil {
		return err
	}
	if _, err := s.passwords.Verify(ctx, u.PasswordHash, current); errors.Is(err, password.ErrMismatch) {
		return ErrWrongPassword
	} else if err != nil {
		return err
	}
	return s.replaceHash(ctx, by, u.PasswordHash, replacement)
}

// replaceHash sets the password of a session's user if its hash is still old, else user.ErrChanged, and ends their
// other sessions. session.ErrNotFound when the session has ended, as it may while the new hash is computed;
// password.ErrBusy, ErrPending.
func (s *Service) replaceHash(ctx context.Context, by session.Session, old, pw string) error {
	hash, err := s.passwords.Hash(ctx, pw)
	if err != nil {
		return err
	}
	if err := s.CheckLive(ctx, by); err != nil { // the user's row does not say that one session was ended
		return err
	}
	r, err := s.users.SetPasswordHash(ctx, by, old, hash)
	_, err = s.Follow(ctx, r, err)
	return err
}

// SetFirstPassword sets the password of a session's user who has none and has just proved who they are, and ends
// their other sessions. ErrReauthRequired; user.ErrChanged where they have one; password.ErrTooShort,
// password.ErrTooLong, password.ErrCommon, password.ErrBusy; ErrPending; user.ErrNotFound as Holder;
// session.ErrNotFound as Holder and CheckLive.
func (s *Service) SetFirstPassword(ctx context.Context, by session.Session, pw string) error {
	u, err := s.Holder(ctx, by)
	if err != nil {
		return err
	}
	if err := s.CheckFresh(by, u); err != nil {
		return err
	}
	if err := s.CheckPassword(ctx, pw, u.Username, u.DisplayName); err != nil {
		return err
	}
	return s.replaceHash(ctx, by, user.NoPassword, pw)
}

// CheckPassword checks a new password: password.ErrTooShort, password.ErrTooLong; password.ErrCommon for a well-known
// one, for one of names, and for the household's name.
func (s *Service) CheckPassword(ctx context.Context, pw string, names ...string) error {
	if err := password.Check(pw); err != nil {
		return err
	}
	household, err := s.Household(ctx)
	if err != nil {
		return err
	}
	return password.CheckCommon(pw, append(names, household.Name)...)
}

// CheckSetPassword is CheckPassword where Options.RefuseCommon is set. Otherwise it checks nothing.
func (s *Service) CheckSetPassword(ctx context.Context, pw string, names ...string) error {
	if !s.refuseCommon {
		return nil
	}
	return s.CheckPassword(ctx, pw, names...)
}

// ResetPassword sets a user's password and ends all of their sessions. user.ErrNotFound, password.ErrTooShort,
// password.ErrTooLong, password.ErrBusy, ErrPending.
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
