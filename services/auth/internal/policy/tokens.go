package policy

import (
	"context"
	"slices"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Tokens keeps app tokens. Every method is one atomic step; CreateToken, RevokeToken and RevokeTokens write an audit
// row in it if they change something. by is the token's user, an admin or user.Operator. Hashes are secrets.Hash.
type Tokens interface {
	// CreateToken adds a token with the fields UserID, Name, Shown, Applications,
	// ReadOnly and ExpiresAt of t. The user of by admits the session at that instant
	// (session.ErrNotFound); the zero Session is user.Operator's. user.ErrNotFound,
	// user.ErrNotAdmin; token.ErrScope for an application that is unknown or accepts none;
	// token.ErrTooMany.
	CreateToken(ctx context.Context, t token.Token, hash string, by session.Session) (token.Token, error)
	// Tokens returns the tokens of a user, newest first; of all users for the id 0.
	Tokens(ctx context.Context, userID int64) ([]token.Token, error)
	// RevokeToken ends a token; one that has ended is no error. token.ErrNotFound, also
	// when by may not see it.
	RevokeToken(ctx context.Context, id, by int64) error
	// RevokeTokens revokes all tokens of a user, and returns how many were not revoked before.
	RevokeTokens(ctx context.Context, userID int64) (int64, error)
	// RemoveToken deletes a token that has ended. token.ErrActive; token.ErrNotFound as
	// RevokeToken.
	RemoveToken(ctx context.Context, id, by int64) error
	// TokenVisitor returns a token that is valid now, and of its user the id, names, role
	// and groups, in one read. token.ErrInvalid, also where the account is closed.
	TokenVisitor(ctx context.Context, hash string) (token.Token, user.User, []string, error)
	// TokenUsed records that a token was used now, at most once an hour.
	TokenUsed(ctx context.Context, id int64) error
	// SweepTokens deletes the tokens that ended before an instant and returns how many.
	SweepTokens(ctx context.Context, before time.Time) (int64, error)
}

// NewToken are the fields of an app token to create. With a zero ExpiresAt it never expires.
type NewToken struct {
	UserID       int64 // whose it is
	Name         string
	Applications []string // slugs
	ReadOnly     bool
	ExpiresAt    time.Time
}

// CreateToken creates an app token on behalf of the session of its user or an admin, or of user.Operator for the zero
// Session, and returns its text, which Tokens never gets. application.ErrName, token.ErrExpiry, token.ErrScope,
// token.ErrTooMany; user.ErrNotFound, user.ErrNotAdmin; session.ErrNotFound when the session has ended meanwhile.
func (s *Service) CreateToken(ctx context.Context, by session.Session, n NewToken) (token.Token, string, error) {
	name, err := application.CleanName(n.Name)
	if err != nil {
		return token.Token{}, "", err
	}
	if !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(s.o.Now()) {
		return token.Token{}, "", token.ErrExpiry
	}
	slugs := slices.Compact(slices.Sorted(slices.Values(n.Applications)))
	if err := s.checkScope(ctx, n.UserID, slugs); err != nil {
		return token.Token{}, "", err
	}
	text := token.New()
	t := token.Token{
		UserID: n.UserID, Name: name, Shown: token.Shown(text), Applications: slugs, ReadOnly: n.ReadOnly,
		ExpiresAt: n.ExpiresAt,
	}
	created, err := s.o.Tokens.CreateToken(ctx, t, secrets.Hash(text), by)
	if err != nil {
		return token.Token{}, "", err
	}
	return created, text, nil
}

// checkScope returns token.ErrScope unless there are slugs, and each is of an application that accepts tokens and that
// the user may use now; later uses of the token are decided about one by one. user.ErrNotFound.
func (s *Service) checkScope(ctx context.Context, userID int64, slugs []string) error {
	u, groups, err := s.o.Groups.Visitor(ctx, userID)
	if err != nil {
		return err
	}
	apps, err := s.o.Applications.Applications(ctx)
	if err != nil {
		return err
	}
	for _, slug := range slugs {
		if !slices.ContainsFunc(apps, func(a application.Application) bool {
			return a.Slug == slug && a.Tokens && a.Permits(string(u.Role), groups)
		}) {
			return token.ErrScope
		}
	}
	if len(slugs) == 0 {
		return token.ErrScope
	}
	return nil
}

// TokensOf returns the app tokens of a session's user, newest first.
func (s *Service) TokensOf(ctx context.Context, of session.Session) ([]token.Token, error) {
	return s.o.Tokens.Tokens(ctx, of.UserID)
}

// AllTokens returns the app tokens of all users, newest first, for admins and the operator.
func (s *Service) AllTokens(ctx context.Context) ([]token.Token, error) {
	return s.o.Tokens.Tokens(ctx, 0)
}

// TokensFor returns the app tokens of the user of a username, newest first. user.ErrNotFound.
func (s *Service) TokensFor(ctx context.Context, username string) ([]token.Token, error) {
	u, err := s.o.Users.ByUsername(ctx, username)
	if err != nil {
		return nil, err
	}
	return s.o.Tokens.Tokens(ctx, u.ID)
}

// RevokeToken ends an app token on behalf of its user, an admin or user.Operator.
// token.ErrNotFound, also on behalf of others.
func (s *Service) RevokeToken(ctx context.Context, by, id int64) error {
	return s.o.Tokens.RevokeToken(ctx, id, by)
}

// RevokeTokens revokes all app tokens of a session's user, and returns how many were not revoked before.
func (s *Service) RevokeTokens(ctx context.Context, of session.Session) (int64, error) {
	return s.o.Tokens.RevokeTokens(ctx, of.UserID)
}

// RemoveToken deletes an app token that has ended. token.ErrActive; token.ErrNotFound as RevokeToken.
func (s *Service) RemoveToken(ctx context.Context, by, id int64) error {
	return s.o.Tokens.RemoveToken(ctx, id, by)
}

// SweepTokens deletes the app tokens that ended more than token.KeepEnded ago.
func (s *Service) SweepTokens(ctx context.Context) error {
	_, err := s.o.Tokens.SweepTokens(ctx, s.o.Now().Add(-token.KeepEnded))
	return err
}

// TokenVisitor returns the app token of a text, and its user as stored now. username, which
// Basic authentication sends too, must be the token's user, or "". token.ErrInvalid for a token
// that cannot be used, whatever the cause.
func (s *Service) TokenVisitor(ctx context.Context, text, username string) (token.Token, Visitor, error) {
	if !token.Is(text) {
		return token.Token{}, Visitor{}, token.ErrInvalid
	}
	t, u, groups, err := s.o.Tokens.TokenVisitor(ctx, secrets.Hash(text))
	if err != nil {
		return token.Token{}, Visitor{}, err
	}
	if username != "" && username != u.Username {
		return token.Token{}, Visitor{}, token.ErrInvalid
	}
	if s.o.Now().Sub(t.LastUsedAt) >= time.Hour {
		s.o.Audit.Later(ctx, func(ctx context.Context) {
			if err := s.o.Tokens.TokenUsed(ctx, t.ID); err != nil {
				s.o.Log.WarnContext(ctx, "record use of an app token failed", "error", err)
			}
		})
	}
	return t, Visitor{User: u, Groups: groups}, nil
}
