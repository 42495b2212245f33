package pages_test

import (
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/web"
)

const (
	portal = "https://home.example.org"
	photos = "https://photos.example.org"
	music  = "https://music.example.net:8443" // of another registrable domain
	vault  = "https://vault.example.org"      // demands a second factor
	office = "https://office.example.org"     // for admins
)

// newHousehold is a fixture with applications behind a guard.
func newHousehold(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, func(o *web.Options) {
		o.PublicURL = portal
		o.TrustedProxies = clientaddr.Proxies{clientaddr.Network{Prefix: netip.MustParsePrefix("192.0.2.1/32")}}
	})
	for _, a := range []policy.NewApplication{
		{Slug: "photos", Name: "Fotos", URL: photos},
		{Slug: "music", Name: "Musik", URL: music},
		{Slug: "vault", Name: "Tresor", URL: vault, SecondFactor: true},
		{Slug: "office", Name: "Büro", URL: office, Rule: "admin"},
		{Slug: "notes", Name: "Notizen", URL: "/notes/", SecondFactor: true},
	} {
		f.install(a)
	}
	return f
}

func (f *fixture) install(a policy.NewApplication) {
	f.t.Helper()
	if err := f.policy.CreateApplication(f.t.Context(), session.Session{}, a); err != nil {
		f.t.Fatal(err)
	}
}

// ServeHTTP is the household behind its proxy: /pforte/ on every host is auth's, and
// everything else on the host of an application is the application's, behind the guard.
func (f *fixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if "https://"+r.Host == portal || strings.HasPrefix(r.URL.Path, "/pforte") {
		f.handler.ServeHTTP(w, r)
		return
	}
	apps, err := f.policy.Applications(r.Context())
	if err != nil {
		f.t.Error(err)
	}
	i := slices.IndexFunc(apps, func(a application.Application) bool { return a.URL == "https://"+r.Host })
	if i < 0 {
		f.t.Errorf("a request to %s", r.Host)
		return
	}
	ask := httptest.NewRequestWithContext(r.Context(), http.MethodGet, "http://auth/internal/forward-auth?app="+apps[i].Slug, nil)
	ask.RemoteAddr, ask.Host, ask.Header = r.RemoteAddr, r.Host, r.Header.Clone()
	for name, value := range map[string]string{
		"X-Forwarded-Method": r.Method, "X-Forwarded-Uri": r.URL.RequestURI(), "X-Forwarded-Proto": "https", "X-Forwarded-Host": r.Host, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document",
	} {
		ask.Header.Set(name, value)
	}
	answer := httptest.NewRecorder()
	f.handler.ServeHTTP(answer, ask)
	if answer.Code != http.StatusOK {
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
		return
	}
	for _, cookie := range answer.Header().Values("Set-Cookie") {
		w.Header().Add("Set-Cookie", cookie)
	}
	_, _ = fmt.Fprintf(w, "%s for %s", apps[i].Name, answer.Header().Get("X-Auth-Username"))
}

// person is a browser that follows redirects and keeps the cookies of each host apart.
type person struct {
	f    *fixture
	jars map[string]map[string]string // by host, by name
	// drops are the names of cookies that the browser does not keep.
	drops []string
	at    []string // the addresses of the last visit
}

func (f *fixture) person() *person { return &person{f: f, jars: map[string]map[string]string{}} }

// send sends one request and returns the answer.
func (p *person) send(method, to string, form url.Values) *http.Response {
	p.f.t.Helper()
	r := httptest.NewRequestWithContext(p.f.t.Context(), method, to, strings.NewReader(form.Encode()))
	r.RemoteAddr = "192.0.2.1:1234"
	r.Header.Set("Accept-Language", "de")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for name, value := range p.jars[r.Host] {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	p.f.ServeHTTP(w, r)
	answer := w.Result()
	for _, cookie := range answer.Cookies() {
		if cookie.Domain != "" {
			p.f.t.Errorf("%s sets %s for a domain", to, cookie.Name)
		}
		if slices.Contains(p.drops, cookie.Name) {
			continue
		}
		if p.jars[r.Host] == nil {
			p.jars[r.Host] = map[string]string{}
		}
		p.jars[r.Host][cookie.Name] = cookie.Value
		if cookie.MaxAge < 0 {
			delete(p.jars[r.Host], cookie.Name)
		}
	}
	return answer
}

// shown is the page at which a visit ends.
type shown struct {
	reply
	at string
}

// follow follows redirects as a browser does, which gives up after 20, and obeys
// form-action after a form.
func (p *person) follow(to string, answer *http.Response, formAction string) shown {
	p.f.t.Helper()
	p.at = []string{to}
	for range 21 {
		location := answer.Header.Get("Location")
		if location == "" {
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				p.f.t.Fatal(err)
			}
			return shown{reply{p.f.t, to, answer.StatusCode, answer.Header, string(body)}, to}
		}
		base, err := url.Parse(to)
		if err != nil {
			p.f.t.Fatal(err)
		}
		next, err := base.Parse(location)
		if err != nil {
			p.f.t.Fatal(err)
		}
		if origin := next.Scheme + "://" + next.Host; formAction != "" && origin != portal && !slices.Contains(strings.Fields(formAction), origin) {
			p.f.t.Fatalf("a form leads to %s, which its page does not permit: %s", origin, formAction)
		}
		to = next.String()
		p.at = append(p.at, to)
		answer = p.send(http.MethodGet, to, nil)
	}
	p.f.t.Fatalf("more than 20 redirects: %q", p.at)
	return shown{}
}

func (p *person) visit(to string) shown {
	p.f.t.Helper()
	return p.follow(to, p.send(http.MethodGet, to, nil), "")
}

var (
	returnShown = regexp.MustCompile(`name="return" value="([^"]*)"`)
	formActions = regexp.MustCompile(`form-action ([^;]*);`)
)

// submit sends the form of a page at the portal, with its field return.
func (p *person) submit(page shown, fields ...string) shown {
	p.f.t.Helper()
	values := url.Values{}
	if found := returnShown.FindStringSubmatch(page.body); found != nil {
		values.Set("return", html.UnescapeString(found[1]))
	}
	here := p.jars[strings.TrimPrefix(portal, "https://")]
	values.Set("csrf", here["csrf-token"])
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	to, _, _ := strings.Cut(page.at, "?")
	return p.follow(to, p.send(http.MethodPost, to, values), formActions.FindStringSubmatch(page.header.Get("Content-Security-Policy"))[1])
}

// login logs in at the page that a visit has led to.
func (p *person) login(page shown, username, pass string) shown {
	p.f.t.Helper()
	page.want(http.StatusOK).shows("<h1>Anmelden</h1>")
	return p.submit(page, "username", username, "password", pass)
}

// welcomed fails the test unless a visit ended at an application.
func (s shown) welcomed(at, text string) {
	s.t.Helper()
	if s.want(http.StatusOK); s.at != at || s.body != text {
		s.t.Fatalf("ended at %s with %q, want %s with %q", s.at, s.text(), at, text)
	}
}

// asked fails the test unless a visit ended at the login page of the portal.
func (s shown) asked() shown {
	s.t.Helper()
	if s.want(http.StatusOK).shows("<h1>Anmelden</h1>"); !strings.HasPrefix(s.at, portal+"/pforte/login?") {
		s.t.Fatalf("ended at %s", s.at)
	}
	return s
}

func TestHandover_OneLoginOpensAllHostsOneLogoutClosesThem(t *testing.T) {
	f := newHousehold(t)
	otto := f.person()
	page := otto.visit(photos + "/album?x=1&y=%2F").asked()
	otto.login(page, "otto", userPass).welcomed(photos+"/album?x=1&y=%2F", "Fotos for otto")
	otto.visit(music+"/").welcomed(music+"/", "Musik for otto")
	if len(otto.at) != 4 {
		t.Errorf("the second application asked: %q", otto.at)
	}
	otto.visit(photos+"/").welcomed(photos+"/", "Fotos for otto")
	if len(otto.at) != 1 {
		t.Errorf("an open host leads elsewhere: %q", otto.at)
	}
	for host, jar := range otto.jars {
		if _, has := jar["svc.sid"]; has != (portal == "https://"+host) {
			t.Errorf("%s: the portal's cookie %v", host, has)
		}
	}
	otto.submit(otto.visit(portal + "/pforte/logout"))
	otto.visit(photos + "/").asked()
	otto.visit(music + "/").asked()
}

func TestHandover_EndedSessionsCloseTheHosts(t *testing.T) {
	for name, end := range map[string]func(other *person){
		"all others are logged out": func(other *person) {
			other.submit(other.visit(portal+security), "do", "others")
		},
		"the password is changed": func(other *person) {
			other.submit(other.visit(portal+security), "do", "password", "current", userPass, "password", "new "+userPass, "again", "new "+userPass)
		},
	} {
		f := newHousehold(t)
		otto, other := f.person(), f.person()
		otto.login(otto.visit(photos+"/"), "otto", userPass).welcomed(photos+"/", "Fotos for otto")
		other.login(other.visit(photos+"/"), "otto", userPass).welcomed(photos+"/", "Fotos for otto")
		end(other)
		if page := otto.visit(photos + "/"); !strings.HasPrefix(page.at, portal+"/pforte/login?") {
			t.Errorf("%s: ended at %s", name, page.at)
		}
		other.visit(photos+"/").welcomed(photos+"/", "Fotos for otto")
	}
}

func TestHandover_HostsFollowTheUsersRow(t *testing.T) {
	f := newHousehold(t)
	if err := errors.Join(f.policy.CreateGroup(t.Context(), session.Session{}, "family", ""), f.policy.SetMember(t.Context(), "family", "otto", true)); err != nil {
		t.Fatal(err)
	}
	const diary = "https://diary.example.org"
	f.install(policy.NewApplication{Slug: "diary", Name: "Tagebuch", URL: diary, Rule: "group", Group: "family"})
	otto := f.person()
	otto.login(otto.visit(diary+"/"), "otto", userPass).welcomed(diary+"/", "Tagebuch for otto")
	otto.visit(photos+"/").welcomed(photos+"/", "Fotos for otto")
	if err := f.policy.SetMember(t.Context(), "family", "otto", false); err != nil {
		t.Fatal(err)
	}
	otto.visit(diary+"/").want(http.StatusForbidden).shows("Tagebuch: kein Zugang", "Du darfst diese Anwendung nicht öffnen.", "Angemeldet als Otto", "/pforte/logout", "/pforte/ask?app=", "Um Zugang bitten")
	otto.visit(photos+"/").welcomed(photos+"/", "Fotos for otto")
	if err := f.people.Delete(t.Context(), session.Session{}, 2); err != nil {
		t.Fatal(err)
	}
	otto.visit(diary + "/").asked()
	otto.visit(photos + "/").asked()
}

func TestHandover_AHostRenewsItsOwnCookieOnly(t *testing.T) {
	f := newHousehold(t)
	p := f.person()
	p.login(p.visit(photos+"/"), "otto", userPass)
	cookies := func() (names []string) {
		for _, cookie := range p.send(http.MethodGet, photos+"/", nil).Cookies() {
			names = append(names, cookie.Name)
		}
		return names
	}
	if got := cookies(); len(got) != 0 {
		t.Errorf("at once: %q", got)
	}
	f.advance(12 * time.Hour)
	if got := cookies(); !slices.Equal(got, []string{"svc.app"}) {
		t.Errorf("after 12 hours: %q", got)
	}
	for range 10 { // the session of the portal lives on by the use of the application
		f.advance(24 * time.Hour)
		p.visit(photos+"/").welcomed(photos+"/", "Fotos for otto")
	}
	p.visit(portal + "/pforte/").want(http.StatusOK).shows("Otto")
}

// handedOver returns a person who is logged in at the portal and has begun a hand-over to the
// photos, with the address that the portal leads to.
func (f *fixture) handedOver() (p *person, enter string) {
	f.t.Helper()
	p = f.person()
	p.login(p.visit(portal+"/pforte/login"), "otto", userPass)
	begun := p.send(http.MethodGet, photos+"/album", nil)
	enter = p.send(http.MethodGet, begun.Header.Get("Location"), nil).Header.Get("Location")
	if !strings.HasPrefix(enter, photos+"/pforte/enter?code=") || !strings.HasSuffix(enter, "&return=%2Falbum") {
		f.t.Fatalf("the portal leads to %q", enter)
	}
	return p, enter
}

// refused fails the test unless an address is a page of a refusal that opens nothing.
func (p *person) refused(at string, texts ...string) {
	p.f.t.Helper()
	page := p.visit(at)
	page.want(http.StatusForbidden).shows(texts...)
	for host, jar := range p.jars {
		if jar["svc.app"] != "" {
			p.f.t.Errorf("%s: %s is open", at, host)
		}
	}
	if len(page.header.Values("Set-Cookie")) != 0 {
		p.f.t.Errorf("%s: sets %q", at, page.header.Values("Set-Cookie"))
	}
}

const notFinished = "Die Anmeldung bei dieser Anwendung ist abgelaufen oder wurde in einem anderen Browser begonnen."

func TestHandover_ACodeCountsOnce(t *testing.T) {
	f := newHousehold(t)
	p, enter := f.handedOver()
	p.visit(enter).welcomed(photos+"/album", "Fotos for otto")
	cookie := p.jars["photos.example.org"]["svc.app"]
	p.visit(enter).welcomed(photos+"/album", "Fotos for otto") // as the host is open
	if p.jars["photos.example.org"]["svc.app"] != cookie {
		t.Error("the second time sets a cookie")
	}
	delete(p.jars["photos.example.org"], "svc.app")
	p.refused(enter, notFinished, `href="/album"`)
	if strings.Contains(f.log.String(), strings.Split(enter, "code=")[1][:43]) {
		t.Error("the code is in the log")
	}
}

func TestHandover_ACodeCountsForHalfAMinute(t *testing.T) {
	f := newHousehold(t)
	p, enter := f.handedOver()
	f.advance(29 * time.Second)
	p.visit(enter).welcomed(photos+"/album", "Fotos for otto")
	p, enter = f.handedOver()
	f.advance(31 * time.Second)
	p.refused(enter, notFinished)
	p.visit(photos+"/album").welcomed(photos+"/album", "Fotos for otto")
}

func TestHandover_ACodeCountsOnItsHost(t *testing.T) {
	f := newHousehold(t)
	p, enter := f.handedOver()
	p.send(http.MethodGet, music+"/", nil) // has begun there, too
	p.jars["music.example.net:8443"]["svc.go"] = p.jars["photos.example.org"]["svc.go"]
	p.refused(strings.Replace(enter, photos, music, 1), notFinished)
	p.refused(enter, notFinished) // and is used up
}

func TestHandover_ACodeCountsInTheBrowserThatBegan(t *testing.T) {
	f := newHousehold(t)
	_, enter := f.handedOver()
	victim := f.person()
	victim.refused(enter, "Cookies sind blockiert", `href="/album"`)
	victim.send(http.MethodGet, photos+"/", nil)
	victim.refused(enter, notFinished)
}

// TestHandover_ACodeIsNotInTheReferer: the page of a refusal leads on to the application of the same
// host, which must not learn a code that still counts.
func TestHandover_ACodeIsNotInTheReferer(t *testing.T) {
	f := newHousehold(t)
	_, enter := f.handedOver()
	page := f.person().visit(enter).want(http.StatusForbidden).shows("Cookies sind blockiert", `href="/album"`)
	if got := page.header.Get("Referrer-Policy"); got != "strict-origin" {
		t.Errorf("the page's policy is %q", got)
	}
}

func TestHandover_ACodeEndsWithItsSession(t *testing.T) {
	f := newHousehold(t)
	p, enter := f.handedOver()
	p.submit(p.visit(portal + "/pforte/logout"))
	p.refused(enter, notFinished)
}

func TestHandover_APreviewUsesNoCodeUp(t *testing.T) {
	f := newHousehold(t)
	p, enter := f.handedOver()
	p.send(http.MethodHead, enter, nil)
	f.person().visit(enter)
	p.visit(enter).welcomed(photos+"/album", "Fotos for otto")
}

func TestHandover_ABrowserWithoutCookiesIsShownWhy(t *testing.T) {
	f := newHousehold(t)
	for _, drops := range [][]string{{"svc.go"}, {"svc.app"}, {"svc.app", "svc.go"}} {
		p := f.person()
		p.login(p.visit(portal+"/pforte/login"), "otto", userPass)
		p.drops = drops
		p.visit(photos+"/album").want(http.StatusForbidden).shows("Cookies sind blockiert", "<title>Cookies sind blockiert – Zuhause</title>", `href="/album"`, `href="`+portal+`/pforte/"`)
		if len(p.at) > 18 {
			t.Errorf("without %q: %d redirects", drops, len(p.at))
		}
		p.drops = nil
		f.advance(time.Minute)
		p.visit(photos+"/album").welcomed(photos+"/album", "Fotos for otto")
	}
}

func TestHandover_ALoginThatTakesLongBeginsItAgain(t *testing.T) {
	f := newHousehold(t)
	p := f.person()
	page := p.visit(photos + "/album")
	f.advance(12 * time.Hour)
	delete(p.jars["photos.example.org"], "svc.go") // as a browser does after ten minutes
	p.login(page, "otto", userPass).welcomed(photos+"/album", "Fotos for otto")
}

func TestHandover_TabsThatWaitAllReachTheirPage(t *testing.T) {
	f := newHousehold(t)
	p := f.person()
	one, two := p.visit(photos+"/one"), p.visit(photos+"/two")
	p.login(one, "otto", userPass).welcomed(photos+"/one", "Fotos for otto")
	p.visit(two.at).welcomed(photos+"/two", "Fotos for otto")
}

// TestHandover_ManyTabsWithoutALoginAreNoLoop: a browser that starts again opens all its tabs at once.
func TestHandover_ManyTabsWithoutALoginAreNoLoop(t *testing.T) {
	f := newHousehold(t)
	p := f.person()
	var tabs []shown
	for i := range 20 {
		tabs = append(tabs, p.visit(fmt.Sprintf("%s/tab%d", photos, i)).asked())
	}
	p.login(tabs[0], "otto", userPass).welcomed(photos+"/tab0", "Fotos for otto")
	p.visit(tabs[19].at).welcomed(photos+"/tab19", "Fotos for otto")
}

func TestHandover_TheThirtyFirstHostClosesTheFirst(t *testing.T) {
	f := newHousehold(t)
	p := f.person()
	p.login(p.visit(photos+"/"), "otto", userPass)
	for i := range session.MaxHosts {
		at := fmt.Sprintf("https://app%d.example.org", i)
		f.install(policy.NewApplication{Slug: fmt.Sprintf("app%d", i), Name: "App", URL: at})
		p.visit(at+"/").welcomed(at+"/", "App for otto")
	}
	p.visit("https://app29.example.org/")
	if len(p.at) != 1 {
		t.Errorf("the last one is closed: %q", p.at)
	}
	p.visit(photos+"/").welcomed(photos+"/", "Fotos for otto")
	if len(p.at) != 4 {
		t.Errorf("the first one is open: %q", p.at)
	}
}

func TestHandover_ANewProofOpensTheHostsAgain(t *testing.T) {
	f := newHousehold(t)
	p := f.person()
	p.login(p.visit(photos+"/"), "otto", userPass)
	p.submit(p.visit(portal+"/pforte/reauth"), "password", userPass)
	p.visit(photos+"/").welcomed(photos+"/", "Fotos for otto")
	if len(p.at) != 4 {
		t.Errorf("the host is open with the session that was replaced: %q", p.at)
	}
}

func TestHandover_AUserWhoMayNotOpenIsToldSo(t *testing.T) {
	f := newHousehold(t)
	p := f.person()
	p.login(p.visit(office+"/"), "otto", userPass).want(http.StatusForbidden).shows("<h1>Büro: kein Zugang</h1>", "Du darfst diese Anwendung nicht öffnen.", `href="`+portal+`/pforte/"`, "Otto")
	for _, slug := range []string{"unknown", "", "PHOTOS", strings.Repeat("x", 3000)} {
		p.visit(portal + "/pforte/go?app=" + slug + "&return=/").want(http.StatusForbidden).shows("Diese Anwendung kennt Pforte nicht.")
	}
	anna := f.person()
	anna.login(anna.visit(office+"/"), "anna", adminPass).welcomed(office+"/", "Büro for anna")
	english := f.browser()
	english.headers.Set("Accept-Language", "en")
	english.post("/pforte/login", "username", "otto", "password", userPass)
	english.get("/pforte/go?app=office").want(http.StatusForbidden).shows("You may not open this application.", `<html lang="en">`)
}

func TestGuard_MayDemandASecondFactor(t *testing.T) {
	f := newHousehold(t)
	p := f.person()
	const needed = "Für diese Anwendung brauchst du einen zweiten Faktor."
	p.login(p.visit(vault+"/safe"), "otto", userPass).want(http.StatusForbidden).shows("<h1>Tresor: kein Zugang</h1>", needed, `href="`+portal+`/pforte/account/security"`)
	p.visit(portal + "/pforte/go?app=notes&return=/notes/x").want(http.StatusForbidden).shows(needed)

	b := &browser{f: f, cookies: p.jars["home.example.org"], headers: http.Header{"Accept-Language": {"de"}}, host: "home.example.org"}
	user := must(f.store.Users.ByID(t.Context(), 2))(t)
	key := factor.Credential{CredentialID: []byte("a credential"), RPID: "home.example.org", Record: "{}"}
	must(f.store.Passkeys.AddPasskey(t.Context(), user.ID, "Telefon", key, user.SessionStamp, ""))(t)
	recovery := codeShown.FindAllStringSubmatch(b.shown(security, "do", "enable-passkey").want(http.StatusOK).body, -1)
	for _, at := range []string{vault + "/safe", portal + "/pforte/go?app=notes&return=/notes/x"} {
		if page := p.visit(at); !strings.HasPrefix(page.at, portal+"/pforte/reauth?") {
			t.Errorf("%s leads to %s", at, page.at)
		}
	}
	p.submit(p.visit(vault+"/safe"), "password", userPass, "recovery", recovery[0][1]).welcomed(vault+"/safe", "Tresor for otto")
	p.send(http.MethodGet, portal+"/pforte/go?app=notes&return=/notes/x", nil)
	if to := p.send(http.MethodGet, portal+"/pforte/go?app=notes&return=/notes/x", nil).Header.Get("Location"); to != "/notes/x" {
		t.Errorf("with the second factor: leads to %q", to)
	}

	other := f.person()
	page := other.login(other.visit(vault+"/safe"), "otto", userPass)
	if !strings.HasPrefix(page.at, portal+"/pforte/second?") {
		t.Fatalf("ended at %s", page.at)
	}
	other.submit(page, "do", "verify", "code", recovery[1][1]).welcomed(vault+"/safe", "Tresor for otto")

	// The code that switches the second factor on is a proof of it.
	anna := f.person()
	anna.login(anna.visit(vault+"/safe"), "anna", adminPass).want(http.StatusForbidden).shows(needed)
	b = &browser{f: f, cookies: anna.jars["home.example.org"], headers: http.Header{"Accept-Language": {"de"}}, host: "home.example.org"}
	b.enroll()
	anna.visit(vault+"/safe").welcomed(vault+"/safe", "Tresor for anna")
}

func TestHandover_APendingLoginOpensNothing(t *testing.T) {
	f := newHousehold(t)
	b := f.otto()
	b.enroll()
	p, _ := f.person(), ""
	second := p.login(p.visit(photos+"/"), "otto", userPass)
	if !strings.HasPrefix(second.at, portal+"/pforte/second?") {
		t.Fatalf("ended at %s", second.at)
	}
	pending := p.jars["home.example.org"]["svc.2fa"]
	p.visit(photos + "/").asked()
	p.jars["home.example.org"]["svc.sid"] = pending
	p.jars["photos.example.org"]["svc.app"] = pending
	p.visit(photos + "/").asked()
}

func TestHandover_FormsMayLeadToTheOneApplication(t *testing.T) {
	f := newHousehold(t)
	otto := f.otto()
	form := func(a reply) string {
		t.Helper()
		return formActions.FindStringSubmatch(a.want(http.StatusOK).header.Get("Content-Security-Policy"))[1]
	}
	to := func(query string) string { return url.QueryEscape("/pforte/go?" + query) }
	for query, want := range map[string]string{
		to("app=photos&return=%2F&state=x"):                          "'self' " + photos,
		to("app=music"):                                              "'self' " + music,
		to("app=notes&return=/"):                                     "'self'",
		to("app=unknown"):                                            "'self'",
		to("app=https://evil.example"):                               "'self'",
		to("app=photos;%20script-src%20*"):                           "'self'",
		url.QueryEscape("https://evil.example/pforte/go?app=photos"): "'self'",
		url.QueryEscape("/pforte/account?app=photos"):                "'self'",
		"": "'self'",
	} {
		if got := form(f.browser().get("/pforte/login?return=" + query)); got != want {
			t.Errorf("login, return %s: form-action %s", query, got)
		}
		if got := form(otto.get("/pforte/reauth?return=" + query)); got != want {
			t.Errorf("reauth, return %s: form-action %s", query, got)
		}
	}
	otto.enroll()
	pending := f.browser()
	at := pending.post("/pforte/login", "username", "otto", "password", userPass, "return", "/pforte/go?app=photos").header.Get("Location")
	if got := form(pending.get(at)); got != "'self' "+photos {
		t.Errorf("second: form-action %s", got)
	}
}

// hostileReturns lead a browser off the household if any page trusts them.
var hostileReturns = []string{
	"https://evil.example/", "//evil.example", `/\evil.example`, `\/evil.example`, "/\t/evil.example", "/%09/evil.example", "/%2f%2fevil.example", "/%5cevil.example", "/x//evil.example", "/..//evil.example",
	"javascript:alert(1)", "@evil.example", ".evil.example", ":80@evil.example", "evil.example", "", "/\r\nLocation: https://evil.example", "/pforte/logout", "/api/v1/auth/me",
}

func TestHandover_NoReturnLeavesTheHousehold(t *testing.T) {
	f := newHousehold(t)
	p := f.person()
	p.login(p.visit(portal+"/pforte/login"), "otto", userPass)
	for _, to := range hostileReturns {
		delete(p.jars["photos.example.org"], "svc.app")
		begun := p.send(http.MethodGet, photos+"/", nil)
		state := must(url.Parse(begun.Header.Get("Location")))(t).Query().Get("state")
		page := p.visit(portal + "/pforte/go?" + url.Values{"app": {"photos"}, "return": {to}, "state": {state}}.Encode())
		if page.welcomed(photos+"/", "Fotos for otto"); len(p.at) != 3 {
			t.Errorf("%q: %q", to, p.at)
		}
		page = p.visit(photos + "/pforte/enter?" + url.Values{"code": {"used"}, "return": {to}}.Encode())
		page.welcomed(photos+"/", "Fotos for otto")
		p.visit(portal+"/pforte/go?"+url.Values{"app": {"photos"}, "return": {to}, "state": {to}}.Encode()).welcomed(photos+"/", "Fotos for otto")
		blocked := f.person().visit(photos + "/pforte/enter?" + url.Values{"return": {to}}.Encode())
		blocked.want(http.StatusForbidden).shows(`href="/"`).lacks("evil")
		f.advance(time.Minute)
	}
}

func TestHandover_ALongReturnStillReachesTheApplication(t *testing.T) {
	f := newHousehold(t)
	p := f.person()
	long := "/album?" + strings.Repeat("%2F", 600)
	p.login(p.visit(photos+long), "otto", userPass).welcomed(photos+"/", "Fotos for otto")
	p.visit(photos+"/pforte/enter?return="+url.QueryEscape("/"+strings.Repeat("a", 3000))).welcomed(photos+"/", "Fotos for otto")
}

func TestHandover_PagesAreNotOnTheHostsOfApplications(t *testing.T) {
	f := newHousehold(t)
	p := f.person()
	for _, at := range []string{"/pforte/login?return=%2Fx", "/pforte/", "/pforte/account", "/pforte/go?app=photos", "/pforte/reset?t=x", "/pforte/nothing"} {
		answer := p.send(http.MethodGet, photos+at, nil)
		if answer.StatusCode != http.StatusSeeOther || answer.Header.Get("Location") != portal+at {
			t.Errorf("%s: %d, leads to %q", at, answer.StatusCode, answer.Header.Get("Location"))
		}
	}
	answer := p.send(http.MethodPost, photos+"/pforte/login", url.Values{"username": {"otto"}, "password": {userPass}})
	if answer.StatusCode != http.StatusNotFound || len(answer.Cookies()) != 0 {
		t.Errorf("a login there: %d, %v", answer.StatusCode, answer.Cookies())
	}
	if answer := p.send(http.MethodGet, photos+"/pforte/style.css", nil); answer.StatusCode != http.StatusOK {
		t.Errorf("the style of a refusal: %d", answer.StatusCode)
	}
	// A host that is no application's is the portal by another name, as in the local network.
	b := f.browser()
	b.host = "192.168.1.5"
	b.get("/pforte/login").want(http.StatusOK)
}

func TestHandover_AFailingStoreHandsNothingOver(t *testing.T) {
	f := newHousehold(t)
	p, enter := f.handedOver()
	f.redis.SetError("LOADING")
	for _, at := range []string{enter, portal + "/pforte/go?app=photos"} {
		if page := p.visit(at); page.status != http.StatusInternalServerError || len(page.header.Values("Set-Cookie")) != 0 {
			t.Errorf("%s: %d %q", at, page.status, page.header.Values("Set-Cookie"))
		}
	}
	f.redis.SetError("")
	p.visit(enter).welcomed(photos+"/album", "Fotos for otto")
}

// sendForm sends a form to an application, with a referer, or with none for "".
func (p *person) sendForm(to, referer string, headers ...string) shown {
	p.f.t.Helper()
	r := httptest.NewRequestWithContext(p.f.t.Context(), http.MethodPost, to, strings.NewReader("text=a+letter"))
	r.RemoteAddr = "192.0.2.1:1234"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if referer != "" {
		r.Header.Set("Referer", referer)
	}
	for name, value := range p.jars[r.Host] {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	p.f.ServeHTTP(w, r)
	return shown{reply{p.f.t, to, w.Code, w.Header(), w.Body.String()}, to}
}

// action is where the first button of a refusal leads.
func (s shown) action() string {
	s.t.Helper()
	found := regexp.MustCompile(`<a class="button" href="([^"]*)"`).FindStringSubmatch(s.body)
	if found == nil {
		s.t.Fatalf("there is no button: %s", s.body)
	}
	return html.UnescapeString(found[1])
}

func TestGuard_SaysThatAFormHasNotArrived(t *testing.T) {
	f := newHousehold(t)
	p := f.person()
	page := p.sendForm(photos+"/album/delete", photos+"/album?x=1&y=%3C", "Accept-Language", "de")
	page.want(http.StatusUnauthorized).shows("<h1>Du bist abgemeldet</h1>", "Was du gesendet hast, ist nicht angekommen.", "Melde dich an und sende es noch einmal.", ">Anmelden</a>", `lang="de"`).lacks("Fotos", "delete", "letter")
	h := page.header
	if policy := h.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || h.Get("X-Frame-Options") != "DENY" || h.Get("Cache-Control") != "no-store" || h.Get("Location") != "" || len(h["Set-Cookie"]) != 0 {
		t.Errorf("headers: %v", h)
	}
	p.login(p.visit(page.action()), "otto", userPass).welcomed(photos+"/album?x=1&y=%3C", "Fotos for otto")
	p.sendForm(photos+"/album/delete", photos+"/album").want(http.StatusOK)
	f.person().sendForm(photos+"/x", "", "Accept-Language", "en").want(http.StatusUnauthorized).shows("<h1>You are logged out</h1>", "What you sent has not arrived.", ">Log in</a>")

	// Who is logged in meanwhile, in another tab, is led on.
	delete(p.jars["photos.example.org"], "svc.app")
	page = p.sendForm(photos+"/album/delete", photos+"/album")
	p.visit(page.action()).welcomed(photos+"/album", "Fotos for otto")
}

func TestGuard_AFormLeadsBackToItsHouseholdOnly(t *testing.T) {
	f := newHousehold(t)
	p := f.person()
	p.login(p.visit(portal+"/pforte/login"), "otto", userPass)
	for _, referer := range slices.Concat(hostileReturns, []string{
		"https://evil.example/album", "http://photos.example.org/album", portal + "/album", "https://photos.example.org@evil.example/", "https://evil.example@photos.example.org/", "https://photos.example.org.evil.example/",
		photos + "//evil.example", photos + "/\\evil.example", photos + "/%2f%2fevil.example", photos + "/%5cevil.example", photos + "/..//evil.example", photos + "/pforte/logout", photos + "/api/v1/auth/me",
		photos + "/\r\nLocation: https://evil.example", photos + "/" + strings.Repeat("a", 3000), photos + "/\xff",
	}) {
		delete(p.jars["photos.example.org"], "svc.app")
		page := p.sendForm(photos+`/%22%3E%3Cscript%3Ealert(1)%3C/script%3E`, referer)
		page.want(http.StatusUnauthorized).lacks("evil", "alert")
		p.visit(page.action()).welcomed(photos+"/", "Fotos for otto")
		f.advance(time.Minute)
	}
	p.sendForm(music+"/", music+`/"><script>alert(1)</script>`).want(http.StatusUnauthorized).lacks("<script>", "alert(1)")
}

func TestGuard_SaysWhatAFormLacks(t *testing.T) {
	f := newHousehold(t)
	p := f.person()
	p.login(p.visit(photos+"/"), "otto", userPass).welcomed(photos+"/", "Fotos for otto")
	const lost = "Was du gesendet hast, ist nicht angekommen."
	refused := func(site string) shown {
		page := p.sendForm(photos+"/album/delete", photos+"/album", "Accept-Language", "de", "Sec-Fetch-Site", site)
		page.want(http.StatusForbidden)
		return page
	}
	page := refused("same-site")
	page.shows("<h1>Fotos: kein Zugang</h1>", lost, "Diese Anfrage kam von einer fremden Seite.", "Otto")
	p.visit(page.action()).welcomed(photos+"/album", "Fotos for otto")

	yes, rule := true, "admin"
	for _, change := range []policy.ApplicationChange{{SecondFactor: &yes}, {Rule: &rule}} {
		if err := f.policy.ChangeApplication(t.Context(), session.Session{}, "photos", change); err != nil {
			t.Fatal(err)
		}
		if page = refused("same-origin"); change.Rule == nil {
			page.shows("<h1>Fotos: kein Zugang</h1>", lost, "Für diese Anwendung brauchst du einen zweiten Faktor.")
			p.visit(page.action()).want(http.StatusForbidden).shows(`href="` + portal + `/pforte/account/security"`)
		}
	}
	page.shows("<h1>Fotos: kein Zugang</h1>", "Du darfst diese Anwendung nicht öffnen.", ">Um Zugang bitten</a>")
}
