package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	proxyredis "github.com/pforte/pforte/services/auth/internal/application/redisstore"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// routesAnswer is the answer to a proxy.
type routesAnswer struct {
	Version   int
	ETag      string
	Household string
	Apps      []map[string]any
	Never     []string
	Probe     []struct{ ID, To string }
}

// question is a proxy's, of pairs of names and values.
func (h *fixture) question(pairs ...any) reply {
	h.t.Helper()
	return h.browser().send(http.MethodPost, "/internal/routes", object(append([]any{"proxy", "one"}, pairs...)...))
}

func (r reply) routes() (a routesAnswer) {
	r.t.Helper()
	if err := json.Unmarshal(r.want(http.StatusOK).body, &a); err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (h *fixture) route(slug, upstream string) {
	h.t.Helper()
	h.ok(h.policy.SetRoute(h.t.Context(), session.Session{}, slug, policy.RouteChange{Upstream: upstream}))
}

func TestRoutes_AreThoseOfTheStoreNow(t *testing.T) {
	h := withApplications(t)
	if got := h.question().routes(); got.Version != 1 || got.Apps == nil || len(got.Apps) != 0 || got.Household == "" {
		t.Errorf("without a route: %+v", got)
	}
	h.ok(h.policy.SetRoute(t.Context(), session.Session{}, "login", policy.RouteChange{Upstream: "192.168.1.20:5232/", Strip: true}))
	h.ok(h.policy.SetRoute(t.Context(), session.Session{}, "photos", policy.RouteChange{Upstream: "http://Photos:80", UserHeader: "remote-user"}))
	got := h.question().routes()
	want := []map[string]any{
		{"slug": "login", "name": "login", "path": "/login/", "to": "http://192.168.1.20:5232", "strip": true},
		{"slug": "photos", "name": "photos", "host": "photos.example.org", "to": "http://photos:80", "user_header": "Remote-User"},
	}
	if diff := cmp.Diff(want, got.Apps); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if same := h.question("have", got.ETag); same.status != http.StatusNoContent || len(same.body) != 0 {
		t.Errorf("the same list: %d %s", same.status, same.body)
	}
	h.ok(h.policy.RemoveRoute(t.Context(), session.Session{}, "login"))
	if next := h.question("have", got.ETag).routes(); len(next.Apps) != 1 || next.ETag == got.ETag {
		t.Errorf("after a removal: %+v", next)
	}
}

func TestRoutes_LeaveOutWhatWouldTakeThePortalsHost(t *testing.T) {
	h := withApplications(t)
	h.route("photos", "photos:80")
	must(h.db.Writer.ExecContext(t.Context(), `UPDATE applications SET url = 'https://home.example:8443' WHERE slug = 'photos'`))(t)
	if got := h.question().routes(); len(got.Apps) != 0 {
		t.Errorf("got %+v", got.Apps)
	}
}

// TestRoutes_AreForTrustedProxiesOnly also has a proxy forward a client's request to the path.
func TestRoutes_AreForTrustedProxiesOnly(t *testing.T) {
	h := withApplications(t)
	question := object("proxy", "one")
	for _, header := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "Via"} {
		h.browser().send(http.MethodPost, "/internal/routes", question, header, "x").want(http.StatusNotFound)
	}
	stranger := newFixture(t)
	got := stranger.question().want(http.StatusNotFound)
	if none := stranger.browser().send(http.MethodPost, "/internal/none", question); string(none.body) != string(got.body) {
		t.Errorf("%s differs from the answer of a path that there is not: %s", got.body, none.body)
	}
	withApplications(t, func(s *settings) { s.compat = true }).question().want(http.StatusNotFound)
}

func TestRoutes_RefuseWhatIsNoQuestion(t *testing.T) {
	h := withApplications(t)
	b := h.browser()
	for _, body := range []string{`{}`, `{"proxy":""}`, `{"proxy":"a b"}`, `{"proxy":7}`, `[]`, `{"proxy":"` + strings.Repeat("a", 65) + `"}`} {
		b.send(http.MethodPost, "/internal/routes", body).want(http.StatusBadRequest)
	}
	b.send(http.MethodPost, "/internal/routes", `{"proxy":"`+strings.Repeat("a", 70_000)+`"}`).want(http.StatusRequestEntityTooLarge)
	b.send(http.MethodPost, "/internal/routes", "proxy=a", "Content-Type", "text/plain").want(http.StatusUnsupportedMediaType)
	h.brokenPolicy.Store(true)
	h.question().want(http.StatusInternalServerError)
}

// TestRoutes_NeedNoRedis has proxies get their list while nothing of theirs can be kept.
func TestRoutes_NeedNoRedis(t *testing.T) {
	h := withApplications(t)
	h.route("login", "notes:80")
	h.clock.Redis.SetError("LOADING")
	if got := h.question().routes(); len(got.Apps) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestRoutes_KeepWhatAProxyReportsForTenSeconds(t *testing.T) {
	h := withApplications(t)
	h.question("apps", "lan", "tls", "auto", "have", `"a1"`, "skipped", map[string]string{"nas": "address", "X Y": "form", "cal": "<b>"},
		"certified", []string{"notes", "<i>"}, "named", []string{"127.0.0.1:3000", "\x00"}).want(http.StatusOK)
	h.question("proxy", "two").want(http.StatusOK)
	reports := proxyredis.New(h.redis, "svc", h.clock.Now)
	proxies, err := reports.Proxies(t.Context())
	h.ok(err)
	if len(proxies) != 2 {
		t.Fatalf("got %+v", proxies)
	}
	one := proxies[0]
	if diff := cmp.Diff(map[string]string{"nas": "address"}, one.Skipped); diff != "" || one.Apps != "lan" || one.TLS != "auto" || one.Have != `"a1"` {
		t.Errorf("%+v %s", one, diff)
	}
	if diff := cmp.Diff([][]string{{"notes"}, {"127.0.0.1:3000"}}, [][]string{one.Certified, one.Named}); diff != "" {
		t.Error(diff)
	}
	h.clock.Advance(11 * time.Second)
	if proxies, err = reports.Proxies(t.Context()); err != nil || len(proxies) != 0 {
		t.Errorf("after 11 s: %+v, %v", proxies, err)
	}
}

// TestRoutes_AnHTTPSRouteWaitsForItsPin has proxies tell the pins of an address that is no longer the application's, and
// another one after the first.
func TestRoutes_AnHTTPSRouteWaitsForItsPin(t *testing.T) {
	h := withApplications(t)
	h.route("login", "https://192.168.1.8:5001")
	old := h.question().routes()
	if len(old.Apps) != 0 || len(old.Probe) != 1 || old.Probe[0].To != "https://192.168.1.8:5001" {
		t.Fatalf("got %+v", old)
	}
	h.route("login", "https://192.168.1.9:5001")
	pin, other := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	answer := func(id, pin string) reply {
		return h.question("probed", []map[string]any{{"id": id, "status": 200, "ms": 12, "pin": pin}})
	}
	now := answer(old.Probe[0].ID, other).routes()
	if len(now.Apps) != 0 || len(now.Probe) != 1 {
		t.Fatalf("the pin of another address: %+v", now)
	}
	answer(now.Probe[0].ID, "no pin").want(http.StatusOK)
	if got := answer(now.Probe[0].ID, pin).routes(); len(got.Apps) != 1 || got.Apps[0]["pin"] != pin || len(got.Probe) != 0 {
		t.Fatalf("got %+v", got)
	}
	if got := answer(now.Probe[0].ID, other).routes(); got.Apps[0]["pin"] != pin {
		t.Errorf("a second pin: %+v", got)
	}
}
