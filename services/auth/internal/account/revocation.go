package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pforte/pforte/services/auth/internal/user"
)

const (
	// replayInterval is how often Replay reads the revocations that are due.
	replayInterval = time.Second
	// followTimeout bounds how long a change waits for the session store. After it,
	// Replay carries the revocation out.
	followTimeout = 2 * time.Second
	// replayAtOnce is how many revocations Replay carries out concurrently.
	replayAtOnce = 8
	// refreshTries bounds how often a role is read again because it changed.
	refreshTries = 5
)

// Replay carries out revocations that this or another process recorded and did not
// finish, until ctx ends: at the start all of them, later those older than
// followTimeout, as the process that recorded a younger one is at work on it.
func (s *Service) Replay(ctx context.Context) {
	ticker := time.NewTicker(replayInterval)
	defer ticker.Stop()
	before := s.now().Add(replayInterval)
	failing := false
	for {
		err := s.replay(ctx, before)
		if err != nil && !failing && ctx.Err() == nil {
			s.log.ErrorContext(ctx, "replay revocations failed", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			before = s.now().Add(-followTimeout)
		}
	}
}

// replay carries out what was recorded before the instant, once.
func (s *Service) replay(ctx context.Context, before time.Time) error {
	var fault error
	for after := int64(0); ; {
		pending, err := s.users.PendingRevocations(ctx, before, after)
		if err != nil {
			return fmt.Errorf("list revocations: %w", err)
		}
		fault = cmp.Or(fault, s.carryOutAll(ctx, pending))
		if len(pending) < user.MaxPending {
			return fault
		}
		after = pending[len(pending)-1].ID
	}
}

// carryOutAll carries out several concurrently, so that one that waits for its node
// of the session store does not delay the others. It returns the first error.
func (s *Service) carryOutAll(ctx context.Context, pending []user.Revocation) error {
	faults := make([]error, len(pending))
	slots := make(chan struct{}, replayAtOnce)
	var all sync.WaitGroup
	for i, r := range pending {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			_, faults[i] = s.carryOut(ctx, r)
		})
	}
	all.Wait()
	return cmp.Or(faults...)
}

// follow carries out a revocation that was just recorded and returns how many
// sessions were ended. The change is already committed, so it goes on when the client
// hangs up. ErrPending: the session store failed, and Replay carries it out.
func (s *Service) follow(ctx context.Context, r user.Revocation) (int, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), followTimeout)
	defer cancel()
	ended, err := s.carryOut(ctx, r)
	if err != nil {
		s.log.ErrorContext(ctx, "revoke sessions failed, will be retried", "user_id", r.UserID, "error", err)
		return ended, ErrPending
	}
	return ended, nil
}

func (s *Service) carryOut(ctx context.Context, r user.Revocation) (ended int, err error) {
	switch r.Kind {
	case user.RefreshRole:
		err = s.refreshRole(ctx, r.UserID)
	default:
		ended, err = s.sessions.Revoke(ctx, r.UserID, r.KeepSession)
	}
	if err != nil {
		return ended, fmt.Errorf("revoke sessions: %w", err)
	}
	if err := s.users.RevocationDone(ctx, r.ID); err != nil {
		return ended, fmt.Errorf("delete revocation: %w", err)
	}
	return ended, nil
}

// refreshRole sets the user's role in all of their sessions. A concurrent change of
// the role does the same, so the role is read again until it is the one written.
func (s *Service) refreshRole(ctx context.Context, id int64) error {
	var written user.Role
	for range refreshTries {
		u, err := s.users.ByID(ctx, id)
		if errors.Is(err, user.ErrNotFound) {
			return nil // deleting the user ends the sessions
		}
		if err != nil || u.Role == written {
			return err
		}
		if err := s.sessions.SetRole(ctx, id, string(u.Role)); err != nil {
			return err
		}
		written = u.Role
	}
	return errors.New("role changed at every try")
}
