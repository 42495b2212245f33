package pages_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/newest"
	"github.com/pforte/pforte/services/auth/internal/once"
	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// secretPages makes each kind of secret and returns where it is shown, and what may not be seen
// elsewhere.
func secretPages(t *testing.T, anna *browser) map[string]*regexp.Regexp {
	t.Helper()
	anna.f.application("dav", "/dav/", "login", true)
	pages := map[string]*regexp.Regexp{}
	made := func(shows *regexp.Regexp, path string, fields ...string) {
		t.Helper()
		pages[anna.post(path, fields...).want(http.StatusSeeOther).header.Get("Location")] = shows
	}
	anna.post(security, "do", "setup").leadsTo(codeApp)
	key := secretShown.FindStringSubmatch(anna.get(codeApp).body)[1]
	made(codeShown, codeApp, "do", "enable", "code", codeOf(t, key, anna.f.Now())) // first, because the session has another id then
	made(linkPath, "/pforte/admin/invites", "do", "invite", "display_name", "Paul")
	made(linkPath, "/pforte/admin/members/2", "do", "reset-link")
	made(tokenShown, "/pforte/account/tokens", "do", "create", "name", "Kalender", "days", "30", "app.dav", "yes")
	return pages
}

func TestSecret_IsShownAgainToItsSessionOnly(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	pages, secrets := secretPages(t, anna), map[string]string{}
	for at, shows := range pages {
		first := anna.get(at).want(http.StatusOK).shows("Noch 5 Minuten sichtbar")
		if secrets[at] = shows.FindString(first.body); secrets[at] == "" {
			t.Fatalf("%s shows no secret: %s", at, first.text())
		}
		if strings.Contains(at, secrets[at]) || strings.Contains(f.log.String(), secrets[at]) {
			t.Errorf("%s: the secret is in the URL or the log", at)
		}
	}
	f.advance(time.Minute)
	other := f.loggedIn("otto", userPass)
	for at, secret := range secrets {
		path, name, _ := strings.Cut(at, "?once=")
		anna.get("/pforte/account?once=" + name).want(http.StatusNotFound).lacks(secret)
		anna.get(path+"?once="+strings.Repeat("A", 43)).want(http.StatusNotFound).shows("Schon ausgeblendet.", `href="`+path+`"`)
		if strings.HasPrefix(path, "/pforte/account") {
			other.get(at).want(http.StatusNotFound).shows("Schon ausgeblendet.").lacks(secret)
			other.post(path, "once", name).leadsTo(path)
		}
		anna.get(at).want(http.StatusOK).shows("Noch 4 Minuten sichtbar", secret)
	}
}

func TestSecret_EndsAfterFiveMinutesOrAtTheButton(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	for at, shows := range secretPages(t, anna) {
		path, _, _ := strings.Cut(at, "?")
		anna.post(path, "once", strings.TrimPrefix(at, path+"?once="))
		if a := anna.get(at).want(http.StatusNotFound).shows("Schon ausgeblendet.", "Neu erstellen"); shows.MatchString(a.body) {
			t.Errorf("%s still shows the secret", at)
		}
	}
	f = newFixture(t)
	anna = f.anna()
	at := anna.post("/pforte/admin/invites", "do", "invite").want(http.StatusSeeOther).header.Get("Location")
	f.advance(once.SecretLifetime)
	anna.get(at).want(http.StatusNotFound).shows("Schon ausgeblendet.")
}

func TestSecret_IsInTheAnswerWhereItCannotBeKept(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	if err := f.kept.Close(); err != nil {
		t.Fatal(err)
	}
	_, token := anna.post("/pforte/admin/invites", "do", "invite").want(http.StatusOK).link()
	f.browser().get("/pforte/join?t=" + token).want(http.StatusOK)
}

var formID = regexp.MustCompile(`name="form" value="([A-Za-z0-9_-]{43})"`)

// formOf returns the id of the forms of a page.
func (b *browser) formOf(path string) string {
	b.f.t.Helper()
	found := formID.FindStringSubmatch(b.get(path).want(http.StatusOK).body)
	if found == nil {
		b.f.t.Fatalf("%s: the form has no id", path)
	}
	return found[1]
}

// copyOf is another connection of a browser, whose answers it does not see.
func (b *browser) copyOf() *browser {
	cookies := map[string]string{}
	for name, value := range b.cookies {
		cookies[name] = value
	}
	return &browser{f: b.f, cookies: cookies, headers: b.headers, host: b.host}
}

func TestForm_SentAgainShowsWhatTheFirstLedTo(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	id := anna.formOf("/pforte/admin/invites")
	fields := []string{"form", id, "do", "invite", "display_name", "Paul"}
	at := anna.copyOf().post("/pforte/admin/invites", fields...).want(http.StatusSeeOther).header.Get("Location")
	f.advance(9 * time.Minute)
	anna.post("/pforte/admin/invites", fields...).leadsTo(at)
	if open := must(f.people.Invites(t.Context()))(t); len(open) != 1 {
		t.Errorf("there are %d invites", len(open))
	}
	fields[5] = "Petra" // after the browser's Back
	if other := anna.post("/pforte/admin/invites", fields...).want(http.StatusSeeOther).header.Get("Location"); other == at {
		t.Error("another form led to the first one's page")
	}
	f.advance(time.Minute)
	fields[5] = "Paul"
	anna.post("/pforte/admin/invites", fields...).want(http.StatusSeeOther)
	if open := must(f.people.Invites(t.Context()))(t); len(open) != 3 {
		t.Errorf("later, there are %d invites", len(open))
	}
}

func TestForm_ThatFailedIsCarriedOutWhenSentAgain(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	fields := []string{"form", anna.formOf("/pforte/admin/invites"), "do", "invite", "username", "otto"}
	for range 2 {
		anna.post("/pforte/admin/invites", fields...).want(http.StatusConflict)
	}
	if err := f.people.Delete(t.Context(), session.Session{}, 2); err != nil {
		t.Fatal(err)
	}
	anna.post("/pforte/admin/invites", append(fields, "former", "yes")...).want(http.StatusSeeOther)
}

// TestForm_SentByAHundredAtOnceActsOnce also has each answer lead to the same page.
func TestForm_SentByAHundredAtOnceActsOnce(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	fields := []string{"form", anna.formOf("/pforte/admin/invites"), "do", "invite", "display_name", "Paul"}
	var mu sync.Mutex
	led := map[string]int{}
	var wg sync.WaitGroup
	for range 100 {
		b := anna.copyOf()
		wg.Go(func() {
			to := b.post("/pforte/admin/invites", fields...).header.Get("Location")
			mu.Lock()
			defer mu.Unlock()
			led[to]++
		})
	}
	wg.Wait()
	if open := must(f.people.Invites(t.Context()))(t); len(open) != 1 || len(led) != 1 || led[""] != 0 {
		t.Errorf("%d invites, led to %v", len(open), led)
	}
}

// TestForm_CopiesThatHangUpStopWaiting also has the first one, whose client hangs up too, finish.
func TestForm_CopiesThatHangUpStopWaiting(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	fields := []string{"form", anna.formOf(security), "do", "others"}
	clients, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	send := func() reply { return anna.copyOf().do(anna.request(security, fields...).WithContext(clients)) }
	begun, held, first := make(chan struct{}), make(chan struct{}), make(chan reply, 1)
	f.revoking = func() { close(begun); <-held }
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	go func() { first <- send() }()
	<-begun
	before := f.redis.CommandCount()
	copies := make(chan reply, 100)
	for range cap(copies) {
		go func() { copies <- send() }()
	}
	for f.redis.CommandCount() < before+cap(copies) {
		time.Sleep(time.Millisecond)
	}
	hangUp()
	late := time.After(10 * time.Second)
	for range cap(copies) {
		select {
		case <-copies:
		case <-late:
			t.Fatal("copies are waiting although they have hung up")
		}
	}
	asked := f.redis.CommandCount()
	time.Sleep(200 * time.Millisecond)
	if n := f.redis.CommandCount() - asked; n != 0 {
		t.Errorf("they ask Redis %d times more", n)
	}
	release()
	to := (<-first).want(http.StatusSeeOther).header.Get("Location")
	anna.post(security, fields...).leadsTo(to)
}

// TestForm_SentTwiceLogsIn has a browser drop the first answer, with its cookies, as it does when
// a button is pressed twice.
func TestForm_SentTwiceLogsIn(t *testing.T) {
	f := newFixture(t)
	otto := f.otto()
	secret, _ := otto.enroll()
	f.advance(time.Minute)
	otto = f.browser()
	send := func(path, to string, fields ...string) {
		t.Helper()
		fields = append(fields, "form", otto.formOf(path))
		otto.copyOf().post(path, fields...).leadsTo(to)
		otto.post(path, fields...).leadsTo(to)
	}
	send("/pforte/login", "/pforte/second?return=%2Fpforte%2Faccount", "username", "otto", "password", userPass, "return", "/pforte/account")
	send("/pforte/second", "/pforte/account", "code", codeOf(t, secret, f.Now()), "return", "/pforte/account")
	otto.get("/pforte/account").want(http.StatusOK)
	f.advance(time.Minute)
	send("/pforte/reauth", "/pforte/account", "password", userPass, "code", codeOf(t, secret, f.Now()), "return", "/pforte/account")
	otto.get("/pforte/account").want(http.StatusOK)
	if sessions := must(f.accounts.OwnSessions(t.Context(), session.Session{Ref: session.Ref{UserID: 2}}))(t); len(sessions) != 2 {
		t.Errorf("there are %d sessions", len(sessions))
	}
}

func TestForm_SentAgainLaterSetsNoCookie(t *testing.T) {
	f := newFixture(t)
	otto := f.browser()
	fields := []string{"username", "otto", "password", userPass, "form", otto.formOf("/pforte/login")}
	otto.copyOf().post("/pforte/login", fields...).leadsTo("/pforte/")
	f.advance(time.Minute)
	if a := otto.copyOf().post("/pforte/login", fields...).leadsTo("/pforte/"); len(a.header.Values("Set-Cookie")) != 0 {
		t.Errorf("a minute later it sets %v", a.header.Values("Set-Cookie"))
	}
	foreign := otto.request("/pforte/login", fields...)
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	otto.do(foreign).want(http.StatusForbidden)
	otto.post("/pforte/login", "username", "otto", "password", "wrong", "form", fields[5]).want(http.StatusUnauthorized)
}

// TestForm_StrangersFillNoStore: who is not logged in can send forms that lead on, and each is kept for minutes.
func TestForm_StrangersFillNoStore(t *testing.T) {
	f := newFixture(t)
	b := f.browser()
	cancel := func() string {
		id := secrets.New()
		b.post("/pforte/second", "do", "cancel", "form", id).leadsTo("/pforte/login")
		return id
	}
	kept := func() int { return len(must(f.kept.Keys(t.Context(), "svc:form:*").Result())(t)) }
	cancel()
	later := float64(must(f.kept.Time(t.Context()).Result())(t).UnixMicro() + 1)
	for i := range newest.Most - 1 { // as other networks' would be
		other := redis.Z{Score: later + float64(i), Member: fmt.Sprint(i, " svc:form:other")}
		must(f.kept.ZAdd(t.Context(), "svc:newest:strangers-form", other).Result())(t)
	}
	cancel()
	if n := kept(); n != 1 {
		t.Errorf("%d forms are kept", n)
	}
	f.otto().post("/pforte/account", "form", secrets.New(), "display_name", "Otto", "color", "#AF52DE").leadsTo("/pforte/account?done=profile")
	if n := must(f.kept.ZCard(t.Context(), "svc:newest:form").Result())(t); n != 1 {
		t.Errorf("%d forms are a user's", n)
	}
	for _, key := range must(f.kept.Keys(t.Context(), "svc:limit:form:*").Result())(t) {
		t.Errorf("%s is kept", key)
	}
}
