package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/redistest"
)

func TestMetrics_CountSessionsAndWhetherStoresAnswer(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	p := start(t, settings(t, redis.Addr()))
	b := p.loggedIn(adminName, adminPass)
	p.loggedIn(adminName, adminPass)
	b.want(http.StatusOK, http.MethodPatch, prefix+"/me/password", `{"current_password":"`+adminPass+`","new_password":"another one"}`)
	b.want(http.StatusOK, http.MethodPost, prefix+"/logout", "")
	holds := func(want string) bool {
		_, metrics := get(t, p.admin+"/metrics")
		return strings.Contains(metrics, "\n"+want)
	}
	for _, want := range []string{
		"auth_sessions_started_total 2\n", `auth_sessions_ended_total{reason="revoked"} 1` + "\n", `auth_sessions_ended_total{reason="closed"} 1` + "\n",
		`auth_store_up{store="redis"} 1` + "\n", `auth_store_up{store="database"} 1` + "\n",
		`auth_redis_command_duration_seconds_count{command="evalsha",outcome="ok"} `,
	} {
		if !holds(want) {
			t.Errorf("no %s", want)
		}
	}
	redis.Kill()
	eventually(t, "Redis is reported as down", 10*time.Second, func() bool {
		return holds(`auth_store_up{store="redis"} 0`+"\n") && holds(`auth_redis_command_duration_seconds_count{command="ping",outcome="error"} `)
	})
}
