package httpapi_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// events returns the audit lines of the log, by event.
func (h *fixture) events() map[string][]map[string]any {
	h.t.Helper()
	events := map[string][]map[string]any{}
	for line := range strings.Lines(h.log.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			h.t.Fatalf("%v in %q", err, line)
		}
		if event, ok := entry["event"].(string); ok {
			events[event] = append(events[event], entry)
		}
	}
	return events
}

func TestLog_HasUserEventAndAddress(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	b.login("anna", "wrong")
	b.login("nobody", "wrong")
	b.create().want(http.StatusCreated)
	b.delete("3").want(http.StatusOK)
	b.changePassword("wrong", newPass)
	b.changePassword(adminPass, newPass).want(http.StatusOK)
	b.send(http.MethodPost, prefix+"/logout", "", "X-CSRF-Token", "")
	b.logout().want(http.StatusOK)
	otto := h.otto()
	otto.get(prefix + "/users").want(http.StatusForbidden)
	otto.get(prefix + "/api-tokens?all=1").want(http.StatusForbidden)
	for range 4 {
		b.login("anna", "wrong")
	}
	events := h.events()
	for event, n := range map[string]int{
		"login": 2, "login_failed": 5, "user_created": 1, "user_deleted": 1, "password_change_failed": 1, "password_changed": 1,
		"csrf_refused": 1, "logout": 1, "admin_refused": 2, "limited": 1,
	} {
		if len(events[event]) != n {
			t.Errorf("%s: %d lines, want %d", event, len(events[event]), n)
			continue
		}
		if line := events[event][0]; line["ip"] != "192.0.2.1" || line["request_id"] == "" {
			t.Errorf("%s: got %v", event, line)
		}
	}
	if failed := events["login_failed"]; failed[0]["user_id"] != 1.0 || failed[1]["user_id"] != 0.0 {
		t.Errorf("got %v", failed)
	}
	if deleted := events["user_deleted"][0]; deleted["user_id"] != 3.0 || deleted["by"] != 1.0 {
		t.Errorf("got %v", deleted)
	}
}

func TestLog_HoldsNoSecretAndNoNameTypedAtALogin(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	sid, token := b.cookies["svc.sid"], b.cookies["csrf-token"]
	cookie := must(base64.URLEncoding.DecodeString(sid))(t)
	payload := must(base64.URLEncoding.DecodeString(strings.Split(string(cookie), "|")[1]))(t)
	id := strings.Split(string(payload), ".")[1]
	b.send(http.MethodPost, prefix+"/logout", "", "X-CSRF-Token", "hunter2-token").want(http.StatusForbidden)
	b.login("typed-into-the-wrong-field", "hunter2-secret")
	b.send(http.MethodPost, prefix+"/login", `{"username":"anna","password":"hunter2-secret"`)
	b.send(http.MethodPost, prefix+"/login", `{"password":["hunter2-secret"]}`)
	b.send(http.MethodPost, prefix+"/login?password=hunter2-secret", `{}`)
	b.get("/hunter2-secret")
	b.changePassword("hunter2-secret", "hunter2-secret-2")
	b.create("password", "hunter2-secret")
	h.brokenSessions.Store(true)
	b.get(prefix + "/me")
	log := h.log.String()
	for _, s := range []string{"hunter2", "typed-into", sid, id, token, "$2a$", "correct horse", secret} {
		if strings.Contains(log, s) {
			t.Errorf("%q is in the log", s)
		}
	}
}

func TestLog_WarnsOnceOfALoginOverPlainHTTP(t *testing.T) {
	const warning = "plain http"
	h := newFixture(t)
	b := h.browser()
	b.send(http.MethodPost, prefix+"/login", object("username", "anna", "password", adminPass), "X-Forwarded-Proto", "https").want(http.StatusOK)
	if strings.Contains(h.log.String(), warning) {
		t.Error("warned of https")
	}
	for range 3 {
		b.login("anna", adminPass).want(http.StatusOK)
	}
	if n := strings.Count(h.log.String(), warning); n != 1 {
		t.Errorf("warned %d times", n)
	}
	h = newFixture(t, func(s *settings) { s.insecure = true })
	h.anna()
	if strings.Contains(h.log.String(), warning) {
		t.Error("warned although SESSION_SECURE=false")
	}
}

func TestMetrics_CountRequestsLoginsAndRefusals(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	for range 6 {
		b.login("anna", "wrong")
	}
	b.login("anna", "")
	b.get("/somewhere/else")
	b.send("BREW", prefix+"/me", "")
	b.delete("7")
	want := `
# HELP auth_http_requests_total Requests answered, by route, method and status.
# TYPE auth_http_requests_total counter
auth_http_requests_total{method="DELETE",route="/api/v1/auth/users/:id",status="404"} 1
auth_http_requests_total{method="GET",route="none",status="404"} 1
auth_http_requests_total{method="POST",route="/api/v1/auth/login",status="200"} 1
auth_http_requests_total{method="POST",route="/api/v1/auth/login",status="401"} 5
auth_http_requests_total{method="POST",route="/api/v1/auth/login",status="429"} 2
auth_http_requests_total{method="other",route="/api/v1/auth/me",status="405"} 1
# HELP auth_limiter_decisions_total Decisions of the limit of failed attempts, by limit (login, password, link, passkey, signin) and decision: taken, given_back, refused, error.
# TYPE auth_limiter_decisions_total counter
auth_limiter_decisions_total{decision="error",limit="link"} 0
auth_limiter_decisions_total{decision="error",limit="login"} 0
auth_limiter_decisions_total{decision="error",limit="passkey"} 0
auth_limiter_decisions_total{decision="error",limit="password"} 0
auth_limiter_decisions_total{decision="error",limit="signin"} 0
auth_limiter_decisions_total{decision="given_back",limit="link"} 0
auth_limiter_decisions_total{decision="given_back",limit="login"} 1
auth_limiter_decisions_total{decision="given_back",limit="passkey"} 0
auth_limiter_decisions_total{decision="given_back",limit="password"} 0
auth_limiter_decisions_total{decision="given_back",limit="signin"} 0
auth_limiter_decisions_total{decision="refused",limit="link"} 0
auth_limiter_decisions_total{decision="refused",limit="login"} 2
auth_limiter_decisions_total{decision="refused",limit="passkey"} 0
auth_limiter_decisions_total{decision="refused",limit="password"} 0
auth_limiter_decisions_total{decision="refused",limit="signin"} 0
auth_limiter_decisions_total{decision="taken",limit="link"} 0
auth_limiter_decisions_total{decision="taken",limit="login"} 6
auth_limiter_decisions_total{decision="taken",limit="passkey"} 0
auth_limiter_decisions_total{decision="taken",limit="password"} 0
auth_limiter_decisions_total{decision="taken",limit="signin"} 0
# HELP auth_logins_total Login attempts, by outcome: success, second_factor (a second step follows), invalid_credentials, closed, bad_request, busy, error.
# TYPE auth_logins_total counter
auth_logins_total{outcome="bad_request"} 0
auth_logins_total{outcome="busy"} 0
auth_logins_total{outcome="closed"} 0
auth_logins_total{outcome="error"} 0
auth_logins_total{outcome="invalid_credentials"} 5
auth_logins_total{outcome="second_factor"} 0
auth_logins_total{outcome="success"} 1
`
	if err := testutil.GatherAndCompare(h.registry, strings.NewReader(want), "auth_http_requests_total", "auth_logins_total", "auth_limiter_decisions_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(h.registry, "auth_http_request_duration_seconds"); err != nil || n == 0 {
		t.Errorf("got %d durations, %v", n, err)
	}
}
