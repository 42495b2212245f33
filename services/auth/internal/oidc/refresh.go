package oidc

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// Refresh gives a client new tokens for a refresh token.
//
// A confidential client keeps its refresh token. A public one gets the next; in case it has not got that answer, the
// previous token is answered with the same next one, for RefreshGrace. Otherwise a token that was replaced ends the
// grant, because it may have been stolen.
//
// ErrRefresh, ErrGrantEnded, ErrRefreshUsed, ErrWider. With any other error, of a store or of signing, the client may
// try again.
func (s *Service) Refresh(ctx context.Context, c Client, token, scope, ip string) (Tokens, error) {
	grant, generation, ok := s.parseRefresh(token)
	if !ok {
		s.note(ctx, c, Refusal{Reason: ErrRefresh.Error(), IP: ip})
		return Tokens{}, ErrRefresh
	}
	h, err := s.refreshable(ctx, c, grant)
	if err != nil {
		return Tokens{}, err
	}
	scopes := h.Scopes
	if asked := strings.Fields(scope); len(asked) > 0 {
		if slices.ContainsFunc(knownScopes(scope), func(s string) bool { return !slices.Contains(h.Scopes, s) }) {
			return Tokens{}, ErrWider
		}
		scopes = slices.DeleteFunc(slices.Clone(h.Scopes), func(s string) bool { return !slices.Contains(asked, s) })
		if len(scopes) == 0 { // unknown scopes alone, none of which the login has
			return Tokens{}, ErrWider
		}
	}
	if c.Public {
		return s.rotate(ctx, h, generation, scopes)
	}
	if generation != h.Generation {
		return Tokens{}, ErrRefresh
	}
	if err := s.o.Grants.Used(ctx, h.ID); err != nil {
		return Tokens{}, err
	}
	return s.renewed(ctx, h, scopes)
}

// refreshable returns the live grant of a refresh token. ErrGrantEnded, also after RefreshIdle or RefreshLifetime;
// ErrRefresh if it is another client's or not Offline.
func (s *Service) refreshable(ctx context.Context, c Client, grant string) (Held, error) {
	h, err := s.o.Grants.Held(ctx, grant)
	if err != nil {
		return Held{}, err
	}
	if h.ApplicationID != c.ApplicationID || !h.Offline {
		return Held{}, ErrRefresh
	}
	if now := s.o.Now(); now.Sub(h.LastUsedAt) > RefreshIdle || now.Sub(h.CreatedAt) > RefreshLifetime {
		return Held{}, ErrGrantEnded
	}
	return h, nil
}

// rotate takes a grant from the generation of a token to the next, once for all copies of the token that come within
// RefreshGrace, and returns tokens for scopes. ErrRefresh for a generation that is not reached yet; ErrRefreshUsed for
// an earlier one, which ends the grant; ErrGrantEnded.
func (s *Service) rotate(ctx context.Context, h Held, generation int64, scopes []string) (Tokens, error) {
	if generation == h.Generation {
		// A token is replaced once its answer is ready: while Redis or signing fails it stays the current one, however
		// long that takes. Where it is not replaced, no one learns the access token.
		t, err := s.renewed(ctx, h, scopes)
		if err != nil {
			return Tokens{}, err
		}
		rotated, err := s.o.Grants.Rotate(ctx, h.ID, generation)
		if err != nil {
			return Tokens{}, err
		}
		if rotated {
			t.Refresh = refreshToken(s.o.MACKeys[0], h.ID, generation+1)
			return t, nil
		}
		if h, err = s.o.Grants.Held(ctx, h.ID); err != nil { // a copy was first
			return Tokens{}, err
		}
	}
	if generation == h.Generation-1 && s.o.Now().Sub(h.RotatedAt) <= RefreshGrace {
		return s.renewed(ctx, h, scopes)
	}
	if generation >= h.Generation { // the database is older than the token
		return Tokens{}, ErrRefresh
	}
	if err := s.o.Grants.EndGrant(ctx, h.ID, EndedRefresh); err != nil {
		return Tokens{}, err
	}
	return Tokens{}, ErrRefreshUsed
}

// renewed makes new tokens of a grant for some of its scopes.
func (s *Service) renewed(ctx context.Context, h Held, scopes []string) (Tokens, error) {
	access, err := s.newAccess(ctx, h.ID, h.UserID, scopes)
	if err != nil {
		return Tokens{}, err
	}
	return s.tokens(ctx, h, access, scopes, "")
}

const (
	refreshPrefix    = "pfr_"
	maxRefreshLength = 200
)

// refreshToken derives the refresh token of a grant's generation, pfr_GRANT.N.MAC. It is stored nowhere: none is in the
// database to be stolen, and the answer that a client has not got can be given again.
func refreshToken(key []byte, grant string, generation int64) string {
	text := grant + "." + strconv.FormatInt(generation, 10)
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(text))
	return refreshPrefix + text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// parseRefresh returns the grant and the generation of a refresh token. ok reports whether we have made it. No store
// is read.
func (s *Service) parseRefresh(token string) (grant string, generation int64, ok bool) {
	text, found := strings.CutPrefix(token, refreshPrefix)
	parts := strings.Split(text, ".")
	if !found || len(token) > maxRefreshLength || len(parts) != 3 {
		return "", 0, false
	}
	generation, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || generation < 0 {
		return "", 0, false
	}
	for _, key := range s.o.MACKeys {
		if hmac.Equal([]byte(refreshToken(key, parts[0], generation)), []byte(token)) {
			return parts[0], generation, true
		}
	}
	return "", 0, false
}
