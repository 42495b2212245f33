package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/factor/passkeytest"
)

// work does what requests left to do beside their answers, and returns the audit: the counts
// by event.
func (h *fixture) work() map[string]int64 {
	h.t.Helper()
	h.audit.Drain()
	entries, err := h.database.Audit.Entries(h.t.Context(), audit.Query{Limit: 1000})
	if err != nil {
		h.t.Fatal(err)
	}
	counts := map[string]int64{}
	for _, e := range entries {
		counts[e.Event.Name] += e.Count
	}
	return counts
}

// notices are the events that a user is told about, newest first.
func (h *fixture) notices(userID int64) []string {
	h.t.Helper()
	h.audit.Drain()
	entries, err := h.audit.Notices(h.t.Context(), userID)
	if err != nil {
		h.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Event.Name)
	}
	return names
}

func TestSecondFactor_CodeOfTheSetUpDoesNotLogIn(t *testing.T) {
	h := newFixture(t)
	a, _ := h.setUp(h.otto())
	code := a.code(-1) // setUp used it up; then half a minute passed
	h.pending().verify(code).because(http.StatusUnauthorized, "invalid_code")
	h.pending().verify(code[:3]+" "+code[3:]).because(http.StatusUnauthorized, "invalid_code")
	h.pending().verify(a.code(0)).want(http.StatusOK)
}

func TestSecondFactor_ACodeStaysUsedWhenTheClockIsSetBack(t *testing.T) {
	h := newFixture(t)
	a, _ := h.setUp(h.otto())
	h.pending().verify(a.code(0)).want(http.StatusOK)
	h.clock.SetBack(time.Hour)
	for later := range int64(3) {
		h.pending().verify(a.code(later-1)).because(http.StatusUnauthorized, "invalid_code")
	}
}

func TestRecoveryCode_IsOfItsUser(t *testing.T) {
	h := newFixture(t)
	h.setUp(h.otto())
	_, annas := h.setUp(h.anna())
	h.pending().verify(annas[0]).because(http.StatusUnauthorized, "invalid_code")
	anna := h.browser()
	anna.login("anna", adminPass).want(http.StatusOK)
	anna.verify(annas[0]).want(http.StatusOK)
}

// TestPendingLogin_IsAnonymousOnEveryRoute compares each route's answer to a request with the
// cookie of a pending login in the place of a session's with the answer to one without any.
func TestPendingLogin_IsAnonymousOnEveryRoute(t *testing.T) {
	h := newFixture(t)
	h.setUp(h.otto())
	cookie := h.pending().cookies["svc.2fa"]
	routes := h.handler.(*echo.Echo).Routes()
	if len(routes) < 30 {
		t.Fatalf("%d routes", len(routes))
	}
	for _, route := range routes {
		ask := func(cookies string) reply {
			b := h.fastBrowser()
			h.addresses++
			b.addr = fmt.Sprintf("[2001:db8:%x::1]:1234", h.addresses)
			return b.send(route.Method, strings.ReplaceAll(route.Path, ":id", "2"), "", "Cookie", cookies, "X-CSRF-Token", "x", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")
		}
		anonymous, pending := ask(""), ask("svc.sid="+cookie+"; svc.app="+cookie)
		if anonymous.status != pending.status || string(anonymous.body) != string(pending.body) && route.Path != prefix+"/passkeys/login/options" {
			t.Errorf("%s %s: anonymous %d %s, pending %d %s", route.Method, route.Path, anonymous.status, anonymous.body, pending.status, pending.body)
		}
	}
}

func TestReauth_Of100AtOnceOneReplacesTheSession(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	d := passkeytest.New(t, origin)
	otto.register(d)
	a, _ := h.setUp(otto)
	for name, prepare := range map[string]func() (path, body string){
		"password and code": func() (string, string) { return "/reauth", object("password", userPass, "code", a.code(0)) },
		"passkey": func() (string, string) {
			h.clock.Advance(time.Minute)
			return "/reauth/passkey", credential(d.Get(otto.begin("/reauth/passkey/options")), "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, body := prepare()
			tabs := make([]*browser, 100)
			for i := range tabs {
				tabs[i] = otto.copy()
				tabs[i].unchecked = true
			}
			var replaced atomic.Pointer[browser]
			var n atomic.Int64
			var all sync.WaitGroup
			for _, tab := range tabs {
				all.Go(func() {
					if tab.send(http.MethodPost, prefix+path, body).status == http.StatusOK {
						n.Add(1)
						replaced.Store(tab)
					}
				})
			}
			all.Wait()
			if n.Load() != 1 {
				t.Fatalf("%d confirmations", n.Load())
			}
			otto.get(prefix + "/me").want(http.StatusUnauthorized)
			otto.cookies = replaced.Load().cookies
			otto.get(prefix + "/me").want(http.StatusOK)
		})
	}
}

// TestPasskey_Of100AnswersAtOnceOneIsTheSecondStep sends one answer many times: one
// of four logs in, and of more at most one, because the fifth wrong try ends the pending
// login, perhaps before the right one is done.
func TestPasskey_Of100AnswersAtOnceOneIsTheSecondStep(t *testing.T) {
	for _, copies := range []int{4, 100} {
		h := newFixture(t)
		otto := h.otto()
		d := passkeytest.New(t, origin)
		otto.register(d)
		otto.send(http.MethodPost, prefix+"/2fa/enable", object("passkey", true)).want(http.StatusOK)
		b := h.fastBrowser()
		b.login("otto", userPass).want(http.StatusOK)
		body := credential(d.Get(b.begin("/2fa/passkey/options")), "")
		before, err := h.sessions.List(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		var in atomic.Int64
		var all sync.WaitGroup
		for i := range copies {
			tab := b.copy()
			tab.addr = fmt.Sprintf("198.51.100.%d:1234", i)
			all.Go(func() {
				if tab.send(http.MethodPost, prefix+"/2fa/passkey", body).status == http.StatusOK {
					in.Add(1)
				}
			})
		}
		all.Wait()
		after, err := h.sessions.List(t.Context(), 2)
		logins := in.Load()
		if err != nil || logins > 1 || copies == 4 && logins == 0 || len(after) != len(before)+int(logins) {
			t.Errorf("%d copies: %d logins, %d sessions more, %v", copies, logins, len(after)-len(before), err)
		}
	}
}

func TestSecondFactor_ACodeFailsUpTo20TimesADay(t *testing.T) {
	h := newFixture(t)
	a, codes := h.setUp(h.otto())
	wrong := func() string { return a.code(50) }
	for i := range 20 {
		if i%5 == 0 {
			h.clock.Advance(time.Minute)
		}
		h.pending().verify(wrong()).because(http.StatusUnauthorized, "invalid_code")
		told := h.notices(2)
		if known := len(told) > 0 && told[0] == "second_factor_guessed"; known != (i >= 9) {
			t.Errorf("after %d wrong codes the user is told %v", i+1, told)
		}
	}
	h.clock.Advance(time.Minute)
	refused := h.pending().verify(a.code(0)).want(http.StatusTooManyRequests)
	if refused.header.Get("RateLimit-Limit") != "20" {
		t.Errorf("got %v", refused.header)
	}
	if got := h.work(); got["second_factor_failed"] != 20 || got["second_factor_guessed"] != 11 {
		t.Errorf("recorded %v", got)
	}
	if told := h.notices(2); len(told) != 2 { // second_factor_on is one, too
		t.Errorf("the user is told %v", told)
	}
	h.pending().verify(codes[0]).want(http.StatusOK) // a recovery code counts for itself
	h.clock.Advance(24 * time.Hour)
	h.pending().verify(a.code(0)).want(http.StatusOK)
}

// TestSecondFactor_RightCodesHideNoTenthWrongOne has right codes count, and be refunded, meanwhile.
func TestSecondFactor_RightCodesHideNoTenthWrongOne(t *testing.T) {
	h := newFixture(t)
	a, _ := h.setUp(h.otto())
	for range 10 {
		h.clock.Advance(time.Minute)
		h.pending().verify(a.code(50)).because(http.StatusUnauthorized, "invalid_code")
		h.pending().verify(a.code(0)).want(http.StatusOK)
	}
	if got := h.work(); got["second_factor_guessed"] != 1 {
		t.Errorf("recorded %v", got)
	}
}

func TestSecondFactor_OnlyAProvenBrowserCountsForItself(t *testing.T) {
	h := newFixture(t)
	stranger := h.browser() // knows the password before there is a second factor
	stranger.cookies["svc.dev"] = strings.Repeat("A", 43)
	stranger.login("otto", userPass).want(http.StatusOK)
	h.audit.Drain()
	a, _ := h.setUp(h.otto())
	_, annas := h.setUp(h.anna())

	phone := h.pending()
	phone.verify(a.code(0)).want(http.StatusOK)
	h.clock.Advance(time.Minute)
	neighbour := h.browser() // proved another user's factor
	neighbour.login("anna", adminPass).want(http.StatusOK)
	neighbour.verify(annas[0]).want(http.StatusOK)
	h.audit.Drain()

	again := func(b *browser) *browser {
		b.login("otto", userPass).want(http.StatusOK)
		return b
	}
	for range 5 {
		again(stranger).verify(a.code(50)).because(http.StatusUnauthorized, "invalid_code")
	}
	again(stranger).verify(a.code(50)).want(http.StatusTooManyRequests)
	again(neighbour).verify(a.code(0)).want(http.StatusTooManyRequests)
	h.pending().verify(a.code(0)).want(http.StatusTooManyRequests)
	again(phone).verify(a.code(0)).want(http.StatusOK)
}

func TestLogin_FromAnUnknownBrowserIsANotice(t *testing.T) {
	h := newFixture(t)
	d := passkeytest.New(t, origin)
	phone := h.otto()
	phone.register(d)
	h.work()
	if told := h.notices(2); len(told) != 1 || told[0] != "passkey_added" {
		t.Errorf("after the first login the user is told %v", told)
	}
	h.otto() // the same browser and system, without a cookie
	if got := h.work(); got["device_new"] != 0 {
		t.Errorf("recorded %v", got)
	}
	laptop := h.browser()
	laptop.passkeyLogin(d).want(http.StatusOK)
	if got := h.work(); got["device_new"] != 1 || h.notices(2)[0] != "device_new" {
		t.Errorf("recorded %v", got)
	}
	laptop.logout().want(http.StatusOK)
	laptop.passkeyLogin(d).want(http.StatusOK)
	if got := h.work(); got["device_new"] != 1 {
		t.Errorf("recorded %v", got)
	}
	h.browser().send(http.MethodPost, prefix+"/login", object("username", "otto", "password", userPass), "User-Agent", "Mozilla/5.0 (Windows NT 10.0) Firefox/140.0").want(http.StatusOK)
	if got := h.work(); got["device_new"] != 2 {
		t.Errorf("recorded %v", got)
	}
}

func TestAudit_HasEveryWayToLogInAndOut(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	d := passkeytest.New(t, origin)
	otto.register(d)
	otto.changePassword("wrong password", newPass).want(http.StatusUnauthorized)
	otto.send(http.MethodPost, prefix+"/reauth", object("password", "wrong password")).because(http.StatusUnauthorized, "wrong_password")
	otto.send(http.MethodPost, prefix+"/reauth", object("password", userPass)).want(http.StatusOK)
	a, codes := h.setUp(otto)
	for _, code := range []string{a.code(0), codes[0]} {
		second := h.browser()
		second.login("otto", userPass).want(http.StatusOK)
		second.verify(code).want(http.StatusOK)
	}
	b := h.browser()
	b.passkeyLogin(d).want(http.StatusOK)
	b.logout().want(http.StatusOK)
	otto.logout().want(http.StatusOK)
	h.browser().login("otto", "wrong password").want(http.StatusUnauthorized)
	got := h.work()
	for event, n := range map[string]int64{
		"login": 4, "logout": 2, "login_failed": 1, "recovery_used": 1, "reauth": 1, "reauth_failed": 1, "password_change_failed": 1, "second_factor_on": 1, "passkey_added": 1,
	} {
		if got[event] != n {
			t.Errorf("%s: recorded %d times, want %d", event, got[event], n)
		}
	}
}

// TestAudit_ARepeatedActFillsNoDisk counts the rows of what a member can do as often as they like.
func TestAudit_ARepeatedActFillsNoDisk(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	otto.unchecked = true
	for i := range 50 {
		otto.login("otto", userPass).want(http.StatusOK)
		otto.send(http.MethodPatch, prefix+"/me/profile", object("display_name", fmt.Sprint("Otto ", i))).want(http.StatusOK)
		otto.send(http.MethodPost, prefix+"/reauth", object("password", userPass)).want(http.StatusOK)
		otto.send(http.MethodPost, prefix+"/logout-others", "").want(http.StatusOK)
		h.audit.Drain()
	}
	rows := 0
	if err := h.db.Reader.QueryRowContext(t.Context(), `SELECT count(*) FROM audit`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if got := h.work(); got["profile_changed"] != 50 || got["login"] != 51 || got["reauth"] != 50 || got["sessions_ended"] != 50 || rows > 8 {
		t.Errorf("%d rows for %v", rows, got)
	}
}

func TestPendingLogin_IsNoSuccess(t *testing.T) {
	h := newFixture(t)
	h.setUp(h.otto())
	h.pending()
	families, err := h.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() == "auth_logins_total" {
			for _, m := range family.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	if got["success"] != 1 || got["second_factor"] != 1 {
		t.Errorf("got %v", got)
	}
}

// TestPasskey_IsNoMethodWhereItIsOff keeps the passkeys of before, when they were on.
func TestPasskey_IsNoMethodWhereItIsOff(t *testing.T) {
	h := newFixture(t, func(s *settings) { s.noPasskeys = true })
	h.setUp(h.otto())
	otto, err := h.database.Users.ByID(t.Context(), 2)
	if err == nil {
		_, err = h.database.Passkeys.AddPasskey(t.Context(), 2, "key", factor.Credential{CredentialID: []byte("a"), RPID: "home.example.org", Record: "{}"}, otto.SessionStamp, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	h.pending() // which expects two methods
}

func TestResetLink_GivesNoSessionAndNoFreshness(t *testing.T) {
	h := newFixture(t)
	a, _ := h.setUp(h.otto())
	b := h.elsewhere()
	b.send(http.MethodPost, prefix+"/reset-password", object("token", h.resetLink(), "password", newPass)).want(http.StatusOK)
	if len(b.cookies) != 0 {
		t.Errorf("got the cookies %v", b.cookies)
	}
	b.login("otto", newPass).want(http.StatusOK)
	b.get(prefix + "/me").want(http.StatusUnauthorized)
	b.verify(a.code(0)).want(http.StatusOK)
}

func TestSecondFactor_SealOutlivesAChangeOfTheKey(t *testing.T) {
	h := newFixture(t)
	a, _ := h.setUp(h.otto())
	old := strings.Repeat("0123456789abcdef", 4)
	next := strings.Repeat("fedcba9876543210", 4)
	reseal := func(key, previous string) {
		t.Helper()
		h.build(settings{secret: secret, name: "svc", attempts: 5, hasher: cheap, dataKey: key, dataKeyPrevious: previous})
		if err := h.accounts.SecondFactor.Reseal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sealed := func() string {
		state, err := h.database.Factors.Factors(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		return string(state.Sealed)
	}
	before := sealed()
	reseal(old, "")
	if sealed() != before {
		t.Error("sealed again with the same key")
	}
	reseal(next, old)
	if sealed() == before {
		t.Fatal("still sealed with the previous key")
	}
	h.pending().verify(a.code(0)).want(http.StatusOK)
	reseal(next, "")
	h.clock.Advance(time.Minute)
	h.pending().verify(a.code(0)).want(http.StatusOK)

	kept := sealed()
	reseal(old, "") // a key that opens nothing: nothing is lost, and nobody gets in by a code
	h.clock.Advance(time.Minute)
	h.pending().verify(a.code(0)).because(http.StatusInternalServerError, "codes_unavailable")
	if sealed() != kept || !strings.Contains(h.log.String(), "TOTP secret cannot be opened") {
		t.Error("the secret is another, or nothing is logged")
	}
	h.build(settings{secret: secret, name: "svc", attempts: 5, hasher: cheap})
	if err := h.accounts.SecondFactor.Reseal(t.Context()); err != nil || !strings.Contains(h.log.String(), "DATA_KEY is not set: users with TOTP") {
		t.Errorf("without a key: %v", err)
	}
	var methods struct{ Methods []string }
	h.browser().login("otto", userPass).want(http.StatusOK).into(&methods)
	if fmt.Sprint(methods.Methods) != "[recovery]" {
		t.Errorf("got %v", methods)
	}
}

// TestReauth_AnswersHaveTheStateOfTheLimit reads Remaining of right and wrong ones.
func TestReauth_AnswersHaveTheStateOfTheLimit(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	a, codes := h.setUp(otto)
	remaining := func(r reply, limit, remaining string) {
		t.Helper()
		if r.header.Get("RateLimit-Limit") != limit || r.header.Get("RateLimit-Remaining") != remaining || (r.header.Get("RateLimit-Reset") == "") != (limit == "") {
			t.Errorf("%s: %d %v", r.what, r.status, r.header)
		}
	}
	b := h.pending()
	remaining(b.verify(a.code(50)).answers(http.StatusUnauthorized), "5", "4")
	remaining(b.verify(strings.ToLower(codes[0][1:])).answers(http.StatusUnauthorized), "5", "4") // recovery codes count for themselves
	remaining(b.verify(a.code(0)).answers(http.StatusOK), "5", "4")
	remaining(b.verify(a.code(0)).answers(http.StatusUnauthorized), "", "")
	post := func(path string, pairs ...any) reply {
		return otto.send(http.MethodPost, prefix+path, object(pairs...))
	}
	remaining(post("/reauth", "password", "wrong password").answers(http.StatusUnauthorized), "5", "4")
	remaining(post("/reauth", "password", userPass, "code", a.code(50)).answers(http.StatusUnauthorized), "5", "3")
	remaining(post("/2fa/recovery-codes", "code", a.code(50)).answers(http.StatusBadRequest), "5", "3")
	remaining(post("/2fa/disable", "code", a.code(50)).answers(http.StatusBadRequest), "5", "2")
	remaining(post("/reauth", "password", userPass, "code", codes[1]).answers(http.StatusOK), "5", "3")
}

// answers checks the status alone.
func (r reply) answers(status int) reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%s: got %d %s, want %d", r.what, r.status, r.body, status)
	}
	return r
}

// TestSecondFactor_MistakesInASetUpAreNoGuesses: the notice says that somebody knows the password and
// guesses codes, and there is no code yet that anybody could guess.
func TestSecondFactor_MistakesInASetUpAreNoGuesses(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	otto.send(http.MethodPost, prefix+"/2fa/setup", "").want(http.StatusOK)
	for i := range 10 {
		if i == 5 {
			h.clock.Advance(time.Minute)
		}
		otto.send(http.MethodPost, prefix+"/2fa/enable", object("code", "000000")).because(http.StatusBadRequest, "invalid_code")
	}
	if got := h.notices(2); len(got) > 0 {
		t.Errorf("notices %v", got)
	}
}

func TestReauth_AProofOfTheFutureDoesNotCount(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	d := passkeytest.New(t, origin)
	otto.register(d)
	must(h.database.Factors.EnableByPasskey(t.Context(), h.ofOtto(), nil))(t)
	otto.login("otto", userPass).want(http.StatusOK)
	otto.send(http.MethodPost, prefix+"/2fa/passkey", credential(d.Get(otto.begin("/2fa/passkey/options")), "")).want(http.StatusOK)
	h.clock.SetBack(time.Minute) // as much as the clocks of two replicas may differ
	otto.begin("/passkeys/options")
	h.clock.SetBack(time.Second)
	otto.send(http.MethodPost, prefix+"/passkeys/options", "").because(http.StatusForbidden, "reauth_required")
	otto.send(http.MethodPost, prefix+"/2fa/disable", `{}`).because(http.StatusBadRequest, "invalid_code")
	otto.send(http.MethodPost, prefix+"/reauth/passkey", credential(d.Get(otto.begin("/reauth/passkey/options")), "")).want(http.StatusOK)
	otto.send(http.MethodPost, prefix+"/2fa/disable", `{}`).want(http.StatusOK)
}
