package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/password"
)

// AUTH-4: POST /login.

func TestLogin_AnswersTheUserAndTheCSRFToken(t *testing.T) {
	b := newFixture(t).browser()
	got := b.login("anna", adminPass).want(http.StatusOK)
	body := read[sessionBody](got)
	if diff := cmp.Diff(person{ID: 1, Username: "anna", DisplayName: "Anna", AvatarColor: "#007AFF", Role: "admin"}, body.User); diff != "" {
		t.Error(diff)
	}
	if body.CSRFToken == nil || *body.CSRFToken != b.cookies["csrf-token"] || *body.CSRFToken != got.header.Get("X-CSRF-Token") {
		t.Errorf("the body has %v, the cookie %s, the header %s", body.CSRFToken, b.cookies["csrf-token"], got.header.Get("X-CSRF-Token"))
	}
	if keys := read[map[string]any](got); len(keys) != 2 || len(keys["user"].(map[string]any)) != 5 {
		t.Errorf("got more or less than AUTH-4.5 has: %s", got.body)
	}
	b.get(prefix + "/me").want(http.StatusOK)
}

func TestLogin_WithoutUsernameOrPasswordIsRefused(t *testing.T) {
	b := newFixture(t).browser()
	for _, body := range []string{
		`{}`, `{"username":"anna"}`, `{"password":"x"}`, `{"username":"","password":"x"}`, `{"username":"anna","password":""}`,
		`{"username":null,"password":"x"}`, `{"Username":"anna","Password":"correct horse"}`,
	} {
		b.send(http.MethodPost, prefix+"/login", body).want(http.StatusBadRequest)
	}
}

func TestLogin_TakesNamesOf64AndPasswordsOf1024(t *testing.T) {
	b := newFixture(t, func(s *settings) { s.attempts = 100 }).browser()
	for _, character := range []string{"a", "ä", "😀"} {
		b.login(strings.Repeat(character, 64), "x").want(http.StatusUnauthorized)
		b.login(strings.Repeat(character, 65), "x").want(http.StatusBadRequest)
		b.login("anna", strings.Repeat(character, 1024)).want(http.StatusUnauthorized)
		b.login("anna", strings.Repeat(character, 1025)).want(http.StatusBadRequest)
	}
}

func TestLogin_UnknownNameAndWrongPasswordAreAlike(t *testing.T) {
	b := newFixture(t).browser()
	unknown := b.login("nobody", adminPass).want(http.StatusUnauthorized)
	wrong := b.login("anna", "wrong").want(http.StatusUnauthorized)
	if string(unknown.body) != string(wrong.body) {
		t.Errorf("got %s and %s", unknown.body, wrong.body)
	}
	if len(b.cookies) != 0 {
		t.Errorf("a failed login set %v", b.cookies)
	}
}

func TestLogin_MatchesTheNameExactly(t *testing.T) {
	b := newFixture(t, func(s *settings) { s.attempts = 100 }).browser()
	for _, name := range []string{"Anna", "ANNA", " anna", "anna ", "аnna", "anna\x00", "%", "a*", "anna' OR '1'='1"} {
		b.login(name, adminPass).want(http.StatusUnauthorized)
	}
}

func TestLogin_MatchesThePasswordExactly(t *testing.T) {
	long := strings.Repeat("0123456789", 8)
	for name, pass := range map[string]string{
		"over 72 bytes": long, "1024 characters": strings.Repeat("ä", 1024), "a NUL byte": "nothing\x00after", "emoji": "😀😀😀😀😀😀😀😀",
	} {
		h := newFixture(t)
		h.add("lena", "Lena", pass, "member")
		h.browser().login("lena", pass).want(http.StatusOK)
		for _, other := range []string{pass + "x", pass[:len(pass)-1], strings.ReplaceAll(pass, "\x00", "\x00x"), "übertig", "überrätig"} {
			if strings.ToValidUTF8(other, "") != other || other == pass {
				continue
			}
			if got := h.browser().login("lena", other); got.status == http.StatusOK {
				t.Errorf("%s: %q logged in", name, other)
			}
		}
	}
}

func TestLogin_NeverAdoptsTheClientsSessionID(t *testing.T) {
	h := newFixture(t)
	b := h.browser()
	b.cookies["svc.sid"] = "chosen-by-the-attacker"
	b.login("anna", adminPass).want(http.StatusOK)
	first := b.cookies["svc.sid"]
	if first == "chosen-by-the-attacker" {
		t.Fatal("the client's id was adopted")
	}
	b.login("anna", adminPass).want(http.StatusOK)
	if b.cookies["svc.sid"] == first {
		t.Error("a second login kept the session id")
	}
}

func TestLogin_EndsTheSessionItCameWith(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	old := &browser{h: h, cookies: map[string]string{"svc.sid": b.cookies["svc.sid"]}, addr: b.addr}
	b.login("otto", userPass).want(http.StatusOK)
	old.get(prefix + "/me").want(http.StatusUnauthorized)
	b.get(prefix + "/me").want(http.StatusOK)
}

func TestLogin_ThatFailsLeavesTheSession(t *testing.T) {
	b := newFixture(t).anna()
	b.login("anna", "wrong").want(http.StatusUnauthorized)
	b.get(prefix + "/me").want(http.StatusOK)
}

func TestLogin_ThatCannotStoreASessionIs500(t *testing.T) {
	h := newFixture(t)
	h.brokenSessions.Store(true)
	b := h.browser()
	if got := b.login("anna", adminPass).want(http.StatusInternalServerError); got.header.Get("Set-Cookie") != "" {
		t.Errorf("it set %s", got.header.Get("Set-Cookie"))
	}
}

func TestLogin_NeedsNoCSRFToken(t *testing.T) {
	b := newFixture(t).anna()
	b.send(http.MethodPost, prefix+"/login", object("username", "anna", "password", adminPass), "X-CSRF-Token", "").want(http.StatusOK)
}

func TestLogin_SucceedsThoughARehashFails(t *testing.T) {
	h := newFixture(t)
	h.build(settings{secret: secret, name: "svc", attempts: 5, hasher: password.Options{Cost: 5}}) // a start with a higher cost
	before := must(h.users.ByID(t.Context(), 1))(t).PasswordHash
	h.brokenRehash.Store(true)
	h.anna().get(prefix + "/me").want(http.StatusOK)
	if got := must(h.users.ByID(t.Context(), 1))(t).PasswordHash; got != before || !strings.Contains(h.log.String(), "rehash password failed") {
		t.Errorf("the hash was %s and is %s; log %s", before, got, h.log)
	}
	h.brokenRehash.Store(false)
	h.anna().get(prefix + "/me").want(http.StatusOK)
	if got := must(h.users.ByID(t.Context(), 1))(t).PasswordHash; got == before {
		t.Error("the next login did not hash it anew")
	}
}
