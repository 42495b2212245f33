package httpapi

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// tokens has the handlers of app tokens.
type tokens struct{ *api }

// scopePrefix begins a scope; the slug of an application follows.
const scopePrefix = "app:"

// tokenBody is an app token as its user and admins see it.
type tokenBody struct {
	ID         int64    `json:"id"`
	UserID     int64    `json:"user_id"`
	Username   string   `json:"username"`
	Name       string   `json:"name"`
	Prefix     string   `json:"prefix"` // how the token begins
	Scopes     []string `json:"scopes"`
	ReadOnly   bool     `json:"read_only"`
	Active     bool     `json:"active"`
	CreatedBy  int64    `json:"created_by"`
	CreatedAt  string   `json:"created_at"`
	ExpiresAt  *string  `json:"expires_at"`   // null: never
	RevokedAt  *string  `json:"revoked_at"`   // null: not
	LastUsedAt *string  `json:"last_used_at"` // exact to an hour; null: never
}

func (a tokens) tokenOf(t token.Token) tokenBody {
	body := tokenBody{
		ID: t.ID, UserID: t.UserID, Username: t.Username, Name: t.Name, Prefix: t.Shown,
		Scopes:   make([]string, len(t.Applications)),
		ReadOnly: t.ReadOnly, Active: t.Valid(a.Now()), CreatedBy: t.CreatedBy,
		CreatedAt: t.CreatedAt.Format(time.RFC3339),
		ExpiresAt: orNull(t.ExpiresAt), RevokedAt: orNull(t.RevokedAt), LastUsedAt: orNull(t.LastUsedAt),
	}
	for i, slug := range t.Applications {
		body.Scopes[i] = scopePrefix + slug
	}
	return body
}

// orNull returns an instant in RFC 3339, or nil for the zero time.
func orNull(at time.Time) *string {
	if at.IsZero() {
		return nil
	}
	text := at.Format(time.RFC3339)
	return &text
}

// listTokens is GET /api-tokens: the caller's own, or for admins all with ?all=1.
func (a tokens) listTokens(c echo.Context, s web.Caller) (answer, error) {
	var tokens []token.Token
	var err error
	if c.QueryParam("all") != "1" {
		tokens, err = a.Policy.TokensOf(c.Request().Context(), s.Session)
	} else if err = a.CheckAdmin(c.Response(), c.Request(), s); err == nil {
		tokens, err = a.Policy.AllTokens(c.Request().Context())
	}
	return dataOf(tokens, err, a.tokenOf)
}

// createToken is POST /api-tokens. Its answer is the only one that has the token.
func (a tokens) createToken(c echo.Context, s web.Caller, body struct {
	Name          string   `json:"name"`
	Scopes        []string `json:"scopes"`
	ReadOnly      bool     `json:"read_only"`
	ExpiresAt     *string  `json:"expires_at"`
	SubjectUserID *int64   `json:"subject_user_id"`
},
) (answer, error) {
	n := policy.NewToken{UserID: s.UserID, Name: body.Name, ReadOnly: body.ReadOnly}
	if body.SubjectUserID != nil {
		n.UserID = *body.SubjectUserID
	}
	if n.UserID != s.UserID && s.Role != string(user.Admin) {
		return answer{}, web.ErrSubject
	}
	for _, scope := range body.Scopes {
		slug, found := strings.CutPrefix(scope, scopePrefix)
		if !found {
			return answer{}, token.ErrScope
		}
		n.Applications = append(n.Applications, slug)
	}
	if body.ExpiresAt != nil {
		at, err := time.Parse(time.RFC3339, *body.ExpiresAt)
		if err != nil || at.IsZero() {
			return answer{}, token.ErrExpiry
		}
		n.ExpiresAt = at
	}
	created, text, err := a.Policy.CreateToken(c.Request().Context(), s.Session, n)
	if errors.Is(err, user.ErrNotFound) || errors.Is(err, user.ErrNotAdmin) {
		err = web.ErrSubject
	}
	return answer{http.StatusCreated, struct {
		Data  tokenBody `json:"data"`
		Token string    `json:"token"`
	}{a.tokenOf(created), text}}, err
}

// revokeToken is DELETE /api-tokens/:id.
func (a tokens) revokeToken(c echo.Context, s web.Caller, id int64) (answer, error) {
	return done, a.Policy.RevokeToken(c.Request().Context(), s.UserID, id)
}

// removeToken is POST /api-tokens/:id/remove.
func (a tokens) removeToken(c echo.Context, s web.Caller, id int64) (answer, error) {
	return done, a.Policy.RemoveToken(c.Request().Context(), s.UserID, id)
}

// proved returns a handler that calls h with the id of the token that the path names, after web.CheckTokenProof.
func (a tokens) proved(h func(c echo.Context, s web.Caller, id int64) (answer, error)) handler {
	return byID(token.ErrNotFound, func(c echo.Context, s web.Caller, id int64) (answer, error) {
		if err := a.CheckTokenProof(c.Request().Context(), s, id); err != nil {
			return answer{}, err
		}
		return h(c, s, id)
	})
}
