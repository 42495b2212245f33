package account

import (
	"context"
	"errors"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// FreshFor is how long a proof of who somebody is counts for changes that need one.
const FreshFor = 10 * time.Minute

// ErrReauthRequired is returned when the session's user has to prove again who they are.
var ErrReauthRequired = errors.New("a fresh proof of who the user is, is required")

// CheckFresh returns ErrReauthRequired unless the user of a session has proved who they
// are in the last FreshFor.
func (s *Service) CheckFresh(_ context.Context, of session.Session) error {
	proved := of.AuthAt
	if proved.IsZero() {
		proved = of.CreatedAt
	}
	if s.now().Sub(proved) > FreshFor {
		return ErrReauthRequired
	}
	return nil
}
