package oidc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Times and limits of back-channel logouts (OpenID Connect Back-Channel Logout 1.0).
const (
	logoutPoll       = 250 * time.Millisecond // how often the queue is read, unless a try ends sooner
	logoutTimeout    = 5 * time.Second        // of one try
	LogoutLease      = 15 * time.Second       // how long a process has one to itself
	logoutLifetime   = 2 * time.Minute        // of a logout token
	logoutReads      = 1 << 10                // bytes of an answer
	logoutsAtOnce    = 32                     // of one process
	logoutsAtOnceApp = 4                      // of one process and application, so that a slow one delays no other
)

// logoutPauses are the pauses after each try but the last.
var logoutPauses = [...]time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute}

// Logout is a logout to deliver: a grant has ended, and its application is to be told.
type Logout struct {
	ID            int64
	ApplicationID int64
	ClientID      string
	Alg           Alg
	Subject       string
	SID           string // the grant's ID
	URI           string // the client's when the grant ended
	Tries         int    // with the one under way
}

// Logouts keeps the logouts that are to be delivered. Every method is one atomic step.
type Logouts interface {
	// ClaimLogouts returns at most so many logouts that are due, those that are due longest, each to one process for
	// LogoutLease. It leaves out those of the applications in busy.
	ClaimLogouts(ctx context.Context, most int, busy []int64) ([]Logout, error)
	// LogoutDone removes a logout that this process still has claimed.
	LogoutDone(ctx context.Context, l Logout) error
	// LogoutLater has a logout that this process still has claimed be due after a pause.
	LogoutLater(ctx context.Context, l Logout, pause time.Duration) error
	// LogoutFailed is LogoutDone for a logout that could not be delivered, and records the failure.
	LogoutFailed(ctx context.Context, l Logout) error
	// LogoutsWaiting counts the logouts that are still to be delivered.
	LogoutsWaiting(ctx context.Context) (int, error)
	// EndClosed ends the grants of guests whose account has closed.
	EndClosed(ctx context.Context) error
}

// What became of a logout, or of a try.
const (
	LogoutSent    = "sent"
	LogoutRefused = "refused" // the application answered 400 or 501
	LogoutRetried = "retried"
	LogoutFailed  = "failed"
)

// LogoutOptions are the parts of a LogoutSender. All are required but Issuer.
type LogoutOptions struct {
	Store Logouts
	// Off is Service.Off: while there is no provider, logouts wait.
	Off func(context.Context) error
	// Sign is Service.Sign.
	Sign      func(ctx context.Context, alg Alg, typ string, claims any) (string, error)
	Issuer    string // Service.Issuer; empty: there is no provider
	Transport http.RoundTripper
	// Count is called for each try with what became of it, Waiting with how many wait.
	Count   func(outcome string)
	Waiting func(int)
	Log     *slog.Logger
	Now     func() time.Time
}

// LogoutSender delivers back-channel logouts, each by one of the replicas, and again after a try that has failed.
type LogoutSender struct {
	LogoutOptions
	client *http.Client
	ended  chan struct{} // tells Run that a try has ended and made room for another

	mu      sync.Mutex
	sending map[int64]int // by application
}

// NewLogoutSender checks the options and returns a LogoutSender.
func NewLogoutSender(o LogoutOptions) (*LogoutSender, error) {
	if o.Store == nil || o.Off == nil || o.Sign == nil || o.Transport == nil || o.Count == nil || o.Waiting == nil ||
		o.Log == nil || o.Now == nil {
		return nil, errors.New("oidc: Store, Off, Sign, Transport, Count, Waiting, Log or Now is not set")
	}
	// A redirect would lead to an address that no admin has entered.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &LogoutSender{
		LogoutOptions: o, sending: map[int64]int{}, ended: make(chan struct{}, 1),
		client: &http.Client{Transport: o.Transport, Timeout: logoutTimeout, CheckRedirect: stay},
	}, nil
}

// Run delivers what is due until ctx ends, and then waits for the tries under way.
func (m *LogoutSender) Run(ctx context.Context) {
	ticker := time.NewTicker(logoutPoll)
	defer ticker.Stop()
	var tries sync.WaitGroup
	defer tries.Wait()
	failing := false
	for {
		err := m.once(ctx, &tries)
		if err != nil && !failing && ctx.Err() == nil {
			m.Log.ErrorContext(ctx, "deliver logouts failed", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-m.ended:
		}
	}
}

// once ends grants by EndClosed, and begins tries of due logouts, as many as there are places for.
func (m *LogoutSender) once(ctx context.Context, tries *sync.WaitGroup) error {
	if err := m.Store.EndClosed(ctx); err != nil {
		return err
	}
	waiting, err := m.Store.LogoutsWaiting(ctx)
	if err != nil {
		return err
	}
	m.Waiting(waiting)
	if waiting == 0 {
		return nil
	}
	if err := m.Off(ctx); err != nil {
		return err // each try would fail, and after the last one the application is never told
	}
	most, busy := m.free()
	for most > 0 {
		claimed, err := m.Store.ClaimLogouts(ctx, most, busy)
		if err != nil {
			return err
		}
		for _, l := range claimed {
			m.add(l.ApplicationID, 1)
			// A try that has begun is finished, though the process ends.
			tries.Go(func() { m.try(context.WithoutCancel(ctx), l) })
		}
		if len(claimed) == 0 {
			return nil
		}
		most, busy = m.free()
	}
	return nil
}

// free returns how many tries may begin now, which may all be of one application that is not in busy: those are the
// applications that have as many as they may.
func (m *LogoutSender) free() (most int, busy []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	places, most := logoutsAtOnce, logoutsAtOnceApp
	for id, n := range m.sending {
		places -= n
		if n >= logoutsAtOnceApp {
			busy = append(busy, id)
		} else {
			most = min(most, logoutsAtOnceApp-n)
		}
	}
	slices.Sort(busy)
	return min(most, places), busy
}

func (m *LogoutSender) add(application int64, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sending[application] += n; m.sending[application] <= 0 {
		delete(m.sending, application)
	}
}

// try tries to deliver a logout, and records what became of it.
func (m *LogoutSender) try(ctx context.Context, l Logout) {
	defer func() {
		m.add(l.ApplicationID, -1)
		select {
		case m.ended <- struct{}{}:
		default: // the loop looks anyway
		}
	}()
	outcome, err := m.send(ctx, l)
	switch {
	case err == nil:
		err = m.Store.LogoutDone(ctx, l)
	case l.Tries > len(logoutPauses):
		outcome = LogoutFailed
		m.Log.WarnContext(ctx, "an application was not reached about a logout", "client_id", l.ClientID, "error", err)
		err = m.Store.LogoutFailed(ctx, l)
	default:
		outcome = LogoutRetried
		err = m.Store.LogoutLater(ctx, l, logoutPauses[max(0, l.Tries-1)])
	}
	m.Count(outcome)
	if err != nil { // the claim ends by itself, and the application is told again
		m.Log.ErrorContext(ctx, "record what became of a logout failed", "client_id", l.ClientID, "error", err)
	}
}

// send sends one logout token and returns LogoutSent or LogoutRefused. An error says that another try is worth it; it
// does not hold the token.
func (m *LogoutSender) send(ctx context.Context, l Logout) (outcome string, err error) {
	ctx, cancel := context.WithTimeout(ctx, logoutTimeout)
	defer cancel()
	now := m.Now()
	token, err := m.Sign(ctx, l.Alg, TypeLogout, map[string]any{
		"iss": m.Issuer, "aud": l.ClientID, "sub": l.Subject, "sid": l.SID, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(logoutLifetime).Unix(),
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": struct{}{}},
	})
	if err != nil {
		return "", err
	}
	form := url.Values{"logout_token": {token}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.URI, strings.NewReader(form))
	if err != nil {
		return "", fmt.Errorf("logout: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := m.client.Do(request)
	if err != nil {
		return "", fmt.Errorf("logout: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.CopyN(io.Discard, answer.Body, logoutReads)
	switch answer.StatusCode {
	case http.StatusOK, http.StatusNoContent:
		return LogoutSent, nil
	case http.StatusBadRequest, http.StatusNotImplemented:
		return LogoutRefused, nil
	default:
		return "", fmt.Errorf("logout: %s answered %d", request.URL.Host, answer.StatusCode)
	}
}
