package policy

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
)

// Probes is how many internal addresses an admin may have the proxies try in a minute: too few to list what is in
// the home's network.
const Probes = 30

// NewProbeLimit returns the ProbeLimit of a Service, as create makes it.
func NewProbeLimit(create ratelimit.Create) (*ratelimit.Limiter, error) {
	return create("probe", Probes, time.Minute)
}

// Errors of a probe.
var (
	// ErrTooManyProbes comes in a ratelimit.LimitedError.
	ErrTooManyProbes = errors.New("too many internal addresses tried")
	// ErrNoProxy is returned while no proxy asks for routes.
	ErrNoProxy = errors.New("no proxy asks for routes")
	// ErrProbeWaits is returned when no proxy has answered in time.
	ErrProbeWaits = errors.New("no proxy has answered the probe yet")
)

const (
	// probeWait is how long Probe waits for an answer. A proxy asks about once a second and tries for 3 s at most.
	probeWait = 3800 * time.Millisecond
	probeStep = 100 * time.Millisecond
)

// Probe has the proxies try an internal address on behalf of a user, and returns their answer. by is the user's id, as
// the key of ProbeLimit. Each try leaves an audit entry, whatever is found. Errors are those of SetRoute about the
// address; ErrNoProxy, ErrProbeWaits, ratelimit.LimitedError with ErrTooManyProbes.
func (s *Service) Probe(ctx context.Context, by, upstream string) (application.Probe, error) {
	r, err := s.checkRoute(ctx, application.Route{Upstream: upstream})
	if err != nil {
		return application.Probe{}, err
	}
	proxies, err := s.o.Proxies.Proxies(ctx)
	if err != nil {
		return application.Probe{}, err
	}
	if len(proxies) == 0 {
		return application.Probe{}, ErrNoProxy
	}
	limit, err := s.o.ProbeLimit.Spend(ctx, by)
	if err != nil {
		return application.Probe{}, err
	}
	if !limit.Allowed {
		return application.Probe{}, &ratelimit.LimitedError{Limit: limit, Err: ErrTooManyProbes}
	}
	asked := application.Probe{ID: rand.Text(), To: r.Upstream}
	// First, and not queued: an address that is tried has its entry, whatever becomes of the rest.
	tried := audit.Event{Name: "app_probed", Detail: map[string]any{"upstream": asked.To}}
	if err := s.o.Audit.Store.Record(ctx, tried); err != nil {
		return application.Probe{}, err
	}
	if err := s.o.Proxies.Ask(ctx, asked); err != nil {
		return application.Probe{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return application.Probe{}, ErrProbeWaits
		case <-time.After(probeStep):
		}
		answered, err := s.o.Proxies.Probe(ctx, asked.ID)
		if err != nil && ctx.Err() == nil {
			return application.Probe{}, err
		}
		if answered.Answered() {
			return answered, nil
		}
	}
}
