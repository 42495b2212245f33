package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/factor/passkeytest"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// origin is the fixture's PUBLIC_URL.
const origin = "https://home.example.org"

// credential is the body of an answer; name is the one of a new passkey, or empty.
func credential(answer json.RawMessage, name string) string {
	if name == "" {
		return object("credential", answer)
	}
	return object("credential", answer, "name", name)
}

// begin begins a ceremony and returns its options.
func (b *browser) begin(path string) json.RawMessage {
	b.h.t.Helper()
	return b.send(http.MethodPost, prefix+path, "").want(http.StatusOK).body
}

// register adds a passkey and returns its path.
func (b *browser) register(d *passkeytest.Authenticator) string {
	b.h.t.Helper()
	var body struct{ Data struct{ ID int64 } }
	b.send(http.MethodPost, prefix+"/passkeys", credential(d.Create(b.begin("/passkeys/options")), "Handy")).want(http.StatusCreated).into(&body)
	return fmt.Sprint(prefix, "/passkeys/", body.Data.ID)
}

func (b *browser) passkeyLogin(d *passkeytest.Authenticator) reply {
	b.h.t.Helper()
	return b.send(http.MethodPost, prefix+"/passkeys/login", credential(d.Get(b.begin("/passkeys/login/options")), ""))
}

func TestPasskey_LogsIn(t *testing.T) {
	h := newFixture(t)
	d := passkeytest.New(t, origin)
	h.otto().register(d)
	b := h.browser()
	var body struct {
		User      struct{ Username string }
		CSRFToken string
	}
	b.passkeyLogin(d).want(http.StatusOK).into(&body)
	if body.User.Username != "otto" || body.CSRFToken == "" || body.CSRFToken != b.cookies["csrf-token"] || b.cookies["svc.ceremony"] != "" {
		t.Errorf("got %+v, cookies %v", body, b.cookies)
	}
	b.get(prefix + "/me").want(http.StatusOK)
	b.logout().want(http.StatusOK)
	if !strings.Contains(h.log.String(), `"event":"login"`) {
		t.Error("the login is not logged")
	}
}

func TestPasskey_AnAnswerCountsOnce(t *testing.T) {
	h := newFixture(t)
	d := passkeytest.New(t, origin)
	h.otto().register(d)
	b := h.browser()
	options := b.begin("/passkeys/login/options")
	ceremony := b.cookies["svc.ceremony"]
	answer := credential(d.Get(options), "")
	b.send(http.MethodPost, prefix+"/passkeys/login", answer).want(http.StatusOK)
	again := h.browser()
	again.cookies["svc.ceremony"] = ceremony
	for range 2 {
		again.send(http.MethodPost, prefix+"/passkeys/login", answer).because(http.StatusUnauthorized, "passkey_failed")
	}
}

func TestPasskey_ACeremonyEndsAfterFiveMinutes(t *testing.T) {
	h := newFixture(t)
	d := passkeytest.New(t, origin)
	h.otto().register(d)
	b := h.browser()
	answer := credential(d.Get(b.begin("/passkeys/login/options")), "")
	h.clock.Advance(5*time.Minute + time.Second)
	b.send(http.MethodPost, prefix+"/passkeys/login", answer).because(http.StatusUnauthorized, "passkey_failed")
}

func TestPasskey_IsSeenNamedAndRemovedByItsUser(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	if got := otto.get(prefix + "/passkeys").want(http.StatusOK); string(got.body) != `{"data":[]}` {
		t.Errorf("got %s", got.body)
	}
	d := passkeytest.New(t, origin)
	path := otto.register(d)
	otto.send(http.MethodPatch, path, object("name", " Ottos Handy ")).want(http.StatusOK)
	h.browser().passkeyLogin(d).want(http.StatusOK)
	type item struct {
		ID         int64
		Name       string
		CreatedAt  string  `json:"created_at"`
		LastUsedAt *string `json:"last_used_at"`
		Synced     bool
	}
	var list struct{ Data []item }
	otto.get(prefix + "/passkeys").want(http.StatusOK).into(&list)
	if len(list.Data) != 1 || list.Data[0].Name != "Ottos Handy" || !list.Data[0].Synced || list.Data[0].CreatedAt != "2026-03-01T12:00:00Z" || list.Data[0].LastUsedAt == nil {
		t.Errorf("got %+v", list)
	}
	otto.send(http.MethodPatch, path, object("name", " ")).want(http.StatusBadRequest)
	for _, name := range []string{strings.Repeat("x", 65), "a\x01b"} {
		otto.send(http.MethodPatch, path, object("name", name)).because(http.StatusBadRequest, "passkey_name")
	}
	anna := h.anna()
	for _, foreign := range []string{path, prefix + "/passkeys/99", prefix + "/passkeys/x"} {
		anna.send(http.MethodPatch, foreign, object("name", "hers")).because(http.StatusNotFound, "not_found")
		anna.send(http.MethodDelete, foreign, "").because(http.StatusNotFound, "not_found")
	}
	otto.send(http.MethodDelete, path, "").want(http.StatusOK)
	h.browser().passkeyLogin(d).because(http.StatusUnauthorized, "passkey_failed")
}

func TestPasskey_IsRegisteredOnceAndAsAsked(t *testing.T) {
	h := newFixture(t)
	otto, anna := h.otto(), h.anna()
	d := passkeytest.New(t, origin)
	answer := d.Create(otto.begin("/passkeys/options"))
	otto.send(http.MethodPost, prefix+"/passkeys", credential(answer, "Handy")).want(http.StatusCreated)
	otto.send(http.MethodPost, prefix+"/passkeys", credential(answer, "Handy")).because(http.StatusBadRequest, "passkey_failed")

	same := d.Keys[0].ID // another user's authenticator claims the same credential
	d.NextID = same
	anna.send(http.MethodPost, prefix+"/passkeys", credential(d.Create(anna.begin("/passkeys/options")), "Handy")).because(http.StatusConflict, "passkey_exists")

	d.NextID, d.Flags = nil, passkeytest.UserPresent
	anna.send(http.MethodPost, prefix+"/passkeys", credential(d.Create(anna.begin("/passkeys/options")), "Handy")).because(http.StatusBadRequest, "passkey_failed")
	anna.send(http.MethodPost, prefix+"/passkeys", object("name", "Handy")).want(http.StatusBadRequest)
}

func TestPasskey_IsChangedByAFreshSessionOnly(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	path := otto.register(passkeytest.New(t, origin))
	h.clock.Advance(account.FreshFor)
	otto.begin("/passkeys/options")
	h.clock.Advance(time.Second)
	for _, b := range []reply{
		otto.send(http.MethodPost, prefix+"/passkeys/options", ""), otto.send(http.MethodPost, prefix+"/passkeys", "{}"), otto.send(http.MethodDelete, path, ""),
	} {
		b.because(http.StatusForbidden, "reauth_required")
	}
	otto.send(http.MethodPatch, path, object("name", "still mine")).want(http.StatusOK)
}

func TestPasskey_AConfirmationMakesAFreshSession(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	otto.send(http.MethodPost, prefix+"/reauth/passkey/options", "").because(http.StatusConflict, "no_passkey")
	d := passkeytest.New(t, origin)
	path := otto.register(d)
	h.clock.Advance(account.FreshFor + time.Second)
	old := otto.cookies["svc.sid"]
	otto.send(http.MethodPost, prefix+"/reauth/passkey", credential(d.Get(otto.begin("/reauth/passkey/options")), "")).want(http.StatusOK)
	before := h.browser()
	before.cookies["svc.sid"] = old
	before.get(prefix + "/me").want(http.StatusUnauthorized)
	otto.send(http.MethodPost, prefix+"/reauth/passkey", credential(d.GetWith(d.Keys[0], otto.begin("/passkeys/login/options")), "")).because(http.StatusUnauthorized, "passkey_failed")
	otto.send(http.MethodDelete, path, "").want(http.StatusOK)
}

// TestPasskey_IsASecondStepOfALogin also checks that the pending login is no session and that
// its ceremony is for it alone.
func TestPasskey_IsASecondStepOfALogin(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	d := passkeytest.New(t, origin)
	otto.register(d)
	must(h.database.Factors.EnableByPasskey(t.Context(), h.ofOtto(), nil))(t)
	b := h.browser()
	b.send(http.MethodPost, prefix+"/2fa/passkey/options", "").because(http.StatusUnauthorized, "no_pending_login")
	b.send(http.MethodPost, prefix+"/2fa/passkey", credential(json.RawMessage("{}"), "")).because(http.StatusUnauthorized, "no_pending_login")
	b.login("otto", userPass).want(http.StatusOK)
	b.get(prefix + "/me").want(http.StatusUnauthorized)
	b.send(http.MethodPost, prefix+"/2fa/passkey", credential(d.GetWith(d.Keys[0], b.begin("/passkeys/login/options")), "")).because(http.StatusUnauthorized, "passkey_failed")
	b.send(http.MethodPost, prefix+"/2fa/passkey", credential(d.Get(b.begin("/2fa/passkey/options")), "")).want(http.StatusOK)
	b.get(prefix + "/me").want(http.StatusOK)
}

func TestPasskey_OneAddressBegins30CeremoniesAMinute(t *testing.T) {
	h := newFixture(t)
	b := h.fastBrowser()
	for range 30 {
		b.begin("/passkeys/login/options")
	}
	b.unchecked = false
	if got := b.send(http.MethodPost, prefix+"/passkeys/login/options", "").want(http.StatusTooManyRequests); got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	for _, path := range []string{"/2fa/passkey/options", "/2fa/passkey"} {
		b.send(http.MethodPost, prefix+path, "").want(http.StatusTooManyRequests)
	}
	otto := h.otto()
	for _, path := range []string{"/reauth/passkey/options", "/reauth/passkey", "/passkeys/options"} {
		otto.send(http.MethodPost, prefix+path, "").want(http.StatusTooManyRequests)
	}
	h.elsewhere().begin("/passkeys/login/options")
	h.clock.Advance(time.Minute)
	b.begin("/passkeys/login/options")
}

func TestPasskey_FailedOnesCountAsFailedLogins(t *testing.T) {
	h := newFixture(t)
	b := h.browser()
	for range 5 {
		b.send(http.MethodPost, prefix+"/passkeys/login", credential(json.RawMessage("{}"), "")).because(http.StatusUnauthorized, "passkey_failed")
	}
	b.send(http.MethodPost, prefix+"/passkeys/login", credential(json.RawMessage("{}"), "")).want(http.StatusTooManyRequests)
	b.login("anna", adminPass).want(http.StatusTooManyRequests)
}

// passkeyRoutes are all of them, with whether they need a session and have a body.
var passkeyRoutes = []struct {
	method, path  string
	session, body bool
}{
	{http.MethodPost, "/passkeys/login/options", false, false},
	{http.MethodPost, "/passkeys/login", false, true},
	{http.MethodGet, "/passkeys", true, false},
	{http.MethodPost, "/passkeys/options", true, false},
	{http.MethodPost, "/passkeys", true, true},
	{http.MethodPatch, "/passkeys/1", true, true},
	{http.MethodDelete, "/passkeys/1", true, false},
	{http.MethodPost, "/2fa/passkey/options", false, false},
	{http.MethodPost, "/2fa/passkey", false, true},
	{http.MethodPost, "/reauth/passkey/options", true, false},
	{http.MethodPost, "/reauth/passkey", true, true},
}

func TestPasskey_RoutesAreGuarded(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	for _, r := range passkeyRoutes {
		if r.session {
			h.browser().send(r.method, prefix+r.path, "").want(http.StatusUnauthorized)
			if r.method != http.MethodGet {
				otto.send(r.method, prefix+r.path, "{}", "X-CSRF-Token", "").want(http.StatusForbidden)
			}
		}
		if r.body {
			otto.send(r.method, prefix+r.path, `{}`, "Content-Type", "text/plain").want(http.StatusUnsupportedMediaType)
			otto.send(r.method, prefix+r.path, `{"x":"`+strings.Repeat("x", 70_000)+`"}`).want(http.StatusRequestEntityTooLarge)
			otto.send(r.method, prefix+r.path, `{}`).want(http.StatusBadRequest)
		}
	}
}

// ofOtto is a session of otto as he is now.
func (h *fixture) ofOtto() session.Session {
	h.t.Helper()
	otto := must(h.users.ByID(h.t.Context(), 2))(h.t)
	return session.Session{Ref: session.Ref{UserID: otto.ID}, Stamp: otto.SessionStamp}
}

// waiting is a browser of otto, whose login waits for his passkey.
func (h *fixture) waiting() *browser {
	h.t.Helper()
	otto := must(h.users.ByID(h.t.Context(), 2))(h.t)
	if !otto.SecondFactor {
		must(h.database.Passkeys.AddPasskey(h.t.Context(), 2, "key", factor.Credential{CredentialID: []byte("id"), RPID: "home.example.org", Record: "{}"}, otto.SessionStamp, ""))(h.t)
		must(h.database.Factors.EnableByPasskey(h.t.Context(), h.ofOtto(), nil))(h.t)
	}
	b := h.browser()
	b.login("otto", userPass).want(http.StatusOK)
	return b
}

func TestPasskey_RoutesSayWhereThereAreNone(t *testing.T) {
	h := newFixture(t, func(s *settings) { s.noPasskeys = true })
	anna := h.anna()
	for _, r := range passkeyRoutes {
		if r.method != http.MethodPost {
			continue
		}
		b := anna
		if strings.HasPrefix(r.path, "/2fa") {
			b = h.waiting()
		}
		b.send(r.method, prefix+r.path, object("name", "x", "credential", json.RawMessage("{}"))).because(http.StatusConflict, "passkeys_unavailable")
	}
	anna.get(prefix + "/passkeys").want(http.StatusOK)
}

func TestPasskey_FailuresOfTheStoresAreAnswered(t *testing.T) {
	h := newFixture(t)
	anna, pending := h.anna(), h.waiting()
	h.brokenSessions.Store(true)
	h.brokenLimits.Store(true)
	for _, r := range passkeyRoutes {
		b := anna
		if strings.HasPrefix(r.path, "/2fa") {
			b = pending
		}
		got := b.send(r.method, prefix+r.path, object("name", "x", "credential", json.RawMessage("{}"))).want(http.StatusInternalServerError)
		if strings.Contains(string(got.body), errStore.Error()) {
			t.Errorf("%s", got.body)
		}
	}
}

// otherAddress adds a passkey of otto that belongs to another RP ID than the server's.
func (h *fixture) otherAddress() {
	h.t.Helper()
	otto := must(h.database.Users.ByID(h.t.Context(), 2))(h.t)
	key := factor.Credential{CredentialID: []byte("of the old address"), RPID: "old.example.org", Record: "{}"}
	must(h.database.Passkeys.AddPasskey(h.t.Context(), 2, "Handy", key, otto.SessionStamp, ""))(h.t)
}

func TestPasskey_ThatDoesNotWorkHereIsNoSecondFactor(t *testing.T) {
	h := newFixture(t)
	h.otherAddress()
	otto := h.otto()
	enable := func() reply {
		return otto.send(http.MethodPost, prefix+"/2fa/enable", object("passkey", true))
	}
	enable().because(http.StatusConflict, "no_passkey")
	otto.register(passkeytest.New(t, origin))
	off := settings{secret: secret, name: "svc", attempts: 5, hasher: cheap, noPasskeys: true}
	on := off
	on.noPasskeys = false
	h.build(off)
	enable().because(http.StatusConflict, "passkeys_unavailable")
	h.build(on)
	enable().want(http.StatusOK)
}

// TestPasskey_ThatDoesNotWorkHereKeepsNoSecondFactor removes one of two passkeys: that of the server's address, the last
// that works, or that of another address.
func TestPasskey_ThatDoesNotWorkHereKeepsNoSecondFactor(t *testing.T) {
	for _, stays := range []bool{false, true} {
		h := newFixture(t)
		h.otherAddress()
		otto := h.otto()
		early := otto.send(http.MethodPost, prefix+"/2fa/enable", object("passkey", true))
		if early.status != http.StatusConflict {
			t.Errorf("before one that works: %d %s", early.status, early.body)
		}
		d := passkeytest.New(t, origin)
		removed := otto.register(d)
		otto.send(http.MethodPost, prefix+"/2fa/enable", object("passkey", true)).want(http.StatusOK)
		proof := credential(d.Get(otto.begin("/reauth/passkey/options")), "")
		otto.send(http.MethodPost, prefix+"/reauth/passkey", proof).want(http.StatusOK)
		if stays {
			removed = prefix + "/passkeys/1"
		}
		otto.send(http.MethodDelete, removed, "").want(http.StatusOK)
		if got := must(h.users.ByID(t.Context(), 2))(t).SecondFactor; got != stays {
			t.Errorf("after %s is removed the second factor is on: %t", removed, got)
		}
	}
}

func TestPasskey_ThatDoesNotWorkHereIsNotOffered(t *testing.T) {
	h := newFixture(t)
	h.setUp(h.otto())
	h.otherAddress()
	got := read[struct{ Methods []string }](h.browser().login("otto", userPass).want(http.StatusOK))
	if !slices.Equal(got.Methods, []string{"totp", "recovery"}) {
		t.Errorf("got %v", got.Methods)
	}
}
