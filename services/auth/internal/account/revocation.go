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

// replayInterval is how often Replay looks for revocations that are due.
const replayInterval = time.Second

// followTimeout bounds how long a change waits for the session store. What it
// could not do by then is recorded, and Replay does it.
const followTimeout = 2 * time.Second

// replayAtOnce is how many revocations Replay carries out at a time.
const replayAtOnce = 8

// refreshTries bounds how often a role is read again when it keeps changing.
const refreshTries = 5

// Replay carries out revocations that were left behind, by this process or
// another one, until ctx ends: those of a process that died at once, others when
// they are a moment old, because whoever recorded them is at it.
func (s *Service) Replay(ctx context.Context) {
	ticker := time.NewTicker(replayInterval)
	defer ticker.Stop()
	before := s.now().Add(replayInterval)
	failing := false
	for {
		err := s.replay(ctx, before)
		if err != nil && !failing && ctx.Err() == nil {
			s.log.ErrorContext(ctx, "revocations are waiting", "error", err)
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

// carryOutAll carries several out, a few at a time: one that has to wait, because
// its part of the session store is away, does not hold up the others. It returns
// the first failure.
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

// follow carries out a revocation that was just recorded. The change that it
// belongs to has happened, so neither a client that hangs up nor a session store
// that is away makes it fail: without that store no session works, and Replay
// comes back to it. ErrPending says so to those who want to know.
func (s *Service) follow(ctx context.Context, r user.Revocation) error {
	_, err := s.followCounting(ctx, r)
	return err
}

// followCounting is follow and returns how many sessions were ended.
func (s *Service) followCounting(ctx context.Context, r user.Revocation) (int, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), followTimeout)
	defer cancel()
	ended, err := s.carryOut(ctx, r)
	if err != nil {
		s.log.ErrorContext(ctx, "sessions not revoked yet", "user_id", r.UserID, "error", err)
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
		return ended, fmt.Errorf("forget revocation: %w", err)
	}
	return ended, nil
}

// refreshRole gives all sessions of a user the role he has. Whoever changes the
// role meanwhile does the same, so the last to write must have written the
// truth: it is read again until it has not changed.
func (s *Service) refreshRole(ctx context.Context, id int64) error {
	var written user.Role
	for range refreshTries {
		u, err := s.users.ByID(ctx, id)
		if errors.Is(err, user.ErrNotFound) {
			return nil // the deletion ends the sessions
		}
		if err != nil || u.Role == written {
			return err
		}
		if err := s.sessions.SetRole(ctx, id, string(u.Role)); err != nil {
			return err
		}
		written = u.Role
	}
	return errors.New("the role keeps changing")
}
