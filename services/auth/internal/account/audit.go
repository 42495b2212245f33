package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/token"
)

// recordLater records an event that is no part of a change.
func (s *Service) recordLater(ctx context.Context, e audit.Event) {
	s.later.do(ctx, func(ctx context.Context) {
		if err := s.auditing.Record(ctx, e); err != nil {
			s.log.WarnContext(ctx, "record audit event failed", "event", e.Name, "error", err)
		}
	})
}

// recordFailed counts a wrong proof of who a session's user is.
func (s *Service) recordFailed(ctx context.Context, name string, of session.Session) {
	s.recordCounted(ctx, audit.Event{Name: name, SubjectID: of.UserID, SubjectName: of.Username})
}

// recordLogin records the result of a login: a session, or credentials that are wrong.
func (s *Service) recordLogin(ctx context.Context, in LoggedIn, err error) {
	switch {
	case err == nil && in.SessionID != "":
		s.recordLater(audit.With(ctx, actorOf(ctx, in)), audit.Event{Name: "login", SubjectID: in.User.ID, SubjectName: in.User.Username})
	case errors.Is(err, ErrInvalidCredentials):
		s.recordCounted(ctx, audit.Event{Name: "login_failed", SubjectID: in.User.ID, SubjectName: in.User.Username})
	}
}

// actorOf is the user of a login, from where the context's actor is.
func actorOf(ctx context.Context, in LoggedIn) audit.Actor {
	by := audit.From(ctx)
	by.Kind, by.ID, by.Name, by.SessionKey = audit.User, in.User.ID, in.User.Username, in.Session.Key
	return by
}

// recordCounted records an event that a client can cause without bounds: those of an
// hour, network and user are one row.
func (s *Service) recordCounted(ctx context.Context, e audit.Event) {
	e.Bucket = fmt.Sprintf("%s %d %s %d", e.Name, s.now().Truncate(time.Hour).Unix(), audit.From(ctx).Network, e.SubjectID)
	s.recordLater(ctx, e)
}

// AuditRetention returns how long entries are kept; zero: for ever.
func (s *Service) AuditRetention() time.Duration { return s.retention }

// sweepInterval is how often old entries and app tokens are deleted.
const sweepInterval = 24 * time.Hour

// Sweep deletes old entries of the audit, and app tokens that ended token.KeepEnded ago,
// at once and then daily, until ctx ends.
func (s *Service) Sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		if s.retention > 0 {
			if _, err := s.auditing.Sweep(ctx, s.now().Add(-s.retention)); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "sweep of the audit failed", "error", err)
			}
		}
		if _, err := s.tokens.SweepTokens(ctx, s.now().Add(-token.KeepEnded)); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "sweep of app tokens failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
