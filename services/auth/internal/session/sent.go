package session

import (
	"net/http"
	"slices"
	"strings"
)

// Sent reports whether the client sent a cookie of ours, valid or not.
func (m *Manager) Sent(r *http.Request) bool {
	return slices.ContainsFunc(r.Cookies(), func(c *http.Cookie) bool {
		return c.Name == CSRFCookie || strings.HasPrefix(c.Name, m.app+".")
	})
}
