package account

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// ErrNoSession is returned where the user has no live session with a key.
var ErrNoSession = errors.New("no such session of the user")

func about(name string, u user.User) audit.Event {
	return audit.Event{Name: name, SubjectID: u.ID, SubjectName: u.Username}
}

// KnownBrowser returns the key of a limit for a user and a browser that is one of theirs (Browsers), or ""
// where it is not, or there is no such user. browser is the value of its cookie.
func (s *Service) KnownBrowser(ctx context.Context, username, browser string) (string, error) {
	u, err := s.users.ByUsername(ctx, username)
	if err != nil && !errors.Is(err, user.ErrNotFound) {
		return "", err
	}
	// Also where there is no such user, whose id is 0 then: the time that this takes does not depend on it.
	known, err := s.browsers.Browsers(ctx, u.ID)
	hash := session.HashOf(browser)
	if err != nil || !slices.ContainsFunc(known, func(b factor.Browser) bool { return b.Hash == hash }) {
		return "", err
	}
	return "browser:" + bucket(u.ID, hash), nil
}

// recordFailed records a wrong proof of who a session's user is.
func (s *Service) recordFailed(ctx context.Context, name string, of session.Session) {
	s.audit.RecordCounted(ctx, audit.Event{Name: name, SubjectID: of.UserID, SubjectName: of.Username})
}

// Since returns a context in which Holder, and policy.Service.Visitor, may go by the user's row as stored at any moment
// since this call. It is for sessions that were created before this call, as that of a cookie that has arrived.
func (s *Service) Since(ctx context.Context) context.Context { return s.users.Since(ctx) }

// Holder returns the user of a session as stored now. The user's row decides, as the session store may have lost a
// revocation. user.ErrNotFound: the user was deleted; session.ErrNotFound: the session was revoked, or the account is
// closed.
func (s *Service) Holder(ctx context.Context, of session.Session) (user.User, error) {
	u, err := s.users.ByID(ctx, of.UserID)
	if err != nil {
		return user.User{}, err
	}
	if !u.Admits(of.Stamp, of.Key, s.now()) {
		return user.User{}, session.ErrNotFound
	}
	return u, nil
}

// CheckLive returns session.ErrNotFound when a session has ended since it was loaded, as it
// may while a body arrives. Otherwise it renews the session.
func (s *Service) CheckLive(ctx context.Context, of session.Session) error {
	now, err := s.sessions.Load(ctx, of.Ref, s.lifetimes)
	if err != nil {
		return err
	}
	if _, err = s.Holder(ctx, now); errors.Is(err, user.ErrNotFound) {
		return session.ErrNotFound
	}
	return err
}

// OwnSessions returns the live sessions of a session's user that the user's row admits, the one used last first, with
// LastUsedAt, which is exact to two seconds while lifetimes stay.
func (s *Service) OwnSessions(ctx context.Context, of session.Session) ([]session.Info, error) {
	u, err := s.users.ByID(ctx, of.UserID)
	if err != nil {
		return nil, err
	}
	infos, err := s.live(ctx, u)
	for i := range infos {
		infos[i].LastUsedAt = s.lastUsed(infos[i])
	}
	slices.SortStableFunc(infos, func(a, b session.Info) int { return b.LastUsedAt.Compare(a.LastUsedAt) })
	return infos, err
}

// live returns the live sessions of a user that the user's row admits, in the order of session.Store.List.
func (s *Service) live(ctx context.Context, u user.User) ([]session.Info, error) {
	infos, err := s.sessions.List(ctx, u.ID)
	infos = slices.DeleteFunc(infos, func(i session.Info) bool { return !u.Admits(i.Stamp, i.Key, s.now()) })
	for i := range infos {
		infos[i].Role = string(u.Role)
	}
	return infos, err
}

// lastUsed returns when a session was last used, computed from its expiry. After a change of the
// lifetime it is wrong until the next use.
func (s *Service) lastUsed(i session.Info) time.Time {
	at := i.ExpiresAt.Add(-s.lifetimes.Of(i.Device)).Truncate(time.Second)
	if at.Before(i.CreatedAt) {
		return i.CreatedAt
	}
	if now := s.now().UTC().Truncate(time.Second); at.After(now) {
		return now
	}
	return at
}

// EndSession ends the session with a session key, or of the login with that key (session.Session.Login), which must be
// one of OwnSessions; else ErrNoSession.
func (s *Service) EndSession(ctx context.Context, of session.Session, key string) error {
	infos, err := s.OwnSessions(ctx, of)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(infos, func(i session.Info) bool { return i.Key == key || i.Login == key })
	if at < 0 {
		return ErrNoSession
	}
	if err := s.End(ctx, infos[at].Session); err != nil {
		return err
	}
	s.audit.Record(ctx, audit.Event{Name: "session_ended", SubjectID: of.UserID, SubjectName: of.Username})
	return nil
}

// EndOthers ends all sessions of a session's user but this one, and their logins under way. It returns how many
// sessions it ended. session.ErrNotFound where this one has ended; ErrPending.
func (s *Service) EndOthers(ctx context.Context, of session.Session) (int, error) {
	r, err := s.users.EndOthers(ctx, of)
	return s.Follow(ctx, r, ended(err))
}

// RevokeSessions ends all sessions of a user on behalf of the admin of a session. user.ErrNotFound, user.ErrNotAdmin,
// ErrPending; session.ErrNotFound when the admin's session has ended meanwhile.
func (s *Service) RevokeSessions(ctx context.Context, by session.Session, id int64) error {
	r, err := s.users.EndSessions(ctx, id, by)
	_, err = s.Follow(ctx, r, err)
	return err
}

// RevokeSessionsOf is RevokeSessions for the operator, who names users by username. It returns how many it ended.
func (s *Service) RevokeSessionsOf(ctx context.Context, username string) (int, error) {
	return s.change(ctx, username, func(id int64) (user.Revocation, error) {
		return s.users.EndSessions(ctx, id, session.Session{})
	})
}

// change makes a change of a user and carries out its revocation. It returns how
// many sessions were ended.
func (s *Service) change(
	ctx context.Context, username string, do func(id int64) (user.Revocation, error),
) (int, error) {
	u, err := s.users.ByUsername(ctx, username)
	if err != nil {
		return 0, err
	}
	r, err := do(u.ID)
	return s.Follow(ctx, r, err)
}

// Sessions returns the live sessions of a user that the user's row admits, in the order of session.Store.List.
// user.ErrNotFound.
func (s *Service) Sessions(ctx context.Context, username string) ([]session.Info, error) {
	u, err := s.users.ByUsername(ctx, username)
	if err != nil {
		return nil, err
	}
	return s.live(ctx, u)
}

// RevokeSession ends the session of a user whose key has the prefix, for the operator.
// user.ErrNotFound; session.ErrNotFound when none or several have it.
func (s *Service) RevokeSession(ctx context.Context, username, prefix string) error {
	u, err := s.users.ByUsername(ctx, username)
	if err != nil {
		return err
	}
	infos, err := s.live(ctx, u)
	if err != nil {
		return err
	}
	infos = slices.DeleteFunc(infos, func(i session.Info) bool { return !strings.HasPrefix(i.Key, prefix) })
	if len(infos) != 1 {
		return session.ErrNotFound
	}
	if err := s.End(ctx, infos[0].Session); err != nil {
		return err
	}
	s.audit.Record(ctx, about("session_ended", u))
	return nil
}

// Browsers returns the known browsers of a session's user, the one used last first.
func (s *Service) Browsers(ctx context.Context, of session.Session) ([]factor.Browser, error) {
	return s.browsers.Browsers(ctx, of.UserID)
}

// ForgetBrowser has the next login with a browser be one with a new browser.
func (s *Service) ForgetBrowser(ctx context.Context, of session.Session, hash string) error {
	return s.browsers.ForgetBrowser(ctx, of.UserID, hash)
}
