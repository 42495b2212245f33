package pages_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// invited returns the path and token of a new invite.
func (f *fixture) invited(fields ...string) (path, token string) {
	f.t.Helper()
	return f.anna().shown("/pforte/admin/invites", append([]string{"do", "invite"}, fields...)...).want(http.StatusOK).link()
}

// resetLink returns the path and token of a link for otto's new password.
func (f *fixture) resetLink() (path, token string) {
	f.t.Helper()
	return f.anna().shown("/pforte/admin/members/2", "do", "reset-link").want(http.StatusOK).link()
}

// TestLink_UsersOfItAreKnownInTheirBrowser has them log in again in the browser of the set-up and of the invite.
func TestLink_UsersOfItAreKnownInTheirBrowser(t *testing.T) {
	f := newEmptyFixture(t)
	_, token, err := f.people.CreateSetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	anna := f.browser()
	anna.post("/pforte/setup", "t", token, "username", "anna", "display_name", "Anna", "password", adminPass).leadsTo("/pforte/")
	_, token = anna.shown("/pforte/admin/invites", "do", "invite").link()
	paul := f.browser()
	paul.post("/pforte/join", "t", token, "username", "paul", "password", userPass).leadsTo("/pforte/?done=joined")
	for id, b := range map[int64]*browser{1: anna, 2: paul} {
		f.audit.Drain()
		b.post("/pforte/logout").leadsTo("/pforte/login?done=logout")
		b.post("/pforte/login", "username", []string{"", "anna", "paul"}[id], "password", []string{"", adminPass, userPass}[id]).leadsTo("/pforte/")
		f.audit.Drain()
		b.get("/pforte/").want(http.StatusOK).lacks("Anmeldung auf einem neuen Gerät")
		if known := must(f.store.Browsers.Browsers(t.Context(), id))(t); len(known) != 1 {
			t.Errorf("user %d is known in %d browsers", id, len(known))
		}
	}
}

func TestReset_AsksForTheSecondFactor(t *testing.T) {
	f := newFixture(t)
	secret, _ := f.otto().enroll()
	_, token := f.resetLink()
	b := f.browser()
	b.post("/pforte/reset", "t", token, "password", "a new secret").leadsTo("/pforte/second?return=%2Fpforte%2F%3Fdone%3Dreset")
	b.get("/pforte/").leadsTo("/pforte/login?return=%2Fpforte%2F")
	f.advance(time.Minute)
	b.post("/pforte/second", "code", codeOf(t, secret, f.Now()), "return", "/pforte/?done=reset").leadsTo("/pforte/?done=reset")
	b.get("/pforte/?done=reset").want(http.StatusOK).shows("Dein neues Passwort gilt ab jetzt.")
}

// twice sends a form as a button does that is pressed twice: the browser drops the answer to the
// first, with its cookies. Both lead to a path, and the browser is logged in.
func (b *browser) twice(wait time.Duration, to, page, action string, fields ...string) {
	b.f.t.Helper()
	fields = append(fields, "form", b.formOf(page))
	first := b.copyOf()
	var both sync.WaitGroup
	both.Go(func() { first.post(action, fields...).leadsTo(to) })
	time.Sleep(wait)
	b.post(action, fields...).leadsTo(to)
	both.Wait()
	b.get(to).want(http.StatusOK)
}

func TestLink_ButtonPressedTwiceReportsNoFailure(t *testing.T) {
	for _, wait := range []time.Duration{0, 120 * time.Millisecond, 250 * time.Millisecond} {
		t.Run(wait.String(), func(t *testing.T) {
			f := newEmptyFixture(t)
			_, token, err := f.people.CreateSetupLink(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f.browser().twice(wait, "/pforte/", "/pforte/setup?t="+token, "/pforte/setup", "t", token, "username", "anna", "display_name", "Anna", "password", adminPass)
			path, token := f.invited()
			f.browser().twice(wait, "/pforte/?done=joined", path, "/pforte/join", "t", token, "username", "otto", "password", userPass)
			path, token = f.resetLink()
			f.browser().twice(wait, "/pforte/?done=reset", path, "/pforte/reset", "t", token, "password", "a new secret")
			if users := must(f.store.Users.List(t.Context()))(t); len(users) != 2 {
				t.Errorf("there are %d users", len(users))
			}
		})
	}
}

// TestLink_LeadsOnInTheBrowserThatUsedIt has two tabs with forms of their own.
func TestLink_LeadsOnInTheBrowserThatUsedIt(t *testing.T) {
	f := newFixture(t)
	path, token := f.invited("display_name", "Änne Groß")
	b, stranger := f.browser(), f.browser()
	b.get(path).want(http.StatusOK).shows(`value="aenne"`)
	late := b.copyOf() // without the cookies of the answer
	b.post("/pforte/join", "t", token, "username", "anne", "password", userPass).leadsTo("/pforte/?done=joined")
	b.post("/pforte/join", "t", token, "username", "other", "password", userPass).leadsTo("/pforte/")
	b.get(path).leadsTo("/pforte/")
	const login = "/pforte/login?done=joined&name=anne&return=%2Fpforte%2F"
	late.post("/pforte/join", "t", token, "username", "other", "password", userPass).leadsTo(login)
	late.get(login).want(http.StatusOK).shows("Dein Konto ist angelegt.", `value="anne"`)
	stranger.get(path).want(http.StatusBadRequest).shows("Dieses Konto gibt es schon.", "Anmelden")
	passkey := []string{"t", token, "do", "passkey", "username", "other"}
	stranger.post("/pforte/join", passkey...).want(http.StatusBadRequest).
		shows("Dieses Konto gibt es schon.", "Anmelden")
	stranger.post("/pforte/setup", passkey...).want(http.StatusBadRequest).
		shows("Der Link ist ungültig oder abgelaufen.")
	f.advance(time.Minute)
	for range 2 * 10 { // it does not count as guessed
		b.get(path).want(http.StatusBadRequest).shows("Dieses Konto gibt es schon.")
	}
	f.anna().post("/pforte/admin/members/3", "do", "delete", "confirm", "anne").want(http.StatusSeeOther)
	stranger.get(path).want(http.StatusBadRequest).shows("Der Link ist ungültig oder abgelaufen.")
}

func TestLink_FormsHaveOneFieldForAPassword(t *testing.T) {
	f := newFixture(t)
	invite, _ := f.invited()
	reset, _ := f.resetLink()
	for _, path := range []string{invite, reset} {
		a := f.browser().get(path).want(http.StatusOK).shows(`data-reveal="password"`, "Anzeigen")
		if got := strings.Count(a.body, `type="password"`); got != 1 {
			t.Errorf("%s has %d fields for a password", path, got)
		}
	}
}

func TestInvite_PageTellsWhenItIsAccepted(t *testing.T) {
	f := newFixture(t, func(o *web.Options) { o.PublicURL = "http://localhost:8080" })
	anna := f.anna()
	anna.host = "localhost:8080"
	at := anna.post("/pforte/admin/invites", "do", "invite", "display_name", "Mia").want(http.StatusSeeOther).header.Get("Location")
	page, _, _ := strings.Cut(at, "?")
	path, token := anna.get(at).want(http.StatusOK).shows("Einladung für Mia", "○ wartet …", "Nur auf diesem Rechner", "<svg", `data-state="`+page+`/state"`).link()
	anna.get(page).want(http.StatusOK).shows("Einladung für Mia", "○ wartet …").lacks(token)
	if a := anna.get(page + "/state").want(http.StatusOK); !strings.Contains(a.body, `"joined":false`) {
		t.Error(a.body)
	}
	f.otto().get(page + "/state").want(http.StatusForbidden)
	f.browser().get(page + "/state").want(http.StatusSeeOther)
	mia := f.browser()
	mia.get(path)
	mia.post("/pforte/join", "t", token, "username", "mia", "password", userPass).want(http.StatusSeeOther)
	anna.get(at).want(http.StatusOK).shows("✓ Mia ist beigetreten").lacks(token, "data-state")
	if a := anna.get(page + "/state").want(http.StatusOK); !strings.Contains(a.body, `{"joined":true,"text":"✓ Mia ist beigetreten"}`) {
		t.Error(a.body)
	}
	anna.get("/pforte/admin/invites/99").want(http.StatusNotFound).shows("Diese Einladung gibt es nicht mehr.")
	anna.get("/pforte/admin/invites/x/state").want(http.StatusNotFound)
}

// TestInvite_StateDoesNotRenewTheSession has a page open for as long as a session lasts.
func TestInvite_StateDoesNotRenewTheSession(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	at := anna.post("/pforte/admin/invites", "do", "invite").want(http.StatusSeeOther).header.Get("Location")
	page, _, _ := strings.Cut(at, "?")
	f.advance(23 * time.Hour)
	anna.get(page + "/state").want(http.StatusOK)
	f.advance(session.Lifetime - 23*time.Hour + time.Second)
	anna.get("/pforte/").leadsTo("/pforte/login?return=%2Fpforte%2F")
}

func TestForgotten_AdminsSeeWhoAsksAndMayDismissIt(t *testing.T) {
	f := newFixture(t)
	f.browser().post("/pforte/forgot", "username", "otto").want(http.StatusSeeOther)
	f.browser().get("/pforte/forgot?done=forgot").shows("<code>docker compose exec auth /bin/auth user reset-link NAME</code>", "<code>auth user reset-link NAME</code>")
	f.audit.Drain()
	anna := f.anna()
	anna.get("/pforte/").shows("Otto braucht ein neues Passwort.", "Link erstellen", "Verwerfen")
	f.otto().post("/pforte/admin/members/2", "do", "dismiss").want(http.StatusForbidden)
	anna.post("/pforte/admin/members/2", "do", "dismiss").leadsTo("/pforte/")
	anna.get("/pforte/").lacks("braucht ein neues Passwort")
	if rows := must(f.store.Audit.Entries(t.Context(), audit.Query{Event: "reset_dismissed", Limit: 10}))(t); len(rows) != 1 {
		t.Errorf("%d rows", len(rows))
	}
	f.browser().post("/pforte/forgot", "username", "otto").want(http.StatusSeeOther)
	f.audit.Drain()
	anna.shown("/pforte/admin/members/2", "do", "reset-link").want(http.StatusOK).link()
	anna.get("/pforte/").lacks("braucht ein neues Passwort")
}

// TestLogin_AKnownBrowserIsNotKeptOutByOthers has a child type wrong passwords on the same network.
func TestLogin_AKnownBrowserIsNotKeptOutByOthers(t *testing.T) {
	f := newFixture(t)
	known := f.otto()
	f.audit.Drain()
	known.post("/pforte/logout").want(http.StatusSeeOther)
	child := f.browser()
	for range 5 {
		child.post("/pforte/login", "username", "anna", "password", "wrong").want(http.StatusUnauthorized)
	}
	a := child.post("/pforte/login", "username", "anna", "password", adminPass).want(http.StatusTooManyRequests)
	a.shows("Versuch es in " + a.header.Get("Retry-After") + " Sekunden noch einmal.")
	known.copyOf().post("/pforte/login", "username", "anna", "password", adminPass).want(http.StatusTooManyRequests) // not theirs
	for range 5 {
		known.post("/pforte/login", "username", "otto", "password", "wrong").want(http.StatusUnauthorized)
	}
	known.post("/pforte/login", "username", "otto", "password", userPass).want(http.StatusTooManyRequests)
	f.advance(time.Minute)
	known.post("/pforte/login", "username", "otto", "password", userPass).leadsTo("/pforte/")
	f.browser().post("/pforte/login", "username", "otto", "password", userPass).leadsTo("/pforte/")
}

func TestLogin_WithoutCookiesIsExplained(t *testing.T) {
	f := newFixture(t)
	b := f.browser()
	page := b.get("/pforte/login").want(http.StatusOK).shows(`name="cookies"`)
	blocked := f.browser()
	blocked.post("/pforte/login", "cookies", "yes", "username", "otto", "password", userPass, "return", "/pforte/account").
		want(http.StatusBadRequest).shows("Cookies", `value="otto"`, `value="/pforte/account"`)
	blocked.post("/pforte/login", "cookies", "yes", "username", "otto", "password", userPass).leadsTo("/pforte/") // they are on now
	b.post("/pforte/login", "cookies", "yes", "username", "otto", "password", userPass).leadsTo("/pforte/")
	if got := page.header.Values("Set-Cookie"); len(got) != 1 || strings.Contains(got[0], "Max-Age") {
		t.Errorf("got %q", got)
	}
}

func TestAccess_IsAskedForOnceADay(t *testing.T) {
	f := newFixture(t)
	f.application("dav", "/dav/", "admin", false)
	anna, otto := f.anna(), f.otto()
	otto.get("/pforte/ask?app=dav").want(http.StatusOK).shows("Du bist als Otto angemeldet.", "Um Zugang bitten")
	otto.get("/pforte/ask?app=none").want(http.StatusNotFound)
	otto.post("/pforte/ask", "app", "none").want(http.StatusNotFound)
	f.browser().get("/pforte/ask?app=dav").leadsTo("/pforte/login?return=%2Fpforte%2Fask%3Fapp%3Ddav")
	for range 3 {
		otto.post("/pforte/ask", "app", "dav").leadsTo("/pforte/ask?app=dav&done=asked")
	}
	f.audit.Drain()
	otto.get("/pforte/ask?app=dav&done=asked").shows("Die Administratoren wissen Bescheid.").lacks("<button")
	if body := anna.get("/pforte/").shows("Otto bittet um Zugang", "dav").body; strings.Count(body, "bittet um Zugang") != 1 {
		t.Error("it is told more than once")
	}
	otto.get("/pforte/").lacks("bittet um Zugang", "Um Zugang gebeten")
}
