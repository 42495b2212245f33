package account

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

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

// Create adds a user on behalf of the admin of a session. In this order:
// ErrMissing; password.ErrTooShort, password.ErrTooLong; the sentinels of user
// for username, display name, role, colour; session.ErrNotFound when the session
// has ended meanwhile; user.ErrNotAdmin; user.ErrUsernameTaken.
//
// The session is checked again because the caller loaded it before it read a body
// that may have taken a minute to arrive.
func (s *Service) Create(ctx context.Context, by session.Session, n NewUser) (user.User, error) {
	return s.create(ctx, n, func(ctx context.Context, record user.New) (user.User, error) {
		if err := s.CheckLive(ctx, by); err != nil {
			return user.User{}, err
		}
		return s.users.Create(ctx, record, by.UserID)
	})
}

func (s *Service) create(ctx context.Context, n NewUser, add func(context.Context, user.New) (user.User, error)) (user.User, error) {
	record, err := n.check()
	if err == nil && s.refuseCommon {
		err = s.checkPassword(ctx, n.Password, record.Username, record.DisplayName)
	}
	if err != nil {
		return user.User{}, err
	}
	if record.PasswordHash, err = s.passwords.Hash(ctx, n.Password); err != nil {
		return user.User{}, err
	}
	return add(ctx, record)
}

// check validates in the contract's order and returns the record without password
// hash.
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

// Holder returns the user of a session as stored now. The user's row decides, as
// the session store may have lost a revocation. user.ErrNotFound: the user was
// deleted; session.ErrNotFound: the session has ended.
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

// CheckLive returns session.ErrNotFound when a session has ended since it was loaded, as it
// may while a body arrives.
func (s *Service) CheckLive(ctx context.Context, of session.Session) error {
	now, err := s.sessions.Load(ctx, of.Ref, s.lifetime)
	if err != nil {
		return err
	}
	if _, err = s.Holder(ctx, now); errors.Is(err, user.ErrNotFound) {
		return session.ErrNotFound
	}
	return err
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

// Delete removes a user and ends all of their sessions, on behalf of the admin of a
// session. ErrOwnAccount, user.ErrNotFound, user.ErrNotAdmin, ErrPending.
func (s *Service) Delete(ctx context.Context, by session.Session, id int64) error {
	if id == by.UserID {
		return ErrOwnAccount
	}
	r, err := s.users.Delete(ctx, id, by.UserID)
	if err != nil {
		return err
	}
	_, err = s.follow(ctx, r)
	return err
}

// ChangePassword sets the password of a session's user and ends all their other
// sessions. In this order: ErrMissing; password.ErrTooShort, password.ErrTooLong;
// user.ErrNotFound; ErrWrongPassword; ErrPending. Of several concurrent changes
// with the same old password exactly one succeeds.
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
	if s.refuseCommon {
		if err := s.checkPassword(ctx, replacement, by.Username); err != nil {
			return err
		}
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

// CheckOwnPassword checks a password that a user chooses on a page, which refuses well-known
// ones whatever the settings: password.ErrTooShort, password.ErrTooLong, password.ErrCommon.
func (s *Service) CheckOwnPassword(ctx context.Context, u user.User, pw string) error {
	return s.checkPassword(ctx, pw, u.Username, u.DisplayName)
}

// changeOnce is one try. user.ErrChanged: the hash was replaced meanwhile; the next try
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
	hash, err := s.passwords.Hash(ctx, replacement)
	if err != nil {
		return err
	}
	r, err := s.users.SetPasswordHash(ctx, u.ID, u.PasswordHash, hash, by.Key)
	if err != nil {
		return err
	}
	_, err = s.follow(ctx, r)
	return err
}

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

// CheckFormer returns user.ErrUsernameFormer for the name of a deleted user: applications may take the next one for them.
func (s *Service) CheckFormer(ctx context.Context, username string) error {
	return s.users.CheckFormer(ctx, username)
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
