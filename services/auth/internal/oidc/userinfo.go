package oidc

import (
	"context"
	"errors"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/secrets"
)

const accessPrefix = "pfa_"

// Access returns the live grant of an access token, and what the token is good for. ErrNoAccess, ErrGrantEnded and the
// errors of Off.
func (s *Service) Access(ctx context.Context, token string) (Held, Access, error) {
	if _, err := s.on(ctx); err != nil {
		return Held{}, Access{}, err
	}
	if !strings.HasPrefix(token, accessPrefix) || len(token) != len(accessPrefix)+challenge {
		return Held{}, Access{}, ErrNoAccess
	}
	a, err := s.o.ShortLived.Access(ctx, secrets.Hash(token))
	if err != nil {
		return Held{}, Access{}, err
	}
	h, err := s.o.Grants.Held(ctx, a.Grant)
	return h, a, err
}

// UserInfo returns the claims that an access token is good for. Errors are those of Access.
func (s *Service) UserInfo(ctx context.Context, token string) (map[string]any, error) {
	h, a, err := s.Access(ctx, token)
	if err != nil {
		return nil, err
	}
	claims := s.about(h.Client, h.Person, a.Scopes)
	claims["sub"] = h.Person.Subject
	return claims, nil
}

// Preview returns the claims that the application of a slug would learn of a user with all scopes, and why it would not
// log them in: ErrNotAdmitted, or ErrFactor where it asks for a second factor and they have a password alone. Without
// claims: ErrNoClient, user.ErrNotFound.
func (s *Service) Preview(ctx context.Context, slug, username string) (map[string]any, error) {
	c, err := s.Client(ctx, slug)
	if err != nil {
		return nil, err
	}
	u, err := s.o.Users.ByUsername(ctx, username)
	if err != nil {
		return nil, err
	}
	p, secondFactor, err := s.o.Grants.Person(ctx, u.ID, c.ApplicationID)
	if err != nil && !errors.Is(err, ErrNotAdmitted) {
		return nil, err
	}
	// A login by a passkey, all that a user without a password has, counts as one with a second factor.
	if err == nil && secondFactor && !u.SecondFactor && u.HasPassword() {
		err = ErrFactor
	}
	claims := s.about(c, p, scopes)
	claims["iss"], claims["sub"], claims["aud"] = s.o.Issuer, p.Subject, c.ID
	return claims, err
}
