package oidc

import (
	"context"
	"errors"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/secrets"
)

// Revoke ends an access token, or the grant of a refresh token, be the token current or replaced (RFC 7009). It does
// nothing for a token that is unknown or of another client, or whose grant has ended. ErrForm without a token.
func (s *Service) Revoke(ctx context.Context, c Client, token string) error {
	if token == "" {
		return ErrForm
	}
	if grant, _, ok := s.parseRefresh(token); ok {
		h, err := s.o.Grants.Held(ctx, grant)
		if errors.Is(err, ErrGrantEnded) || err == nil && h.ApplicationID != c.ApplicationID {
			return nil
		}
		if err == nil {
			err = s.o.Grants.EndGrant(ctx, grant, EndedByClient)
		}
		return err
	}
	h, _, err := s.Access(ctx, token)
	switch {
	case errors.Is(err, ErrNoAccess), errors.Is(err, ErrGrantEnded), err == nil && h.ApplicationID != c.ApplicationID:
		return nil
	case err != nil:
		return err
	}
	return s.o.ShortLived.DropAccess(ctx, secrets.Hash(token))
}

// Introspect returns what a token of a client is good for, now (RFC 7662): the member active, and of a live one
// members of section 2.2 and sid. Of a token that is not the client's it says no more than of an unknown one.
// ErrClient for a public client, whose id anyone may use; ErrForm without a token.
func (s *Service) Introspect(ctx context.Context, c Client, token string) (map[string]any, error) {
	if c.Public {
		return nil, ErrClient
	}
	if token == "" {
		return nil, ErrForm
	}
	var h Held
	var a Access
	var err error
	kind := "refresh_token"
	if grant, generation, ok := s.parseRefresh(token); ok {
		if h, err = s.refreshable(ctx, c, grant); err == nil && generation != h.Generation {
			err = ErrRefresh
		}
		a.Scopes, a.IssuedAt = h.Scopes, h.CreatedAt.Unix()
	} else {
		kind = "Bearer"
		h, a, err = s.Access(ctx, token)
	}
	switch {
	case errors.Is(err, ErrNoAccess), errors.Is(err, ErrGrantEnded), errors.Is(err, ErrRefresh),
		err == nil && h.ApplicationID != c.ApplicationID:
		return map[string]any{"active": false}, nil
	case err != nil:
		return nil, err
	}
	answer := map[string]any{
		"active": true, "iss": s.o.Issuer, "aud": c.ID, "client_id": c.ID, "sub": h.Person.Subject, "sid": h.ID,
		"username": h.Person.User.Username, "scope": strings.Join(a.Scopes, " "), "iat": a.IssuedAt, "token_type": kind,
	}
	if kind == "Bearer" {
		answer["exp"] = a.IssuedAt + int64(AccessLifetime.Seconds())
	}
	return answer, nil
}
