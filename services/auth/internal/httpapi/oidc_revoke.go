package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// revoke is POST /pforte/oidc/revoke (RFC 7009). A public client sends no more than its id and the token.
func (a provider) revoke(c echo.Context) error {
	allowAllOrigins(c)
	_, err := a.ofClient(c, func(client oidc.Client, token string) (any, error) {
		return nil, a.OIDC.Revoke(c.Request().Context(), client, token)
	})
	if err != nil {
		return a.refuse(c, err)
	}
	return c.NoContent(http.StatusOK)
}

// introspect is POST /pforte/oidc/introspect (RFC 7662).
func (a provider) introspect(c echo.Context) error {
	body, err := a.ofClient(c, func(client oidc.Client, token string) (any, error) {
		return a.OIDC.Introspect(c.Request().Context(), client, token)
	})
	if err != nil {
		return a.refuse(c, err)
	}
	return writeJSON(c, http.StatusOK, body)
}

// ofClient reads a form about a token, and calls do with the client that sent it and the token. It reads no cookies.
func (a provider) ofClient(c echo.Context, do func(oidc.Client, string) (any, error)) (any, error) {
	c.SetRequest(a.As(c.Response(), c.Request(), web.Caller{}))
	form, err := readOAuthForm(c)
	if err != nil {
		return nil, err
	}
	client, err := a.client(c, form)
	if err != nil {
		return nil, err
	}
	return do(client, form.Get("token"))
}
