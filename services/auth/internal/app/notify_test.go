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

// TestNotify_EventsFollowOnceTheyAreStored also checks that a request whose user does not
// exist is no event, and that what is queued when the program ends is sent.
func TestNotify_EventsFollowOnceTheyAreStored(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 10)
	topic := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent <- r.URL.Path + " " + string(body)
	}))
	t.Cleanup(topic.Close)
	p := start(t, settings(t, redistest.Start(t), "NOTIFY_URL", "ntfy+"+topic.URL+"/topsecret"))
	admin := p.loggedIn(adminName, adminPass)
	admin.want(http.StatusCreated, http.MethodPost, prefix+"/users", `{"username":"otto","display_name":"Otto","password":"battery staple"}`)
	received := func() string {
		select {
		case text := <-sent:
			return text
		case <-time.After(20 * time.Second):
			t.Fatalf("nothing was sent: %s", p.log)
			return ""
		}
	}
	admin.want(http.StatusNotFound, http.MethodPost, prefix+"/users/99/reset-link", "")
	admin.want(http.StatusCreated, http.MethodPost, prefix+"/users/2/reset-link", "")
	if got := received(); got != "/topsecret Für otto wurde ein Link für ein neues Passwort erstellt, von "+adminName+"." {
		t.Errorf("got %q", got)
	}
	eventually(t, "the notification is counted", 10*time.Second, func() bool {
		_, metrics := get(t, p.admin+"/metrics")
		return strings.Contains(metrics, "\n"+`auth_notifications_total{outcome="sent"} 1`+"\n")
	})
	admin.want(http.StatusOK, http.MethodPost, prefix+"/forgot-password", `{"identifier":"nobody"}`)
	admin.want(http.StatusOK, http.MethodPost, prefix+"/forgot-password", `{"identifier":"otto"}`)
	if code := p.exit(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if got := received(); got != "/topsecret otto bittet um ein neues Passwort." {
		t.Errorf("got %q", got)
	}
	if len(sent) > 0 || strings.Contains(p.log.String(), "topsecret") {
		t.Errorf("%d more, log %s", len(sent), p.log)
	}
}
