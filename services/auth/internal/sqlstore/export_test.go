package sqlstore

import (
	"context"
	"time"
)

// LastLogin is for the test of its plan.
const LastLogin = lastLogin

// Subject is for the test that calls it many times at once.
func (s *Users) Subject(ctx context.Context, id int64) (string, error) { return s.db.subject(ctx, id) }

// A hundred calls at once wait for each other longer than four seconds on a machine that does other work.
func init() { timeout = time.Minute }
