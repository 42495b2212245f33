package policy

import (
	"context"
	"errors"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// Errors of a hand-over.
var (
	// ErrAppDenied: the application's rule does not admit the user.
	ErrAppDenied = errors.New("the application's rule does not admit the user")
	// ErrSecondFactorNeeded: the application demands a second factor, and the session was
	// proved by a password alone.
	ErrSecondFactorNeeded = errors.New("the application demands a second factor")
)

// HandOver returns an application that a session may open. Of one with a host of its own it
// also returns a code, with which that host gets the session once, in the browser that began
// with the state; without a state there is none. application.ErrNotFound; ErrAppDenied and
// ErrSecondFactorNeeded, with the application; user.ErrNotFound, session.ErrNotFound.
func (s *Service) HandOver(
	ctx context.Context, of session.Session, slug, state string,
) (app application.Application, code string, err error) {
	if app, err = s.App(ctx, slug); err != nil {
		return application.Application{}, "", err
	}
	v, err := s.Visitor(ctx, of)
	switch {
	case err != nil:
		return app, "", err
	case !app.Permits(string(v.User.Role), v.Groups):
		return app, "", ErrAppDenied
	case app.SecondFactor && !of.Factor.Second():
		return app, "", ErrSecondFactorNeeded
	case !app.HasHost() || state == "":
		return app, "", nil
	}
	code, err = s.o.HandOvers.CreateHandOver(ctx, session.HandOver{
		Ref: of.Ref, Host: app.OwnHost(), State: state, Device: of.Device,
	})
	return app, code, err
}

// Enter takes the code of a hand-over, which works once, and returns the hand-over and a secret
// with which its host has its session from now on. session.ErrNotFound, also where accept does
// not return true for the hand-over.
func (s *Service) Enter(
	ctx context.Context, code string, accept func(session.HandOver) bool,
) (h session.HandOver, secret string, err error) {
	h, err = s.o.HandOvers.TakeHandOver(ctx, code)
	if err != nil {
		return session.HandOver{}, "", err
	}
	if !accept(h) {
		return session.HandOver{}, "", session.ErrNotFound
	}
	secret, hash := session.NewSecret()
	if err := s.o.HandOvers.OpenHost(ctx, h.Ref, h.Host, hash); err != nil {
		return session.HandOver{}, "", err
	}
	return h, secret, nil
}

// OriginOf returns the origin of the application of a slug; "" if there is none with this slug
// and a host of its own.
func (s *Service) OriginOf(ctx context.Context, slug string) (string, error) {
	app, err := s.App(ctx, slug)
	if errors.Is(err, application.ErrNotFound) || err == nil && !app.HasHost() {
		return "", nil
	}
	return app.URL, err
}

// IsAppHost reports whether a host, as application.Host returns it, is that of an application.
func (s *Service) IsAppHost(ctx context.Context, host string) (bool, error) {
	return s.Any(ctx, func(a application.Application) bool { return a.HasHost() && a.OwnHost() == host })
}

// Any reports whether the function is returns true for one of the applications that App knows.
func (s *Service) Any(ctx context.Context, is func(application.Application) bool) (bool, error) {
	apps, err := s.snapshot.Get(ctx)
	if err != nil {
		return false, err
	}
	for _, a := range apps {
		if is(a) {
			return true, nil
		}
	}
	return false, nil
}
