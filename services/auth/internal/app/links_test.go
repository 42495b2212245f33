package app_test

import (
	"encoding/csv"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/redistest"
)

var tokenInLink = regexp.MustCompile(`\?t=([\w-]{43})\n`)

// tokenOf returns the token of a link that a command printed.
func tokenOf(t *testing.T, printed string) string {
	t.Helper()
	match := tokenInLink.FindStringSubmatch(printed)
	if match == nil {
		t.Fatalf("no link in %s", printed)
	}
	return match[1]
}

// TestOperator_HandsOutLinks sets a household up, invites a user and has them set a new
// password, each by a link of a command, while the service runs.
func TestOperator_HandsOutLinks(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t), "PUBLIC_URL", "https://home.example.org", "BOOTSTRAP_ADMIN_USERNAME", "", "BOOTSTRAP_ADMIN_PASSWORD", "")
	p := start(t, environment)
	post := func(path string, pairs ...string) int {
		body := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			body[pairs[i]] = pairs[i+1]
		}
		encoded, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		status, _ := p.browser().request(http.MethodPost, prefix+path, string(encoded))
		return status
	}

	printed := mustOperate(t, environment, "", "setup-link")
	if !strings.Contains(printed, "https://home.example.org/pforte/setup?t=") {
		t.Errorf("got %s", printed)
	}
	starter := mustOperate(t, environment, "", "setup-link", "--or-login")
	if !strings.Contains(starter, "https://home.example.org/pforte/setup?t=") || tokenOf(t, starter) == tokenOf(t, printed) {
		t.Errorf("a starter prints %s", starter)
	}
	if status := post("/setup", "code", tokenOf(t, printed), "username", "anna", "display_name", "Anna", "password", adminPass); status != http.StatusForbidden {
		t.Errorf("an older link is answered %d", status)
	}
	withName := maps.Clone(environment)
	withName["BOOTSTRAP_ADMIN_USERNAME"] = adminName
	named := mustOperate(t, withName, "", "setup-link", "--or-login")
	if named != "Log in: https://home.example.org/pforte/\n" {
		t.Errorf("a starter prints %q where settings name the first admin", named)
	}
	setUp := tokenOf(t, starter)
	if status := post("/setup", "code", setUp, "username", "anna", "display_name", "Anna", "password", adminPass); status != http.StatusCreated {
		t.Fatalf("set-up: %d", status)
	}
	if code, out := operate(t, environment, "", "setup-link"); code != 1 || strings.Contains(out, "?t=") {
		t.Errorf("a set-up link for a household with users: %d %s", code, out)
	}

	if out := mustOperate(t, environment, "", "setup-link", "--or-login"); out != "Log in: https://home.example.org/pforte/\n" {
		t.Errorf("a starter prints %q for a household with users", out)
	}

	invite := tokenOf(t, mustOperate(t, environment, "", "invite", "add", "paul", "--display-name", "Paul"))
	if out := mustOperate(t, environment, "", "invite", "list"); !strings.Contains(out, "paul") || strings.Contains(out, invite) {
		t.Errorf("got %s", out)
	}
	if status := post("/invites/accept", "token", invite, "password", "battery staple"); status != http.StatusCreated {
		t.Fatalf("accept: %d", status)
	}
	reset := tokenOf(t, mustOperate(t, environment, "", "user", "reset-link", "paul"))
	if status := post("/reset-password", "token", reset, "password", "another battery staple"); status != http.StatusOK {
		t.Fatalf("reset: %d", status)
	}
	p.loggedIn("paul", "another battery staple")

	revoked := tokenOf(t, mustOperate(t, environment, "", "invite", "add", "--admin"))
	id := regexp.MustCompile(`(?m)^(\d+) .*admin`).FindStringSubmatch(mustOperate(t, environment, "", "invite", "list"))
	mustOperate(t, environment, "", "invite", "revoke", id[1])
	if status := post("/invites/accept", "token", revoked, "username", "eve", "password", "battery staple"); status != http.StatusBadRequest {
		t.Errorf("a revoked invite: %d", status)
	}
	for _, wrong := range [][]string{{"invite", "revoke", "x"}, {"invite", "revoke", "99"}, {"user", "reset-link", "nobody"}, {"invite", "add", "anna"}} {
		if code, out := operate(t, environment, "", wrong...); code != 1 {
			t.Errorf("%v: %d %s", wrong, code, out)
		}
	}

	list := mustOperate(t, environment, "", "audit")
	for _, event := range []string{"setup_made", "setup", "invite_made", "invite_accepted", "invite_revoked", "reset_made", "reset_used"} {
		if !regexp.MustCompile(`(?m) ` + event + ` `).MatchString(list) {
			t.Errorf("the audit has no %s:\n%s", event, list)
		}
	}
	if !regexp.MustCompile(`invite_made +operator \S`).MatchString(list) {
		t.Errorf("the operator is not named:\n%s", list)
	}
	rows, err := csv.NewReader(strings.NewReader(mustOperate(t, environment, "", "audit", "--csv", "--since", "1h"))).ReadAll()
	if err != nil || len(rows) < 8 {
		t.Errorf("%v, %v", rows, err)
	}
	for _, secret := range []string{setUp, invite, reset, revoked} {
		if strings.Contains(list, secret) || strings.Contains(p.log.String(), secret) {
			t.Errorf("%s is in the audit or the log", secret)
		}
	}
}
