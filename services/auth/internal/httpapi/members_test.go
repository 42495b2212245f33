package httpapi_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor/passkeytest"
)

var everything = audit.Query{}

func TestProfile_IsChangedByItsUser(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	otto.send(http.MethodPatch, prefix+"/me/profile", object("display_name", " Otto B. ", "avatar_color", "#0a0")).want(http.StatusOK)
	var me struct {
		User struct {
			DisplayName string `json:"display_name"`
			AvatarColor string `json:"avatar_color"`
			Role        string
		}
	}
	otto.send(http.MethodPatch, prefix+"/me/profile", object("role", "admin")).want(http.StatusOK)
	otto.get(prefix + "/me").want(http.StatusOK).into(&me)
	if me.User.DisplayName != "Otto B." || me.User.AvatarColor != "#0a0" || me.User.Role != "member" {
		t.Errorf("got %+v", me)
	}
	for _, body := range []string{object("display_name", " "), object("avatar_color", "red")} {
		otto.send(http.MethodPatch, prefix+"/me/profile", body).want(http.StatusBadRequest)
	}
}

func TestUsers_SessionsFollowAnAdminsChangesAtOnce(t *testing.T) {
	h := newFixture(t)
	anna, otto := h.anna(), h.otto()
	anna.send(http.MethodPatch, prefix+"/members/2", object("display_name", "Otto B.", "role", "admin")).want(http.StatusOK)
	otto.get(prefix + "/users").want(http.StatusOK)
	otto.send(http.MethodPatch, prefix+"/members/1", object("role", "member")).want(http.StatusOK)
	anna.get(prefix + "/users").want(http.StatusForbidden)
	otto.send(http.MethodPatch, prefix+"/members/2", object("role", "member")).because(http.StatusBadRequest, "last_admin")
	otto.send(http.MethodPatch, prefix+"/members/1", object("password", newPass)).because(http.StatusBadRequest, "reset_link_only")
	otto.send(http.MethodPatch, prefix+"/members/1", object("role", "king")).want(http.StatusBadRequest)
	for _, id := range []string{"99", "x"} {
		otto.send(http.MethodPatch, prefix+"/members/"+id, object("role", "member")).want(http.StatusNotFound)
		otto.get(prefix + "/members/" + id).want(http.StatusNotFound)
	}
	h.browser().login("anna", adminPass).want(http.StatusOK)
}

func TestUsers_OneIsShownToAdmins(t *testing.T) {
	h := newFixture(t)
	anna := h.anna()
	var body struct {
		User struct {
			Username    string
			TwoFactor   bool    `json:"two_factor"`
			LastLoginAt *string `json:"last_login_at"`
		}
	}
	anna.get(prefix + "/members/2").want(http.StatusOK).into(&body)
	if body.User.Username != "otto" || body.User.TwoFactor || body.User.LastLoginAt != nil {
		t.Errorf("got %+v", body)
	}
	h.otto()
	h.audit.Drain()
	anna.get(prefix + "/members/2").want(http.StatusOK).into(&body)
	if body.User.LastLoginAt == nil || *body.User.LastLoginAt != h.clock.Now().Format(time.RFC3339) {
		t.Errorf("got %+v", body)
	}
}

func TestMember_IsRenamedAndADayTheirLast(t *testing.T) {
	h := newFixture(t)
	anna, otto := h.anna(), h.otto()
	var body struct {
		User struct {
			Username string
			Disabled bool
			LastDay  *string `json:"last_day"`
		}
	}
	anna.send(http.MethodPatch, prefix+"/members/2", object("username", "ottilie", "last_day", "2099-12-31")).want(http.StatusOK)
	anna.get(prefix + "/members/2").want(http.StatusOK).into(&body)
	if body.User.Username != "ottilie" || body.User.Disabled || body.User.LastDay == nil || *body.User.LastDay != "2099-12-31" {
		t.Errorf("got %+v", body)
	}
	otto.get(prefix + "/me").want(http.StatusOK)
	anna.send(http.MethodPatch, prefix+"/members/1", object("username", "otto")).because(http.StatusConflict, "username_former")
	anna.send(http.MethodPatch, prefix+"/members/2", object("username", "ANNA")).want(http.StatusConflict)
	anna.send(http.MethodPatch, prefix+"/members/2", object("username", "-otto")).because(http.StatusBadRequest, "username_reserved")
	anna.send(http.MethodPatch, prefix+"/members/2", object("last_day", "2001-01-01")).because(http.StatusBadRequest, "last_day")
	anna.send(http.MethodPatch, prefix+"/members/2", object("role", "admin")).because(http.StatusBadRequest, "guest_admin")
	anna.send(http.MethodPatch, prefix+"/members/2", object("last_day", "")).want(http.StatusOK)
}

func TestEmail_IsConfirmedByWhoIsAnAdmin(t *testing.T) {
	h := newFixture(t)
	anna, otto := h.anna(), h.otto()
	const path = prefix + "/me/email"
	is := func(b *browser, path, want string) {
		t.Helper()
		if got := b.get(path).want(http.StatusOK); !strings.Contains(string(got.body), want) {
			t.Errorf("%s: %s, want %s", path, got.body, want)
		}
	}
	is(otto, path, `{"data":{"email":null,"email_confirmed":false}}`)
	otto.send(http.MethodPut, path, object("email", " Otto@Example.org ")).want(http.StatusOK)
	is(otto, path, `{"data":{"email":"Otto@Example.org","email_confirmed":false}}`)
	is(anna, prefix+"/members/2", `"email":"Otto@Example.org","email_confirmed":false,"subject":null`)
	anna.send(http.MethodPut, path, object("email", "otto@example.org")).because(http.StatusConflict, "email_taken")
	anna.send(http.MethodPatch, prefix+"/members/2", object("email", "Otto@Example.org")).want(http.StatusOK)
	is(otto, path, `"email_confirmed":true`)
	otto.send(http.MethodPut, path, object("email", "Otto@Example.org")).want(http.StatusOK)
	is(otto, path, `"email_confirmed":true`) // nothing changed
	anna.send(http.MethodPatch, prefix+"/members/1", object("email", "OTTO@example.org")).because(http.StatusConflict, "email_taken")
	otto.send(http.MethodPut, path, object("email", "other@example.org")).want(http.StatusOK)
	is(otto, path, `"email_confirmed":false`)
	anna.send(http.MethodPatch, prefix+"/members/1", object("email", "OTHER@example.org")).want(http.StatusOK) // it is hers
	is(otto, path, `"email":null`)
	rows := must(h.database.Audit.Entries(t.Context(), audit.Query{Event: "email_changed", UserID: 2, Limit: 1}))(t)
	if len(rows) != 1 || rows[0].SubjectName != "otto" || rows[0].Actor.Name != "anna" || rows[0].Detail["removed"] != true {
		t.Errorf("otto is told %+v", rows)
	}
	for _, wrong := range []string{"otto", "otto@home", "otto@x.invalid", "ö@example.org", "a b@example.org", ".a@example.org", strings.Repeat("x", 65) + "@example.org"} {
		otto.send(http.MethodPut, path, object("email", wrong)).because(http.StatusBadRequest, "email")
	}
	otto.send(http.MethodPut, path, `{}`).want(http.StatusBadRequest)
	anna.send(http.MethodPatch, prefix+"/members/1", object("email", "")).want(http.StatusOK)
	is(anna, path, `"email":null`)
}

func TestMember_IsDisabledAndEnabled(t *testing.T) {
	h := newFixture(t)
	anna, otto := h.anna(), h.otto()
	d := passkeytest.New(t, origin)
	otto.register(d)
	anna.send(http.MethodPost, prefix+"/members/2/disable", "").want(http.StatusOK)
	otto.get(prefix + "/me").want(http.StatusUnauthorized)
	for range 7 { // who knows the password fails no login
		h.browser().login("otto", userPass).because(http.StatusForbidden, "account_closed")
	}
	h.browser().passkeyLogin(d).because(http.StatusForbidden, "account_closed")
	h.browser().login("otto", "wrong password").want(http.StatusUnauthorized)
	anna.send(http.MethodPost, prefix+"/members/1/disable", "").because(http.StatusBadRequest, "own_account")
	for _, id := range []string{"99", "x"} {
		for _, do := range []string{"/disable", "/enable"} {
			anna.send(http.MethodPost, prefix+"/members/"+id+do, "").want(http.StatusNotFound)
		}
	}
	anna.send(http.MethodPost, prefix+"/members/2/enable", "").want(http.StatusOK)
	h.browser().passkeyLogin(d).want(http.StatusOK)
}

func TestHousehold_IsNamedByTheAPI(t *testing.T) {
	h := newFixture(t)
	anna := h.anna()
	if got := anna.send(http.MethodPut, prefix+"/household", object("name", " Kern ")).want(http.StatusOK); string(got.body) != `{"data":{"name":"Kern"}}` {
		t.Errorf("got %s", got.body)
	}
	anna.send(http.MethodPut, prefix+"/household", `{}`).want(http.StatusBadRequest)
	anna.send(http.MethodPut, prefix+"/household", object("name", strings.Repeat("x", 65))).because(http.StatusBadRequest, "household")
}

// guardedRoute is a request that needs a session, and what it needs besides.
type guardedRoute struct {
	request
	admin, csrf, fresh, hasBody bool
}

// guardedPeople are those routes of people that need a session.
var guardedPeople = []guardedRoute{
	{request{http.MethodPatch, "/me/profile", `{}`}, false, true, false, true},
	{request{http.MethodGet, "/me/email", ""}, false, false, false, false},
	{request{http.MethodPut, "/me/email", `{"email":""}`}, false, true, true, true},
	{request{http.MethodGet, "/members/2", ""}, true, false, false, false},
	{request{http.MethodPatch, "/members/2", `{}`}, true, true, true, true},
	{request{http.MethodPost, "/members/2/disable", ""}, true, true, true, false},
	{request{http.MethodPost, "/members/2/enable", ""}, true, true, true, false},
	{request{http.MethodPut, "/household", `{"name":"Kern"}`}, true, true, true, true},
	{request{http.MethodPost, "/users/2/reset-link", ""}, true, true, true, false},
	{request{http.MethodGet, "/invites", ""}, true, false, false, false},
	{request{http.MethodPost, "/invites", `{}`}, true, true, true, true},
	{request{http.MethodDelete, "/invites/1", ""}, true, true, false, false},
	{request{http.MethodGet, "/audit", ""}, true, false, false, false},
	{request{http.MethodGet, "/audit.csv", ""}, true, false, true, false},
}

func TestUsers_RoutesAreGuarded(t *testing.T) {
	checkGuards(t, guardedPeople, func(h *fixture) { h.invite() })
}

// checkGuards sends requests without what a route needs, to a household that prepare made
// ready for the request.
func checkGuards(t *testing.T, routes []guardedRoute, prepare func(*fixture)) {
	t.Helper()
	for _, route := range routes {
		t.Run(route.method+" "+route.path, func(t *testing.T) {
			h := newFixture(t, func(s *settings) { s.publicURL = origin })
			prepare(h)
			anna, otto := h.anna(), h.otto()
			route.send(h.browser()).want(http.StatusUnauthorized)
			if route.admin {
				route.send(otto).want(http.StatusForbidden)
			}
			if route.csrf {
				anna.send(route.method, prefix+route.path, route.body, "X-CSRF-Token", "x").want(http.StatusForbidden)
			}
			if route.hasBody {
				anna.send(route.method, prefix+route.path, `{"role":`).want(http.StatusBadRequest)
				anna.send(route.method, prefix+route.path, `{}`, "Content-Type", "text/plain").want(http.StatusUnsupportedMediaType)
				anna.send(route.method, prefix+route.path, `{"x":"`+strings.Repeat("x", 70_000)+`"}`).want(http.StatusRequestEntityTooLarge)
			}
			h.clock.Advance(account.FreshFor)
			if got := route.send(anna); got.status >= 300 {
				t.Errorf("ten minutes after the login: %d %s", got.status, got.body)
			}
			h.clock.Advance(time.Second)
			if route.fresh {
				route.send(anna).because(http.StatusForbidden, "reauth_required")
			} else if got := route.send(anna); got.status == http.StatusForbidden {
				t.Errorf("later: %d %s", got.status, got.body)
			}
			h.brokenSessions.Store(true)
			route.send(anna).want(http.StatusInternalServerError)
		})
	}
}

func TestAudit_TellsWhoDidWhat(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	otto.send(http.MethodPatch, prefix+"/me/profile", object("display_name", "=HYPERLINK(1)"), "User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0").want(http.StatusOK)
	for range 3 {
		h.elsewhere().login("otto", "wrong").want(http.StatusUnauthorized)
	}
	same := h.elsewhere()
	for range 4 {
		same.login("a name that is nobody's", "wrong").want(http.StatusUnauthorized)
	}
	h.audit.Drain()
	anna := h.anna()
	var page struct {
		Data []struct {
			ID          int64
			Event       string
			ActorKind   string `json:"actor_kind"`
			ActorName   string `json:"actor_name"`
			SubjectName string `json:"subject_name"`
			IP, Agent   string
			RequestID   string `json:"request_id"`
			SessionKey  string `json:"session_key"`
			Count       int64
			Detail      map[string]any
		}
		Next *int64
	}
	anna.get(prefix + "/audit?event=profile_changed").want(http.StatusOK).into(&page)
	if len(page.Data) != 1 {
		t.Fatalf("got %+v", page)
	}
	if e := page.Data[0]; e.ActorKind != "user" || e.ActorName != "otto" || e.SubjectName != "otto" || e.IP != "192.0.2.1" || e.Agent != "Firefox, Linux" || e.RequestID == "" || len(e.SessionKey) != 64 {
		t.Errorf("got %+v", e)
	}
	anna.get(prefix + "/audit?event=login_failed").want(http.StatusOK).into(&page)
	counts := map[string]int64{}
	for _, e := range page.Data {
		counts[fmt.Sprint(e.SubjectName, " ", e.Count)]++
		if strings.Contains(fmt.Sprint(e), "nobody's") {
			t.Errorf("a typed name: %+v", e)
		}
	}
	if len(page.Data) != 4 || counts["otto 1"] != 3 || counts[" 4"] != 1 {
		t.Errorf("failed logins: %v", counts)
	}
	anna.get(prefix + "/audit?limit=2").want(http.StatusOK).into(&page)
	if len(page.Data) != 2 || page.Next == nil || *page.Next != page.Data[1].ID {
		t.Errorf("got %+v", page)
	}
	anna.get(fmt.Sprint(prefix, "/audit?limit=200&before=", *page.Next, "&from=2026-03-01T00:00:00Z&to=2026-03-02T00:00:00Z&user_id=2")).want(http.StatusOK).into(&page)
	if len(page.Data) == 0 || page.Next != nil {
		t.Errorf("got %+v", page)
	}
	for _, query := range []string{"before=x", "limit=0", "limit=x", "user_id=-1", "from=yesterday", "to=2026"} {
		anna.get(prefix+"/audit?"+query).because(http.StatusBadRequest, "query")
		anna.get(prefix+"/audit.csv?to=x").because(http.StatusBadRequest, "query")
	}
	file := anna.get(prefix + "/audit.csv").want(http.StatusOK)
	rows, err := csv.NewReader(strings.NewReader(string(file.body))).ReadAll()
	if err != nil || len(rows) < 5 || file.header.Get("Content-Disposition") == "" {
		t.Errorf("%v, %d rows, %v", err, len(rows), file.header)
	}
}

// TestUsers_TheEarlierContractHasNoRoutesOfPeople is about COMPAT_V0.
func TestUsers_TheEarlierContractHasNoRoutesOfPeople(t *testing.T) {
	h := newFixture(t, func(s *settings) { s.compat = true })
	for _, route := range anonymousRoutes {
		b := h.browser()
		b.unchecked = true
		if got := route.send(b); got.status != http.StatusNotFound && got.status != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", got.what, got.status)
		}
	}
}
