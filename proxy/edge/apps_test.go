package edge

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

// ofTheOperator are lines of an operator, and the entries that stand for them.
var ofTheOperator = map[string]App{
	`handle /host/* {
		import require_app notes
		import application notes:8080
	}`: {Slug: "notes", Host: "notes.example.org", To: "http://notes:8080"},
	`handle_path /host/* {
		import require_app cal
		import application 192.168.1.20:5232
	}`: {Slug: "cal", Path: "/host/", To: "http://192.168.1.20:5232", Strip: true},
	`handle /host/* {
		import require_app nas
		reverse_proxy [fd00::1]:443 {
			header_up X-Forwarded-For {client_ip}
			header_up X-Webauth-User {http.request.header.X-Auth-Username}
			import server 5m 3s edge
		}
	}`: {Slug: "nas", Path: "/host/", To: "https://[fd00::1]:443", UserHeader: "X-Webauth-User", Pin: strings.Repeat("0", 64)},
}

// The guard of an entry, its order and all else are those of the lines that the operator would write, JSON for JSON.
// The transport alone is another, which knows where an application may be.
func TestApps_TheRouteOfAnEntryIsThatOfTheOperatorsLines(t *testing.T) { //nolint:paralleltest // sets the environment
	file, err := os.ReadFile("../Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("APPS_SWITCH", "on")
	for lines, app := range ofTheOperator {
		t.Setenv("ROUTES", lines)
		config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(file, map[string]any{"filename": "Caddyfile"})
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := json.Unmarshal(config, &tree); err != nil {
			t.Fatal(err)
		}
		handler := find(tree, func(v map[string]any) bool { return v["handler"] == "edge_apps" })
		route := find(tree, func(v map[string]any) bool {
			matchers, _ := v["match"].([]any)
			return slices.ContainsFunc(matchers, func(m any) bool {
				paths, _ := m.(map[string]any)["path"].([]any)
				return slices.Contains(paths, any("/host/*"))
			})
		})
		if handler == nil || route == nil {
			t.Fatal("the configuration has no route of the operator, or none of the list")
		}
		template, _ := json.Marshal(handler["route"])
		filled, err := fill(template, app)
		if err != nil {
			t.Fatal(err)
		}
		var own any
		if err := json.Unmarshal(filled, &own); err != nil {
			t.Fatal(err)
		}
		transport := find(own, func(v map[string]any) bool { return v["protocol"] == "edge_app" })
		if transport["app"] != app.Slug || transport["pin"] != app.Pin {
			t.Errorf("%s: the transport is %v", app.Slug, transport)
		}
		transport["protocol"] = "edge"
		delete(transport, "app")
		delete(transport, "pin")
		subroute := route["handle"].([]any)[0].(map[string]any)
		delete(subroute, "handler") // the module's name
		got, _ := json.MarshalIndent(own, "", "\t")
		want, _ := json.MarshalIndent(subroute, "", "\t")
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the list makes\n%s\nthe operator's lines\n%s", app.Slug, got, want)
		}
	}
}

// find returns the first object of which f reports true.
func find(tree any, f func(map[string]any) bool) map[string]any {
	var below []any
	switch v := tree.(type) {
	case []any:
		below = v
	case map[string]any:
		if f(v) {
			return v
		}
		for _, value := range v {
			below = append(below, value)
		}
	}
	for _, value := range below {
		if found := find(value, f); found != nil {
			return found
		}
	}
	return nil
}

// What is in an entry stays in its strings: the configuration keeps its form, and names nothing to be replaced.
func FuzzApps_AnEntryAddsNothingToTheTemplate(f *testing.F) {
	template := []byte(`{"routes":[{"a":"/x?app={edge.app}","b":["{edge.to}"],"c":{"{edge.user_header}":["u"]}}]}`)
	for _, seed := range []string{
		`http://x"}:1`, "{env.HOME}", "http://{env.HOME}:1", `{"a":1}`, `http://a:1","x":"`, "{file./etc/passwd}", "notes", "{edge.to}",
		"http://127.0.0.1:80", "X-Webauth-User", "/a/", "/a{b}/", "a.example.org", "é", "\x00", `\u007b`,
	} {
		f.Add(seed, seed, seed, seed, seed, true)
	}
	f.Fuzz(func(t *testing.T, slug, host, path, to, header string, strip bool) {
		for _, in := range []map[string]any{
			{"slug": slug, "host": host, "to": to, "user_header": header},
			{"slug": slug, "path": path, "to": to, "strip": strip, "user_header": header},
			{"slug": slug, "host": "a.b", "to": "http://a:1"},
			{"slug": "a", "host": host, "to": "http://a:1"},
			{"slug": "a", "path": path, "to": "http://a:1", "strip": strip},
			{"slug": "a", "host": "a.b", "to": to},
			{"slug": "a", "host": "a.b", "to": "http://a:1", "user_header": header},
		} {
			raw, _ := json.Marshal(in)
			app, fault := parseApp(raw)
			if fault != "" {
				continue
			}
			filled, err := fill(template, app)
			if err != nil {
				t.Fatal(err)
			}
			var tree map[string]any
			if err := json.Unmarshal(filled, &tree); err != nil {
				t.Fatal(err)
			}
			routes := tree["routes"].([]any)
			last := routes[len(routes)-1].(map[string]any)
			if len(tree) != 1 || len(last) != 3 || strings.ContainsAny(last["a"].(string)+last["b"].([]any)[0].(string), "{}\"\\ \n") || len(routes) != map[bool]int{false: 1, true: 2}[app.Strip] {
				t.Errorf("%s makes %s", raw, filled)
			}
			if bytes.Count(filled, []byte("{")) != strings.Count(string(filled), `{"`)+strings.Count(string(filled), "{}") {
				t.Errorf("%s makes %s, which has a placeholder", raw, filled)
			}
		}
	})
}
