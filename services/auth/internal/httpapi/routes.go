package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	openapi "github.com/pforte/pforte/services/auth/api"
)

// prefix begins the paths of the contract.
const prefix = "/api/v1/auth"

// route lists all routes, with their guards from the outside in.
func (a *api) route(e *echo.Echo) {
	e.POST(prefix+"/login", answered(a.limitLogin(a.login)))
	e.POST(prefix+"/logout", answered(a.authenticated(a.csrf(a.logout))))
	e.GET(prefix+"/me", answered(a.authenticated(a.me)))
	changePassword := a.csrf(a.limitPassword(a.changePassword))
	e.PATCH(prefix+"/me/password", answered(a.loggedIn(changePassword, changePassword))) // 404 when the user was deleted
	e.GET(prefix+"/users", answered(a.authenticated(a.admin(a.listUsers))))
	e.POST(prefix+"/users", answered(a.authenticated(a.admin(a.csrf(a.createUser)))))
	e.DELETE(prefix+"/users/:id", answered(a.authenticated(a.admin(a.csrf(a.deleteUser)))))

	e.GET(prefix+"/openapi.json", func(c echo.Context) error {
		return c.Blob(http.StatusOK, "application/json", openapi.Document)
	})
	e.GET("/internal/forward-auth", answered(a.forwardAuth))
	e.GET("/health", answered(a.healthy))
}

// answer is what a handler returns when it has not failed.
type answer struct {
	status int
	body   any
}

// done is the answer without content.
var done = answer{http.StatusOK, struct {
	OK bool `json:"ok"`
}{true}}

// handler answers a request. It sets headers and does not write.
type handler func(c echo.Context) (answer, error)

// answered writes the answer of a handler.
func answered(h handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		ans, err := h(c)
		if err != nil {
			return err
		}
		return writeJSON(c, ans.status, ans.body)
	}
}

// writeJSON writes an answer whole, or nothing.
func writeJSON(c echo.Context, status int, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return c.Blob(status, "application/json", data)
}

// healthy reports whether both stores answer.
func (a *api) healthy(c echo.Context) (answer, error) {
	if err := a.Health(c.Request().Context()); err != nil {
		a.Log.WarnContext(c.Request().Context(), "health check failed", "error", err)
		return answer{}, errUnhealthy
	}
	return answer{http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"}}, nil
}
