package policy

import (
	"context"
	"sync"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
)

const (
	// reachedAgain is the least time between two tries of a process to store that an application has been reached.
	reachedAgain = time.Minute
	// reachedTimeout bounds a try, because a visitor waits for it.
	reachedTimeout = 500 * time.Millisecond
)

// tries has the times of the last tries to store that applications have been reached.
type tries struct {
	mu sync.Mutex
	at map[int64]time.Time // by the application's id
}

// due reports whether to try to store now that an application has been reached, and notes the try.
func (t *tries) due(id int64, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.at[id]; ok && now.Sub(last) < reachedAgain {
		return false
	}
	if t.at == nil || len(t.at) > application.MaxApplications {
		t.at = map[int64]time.Time{}
	}
	t.at[id] = now
	return true
}

// Reached stores that a user has been led to an application, or that a probe has found it: from then on it is on
// the start page of its users. It does nothing where a.Reached is true, and within a minute of this process's last
// try for the application. A failure is only logged.
func (s *Service) Reached(ctx context.Context, a application.Application) {
	if a.Reached || !s.reached.due(a.ID, s.o.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reachedTimeout)
	defer cancel()
	if err := s.o.Applications.SetReached(ctx, a.ID); err != nil {
		s.o.Log.WarnContext(ctx, "that an application is reached is not stored", "app", a.Slug, "error", err)
	}
	s.snapshot.Outdate()
}
