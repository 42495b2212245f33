package account

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Lengths that a login takes, in code points (contract section 8).
const (
	maxUsername = 64
	maxPassword = 1024
)

// loginTries bounds how often a login looks again after the user changed under
// it. Twice in one login is no accident any more.
const loginTries = 3

// openTimeout bounds the steps from the fence to the session, together: a store
// that is slow at each of them must not keep anybody waiting for all.
const openTimeout = 2500 * time.Millisecond

// Login checks name and password and calls open with what a session needs.
// ErrMissing, ErrTooLong; ErrInvalidCredentials, always after the same amount
// of work; password.ErrBusy; any error of open.
//
// Nothing that happens meanwhile lets a session slip through: the fence is
// asked for before the user is read, and open fails with session.ErrFenced when
// the user's sessions were revoked since. Then, as when the password's hash is
// another one by now, everything is looked at again.
func (s *Service) Login(ctx context.Context, username, pw string, open func(context.Context, session.Login) error) (user.User, error) {
	if username == "" || pw == "" {
		return user.User{}, ErrMissing
	}
	if utf8.RuneCountInString(username) > maxUsername || utf8.RuneCountInString(pw) > maxPassword {
		return user.User{}, ErrTooLong
	}
	u, err := s.users.ByUsername(ctx, username)
	if errors.Is(err, user.ErrNotFound) {
		return user.User{}, invalid(s.verifyDummy(ctx, pw))
	}
	if err != nil {
		return user.User{}, fmt.Errorf("find user: %w", err)
	}
	u, err = s.open(ctx, u, pw, open)
	if err != nil {
		return user.User{ID: u.ID}, err
	}
	s.rehash(ctx, u, pw)
	return u, nil
}

// open verifies the password of u, as often as its hash changes, and opens the
// session. It returns u also with an error, for the log.
func (s *Service) open(ctx context.Context, u user.User, pw string, open func(context.Context, session.Login) error) (user.User, error) {
	verified := ""
	for range loginTries {
		if u.PasswordHash != verified {
			if err := s.verify(ctx, u.PasswordHash, pw); err != nil {
				return u, invalid(err)
			}
			verified = u.PasswordHash
		}
		now, err := s.openAs(ctx, u, open)
		if !errors.Is(err, user.ErrChanged) && !errors.Is(err, session.ErrFenced) {
			return now, err
		}
		u = now
	}
	return u, ErrInvalidCredentials
}

// openAs opens the session of u, whose password is verified, and returns u as he
// is by now. user.ErrChanged: his password is another one; session.ErrFenced.
func (s *Service) openAs(ctx context.Context, u user.User, open func(context.Context, session.Login) error) (user.User, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	fence, err := s.sessions.Fence(ctx, u.ID)
	if err != nil {
		return u, fmt.Errorf("fence login: %w", err)
	}
	now, err := s.users.ByID(ctx, u.ID)
	if errors.Is(err, user.ErrNotFound) {
		return u, ErrInvalidCredentials
	}
	if err != nil {
		return u, fmt.Errorf("read user again: %w", err)
	}
	if now.PasswordHash != u.PasswordHash {
		return now, user.ErrChanged
	}
	return now, open(ctx, session.Login{UserID: now.ID, Username: now.Username, Role: string(now.Role), Stamp: now.SessionStamp, Fence: fence})
}

// invalid turns a failed comparison into ErrInvalidCredentials.
func invalid(err error) error {
	if errors.Is(err, password.ErrMismatch) {
		return ErrInvalidCredentials
	}
	return err
}

// LearnCosts reads which costs the stored hashes have, so that a failed login takes
// as long for every name.
func (s *Service) LearnCosts(ctx context.Context) error {
	users, err := s.users.List(ctx)
	if err != nil {
		return err
	}
	for _, u := range users {
		s.passwords.Seen(u.PasswordHash)
	}
	return nil
}

// rehash stores a hash of today's cost where the old one is weaker. It may fail:
// the next login tries again.
func (s *Service) rehash(ctx context.Context, u user.User, pw string) {
	if !s.passwords.NeedsRehash(u.PasswordHash, pw) {
		return
	}
	hash, err := s.hash(ctx, pw)
	if err == nil {
		err = s.users.Rehash(ctx, u.ID, u.PasswordHash, hash)
	}
	if err != nil && !errors.Is(err, user.ErrChanged) && !errors.Is(err, user.ErrNotFound) {
		s.log.WarnContext(ctx, "password not hashed anew", "user_id", u.ID, "error", err)
	}
}
