package httpapi

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// errorBody is the error body of AUTH-9.1.
type errorBody struct {
	Error string `json:"error"`
	Code  int    `json:"code"`
	// Reason is for programs; empty: the body has none.
	Reason string `json:"reason,omitempty"`
	// ClockSkew is by how many seconds the clock that made a code is ahead; negative: behind.
	ClockSkew int `json:"clock_skew_seconds,omitempty"`
}

// writeError answers an error with an errorBody, or to HEAD without a body. The OpenID Connect provider
// answers most errors in the form of OAuth (provider.refuse).
func writeError(err error, c echo.Context) {
	f := web.Fail(c.Response(), err)
	if c.Request().Method == http.MethodHead {
		_ = c.NoContent(f.Status) // the client is gone if this fails
		return
	}
	body := errorBody{Error: f.German, Code: f.Status, Reason: f.Reason}
	var skew *account.SkewError
	if errors.As(err, &skew) {
		body.ClockSkew = int(skew.Ahead.Seconds())
	}
	_ = writeJSON(c, f.Status, body)
}
