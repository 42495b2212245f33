package policy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
)

// snapshotAge is after how long the applications in memory are read again.
const snapshotAge = time.Second

func (s *Service) bySlug(ctx context.Context) (map[string]application.Application, error) {
	all, err := s.o.Applications.Applications(ctx)
	apps := make(map[string]application.Application, len(all))
	for _, a := range all {
		apps[a.Slug] = a
	}
	return apps, err
}

// App returns the application of a slug as stored at most 1 s ago, and not before the last change that this process
// made. Requests that need the applications read again wait for one read together. application.ErrNotFound; with any
// other error it is not known whether there is one.
func (s *Service) App(ctx context.Context, slug string) (application.Application, error) {
	apps, err := s.snapshot.Get(ctx)
	if err != nil {
		return application.Application{}, err
	}
	a, ok := apps[slug]
	if !ok {
		return application.Application{}, application.ErrNotFound
	}
	return a, nil
}

// maxUnknown is for how many slugs RecordUnknownApp of a process records an entry in an hour.
const maxUnknown = 32

// unknownApps are the slugs for which an entry is recorded in this hour.
type unknownApps struct {
	mu       sync.Mutex
	hour     int64
	recorded map[string]bool
}

// first reports whether slug has no entry in the hour yet, and fewer than maxUnknown slugs have one. Then slug
// counts as recorded.
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

// RecordUnknownApp records that the proxy asked about an application that does not exist, or
// for another host than the application's: at most once an hour for a slug, and for maxUnknown
// slugs. What is no slug is recorded as "".
func (s *Service) RecordUnknownApp(ctx context.Context, slug, host string) {
	if application.CheckSlug(slug) != nil {
		slug = ""
	}
	if host, _ = application.Host("", host); host == "" {
		host = "?"
	}
	hour := s.o.Now().Truncate(time.Hour).Unix()
	if s.unknown.first(slug, hour) {
		s.o.Audit.Record(ctx, audit.Event{
			Name: "unknown_app", Bucket: fmt.Sprintf("unknown_app %d %s", hour, slug),
			Detail: map[string]any{"app": slug, "host": host},
		})
	}
}
