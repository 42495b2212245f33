package policy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
)

// snapshotAge is after how long the applications in memory are read again: so late a change
// by another replica or a command may hold here.
const snapshotAge = time.Second

// snapshot keeps all applications in memory, so that what an anonymous client asks for
// costs no SQL.
type snapshot struct {
	read func(context.Context) ([]application.Application, error)
	now  func() time.Time

	mu     sync.Mutex
	newest *reading // nil: none yet, or one that a change has outdated
}

// reading is one read of all applications.
type reading struct {
	begun time.Time
	done  chan struct{} // closed when it is finished; the fields below are set then
	apps  map[string]application.Application
	err   error
}

// App returns the application of a slug as it was at most 1 s ago, and never before a
// change that was made here. Requests that need it read again wait for one read together.
// application.ErrNotFound; with any other error it is not known whether there is one.
func (s *Service) App(ctx context.Context, slug string) (application.Application, error) {
	apps, err := s.snapshot.get(ctx)
	if err != nil {
		return application.Application{}, err
	}
	a, ok := apps[slug]
	if !ok {
		return application.Application{}, application.ErrNotFound
	}
	return a, nil
}

// get returns all applications by slug, which are not changed.
func (s *snapshot) get(ctx context.Context) (map[string]application.Application, error) {
	r := s.current(ctx)
	select {
	case <-r.done:
		return r.apps, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("read applications: %w", ctx.Err())
	}
}

// current returns the newest reading, or begins one where that is old or has failed.
func (s *snapshot) current(ctx context.Context) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.newest == nil || now.Sub(s.newest.begun) >= snapshotAge || s.newest.failed() {
		s.newest = &reading{begun: now, done: make(chan struct{})}
		go s.newest.run(context.WithoutCancel(ctx), s.read) // others wait for it too
	}
	return s.newest
}

func (r *reading) run(ctx context.Context, read func(context.Context) ([]application.Application, error)) {
	defer close(r.done)
	apps, err := read(ctx)
	if err != nil {
		r.err = err
		return
	}
	r.apps = make(map[string]application.Application, len(apps))
	for _, a := range apps {
		r.apps[a.Slug] = a
	}
}

// failed reports whether the reading is finished, with an error.
func (r *reading) failed() bool {
	select {
	case <-r.done:
		return r.err != nil
	default:
		return false
	}
}

// outdate has the next request read the applications again, also where it is not known
// whether a change succeeded.
func (s *snapshot) outdate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = nil
}

// maxUnknown bounds the slugs of which an hour's first use is recorded.
const maxUnknown = 32

// unknownApps are the slugs whose refusal is recorded in this hour.
type unknownApps struct {
	mu       sync.Mutex
	hour     int64
	recorded map[string]bool
}

// first reports whether a refusal is the first of its slug in an hour.
func (u *unknownApps) first(slug string, hour int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.hour != hour {
		u.hour, u.recorded = hour, map[string]bool{}
	}
	if u.recorded[slug] || len(u.recorded) >= maxUnknown {
		return false
	}
	u.recorded[slug] = true
	return true
}

// RecordUnknownApp records, once an hour for a slug, that the proxy asked about an
// application that there is not, or for another host than the application's. What is no
// slug is recorded as "".
func (s *Service) RecordUnknownApp(ctx context.Context, slug, host string) {
	if application.CheckSlug(slug) != nil {
		slug = ""
	}
	if host, _ = application.Host("", host); host == "" {
		host = "?"
	}
	hour := s.now().Truncate(time.Hour).Unix()
	if s.unknown.first(slug, hour) {
		s.audit.Record(ctx, audit.Event{
			Name: "unknown_app", Bucket: fmt.Sprintf("unknown_app %d %s", hour, slug),
			Detail: map[string]any{"app": slug, "host": host},
		})
	}
}
