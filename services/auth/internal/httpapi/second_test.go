package httpapi_test

import (
	"encoding/base32"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/factor/passkeytest"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// secret is a user's TOTP secret in a test, with the clock of the test.
type authenticator struct {
	h      *fixture
	secret []byte
}

// code returns the code of now, or of some steps later.
func (a authenticator) code(later int64) string {
	return factor.Code(a.secret, factor.StepOf(a.h.clock.Now())+later)
}

// setUp sets TOTP up for the user of a browser and returns it with the recovery codes.
func (h *fixture) setUp(b *browser) (authenticator, []string) {
	h.t.Helper()
	made := read[struct {
		Data struct{ Secret, URI string }
	}](b.send(http.MethodPost, prefix+"/2fa/setup", "").want(http.StatusOK))
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(made.Data.Secret)
	if err != nil {
		h.t.Fatal(err)
	}
	a := authenticator{h, secret}
	codes := read[recovery](b.send(http.MethodPost, prefix+"/2fa/enable", object("code", a.code(0))).want(http.StatusOK))
	h.clock.Advance(30 * time.Second)
	return a, codes.Data.RecoveryCodes
}

type recovery struct {
	Data struct {
		RecoveryCodes []string `json:"recovery_codes"`
	}
}

func (b *browser) verify(code string) reply {
	return b.send(http.MethodPost, prefix+"/2fa/verify", object("code", code))
}

// pending returns a browser with a login of otto that waits for a second factor.
func (h *fixture) pending() *browser {
	h.t.Helper()
	b := h.browser()
	got := read[struct {
		TwoFactorRequired, RecoveryAvailable bool
		Methods                              []string
		User                                 any
	}](b.login("otto", userPass).want(http.StatusOK))
	if !got.TwoFactorRequired || !got.RecoveryAvailable || len(got.Methods) != 2 || got.User != nil || b.cookies["svc.sid"] != "" || b.cookies["svc.2fa"] == "" {
		h.t.Fatalf("got %+v, cookies %v", got, b.cookies)
	}
	return b
}

func TestSecondFactor_LoginIsASessionAfterTheCode(t *testing.T) {
	h := newFixture(t)
	a, codes := h.setUp(h.otto())
	b := h.pending()
	b.get(prefix + "/me").want(http.StatusUnauthorized)
	code := a.code(0)
	got := read[struct {
		User              struct{ Username string }
		TwoFactorMethod   string
		RecoveryRemaining int
	}](b.verify(" " + code[:3] + " " + code[3:]).want(http.StatusOK))
	if got.User.Username != "otto" || got.TwoFactorMethod != "totp" || got.RecoveryRemaining != 10 || b.cookies["svc.2fa"] != "" || b.cookies["svc.dev"] == "" {
		t.Errorf("got %+v, cookies %v", got, b.cookies)
	}
	b.get(prefix + "/me").want(http.StatusOK)
	b.verify(a.code(1)).because(http.StatusUnauthorized, "no_pending_login")

	other := h.pending()
	other.verify(code).because(http.StatusUnauthorized, "invalid_code") // it is used up, as typed differently too
	if got := read[struct{ RecoveryRemaining int }](other.verify(strings.ToLower(codes[0])).want(http.StatusOK)); got.RecoveryRemaining != 9 {
		t.Errorf("left %d", got.RecoveryRemaining)
	}
	h.pending().verify(codes[0]).because(http.StatusUnauthorized, "invalid_code")
}

func TestPendingLogin_IsNoSessionUnderAnyName(t *testing.T) {
	h := newFixture(t)
	h.setUp(h.otto())
	b := h.pending()
	for _, name := range []string{"svc.sid", "svc.app", "sid"} {
		for _, path := range []string{prefix + "/me", prefix + "/sessions", prefix + "/2fa", "/internal/forward-auth"} {
			r := h.browser().send(http.MethodGet, path, "", "Cookie", name+"="+b.cookies["svc.2fa"], "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")
			r.want(http.StatusUnauthorized)
		}
	}
}

func TestSecondFactor_OldSessionLivesUntilTheSecondStep(t *testing.T) {
	h := newFixture(t)
	b := h.otto()
	a, _ := h.setUp(b)
	before := b.cookies["svc.sid"]
	b.login("otto", userPass).want(http.StatusOK)
	b.get(prefix + "/me").want(http.StatusOK)
	b.verify(a.code(0)).want(http.StatusOK)
	old := h.browser()
	old.send(http.MethodGet, prefix+"/me", "", "Cookie", "svc.sid="+before).want(http.StatusUnauthorized)
}

// TestSecondFactor_EndsTheSessionItCameWith: another user has logged in, in another tab, while the login waited.
func TestSecondFactor_EndsTheSessionItCameWith(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	d := passkeytest.New(t, origin)
	otto.register(d)
	a, _ := h.setUp(otto)
	for name, finish := range map[string]func(*browser) reply{
		"code": func(b *browser) reply { return b.verify(a.code(0)) },
		"passkey": func(b *browser) reply {
			answer := credential(d.Get(b.begin("/2fa/passkey/options")), "")
			return b.send(http.MethodPost, prefix+"/2fa/passkey", answer)
		},
	} {
		b, anna := h.browser(), h.anna()
		b.login("otto", userPass).want(http.StatusOK)
		b.cookies["svc.sid"] = anna.cookies["svc.sid"]
		b.verify("000000").because(http.StatusUnauthorized, "invalid_code")
		anna.get(prefix + "/me").want(http.StatusOK)
		finish(b).want(http.StatusOK)
		if got := anna.get(prefix + "/me"); got.status != http.StatusUnauthorized {
			t.Errorf("%s: the session of before: %d", name, got.status)
		}
		b.get(prefix + "/me").want(http.StatusOK)
	}
}

func TestSecondFactor_Of100RightCodesAtOnceOneLogsIn(t *testing.T) {
	h := newFixture(t)
	a, codes := h.setUp(h.otto())
	for name, code := range map[string]string{"totp": a.code(0), "recovery": codes[0]} {
		sessions, err := h.sessions.List(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		waiting := make([]*browser, 25) // four copies each: a fifth wrong try ends a pending login
		for i := range waiting {
			waiting[i] = h.pending()
		}
		var in atomic.Int64
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				r := waiting[i%len(waiting)].copy().verify(code)
				if r.status == http.StatusOK {
					in.Add(1)
				}
			})
		}
		all.Wait()
		after, err := h.sessions.List(t.Context(), 2)
		if err != nil || in.Load() != 1 || len(after) != len(sessions)+1 {
			t.Errorf("%s: %d logins, %d sessions more, %v", name, in.Load(), len(after)-len(sessions), err)
		}
	}
}

func TestPendingLogin_Ends(t *testing.T) {
	for name, kill := range map[string]func(h *fixture, otto *browser){
		"by a new password": func(h *fixture, otto *browser) {
			if err := h.accounts.ResetPassword(h.t.Context(), "otto", "another password"); err != nil {
				h.t.Fatal(err)
			}
		},
		"by the deletion of the user": func(h *fixture, _ *browser) {
			if err := h.remove("otto"); err != nil {
				h.t.Fatal(err)
			}
		},
		"by a reset of the factor": func(h *fixture, _ *browser) {
			if err := h.accounts.SecondFactor.ResetOf(h.t.Context(), "otto"); err != nil {
				h.t.Fatal(err)
			}
		},
		"after five minutes": func(h *fixture, _ *browser) { h.clock.Advance(session.PendingLifetime) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			otto := h.otto()
			a, codes := h.setUp(otto)
			b := h.pending()
			kill(h, otto)
			b.copy().verify(a.code(0)).because(http.StatusUnauthorized, "no_pending_login")
			b.verify(codes[0]).because(http.StatusUnauthorized, "no_pending_login")
		})
	}
	h := newFixture(t)
	a, _ := h.setUp(h.otto())
	b := h.pending()
	cookies := b.copy()
	b.send(http.MethodDelete, prefix+"/2fa/pending", "").want(http.StatusOK)
	b.send(http.MethodDelete, prefix+"/2fa/pending", "").because(http.StatusUnauthorized, "no_pending_login")
	cookies.verify(a.code(0)).because(http.StatusUnauthorized, "no_pending_login")
}

func TestSecondFactor_WrongCodesAreLimitedPerUser(t *testing.T) {
	h := newFixture(t)
	a, _ := h.setUp(h.otto())
	wrong := a.code(5)
	for range 5 {
		h.pending().verify(wrong).because(http.StatusUnauthorized, "invalid_code")
	}
	r := h.pending().verify(a.code(0)).want(http.StatusTooManyRequests)
	if r.header.Get("Retry-After") == "" || r.header.Get("RateLimit-Limit") != "5" {
		t.Errorf("got %v", r.header)
	}
}

func TestSecondFactor_ADevicesClockIsExplainedAtTheSetUp(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	otto.send(http.MethodPost, prefix+"/2fa/enable", object("code", "123456")).because(http.StatusConflict, "no_pending_setup")
	made := read[struct{ Data struct{ Secret string } }](otto.send(http.MethodPost, prefix+"/2fa/setup", "").want(http.StatusOK))
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(made.Data.Secret)
	if err != nil {
		t.Fatal(err)
	}
	a := authenticator{h, secret}
	r := otto.send(http.MethodPost, prefix+"/2fa/enable", object("code", a.code(4))).because(http.StatusBadRequest, "invalid_code")
	if got := read[struct {
		Skew int `json:"clock_skew_seconds"`
	}](r); got.Skew != 120 {
		t.Errorf("got %d", got.Skew)
	}
}

func TestReauth_GivesTheSessionAnotherID(t *testing.T) {
	h := newFixture(t)
	b := h.otto()
	a, _ := h.setUp(b)
	old := b.copy()
	reauth := func(pairs ...any) reply { return b.send(http.MethodPost, prefix+"/reauth", object(pairs...)) }
	reauth("password", "wrong password").because(http.StatusUnauthorized, "wrong_password")
	reauth("password", userPass).because(http.StatusUnauthorized, "invalid_code")
	reauth("password", userPass, "code", a.code(0)).want(http.StatusOK)
	b.get(prefix + "/me").want(http.StatusOK)
	old.get(prefix + "/me").want(http.StatusUnauthorized)
}

func TestReauth_IsAskedOfAdminsWithASecondFactor(t *testing.T) {
	h := newFixture(t)
	anna := h.anna()
	h.clock.Advance(11 * time.Minute)
	create := func(name string) reply {
		return anna.send(http.MethodPost, prefix+"/users", object("username", name, "display_name", name, "password", "long enough"))
	}
	create("paul").want(http.StatusCreated)
	anna.send(http.MethodPost, prefix+"/reauth", object("password", adminPass)).want(http.StatusOK)
	a, _ := h.setUp(anna)
	create("pia").because(http.StatusForbidden, "reauth_required") // the session is of a password alone
	anna.send(http.MethodPost, prefix+"/reauth", object("password", adminPass, "code", a.code(0))).want(http.StatusOK)
	h.clock.Advance(10 * time.Minute)
	create("pia").want(http.StatusCreated)
	h.clock.Advance(time.Second)
	create("piet").because(http.StatusForbidden, "reauth_required")
	anna.send(http.MethodDelete, prefix+"/users/2", "").because(http.StatusForbidden, "reauth_required")
	anna.changePassword(adminPass, "another password").because(http.StatusForbidden, "reauth_required")
}

// TestReauth_IsAskedOnEachRouteThatChangesSomething sends no bodies: the proof is looked for before they are read.
func TestReauth_IsAskedOnEachRouteThatChangesSomething(t *testing.T) {
	exempt := strings.Fields(`
		/login /2fa/verify /2fa/pending /2fa/passkey /2fa/passkey/options /passkeys/login /passkeys/login/options
		/setup /invites/accept /join/passkey /join/passkey/options /forgot-password /reset-password
		/reauth /reauth/passkey /reauth/passkey/options /2fa/disable /2fa/recovery-codes
		/me/profile PATCH/passkeys/{id}
		/logout /logout-others /sessions/{id} /api-tokens/{id} /api-tokens/{id}/remove /grants/{id} /invites/{id}`)
	h := newFixture(t)
	anna := h.anna()
	a, _ := h.setUp(anna)
	anna.send(http.MethodPost, prefix+"/reauth", object("password", adminPass, "code", a.code(0))).want(http.StatusOK)
	h.clock.Advance(10*time.Minute + time.Second)
	asked := 0
	for path, item := range must(document())(t).Paths.Map() {
		below, ours := strings.CutPrefix(path, prefix)
		at := strings.NewReplacer("{id}", "2", "{slug}", "photos").Replace(path)
		for method := range item.Operations() {
			if method == http.MethodGet || !ours || slices.Contains(exempt, below) || slices.Contains(exempt, method+below) {
				continue
			}
			anna.send(method, at, "").because(http.StatusForbidden, "reauth_required")
			asked++
		}
	}
	if asked < 30 {
		t.Errorf("only %d routes were asked", asked)
	}
}

func TestDevices_ASessionIsListedAndEnded(t *testing.T) {
	h := newFixture(t)
	one, two := h.otto(), h.otto()
	type list struct {
		Data []struct {
			ID      string
			Current bool
			Factor  string
			IP      string
		}
	}
	got := read[list](one.get(prefix + "/sessions").want(http.StatusOK))
	if len(got.Data) != 2 || got.Data[0].Factor != "pwd" || got.Data[0].IP == "" {
		t.Fatalf("got %+v", got)
	}
	for _, s := range got.Data {
		if !s.Current {
			one.send(http.MethodDelete, prefix+"/sessions/"+s.ID, "").want(http.StatusOK)
			h.anna().send(http.MethodDelete, prefix+"/sessions/"+s.ID, "").because(http.StatusNotFound, "not_found")
		}
	}
	two.get(prefix + "/me").want(http.StatusUnauthorized)
	three := h.otto()
	if got := read[struct{ Ended int }](one.send(http.MethodPost, prefix+"/logout-others", "").want(http.StatusOK)); got.Ended != 1 {
		t.Errorf("ended %d", got.Ended)
	}
	three.get(prefix + "/me").want(http.StatusUnauthorized)
	current := read[list](one.get(prefix + "/sessions").want(http.StatusOK))
	one.send(http.MethodDelete, prefix+"/sessions/"+current.Data[0].ID, "").want(http.StatusOK)
	one.get(prefix + "/me").want(http.StatusUnauthorized)
}

func TestDuty_ForbidsRemovingTheLastFactorOnly(t *testing.T) {
	h := newFixture(t)
	anna, otto := h.anna(), h.otto()
	a, codes := h.setUp(otto)
	anna.send(http.MethodPut, prefix+"/2fa/require", object("required", true)).want(http.StatusOK)
	disable := func(code string) reply {
		return otto.send(http.MethodPost, prefix+"/2fa/disable", object("code", code))
	}
	disable(a.code(0)).because(http.StatusForbidden, "required")
	overview := read[struct {
		Data     []struct{ Enabled bool }
		Required bool
	}](anna.get(prefix + "/2fa/overview").want(http.StatusOK))
	if !overview.Required || len(overview.Data) != 2 || overview.Data[0].Enabled || !overview.Data[1].Enabled {
		t.Errorf("got %+v", overview)
	}
	anna.send(http.MethodPut, prefix+"/2fa/require", object("required", false)).want(http.StatusOK)
	renewed := read[recovery](otto.send(http.MethodPost, prefix+"/2fa/recovery-codes", object("code", a.code(0))).want(http.StatusOK))
	disable(codes[0]).because(http.StatusBadRequest, "invalid_code")
	disable(renewed.Data.RecoveryCodes[0]).want(http.StatusOK)
	disable("123456").because(http.StatusConflict, "not_enabled")
	otto.send(http.MethodPost, prefix+"/2fa/recovery-codes", object("code", "123456")).because(http.StatusConflict, "not_enabled")
	h.otto()
}

func TestSecondFactor_IsResetByAnAdmin(t *testing.T) {
	h := newFixture(t)
	anna, otto := h.anna(), h.otto()
	h.setUp(otto)
	anna.send(http.MethodDelete, prefix+"/users/2/2fa", "").want(http.StatusOK)
	otto.get(prefix + "/me").want(http.StatusUnauthorized)
	h.otto()
	anna.send(http.MethodDelete, prefix+"/users/1/2fa", "").because(http.StatusBadRequest, "own_account")
	anna.send(http.MethodDelete, prefix+"/users/9/2fa", "").want(http.StatusNotFound)
}

func TestSecondFactor_NoTOTPWithoutAKey(t *testing.T) {
	h := newFixture(t, func(s *settings) { s.dataKey = "" })
	h.otto().send(http.MethodPost, prefix+"/2fa/setup", "").because(http.StatusConflict, "not_configured")
}

func TestSecondFactor_AnUncheckableCodeGetsAWayIn(t *testing.T) {
	h := newFixture(t)
	a, codes := h.setUp(h.otto())
	h.build(settings{secret: secret, name: "svc", attempts: 5, hasher: cheap, dataKey: strings.Repeat("fedcba9876543210", 4)})
	b := h.pending()
	b.verify(a.code(0)).because(http.StatusInternalServerError, "codes_unavailable")
	b.verify(codes[0]).want(http.StatusOK)
}

// guardedFactors are the routes of second factors with their guards.
var guardedFactors = []struct {
	request
	admin, csrf, fresh, limited bool
}{
	{request{http.MethodGet, "/2fa", ""}, false, false, false, false},
	{request{http.MethodPost, "/2fa/setup", ""}, false, true, true, false},
	{request{http.MethodPost, "/2fa/enable", `{}`}, false, true, true, false},
	{request{http.MethodPost, "/2fa/disable", `{}`}, false, true, false, true},
	{request{http.MethodPost, "/2fa/recovery-codes", `{}`}, false, true, false, true},
	{request{http.MethodPut, "/2fa/require", `{}`}, true, true, true, false},
	{request{http.MethodGet, "/2fa/overview", ""}, true, false, false, false},
	{request{http.MethodDelete, "/users/2/2fa", ""}, true, true, true, false},
	{request{http.MethodPost, "/reauth", `{}`}, false, true, false, false},
	{request{http.MethodGet, "/sessions", ""}, false, false, false, false},
	{request{http.MethodDelete, "/sessions/x", ""}, false, true, false, false},
	{request{http.MethodPost, "/logout-others", ""}, false, true, false, false},
}

func TestSecondFactor_RoutesAreGuarded(t *testing.T) {
	for _, route := range guardedFactors {
		t.Run(route.method+" "+route.path, func(t *testing.T) {
			h := newFixture(t)
			anna, otto := h.anna(), h.otto()
			route.send(h.browser()).want(http.StatusUnauthorized)
			if route.admin {
				route.send(otto).want(http.StatusForbidden)
			}
			if route.csrf {
				anna.send(route.method, prefix+route.path, route.body, "X-CSRF-Token", "x").want(http.StatusForbidden)
			}
			if route.body != "" {
				anna.send(route.method, prefix+route.path, `{`).want(http.StatusBadRequest)
			}
			h.clock.Advance(10*time.Minute + time.Second)
			if got := route.send(anna); route.fresh {
				got.because(http.StatusForbidden, "reauth_required")
			} else if got.status == http.StatusForbidden {
				t.Errorf("later: %d %s", got.status, got.body)
			}
			h.brokenSessions.Store(true)
			route.send(anna).want(http.StatusInternalServerError)
		})
	}
}

func TestSecondFactor_WrongCodesOfASessionAreLimited(t *testing.T) {
	for _, path := range []string{"/2fa/disable", "/2fa/recovery-codes", "/2fa/enable", "/reauth"} {
		h := newFixture(t)
		otto := h.otto()
		body := object("password", userPass, "code", "000000")
		if path == "/2fa/enable" {
			otto.send(http.MethodPost, prefix+"/2fa/setup", "").want(http.StatusOK)
		} else {
			h.setUp(otto)
			otto.send(http.MethodPost, prefix+"/2fa/setup", "")
		}
		for range 5 {
			otto.send(http.MethodPost, prefix+path, body)
		}
		otto.send(http.MethodPost, prefix+path, body).want(http.StatusTooManyRequests)
	}
}

func TestSecondFactor_FailsWithItsStores(t *testing.T) {
	h := newFixture(t)
	a, _ := h.setUp(h.otto())
	b := h.pending()
	b.send(http.MethodPost, prefix+"/2fa/verify", `{`).want(http.StatusBadRequest)
	h.brokenUsers.Store(true)
	b.verify(a.code(0)).want(http.StatusInternalServerError)
	h.brokenUsers.Store(false)
	b.verify(a.code(0)).want(http.StatusOK)
	cancelled := h.pending()
	h.clock.Redis.SetError("down")
	cancelled.send(http.MethodDelete, prefix+"/2fa/pending", "").want(http.StatusInternalServerError)
	h.clock.Redis.SetError("")
}
