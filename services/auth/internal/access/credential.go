package access

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/token"
)

// TokenHeader is the header of an app token where Authorization is the application's own.
const TokenHeader = "X-Pforte-Token" //nolint:gosec // a name

// Credential is an app token as a request presents it.
type Credential struct {
	// Text is the token; empty, which is never valid, where a header that may hold it comes twice, both headers have
	// one, or Basic names no user.
	Text string
	// Authorization reports that it came in Authorization, which the application must not
	// see then.
	Authorization bool
	// Basic reports that it came as the password of Basic authentication, which browsers
	// repeat by themselves; Username is the user that was named with it.
	Basic    bool
	Username string
}

// Presented returns the app token of a request, and reports whether there is one, right or
// wrong: then the guard looks at no session. An Authorization without an app token is the
// application's own.
func Presented(h http.Header) (Credential, bool) {
	own, isOwn := inAuthorization(h.Values("Authorization"))
	switch texts := h.Values(TokenHeader); {
	case len(texts) == 1 && !isOwn:
		return Credential{Text: texts[0]}, true
	case len(texts) > 0: // several, or one that the application would see
		return Credential{Authorization: isOwn}, true
	}
	return own, isOwn
}

// inAuthorization is Presented for the values of Authorization (RFC 6750, section 2.1; RFC
// 7617, section 2).
func inAuthorization(values []string) (found Credential, ok bool) {
	for _, value := range values {
		scheme, rest, _ := strings.Cut(strings.TrimSpace(value), " ")
		rest = strings.TrimSpace(rest)
		c := Credential{Text: rest, Authorization: true}
		if strings.EqualFold(scheme, "Basic") {
			decoded, err := base64.StdEncoding.DecodeString(rest)
			if err != nil {
				continue
			}
			c.Basic = true
			c.Username, c.Text, _ = strings.Cut(string(decoded), ":")
		} else if !strings.EqualFold(scheme, "Bearer") {
			continue
		}
		if strings.HasPrefix(c.Text, token.Prefix) {
			found, ok = c, true
		}
	}
	if ok && (len(values) > 1 || found.Basic && found.Username == "") {
		found.Text = ""
	}
	return found, ok
}
