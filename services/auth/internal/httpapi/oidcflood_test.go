package httpapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/oidc"
)

// rows returns how many rows each table has.
func (h *signingIn) rows() map[string]int {
	h.t.Helper()
	list := `SELECT name FROM sqlite_master WHERE type = 'table'`
	if h.db.Dialect == sqldb.Postgres {
		list = `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()`
	}
	found, err := h.db.Reader.QueryContext(h.t.Context(), list)
	tables := must(sqldb.All(found, err, func(row sqldb.Scanner) (name string, err error) { return name, row.Scan(&name) }))(h.t)
	counts := map[string]int{}
	for _, table := range tables {
		var n int
		if err := h.db.Reader.QueryRowContext(h.t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
			h.t.Fatal(err)
		}
		counts[table] = n
	}
	return counts
}

// TestLimit_OfAStrangersFloodNothingStays: names of clients, addresses, states and codes that a stranger makes up leave no
// row, no series of a metric, and no more in Redis than the limit of each network and what is said of an application.
func TestLimit_OfAStrangersFloodNothingStays(t *testing.T) {
	inEach(t, func(t *testing.T, h *signingIn) {
		h.client("phone", func(c *oidc.Client) { c.Public, c.Device = true, true })
		_, challenge := pkce()
		phone := append([]string{"client_id", "phone", "redirect_uri", strings.Replace(callback, "grafana", "phone", 1)}, challenge...)
		const networks, each = 3, 40
		flood := func(round int) {
			for range networks {
				b := h.elsewhere()
				get := func(path string, values url.Values) { b.at("GET", path+"?"+values.Encode(), "") }
				post := func(path string, values url.Values) {
					b.at("POST", path, values.Encode(), "Content-Type", "application/x-www-form-urlencoded")
				}
				for i := range each {
					made := fmt.Sprintf("%d-%d-%d-", round, h.addresses, i)
					long := made + strings.Repeat("x", 3000)
					get("/pforte/oidc/authorize", asked("client_id", made, "state", long))
					get("/pforte/oidc/authorize", asked("redirect_uri", "https://evil.example/"+long))
					get("/pforte/oidc/authorize", asked("state", long))
					get("/pforte/oidc/authorize", asked("prompt", "none", "state", long))
					get("/pforte/oidc/authorize", asked("scope", long))
					get("/pforte/oidc/authorize", url.Values{"r": {long}})
					get("/pforte/oidc/authorize", url.Values{"client_id": {"grafana"}, "request_uri": {"urn:ietf:params:oauth:request_uri:" + made}})
					post("/pforte/oidc/authorize", asked("client_id", made, "state", long))
					post("/pforte/oidc/par", asked(append([]string{"state", long}, phone...)...))
					post("/pforte/oidc/device", url.Values{"client_id": {"phone"}, "scope": {"openid " + made}})
					for _, grant := range []string{"authorization_code", "refresh_token", oidc.GrantDevice, made} {
						post("/pforte/oidc/token", url.Values{"client_id": {"phone"}, "grant_type": {grant}, "code": {long}, "refresh_token": {"pfr_" + made + ".0.x"}, "device_code": {strings.Repeat("0", 64) + "." + made}})
					}
					post("/pforte/oidc/token", url.Values{"client_id": {"grafana"}, "client_secret": {long}, "grant_type": {made}})
					post("/pforte/oidc/token", url.Values{"client_id": {long}})
					get("/.well-known/webfinger", url.Values{"resource": {"acct:" + made + "@home.example.org"}})
					b.at("GET", "/pforte/oidc/userinfo", "", "Authorization", "Bearer "+made)
				}
			}
			h.settle()
		}
		series := func() (n int) {
			for _, family := range must(h.registry.Gather())(t) {
				n += len(family.GetMetric())
			}
			return n
		}
		flood(0)
		rows, measured := h.rows(), series()
		flood(1)
		if now := h.rows(); !maps.Equal(now, rows) || now["oidc_clients"] != 2 || now["oidc_grants"] != 0 {
			t.Errorf("rows were %v, are %v", rows, now)
		}
		if now := series(); now != measured {
			t.Errorf("%d series, %d after one flood", now, measured)
		}
		kept := map[string]int{}
		for _, key := range must(h.redis.Keys(t.Context(), "svc:*").Result())(t) {
			kind := strings.Split(key, ":")[1]
			if kind == "oidc" {
				kind += " " + strings.Split(key, ":")[2]
			}
			kept[kind]++
		}
		// What is kept is kept by 6 networks, each of which may have 30 in a minute.
		if begun := kept["oidc req"] + kept["oidc device"]; begun > 30*2*networks || begun == 0 {
			t.Errorf("%d requests are kept", begun)
		}
		delete(kept, "oidc req")
		delete(kept, "oidc device")
		if kept["oidc last"] != 2 || kept["limit"] > 2*2*networks || kept["newest"] != 2 || len(kept) > 3 {
			t.Errorf("kept are %v", kept)
		}
		for _, slug := range []string{"grafana", "phone"} {
			c := must(h.oidc.Client(t.Context(), slug))(t)
			key := fmt.Sprintf("svc:oidc:last:%d", c.ApplicationID)
			if n := must(h.redis.LLen(t.Context(), key).Result())(t); n != 20 {
				t.Errorf("%d refusals of %s", n, slug)
			}
			for _, refusal := range must(h.redis.LRange(t.Context(), key, 0, -1).Result())(t) {
				if len(refusal) > 1024 {
					t.Errorf("a refusal of %d bytes", len(refusal))
				}
			}
		}
		if got := h.exchange(h.otto().code()); got.status != http.StatusOK {
			t.Errorf("a user meanwhile: %d %s", got.status, got.body)
		}
		h.clock.Advance(16 * time.Minute)
		for _, kind := range []string{"req", "device"} {
			if left := must(h.redis.Keys(t.Context(), "svc:oidc:"+kind+":*").Result())(t); len(left) != 0 {
				t.Errorf("after 16 minutes %d are left", len(left))
			}
		}
	})
}

// TestLimit_OfAStrangersFloodTakesNoPlaceOfALogin: what strangers cause at the provider waits in another
// queue than the rows of logins, which are dropped where too many wait.
func TestLimit_OfAStrangersFloodTakesNoPlaceOfALogin(t *testing.T) {
	h := newSigningIn(t)
	h.client("phone", func(c *oidc.Client) { c.Public = true })
	b := h.browser()
	for range 100 { // no worker runs meanwhile
		b.at("GET", "/pforte/oidc/authorize?"+asked("response_type", "x").Encode(), "").want(http.StatusSeeOther)
		h.form("/pforte/oidc/token", "client_secret", "x").is(t, "a wrong secret", http.StatusUnauthorized, "invalid_client")
		for _, grant := range []string{"authorization_code", "refresh_token"} {
			h.form("/pforte/oidc/token", "client_id", "phone", "client_secret", "-", "grant_type", grant, "code", "x", "refresh_token", "x").is(t, grant, http.StatusBadRequest, "invalid_grant")
		}
	}
	h.otto()
	h.audit.Drain()
	entries, _, err := h.audit.Entries(t.Context(), audit.Query{Event: "login"})
	if err != nil || len(entries) != 1 || h.audit.Dropped() != 0 {
		t.Errorf("the rows are %+v, %v, and %d pieces of work were dropped", entries, err, h.audit.Dropped())
	}
}

// TestLimit_OfKeptRequestsIsNotUsedUpByAForeignPage has a page of another site load pictures and frames of authorize,
// have it fetched ahead, and send forms to the endpoint of devices, in its visitor's browser.
func TestLimit_OfKeptRequestsIsNotUsedUpByAForeignPage(t *testing.T) {
	h := newSigningIn(t)
	h.client("phone", func(c *oidc.Client) { c.Public, c.Device = true, true })
	b := h.browser()
	for range 31 {
		for _, part := range []string{"image", "iframe"} {
			b.at("GET", "/pforte/oidc/authorize?"+asked().Encode(), "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", part)
		}
		b.at("GET", "/pforte/oidc/authorize?"+asked().Encode(), "", "Sec-Fetch-Site", "none", "Sec-Fetch-Dest", "document", "Sec-Purpose", "prefetch")
		got := b.at("POST", "/pforte/oidc/device", "client_id=phone&scope=openid", "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "empty")
		if got.status != http.StatusForbidden {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	if got := b.at("GET", "/pforte/oidc/authorize?"+asked().Encode(), "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "document"); got.status != http.StatusSeeOther {
		t.Errorf("a login at an application: got %d %s", got.status, got.body)
	}
}
