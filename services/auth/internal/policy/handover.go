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

// HandOver returns an application that a session may open and, of one with a host of its
// own, a code by which that host opens it once, in the browser that began with the state;
// without a state there is no code.
// application.ErrNotFound; ErrAppDenied and ErrSecondFactorNeeded, with the application;
// user.ErrNotFound, session.ErrNotFound.
func (s *Service) HandOver(
	ctx context.Context, of session.Session, slug, state string,
) (app application.Application, code string, err error) {
	if app, err = s.applicationBy(ctx, func(a application.Application) bool { return a.Slug == slug }); err != nil {
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
	code, err = s.handOvers.CreateHandOver(ctx, session.HandOver{
		Ref: of.Ref, Host: app.OwnHost(), State: state, Device: of.Device,
	})
	return app, code, err
}

// Enter takes the code of a hand-over, which counts once, and opens its host with its
// session by a secret. accept reports whether the request is the one that was handed over.
// session.ErrNotFound.
func (s *Service) Enter(
	ctx context.Context, code string, accept func(session.HandOver) bool,
) (h session.HandOver, secret string, err error) {
	h, err = s.handOvers.TakeHandOver(ctx, code)
	if err != nil {
		return session.HandOver{}, "", err
	}
	if !accept(h) {
		return session.HandOver{}, "", session.ErrNotFound
	}
	secret, hash := session.NewHostSecret()
	if err := s.handOvers.OpenHost(ctx, h.Ref, h.Host, hash); err != nil {
		return session.HandOver{}, "", err
	}
	return h, secret, nil
}

// OriginOf returns the origin of an application with a host of its own; empty: there is
// none.
func (s *Service) OriginOf(ctx context.Context, slug string) (string, error) {
	app, err := s.applicationBy(ctx, func(a application.Application) bool { return a.Slug == slug && a.HasHost() })
	if errors.Is(err, application.ErrNotFound) {
		return "", nil
	}
	return app.URL, err
}

// IsAppHost reports whether a host is that of an application.
func (s *Service) IsAppHost(ctx context.Context, host string) (bool, error) {
	return s.Any(ctx, func(a application.Application) bool { return a.HasHost() && a.OwnHost() == host })
}

// Any reports whether there is an application for which is returns true.
func (s *Service) Any(ctx context.Context, is func(application.Application) bool) (bool, error) {
	_, err := s.applicationBy(ctx, is)
	if errors.Is(err, application.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// applicationBy returns an application that matches, as App knows it. application.ErrNotFound.
func (s *Service) applicationBy(
	ctx context.Context, matches func(application.Application) bool,
) (application.Application, error) {
	apps, err := s.snapshot.Get(ctx)
	if err != nil {
		return application.Application{}, err
	}
	for _, a := range apps {
		if matches(a) {
			return a, nil
		}
	}
	return application.Application{}, application.ErrNotFound
}
