package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// revoke is POST /pforte/oidc/revoke (RFC 7009). Of a public client its id and the token are enough.
func (a provider) revoke(c echo.Context) error {
	allowAllOrigins(c)
	form, client, err := a.sent(c)
	if err == nil {
		err = a.OIDC.Revoke(c.Request().Context(), client, form.Get("token"))
	}
	if err != nil {
		return a.refuse(c, err)
	}
	return c.NoContent(http.StatusOK)
}

// introspect is POST /pforte/oidc/introspect (RFC 7662).
func (a provider) introspect(c echo.Context) error {
	form, client, err := a.sent(c)
	if err != nil {
		return a.refuse(c, err)
	}
	body, err := a.OIDC.Introspect(c.Request().Context(), client, form.Get("token"))
	if err != nil {
		return a.refuse(c, err)
	}
	return writeJSON(c, http.StatusOK, body)
}
