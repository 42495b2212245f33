package oidc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/secrets"
)

// Tokens are what a client gets.
type Tokens struct {
	Access  string
	Life    time.Duration // of Access
	Refresh string        // empty: none
	ID      string
	Scopes  []string
}

// Exchange gives a client tokens for an authorization code, which counts once, also where it is refused. A code that
// was given without PKCE and is used again later ends the grant that it became: it may have been stolen.
//
// ErrCodeMissing, ErrCodeUsed, ErrCodeClient, ErrCodeAddress, ErrVerifier, ErrNoChallenge, ErrNotAdmitted. After any
// other error, of a store or of signing, a code that was not used before may be tried again, unless Redis failed too.
func (s *Service) Exchange(ctx context.Context, c Client, code, redirect, verifier, ip string) (Tokens, error) {
	if code == "" {
		return Tokens{}, ErrCodeMissing
	}
	s.asked(ctx, c)
	taken, err := s.takeCode(ctx, code)
	if err != nil {
		return Tokens{}, err
	}
	if err := taken.check(c, redirect, verifier); err != nil {
		s.note(ctx, c, Refusal{Reason: err.Error(), IP: ip})
		return Tokens{}, err
	}
	tokens, err := s.redeem(ctx, taken, func(ctx context.Context, again Code) error {
		return s.o.ShortLived.PutCode(ctx, secrets.Hash(code), again)
	})
	if err == nil && taken.Challenge != "" && !c.Public && c.PKCE == Auto {
		s.later(ctx, "require PKCE", func(ctx context.Context) error {
			defer s.snapshot.Outdate()
			return s.o.Clients.RequirePKCE(ctx, c.ApplicationID)
		})
	}
	return tokens, err
}

// redeem makes a grant of what a code stands for, or finds the one that an earlier try has made whose answer was lost,
// and returns its tokens. Where a store or signing fails, keep is called to keep the code again. ErrNotAdmitted.
func (s *Service) redeem(ctx context.Context, taken Code, keep func(context.Context, Code) error) (Tokens, error) {
	// The access token comes first: while Redis is away no grant is made, which createdGrant would find too old later.
	access, err := s.newAccess(ctx, taken.Grant, taken.UserID, taken.Scopes)
	var held Held
	if err == nil {
		held, err = s.o.Grants.CreateGrant(ctx, taken.grant())
	}
	if errors.Is(err, ErrNotAdmitted) {
		held, err = s.createdGrant(ctx, taken.Grant)
	}
	if errors.Is(err, ErrNotAdmitted) {
		return Tokens{}, err
	}
	var tokens Tokens
	if err == nil {
		tokens, err = s.tokens(ctx, held, access, held.Scopes, taken.Nonce)
	}
	if err != nil {
		s.giveBack(ctx, taken, keep)
		return Tokens{}, err
	}
	s.loggedIn(ctx, held)
	return tokens, nil
}

// createdGrant returns a grant that was made within RefreshGrace, and whose refresh token was not replaced: its client
// may not have got it. ErrNotAdmitted.
func (s *Service) createdGrant(ctx context.Context, id string) (Held, error) {
	h, err := s.o.Grants.Held(ctx, id)
	if errors.Is(err, ErrGrantEnded) || err == nil && (h.Generation > 0 || s.o.Now().Sub(h.CreatedAt) > RefreshGrace) {
		return Held{}, ErrNotAdmitted
	}
	return h, err
}

// asked notes that a client's application has asked for tokens.
func (s *Service) asked(ctx context.Context, c Client) {
	s.forPage(ctx, "note that an application asked for tokens", func(ctx context.Context) error {
		return s.o.ShortLived.Asked(ctx, c.ApplicationID)
	})
}

// takeCode takes a code. Of one that was used before it ends the grant that TakeCode names, if any, and returns
// ErrCodeUsed.
func (s *Service) takeCode(ctx context.Context, code string) (Code, error) {
	taken, reused, err := s.o.ShortLived.TakeCode(ctx, secrets.Hash(code))
	if reused == "" || !errors.Is(err, ErrCodeUsed) {
		return taken, err
	}
	if fault := s.o.Grants.EndGrant(ctx, reused, EndedCode); fault != nil {
		return Code{}, fmt.Errorf("end the grant of a code that was used twice: %w", fault)
	}
	return Code{}, err
}

// check returns the error of the first condition that does not hold.
func (taken Code) check(c Client, redirect, verifier string) error {
	switch {
	case taken.ClientID != c.ID, taken.ApplicationID != c.ApplicationID: // the id may be another application's by now
		return ErrCodeClient
	case taken.Redirect != redirect:
		return ErrCodeAddress
	case taken.Challenge == "" && verifier != "": // RFC 9700, section 4.8.2
		return ErrNoChallenge
	case taken.Challenge == "" && c.Public, taken.Challenge != "" && !matches(taken.Challenge, verifier):
		return ErrVerifier
	}
	return nil
}

// matches reports whether a verifier is that of a challenge (RFC 7636, section 4.6).
func matches(challenge, verifier string) bool {
	const least, most = 43, 128
	sum := sha256.Sum256([]byte(verifier))
	of := base64.RawURLEncoding.EncodeToString(sum[:])
	return len(verifier) >= least && len(verifier) <= most &&
		subtle.ConstantTimeCompare([]byte(of), []byte(challenge)) == 1
}

func (taken Code) grant() Grant {
	return Grant{
		ID: taken.Grant, ApplicationID: taken.ApplicationID, UserID: taken.UserID, Login: taken.Login,
		Stamp: taken.Stamp, Scopes: taken.Scopes, Offline: taken.Offline, Factor: taken.Factor,
		AuthTime: time.Unix(taken.AuthTime, 0).UTC(),
	}
}

// giveBackTimeout bounds how long an answer waits for giveBack, because a store may have delayed
// the answer already.
const giveBackTimeout = time.Second

// giveBack keeps a code again whose exchange has failed. Whether it became a grant may be unknown.
func (s *Service) giveBack(ctx context.Context, taken Code, keep func(context.Context, Code) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	if err := keep(ctx, taken); err != nil {
		s.o.Log.WarnContext(ctx, "give a code back failed", "error", err)
	}
}

// loggedIn records a login at an application, as an act of its user. All of an hour, user and application are one
// row.
func (s *Service) loggedIn(ctx context.Context, h Held) {
	by := audit.From(ctx)
	by.Kind, by.ID, by.Name = audit.User, h.Person.User.ID, h.Person.User.Username
	s.o.Audit.Record(audit.With(ctx, by), audit.Event{
		Name: "oidc_login", SubjectID: by.ID, SubjectName: by.Name, Detail: map[string]any{"app": h.Client.Slug},
		Bucket: fmt.Sprintf("oidc_login %d %d %d", s.o.Now().Truncate(time.Hour).Unix(), by.ID, h.ApplicationID),
	})
}

// newAccess returns an access token of a grant for scopes. It is good for nothing before the grant is made.
func (s *Service) newAccess(
	ctx context.Context, grant string, userID int64, scopes []string,
) (token string, err error) {
	token = accessPrefix + secrets.New()
	return token, s.o.ShortLived.PutAccess(ctx, secrets.Hash(token), userID, Access{
		Grant: grant, Scopes: scopes, IssuedAt: s.o.Now().Unix(),
	})
}

// tokens makes the tokens of a grant for some of its scopes, with an access token for them. The caller has made all
// checks before, because a signature is expensive.
func (s *Service) tokens(ctx context.Context, h Held, access string, scopes []string, nonce string) (Tokens, error) {
	now := s.o.Now()
	t := Tokens{Access: access, Life: AccessLifetime, Scopes: scopes}
	if h.Offline {
		t.Refresh = refreshToken(s.o.MACKeys[0], h.ID, h.Generation)
	}
	claims := s.about(h.Client, h.Person, scopes)
	maps.Copy(claims, map[string]any{
		"iss": s.o.Issuer, "sub": h.Person.Subject, "aud": h.Client.ID, "iat": now.Unix(),
		"exp": now.Add(IDTokenLifetime).Unix(), "auth_time": h.AuthTime.Unix(), "sid": h.ID, "jti": NewGrantID(),
		"amr": h.Factor.AMR(), "acr": h.Factor.ACR(), "at_hash": halfHash(t.Access),
	})
	if nonce != "" {
		claims["nonce"] = nonce
	}
	var err error
	t.ID, err = s.Sign(ctx, h.Client.Alg, TypeID, claims)
	return t, err
}
