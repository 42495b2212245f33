package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// AUTH-2.5, AUTH-6.1 to AUTH-6.5: the session, POST /logout, GET /me.

func TestLogout_EndsTheSession(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	stolen := *b
	stolen.cookies = map[string]string{"svc.sid": b.cookies["svc.sid"]}
	if got := b.logout().want(http.StatusOK); string(got.body) != `{"ok":true}` {
		t.Errorf("got %s", got.body)
	}
	stolen.get(prefix + "/me").want(http.StatusUnauthorized)
	if len(b.cookies) != 0 {
		t.Errorf("the browser keeps %v", b.cookies)
	}
	b.logout().want(http.StatusUnauthorized)
}

func TestLogout_TakesNoBodyOrAnyBody(t *testing.T) {
	h := newFixture(t)
	h.anna().send(http.MethodPost, prefix+"/logout", "", "Content-Type", "").want(http.StatusOK)
	h.anna().send(http.MethodPost, prefix+"/logout", "{").want(http.StatusOK)
}

func TestLogout_EndsOneSessionOnly(t *testing.T) {
	h := newFixture(t)
	phone, laptop := h.anna(), h.anna()
	phone.logout().want(http.StatusOK)
	laptop.get(prefix + "/me").want(http.StatusOK)
}

func TestLogout_ThatCannotEndTheSessionIs500(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	h.brokenSessions.Store(true)
	wantCookies(t, b.logout().want(http.StatusInternalServerError))
	h.brokenSessions.Store(false)
	b.get(prefix + "/me").want(http.StatusOK)
}

func TestLogout_WhoseLastStepFailsKeepsTheCookies(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	h.brokenDelete.Store(true)
	wantCookies(t, b.logout().want(http.StatusInternalServerError))
	b.get(prefix + "/me").want(http.StatusOK)
	h.brokenDelete.Store(false)
	b.logout().want(http.StatusOK)
}

func TestMe_OfADeletedUserIs500WhileTheSessionStays(t *testing.T) {
	h := newFixture(t)
	b := h.otto()
	if _, err := h.users.Delete(t.Context(), 2, session.Session{}); err != nil { // without the rules, which would revoke
		t.Fatal(err)
	}
	h.brokenDelete.Store(true)
	wantCookies(t, b.get(prefix+"/me").want(http.StatusInternalServerError))
	h.brokenDelete.Store(false)
	b.get(prefix + "/me").want(http.StatusUnauthorized)
}

func TestMe_AnswersTheUserAndTheCSRFToken(t *testing.T) {
	b := newFixture(t).otto()
	got := b.get(prefix + "/me").want(http.StatusOK)
	body := read[sessionBody](got)
	if body.User.Username != "otto" || body.User.Role != "member" || body.User.CreatedAt != "" {
		t.Errorf("got %+v", body.User)
	}
	if body.CSRFToken == nil || *body.CSRFToken != b.cookies["csrf-token"] || *body.CSRFToken != got.header.Get("X-CSRF-Token") {
		t.Errorf("got %s", got.body)
	}
}

func TestMe_SetsALostCSRFCookieAgain(t *testing.T) {
	b := newFixture(t).anna()
	token := b.cookies["csrf-token"]
	delete(b.cookies, "csrf-token")
	b.logout().want(http.StatusForbidden)
	b.get(prefix + "/me").want(http.StatusOK)
	if b.cookies["csrf-token"] != token {
		t.Errorf("got %q, want %q", b.cookies["csrf-token"], token)
	}
	b.logout().want(http.StatusOK)
}

func TestMe_AddsAMissingCSRFToken(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	infos := must(h.sessions.List(t.Context(), 1))(t)
	s := infos[0].Session
	s.CSRFToken = ""
	if err := h.sessions.Delete(t.Context(), s.Ref); err != nil {
		t.Fatal(err)
	}
	fence := must(h.sessions.Fence(t.Context(), 1))(t)
	if err := h.sessions.Create(t.Context(), s, fence, session.NewLifetimes(0, 0)); err != nil {
		t.Fatal(err)
	}
	delete(b.cookies, "csrf-token")
	for _, forged := range []string{"", "0000000000000000000000000000000000000000000000000000000000000000"} {
		b.send(http.MethodPost, prefix+"/logout", "", "X-CSRF-Token", forged).want(http.StatusForbidden)
	}
	first := read[sessionBody](b.get(prefix + "/me").want(http.StatusOK))
	second := read[sessionBody](b.get(prefix + "/me").want(http.StatusOK))
	if first.CSRFToken == nil || len(*first.CSRFToken) != 64 || *second.CSRFToken != *first.CSRFToken {
		t.Errorf("got %v, then %v", first.CSRFToken, second.CSRFToken)
	}
	b.logout().want(http.StatusOK)
}

func TestMe_OfADeletedUserEndsTheSession(t *testing.T) {
	h := newFixture(t)
	b := h.otto()
	stolen := *b
	stolen.cookies = map[string]string{"svc.sid": b.cookies["svc.sid"]}
	if _, err := h.users.Delete(t.Context(), 2, session.Session{}); err != nil { // without the rules, which would revoke
		t.Fatal(err)
	}
	b.get(prefix + "/me").want(http.StatusUnauthorized)
	if len(b.cookies) != 0 {
		t.Errorf("the browser keeps %v", b.cookies)
	}
	stolen.get("/internal/forward-auth").want(http.StatusBadRequest)
	stolen.send(http.MethodGet, "/internal/forward-auth", "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/").want(http.StatusUnauthorized)
}

func TestSession_EndsAfter7IdleDays(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	for range 4 {
		h.clock.Advance(7*24*time.Hour - time.Second)
		b.get(prefix + "/users").want(http.StatusOK)
	}
	h.clock.Advance(7 * 24 * time.Hour)
	b.get(prefix + "/me").want(http.StatusUnauthorized)
	b.get(prefix + "/users").want(http.StatusUnauthorized)
}

func TestSession_IsRenewedThoughAGuardRefuses(t *testing.T) {
	h := newFixture(t)
	b := h.otto()
	h.clock.Advance(6 * 24 * time.Hour)
	b.get(prefix + "/users").want(http.StatusForbidden)
	h.clock.Advance(6 * 24 * time.Hour)
	b.get(prefix + "/me").want(http.StatusOK)
}
