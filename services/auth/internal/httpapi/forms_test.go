package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

// Two forms of one text, as keyboards of different systems send them.
const (
	nfc = "\u00fcberr\u00e4tig"
	nfd = "u\u0308berra\u0308tig"
)

func TestPassword_SetInOneFormLogsInWithTheOther(t *testing.T) {
	for set, sent := range map[string]string{nfc: nfd, nfd: nfc} {
		h := newFixture(t)
		h.anna().create("username", "lena", "password", set).want(http.StatusCreated)
		h.browser().login("lena", set).want(http.StatusOK)
		h.browser().login("lena", "uberratig").want(http.StatusUnauthorized)
		b := h.browser()
		b.login("lena", sent).want(http.StatusOK)
		b.changePassword(sent, newPass+set).want(http.StatusOK)
		h.browser().login("lena", newPass+sent).want(http.StatusOK)
		h.browser().login("lena", set).want(http.StatusUnauthorized)
	}
}

func TestPassword_LengthIsThatOfNFC(t *testing.T) {
	h := newFixture(t, func(s *settings) { s.attempts = 100 })
	b := h.otto()
	for _, bad := range []string{strings.Repeat("a\u0308", 7), strings.Repeat("a\u0308", 513)} {
		b.changePassword(userPass, bad).want(http.StatusBadRequest)
		h.anna().create("username", "lena", "password", bad).want(http.StatusBadRequest)
	}
	h.browser().login("otto", strings.Repeat("a\u0308", 513)).want(http.StatusBadRequest)
	b.changePassword(strings.Repeat("a\u0308", 513), newPass).want(http.StatusBadRequest)
	b.changePassword(userPass, strings.Repeat("a\u0308", 512)).want(http.StatusOK)
	h.browser().login("otto", strings.Repeat("\u00e4", 512)).want(http.StatusOK)
}
