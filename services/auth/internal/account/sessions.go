package account

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// ErrNoSession is returned where the user has no live session with a key.
var ErrNoSession = errors.New("no such session of the user")

// about returns an event that concerns a user.
func about(name string, u user.User) audit.Event {
	return audit.Event{Name: name, SubjectID: u.ID, SubjectName: u.Username}
}

// recordFailed counts a wrong proof of who a session's user is.
func (s *Service) recordFailed(ctx context.Context, name string, of session.Session) {
	s.audit.RecordCounted(ctx, audit.Event{Name: name, SubjectID: of.UserID, SubjectName: of.Username})
}

// OwnSessions returns the live sessions of a session's user that the user's row admits,
// the one used last first, with LastUsedAt, which is exact to a second or a thousandth of
// the lifetime.
func (s *Service) OwnSessions(ctx context.Context, of session.Session) ([]session.Info, error) {
	u, err := s.users.ByID(ctx, of.UserID)
	if err != nil {
		return nil, err
	}
	infos, err := s.sessions.List(ctx, u.ID)
	if err != nil {
		return nil, err
	}
	infos = slices.DeleteFunc(infos, func(i session.Info) bool { return !u.Admits(i.Stamp, i.Key) })
	for i := range infos {
		infos[i].Role, infos[i].LastUsedAt = string(u.Role), s.lastUsed(infos[i])
	}
	return infos, nil
}

// lastUsed follows from the expiry. After a change of the lifetime it is off until the
// next use.
func (s *Service) lastUsed(i session.Info) time.Time {
	at := i.ExpiresAt.Add(-s.lifetime).Truncate(time.Second)
	if at.Before(i.CreatedAt) {
		return i.CreatedAt
	}
	if now := s.now().UTC().Truncate(time.Second); at.After(now) {
		return now
	}
	return at
}

// EndSession ends the session of a key of a session's user. ErrNoSession.
func (s *Service) EndSession(ctx context.Context, of session.Session, key string) error {
	infos, err := s.OwnSessions(ctx, of)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(infos, func(i session.Info) bool { return i.Key == key }) {
		return ErrNoSession
	}
	if err := s.End(ctx, session.Ref{UserID: of.UserID, Key: key}); err != nil {
		return err
	}
	s.audit.Record(ctx, audit.Event{Name: "session_ended", SubjectID: of.UserID, SubjectName: of.Username})
	return nil
}

// EndOthers ends all sessions of a session's user but this one, and logins under way, and
// returns how many. ErrPending.
func (s *Service) EndOthers(ctx context.Context, of session.Session) (int, error) {
	r, err := s.factors.EndOthers(ctx, of.UserID, of.Key)
	if err != nil {
		return 0, err
	}
	return s.follow(ctx, r)
}

// Browsers returns the browsers that a session's user has logged in with, the one used
// last first.
func (s *Service) Browsers(ctx context.Context, of session.Session) ([]factor.Browser, error) {
	return s.factors.Browsers(ctx, of.UserID)
}

// ForgetBrowser has the next login with a browser be one with a new browser.
func (s *Service) ForgetBrowser(ctx context.Context, of session.Session, hash string) error {
	return s.factors.ForgetBrowser(ctx, of.UserID, hash)
}

// NoticesSeen marks the notices of a session's user as read, as audit.Recorder.NoticesSeen. session.ErrNotFound.
func (s *Service) NoticesSeen(ctx context.Context, of session.Session, upTo time.Time) error {
	err := s.audit.NoticesSeen(ctx, of.UserID, upTo)
	if errors.Is(err, user.ErrNotFound) {
		return session.ErrNotFound
	}
	return err
}
