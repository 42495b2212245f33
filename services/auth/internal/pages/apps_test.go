package pages_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// application adds an application with a rule, for example "group:kids".
func (f *fixture) application(slug, url, rule string, tokens bool) {
	f.t.Helper()
	kind, group, _ := strings.Cut(rule, ":")
	if err := f.policy.CreateApplication(f.t.Context(), session.Session{}, policy.NewApplication{
		Slug: slug, Name: "App " + slug, URL: url, Rule: kind, Group: group, Tokens: tokens,
	}); err != nil {
		f.t.Fatal(err)
	}
}

// group adds a group with members.
func (f *fixture) group(slug, name string, members ...string) {
	f.t.Helper()
	if err := f.policy.CreateGroup(f.t.Context(), session.Session{}, slug, name); err != nil {
		f.t.Fatal(err)
	}
	for _, username := range members {
		if err := f.policy.SetMember(f.t.Context(), slug, username, true); err != nil {
			f.t.Fatal(err)
		}
	}
}

// stored returns an application.
func (f *fixture) stored(slug string) application.Application {
	f.t.Helper()
	for _, a := range must(f.policy.Applications(f.t.Context()))(f.t) {
		if a.Slug == slug {
			return a
		}
	}
	f.t.Fatalf("there is no application %q", slug)
	return application.Application{}
}

func TestStart_ShowsTheUsersApplications(t *testing.T) {
	f := newFixture(t)
	anna, otto := f.anna(), f.otto()
	otto.get("/pforte/").want(http.StatusOK).shows("Hier erscheinen die Anwendungen deines Haushalts.").lacks(`id="apps"`)
	f.group("kids", "Kinder", "otto")
	f.application("photos", "https://photos.example.org", "group:kids", false)
	f.application("backup", "/backup/", "admin", false)
	f.application("notes", "/notes/", "login", false)
	otto.get("/pforte/").shows("App photos", `href="https://photos.example.org"`, "App notes", `href="/notes/"`).lacks("App backup")
	anna.get("/pforte/").shows("App backup", "App notes").lacks("App photos")
	if err := f.policy.SetMember(t.Context(), "kids", "otto", false); err != nil {
		t.Fatal(err)
	}
	otto.get("/pforte/").shows("App notes").lacks("App photos")
}

func TestApplications_AreAddedChangedAndRemoved(t *testing.T) {
	f := newFixture(t)
	f.group("kids", "Kinder")
	anna := f.anna()
	anna.get("/pforte/admin/apps").want(http.StatusOK).shows("Neue Anwendung", `href="/pforte/admin/apps/new"`)
	anna.get("/pforte/admin/apps/new").want(http.StatusOK).shows(`<option value="group:kids">Gruppe Kinder (niemand)</option>`)
	anna.post("/pforte/admin/apps/new", "do", "add", "name", "Fotos", "slug", "photos", "description", "Alben", "url", " https://Photos.example.org:443 ", "rule", "group:kids").
		leadsTo("/pforte/admin/apps/photos?done=app-new")
	page := anna.get("/pforte/admin/apps/photos?done=app-new").want(http.StatusOK).
		shows("Fotos ist da.", "Jetzt fehlen noch die Zeilen für den Proxy.", "@photos host photos.example.org\nhandle @photos {\n    import require_app photos\n", "SITE_ADDRESS", "PUBLIC_URL", `value="Fotos"`, `<option value="group:kids" selected>`)
	if strings.Contains(page.body, "checked>Zweiter") {
		t.Error("a second factor is asked for")
	}
	anna.get("/pforte/admin/apps").shows("Fotos", "https://photos.example.org", "Gruppe Kinder")

	change := []string{"do", "change", "name", "Bilder", "description", "", "url", "/photos/", "rule", "login", "color", "own", "hex", "#123456", "position", "7", "second_factor", "yes", "tokens", "yes"}
	anna.post("/pforte/admin/apps/photos", change...).leadsTo("/pforte/admin/apps/photos?done=profile")
	if a := f.stored("photos"); a.Name != "Bilder" || a.Description != "" || a.URL != "/photos/" || a.Rule != application.Login || a.Group != "" || a.Color != "#123456" ||
		a.Position != 7 || !a.SecondFactor || !a.Tokens {
		t.Errorf("got %+v", a)
	}
	anna.get("/pforte/admin/apps/photos").shows("@photos path /photos /photos/*\n", `name="second_factor" value="yes" checked`, `name="tokens" value="yes" checked`).lacks("PUBLIC_URL", "SITE_ADDRESS", "nginx")
	anna.post("/pforte/admin/apps/photos", "do", "remove").leadsTo("/pforte/admin/apps?done=app-removed")
	anna.get("/pforte/admin/apps/photos").want(http.StatusNotFound).shows("Diese Anwendung gibt es nicht.")
	anna.post("/pforte/admin/apps/photos", change...).want(http.StatusNotFound)
	anna.get("/pforte/admin/audit").shows("Anwendung hinzugefügt", "Anwendung geändert", "Anwendung entfernt", "photos")
}

// TestApplications_OnlyWhatChangedIsSaved: the form sends all fields together. Saved
// after another admin had made the rule stricter, it must not open the application again.
func TestApplications_OnlyWhatChangedIsSaved(t *testing.T) {
	f := newFixture(t)
	f.application("notes", "/notes/", "login", true)
	anna := f.anna()
	const path = "/pforte/admin/apps/notes"
	form := []string{"do", "change"}
	for _, found := range hiddenFields.FindAllStringSubmatch(anna.get(path).want(http.StatusOK).body, -1) {
		form = append(form, found[1], html.UnescapeString(found[2]))
	}
	form = append(form, "name", "Notizen", "description", "", "url", "/notes/", "rule", "login", "color", f.stored("notes").Color, "hex", "", "position", "0", "tokens", "yes")

	rule, second, tokens, address, position := "admin", true, false, "/diary/", 7
	if err := f.policy.ChangeApplication(t.Context(), session.Session{}, "notes", policy.ApplicationChange{Rule: &rule, SecondFactor: &second, Tokens: &tokens, URL: &address, Position: &position}); err != nil {
		t.Fatal(err)
	}
	want := f.stored("notes")
	want.Name = "Notizen"
	anna.post(path, form...).leadsTo(path + "?done=profile")
	if a := f.stored("notes"); a != want {
		t.Errorf("got  %+v\nwant %+v", a, want)
	}
	// A form that fails keeps what was shown at first.
	anna.post(path, append(form, "csrf", "old")...).want(http.StatusForbidden).shows(`name="was_rule" value="login"`, `name="was_second_factor" value=""`, `name="was_tokens" value="yes"`)
}

var hiddenFields = regexp.MustCompile(`<input type="hidden" name="(was_[a-z_]+)" value="([^"]*)">`)

func TestApplications_AFaultIsShownAtItsField(t *testing.T) {
	f := newFixture(t)
	f.application("notes", "/notes/", "login", false)
	anna := f.anna()
	form := map[string]string{"do": "add", "name": "Fotos", "slug": "photos", "description": "Alben", "url": "/photos/", "rule": "login"}
	for _, wrong := range []struct {
		field, value string
		status       int
	}{
		{"slug", "notes", http.StatusConflict},
		{"name", strings.Repeat("x", 65), http.StatusBadRequest},
		{"description", strings.Repeat("x", 201), http.StatusBadRequest},
		{"url", "http://nas.lan", http.StatusBadRequest},
		{"url", "javascript:alert(1)", http.StatusBadRequest},
		{"url", "/notes/", http.StatusConflict},
		{"rule", "group:", http.StatusBadRequest},
		{"rule", "all", http.StatusBadRequest},
	} {
		var fields []string
		for name, value := range form {
			if name == wrong.field {
				value = wrong.value
			}
			fields = append(fields, name, value)
		}
		a := anna.post("/pforte/admin/apps/new", fields...).want(wrong.status).shows(`href="#`+wrong.field+`"`, `id="`+wrong.field+`-why"`)
		if wrong.field != "rule" {
			a.shows(`value="` + wrong.value + `"`)
		}
	}
	anna.post("/pforte/admin/apps/notes", "do", "change", "name", "Notizen", "url", "/notes/", "rule", "login", "position", "first").want(http.StatusBadRequest).
		shows(`id="position-why"`, `value="first"`)
	// As of the API: a group that the form names is the form's fault, one that the path names is not there.
	anna.post("/pforte/admin/apps/new", "do", "add", "name", "Fotos", "slug", "photos", "url", "/photos/", "rule", "group:none").
		want(http.StatusBadRequest).shows("Diese Gruppe gibt es nicht.", `value="Fotos"`)
	if apps := must(f.policy.Applications(t.Context()))(t); len(apps) != 1 || apps[0].Name != "App notes" {
		t.Errorf("got %+v", apps)
	}
}

// TestApplications_AFailedFormKeepsAnothersBoxes: whoever saves afterwards does not switch
// something off that they never saw.
func TestApplications_AFailedFormKeepsAnothersBoxes(t *testing.T) {
	f := newFixture(t)
	f.application("notes", "/notes/", "login", true)
	anna := f.anna()
	anna.post("/pforte/admin/apps/notes", "do", "remove", "csrf", "old").want(http.StatusForbidden).shows(`name="tokens" value="yes" checked`)
	anna.post("/pforte/admin/apps/notes", "do", "change", "csrf", "old", "second_factor", "yes").want(http.StatusForbidden).
		shows(`name="second_factor" value="yes" checked`).lacks(`name="tokens" value="yes" checked`)
}

func TestAudit_SaysWhatItIsAbout(t *testing.T) {
	f := newFixture(t)
	f.group("kids", "Kinder", "otto")
	if err := f.policy.SetMember(t.Context(), "kids", "otto", false); err != nil {
		t.Fatal(err)
	}
	f.application("notes", "/notes/", "login", false)
	name := "Notizen"
	if err := f.policy.ChangeApplication(t.Context(), session.Session{}, "notes", policy.ApplicationChange{Name: &name}); err != nil {
		t.Fatal(err)
	}
	if err := f.store.Audit.Record(t.Context(), audit.Event{Name: "unknown_app", Detail: map[string]any{"app": "photos", "host": "evil.example"}}); err != nil {
		t.Fatal(err)
	}
	f.anna().get("/pforte/admin/audit").shows("Gruppe hinzugefügt", "· kids", "otto · + kids", "otto · − kids", "Anwendung geändert", "· notes", "Unbekannte Anwendung aufgerufen", "· photos, evil.example")
}

func TestGroups_AnAdminChoosesTheMembers(t *testing.T) {
	f := newFixture(t)
	paul := f.add("paul", "Paul", userPass, "member")
	if paul != 3 {
		t.Fatalf("paul has the id %d", paul)
	}
	anna := f.anna()
	anna.post("/pforte/admin/groups", "do", "add", "name", "Kinder", "slug", "admin").want(http.StatusBadRequest).shows(`id="slug-why"`, `value="Kinder"`)
	anna.post("/pforte/admin/groups", "do", "add", "name", "Kinder", "slug", "kids").leadsTo("/pforte/admin/groups/kids?done=group-added")
	anna.get("/pforte/admin/groups").shows("Kinder", "Noch niemand")
	anna.get("/pforte/admin/groups/kids").want(http.StatusOK).shows(`name="member.2"`, `name="member.3"`).lacks(`name="was.`, "checked")
	anna.post("/pforte/admin/groups/kids", "do", "change", "member.2", "yes").leadsTo("/pforte/admin/groups/kids?done=profile")
	anna.get("/pforte/admin/groups/kids").shows(`name="member.2" value="yes" checked`, `name="was.2"`)
	anna.get("/pforte/admin/groups").shows("otto")

	// Meanwhile another admin adds Paul; the form that does not know it leaves him in.
	if err := f.policy.SetMember(t.Context(), "kids", "paul", true); err != nil {
		t.Fatal(err)
	}
	anna.post("/pforte/admin/groups/kids", "do", "change", "was.2", "yes").leadsTo("/pforte/admin/groups/kids?done=profile")
	if groups := must(f.policy.Groups(t.Context()))(t); strings.Join(groups[0].Members, " ") != "paul" {
		t.Errorf("got %v", groups[0].Members)
	}
	anna.post("/pforte/admin/groups/kids", "do", "rename", "name", " ").want(http.StatusBadRequest).shows(`id="name-why"`)
	anna.post("/pforte/admin/groups/kids", "do", "rename", "name", "Jugend").leadsTo("/pforte/admin/groups/kids?done=profile")
	anna.get("/pforte/admin/groups").shows("Jugend", "paul").lacks("Kinder")
	anna.post("/pforte/admin/groups/kids", "do", "change", "member.x", "yes").want(http.StatusBadRequest)
	anna.post("/pforte/admin/groups/kids", "do", "change", "member.99", "yes").want(http.StatusBadRequest)
	anna.get("/pforte/admin/groups/none").want(http.StatusNotFound).shows("Diese Gruppe gibt es nicht.")
	anna.post("/pforte/admin/groups/none", "do", "change", "member.2", "yes").want(http.StatusNotFound)
}

func TestGroups_OneThatARuleNamesStays(t *testing.T) {
	f := newFixture(t)
	f.group("kids", "Kinder", "otto")
	f.application("photos", "/photos/", "group:kids", false)
	anna := f.anna()
	anna.get("/pforte/admin/groups/kids").shows("Nur für diese Gruppe", "App photos").lacks(`value="remove"`)
	anna.post("/pforte/admin/groups/kids", "do", "remove").want(http.StatusConflict).shows("Ändere zuerst die Anwendung.")
	anna.post("/pforte/admin/apps/photos", "do", "remove")
	anna.post("/pforte/admin/groups/kids", "do", "remove").leadsTo("/pforte/admin/groups?done=group-removed")
	anna.get("/pforte/admin/groups").lacks("Kinder")
}

func TestGroups_AreChosenForAMemberAndAnInvite(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	anna.get("/pforte/admin/members/2").lacks(`name="groups"`)
	f.group("kids", "Kinder", "otto")
	f.group("parents", "Eltern")
	anna.get("/pforte/admin/members").shows("Kinder").lacks("Eltern")
	anna.get("/pforte/admin/members/2").shows(`name="group.kids" value="yes" checked`, `name="group.parents" value="yes">`)
	const path = "/pforte/admin/members/2"
	change := []string{"do", "change", "display_name", "Otto", "color", "#34C759", "role", "member", "groups", "kids", "group.parents", "yes"}
	anna.post(path, append(change, "csrf", "old")...).want(http.StatusForbidden).shows(`name="group.parents" value="yes" checked`).lacks(`name="group.kids" value="yes" checked`)
	anna.post(path, change...).leadsTo(path + "?done=profile")
	if groups := must(f.people.Member(t.Context(), 2))(t).Groups; strings.Join(groups, " ") != "parents" {
		t.Errorf("otto is in %v", groups)
	}
	anna.post(path, "do", "change", "display_name", "Otto K.", "color", "#34C759", "role", "member").leadsTo(path + "?done=profile")
	if groups := must(f.people.Member(t.Context(), 2))(t).Groups; len(groups) != 1 {
		t.Errorf("a form without groups changed them to %v", groups)
	}
	anna.post(path, append(change, "group.none", "yes")...).want(http.StatusBadRequest)

	// The page was shown before another admin took the group away.
	anna.get(path).shows(`name="groups" value="parents"`)
	must(struct{}{}, f.policy.SetMember(t.Context(), "parents", "otto", false))(t)
	anna.post(path, "do", "change", "display_name", "Otto L.", "color", "#34C759", "role", "member", "groups", "parents", "group.parents", "yes").leadsTo(path + "?done=profile")
	if groups := must(f.people.Member(t.Context(), 2))(t).Groups; len(groups) != 0 {
		t.Errorf("a form that changed no group changed them to %v", groups)
	}
	anna.post(path, "do", "change", "display_name", "Otto L.", "color", "#34C759", "role", "member", "groups", "parents", "group.parents", "yes", "group.kids", "yes").leadsTo(path + "?done=profile")
	if groups := must(f.people.Member(t.Context(), 2))(t).Groups; strings.Join(groups, " ") != "kids" {
		t.Errorf("a form that added a group gave another one back: %v", groups)
	}
	must(struct{}{}, f.policy.SetMember(t.Context(), "parents", "otto", true))(t)
	anna.post(path, "do", "change", "display_name", "Otto L.", "color", "#34C759", "role", "member", "groups", "gone kids").leadsTo(path + "?done=profile")
	if groups := must(f.people.Member(t.Context(), 2))(t).Groups; strings.Join(groups, " ") != "parents" {
		t.Errorf("a form that took a group away took another one: %v", groups)
	}

	_, token := anna.shown("/pforte/admin/invites", "do", "invite", "username", "paul", "groups", "shown", "group.kids", "yes").want(http.StatusOK).link()
	anna.get("/pforte/admin/invites").shows(`<span class="badge">Kinder</span>`)
	f.browser().post("/pforte/join", "t", token, "password", userPass, "again", userPass, "groups", "shown", "group.parents", "yes").want(http.StatusSeeOther)
	if groups := must(f.people.Member(t.Context(), 3))(t).Groups; strings.Join(groups, " ") != "kids" {
		t.Errorf("paul is in %v", groups)
	}
}

func TestApplications_AreForAdminsWithARecentProof(t *testing.T) {
	f := newFixture(t)
	f.group("kids", "Kinder")
	f.application("notes", "/notes/", "login", false)
	anna, otto := f.anna(), f.otto()
	f.advance(10*time.Minute + time.Second)
	for _, path := range []string{"/pforte/admin/apps/new", "/pforte/admin/apps/probe", "/pforte/admin/apps/notes", "/pforte/admin/apps/notes/icon", "/pforte/admin/groups", "/pforte/admin/groups/kids"} {
		otto.get(path).want(http.StatusForbidden).lacks("App notes", "Kinder")
		otto.post(path, "do", "remove").want(http.StatusForbidden)
		anna.get(path).want(http.StatusOK)
		anna.post(path, "do", "remove").want(http.StatusForbidden).shows("<h1>Bestätigen</h1>")
	}
	f.stored("notes")
	// What was filled in is there after the proof, and is sent by the admin themselves.
	anna.post("/pforte/admin/apps/notes", "do", "change", "name", "Notizen", "url", "/notes/", "rule", "login", "position", "3", "tokens", "yes").want(http.StatusForbidden)
	anna.post("/pforte/reauth", "password", adminPass, "return", "/pforte/admin/apps/notes", "kept.do", "change", "kept.name", "Notizen", "kept.tokens", "yes").want(http.StatusOK).
		shows("Schick es bitte noch einmal ab.", `value="Notizen"`, `name="tokens" value="yes" checked`)
	if f.stored("notes").Name != "App notes" {
		t.Error("the form was sent by itself")
	}
}

var tokenShown = regexp.MustCompile(`<p class="secret" id="secret">(pft_[A-Za-z0-9_-]{43})</p>`)

// newToken creates an app token of a browser's user for an application and returns it.
func (b *browser) newToken(slug string) string {
	b.f.t.Helper()
	a := b.shown("/pforte/account/tokens", "do", "create", "name", "Kalender", "days", "30", "app."+slug, "yes").want(http.StatusOK)
	found := tokenShown.FindStringSubmatch(a.body)
	if found == nil {
		b.f.t.Fatalf("no token is shown: %s", a.text())
	}
	return found[1]
}

// Who may open no application that takes app passwords reads just that, also where there is one for others.
func TestAppToken_OfNoApplicationSaysWhoAllowsIt(t *testing.T) {
	f := newFixture(t)
	f.application("backup", "/backup/", "admin", true)
	f.otto().get("/pforte/account/tokens").want(http.StatusOK).lacks("Noch keine Anwendung", "Neues App-Passwort").
		shows("Keine Anwendung, die du öffnen darfst, nimmt App-Passwörter an. Administratoren schalten das")
}

func TestAppToken_IsShownOnce(t *testing.T) {
	f := newFixture(t)
	f.application("dav", "/dav/", "login", true)
	f.application("notes", "/notes/", "login", false)
	f.application("backup", "/backup/", "admin", true)
	otto := f.otto()
	otto.get("/pforte/account/tokens").want(http.StatusOK).shows("Neues App-Passwort", "app.dav").lacks("app.notes", "app.backup")
	otto.post("/pforte/account/tokens", "do", "create", "name", "Kalender", "days", "30").want(http.StatusBadRequest).shows(`id="apps-why"`, `value="Kalender"`)
	otto.post("/pforte/account/tokens", "do", "create", "name", "", "days", "30", "app.dav", "yes").want(http.StatusBadRequest).shows(`id="name-why"`, `name="app.dav" value="yes" checked`)
	otto.post("/pforte/account/tokens", "do", "create", "name", "x", "days", "31", "app.dav", "yes").want(http.StatusBadRequest)
	for _, slug := range []string{"notes", "backup", "none"} {
		otto.post("/pforte/account/tokens", "do", "create", "name", "x", "days", "0", "app."+slug, "yes").want(http.StatusBadRequest)
	}
	if made := must(f.policy.TokensFor(t.Context(), "otto"))(t); len(made) != 0 {
		t.Fatalf("got %+v", made)
	}

	text := otto.newToken("dav")
	made, visitor, err := f.policy.TokenVisitor(t.Context(), text, "otto")
	if err != nil || visitor.User.ID != 2 || strings.Join(made.Applications, " ") != "dav" || made.ReadOnly || made.ExpiresAt != f.Now().Add(30*24*time.Hour) {
		t.Errorf("got %+v, %v", made, err)
	}
	otto.get("/pforte/account/tokens").shows("Kalender", "App dav", text[:8], "noch nie benutzt").lacks(text)
	otto.shown("/pforte/account/tokens", "do", "create", "name", "Leser", "days", "0", "app.dav", "yes", "read_only", "yes").want(http.StatusOK)
	if last := must(f.policy.TokensFor(t.Context(), "otto"))(t)[0]; !last.ReadOnly || !last.ExpiresAt.IsZero() {
		t.Errorf("got %+v", last)
	}
	if strings.Contains(f.log.String(), text) {
		t.Error("the token is in the log")
	}
	f.anna().get("/pforte/account/tokens").want(http.StatusOK).lacks(text[:8])
	otto.get("/pforte/").shows("Sicherheitshinweise", "App-Passwort erstellt") // as a new passkey is
}

func TestAppToken_CreatingNeedsARecentProof(t *testing.T) {
	f := newFixture(t)
	f.application("dav", "/dav/", "login", true)
	otto := f.otto()
	otto.newToken("dav")
	f.advance(10*time.Minute + time.Second)
	otto.get("/pforte/account/tokens").want(http.StatusOK).shows("Kalender", "app.dav")
	otto.post("/pforte/account/tokens", "do", "create", "name", "Zweiter", "days", "30", "app.dav", "yes").want(http.StatusForbidden).
		shows("<h1>Bestätigen</h1>", `name="kept.app.dav" value="yes"`, `name="kept.name" value="Zweiter"`)
	otto.post("/pforte/account/tokens", "do", "revoke", "id", "1").leadsTo("/pforte/account/tokens?done=token-revoked")
	if made := must(f.policy.TokensFor(t.Context(), "otto"))(t); len(made) != 1 || made[0].RevokedAt.IsZero() {
		t.Errorf("got %+v", made)
	}
}

func TestAppToken_ToEndAnothersNeedsARecentProof(t *testing.T) {
	f := newFixture(t)
	f.application("dav", "/dav/", "login", true)
	f.otto().newToken("dav")
	anna := f.anna()
	anna.newToken("dav")
	f.advance(10*time.Minute + time.Second)
	for _, do := range []string{"revoke", "remove"} {
		anna.post("/pforte/account/tokens", "do", do, "id", "1").want(http.StatusForbidden).shows("<h1>Bestätigen</h1>")
	}
	anna.post("/pforte/account/tokens", "do", "revoke", "id", "2").leadsTo("/pforte/account/tokens?done=token-revoked")
	if kept := must(f.policy.TokensFor(t.Context(), "otto"))(t); len(kept) != 1 || !kept[0].RevokedAt.IsZero() {
		t.Errorf("got %+v", kept)
	}
}

func TestAppToken_IsRevokedAndRemoved(t *testing.T) {
	f := newFixture(t)
	f.application("dav", "/dav/", "login", true)
	anna, otto := f.anna(), f.otto()
	foreign := anna.newToken("dav") // has the id 1
	first, second, third := otto.newToken("dav"), otto.newToken("dav"), otto.newToken("dav")
	otto.post("/pforte/account/tokens", "do", "remove", "id", "2").want(http.StatusConflict).shows("Widerruf es zuerst.")
	otto.post("/pforte/account/tokens", "do", "revoke", "id", "2").leadsTo("/pforte/account/tokens?done=token-revoked")
	otto.get("/pforte/account/tokens").shows("widerrufen", `value="remove"`)
	otto.post("/pforte/account/tokens", "do", "remove", "id", "2").leadsTo("/pforte/account/tokens?done=token-removed")
	otto.post("/pforte/account/tokens", "do", "remove", "id", "2").leadsTo("/pforte/account/tokens?done=token-removed")
	otto.post("/pforte/account/tokens", "do", "all").leadsTo("/pforte/account/tokens?done=tokens-revoked")
	otto.get("/pforte/account/tokens").lacks("Alle widerrufen")
	for _, text := range []string{first, second, third} {
		if _, _, err := f.policy.TokenVisitor(t.Context(), text, ""); err == nil {
			t.Error("a revoked token is valid")
		}
	}
	otto.post("/pforte/account/tokens", "do", "revoke", "id", "1").want(http.StatusNotFound).shows("Dieses App-Passwort gibt es nicht mehr.")
	otto.post("/pforte/account/tokens", "do", "remove", "id", "1").leadsTo("/pforte/account/tokens?done=token-removed")
	otto.post("/pforte/account/tokens", "do", "revoke", "id", "x").want(http.StatusBadRequest)
	otto.post("/pforte/account/tokens", "do", "other", "id", "1").want(http.StatusBadRequest)
	if _, _, err := f.policy.TokenVisitor(t.Context(), foreign, ""); err != nil {
		t.Errorf("another user's token: %v", err)
	}
	f.advance(31 * 24 * time.Hour)
	f.anna().get("/pforte/account/tokens").shows("abgelaufen")
}

func TestAppToken_OfAMemberIsRevokedByAnAdmin(t *testing.T) {
	f := newFixture(t)
	f.application("dav", "/dav/", "login", true)
	anna, otto := f.anna(), f.otto()
	anna.get("/pforte/admin/members/2").lacks("App-Passwörter</h2>")
	text := otto.newToken("dav")
	anna.get("/pforte/admin/members/2").shows("Kalender", "App dav", text[:8]).lacks(text)
	anna.post("/pforte/admin/members/2", "do", "revoke", "id", "1").leadsTo("/pforte/admin/members/2?done=token-revoked")
	if _, _, err := f.policy.TokenVisitor(t.Context(), text, ""); err == nil {
		t.Error("the token is valid")
	}
	anna.post("/pforte/admin/members/2", "do", "remove", "id", "1").leadsTo("/pforte/admin/members/2?done=token-removed")
	otto.get("/pforte/account/tokens").lacks("Kalender</strong>")
}

func TestAppToken_RemainingOnesAreShownAfterANewPassword(t *testing.T) {
	f := newFixture(t)
	f.application("dav", "/dav/", "login", true)
	otto := f.otto()
	otto.get(security).lacks("Deine App-Passwörter gelten")
	otto.newToken("dav")
	otto.get(security).shows("Deine App-Passwörter gelten auch mit dem neuen Passwort weiter: 1.", `href="/pforte/account/tokens"`)
	_, token := f.anna().shown("/pforte/admin/members/2", "do", "reset-link").want(http.StatusOK).link()
	b := f.browser()
	const list = "/pforte/account/tokens?done=tokens-left"
	b.post("/pforte/reset", "t", token, "password", "a new secret").leadsTo(list)
	b.get(list).want(http.StatusOK).shows("Diese App-Passwörter gelten weiter", "Kalender", "Widerrufen")
	b.get(security + "?done=passkeys-left").shows("Deine App-Passwörter gelten auch mit dem neuen Passwort weiter: 1.")
}

// TestApplication_SaysThatNobodyIsInItsGroup, where the group is chosen and after that: nobody can open it.
func TestApplication_SaysThatNobodyIsInItsGroup(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	anna.post("/pforte/admin/groups", "slug", "reader", "name", "Leser").want(http.StatusSeeOther)
	const choice, warned = "Gruppe Leser (niemand)", "In der Gruppe „Leser“ ist niemand"
	anna.get(newApp).want(http.StatusOK).shows(choice).lacks(warned)
	made := anna.post(newApp, "name", "Fotos", "url", "https://fotos.example.org", "rule", "group:reader", "do", "add").
		want(http.StatusSeeOther)
	anna.get(made.header.Get("Location")).want(http.StatusOK).
		shows(choice, warned, `href="/pforte/admin/groups/reader"`)
	anna.post("/pforte/admin/groups/reader", "member.2", "yes", "do", "change").want(http.StatusSeeOther)
	anna.get("/pforte/admin/apps/fotos").want(http.StatusOK).shows("Gruppe Leser").lacks(choice, warned)
}
