package httpapi

import (
	"maps"
	"net/http"

	"github.com/labstack/echo/v4"
)

// What browsers may send. The official client sends
// Access-Control-Expose-Headers as a request header on its paid retry.
const allowHeaders = "Content-Type, Accept, PAYMENT-SIGNATURE, X-PAYMENT, Access-Control-Expose-Headers, X-Request-Id, If-None-Match"

// Headers of every answer, and those of the answer to a preflight. Their values
// must not be changed.
var (
	everyAnswer = http.Header{
		"X-Content-Type-Options":        {"nosniff"},
		"Access-Control-Allow-Origin":   {"*"},
		"Access-Control-Expose-Headers": {"PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, Retry-After, X-Request-Id, ETag"},
	}
	preflight = http.Header{
		"Access-Control-Allow-Methods": {"GET, HEAD, POST, OPTIONS"},
		"Access-Control-Allow-Headers": {allowHeaders},
		"Access-Control-Max-Age":       {"7200"},
	}
)

// crossOrigin answers the preflights of browsers. Pages of any origin may use the
// service: it has no cookies and no sessions that they could abuse.
func crossOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h, r := c.Response().Header(), c.Request()
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			maps.Copy(h, preflight)
			return c.NoContent(http.StatusNoContent)
		}
		return next(c)
	}
}
