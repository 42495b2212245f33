package app

import (
	"regexp"
	"testing"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

func TestLog_HasOneSchemaForRequestsAndTheStart(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	r := w.run()
	w.wantReceipt(w.post(r.url, w.pay("1")))
	get(t, r.url+"/nowhere")
	w.must(r.stop())
	for _, line := range []string{
		`"level":"INFO","msg":"serving","addr":"127\.0\.0\.1:\d+","admin_addr":"127\.0\.0\.1:\d+","version":""}`,
		`"level":"INFO","msg":"request","method":"POST","route":"/v1/verify/base-transaction","status":200,"duration_ms":[0-9.]+,"client":"127\.0\.0\.1","request_id":"[^"]+","trace_id":""}`,
		`"level":"INFO","msg":"request","method":"GET","route":"none","status":404,"duration_ms":[0-9.]+,"client":"127\.0\.0\.1","request_id":"[^"]+","trace_id":"","error":"no such route"}`,
		`"level":"INFO","msg":"stopped"}`,
	} {
		if !regexp.MustCompile(`(?m)^{"time":"[^"]+",` + line + `$`).MatchString(r.stderr.String()) {
			t.Errorf("%s is not in the log:\n%s", line, r.stderr)
		}
	}
}
