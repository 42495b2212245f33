package pages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/web"
)

const newApp = "/pforte/admin/apps/new"

// atHome is a household whose portal is home.example.org.
func atHome(o *web.Options) { o.PublicURL = "https://home.example.org" }

// home is a browser of the admin at the portal.
func (f *fixture) home() *browser {
	f.t.Helper()
	b := f.browser()
	b.host = "home.example.org"
	b.post("/pforte/login", "username", "anna", "password", adminPass).want(http.StatusSeeOther)
	return b
}

// proxy asks for the routes as a proxy does until the test ends, and answers probes. change changes what it reports.
func (f *fixture) proxy(answer application.Probe, change func(*application.Proxy)) {
	f.t.Helper()
	ctx, ended := f.t.Context(), make(chan struct{})
	f.t.Cleanup(func() { <-ended })
	p := application.Proxy{ID: "one", Apps: "lan"}
	ask := func(answers []application.Probe) (next []application.Probe) {
		list, err := f.policy.RoutesFor(ctx, p, answers)
		if err != nil {
			return nil
		}
		household, err := f.accounts.Household(ctx)
		if err != nil {
			return nil
		}
		if p.Have, err = list.ETag(household.Name); err != nil {
			f.t.Error(err)
		}
		if change != nil {
			change(&p)
		}
		for _, asked := range list.Probes {
			told := answer
			told.ID = asked.ID
			next = append(next, told)
		}
		return next
	}
	answers := ask(nil)
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			answers = ask(answers)
			time.Sleep(10 * time.Millisecond)
		}
	}()
}

func TestNewApplication_IsThereByItsRecipeAlone(t *testing.T) {
	f := newFixture(t, atHome)
	anna := f.home()
	f.proxy(application.Probe{Status: http.StatusUnauthorized, MS: 12}, func(p *application.Proxy) { p.TLS, p.Certified = "auto", []string{"kalender"} })
	anna.get(newApp).want(http.StatusOK).shows("Radicale", `data-upstream="http://radicale:5232"`, "https://<b data-label>…</b>.home.example.org")
	anna.post(newApp, "do", "add", "recipe", "radicale", "where", "host").leadsTo("/pforte/admin/apps/kalender?done=app-new&probe=401.12")
	got := f.stored("kalender")
	want := application.Route{Upstream: "http://radicale:5232", Strip: true, UserHeader: "X-Remote-User", Recipe: "radicale"}
	if got.Name != "Kalender" || got.URL != "https://kalender.home.example.org" || !got.Tokens || got.Route != want || !got.Reached || got.Rule != application.Login {
		t.Errorf("got %+v", got)
	}
	time.Sleep(50 * time.Millisecond) // until the proxy has asked again
	page := anna.get("/pforte/admin/apps/kalender?done=app-new&probe=401.12").want(http.StatusOK).
		shows("Kalender ist da.", `href="https://kalender.home.example.org"`, "✓ Proxy hat es übernommen", "✓ Zertifikat da", "✓ antwortet (401, 12 ms)", "Zeilen für einen eigenen Proxy")
	if page.header.Get("Refresh") != "" {
		t.Error("the page is loaded again")
	}
	anna.get("/pforte/").shows("Kalender")
}

func TestNewApplication_CorrectsWhatIsTyped(t *testing.T) {
	f := newFixture(t, atHome)
	f.application("notes", "/notes/", "login", false)
	anna := f.home()
	for i, c := range []struct{ name, where, url, slug, wantSlug, wantURL string }{
		{"Bücher & Co.", "host", "", "", "buecher-co", "https://buecher-co.home.example.org"},
		{"Notes", "path", "Diary", "", "notes-2", "/Diary/"},
		{"Öl", "path", "/oel", "OEL!", "oel", "/oel/"},
		{"A", "host", "https://home.example.org/a/", "", "a", "/a/"},
		{"B", "host", "https://B.example.net/", "", "b", "https://b.example.net"},
		{"C", "host", "Fotos", "", "c", "https://fotos.home.example.org"},
		{"日本", "path", "", "", "app", "/app/"},
		{"New", "host", "", "", "new-2", "https://new.home.example.org"}, // at "new" and "probe" are other pages
		{"Probe", "path", "", "", "probe-2", "/probe/"},
	} {
		a := anna.post(newApp, "do", "add", "name", c.name, "where", c.where, "url", c.url, "slug", c.slug)
		a.leadsTo("/pforte/admin/apps/" + c.wantSlug + "?done=app-new")
		if got := f.stored(c.wantSlug); got.URL != c.wantURL || got.Reached {
			t.Errorf("%d: got %+v", i, got)
		}
	}
	// The form of an application corrects the same.
	for typed, want := range map[string]string{"/x": "/x/", "https://home.example.org/y": "/y/", "https://Z.example.net/": "https://z.example.net"} {
		anna.post("/pforte/admin/apps/notes", "do", "change", "name", "Notes", "url", typed, "rule", "login", "position", "0", "color", "#34C759").leadsTo("/pforte/admin/apps/notes?done=profile")
		if got := f.stored("notes").URL; got != want {
			t.Errorf("%s becomes %s", typed, got)
		}
	}
}

func TestNewApplication_AFaultKeepsTheFormAndAddsNothing(t *testing.T) {
	f := newFixture(t, atHome)
	f.application("notes", "/notes/", "login", false)
	anna := f.home()
	for _, c := range []struct {
		field  string
		status int
		sent   []string
	}{
		{"name", http.StatusBadRequest, []string{"name", ""}},
		{"upstream", http.StatusBadRequest, []string{"upstream", "http://nas:80/path"}},
		{"upstream", http.StatusBadRequest, []string{"upstream", "169.254.169.254:80"}},
		{"upstream", http.StatusBadRequest, []string{"upstream", "127.0.0.1:6379"}},
		{"user_header", http.StatusBadRequest, []string{"upstream", "nas:80", "user_header", "Host"}},
		{"url", http.StatusBadRequest, []string{"url", "/v1/"}},
		{"url", http.StatusBadRequest, []string{"url", "/", "upstream", "nas:80"}},
		{"url", http.StatusConflict, []string{"url", "/notes"}},
		{"slug", http.StatusConflict, []string{"slug", "notes"}},
		{"slug", http.StatusConflict, []string{"slug", "probe"}},
		{"rule", http.StatusBadRequest, []string{"rule", "all"}},
	} {
		form := append([]string{"do", "add", "name", "Fotos", "description", "Alben", "second_factor", "yes", "keep", "yes", "upstream", ""}, c.sent...)
		anna.post(newApp, form...).want(c.status).shows(`href="#`+c.field+`"`, `id="`+c.field+`-why"`, `value="Alben"`, `name="second_factor" value="yes" checked`, `name="keep" value="yes" checked`)
	}
	if apps := must(f.policy.Applications(t.Context()))(t); len(apps) != 1 {
		t.Errorf("got %+v", apps)
	}
}

func TestProbe_SaysWhatAnswers(t *testing.T) {
	nobody := "Dort antwortet niemand. Läuft die Anwendung? Ist sie im Netz „pforte-apps“?"
	for _, c := range []struct {
		answer application.Probe
		good   bool
		text   string
	}{
		{application.Probe{Status: 200, MS: 12}, true, "antwortet (200, 12 ms)"},
		{application.Probe{Status: 302}, true, "antwortet (302, 0 ms)"},
		{application.Probe{Status: 403}, true, "antwortet (403, 0 ms)"},
		{application.Probe{Status: 500}, false, "antwortet mit Fehler (500)"},
		{application.Probe{Error: "refused"}, false, nobody},
		{application.Probe{Error: "timeout"}, false, nobody},
		{application.Probe{Error: "failed"}, false, nobody},
		{application.Probe{Error: "name"}, false, "Diesen Namen kennt der Proxy nicht."},
		{application.Probe{Error: "address"}, false, "Zu dieser Adresse darf der Proxy nicht. Soll er eine auf seinem eigenen Rechner oder im Internet erreichen, muss sie genauso in seiner Einstellung APPS_TO stehen."},
		{application.Probe{Error: "tls"}, false, "Dort antwortet etwas, aber nicht mit https."},
	} {
		t.Run(c.text+c.answer.Error, func(t *testing.T) {
			f := newFixture(t)
			f.proxy(c.answer, nil)
			anna := f.anna()
			var got struct {
				Good bool
				Text string
			}
			a := anna.post("/pforte/admin/apps/probe", "upstream", "nas:80").want(http.StatusOK)
			if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.Good != c.good || got.Text != c.text {
				t.Errorf("got %s, %v", a.body, err)
			}
			// Without scripts the form asks, and nothing is added yet.
			anna.post(newApp, "do", "probe", "name", "Fotos", "upstream", "nas:80").want(http.StatusOK).shows(c.text, `value="Fotos"`, `value="nas:80"`)
			if apps := must(f.policy.Applications(t.Context()))(t); len(apps) != 0 {
				t.Errorf("got %+v", apps)
			}
			// And it is asked with the form, too.
			page := anna.post(newApp, "do", "add", "name", "Fotos", "where", "path", "upstream", "nas:80").want(http.StatusSeeOther)
			anna.get(page.header.Get("Location")).shows(c.text)
			if got := f.stored("fotos").Reached; got != c.good {
				t.Errorf("reached: %t", got)
			}
		})
	}
}

func TestProbe_IsForAdminsAndLimited(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	ask := func(upstream string) reply { return anna.post("/pforte/admin/apps/probe", "upstream", upstream) }
	ask("nas:80").want(http.StatusOK).shows("Gerade ist kein Proxy verbunden.")
	ask("127.0.0.1:80").want(http.StatusOK).shows("Zu dieser Adresse darf der Proxy nicht.")
	ask("ftp://x").want(http.StatusOK).shows("Die interne Adresse hat die Form")
	f.otto().post("/pforte/admin/apps/probe", "upstream", "nas:80").want(http.StatusForbidden).lacks("good")
	anna.post("/pforte/admin/apps/probe", "upstream", "nas:80", "csrf", "old").want(http.StatusForbidden)
	anna.get("/pforte/admin/apps/probe").want(http.StatusOK).shows("Neue Anwendung")
	f.proxy(application.Probe{Status: 200}, nil)
	for range policy.Probes {
		ask("nas:80").shows("antwortet (200")
	}
	ask("nas:80").want(http.StatusOK).shows("Zu viele Adressen ausprobiert.")
	// An application can be added all the same.
	anna.post(newApp, "do", "add", "name", "Fotos", "where", "path", "upstream", "nas:80").leadsTo("/pforte/admin/apps/fotos?done=app-new")
}

// fullAudit can record nothing.
type fullAudit struct{ audit.Store }

func (fullAudit) Record(context.Context, audit.Event) error { return errStore }

func TestProbe_LeavesAnAuditEntry(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	ask := func(upstream string) { anna.post("/pforte/admin/apps/probe", "upstream", upstream).want(http.StatusOK) }
	entries := func() []audit.Entry {
		all, _, err := f.audit.Entries(t.Context(), audit.Query{Event: "app_probed"})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	ask("nas:80") // while there is no proxy
	f.proxy(application.Probe{Status: 200}, nil)
	for _, refused := range []string{"", "ftp://x", "127.0.0.1:80", "http://u:p@nas:80", "http://nas:80/secret", strings.Repeat("a", 300) + ":80"} {
		ask(refused)
	}
	f.otto().post("/pforte/admin/apps/probe", "upstream", "nas:80").want(http.StatusForbidden)
	if got := entries(); len(got) != 0 {
		t.Fatalf("nothing was tried, and there are %+v", got)
	}
	ask("NAS:80")
	ask("https://192.168.1.20:8443")
	anna.post(newApp, "do", "probe", "upstream", "nas:81").want(http.StatusOK)
	var tried []any
	for _, e := range entries() {
		if tried = append(tried, e.Detail["upstream"]); e.Actor.Name != "anna" || len(e.Detail) != 1 || e.Count != 1 || e.IP == "" {
			t.Errorf("got %+v", e)
		}
	}
	if want := []any{"http://nas:81", "https://192.168.1.20:8443", "http://nas:80"}; !slices.Equal(tried, want) {
		t.Errorf("tried %v, want %v", tried, want)
	}
	anna.get("/pforte/admin/audit").want(http.StatusOK).shows("Interne Adresse ausprobiert", "· http://nas:80", "· https://192.168.1.20:8443")
	anna.headers.Set("Accept-Language", "en")
	anna.get("/pforte/admin/audit").want(http.StatusOK).shows("Internal address tried")
	anna.get("/pforte/admin/audit.csv?event=app_probed").want(http.StatusOK).shows("https://192.168.1.20:8443")
	if n := strings.Count(f.log.String(), `"event":"app_probed"`); n != 3 || !strings.Contains(f.log.String(), `"upstream":"http://nas:80"`) {
		t.Errorf("%d lines in the log: %s", n, f.log.String())
	}
	f.failing["ask"] = true
	ask("nas:82")
	f.failing["ask"] = false
	if got := entries(); got[0].Detail["upstream"] != "http://nas:82" {
		t.Errorf("the store failed, the proxies tried it all the same, and the newest is %+v", got[0])
	}
	kept, tries := f.audit.Store, len(f.asked)
	f.audit.Store = fullAudit{kept}
	if _, err := f.policy.Probe(t.Context(), "another admin", "nas:83"); !errors.Is(err, errStore) || len(f.asked) != tries {
		t.Errorf("without an entry: %v, and the proxies were to try %q", err, f.asked[tries:])
	}
	f.audit.Store = kept
	// What is refused because of the limit was not tried either.
	for range policy.Probes {
		ask("nas:80")
	}
	if got := entries(); len(got) != policy.Probes {
		t.Errorf("%d entries, want %d", len(got), policy.Probes)
	}
}

func TestApplication_SaysHowFarTheProxyIs(t *testing.T) {
	f := newFixture(t, atHome)
	anna := f.home()
	anna.post(newApp, "do", "add", "name", "Fotos", "where", "host", "upstream", "nas:80").leadsTo("/pforte/admin/apps/fotos?done=app-new")
	const path = "/pforte/admin/apps/fotos"
	anna.get(path+"?done=app-new").shows("Gerade ist kein Proxy von Pforte verbunden.", "server_name fotos.home.example.org;", "proxy_pass http://nas:80;", "reverse_proxy nas:80").lacks("✓ Proxy")
	report := func(have string, skipped map[string]string) {
		t.Helper()
		must(f.policy.RoutesFor(t.Context(), application.Proxy{ID: "one", TLS: "auto", Have: have, Skipped: skipped}, nil))(t)
	}
	report(`"old"`, nil)
	again := func(path, want string) {
		t.Helper()
		if got := anna.get(path).header.Get("Refresh"); got != want {
			t.Errorf("%s is loaded again: %q, want %q", path, got, want)
		}
	}
	anna.get(path+"?done=app-new").shows("Der Proxy übernimmt es gerade …", "Das Zertifikat wird geholt …")
	again(path+"?done=app-new", "2; url="+path+"?again=1&done=app-new")
	again(path+"?again=1&done=app-new", "2; url="+path+"?again=2&done=app-new")
	again(path+"?again=30&done=app-new", "") // a certificate may fail for ever
	again(path+"?again=x&done=app-new", "")
	again(path, "") // somebody may type there
	household := must(f.accounts.Household(t.Context()))(t)
	list := must(f.policy.RoutesFor(t.Context(), application.Proxy{ID: "one"}, nil))(t)
	tag := must(list.ETag(household.Name))(t)
	report(tag, map[string]string{"fotos": "address"})
	anna.get(path).shows("Der Proxy darf diese interne Adresse nicht erreichen.").lacks("✓ Proxy")
	report(tag, map[string]string{"fotos": "<i>"})
	anna.get(path).shows("Der Proxy übernimmt diese Anwendung nicht (<i>).").lacks("✓ Proxy")
	report(tag, nil)
	anna.get(path).shows("✓ Proxy hat es übernommen", "Das Zertifikat wird geholt …")
	list.Own = []string{"10.0.0.2:8081"} // the same routes, from another replica of auth
	report(must(list.ETag(household.Name))(t), nil)
	anna.get(path).shows("✓ Proxy hat es übernommen")
	again(path+"?done=app-new", "2; url="+path+"?again=1&done=app-new")
	must(f.policy.RoutesFor(t.Context(), application.Proxy{ID: "one", TLS: "auto", Have: tag, Certified: []string{"fotos"}}, nil))(t)
	again(path+"?done=app-new", "")
	must(f.policy.RoutesFor(t.Context(), application.Proxy{ID: "two", Have: `"old"`}, nil))(t)
	anna.get(path).shows("Der Proxy übernimmt es gerade …").lacks("✓ Proxy") // another replica has not
}

func TestApplication_ItsAddressIsChangedAndRemoved(t *testing.T) {
	f := newFixture(t)
	f.add("paula", "Paula", userPass, "admin")
	f.application("notes", "/notes/", "login", false)
	anna, paula := f.anna(), f.loggedIn("paula", userPass)
	const path = "/pforte/admin/apps/notes"
	anna.get(path).shows("Weg zur Anwendung", "Pforte (ROUTES)").lacks("Interne Adresse entfernen")
	anna.post(path, "do", "route", "upstream", " NAS:8080/ ", "user_header", "Remote-User").leadsTo(path + "?done=app-routed")
	if got := f.stored("notes").Route; got != (application.Route{Upstream: "http://nas:8080", Strip: true, UserHeader: "Remote-User"}) {
		t.Errorf("got %+v", got)
	}
	anna.get(path+"?done=app-routed").shows("Die interne Adresse ist gespeichert.", `value="http://nas:8080"`, "<option selected>Remote-User", "handle_path /notes/* {").lacks(`name="keep" value="yes" checked`)
	anna.post(path, "do", "route", "upstream", "nas:8080/x", "keep", "yes").want(http.StatusBadRequest).shows(`id="upstream-why"`, `value="nas:8080/x"`, `name="keep" value="yes" checked`)
	anna.post(path, "do", "route", "upstream", "https://nas:5001", "keep", "yes").leadsTo(path + "?done=app-routed")
	pin := strings.Repeat("a1", 32)
	if err := f.store.Applications.PinRoute(t.Context(), "notes", "https://nas:5001", pin); err != nil {
		t.Fatal(err)
	}
	anna.get(path).shows(pin, `name="keep" value="yes" checked`)
	anna.post(path, "do", "route", "upstream", "https://nas:5001").leadsTo(path + "?done=app-routed")
	if got := f.stored("notes").Route.Pin; got != pin {
		t.Errorf("the pin is %q", got)
	}
	anna.post(path, "do", "route", "upstream", "https://nas:5001", "repin", "yes").leadsTo(path + "?done=app-routed")
	if got := f.stored("notes").Route.Pin; got != "" {
		t.Errorf("the pin is %q", got)
	}
	anna.post(path, "do", "unroute").leadsTo(path + "?done=app-unrouted")
	anna.post(path, "do", "unroute").leadsTo(path + "?done=app-unrouted")
	if got := f.stored("notes").Route; got != (application.Route{}) {
		t.Errorf("got %+v", got)
	}
	paula.get("/pforte/").shows("Sicherheitshinweise", "Anna hat eine interne Adresse geändert")
	anna.get("/pforte/").lacks("nterne Adresse geändert")
	f.otto().get("/pforte/").lacks("nterne Adresse geändert")
}

// TestStart_ShowsWhatHasBeenReached has an application of a page, which is on the start page after the guard has let
// somebody through.
func TestStart_ShowsWhatHasBeenReached(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	anna.post(newApp, "do", "add", "name", "Fotos", "where", "path").want(http.StatusSeeOther)
	anna.get("/pforte/").lacks("Fotos")
	anna.get("/pforte/admin/apps/fotos").shows("Noch nicht erreichbar")
	f.policy.Reached(t.Context(), f.stored("fotos"))
	anna.get("/pforte/").shows(`href="/fotos/"`, "Fotos")
	anna.get("/pforte/admin/apps/fotos").lacks("Noch nicht erreichbar")
}

// TestApplication_LinesForOtherProxiesAreThoseOfTheFiles compares with deploy/proxies, whose files the tests run.
func TestApplication_LinesForOtherProxiesAreThoseOfTheFiles(t *testing.T) {
	f := newFixture(t, atHome)
	if err := f.policy.CreateApplication(t.Context(), session.Session{}, policy.NewApplication{Slug: "notes", URL: "https://notes.example.org"}); err != nil {
		t.Fatal(err)
	}
	body := f.home().get("/pforte/admin/apps/notes").want(http.StatusOK)
	for _, file := range []string{"nginx/example.conf", "caddy/Caddyfile", "traefik/dynamic.yml"} {
		content := must(os.ReadFile("../../../../deploy/proxies/" + file))(t)
		for line := range strings.Lines(string(content)) {
			if line = strings.TrimSpace(line); strings.Contains(line, "notes") && !strings.HasPrefix(line, "#") {
				body.shows(line)
			}
		}
	}
}

// sendPicture sends a form with a file.
func (b *browser) sendPicture(path string, file []byte, fields ...string) reply {
	b.f.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		must(0, w.WriteField(fields[i], fields[i+1]))(b.f.t)
	}
	must(0, w.WriteField("csrf", b.cookies["csrf-token"]))(b.f.t)
	part := must(w.CreateFormFile("picture", "picture.png"))(b.f.t)
	must(part.Write(file))(b.f.t)
	must(0, w.Close())(b.f.t)
	r := httptest.NewRequestWithContext(b.f.t.Context(), http.MethodPost, path, &body)
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(r)
}

// drawnPNG returns a PNG of a size.
func drawnPNG(t *testing.T, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	must(0, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))))(t)
	return b.Bytes()
}

func TestIcon_IsWrittenAnewAndServedToAnybody(t *testing.T) {
	f := newFixture(t)
	f.application("notes", "/notes/", "login", false)
	anna := f.anna()
	const path = "/pforte/admin/apps/notes"
	anna.get(path).want(http.StatusOK).shows(`<label for="picture">Bild</label>`) // it is all that the form has
	secret := append(drawnPNG(t, 300, 200), "<script>alert(1)</script>"...)
	anna.sendPicture(path+"/icon", secret, "do", "set").leadsTo(path + "?done=profile")
	hash := f.stored("notes").Icon
	src := "/pforte/icons/" + hash + ".png"
	anna.get("/pforte/").shows(`src="` + src + `"`)
	anna.get(path).shows(`src="`+src+`"`, "Symbol entfernen")
	got := f.browser().get(src).want(http.StatusOK)
	for name, want := range map[string]string{
		"Content-Type": "image/png", "Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s: %q", name, got.header.Get(name))
		}
	}
	m, err := png.Decode(strings.NewReader(got.body))
	if err != nil || m.Bounds().Dx() != 192 || m.Bounds().Dy() != 192 || strings.Contains(got.body, "script") {
		t.Errorf("%v, %v", err, m)
	}
	if head := f.browser().do(head(t, src)).want(http.StatusOK); head.body != "" {
		t.Error("HEAD has a body")
	}
	anna.sendPicture(path+"/icon", nil, "do", "remove").leadsTo(path + "?done=profile")
	if f.stored("notes").Icon != "" {
		t.Error("the picture is still there")
	}
	f.browser().get(src).want(http.StatusNotFound)
	for _, none := range []string{"x.png", ".png", hash, hash + ".svg", "..%2f" + hash + ".png", "%00.png"} {
		f.browser().get("/pforte/icons/" + none).want(http.StatusNotFound)
	}
	anna.get("/pforte/").shows(`<text x="20" y="27"`)
	if n := strings.Count(f.log.String(), `"event":"app_icon_set"`); n != 2 {
		t.Errorf("%d lines in the log", n)
	}
}

func TestIcon_ThatIsNoPictureIsRefused(t *testing.T) {
	f := newFixture(t)
	f.application("notes", "/notes/", "login", false)
	anna := f.anna()
	giant := drawnPNG(t, 1, 1)
	copy(giant[16:], "\x00\x00\x75\x30\x00\x00\x75\x30") // 30,000 px, as the header tells
	const path, format, large = "/pforte/admin/apps/notes/icon", "Nimm ein Bild im Format PNG, JPEG oder WebP.", "Das Bild ist zu groß: höchstens 256 KB"
	for what, c := range map[string]struct {
		file []byte
		text string
	}{
		"SVG as .png": {[]byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), format},
		"GIF/JS":      {[]byte("GIF89a=1;alert(1)//"), format},
		"HTML":        {[]byte("<!doctype html><script>alert(1)</script>"), format},
		"PNG's head":  {drawnPNG(t, 8, 8)[:20], format},
		"30,000 px":   {giant, format}, // or large, where its checksum were right
		"1,025 px":    {drawnPNG(t, 1025, 1), large},
		"300 KB":      {append(drawnPNG(t, 8, 8), make([]byte, 300<<10)...), large},
		"nothing":     {nil, "Wähl ein Bild aus."},
	} {
		a := anna.sendPicture(path, c.file, "do", "set").want(http.StatusBadRequest).shows(`href="#picture"`, c.text)
		if f.stored("notes").Icon != "" {
			t.Errorf("%s is kept: %s", what, a.body)
		}
		anna.sendPicture(newApp, c.file, "do", "add", "name", "Fotos", "where", "path", "rule", "x").want(http.StatusBadRequest)
	}
	anna.sendPicture(path, make([]byte, 600<<10), "do", "set").want(http.StatusBadRequest)
	anna.sendPicture(newApp, []byte("GIF89a"), "do", "add", "name", "Fotos", "where", "path").want(http.StatusBadRequest).shows(`id="picture-why"`, `value="Fotos"`)
	anna.sendPicture("/pforte/admin/apps/notes", drawnPNG(t, 8, 8), "do", "remove").want(http.StatusBadRequest) // no form with a file
	f.otto().sendPicture(path, drawnPNG(t, 8, 8), "do", "set").want(http.StatusForbidden)
	anna.sendPicture(newApp, drawnPNG(t, 8, 8), "do", "add", "name", "Fotos", "where", "path").leadsTo("/pforte/admin/apps/fotos?done=app-new")
	if f.stored("fotos").Icon == "" {
		t.Error("a new application has no picture")
	}
	f.stored("notes")
}

// TestForm_WithAFileIsCarriedOutOnce sends it twice, as a browser separates its parts anew.
func TestForm_WithAFileIsCarriedOutOnce(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	id := formID.FindStringSubmatch(anna.get(newApp).body)[1]
	for range 2 {
		anna.sendPicture(newApp, drawnPNG(t, 8, 8), "do", "add", "name", "Fotos", "where", "path", "form", id).leadsTo("/pforte/admin/apps/fotos?done=app-new")
	}
	if apps := must(f.policy.Applications(t.Context()))(t); len(apps) != 1 {
		t.Errorf("got %+v", apps)
	}
}
