package pages_test

import (
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

const home = "https://home.example.org"

// newProviding is a fixture whose pages are at the household's address, with a browser of each user.
func newProviding(t *testing.T) (f *fixture, anna, otto *browser) {
	t.Helper()
	f = newFixture(t, func(o *web.Options) { o.PublicURL = home })
	for _, of := range []struct {
		name, pass string
		b          **browser
	}{{"anna", adminPass, &anna}, {"otto", userPass, &otto}} {
		*of.b = f.browser()
		(*of.b).host = "home.example.org"
		(*of.b).post("/pforte/login", "username", of.name, "password", of.pass).want(http.StatusSeeOther)
	}
	return f, anna, otto
}

var secretOf = regexp.MustCompile(`pfc_[\w-]{43}`)

// grafana adds Grafana by its recipe, and returns its secret.
func (b *browser) grafana(fields ...string) string {
	b.f.t.Helper()
	shown := b.shown("/pforte/admin/sign-in/new/grafana", append([]string{
		"name", "Grafana", "url", "https://grafana.example.org", "rule", "login", "do", "add",
	}, fields...)...)
	return secretOf.FindString(shown.body)
}

// Nobody else takes it away: the admin has to log in again, and finds the address taken.
func TestNewClient_LeavesNoApplicationWhereTheSessionEndsMeanwhile(t *testing.T) {
	f, anna, _ := newProviding(t)
	f.entering = func() { must(f.store.Users.EndSessions(t.Context(), 1, session.Session{}))(t) }
	anna.post("/pforte/admin/sign-in/new/grafana", "name", "Grafana", "url", "https://grafana.example.org",
		"rule", "login",
		"do", "add")
	if apps := must(f.store.Applications.Applications(t.Context()))(t); len(apps) > 0 {
		t.Errorf("%q is left", apps[0].Slug)
	}
}

// authorize leads a browser from an application, with a change of the request's parameters.
func (b *browser) authorize(change ...string) reply {
	b.f.t.Helper()
	query := url.Values{
		"client_id": {"grafana"}, "redirect_uri": {"https://grafana.example.org/login/generic_oauth"}, "state": {"s"},
		"response_type": {"code"}, "scope": {"openid profile email groups"},
	}
	for i := 0; i < len(change); i += 2 {
		query.Set(change[i], change[i+1])
	}
	return b.get("/pforte/oidc/authorize?" + query.Encode())
}

// signedIn has a user sign in at Grafana.
func (b *browser) signedIn(secret string) {
	b.f.t.Helper()
	to := must(url.Parse(b.authorize().want(http.StatusSeeOther).header.Get("Location")))(b.f.t)
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {to.Query().Get("code")},
		"redirect_uri": {"https://grafana.example.org/login/generic_oauth"},
		"client_id":    {"grafana"}, "client_secret": {secret},
	}
	r := httptest.NewRequestWithContext(b.f.t.Context(), http.MethodPost, "/pforte/oidc/token", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	app := &browser{f: b.f, cookies: map[string]string{}, headers: http.Header{}, host: b.host}
	var tokens struct {
		ID string `json:"id_token"`
	}
	if err := json.Unmarshal([]byte(app.do(r).want(http.StatusOK).body), &tokens); err != nil || tokens.ID == "" {
		b.f.t.Fatalf("tokens: %v", err)
	}
}

func TestNewApplication_OffersAProductInOnePlace(t *testing.T) {
	_, anna, _ := newProviding(t)
	for _, product := range []string{"grafana", "home-assistant", "immich", "jellyfin", "paperless"} {
		anna.get(newApp).want(http.StatusOK).shows(`href="/pforte/admin/sign-in/new/` + product + `"`).lacks(`<option value="` + product + `"`)
	}
	anna.get("/pforte/admin/sign-in/new/other").want(http.StatusOK).shows("<h1>Neue Anwendung</h1>")
	anna.get(newApp).shows("Steht deine Anwendung hier, wähl sie hier", "Für alle anderen", `<option value="radicale"`)
	newFixture(t).anna().get(newApp).want(http.StatusOK).shows(`<option value="grafana"`) // there is no other way to it
}

func TestClients_AreAddedFromTheirRecipeWithASecretShownOnce(t *testing.T) {
	_, anna, _ := newProviding(t)
	anna.get("/pforte/admin/apps/new").want(http.StatusOK).shows("Was soll dazukommen?", "/pforte/admin/sign-in/new/grafana")
	anna.get("/pforte/admin/sign-in/new/grafana").want(http.StatusOK).shows(`value="https://grafana.home.example.org"`)
	made := anna.post("/pforte/admin/sign-in/new/grafana", "name", "Grafana", "url", "https://grafana.example.org/", "rule", "login", "do", "add").want(http.StatusSeeOther)
	at := made.header.Get("Location")
	shown := anna.get(at).want(http.StatusOK).shows("Diese Angaben jetzt in Grafana eintragen", "client_id = grafana", "auth_url = https://home.example.org/pforte/oidc/authorize", "root_url = https://grafana.example.org/\n", "Probeanmeldung")
	secret := secretOf.FindString(shown.body)
	if secret == "" || shown.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("secret %q, Cache-Control %q", secret, shown.header.Get("Cache-Control"))
	}
	anna.get(at).shows(secret)
	anna.get("/pforte/admin/sign-in/grafana").want(http.StatusOK).lacks(secret).shows(
		"https://grafana.example.org/login/generic_oauth", "…"+secret[len(secret)-4:], "noch nie benutzt", "Gerade niemand.",
		"Grafana behält die eigene Anmeldung")
	anna.get("/pforte/admin/apps/grafana").shows("Grafana fragt Pforte, wer sich anmeldet.")
	anna.get("/pforte/admin/sign-in/grafana?user=otto").shows("otto@home.example.org.invalid")
	anna.get("/pforte/admin/sign-in/trial/grafana").want(http.StatusOK).shows("Es klappt.", "anna@home.example.org.invalid", "admin")
	_, once, _ := strings.Cut(at, "once=")
	anna.post("/pforte/admin/sign-in/grafana", "once", once).leadsTo("/pforte/admin/sign-in/grafana")
	anna.get(at).want(http.StatusNotFound).lacks(secret)
}

// What signs in below the portal's host needs a way there, which the form asks for and the next pages miss; what has an
// address of its own needs none.
func TestClients_OfAHostBelowThePortalAskWhereTheyRun(t *testing.T) {
	f, anna, _ := newProviding(t)
	f.proxy(application.Probe{Status: 200}, nil)
	const page = "/pforte/admin/sign-in/new/miniflux"
	anna.get(page).want(http.StatusOK).shows(`name="upstream"`, "app.js", `data-app="/pforte/admin/apps/probe"`).lacks(`value="probe"`)
	anna.post(page, "name", "News", "url", "news", "upstream", "nas:80/x", "do", "add").want(http.StatusBadRequest).shows("Die interne Adresse hat die Form")
	if apps := must(f.policy.Applications(t.Context()))(t); len(apps) != 0 {
		t.Errorf("got %+v", apps)
	}
	const missing = "Noch nicht erreichbar"
	anna.shown(page, "name", "News", "url", "news", "upstream", "nas:80", "do", "add").want(http.StatusOK).lacks(missing)
	if got := f.stored("news"); got.Route.Upstream != "http://nas:80" || !got.Reached {
		t.Errorf("got %+v", got)
	}
	anna.shown(page, "name", "Neues", "url", "neues", "do", "add").want(http.StatusOK).shows(missing, "/pforte/admin/apps/neues")
	anna.get("/pforte/admin/sign-in/trial/neues").shows("Es klappt.", missing, "/pforte/admin/apps/neues").lacks("https://neues.home.example.org")
	anna.shown(page, "name", "Fern", "url", "https://192.168.1.5:2283", "do", "add").want(http.StatusOK).lacks(missing)
	anna.get("/pforte/admin/apps/fern").want(http.StatusOK).lacks(missing)
	anna.get("/pforte/admin/apps/neues").want(http.StatusOK).shows(missing)
}

// In a container localhost is the container itself, whatever name the proxy gets.
func TestClients_InAContainerDoNotReachLocalhost(t *testing.T) {
	grafana := []string{"name", "Grafana", "url", "https://grafana.example.org", "rule", "login", "do", "add"}
	const nobodyAsked = "hat noch nie nach dem Ergebnis einer Anmeldung gefragt"
	f := newFixture(t, func(o *web.Options) { o.PublicURL = "http://localhost:8080" })
	anna := f.anna()
	anna.host = "localhost:8080"
	anna.shown("/pforte/admin/sign-in/new/grafana", grafana...).want(http.StatusOK).
		shows("Die Adresse beginnt mit localhost").lacks("als Alias")
	anna.authorize().want(http.StatusSeeOther)
	f.audit.Drain()
	f.advance(2 * time.Minute)
	for _, page := range []string{"grafana", "trial/grafana"} {
		anna.get("/pforte/admin/sign-in/"+page).want(http.StatusOK).
			shows(nobodyAsked, "Die Adresse beginnt mit localhost").lacks("diesen Namen kennen")
	}
	f, anna, _ = newProviding(t)
	anna.shown("/pforte/admin/sign-in/new/grafana", grafana...).want(http.StatusOK).shows("als Alias").lacks("localhost")
	anna.authorize().want(http.StatusSeeOther)
	f.audit.Drain()
	f.advance(2 * time.Minute)
	anna.get("/pforte/admin/sign-in/grafana").want(http.StatusOK).
		shows(nobodyAsked, "diesen Namen kennen").lacks("localhost")
}

func TestClients_OfAnApplicationThatThereIsKeepItsName(t *testing.T) {
	_, anna, _ := newProviding(t)
	anna.post("/pforte/admin/apps/new", "name", "Fotos", "url", "https://fotos.example.org", "do", "add").want(http.StatusSeeOther)
	anna.get("/pforte/admin/apps/fotos").shows("Hat diese Anwendung eine eigene Anmeldung?")
	anna.get("/pforte/admin/sign-in/fotos").want(http.StatusOK).shows("/pforte/admin/sign-in/new/immich?app=fotos")
	anna.get("/pforte/admin/sign-in/new/immich?app=fotos").want(http.StatusOK).shows(`value="https://fotos.example.org"`).lacks(`name="rule"`)
	anna.shown("/pforte/admin/sign-in/new/immich", "app", "fotos", "url", "https://fotos.example.org", "do", "add").want(http.StatusOK).shows(
		"Diese Angaben jetzt in Fotos eintragen", `value="fotos"`)
	anna.get("/pforte/admin/sign-in/fotos").shows("app.immich:///oauth-callback", "https://fotos.example.org/user-settings")
}

func TestClients_FaultsAreAtTheirFieldsAndLeaveNothingBehind(t *testing.T) {
	_, anna, _ := newProviding(t)
	for _, c := range []struct {
		fields       []string
		field, fault string
	}{
		{[]string{"name", "Lager", "url", "https://lager.example.org/?x", "redirects", "https://lager.example.org/cb"}, "url", "Gib einen Pfad"},
		{[]string{"name", "Lager", "url", "https://lager.example.org", "redirects", "https://lager.example.org/cb#x"}, "redirects", "ohne # und *"},
		{[]string{"name", "Lager", "url", "https://lager.example.org", "redirects", "javascript:alert(1)"}, "redirects", "ohne # und *"},
		{[]string{"name", "Lager", "url", "https://lager.example.org", "redirects", " \n "}, "redirects", "Gib 1 bis 10 Adressen ein."},
		{[]string{"name", " ", "url", "https://lager.example.org", "redirects", "https://lager.example.org/cb"}, "name", "Der Name muss"},
	} {
		page := anna.post("/pforte/admin/sign-in/new/other", append(c.fields, "rule", "admin", "do", "add")...).want(http.StatusBadRequest)
		page.shows(c.fault, `id="`+c.field+`-why"`, `<option value="admin" selected>`)
		for i := 1; i < len(c.fields); i += 2 {
			if typed := strings.TrimSpace(c.fields[i]); typed != "" {
				page.shows(typed)
			}
		}
		anna.get("/pforte/admin/apps/lager").want(http.StatusNotFound)
	}
	anna.grafana()
	anna.post("/pforte/admin/sign-in/grafana", "redirects", "https://grafana.example.org/x", "after", "https://grafana.example.org/#", "groups", "always", "ask", "yes", "do", "change").want(http.StatusBadRequest).
		shows(`id="after-why"`, "https://grafana.example.org/x", `<option value="always" selected>`)
	anna.post("/pforte/admin/sign-in/grafana", "redirects", "https://grafana.example.org/x", "logout", "ftp://x", "groups", "asked", "do", "change").want(http.StatusBadRequest).
		shows(`id="logout-why"`, "ftp://x")
}

func TestClients_LookingNeedsNoProofAndChangingDoes(t *testing.T) {
	f, anna, otto := newProviding(t)
	anna.grafana()
	f.advance(2 * time.Hour)
	for _, path := range []string{"/pforte/admin/sign-in/grafana", "/pforte/admin/sign-in/new/grafana", "/pforte/admin/sign-in/trial/grafana", "/pforte/admin/keys"} {
		anna.get(path).want(http.StatusOK)
		otto.get(path).want(http.StatusForbidden)
	}
	for _, path := range []string{"/pforte/admin/sign-in/grafana", "/pforte/admin/sign-in/new/grafana", "/pforte/admin/keys"} {
		anna.post(path, "do", "rotate").want(http.StatusForbidden).shows("Bestätige kurz")
	}
}

func TestClients_APreviewSaysWhoNeedsASecondFactor(t *testing.T) {
	f, anna, _ := newProviding(t)
	anna.grafana()
	err := f.policy.ChangeApplication(t.Context(), session.Session{}, "grafana",
		policy.ApplicationChange{SecondFactor: new(true)})
	if err != nil {
		t.Fatal(err)
	}
	const at = "/pforte/admin/sign-in/grafana?user=otto"
	const needs = "otto braucht für diese Anwendung zuerst einen zweiten Faktor."
	anna.get(at).want(http.StatusOK).shows(needs)
	otto := must(f.store.Users.ByID(t.Context(), 2))(t)
	if err := f.store.Users.Rehash(t.Context(), 2, otto.PasswordHash, user.NoPassword); err != nil {
		t.Fatal(err)
	}
	anna.get(at).want(http.StatusOK).lacks(needs).shows("preferred_username") // a login by passkey has two factors
}

func TestClients_HaveTwoSecretsAtMost(t *testing.T) {
	f, anna, otto := newProviding(t)
	first := anna.grafana()
	second := secretOf.FindString(anna.shown("/pforte/admin/sign-in/grafana", "do", "secret").shows("client_id = grafana", "root_url = https://grafana.example.org/\n").body)
	anna.post("/pforte/admin/sign-in/grafana", "do", "secret").want(http.StatusConflict).shows("Es gibt schon zwei Geheimnisse.")
	otto.signedIn(second)
	f.audit.Drain()
	page := anna.get("/pforte/admin/sign-in/grafana").shows("…"+first[len(first)-4:], "…"+second[len(second)-4:], "Zuletzt benutzt")
	id := regexp.MustCompile(`name="secret" value="(\d+)"`).FindStringSubmatch(page.body)
	anna.post("/pforte/admin/sign-in/grafana", "do", "unsecret", "secret", id[1]).leadsTo("/pforte/admin/sign-in/grafana?done=client-secret-removed")
	anna.get("/pforte/admin/sign-in/grafana").lacks("…" + first[len(first)-4:])
}

// A secret that is made is shown, whatever fails after it: it cannot be read later.
func TestClients_ANewSecretIsShown(t *testing.T) {
	f, anna, _ := newProviding(t)
	anna.grafana()
	f.failing["after a secret"] = true
	to := anna.post("/pforte/admin/sign-in/grafana", "do", "secret").want(http.StatusSeeOther).header.Get("Location")
	f.failing["clients"] = false
	anna.get(to).want(http.StatusOK).shows("client_id = grafana", "root_url = https://grafana.example.org/\n")
}

func TestClients_ARefusedAddressIsTakenOverWithOnePress(t *testing.T) {
	f, anna, otto := newProviding(t)
	anna.grafana()
	wrong := "https://grafana.example.org/login/generic_oauth/"
	otto.authorize("redirect_uri", wrong).want(http.StatusBadRequest).shows("nicht eingetragen ist").lacks(wrong)
	anna.authorize("redirect_uri", wrong).want(http.StatusBadRequest).shows("/pforte/admin/sign-in/grafana#refused")
	f.audit.Drain()
	anna.get("/pforte/admin/sign-in/grafana").shows("Zuletzt abgewiesen", "Unbekannte Adresse", wrong, "Übernehmen")
	anna.post("/pforte/admin/sign-in/grafana", "do", "take", "address", wrong).leadsTo("/pforte/admin/sign-in/grafana?done=client-address")
	anna.get("/pforte/admin/sign-in/grafana").lacks("Übernehmen")
	otto.authorize("redirect_uri", wrong).want(http.StatusSeeOther)
}

func TestAuthorize_SaysWhyItLeadsNowhere(t *testing.T) {
	_, anna, otto := newProviding(t)
	anna.grafana("rule", "admin")
	otto.authorize("client_id", "nobody").want(http.StatusBadRequest).shows("Diese Anwendung ist hier nicht eingetragen.")
	otto.get("/pforte/oidc/authorize?r=gone").want(http.StatusBadRequest).shows("Diese Anmeldung hat zu lange gedauert.")
	otto.get("/pforte/continue?r=gone").want(http.StatusBadRequest).shows("Diese Anmeldung hat zu lange gedauert.")
	denied := otto.authorize().want(http.StatusForbidden).shows("Grafana: kein Zugang", "Um Zugang bitten", "Zurück zu Grafana", "Angemeldet als Otto")
	denied.shows("https://grafana.example.org/login/generic_oauth?error=access_denied", "state=s")
	otto.headers.Set("Accept-Language", "en")
	otto.authorize().want(http.StatusForbidden).shows("You may not open this application.", "Back to Grafana")
}

func TestLogin_SaysToWhichApplicationItLeads(t *testing.T) {
	f, anna, _ := newProviding(t)
	anna.grafana()
	someone := f.browser()
	someone.host = "home.example.org"
	to := someone.authorize("login_hint", "otto").want(http.StatusSeeOther).header.Get("Location")
	page := someone.get(to).want(http.StatusOK).shows("Weiter zu Grafana", `value="otto"`)
	if csp := page.header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self' https://grafana.example.org;") {
		t.Errorf("the policy is %q", csp)
	}
	back := must(url.Parse(to))(t).Query().Get("return")
	someone.post("/pforte/login", "username", "otto", "password", userPass, "return", back).leadsTo(back)
	if at := someone.get(back).want(http.StatusSeeOther).header.Get("Location"); !strings.HasPrefix(at, "https://grafana.example.org/login/generic_oauth?code=") {
		t.Errorf("leads to %s", at)
	}
}

var onwards = regexp.MustCompile(`href="(app\.immich:[^"]+)"`)

// TestContinue_AsksWhereTheAddressProvesNothing is D14 of the design: any program on the device can claim a scheme.
// authorized returns how many requests for logins at applications had a result.
func (f *fixture) authorized(result string) (n float64) {
	f.t.Helper()
	for _, family := range must(f.registry.Gather())(f.t) {
		for _, m := range family.GetMetric() {
			if family.GetName() == "auth_oidc_authorizations_total" && m.GetLabel()[0].GetValue() == result {
				n = m.GetCounter().GetValue()
			}
		}
	}
	return n
}

func TestContinue_AsksWhereTheAddressProvesNothing(t *testing.T) {
	f, anna, otto := newProviding(t)
	anna.shown("/pforte/admin/sign-in/new/immich", "name", "Fotos", "url", "https://fotos.example.org", "do", "add")
	ask := func() string {
		to := otto.authorize("client_id", "fotos", "redirect_uri", "app.immich:///oauth-callback").want(http.StatusSeeOther).header.Get("Location")
		otto.get(to).want(http.StatusOK).shows("Bei „Fotos“ anmelden?", "Ein Programm auf diesem Gerät", "Angemeldet als Otto")
		_, handle, _ := strings.Cut(to, "?r=")
		return handle
	}
	page := otto.post("/pforte/continue", "r", ask(), "do", "yes").want(http.StatusOK).shows("Fotos öffnen")
	link := onwards.FindStringSubmatch(page.body)
	if link == nil || !strings.Contains(link[1], "app.immich:///oauth-callback?code=") {
		t.Fatalf("the page leads to %v", link)
	}
	page = otto.post("/pforte/continue", "r", ask(), "do", "no").want(http.StatusOK).shows("Du bist dort nicht angemeldet.")
	if link := onwards.FindStringSubmatch(page.body); link == nil || !strings.Contains(html.UnescapeString(link[1]), "error=access_denied") {
		t.Fatalf("the page leads to %v", link)
	}
	handle := ask()
	otto.post("/pforte/continue", "r", handle, "do", "yes", "csrf", "wrong").want(http.StatusForbidden)
	for result, want := range map[string]float64{"code": 1, "access_denied": 1, "interrupted": 3} {
		if got := f.authorized(result); got != want {
			t.Errorf("%v are counted as %s", got, result)
		}
	}
}

func TestContinue_OffersAnotherAccount(t *testing.T) {
	_, anna, otto := newProviding(t)
	anna.grafana()
	to := otto.authorize("prompt", "select_account").want(http.StatusSeeOther).header.Get("Location")
	otto.get(to).want(http.StatusOK).shows("Weiter als Otto?", "Anderes Konto")
	_, handle, _ := strings.Cut(to, "?r=")
	if at := otto.post("/pforte/continue", "r", handle, "do", "yes").want(http.StatusSeeOther).header.Get("Location"); !strings.Contains(at, "code=") {
		t.Errorf("leads to %s", at)
	}
	otto.post("/pforte/continue", "r", handle, "do", "other").leadsTo("/pforte/login?return=" + url.QueryEscape("/pforte/oidc/authorize?r="+handle))
}

func TestAuthorize_SendsAFormWhereTheApplicationAsksForOne(t *testing.T) {
	_, anna, otto := newProviding(t)
	anna.grafana()
	page := otto.authorize("response_mode", "form_post").want(http.StatusOK).shows(`action="https://grafana.example.org/login/generic_oauth"`, `name="code"`, `name="iss"`, "/pforte/post.js", "Weiter")
	if csp := page.header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self' https://grafana.example.org;") {
		t.Errorf("the policy is %q", csp)
	}
}

// TestNotices_SayWhatAnApplicationLearns: the client decides about groups, not the scope alone. Rows of before have the
// scopes only.
func TestNotices_SayWhatAnApplicationLearns(t *testing.T) {
	f, anna, otto := newProviding(t)
	secret := anna.grafana()
	anna.post("/pforte/admin/sign-in/grafana", "redirects", "https://grafana.example.org/login/generic_oauth",
		"groups", "never", "do", "change").want(http.StatusSeeOther)
	otto.signedIn(secret)
	otto.get("/pforte/").shows("Erste Anmeldung bei Grafana. Die Anwendung erfährt: Name, Benutzername, E-Mail.")
	if err := f.store.Audit.Record(t.Context(), audit.Event{
		Name: "oidc_first_login", SubjectID: 1, SubjectName: "anna",
		Detail: map[string]any{"app": "photos", "scopes": "openid email groups"},
	}); err != nil {
		t.Fatal(err)
	}
	anna.get("/pforte/").shows("Erste Anmeldung bei photos. Die Anwendung erfährt: E-Mail, Gruppen.")
}

func TestConnections_AreSeenAndEndedByTheirUser(t *testing.T) {
	_, anna, otto := newProviding(t)
	otto.get("/pforte/account/connections").want(http.StatusOK).shows("Noch keine.")
	secret := anna.grafana()
	otto.signedIn(secret)
	otto.signedIn(secret)
	otto.get("/pforte/").shows("Erste Anmeldung bei Grafana. Die Anwendung erfährt: Name, Benutzername, E-Mail, Gruppen.")
	page := otto.get("/pforte/account/connections").want(http.StatusOK).shows("Grafana", "Erfährt: Name, Benutzername, E-Mail, Gruppen", "Verbindung trennen")
	if n := strings.Count(page.body, `name="app" value="grafana"`); n != 1 {
		t.Errorf("%d connections with one application", n)
	}
	anna.get("/pforte/admin/sign-in/grafana").shows("Otto")
	otto.post("/pforte/account/connections", "do", "disconnect", "app", "grafana").leadsTo("/pforte/account/connections?done=disconnected")
	otto.get("/pforte/account/connections").shows("Noch keine.")
	anna.get("/pforte/admin/sign-in/grafana").shows("Gerade niemand.")
}

func TestClients_WhoIsSignedInCanBeSignedOut(t *testing.T) {
	_, anna, otto := newProviding(t)
	otto.signedIn(anna.grafana())
	page := anna.get("/pforte/admin/sign-in/grafana")
	grant := regexp.MustCompile(`name="grant" value="([^"]+)"`).FindStringSubmatch(page.body)
	anna.post("/pforte/admin/sign-in/grafana", "do", "end", "grant", grant[1]).leadsTo("/pforte/admin/sign-in/grafana?done=disconnected")
	otto.get("/pforte/account/connections").shows("Noch keine.")
	anna.post("/pforte/admin/sign-in/grafana", "do", "remove").leadsTo("/pforte/admin/apps/grafana?done=client-removed")
	otto.authorize().want(http.StatusBadRequest).shows("Diese Anwendung ist hier nicht eingetragen.")
	anna.get("/pforte/admin/sign-in/grafana").want(http.StatusOK).shows("Hat diese Anwendung eine eigene Anmeldung?")
}

func TestEmail_OfAMemberIsConfirmedByAnAdmin(t *testing.T) {
	_, anna, otto := newProviding(t)
	otto.post("/pforte/account", "do", "email", "email", "otto@").want(http.StatusBadRequest).shows(`id="email-why"`, `value="otto@"`)
	otto.post("/pforte/account", "do", "email", "email", "otto@example.org").leadsTo("/pforte/account?done=profile")
	otto.get("/pforte/account").shows("otto@example.org", "noch nicht bestätigt")
	anna.get("/pforte/admin/members/2").shows("otto@example.org", "noch nicht bestätigt", "Bestätigen")
	anna.post("/pforte/admin/members/2", "do", "email", "email", "otto@example.org").leadsTo("/pforte/admin/members/2?done=profile")
	otto.get("/pforte/account").shows("bestätigt").lacks("noch nicht bestätigt")
}

func TestKeys_AreRotatedByAnAdmin(t *testing.T) {
	_, anna, _ := newProviding(t)
	anna.get("/pforte/admin/keys").want(http.StatusOK).shows("Die Schlüssel entstehen mit der ersten Anwendung.")
	anna.grafana()
	anna.get("/pforte/admin/sign-in/grafana")
	anna.get("/pforte/admin/keys").want(http.StatusOK).shows("unterschreibt", "Schlüssel wechseln")
	anna.post("/pforte/admin/keys", "do", "rotate").leadsTo("/pforte/admin/keys?done=keys-rotated")
	anna.get("/pforte/admin/keys").shows("kommt als Nächstes").lacks("Schlüssel wechseln")
}

func TestClients_PagesSayWhyThereIsNoProvider(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	anna.get("/pforte/admin/apps/new").want(http.StatusOK).lacks("Was soll dazukommen?")
	anna.get("/pforte/admin/sign-in/new/grafana").want(http.StatusOK).shows("Dafür fehlt die öffentliche Adresse").lacks(`name="url"`)
	anna.post("/pforte/admin/sign-in/new/grafana", "name", "Grafana", "url", "https://grafana.example.org", "do", "add").want(http.StatusConflict).shows("Dafür fehlt die öffentliche Adresse")
	anna.get("/pforte/account").lacks("/pforte/account/connections")
}

// A store that is away is no sign that there is no provider, or that no request waits (AUTH-9.7).
func TestClients_StoreThatIsAwayIsNoNo(t *testing.T) {
	f, anna, _ := newProviding(t)
	anna.grafana()
	someone := f.browser()
	someone.host = "home.example.org"
	login := someone.authorize().want(http.StatusSeeOther).header.Get("Location")
	f.advance(time.Minute) // until clients and issuer are read again
	f.failing["issuer"] = true
	someone.get(login).want(http.StatusInternalServerError)
	if got := someone.authorize().want(http.StatusInternalServerError).shows("</html>"); got.header.Get("Refresh") == "" {
		t.Error("authorize is not asked again")
	}
	anna.post("/pforte/admin/apps/new", "name", "Fotos", "url", "https://fotos.example.org", "do", "add").
		want(http.StatusSeeOther)
	for _, path := range []string{
		"apps/new", "apps/fotos", "sign-in/fotos", "sign-in/new/immich", "sign-in/trial/grafana",
	} {
		anna.get("/pforte/admin/" + path).want(http.StatusInternalServerError)
	}
	f.failing["issuer"] = false
	someone.get(login).want(http.StatusOK).shows("Weiter zu Grafana")
}
