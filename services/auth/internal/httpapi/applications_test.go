package httpapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// applications creates the group kids, and an application for each rule, named after it, that
// accepts app tokens.
func (h *fixture) applications() {
	h.t.Helper()
	ctx := h.t.Context()
	if err := h.policy.CreateGroup(ctx, session.Session{}, "kids", "Kinder"); err != nil {
		h.t.Fatal(err)
	}
	for _, n := range []policy.NewApplication{
		{Slug: "all", URL: "/all/", Tokens: true},
		{Slug: "admins", URL: "/admins/", Rule: "admin", Tokens: true},
		{Slug: "group", URL: "https://group.example.org", Rule: "group", Group: "kids", Tokens: true},
		{Slug: "closed", URL: "/closed/"},
	} {
		if err := h.policy.CreateApplication(ctx, session.Session{}, n); err != nil {
			h.t.Fatal(err)
		}
	}
}

// token creates an app token of otto for the application all.
func (h *fixture) token(n policy.NewToken) (token.Token, string) {
	h.t.Helper()
	n.UserID, n.Name, n.Applications = 2, "Kalender", []string{"all"}
	created, text, err := h.policy.CreateToken(h.t.Context(), h.ofOtto(), n)
	if err != nil {
		h.t.Fatal(err)
	}
	return created, text
}

// guardedPolicy are the routes of applications, groups and app tokens.
var guardedPolicy = []guardedRoute{
	{request{http.MethodGet, "/apps", ""}, true, false, false, false},
	{request{http.MethodGet, "/apps/mine", ""}, false, false, false, false},
	{request{http.MethodPost, "/apps", `{"slug":"new","url":"/new/"}`}, true, true, true, true},
	{request{http.MethodPatch, "/apps/all", `{}`}, true, true, true, true},
	{request{http.MethodDelete, "/apps/all", ""}, true, true, true, false},
	{request{http.MethodGet, "/apps/all/route", ""}, true, false, false, false},
	{request{http.MethodPut, "/apps/all/route", `{"upstream":"notes:80"}`}, true, true, true, true},
	{request{http.MethodDelete, "/apps/admins/route", ""}, true, true, true, false},
	{request{http.MethodGet, "/groups", ""}, true, false, false, false},
	{request{http.MethodPost, "/groups", `{"slug":"new"}`}, true, true, true, true},
	{request{http.MethodPatch, "/groups/kids", `{}`}, true, true, true, true},
	{request{http.MethodDelete, "/groups/empty", ""}, true, true, true, false},
	{request{http.MethodGet, "/api-tokens?all=1", ""}, true, false, false, false},
	{request{http.MethodGet, "/api-tokens", ""}, false, false, false, false},
	{request{http.MethodPost, "/api-tokens", `{"name":"x","scopes":["app:all"]}`}, false, true, true, true},
	{request{http.MethodDelete, "/api-tokens/1", ""}, false, true, true, false},
	{request{http.MethodPost, "/api-tokens/1/remove", ""}, false, true, true, false},
}

func TestApplications_RoutesAreGuarded(t *testing.T) {
	checkGuards(t, guardedPolicy, func(h *fixture) {
		h.applications()
		h.route("all", "notes:80")
		h.route("admins", "notes:80")
		if err := h.policy.CreateGroup(t.Context(), session.Session{}, "empty", ""); err != nil {
			t.Fatal(err)
		}
		h.token(policy.NewToken{ExpiresAt: h.clock.Now().Add(time.Second)})
	})
}

func TestApplications_TheEarlierContractHasNoRoutes(t *testing.T) {
	h := newFixture(t, func(s *settings) { s.compat = true })
	anna := h.anna()
	anna.unchecked = true
	for _, route := range guardedPolicy {
		route.send(anna).want(http.StatusNotFound)
	}
}

type appItem struct {
	Data struct {
		Slug, Name, Description, URL, Rule, Group, Color string
		SecondFactor                                     bool `json:"second_factor"`
		Tokens                                           bool
		Position                                         int
	}
}

func TestApplications_AreEditedByAdmins(t *testing.T) {
	h := newFixture(t)
	h.applications()
	anna := h.anna()
	create := func(pairs ...any) reply { return anna.send(http.MethodPost, prefix+"/apps", object(pairs...)) }
	change := func(slug string, pairs ...any) reply {
		return anna.send(http.MethodPatch, prefix+"/apps/"+slug, object(pairs...))
	}
	var got appItem
	create("slug", "photos", "name", " Fotos ", "description", "Alle Bilder", "url", "https://Photos.example.org:443", "rule", "group", "group", "kids",
		"second_factor", true, "tokens", true, "color", "#123456", "position", 7).want(http.StatusCreated).into(&got)
	want := got
	want.Data.Slug, want.Data.Name, want.Data.URL, want.Data.Rule, want.Data.Group, want.Data.Position = "photos", "Fotos", "https://photos.example.org", "group", "kids", 7
	want.Data.SecondFactor, want.Data.Tokens, want.Data.Color, want.Data.Description = true, true, "#123456", "Alle Bilder"
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	change("photos", "rule", "admin", "tokens", false, "description", "").want(http.StatusOK).into(&got)
	want.Data.Rule, want.Data.Group, want.Data.Tokens, want.Data.Description = "admin", "", false, ""
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	create("slug", "plain", "url", "/plain/").want(http.StatusCreated).into(&got)
	if got.Data.Name != "plain" || got.Data.Rule != "login" || got.Data.Tokens || got.Data.SecondFactor || got.Data.Color != user.DefaultAvatarColor {
		t.Errorf("got %+v", got)
	}
	create("slug", "Photos", "url", "/x/").because(http.StatusBadRequest, "slug")
	for reason, pairs := range map[string][]any{
		"name": {"name", "a\nb"}, "description": {"description", strings.Repeat("x", 201)}, "url": {"url", "http://nas.lan"}, "rule": {"rule", "group"},
		"group": {"rule", "group", "group", "nobody\x00"}, "position": {"position", -1}, "": {"color", "red"},
	} {
		create(append([]any{"slug", "x", "url", "/x/"}, pairs...)...).because(http.StatusBadRequest, reason)
		change("plain", pairs...).because(http.StatusBadRequest, reason)
	}
	create("slug", "plain", "url", "/x/").because(http.StatusConflict, "slug_taken")
	create("slug", "x", "url", "/plain/").because(http.StatusConflict, "url_taken")
	change("photos", "url", "/plain/").because(http.StatusConflict, "url_taken")
	change("photos", "url", "/pforte/x/").because(http.StatusBadRequest, "url")
	anna.send(http.MethodDelete, prefix+"/apps/plain", "").want(http.StatusOK)
	for _, slug := range []string{"plain", "%00", "%ff", "x%2fy"} {
		change(slug, "name", "x").because(http.StatusNotFound, "not_found")
		anna.send(http.MethodDelete, prefix+"/apps/"+slug, "").because(http.StatusNotFound, "not_found")
	}
	var all struct{ Data []struct{ Slug string } }
	anna.get(prefix + "/apps").want(http.StatusOK).into(&all)
	if got := fmt.Sprint(all.Data); got != "[{admins} {all} {closed} {group} {photos}]" {
		t.Errorf("got %s", got)
	}
	for _, event := range []string{"app_made", "app_changed", "app_removed"} {
		if !strings.Contains(h.log.String(), `"event":"`+event+`"`) {
			t.Errorf("no %s in the log", event)
		}
	}
}

func TestApplications_AndGroupsAreBounded(t *testing.T) {
	h := newFixture(t)
	for i := range application.MaxApplications {
		must(h.db.Writer.ExecContext(t.Context(), `INSERT INTO applications (slug, name, url, rule, color) VALUES (?, 'x', ?, 'login', '#000')`, fmt.Sprint("a", i), fmt.Sprintf("/%d/", i)))(t)
	}
	for i := range application.MaxGroups {
		must(h.db.Writer.ExecContext(t.Context(), `INSERT INTO user_groups (slug, name) VALUES (?, 'x')`, fmt.Sprint("g", i)))(t)
	}
	anna := h.anna()
	anna.send(http.MethodPost, prefix+"/apps", object("slug", "x", "url", "/x/")).because(http.StatusConflict, "too_many")
	anna.send(http.MethodPost, prefix+"/groups", object("slug", "x")).because(http.StatusConflict, "too_many")
}

type routeItem struct {
	Data struct {
		Upstream, Pin, Recipe string
		Strip                 bool
		UserHeader            string `json:"user_header"`
	}
}

func TestRoute_IsSetAndRemovedByAdmins(t *testing.T) {
	h := newFixture(t, func(s *settings) { s.publicURL = origin })
	h.applications()
	h.add("paula", "Paula", adminPass, "admin")
	anna, otto := h.anna(), h.otto()
	set := func(slug string, pairs ...any) reply {
		return anna.send(http.MethodPut, prefix+"/apps/"+slug+"/route", object(pairs...))
	}
	anna.get(prefix+"/apps/all/route").because(http.StatusNotFound, "no_route")
	anna.send(http.MethodDelete, prefix+"/apps/all/route", "").because(http.StatusNotFound, "no_route")
	var got routeItem
	set("all", "upstream", "Calendar:5232/", "strip", true, "user_header", "x-remote-user", "recipe", "radicale").want(http.StatusOK).into(&got)
	want := got
	want.Data.Upstream, want.Data.Strip, want.Data.UserHeader, want.Data.Recipe = "http://calendar:5232", true, "X-Remote-User", "radicale"
	if got != want {
		t.Errorf("got %+v", got)
	}
	set("all", "upstream", "https://nas:5001", "pin", strings.Repeat("A1", 32)).want(http.StatusOK)
	set("all", "upstream", "https://nas:5001").want(http.StatusOK)
	anna.get(prefix + "/apps/all/route").want(http.StatusOK).into(&got)
	if got.Data.Pin != strings.Repeat("a1", 32) || got.Data.Strip || got.Data.UserHeader != "" {
		t.Errorf("got %+v", got)
	}
	set("all", "upstream", "https://nas:5001", "pin", "").want(http.StatusOK).into(&got)
	if got.Data.Pin != "" {
		t.Errorf("the pin stays: %+v", got)
	}
	for reason, pairs := range map[string][]any{
		"upstream": {"upstream", "http://nas:5001/x"}, "user_header": {"upstream", "nas:80", "user_header", "Host"}, "pin": {"upstream", "https://nas:80", "pin", "x"},
	} {
		set("all", pairs...).because(http.StatusBadRequest, reason)
	}
	for _, blocked := range []string{"169.254.169.254:80", "127.0.0.1:80", "localhost:80", "[::1]:80", "8.8.8.8:80", "0.0.0.0:1", "[fe80::1]:80", "[::ffff:10.0.0.1]:80"} {
		set("all", "upstream", blocked).because(http.StatusBadRequest, "upstream_blocked")
	}
	set("all", "upstream", strings.Repeat("a", 201)+":80").because(http.StatusBadRequest, "upstream")
	set("nobody", "upstream", "nas:80").because(http.StatusNotFound, "not_found")
	set("all", "upstream", 7).want(http.StatusBadRequest)
	anna.get(prefix+"/apps/nobody/route").because(http.StatusNotFound, "not_found")
	anna.send(http.MethodPatch, prefix+"/apps/closed", object("url", "/")).want(http.StatusOK)
	set("closed", "upstream", "nas:80").because(http.StatusBadRequest, "url")
	anna.send(http.MethodPatch, prefix+"/apps/closed", object("url", "/closed/")).want(http.StatusOK)
	anna.send(http.MethodPatch, prefix+"/apps/all", object("url", "/")).because(http.StatusBadRequest, "url")
	for _, portal := range []string{origin, origin + ":8443"} {
		anna.send(http.MethodPatch, prefix+"/apps/closed", object("url", portal)).want(http.StatusOK)
		set("closed", "upstream", "nas:80").because(http.StatusBadRequest, "url")
		anna.send(http.MethodPatch, prefix+"/apps/closed", object("url", "/closed/")).want(http.StatusOK)
		anna.send(http.MethodPatch, prefix+"/apps/all", object("url", portal)).because(http.StatusBadRequest, "url")
	}
	if mine := h.notices(1); len(mine) != 0 {
		t.Errorf("who did it is told %v", mine)
	}
	if told := h.notices(2); len(told) != 0 {
		t.Errorf("a member is told %v", told)
	}
	if told := h.notices(3); !slices.Equal(told, []string{"app_route_set", "app_route_set", "app_route_set"}) {
		t.Errorf("the other admin is told %v", told)
	}
	otto.get(prefix + "/apps/all/route").want(http.StatusForbidden)
	anna.send(http.MethodDelete, prefix+"/apps/all/route", "").want(http.StatusOK)
	anna.get(prefix+"/apps/all/route").because(http.StatusNotFound, "no_route")
	if n := strings.Count(h.log.String(), `"event":"app_route_set"`); n != 4 || !strings.Contains(h.log.String(), `"app":"all"`) {
		t.Errorf("%d lines in the log", n)
	}
	h.brokenPolicy.Store(true)
	anna.get(prefix + "/apps/all/route").want(http.StatusInternalServerError)
}

func TestApplication_IsReachedByTheFirstWhoIsLetThrough(t *testing.T) {
	h := withApplications(t)
	anna, otto := h.anna(), h.otto()
	anna.send(http.MethodPost, prefix+"/apps", object("slug", "new", "url", "/new/", "rule", "admin")).want(http.StatusCreated)
	reached := func() bool {
		a, err := h.policy.Application(t.Context(), "new")
		h.ok(err)
		return a.Reached
	}
	otto.visit("new").because(http.StatusForbidden, "app_denied")
	if reached() {
		t.Error("by one who was refused")
	}
	anna.visit("new").want(http.StatusOK)
	if !reached() {
		t.Error("not by one who was let through")
	}
}

// mine returns the slugs of the applications that a browser's user may open.
func (b *browser) mine() string {
	b.h.t.Helper()
	var list struct{ Data []struct{ Slug string } }
	b.get(prefix + "/apps/mine").want(http.StatusOK).into(&list)
	slugs := make([]string, len(list.Data))
	for i, app := range list.Data {
		slugs[i] = app.Slug
	}
	return strings.Join(slugs, " ")
}

func TestApplications_UsersSeeWhatTheyMayOpen(t *testing.T) {
	h := newFixture(t)
	h.applications()
	anna, otto := h.anna(), h.otto()
	if got := otto.mine(); got != "all closed" {
		t.Errorf("a member may open %q", got)
	}
	if got := anna.mine(); got != "admins all closed" {
		t.Errorf("an admin may open %q", got)
	}
	anna.send(http.MethodPatch, prefix+"/groups/kids", object("members", []int{2})).want(http.StatusOK)
	if got := otto.mine(); got != "all closed group" {
		t.Errorf("in the group, a member may open %q", got)
	}
	anna.send(http.MethodPatch, prefix+"/members/2", object("groups", []string{})).want(http.StatusOK)
	if got := otto.mine(); got != "all closed" {
		t.Errorf("out of the group, a member may open %q", got)
	}
}

type groupItem struct {
	Data struct {
		Slug, Name string
		Members    []int64
	}
}

func TestGroups_AreEditedByAdmins(t *testing.T) {
	h := newFixture(t)
	h.applications()
	anna := h.anna()
	create := func(pairs ...any) reply { return anna.send(http.MethodPost, prefix+"/groups", object(pairs...)) }
	change := func(slug string, pairs ...any) reply {
		return anna.send(http.MethodPatch, prefix+"/groups/"+slug, object(pairs...))
	}
	var got groupItem
	create("slug", "cooks", "name", " Küche ", "members", []int{2, 1, 2}).want(http.StatusCreated).into(&got)
	if got.Data.Slug != "cooks" || got.Data.Name != "Küche" || !slices.Equal(got.Data.Members, []int64{1, 2}) {
		t.Errorf("got %+v", got)
	}
	change("cooks", "name", "Köche").want(http.StatusOK).into(&got)
	if got.Data.Name != "Köche" || len(got.Data.Members) != 2 {
		t.Errorf("got %+v", got)
	}
	change("cooks", "members", []int{2}).want(http.StatusOK).into(&got)
	if got.Data.Name != "Köche" || !slices.Equal(got.Data.Members, []int64{2}) {
		t.Errorf("got %+v", got)
	}
	create("slug", "kids").because(http.StatusConflict, "slug_taken")
	create("slug", "admin").because(http.StatusBadRequest, "slug")
	create("slug", "x", "name", "a\x00").because(http.StatusBadRequest, "name")
	create("slug", "x", "members", []int{99}).because(http.StatusBadRequest, "members")
	change("cooks", "name", "Fort", "members", []int{1, 99}).because(http.StatusBadRequest, "members")
	change("cooks", "name", " ").because(http.StatusBadRequest, "name")
	for _, slug := range []string{"x", "%00", "%ff"} {
		change(slug, "members", []int{}).because(http.StatusNotFound, "not_found")
		anna.send(http.MethodDelete, prefix+"/groups/"+slug, "").because(http.StatusNotFound, "not_found")
	}
	anna.send(http.MethodDelete, prefix+"/groups/kids", "").because(http.StatusConflict, "group_used")
	var all struct {
		Data []struct {
			Slug, Name string
			Members    []int
		}
	}
	anna.get(prefix + "/groups").want(http.StatusOK).into(&all)
	if got := fmt.Sprint(all.Data); got != "[{cooks Köche [2]} {kids Kinder []}]" {
		t.Errorf("got %s", got)
	}
	anna.send(http.MethodDelete, prefix+"/groups/cooks", "").want(http.StatusOK)
	for _, event := range []string{"group_made", "group_changed", "group_removed"} {
		if !strings.Contains(h.log.String(), `"event":"`+event+`"`) {
			t.Errorf("no %s in the log", event)
		}
	}
}

// groupsOf returns the groups of a user as an admin sees them.
func (b *browser) groupsOf(id int64) string {
	b.h.t.Helper()
	var body struct{ User struct{ Groups []string } }
	b.get(fmt.Sprint(prefix, "/members/", id)).want(http.StatusOK).into(&body)
	return fmt.Sprint(body.User.Groups)
}

func TestGroups_OfAUserAreChangedByAdmins(t *testing.T) {
	h := newFixture(t)
	h.applications()
	anna, otto := h.anna(), h.otto()
	anna.send(http.MethodPost, prefix+"/groups", object("slug", "cooks", "members", []int{2})).want(http.StatusCreated)
	if got := anna.groupsOf(2); got != "[cooks]" {
		t.Errorf("in %s", got)
	}
	change := func(pairs ...any) reply { return anna.send(http.MethodPatch, prefix+"/members/2", object(pairs...)) }
	change("groups", []string{"kids", "kids"}).want(http.StatusOK)
	change("display_name", "Otto B.").want(http.StatusOK)
	change("groups", nil).want(http.StatusOK)
	if got := anna.groupsOf(2); got != "[kids]" {
		t.Errorf("in %s", got)
	}
	for _, slug := range []string{"nobody", "", "kids cooks", "\x00"} {
		change("display_name", "x", "groups", []string{"cooks", slug}).because(http.StatusBadRequest, "group")
	}
	otto.send(http.MethodPatch, prefix+"/me/profile", object("groups", []string{"cooks"})).want(http.StatusOK)
	if got := anna.groupsOf(2); got != "[kids]" {
		t.Errorf("in %s", got)
	}
}

func TestGroups_OfAnInviteAreThoseOfItsUser(t *testing.T) {
	h := newFixture(t)
	h.applications()
	anna := h.anna()
	anna.send(http.MethodPost, prefix+"/groups", object("slug", "cooks")).want(http.StatusCreated)
	anna.send(http.MethodPost, prefix+"/groups", object("slug", "gone")).want(http.StatusCreated)
	anna.send(http.MethodPost, prefix+"/invites", object("groups", []string{"nobody"})).because(http.StatusBadRequest, "group")
	token := h.invite("groups", []string{"kids", "gone", "kids"})
	anna.send(http.MethodDelete, prefix+"/groups/gone", "").want(http.StatusOK)
	anna.send(http.MethodPost, prefix+"/groups", object("slug", "gone")).want(http.StatusCreated)
	var open struct {
		Data struct{ Invites []struct{ Groups []string } }
	}
	anna.get(prefix + "/invites").want(http.StatusOK).into(&open)
	if len(open.Data.Invites) != 1 || !slices.Equal(open.Data.Invites[0].Groups, []string{"kids"}) {
		t.Errorf("got %+v", open)
	}
	h.elsewhere().accept(token, "username", "paul", "password", newPass, "groups", []string{"cooks"}).want(http.StatusCreated)
	if got := anna.groupsOf(3); got != "[kids]" {
		t.Errorf("in %s", got)
	}
}
