package app_test

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/pforte/pforte/pkg/redistest"
)

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
