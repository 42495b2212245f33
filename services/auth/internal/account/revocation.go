package account

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pforte/pforte/services/auth/internal/user"
)

const (
	// replayInterval is how often Replay reads the revocations that are due.
	replayInterval = time.Second
	// followTimeout bounds how long a change waits for its revocation. After it,
	// Replay carries the revocation out.
	followTimeout = 2 * time.Second
	// replayAtOnce is how many revocations Replay carries out concurrently.
	replayAtOnce = 8
)

// Replay carries out revocations that this or another process recorded and did not
// finish, until ctx ends: at the start all of them, later those older than about
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

// replay makes one attempt at each revocation that was recorded before an instant. One that fails does not keep
// replay from the others; the first error is returned.
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

// carryOutAll carries out several revocations concurrently, so that one that waits for its node of
// the session store does not delay the others. It returns the first error.
func (s *Service) carryOutAll(ctx context.Context, pending []user.Revocation) error {
	var all errgroup.Group
	all.SetLimit(replayAtOnce)
	for _, r := range pending {
		all.Go(func() error {
			_, err := s.carryOut(ctx, r)
			return err
		})
	}
	return all.Wait()
}

// Follow carries out the revocation of a change and returns how many sessions were ended, or returns err, the error of
// the change. The change is already committed, so a client that hangs up does not stop it. ErrPending: that failed, and
// Replay tries again.
func (s *Service) Follow(ctx context.Context, r user.Revocation, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), followTimeout)
	defer cancel()
	ended, err := s.carryOut(ctx, r)
	if err != nil {
		s.log.ErrorContext(ctx, "revoke sessions failed, will be retried", "user_id", r.UserID, "error", err)
		return ended, ErrPending
	}
	return ended, nil
}

// carryOut ends the sessions and deletes the record. Where that fails, as on a full disk, the sessions are not ended
// again: the user may have logged in since.
func (s *Service) carryOut(ctx context.Context, r user.Revocation) (ended int, err error) {
	if _, before := s.carriedOut.Load(r.ID); !before {
		if ended, err = s.sessions.Revoke(ctx, r.UserID, r.KeepSession); err != nil {
			return ended, fmt.Errorf("revoke sessions: %w", err)
		}
	}
	if err := s.users.RevocationDone(ctx, r.ID); err != nil {
		s.carriedOut.Store(r.ID, true)
		return ended, fmt.Errorf("delete revocation: %w", err)
	}
	s.carriedOut.Delete(r.ID)
	return ended, nil
}
