package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/redistest"
)

func TestRun_EventsThatAreNotifiedOfAreThoseOfTheirSetting(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 10)
	topic := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent <- string(body)
	}))
	t.Cleanup(topic.Close)
	p := start(t, settings(t, redistest.Start(t), "NOTIFY_URL", "ntfy+"+topic.URL+"/t", "NOTIFY_EVENTS", "reset_asked"))
	admin := p.loggedIn(adminName, adminPass)
	admin.want(http.StatusCreated, http.MethodPost, prefix+"/users",
		`{"username":"otto","display_name":"Otto","password":"battery staple"}`)
	admin.want(http.StatusCreated, http.MethodPost, prefix+"/users/2/reset-link", "")
	admin.want(http.StatusOK, http.MethodPost, prefix+"/forgot-password", `{"identifier":"otto"}`)
	if code := p.exit(); code != 0 { // what is queued is sent first
		t.Errorf("exit %d", code)
	}
	if len(sent) != 1 {
		t.Fatalf("%d were sent", len(sent))
	}
	if got := <-sent; got != "otto bittet um ein neues Passwort." {
		t.Errorf("got %q", got)
	}
}

func TestRun_HouseholdIsNamedAsItsSettingSays(t *testing.T) {
	t.Parallel()
	p := start(t, settings(t, redistest.Start(t), "HOUSEHOLD_NAME", "Haus am See"))
	if status, page := get(t, p.main+"/pforte/login"); !strings.Contains(page, "– Haus am See</title>") {
		t.Errorf("got %d %s", status, page)
	}
}

func TestRun_PasskeysBelongToTheDomainOfTheirSetting(t *testing.T) {
	t.Parallel()
	p := start(t, settings(t, redistest.Start(t),
		"PUBLIC_URL", "https://auth.home.example.org", "PASSKEY_RP_ID", "home.example.org"))
	options := p.browser().want(http.StatusOK, http.MethodPost, prefix+"/passkeys/login/options", "")
	if !strings.Contains(options, `"rpId":"home.example.org"`) {
		t.Errorf("got %s", options)
	}
}

func TestRun_RememberedSessionsLastAsTheirSettingSays(t *testing.T) {
	t.Parallel()
	p := start(t, settings(t, redistest.Start(t), "REMEMBER_LIFETIME", "2160h"))
	resp, err := http.Post(p.main+prefix+"/login", "application/json",
		strings.NewReader(`{"username":"`+adminName+`","password":"`+adminPass+`","remember":true}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if cookies := resp.Cookies(); len(cookies) != 2 || cookies[0].MaxAge != 7776000 || cookies[1].MaxAge != 7776000 {
		t.Errorf("got %v", cookies)
	}
}

// TestRun_AuditIsKeptAsLongAsItsSettingSays starts anew with a shorter time: what is older is deleted at once.
func TestRun_AuditIsKeptAsLongAsItsSettingSays(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	p := start(t, environment)
	p.loggedIn(adminName, adminPass)
	if status, _ := p.browser().login(adminName, "wrong"); status != http.StatusUnauthorized {
		t.Errorf("got %d", status)
	}
	p.exit()
	time.Sleep(1100 * time.Millisecond) // entries have their times in whole seconds
	environment["AUDIT_RETENTION"] = "1ms"
	p = start(t, environment)
	admin := p.loggedIn(adminName, adminPass)
	eventually(t, "the failed login is deleted", 20*time.Second, func() bool {
		return !strings.Contains(admin.want(http.StatusOK, http.MethodGet, prefix+"/audit", ""), `"login_failed"`)
	})
}
