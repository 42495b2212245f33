package httpapi_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/token"
)

// The guard for the applications of the household.

func (h *fixture) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// withApplications is a fixture behind a proxy with pages, the group kids, and an application for
// each rule, named after it, and others.
func withApplications(t *testing.T, change ...func(*settings)) *fixture {
	t.Helper()
	h := newFixture(t, append([]func(*settings){func(s *settings) {
		s.publicURL, s.proxies, s.pages = "https://home.example", []string{"192.0.2.0/24"}, true
	}}, change...)...)
	h.ok(h.policy.CreateGroup(t.Context(), session.Session{}, "kids", ""))
	for _, n := range []policy.NewApplication{
		{Slug: "login", URL: "/login/", Tokens: true},
		{Slug: "admin", URL: "/admin/", Rule: "admin", Tokens: true},
		{Slug: "group", URL: "/group/", Rule: "group", Group: "kids", Tokens: true},
		{Slug: "closed", URL: "/closed/"},
		{Slug: "strict", URL: "/strict/", SecondFactor: true},
		{Slug: "photos", URL: "https://photos.example.org", Tokens: true},
	} {
		h.ok(h.policy.CreateApplication(t.Context(), session.Session{}, n))
	}
	return h
}

// visit is a script's request to an application on the portal's host.
func (b *browser) visit(app string, headers ...string) reply {
	b.h.t.Helper()
	headers = append([]string{
		"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/x?y=1", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "home.example", "X-Forwarded-For", "203.0.113.7",
		"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Site", "same-origin", "Content-Type", "",
	}, headers...)
	return b.send(http.MethodGet, "/internal/forward-auth?app="+app, "", headers...)
}

// open is visit for somebody who opens a page.
func (b *browser) open(app string, headers ...string) reply {
	b.h.t.Helper()
	return b.visit(app, append([]string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "none"}, headers...)...)
}

// device is visit for a program with an app token in its header, or without for "".
func (b *browser) device(app, text string, headers ...string) reply {
	b.h.t.Helper()
	return b.visit(app, append([]string{"Sec-Fetch-Mode", "", "Sec-Fetch-Dest", "", "Sec-Fetch-Site", "", "X-Pforte-Token", text}, headers...)...)
}

// page checks the page of a refusal.
func (r reply) page(status int, text string) {
	r.t.Helper()
	if r.status != status || string(r.body) != text || !strings.HasPrefix(r.header.Get("Content-Type"), "text/html") {
		r.t.Errorf("%s: got %d %s %s, want %d %s", r.what, r.status, r.header.Get("Content-Type"), r.body, status, text)
	}
}

// leads checks a redirect.
func (r reply) leads(to string) {
	r.t.Helper()
	if got := r.want(http.StatusSeeOther).header.Get("Location"); got != to {
		r.t.Errorf("%s: leads to %s, want %s", r.what, got, to)
	}
}

// tokenFor creates an app token of otto's.
func (h *fixture) tokenFor(slugs ...string) (token.Token, string) {
	h.t.Helper()
	t, text, err := h.policy.CreateToken(h.t.Context(), h.ofOtto(), policy.NewToken{UserID: 2, Name: "Kalender", Applications: slugs})
	h.ok(err)
	return t, text
}

func TestGuard_OpensAnApplicationByItsRule(t *testing.T) {
	h := withApplications(t)
	anna, otto := h.anna(), h.otto()
	for app, want := range map[string][2]int{
		"login": {200, 200}, "admin": {200, 403}, "group": {403, 403}, "closed": {200, 200},
	} {
		for i, b := range []*browser{anna, otto} {
			if got := b.visit(app); got.status != want[i] {
				t.Errorf("%s for %d: %d %s", app, i, got.status, got.body)
			} else if got.status == http.StatusForbidden {
				got.because(http.StatusForbidden, "app_denied")
				b.open(app).page(http.StatusForbidden, "app_denied "+app)
			}
		}
	}
	h.ok(h.policy.SetMember(t.Context(), "kids", "otto", true))
	otto.visit("group").want(http.StatusOK)
}

func TestGuard_PassesTheWholeIdentity(t *testing.T) {
	h := withApplications(t)
	h.ok(h.policy.SetMember(t.Context(), "kids", "otto", true))
	b := h.otto()
	b.send(http.MethodPatch, prefix+"/me/profile", object("display_name", "Ötto 100%")).want(http.StatusOK)
	got := b.visit("login", "X-Auth-User-Id", "1", "X-Auth-Role", "admin", "X-Auth-Groups", "admin").want(http.StatusOK)
	for name, want := range map[string]string{
		"X-Auth-User-Id": "2", "X-Auth-Username": "otto", "X-Auth-Role": "member", "X-Auth-Name": "%C3%96tto 100%25", "X-Auth-Groups": "member,kids",
	} {
		if values := got.header.Values(name); len(values) != 1 || values[0] != want {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
	}
	if got.header.Get("X-Auth-Consumed") != "" || got.header.Get("Set-Cookie") != "" {
		t.Errorf("got %v", got.header)
	}
	for name := range h.anna().visit("group").header {
		if strings.HasPrefix(name, "X-Auth-") {
			t.Errorf("a refusal carries %s", name)
		}
	}
}

func TestGuard_LeadsToTheLoginAndBack(t *testing.T) {
	h := withApplications(t)
	b := h.browser()
	for uri, back := range map[string]string{
		"/login/album?x=1&y=a%20b": "%2Flogin%2Falbum%3Fx%3D1%26y%3Da%2520b",
		"/login/":                  "%2Flogin%2F",
		"//evil.example/x":         "%2Flogin%2F",
		"/login/..%2f..%2fapi":     "%2Flogin%2F",
		"/pforte/logout":           "%2Flogin%2F",
	} {
		b.open("login", "X-Forwarded-Uri", uri).leads("/pforte/login?return=" + back)
	}
	b.visit("login").because(http.StatusUnauthorized, "not_logged_in")
	b.open("login", "X-Forwarded-Method", "POST", "X-Auth-Renew", "no").because(http.StatusUnauthorized, "not_logged_in")
	b.open("login", "Sec-Fetch-Mode", "websocket", "Upgrade", "websocket").because(http.StatusUnauthorized, "not_logged_in")
	// A request that lasts is ended by a 401; its answer reaches no browser.
	b.open("login", "X-Auth-Renew", "no").because(http.StatusUnauthorized, "not_logged_in")
}

// TestGuard_AnswersAFormWithAPage is about people whose session ended while they wrote; what the page says is tested
// where it is made.
func TestGuard_AnswersAFormWithAPage(t *testing.T) {
	h := withApplications(t)
	b, otto := h.browser(), h.otto()
	send := func(b *browser, app string, headers ...string) reply {
		return b.open(app, append([]string{"X-Forwarded-Method", "POST", "Sec-Fetch-Site", "same-origin"}, headers...)...)
	}
	for _, got := range []reply{
		send(b, "login"), send(b, "login&login=401"),
		b.device("login", "", "X-Forwarded-Method", "POST", "Accept", "text/html,*/*;q=0.8", "Content-Type", "application/x-www-form-urlencoded"),
	} {
		if got.page(http.StatusUnauthorized, "not_logged_in login"); got.header.Get("Location") != "" || len(got.header["Set-Cookie"]) != 0 || len(got.header["Www-Authenticate"]) != 0 {
			t.Errorf("%s: %v", got.what, got.header)
		}
	}
	send(b, "photos", "X-Forwarded-Host", "photos.example.org").page(http.StatusUnauthorized, "not_logged_in photos")
	send(otto, "group").page(http.StatusForbidden, "app_denied group")
	send(otto, "strict").page(http.StatusForbidden, "second_factor_needed strict")
	send(otto, "nothing").page(http.StatusForbidden, "unknown_app ")
	send(otto, "login", "Sec-Fetch-Site", "same-site").page(http.StatusForbidden, "foreign_page login")
	send(otto, "login").want(http.StatusOK)
	for _, method := range []string{"PUT", "PATCH", "DELETE", "OPTIONS", "post", "PROPFIND"} {
		send(b, "login", "X-Forwarded-Method", method).because(http.StatusUnauthorized, "not_logged_in")
	}
	b.visit("login", "X-Forwarded-Method", "POST", "Accept", "text/html").because(http.StatusUnauthorized, "not_logged_in")
}

func TestGuard_WithoutPagesAnswersPeopleAsPrograms(t *testing.T) {
	h := withApplications(t, func(s *settings) { s.pages = false })
	h.browser().open("login").because(http.StatusUnauthorized, "not_logged_in")
	h.browser().open("login", "X-Forwarded-Method", "POST").because(http.StatusUnauthorized, "not_logged_in")
	otto := h.otto()
	otto.open("admin").because(http.StatusForbidden, "app_denied")
	otto.open("strict").because(http.StatusForbidden, "second_factor_needed")
	otto.open("nothing").because(http.StatusForbidden, "unknown_app")
}

// TestGuard_AQuestionIsWhole asks as somebody whom the login alone would admit.
func TestGuard_AQuestionIsWhole(t *testing.T) {
	h := withApplications(t)
	b := h.anna()
	for _, headers := range [][]string{
		{"X-Forwarded-Method", ""}, {"X-Forwarded-Uri", ""}, {"X-Forwarded-Host", ""}, {"X-Forwarded-Uri", "login/"}, {"X-Forwarded-Uri", "https://home.example/"},
	} {
		b.visit("login", headers...).want(http.StatusBadRequest)
	}
	for _, query := range []string{"login&role=admin", "login&role=member", "login&app=login", "login&x=1", "login;x", "%zz", "login&%zz"} {
		b.visit(query).want(http.StatusBadRequest)
	}
	for _, slug := range []string{"", "Login", "LOGIN", "login%20", "%20login", "login%00", "login/", "nothing", "%6Cogin%0A"} {
		b.visit(slug).because(http.StatusForbidden, "unknown_app")
	}
	b.visit("%6Cogin").want(http.StatusOK) // another spelling of the same query
	r := b.visit("login").to.Clone(t.Context())
	r.Header["X-Forwarded-Host"] = []string{"home.example", "evil.example"}
	b.do(r).want(http.StatusBadRequest)
	b.addr = "198.51.100.1:1234" // which is no trusted proxy
	for range 3 {
		b.visit("login").want(http.StatusBadRequest)
	}
	if n := strings.Count(h.log.String(), "TRUSTED_PROXIES"); n != 1 {
		t.Errorf("the operator is told %d times", n)
	}
}

func TestGuard_AnApplicationIsAtItsHostOnly(t *testing.T) {
	h := withApplications(t)
	b := h.anna()
	for host, known := range map[string]bool{
		"home.example": true, "HOME.example.": true, "home.example:443": true, "home.example:8443": false, "photos.example.org": false,
		"home.example.evil.example": false, "home.example@evil.example": false, "home.example, evil.example": false, "[::1]": false,
	} {
		got := b.visit("login", "X-Forwarded-Host", host)
		if known && got.status != http.StatusOK || !known && got.because(http.StatusForbidden, "unknown_app").status == http.StatusOK {
			t.Errorf("%s: %d %s", host, got.status, got.body)
		}
	}
	b.visit("photos").because(http.StatusForbidden, "unknown_app")
	b.open("photos").page(http.StatusForbidden, "unknown_app ")
	// The portal's session is none of another host.
	b.visit("photos", "X-Forwarded-Host", "photos.example.org").because(http.StatusUnauthorized, "not_logged_in")
}

func TestGuard_AnUnknownApplicationIsRecordedOnceAnHour(t *testing.T) {
	h := withApplications(t)
	b := h.anna()
	b.visit("login").want(http.StatusOK)
	reads, commands := h.policyReads.Load(), h.clock.Redis.CommandCount()
	for range 100 {
		b.visit("nothing").because(http.StatusForbidden, "unknown_app")
		b.visit("photos", "X-Forwarded-Host", "evil.example").because(http.StatusForbidden, "unknown_app")
	}
	if reads, commands := h.policyReads.Load()-reads, h.clock.Redis.CommandCount()-commands; reads != 0 || commands != 0 {
		t.Errorf("%d reads of SQL, %d commands to Redis", reads, commands)
	}
	for range 100 { // whoever reaches the guard itself fills neither memory nor the disk
		b.visit(strings.ToLower(token.New()[4:20])).because(http.StatusForbidden, "unknown_app")
	}
	if n := h.work()["unknown_app"]; n < 3 || n > 32 {
		t.Errorf("%d records", n)
	}
	entries, err := h.database.Audit.Entries(t.Context(), audit.Query{Limit: 1000, Event: "unknown_app"})
	h.ok(err)
	for _, e := range entries {
		if e.Count != 1 || e.IP != "203.0.113.7" || e.Kind != audit.Anonymous || e.Detail["host"] == "" {
			t.Errorf("got %+v", e)
		}
	}
	h.clock.Advance(time.Hour)
	before := len(entries)
	b.visit("nothing").because(http.StatusForbidden, "unknown_app")
	if n := h.work()["unknown_app"]; n != int64(before)+1 {
		t.Errorf("an hour later: %d records, before %d", n, before)
	}
}

func TestGuard_Of100ToAnUnknownApplicationOneIsRecorded(t *testing.T) {
	h := withApplications(t)
	h.atOnce(100, func(b *browser) { b.visit("nothing") })
	if n := h.work()["unknown_app"]; n != 1 {
		t.Errorf("%d records", n)
	}
	if n := h.policyReads.Load(); n != 1 {
		t.Errorf("%d reads of the applications", n)
	}
}

// atOnce has browsers do something at once.
func (h *fixture) atOnce(n int, do func(*browser)) {
	var wait sync.WaitGroup
	for range n {
		wait.Go(func() { do(h.fastBrowser()) })
	}
	wait.Wait()
}

func TestGuard_AChangeHoldsAtOnceHereThereInASecond(t *testing.T) {
	h := withApplications(t)
	otto := h.otto()
	otto.visit("login").want(http.StatusOK)
	admin, login := string(application.Admin), string(application.Login)
	h.ok(h.policy.ChangeApplication(t.Context(), session.Session{}, "login", policy.ApplicationChange{Rule: &admin}))
	otto.visit("login").because(http.StatusForbidden, "app_denied")
	h.ok(h.policy.ChangeApplication(t.Context(), session.Session{}, "login", policy.ApplicationChange{Rule: &login}))
	otto.visit("login").want(http.StatusOK)

	// Another replica, or a command.
	h.ok(h.database.Applications.RemoveApplication(t.Context(), "login", session.Session{}))
	h.clock.Advance(time.Second - 1)
	otto.visit("login").want(http.StatusOK)
	h.clock.Advance(1)
	otto.visit("login").because(http.StatusForbidden, "unknown_app")
}

func TestGuard_FailsClosed(t *testing.T) {
	h := withApplications(t)
	otto := h.otto()
	_, text := h.tokenFor("login")
	h.brokenPolicy.Store(true)
	otto.visit("login").want(http.StatusInternalServerError)   // the applications were never read
	otto.visit("nothing").want(http.StatusInternalServerError) // so whether it is one is not known
	h.brokenPolicy.Store(false)
	otto.visit("login").want(http.StatusOK)
	h.brokenPolicy.Store(true)
	otto.visit("login").want(http.StatusInternalServerError)
	otto.device("login", text).want(http.StatusInternalServerError)
	h.clock.Advance(time.Second)
	h.browser().open("login").want(http.StatusInternalServerError)
	h.brokenPolicy.Store(false)
	h.brokenSessions.Store(true)
	otto.open("login").want(http.StatusInternalServerError)
	otto.device("login", text).want(http.StatusOK) // a token is in SQL
	h.brokenLimits.Store(true)
	otto.device("login", token.New()).want(http.StatusInternalServerError)
	h.brokenSessions.Store(false)
	otto.visit("login").want(http.StatusOK)
}

func TestGuard_ARevocationHoldsWithTheNextRequest(t *testing.T) {
	for what, do := range map[string]func(h *fixture, b *browser) error{
		"deletion":          func(h *fixture, _ *browser) error { return h.remove("otto") },
		"leaving the group": func(h *fixture, _ *browser) error { return h.policy.SetMember(t.Context(), "kids", "otto", false) },
		"a new password":    func(h *fixture, _ *browser) error { return h.accounts.ResetPassword(t.Context(), "otto", newPass) },
		"disabling": func(h *fixture, _ *browser) error {
			return h.people.Disable(t.Context(), session.Session{}, 2)
		},
		"the last day of a guest": func(h *fixture, _ *browser) error {
			today := h.clock.Now().Format(time.DateOnly)
			_, err := h.people.UpdateMember(t.Context(), session.Session{}, 2, people.MemberChange{LastDay: &today})
			h.clock.Advance(12 * time.Hour)
			return err
		},
		"the end of all sessions": func(h *fixture, _ *browser) error {
			_, err := h.accounts.RevokeSessionsOf(t.Context(), "otto")
			return err
		},
		"logging out": func(_ *fixture, b *browser) error { b.copy().logout().want(http.StatusOK); return nil },
		"removing the application": func(h *fixture, _ *browser) error {
			return h.policy.RemoveApplication(t.Context(), session.Session{}, "group")
		},
		"a deletion that Redis does not learn of": func(h *fixture, _ *browser) error {
			h.brokenRevoke.Store(true)
			if err := h.remove("otto"); !errors.Is(err, account.ErrPending) {
				return err
			}
			return nil
		},
	} {
		h := withApplications(t)
		h.ok(h.policy.SetMember(t.Context(), "kids", "otto", true))
		b := h.otto()
		b.visit("group").want(http.StatusOK)
		h.ok(do(h, b))
		if got := b.visit("group"); got.status != http.StatusUnauthorized && got.status != http.StatusForbidden {
			t.Errorf("%s: %d", what, got.status)
		}
	}
	h := withApplications(t)
	h.ok(h.people.SetRole(t.Context(), "otto", "admin"))
	b := h.otto()
	_, text := h.tokenFor("admin")
	b.visit("admin").want(http.StatusOK)
	b.device("admin", text).want(http.StatusOK)
	h.ok(h.people.SetRole(t.Context(), "otto", "member"))
	b.visit("admin").because(http.StatusForbidden, "app_denied")
	b.device("admin", text).because(http.StatusForbidden, "app_denied")
	h.ok(h.remove("otto"))
	h.browser().device("admin", text).because(http.StatusUnauthorized, "app_token_invalid")
}

func TestGuard_AnEndedSessionIsForgottenByTheBrowser(t *testing.T) {
	h := withApplications(t)
	b := h.otto()
	h.brokenRevoke.Store(true)
	if err := h.accounts.ResetPassword(t.Context(), "otto", newPass); err == nil {
		t.Fatal("Redis was away")
	}
	b.open("login").leads("/pforte/login?return=%2Fx%3Fy%3D1")
	if b.cookies["svc.sid"] != "" {
		t.Error("the browser keeps its cookie")
	}
}

func TestGuard_RenewsTheSession(t *testing.T) {
	h := withApplications(t)
	b := h.otto()
	for range 20 {
		h.clock.Advance(12 * time.Hour)
		if b.visit("login").want(http.StatusOK).header.Get("Set-Cookie") == "" {
			t.Fatal("the cookies are not sent again")
		}
	}
	for range 13 {
		h.clock.Advance(12 * time.Hour)
		if b.visit("login", "X-Auth-Renew", "no").want(http.StatusOK).header.Get("Set-Cookie") != "" {
			t.Fatal("a check of a request that lasts sends cookies")
		}
	}
	h.clock.Advance(13 * time.Hour)
	b.visit("login", "X-Auth-Renew", "no").because(http.StatusUnauthorized, "not_logged_in")
}

func TestGuard_MayDemandASecondFactor(t *testing.T) {
	h := withApplications(t)
	b := h.otto()
	b.visit("strict").because(http.StatusForbidden, "second_factor_needed")
	b.open("strict").page(http.StatusForbidden, "second_factor_needed strict") // and there the way to set one up
	a, _ := h.setUp(b)                                                         // in a session of a password alone
	b.visit("strict").because(http.StatusForbidden, "second_factor_needed")
	b.open("strict", "X-Forwarded-Uri", "/strict/a").leads("/pforte/reauth?return=%2Fstrict%2Fa")
	b.send(http.MethodPost, prefix+"/reauth", object("password", userPass, "code", a.code(0))).want(http.StatusOK)
	b.open("strict").want(http.StatusOK)
}

func TestGuard_AChangeComesFromTheApplicationsOwnPage(t *testing.T) {
	h := withApplications(t)
	b := h.otto()
	b.visit("login", "X-Forwarded-Method", "POST").want(http.StatusOK)
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "", "Origin", "https://evil.example"}, {"Sec-Fetch-Site", "", "Origin", "null"},
	} {
		b.visit("login", append(headers, "X-Forwarded-Method", "POST")...).because(http.StatusForbidden, "foreign_page")
	}
	// A proxy before the guard does not hand Upgrade on; each header of a handshake counts alone.
	for _, header := range [][2]string{{"Upgrade", "websocket"}, {"Sec-WebSocket-Version", "13"}, {"Sec-WebSocket-Key", "eA=="}} {
		b.visit("login", header[0], header[1], "Origin", "https://evil.example").because(http.StatusForbidden, "foreign_page")
		b.visit("login", header[0], header[1], "Origin", "https://home.example").want(http.StatusOK)
	}
}

func TestAppToken_OpensItsApplications(t *testing.T) {
	h := withApplications(t)
	_, text := h.tokenFor("login")
	b := h.browser()
	basic := func(name string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+text))
	}
	for what, c := range map[string]struct {
		headers  []string
		consumed string
	}{
		"in its header": {[]string{"X-Pforte-Token", text}, ""},
		"in its header, beside the application's own": {[]string{"X-Pforte-Token", text, "Authorization", "Bearer own"}, ""},
		"Bearer": {[]string{"Authorization", "Bearer " + text}, "authorization"},
		"Basic":  {[]string{"Authorization", basic("otto")}, "authorization"},
	} {
		got := b.device("login", "", c.headers...)
		if got.status != http.StatusOK || got.header.Get("X-Auth-Username") != "otto" || got.header.Get("X-Auth-Consumed") != c.consumed {
			t.Errorf("%s: %d %v", what, got.status, got.header)
		}
	}
	tok, revoked := h.tokenFor("login")
	h.ok(h.policy.RevokeToken(t.Context(), 2, tok.ID))
	for what, got := range map[string]reply{
		"unknown":                          b.device("login", token.New()),
		"of another user":                  b.device("login", "", "Authorization", basic("anna")),
		"for another application":          b.device("group", text),
		"for one that accepts none":        b.device("closed", text),
		"of another form":                  b.device("login", "pft_x"),
		"wrong, with a session beside it":  h.otto().open("login", "X-Pforte-Token", token.New()),
		"twice":                            b.device("login", text, "Authorization", "Bearer "+text),
		"somebody opens a page with it":    b.open("login", "X-Pforte-Token", token.New()),
		"another host's, at its own":       b.device("photos", text, "X-Forwarded-Host", "photos.example.org"),
		"a check of a request that lasts":  b.device("login", token.New(), "X-Auth-Renew", "no"),
		"revoked":                          b.device("login", revoked),
		"revoked, in a request that lasts": b.device("login", revoked, "X-Auth-Renew", "no"),
	} {
		got.because(http.StatusUnauthorized, "app_token_invalid")
		if got.header.Values("Www-Authenticate")[0] != "Bearer" || got.header.Get("Location") != "" {
			t.Errorf("%s: %v", what, got.header)
		}
	}
}

func TestAppToken_ADeviceIsAskedForBasic(t *testing.T) {
	h := withApplications(t)
	want := `Basic realm="login", charset="UTF-8"`
	b := h.browser()
	if got := b.device("login", "").because(http.StatusUnauthorized, "not_logged_in").header.Get("Www-Authenticate"); got != want {
		t.Errorf("got %q", got)
	}
	for what, got := range map[string]reply{
		"a script": b.visit("login"), "a browser over plain http": b.device("login", "", "X-Forwarded-Method", "PUT", "Accept", "text/html"),
		"with a cookie of ours": b.device("login", "", "Cookie", "svc.app=x"), "where no token counts": b.device("closed", ""),
	} {
		if got := got.because(http.StatusUnauthorized, "not_logged_in").header.Get("Www-Authenticate"); got != "" {
			t.Errorf("%s: %q", what, got)
		}
	}
}

func TestAppToken_WrongOnesOfAnAddressAreLimited(t *testing.T) {
	h := withApplications(t)
	_, known := h.tokenFor("login")
	_, fresh := h.tokenFor("login")
	b := h.browser()
	b.device("login", known).want(http.StatusOK)
	for range policy.WrongTokens {
		b.device("login", token.New()).because(http.StatusUnauthorized, "app_token_invalid")
	}
	got := b.device("login", token.New()).want(http.StatusTooManyRequests)
	if got.header.Get("Retry-After") != "60" || got.header.Get("RateLimit-Limit") != "10" {
		t.Errorf("got %v", got.header)
	}
	reads, commands := h.policyReads.Load(), h.clock.Redis.CommandCount()
	for _, text := range []string{token.New(), fresh, "pft_x"} {
		b.device("login", text).want(http.StatusTooManyRequests)
	}
	if reads, commands := h.policyReads.Load()-reads, h.clock.Redis.CommandCount()-commands; reads != 0 || commands != 0 {
		t.Errorf("%d reads of SQL, %d commands to Redis", reads, commands)
	}
	b.device("login", known).want(http.StatusOK) // the other device of a household
	b.device("login", fresh, "X-Forwarded-For", "203.0.113.8").want(http.StatusOK)
	h.otto().visit("login").want(http.StatusOK)
	h.clock.Advance(time.Minute)
	b.device("login", fresh).want(http.StatusOK)
	b.device("login", token.New()).because(http.StatusUnauthorized, "app_token_invalid")
}

// TestAppToken_AnIPv6NetworkIsRefusedAsAWhole has 10 wrong tokens from each of 4 networks of one /56.
func TestAppToken_AnIPv6NetworkIsRefusedAsAWhole(t *testing.T) {
	h := withApplications(t)
	b := h.browser()
	from := func(network int) reply {
		return b.device("login", token.New(), "X-Forwarded-For", fmt.Sprintf("2001:db8:0:%x::1", network))
	}
	for i := range 4 * policy.WrongTokens {
		from(i%4).because(http.StatusUnauthorized, "app_token_invalid")
	}
	from(4).want(http.StatusTooManyRequests)
	reads, commands := h.policyReads.Load(), h.clock.Redis.CommandCount()
	for i := range 100 {
		from(5 + i).want(http.StatusTooManyRequests)
	}
	if reads, commands := h.policyReads.Load()-reads, h.clock.Redis.CommandCount()-commands; reads != 0 || commands != 0 {
		t.Errorf("%d reads of SQL, %d commands to Redis", reads, commands)
	}
	from(0x100).because(http.StatusUnauthorized, "app_token_invalid")
}

// TestAppToken_ARevokedOneIsRefusedLikeOthers presents it while the address
// is refused.
func TestAppToken_ARevokedOneIsRefusedLikeOthers(t *testing.T) {
	h := withApplications(t)
	tok, text := h.tokenFor("login")
	b := h.browser()
	b.device("login", text).want(http.StatusOK)
	for range policy.WrongTokens + 1 {
		b.device("login", token.New())
	}
	h.ok(h.policy.RevokeToken(t.Context(), 2, tok.ID))
	b.device("login", text).want(http.StatusTooManyRequests)
	reads := h.policyReads.Load()
	b.device("login", text).want(http.StatusTooManyRequests)
	if h.policyReads.Load() != reads {
		t.Error("it is looked up again")
	}
}

func TestAppToken_Of100WrongAtOnce10AreAnsweredAsWrong(t *testing.T) {
	h := withApplications(t)
	var mu sync.Mutex
	statuses := map[int]int{}
	h.atOnce(100, func(b *browser) {
		got := b.device("login", token.New())
		mu.Lock()
		defer mu.Unlock()
		statuses[got.status]++
	})
	if statuses[http.StatusUnauthorized] != 10 || statuses[http.StatusTooManyRequests] != 90 {
		t.Errorf("got %v", statuses)
	}
}

func TestAppToken_IsNothingOnAuthsOwnRoutes(t *testing.T) {
	h := withApplications(t)
	_, text := h.tokenFor("login")
	for _, headers := range [][]string{{"X-Pforte-Token", text}, {"Authorization", "Bearer " + text}, {"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("otto:"+text))}} {
		h.browser().send(http.MethodGet, prefix+"/me", "", headers...).want(http.StatusUnauthorized)
		h.browser().forward("GET", "", headers...).want(http.StatusUnauthorized)
	}
}

func TestGuard_TheEarlierVariantKnowsNoApplications(t *testing.T) {
	h := withApplications(t, func(s *settings) { s.compat, s.pages = true, false })
	h.anna().visit("login").because(http.StatusForbidden, "unknown_app")
	h.anna().forward("GET", "").want(http.StatusOK)
}

func TestGuard_DecisionsAreCountedAndLogged(t *testing.T) {
	h := withApplications(t)
	otto := h.otto()
	_, text := h.tokenFor("login")
	otto.visit("login")
	otto.visit("admin")
	otto.visit("nothing")
	otto.visit("login", "X-Forwarded-Method", "POST", "Sec-Fetch-Site", "cross-site")
	h.browser().visit("login")
	h.browser().open("login")
	h.browser().device("login", text)
	for range policy.WrongTokens + 1 {
		h.browser().device("login", token.New())
	}
	want := `
# HELP auth_app_token_uses_total App tokens that requests to applications presented, by outcome: right (which does not mean that the request passed), invalid, limited, error.
# TYPE auth_app_token_uses_total counter
auth_app_token_uses_total{outcome="error"} 0
auth_app_token_uses_total{outcome="invalid"} 10
auth_app_token_uses_total{outcome="limited"} 1
auth_app_token_uses_total{outcome="right"} 1
# HELP auth_guard_decisions_total Decisions about requests to applications, by reason: passed, those of refusals (not_logged_in, app_denied, …), limited, error.
# TYPE auth_guard_decisions_total counter
auth_guard_decisions_total{reason="app_denied"} 1
auth_guard_decisions_total{reason="app_token_invalid"} 10
auth_guard_decisions_total{reason="error"} 0
auth_guard_decisions_total{reason="foreign_page"} 1
auth_guard_decisions_total{reason="forwarded"} 0
auth_guard_decisions_total{reason="limited"} 1
auth_guard_decisions_total{reason="not_logged_in"} 2
auth_guard_decisions_total{reason="passed"} 2
auth_guard_decisions_total{reason="read_only"} 0
auth_guard_decisions_total{reason="second_factor_needed"} 0
auth_guard_decisions_total{reason="unknown_app"} 1
`
	if err := testutil.GatherAndCompare(h.registry, strings.NewReader(want), "auth_guard_decisions_total", "auth_app_token_uses_total"); err != nil {
		t.Error(err)
	}
	events := h.events()
	for event, n := range map[string]int{"app_denied": 1, "unknown_app": 1, "origin_refused": 1, "app_token_refused": 10, "limited": 1} {
		if len(events[event]) != n {
			t.Errorf("%s: %d lines, want %d", event, len(events[event]), n)
		} else if events[event][0]["ip"] != "203.0.113.7" {
			t.Errorf("%s: got %v", event, events[event][0])
		}
	}
	if strings.Contains(h.log.String(), "pft_") {
		t.Error("a token is in the log")
	}
}

// at is the host of the application photos.
var at = []string{"X-Forwarded-Host", "photos.example.org", "X-Forwarded-Uri", "/album?x=1"}

// enter opens the host of photos with the session of a browser, as the pages do.
func (h *fixture) enter(b *browser) {
	h.t.Helper()
	r := b.get(prefix + "/me").want(http.StatusOK).to
	current, err := h.manager.Load(r)
	h.ok(err)
	secret, hash := session.NewSecret()
	h.ok(h.stores.OpenHost(h.t.Context(), current.Ref, "photos.example.org", hash))
	w := httptest.NewRecorder()
	h.ok(h.manager.StartApp(w, current.Ref, current.Device, secret))
	for _, cookie := range w.Result().Cookies() {
		b.cookies[cookie.Name] = cookie.Value
	}
}

func TestGuard_OnAnotherHostLeadsToThePortal(t *testing.T) {
	h := withApplications(t)
	b := h.browser()
	got := b.open("photos", at...).want(http.StatusSeeOther)
	to, err := url.Parse(got.header.Get("Location"))
	h.ok(err)
	q := to.Query()
	if to.Scheme+"://"+to.Host+to.Path != "https://home.example/pforte/go" || q.Get("app") != "photos" || q.Get("return") != "/album?x=1" || b.cookies["svc.go"] == "" || len(got.header.Values("Set-Cookie")) != 1 {
		t.Errorf("leads to %s with %v", to, got.header)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.AddCookie(&http.Cookie{Name: "svc.go", Value: b.cookies["svc.go"]})
	if !h.manager.HasBegun(r, q.Get("state")) {
		t.Errorf("the state %s is not that of the cookie", q.Get("state"))
	}
	unsafe := b.open("photos", "X-Forwarded-Host", "photos.example.org", "X-Forwarded-Uri", "//evil.example").want(http.StatusSeeOther)
	if to := unsafe.header.Get("Location"); !strings.Contains(to, "&return=%2F&") {
		t.Errorf("leads to %s", to)
	}
	for what, got := range map[string]reply{"a script": b.visit("photos", at...), "a check of a request that lasts": b.open("photos", append(at, "X-Auth-Renew", "no")...)} {
		if got.because(http.StatusUnauthorized, "not_logged_in").header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %v", what, got.header)
		}
	}
}

func TestGuard_ABrowserWithoutCookiesIsNotInALoop(t *testing.T) {
	h := withApplications(t)
	b := h.browser() // which keeps those of the guard, and never gets that of the application
	for range 20 {
		got := b.open("photos", at...)
		if got.status == http.StatusForbidden {
			got.page(http.StatusForbidden, "cookies_blocked photos")
			return
		}
		w := httptest.NewRecorder()
		h.manager.CountHandOver(w, b.get(prefix+"/me").to)
		for _, cookie := range w.Result().Cookies() {
			b.cookies[cookie.Name] = cookie.Value
		}
	}
	t.Error("20 redirects")
}

func TestHandover_AHostHasACookieOfItsOwn(t *testing.T) {
	h := withApplications(t)
	b := h.otto()
	h.enter(b)
	app := b.cookies["svc.app"]
	delete(b.cookies, "svc.sid")
	b.visit("photos", at...).want(http.StatusOK)
	b.visit("login").because(http.StatusUnauthorized, "not_logged_in")
	h.ok(h.policy.CreateApplication(t.Context(), session.Session{}, policy.NewApplication{Slug: "other", URL: "https://other.example.org"}))
	b.visit("other", "X-Forwarded-Host", "other.example.org").because(http.StatusUnauthorized, "not_logged_in")
	h.clock.Advance(12 * time.Hour)
	renewed := b.visit("photos", at...).want(http.StatusOK)
	if cookies := renewed.header.Values("Set-Cookie"); len(cookies) != 1 || !strings.HasPrefix(cookies[0], "svc.app=") || b.cookies["svc.app"] == app {
		t.Errorf("got %v", cookies)
	}
}

func TestHandover_ARevocationClosesTheHosts(t *testing.T) {
	for what, do := range map[string]func(h *fixture, b *browser) error{
		"deletion":       func(h *fixture, _ *browser) error { return h.remove("otto") },
		"a new password": func(h *fixture, _ *browser) error { return h.accounts.ResetPassword(t.Context(), "otto", newPass) },
		"logging out":    func(_ *fixture, b *browser) error { b.copy().logout().want(http.StatusOK); return nil },
		"a new password that Redis does not learn of": func(h *fixture, _ *browser) error {
			h.brokenRevoke.Store(true)
			if err := h.accounts.ResetPassword(t.Context(), "otto", newPass); !errors.Is(err, account.ErrPending) {
				return err
			}
			return nil
		},
	} {
		h := withApplications(t)
		b := h.otto()
		h.enter(b)
		b.visit("photos", at...).want(http.StatusOK)
		h.ok(do(h, b))
		if got := b.visit("photos", at...); got.status != http.StatusUnauthorized || got.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %v", what, got.status, got.header)
		}
	}
}

func TestHandover_ASecondFactorIsProvedAtThePortal(t *testing.T) {
	h := withApplications(t)
	demand := true
	h.ok(h.policy.ChangeApplication(t.Context(), session.Session{}, "photos",
		policy.ApplicationChange{SecondFactor: &demand}))
	b := h.otto()
	h.enter(b)
	b.open("photos", at...).page(http.StatusForbidden, "second_factor_needed photos")
	h.setUp(b)
	h.enter(b)
	if to := b.open("photos", at...).want(http.StatusSeeOther).header.Get("Location"); !strings.HasPrefix(to, "https://home.example/pforte/go?app=photos&") {
		t.Errorf("leads to %s", to)
	}
}
