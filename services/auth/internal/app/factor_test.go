package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/redistest"
)

// secondFactor turns TOTP on for a browser's user and returns the secret and the recovery
// codes.
func (b *browser) secondFactor() (secret string, codes []string) {
	b.p.t.Helper()
	var setup struct{ Data struct{ Secret string } }
	var enabled struct {
		Data struct {
			Codes []string `json:"recovery_codes"`
		}
	}
	answer := b.want(http.StatusOK, http.MethodPost, prefix+"/2fa/setup", "")
	if err := json.Unmarshal([]byte(answer), &setup); err != nil {
		b.p.t.Fatal(err)
	}
	answer = b.want(http.StatusOK, http.MethodPost, prefix+"/2fa/enable", fmt.Sprintf(`{"code":%q}`, codeNow(b.p.t, setup.Data.Secret)))
	if err := json.Unmarshal([]byte(answer), &enabled); err != nil {
		b.p.t.Fatal(err)
	}
	return setup.Data.Secret, enabled.Data.Codes
}

// asked logs in with the password of a user with a second factor.
func (p *program) asked(name, pass string) *browser {
	p.t.Helper()
	b := p.browser()
	if status, body := b.login(name, pass); status != http.StatusOK || !strings.Contains(body, `"twoFactorRequired":true`) {
		p.t.Fatalf("login of %s: %d %s", name, status, body)
	}
	return b
}

func TestOperator_ResetsASecondFactor(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t), "DATA_KEY", strings.Repeat("5a", 32))
	p := start(t, environment)
	b := p.loggedIn(adminName, adminPass)
	_, codes := b.secondFactor()
	pending := p.asked(adminName, adminPass)
	out := mustOperate(t, environment, "", "user", "reset-factor", adminName)
	if strings.Count(out, `"event":"second_factor_reset","actor":"cli","os_user":`) != 1 {
		t.Errorf("got %s", out)
	}
	b.want(http.StatusUnauthorized, http.MethodGet, prefix+"/me", "")
	pending.want(http.StatusUnauthorized, http.MethodPost, prefix+"/2fa/verify", fmt.Sprintf(`{"code":%q}`, codes[0]))
	p.loggedIn(adminName, adminPass).want(http.StatusOK, http.MethodGet, prefix+"/me", "")
	if list := mustOperate(t, environment, "", "audit"); !strings.Contains(list, "second_factor_reset  operator") {
		t.Errorf("got %s", list)
	}
	for _, args := range [][]string{{"user", "reset-factor", "nobody"}, {"user", "reset-factor"}} {
		if code, out := operate(t, environment, "", args...); code == 0 || strings.Contains(out, `"audit"`) {
			t.Errorf("auth %v: %d %s", args, code, out)
		}
	}
}

// TestDataKey_IsReplaced starts with a key, then with another and the previous one, then with
// the other alone, and then with neither.
func TestDataKey_IsReplaced(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t), "DATA_KEY", strings.Repeat("5a", 32))
	p := start(t, environment)
	_, codes := p.loggedIn(adminName, adminPass).secondFactor()
	p.exit()
	environment["DATA_KEY"], environment["DATA_KEY_PREVIOUS"] = strings.Repeat("a5", 32), environment["DATA_KEY"]
	p = start(t, environment)
	p.exit()
	delete(environment, "DATA_KEY_PREVIOUS")
	p = start(t, environment)
	if strings.Contains(p.log.String(), "TOTP secret cannot be opened") {
		t.Error("the secret was not sealed again")
	}
	p.asked(adminName, adminPass).want(http.StatusOK, http.MethodPost, prefix+"/2fa/verify", fmt.Sprintf(`{"code":%q}`, codes[0]))
	p.exit()
	delete(environment, "DATA_KEY")
	p = start(t, environment)
	if !strings.Contains(p.log.String(), "DATA_KEY is not set: users with TOTP") {
		t.Error("it does not warn")
	}
	p.asked(adminName, adminPass).want(http.StatusOK, http.MethodPost, prefix+"/2fa/verify", fmt.Sprintf(`{"code":%q}`, codes[1]))
}

func TestDataKey_OfAnotherFormIsAFault(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("5a", 32)
	for _, wrong := range [][]string{
		{"DATA_KEY", "5a"},
		{"DATA_KEY", strings.Repeat("zz", 32)},
		{"DATA_KEY_PREVIOUS", key},
		{"DATA_KEY", key, "DATA_KEY_PREVIOUS", "5a"},
	} {
		code, out := operate(t, settings(t, "127.0.0.1:1", wrong...), "", "serve")
		if code != 1 || !strings.Contains(out, "DATA_KEY") || strings.Contains(out, "zzzz") {
			t.Errorf("%v: %d %s", wrong, code, out)
		}
	}
}

func TestMetrics_CountLinks(t *testing.T) {
	t.Parallel()
	p := start(t, settings(t, redistest.Start(t)))
	anna := p.loggedIn(adminName, adminPass)
	var made struct {
		Token string
		Data  struct{ Invite struct{ ID int64 } }
	}
	for range 2 {
		if err := json.Unmarshal([]byte(anna.want(http.StatusCreated, http.MethodPost, prefix+"/invites", `{"username":"otto"}`)), &made); err != nil {
			t.Fatal(err)
		}
	}
	anna.want(http.StatusBadRequest, http.MethodPost, prefix+"/reset-password", fmt.Sprintf(`{"token":%q,"password":"battery staple"}`, made.Token))
	anna.want(http.StatusOK, http.MethodGet, prefix+"/invites/preview?token="+made.Token, "")
	anna.want(http.StatusCreated, http.MethodPost, prefix+"/invites/accept", fmt.Sprintf(`{"token":%q,"password":"battery staple"}`, made.Token))
	anna.want(http.StatusOK, http.MethodDelete, fmt.Sprint(prefix, "/invites/", made.Data.Invite.ID-1), "")
	anna.want(http.StatusNotFound, http.MethodDelete, fmt.Sprint(prefix, "/invites/", made.Data.Invite.ID), "")
	_, metrics := get(t, p.admin+"/metrics")
	for result, n := range map[string]int{
		`kind="invite",result="created"`: 2, `kind="invite",result="used"`: 1, `kind="invite",result="revoked"`: 1, `kind="invite",result="invalid"`: 0,
		`kind="reset",result="invalid"`: 1, `kind="reset",result="used"`: 0, `kind="setup",result="created"`: 0,
	} {
		if want := fmt.Sprintf("\nauth_links_total{%s} %d\n", result, n); !strings.Contains(metrics, want) {
			t.Errorf("no %s", want)
		}
	}
}
