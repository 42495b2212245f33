package app_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/redistest"
)

func TestLog_WarnsOfAZoneThatIsUnknown(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	for zone, unknown := range map[string]bool{
		"": false, "UTC": false, ":Europe/Berlin": false, "/etc/localtime": false, "Berlin": true, "CET-1CEST": true,
	} {
		environment["TZ"] = zone
		p := start(t, environment)
		p.exit()
		const warning = `"level":"WARN","msg":"TZ is not the name of a zone, such as Europe/Berlin: times are in UTC"`
		if strings.Contains(p.log.String(), warning) != unknown {
			t.Errorf("TZ=%s: the log is\n%s", zone, p.log)
		}
	}
}

func TestLog_HasOneSchemaForRequestsAndTheStart(t *testing.T) {
	t.Parallel()
	p := start(t, settings(t, redistest.Start(t)))
	p.loggedIn(adminName, adminPass).want(http.StatusForbidden, http.MethodPost, prefix+"/users", "{}", "X-CSRF-Token", "wrong")
	p.exit()
	for _, line := range []string{
		`"level":"INFO","msg":"serving","addr":"127\.0\.0\.1:\d+","admin_addr":"127\.0\.0\.1:\d+","version":""}`,
		`"level":"INFO","msg":"request","method":"POST","route":"/api/v1/auth/login","status":200,"duration_ms":[0-9.]+,"client":"127\.0\.0\.1","request_id":"[^"]+","trace_id":""}`,
		`"level":"INFO","msg":"request","method":"POST","route":"/api/v1/auth/users","status":403,"duration_ms":[0-9.]+,"client":"127\.0\.0\.1","request_id":"[^"]+","trace_id":""}`,
		`"level":"INFO","msg":"stopped"}`,
	} {
		if !regexp.MustCompile(`(?m)^{"time":"[^"]+",` + line + `$`).MatchString(p.log.String()) {
			t.Errorf("%s is not in the log:\n%s", line, p.log)
		}
	}
}
