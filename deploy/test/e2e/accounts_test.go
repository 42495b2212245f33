package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
)

func TestLogin_OfAMemberInAndOut(t *testing.T) {
	w := sharedWorld(t)
	b := newBrowser(t, w.PublicURL)
	b.me(401)
	_, user := w.member(t, "anna")
	if in := b.login("anna", "a password of eight"); in != user || in.Role != "member" {
		t.Errorf("logged in as %+v, created as %+v", in, user)
	}
	if got := b.me(200); got != user {
		t.Errorf("me is %+v", got)
	}
	b.request("POST", "/api/v1/auth/logout", "").want(t, 200, nil)
	if b.cookie("svc.sid") != "" || b.cookie("csrf-token") != "" {
		t.Error("a cookie outlives the logout")
	}
	b.me(401)
}

func TestMembers_AreManagedByAnAdmin(t *testing.T) {
	w := sharedWorld(t)
	admin := w.admin(t)
	b, user := w.member(t, "berta")
	admin.request("POST", "/api/v1/auth/users", `{"username":"berta","display_name":"B","password":"another password"}`).want(t, 409, nil)
	admin.request("POST", "/api/v1/auth/users", `{"username":"b","display_name":"B","password":"another password"}`).want(t, 400, nil)
	b.request("GET", "/api/v1/auth/users", "").want(t, 403, nil)
	b.request("DELETE", fmt.Sprintf("/api/v1/auth/users/%d", user.ID), "").want(t, 403, nil)
	var list struct {
		Data []struct {
			member
			CreatedAt time.Time `json:"created_at"`
		} `json:"data"`
	}
	admin.request("GET", "/api/v1/auth/users", "").want(t, 200, &list)
	found := false
	for _, entry := range list.Data {
		found = found || entry.member == user && time.Since(entry.CreatedAt) < time.Hour
	}
	if !found {
		t.Errorf("%+v is not in the list: %+v", user, list.Data)
	}
	admin.request("DELETE", fmt.Sprintf("/api/v1/auth/users/%d", user.ID), "").want(t, 200, nil)
	b.me(401)
	admin.request("DELETE", fmt.Sprintf("/api/v1/auth/users/%d", user.ID), "").want(t, 404, nil)
	admin.request("DELETE", fmt.Sprintf("/api/v1/auth/users/%d", admin.me(200).ID), "").want(t, 400, nil)
}

func TestPassword_ChangeEndsTheOtherSessions(t *testing.T) {
	w := sharedWorld(t)
	phone, _ := w.member(t, "carla")
	laptop := newBrowser(t, w.PublicURL)
	laptop.login("carla", "a password of eight")
	change := `{"current_password":"a password of eight","new_password":"ein neues Kennwort"}`
	laptop.request("PATCH", "/api/v1/auth/me/password", change).want(t, 200, nil)
	laptop.me(200)
	phone.me(401)
	phone.request("POST", "/api/v1/auth/login", credentials("carla", "a password of eight")).want(t, 401, nil)
	phone.login("carla", "ein neues Kennwort")
}

// The frontend meets a 403 with the token of the refusal, once.
func TestCSRF_RefusalCarriesTheNeededToken(t *testing.T) {
	w := sharedWorld(t)
	b, _ := w.member(t, "dora")
	refused := b.request("POST", "/api/v1/auth/logout", "", "X-CSRF-Token", strings.Repeat("0", 64)).want(t, 403, nil)
	b.request("POST", "/api/v1/auth/logout", "", "X-CSRF-Token", refused.Header.Get("X-CSRF-Token")).want(t, 200, nil)
}

func TestErrors_ForBadInputAreAlikeEverywhere(t *testing.T) {
	w := sharedWorld(t)
	b := newBrowser(t, w.PublicURL)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/api/v1/auth/login", `{"username":`, 400},
		{"POST", "/api/v1/auth/login", `{"username":["admin"],"password":"x"}`, 400},
		{"POST", "/api/v1/auth/login", `{"username":"admin","password":"` + strings.Repeat("x", 100_000) + `"}`, 413},
		{"GET", "/api/v1/auth/login", "", 405},
		{"GET", "/api/v1/auth/nothing", "", 404},
		{"GET", "/api/v1/nothing", "", 401}, // the application behind the guard
		{"GET", "/internal/forward-auth", "", 404},
		{"GET", "/nothing", "", 404},
		{"POST", "/v1/verify/chain-transaction", `{"transactionHash":"0x12"}`, 400},
		{"POST", "/v1/verify/chain-transaction", "", 402},
		{"GET", "/v1/verify/chain-transaction", "", 405},
		{"POST", "/v1/verify/other-transaction", "", 404},
	} {
		if got := b.request(c.method, c.path, c.body).want(t, c.status, nil); !strings.HasPrefix(got.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s %s: an error of the type %q", c.method, c.path, got.Header.Get("Content-Type"))
		}
	}
}

func TestLogin_IsLimitedAfterFailuresForATime(t *testing.T) {
	w := newWorld(t, options{change: func(l *layout.Layout) {
		l.Extra["auth"] = map[string]string{"RATE_LIMIT_WINDOW_MS": "5000", "RATE_LIMIT_MAX_ATTEMPTS": "3"}
	}})
	b := newBrowser(t, w.PublicURL)
	begin := time.Now()
	for i := range 3 {
		spoofed := fmt.Sprintf("203.0.113.%d", i)
		b.request("POST", "/api/v1/auth/login", credentials("admin", "wrong"), "X-Forwarded-For", spoofed).want(t, 401, nil)
	}
	password, err := w.AdminPassword()
	if err != nil {
		t.Fatal(err)
	}
	limited := b.request("POST", "/api/v1/auth/login", credentials("admin", password), "X-Forwarded-For", "203.0.113.99").want(t, 429, nil)
	if limited.Header.Get("Retry-After") == "" || limited.Header.Get("RateLimit-Remaining") != "0" {
		t.Errorf("the refusal has %v", limited.Header)
	}
	time.Sleep(time.Until(begin.Add(6 * time.Second)))
	b.login(layout.AdminName, password)
}

func TestCrash_SessionsAndUsersOutliveIt(t *testing.T) {
	w := newWorld(t, options{})
	b, user := w.member(t, "emil")
	time.Sleep(1100 * time.Millisecond) // Redis writes to the disk every second
	w.Programs.Kill("auth")
	b.request("GET", "/api/v1/auth/me", "").want(t, 502, nil)
	w.restart(t, w.Auth())
	if got := b.me(200); got != user {
		t.Errorf("after the crash of auth me is %+v", got)
	}
	w.Programs.Kill("redis")
	b.request("GET", "/api/v1/auth/me", "").want(t, 500, nil)
	if _, err := w.StartRedis(t.Context(), w.Programs); err != nil {
		t.Fatal(err)
	}
	eventually(t, "auth finds Redis again", func(context.Context) error {
		if got := b.request("GET", "/api/v1/auth/me", ""); got.StatusCode != http.StatusOK {
			return fmt.Errorf("%d %s", got.StatusCode, got.body)
		}
		return nil
	})
	var health struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal(b.request("GET", "/health", "").want(t, 200, nil).body, &health); err != nil || health.Status != "ok" {
		t.Errorf("the verifier is affected by auth's crash: %+v %v", health, err)
	}
}
