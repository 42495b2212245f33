package pages_test

import (
	"encoding/json"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

func TestPage_HasTheHeaders(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	for _, a := range []reply{
		b.get("/pforte/"), b.get("/pforte/account"), f.browser().get("/pforte/login"), f.browser().get("/pforte/nothing"),
		b.post(security, "csrf", "old"), f.browser().get("/pforte/account"),
	} {
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Frame-Options":         "DENY", "Referrer-Policy": "same-origin", "Cache-Control": "no-store", "Vary": "Accept-Language, Cookie",
			"Permissions-Policy": "publickey-credentials-get=(self), publickey-credentials-create=(self)", "X-Content-Type-Options": "nosniff",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s is %q", a.what, name, got)
			}
		}
		if strings.Contains(a.body, "style=") || strings.Contains(a.body, "<style") || strings.Contains(a.body, " on") && strings.Contains(a.body, "onclick") {
			t.Errorf("%s: has inline style or script", a.what)
		}
	}
}

func TestPage_WithoutASessionLeadsToTheLoginAndBack(t *testing.T) {
	f := newFixture(t)
	b := f.browser()
	b.get("/pforte/account?x=1").leadsTo("/pforte/login?return=%2Fpforte%2Faccount%3Fx%3D1")
	b.get("/pforte/login?return=/pforte/account").want(http.StatusOK).shows(`name="return" value="/pforte/account"`)
	b.post("/pforte/login", "username", "otto", "password", userPass, "return", "/pforte/account").leadsTo("/pforte/account")
	b.get("/pforte/account").want(http.StatusOK).shows("Otto")
	b.get("/pforte/login?return=/pforte/account").leadsTo("/pforte/account")
}

func TestLogin_ReturnsToThisSiteOnly(t *testing.T) {
	f := newFixture(t)
	for _, to := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "javascript:alert(1)", "/pforte/logout", "/api/v1/auth/me", ""} {
		f.browser().post("/pforte/login", "username", "otto", "password", userPass, "return", to).leadsTo("/pforte/")
	}
}

func TestLogin_ThatFailsKeepsTheNameNotThePassword(t *testing.T) {
	f := newFixture(t)
	f.browser().post("/pforte/login", "username", "otto", "password", "wrong-secret", "return", "/pforte/account").want(http.StatusUnauthorized).
		shows("Benutzername oder Passwort ist falsch.", `value="otto"`, "<title>Fehler: Anmelden", `role="alert"`, `value="/pforte/account"`).lacks("wrong-secret")
}

func TestLogin_LimitIsThatOfTheAPI(t *testing.T) {
	f := newFixture(t)
	b := f.browser()
	for range 5 {
		b.post("/pforte/login", "username", "otto", "password", "wrong").want(http.StatusUnauthorized)
	}
	a := b.post("/pforte/login", "username", "otto", "password", userPass).want(http.StatusTooManyRequests)
	if a.header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/auth/login", strings.NewReader(`{"username":"otto","password":"`+userPass+`"}`))
	r.Header.Set("Content-Type", "application/json")
	b.do(r).want(http.StatusTooManyRequests)
}

func TestForm_FromAForeignPageIsRefused(t *testing.T) {
	f := newFixture(t)
	for name, headers := range map[string]map[string]string{
		"cross-site":     {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
		"sibling":        {"Sec-Fetch-Site": "same-site", "Origin": "https://other.example.com"},
		"none":           {"Sec-Fetch-Site": "none"},
		"neither":        {},
		"null":           {"Origin": "null"},
		"foreign origin": {"Origin": "http://evil.example"},
		"other port":     {"Origin": "http://example.com:8080"},
	} {
		for _, path := range []string{"/pforte/login", "/pforte/logout", security} {
			b := f.otto()
			r := b.request(path, "username", "otto", "password", userPass)
			r.Header.Del("Sec-Fetch-Site")
			for name, value := range headers {
				r.Header.Set(name, value)
			}
			if a := b.do(r); a.status != http.StatusForbidden || len(a.header.Values("Set-Cookie")) != 0 {
				t.Errorf("%s, %s: got %d, %s", name, path, a.status, a.header["Set-Cookie"])
			}
		}
	}
	for name, origin := range map[string]string{"of plain http": "http://example.com", "with the default port": "https://example.com:443"} {
		b := f.browser()
		r := b.request("/pforte/login", "username", "otto", "password", userPass)
		r.Header.Del("Sec-Fetch-Site")
		r.Header.Set("Origin", origin)
		if a := b.do(r); a.status != http.StatusSeeOther {
			t.Errorf("an own origin %s: got %d", name, a.status)
		}
	}
}

func TestForm_WithAnOldTokenIsShownAgain(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	b.post(security, "do", "password", "csrf", "old", "current", userPass, "password", "new secret", "again", "new secret").
		want(http.StatusForbidden).shows("Schick es bitte noch einmal ab.", b.cookies["csrf-token"], "<h1>Sicherheit</h1>").lacks("new secret", userPass)
	f.otto()
}

func TestForm_WithoutASessionIsShownAfterTheLogin(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	gone := b.request(security, "do", "password", "note", "typed before", "current", userPass, "password", "new secret", "again", "new secret")
	b.post("/pforte/logout").leadsTo("/pforte/login?done=logout")
	b.do(gone).want(http.StatusUnauthorized).shows("Deine Anmeldung ist abgelaufen.", `name="kept.note" value="typed before"`, `name="return" value="/pforte/account/security"`).
		lacks("new secret", userPass, "kept.csrf")
	a := b.post("/pforte/login", "username", "otto", "password", userPass, "return", security, "kept.do", "password", "kept.note", "typed before", "kept.password", "injected").
		want(http.StatusOK).shows("<h1>Sicherheit</h1>", "Schick es bitte noch einmal ab.", b.cookies["csrf-token"]).lacks("injected")
	if a.header.Get("Set-Cookie") == "" {
		t.Error("the login set no cookie")
	}
}

func TestLogout_NeedsAForm(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	b.get("/pforte/logout").want(http.StatusOK).shows("Du wirst auf diesem Gerät abgemeldet.", `href="/pforte/account/security?open=others#devices">Alle anderen Geräte abmelden`)
	b.get("/pforte/account").want(http.StatusOK)
	b.post("/pforte/logout").leadsTo("/pforte/login?done=logout")
	b.get("/pforte/login?done=logout").shows("Du bist abgemeldet.")
	b.get("/pforte/account").want(http.StatusSeeOther)
}

func TestLogin_EndsTheSessionThatItReplaces(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	other := &browser{f: f, cookies: map[string]string{"svc.sid": b.cookies["svc.sid"]}, headers: b.headers}
	b.post("/pforte/login", "username", "anna", "password", adminPass).leadsTo("/pforte/")
	other.get("/pforte/").want(http.StatusSeeOther)
}

func TestPassword_IsChanged(t *testing.T) {
	f := newFixture(t)
	b, other := f.otto(), f.otto()
	b.post(security, "do", "password", "current", userPass, "password", "new secret", "again", "other secret").want(http.StatusBadRequest).
		shows("Die beiden Passwörter stimmen nicht überein.", `href="#again"`, `aria-invalid="true"`).lacks("new secret")
	b.post(security, "do", "password", "current", "wrong", "password", "new secret", "again", "new secret").want(http.StatusUnauthorized).shows("Dein aktuelles Passwort ist falsch.")
	b.post(security, "do", "password", "current", userPass, "password", "short", "again", "short").want(http.StatusBadRequest).shows("mindestens 8 Zeichen")
	b.post(security, "do", "password", "current", userPass, "password", "new secret", "again", "new secret").leadsTo(security + "?done=password")
	b.get(security + "?done=password").shows("Dein Passwort ist geändert.")
	other.get("/pforte/").want(http.StatusSeeOther)
	f.loggedIn("otto", "new secret")
}

func TestLanguage_IsTheBrowsersOrTheChosenOne(t *testing.T) {
	f := newFixture(t)
	for wanted, title := range map[string]string{
		"": "Anmelden", "\x01": "Anmelden", "de": "Anmelden", "de-AT": "Anmelden", "de-CH": "Anmelden", "gsw, fr;q=0.8": "Anmelden",
		"tr, de-AT;q=0.8, en;q=0.5": "Anmelden", "fr-CH, fr;q=0.9, de;q=0.5": "Anmelden",
		"en-GB,de;q=0.5": "Log in", "fr, en;q=0.8": "Log in", "fr": "Log in", "tr-TR,tr;q=0.9": "Log in", "tr, en;q=0.8, de;q=0.5": "Log in",
		"ja": "Log in", "*": "Log in",
	} {
		b := f.browser()
		b.headers = http.Header{"Accept-Language": {wanted}}
		b.get("/pforte/login").shows("<h1>" + title + "</h1>")
	}
	b := f.browser()
	b.get("/pforte/login?return=/x").shows(`<html lang="de">`, `href="/pforte/login?lang=en&return=%2Fx"`)
	b.get("/pforte/login?lang=en").shows(`<html lang="en">`, "Log in")
	b.get("/pforte/login").shows(`<html lang="en">`, "Log in")
	b.get("/pforte/login?lang=xx").shows(`<html lang="en">`)
}

func TestAssets_AreKeptByTheirHash(t *testing.T) {
	f := newFixture(t)
	page := f.browser().get("/pforte/login").body
	_, after, _ := strings.Cut(page, `href="/pforte/style.css`)
	query, _, _ := strings.Cut(after, `"`)
	a := f.browser().get("/pforte/style.css" + query).want(http.StatusOK)
	if got := a.header.Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
		t.Errorf("with its hash: %q", got)
	}
	if got := f.browser().get("/pforte/style.css").header.Get("Cache-Control"); got != "no-cache" {
		t.Errorf("without: %q", got)
	}
	again := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/pforte/style.css", nil)
	again.Header.Set("If-None-Match", a.header.Get("Etag"))
	f.browser().do(again).want(http.StatusNotModified)
	f.browser().get("/pforte/passkey.js").want(http.StatusOK)
}

func TestPage_ForAWrongPath(t *testing.T) {
	f := newFixture(t)
	for _, path := range []string{"/pforte/none", "/pforte/account/none", "/pforte/account/"} {
		f.browser().get(path).want(http.StatusNotFound).shows("<h1>Diese Seite gibt es nicht.</h1>").lacks("Das hat nicht geklappt")
	}
	f.browser().get("/pforte").leadsTo("/pforte/")
	for from, to := range map[string]string{"password": "?done=x&open=password", "devices": "?done=x", "second-factor": "?done=x", "passkeys": "?done=x"} {
		f.otto().get("/pforte/account/" + from + "?done=x").leadsTo(security + to)
		f.browser().get("/pforte/account/" + from).leadsTo("/pforte/login?return=%2Fpforte%2Faccount%2F" + from)
	}
	if a := f.browser().get("/.well-known/change-password"); a.status != http.StatusSeeOther || a.header.Get("Location") != security+"?open=password" {
		t.Errorf("change-password: %d %s", a.status, a.header.Get("Location"))
	}
}

func TestLogin_PageIsSmall(t *testing.T) {
	f := newFixture(t)
	size := 0
	for _, path := range []string{"/pforte/login", "/pforte/style.css", "/pforte/passkey.js", "/pforte/icon.svg"} {
		size += len(f.browser().get(path).want(http.StatusOK).body)
	}
	if size >= 30<<10 {
		t.Errorf("the login page has %d bytes in all, want less than 30 KB", size)
	}
}

func TestManifest_IsTheHouseholdsAndPublic(t *testing.T) {
	f := newEmptyFixture(t)
	_, token, err := f.people.CreateSetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.browser().post("/pforte/setup", "t", token, "household", "Familie „Kern“ & Söhne <1>", "username", "anna", "display_name", "Anna", "password", adminPass, "again", adminPass).leadsTo("/pforte/")
	a := f.browser().get("/pforte/manifest.webmanifest").want(http.StatusOK)
	if kind := a.header.Get("Content-Type"); kind != "application/manifest+json" {
		t.Errorf("it is %q", kind)
	}
	var got struct {
		Name, ID, Scope, Display string
		StartURL                 string `json:"start_url"`
		Icons                    []struct{ Src, Sizes, Type, Purpose string }
	}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "Familie „Kern“ & Söhne <1>" || got.ID != "/pforte/" || got.StartURL != "/pforte/" || got.Scope != "/pforte/" || got.Display != "standalone" {
		t.Errorf("got %+v", got)
	}
	for _, icon := range got.Icons {
		size := f.picture(icon.Src)
		if want := strconv.Itoa(size.X) + "x" + strconv.Itoa(size.Y); icon.Sizes != want || icon.Type != "image/png" {
			t.Errorf("%+v is %s", icon, want)
		}
	}
	page := f.browser().get("/pforte/login").shows(`<link rel="manifest" href="/pforte/manifest.webmanifest">`).body
	_, after, _ := strings.Cut(page, `<link rel="apple-touch-icon" href="`)
	at, _, _ := strings.Cut(after, `"`)
	if size := f.picture(at); size.X != 180 || size.Y != 180 {
		t.Errorf("the touch icon has %v", size)
	}
}

// picture returns the size of a PNG at a path.
func (f *fixture) picture(at string) image.Point {
	f.t.Helper()
	a := f.browser().get(at).want(http.StatusOK)
	config := must(png.DecodeConfig(strings.NewReader(a.body)))(f.t)
	return image.Pt(config.Width, config.Height)
}
