package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
)

// spellings returns request targets that some server could read as dir + "/" +
// leaf, or that begin so and may lead to another path. dir has two segments.
func spellings(dir, leaf string) []string {
	one, two, _ := strings.Cut(dir[1:], "/")
	up := strings.Repeat("../", strings.Count(dir+"/"+leaf, "/")+1)
	all := []string{
		// as it is
		dir + "/" + leaf, strings.ToUpper(dir) + "/" + leaf, "/" + strings.ToUpper(one[:1]) + one[1:] + "/" + two + "/" + leaf, encodeFirst(dir) + "/" + leaf,
		"/" + one + "/" + two + "%2f" + leaf, "/" + one + "%2F" + two + "/" + leaf, "/" + one + "%2f" + two + "%2f" + strings.ReplaceAll(leaf, "/", "%2f"),
		// what begins so and is tidied to something else
		dir + "/" + leaf + "/" + up, dir + "/" + leaf + "%2f" + strings.ReplaceAll(strings.TrimSuffix(up, "/"), "/", "%2f"), dir + "/" + leaf + "/" + strings.ReplaceAll(up, ".", "%2e"),
		dir + "/" + leaf + "/" + strings.ReplaceAll(up, ".", "%2E"), dir + "/" + leaf + "/.%2e/.%2e/.%2e/.%2e/.%2e/x", dir + "/" + leaf + `/..\..\..\..\..\x`, dir + "/" + leaf + "%5c..%5c..%5c..%5c..%5c..%5cx",
		dir + "/" + leaf + "/..;/..;/..;/..;/..;/x", dir + "/" + leaf + "/..;x=1/..;x=1/..;x=1/..;x=1/..;x=1/x", dir + "/" + leaf + "/%2e%2e;/%2e%2e;/%2e%2e;/%2e%2e;/%2e%2e;/x",
		dir + "/" + leaf + "/%252e%252e/%252e%252e/%252e%252e/%252e%252e/x", dir + "/" + leaf + "%252f..%252f..%252f..%252f..%252f..%252fx", dir + "/../../x", dir + "/..", dir + "/%2e%2e",
		// dot segments
		"/." + dir + "/" + leaf, "/x/.." + dir + "/" + leaf, "/.." + dir + "/" + leaf, "/../.." + dir + "/" + leaf, "/%2e" + dir + "/" + leaf, "/x/%2e%2e" + dir + "/" + leaf, "/x/.%2E" + dir + "/" + leaf,
		"/" + one + "/./" + two + "/" + leaf, "/" + one + "/x/../" + two + "/" + leaf, "/" + one + "/%2e/" + two + "/" + leaf, "/x%2f.." + dir + "/" + leaf, "/x%2f..%2f" + one + "/" + two + "/" + leaf,
		"/x/..%2f" + one + "/" + two + "/" + leaf, "/x/..%5c" + one + "/" + two + "/" + leaf, `/x\..` + dir + "/" + leaf, "/..." + dir + "/" + leaf, "/.%20" + dir + "/" + leaf,
		"/x/..%20" + dir + "/" + leaf, "/" + one + "/" + two + "/." + "/" + leaf,
		// empty segments
		"/" + dir + "/" + leaf, "//" + dir + "/" + leaf, "//x" + dir + "/" + leaf, "/" + one + "//" + two + "/" + leaf, "/%2f" + one + "/" + two + "/" + leaf, "%2f" + one + "/" + two + "/" + leaf,
		"/" + one + "%2f/" + two + "/" + leaf, "/" + one + "%2f%2f" + two + "/" + leaf, "/%2f%2fx" + dir + "/" + leaf,
		// backslashes
		"/" + one + `\` + two + `\` + leaf, `\` + one + `\` + two + `\` + leaf, "/" + one + "%5c" + two + "%5C" + leaf, `/\x` + dir + "/" + leaf, "/%5cx" + dir + "/" + leaf, "/" + one + "%255c" + two + "/" + leaf, "/%255c" + one + "/" + two + "/" + leaf,
		// parameters
		"/" + one + ";x/" + two + "/" + leaf, "/" + one + "/" + two + ";a=b/" + leaf, "/;x" + dir + "/" + leaf, "/;" + dir + "/" + leaf, "/" + one + "%3bx/" + two + "/" + leaf, "/" + one + "%253bx/" + two + "/" + leaf, "/x/..;" + dir + "/" + leaf, "/x/.;" + dir + "/" + leaf,
		// control characters
		"/" + one + "%00/" + two + "/" + leaf, "/" + one + "%09/" + two + "/" + leaf, "/%0a" + one + "/" + two + "/" + leaf, "/" + one + "%0d%0a/" + two + "/" + leaf, "/" + one + "%7f/" + two + "/" + leaf, "/" + one + "/" + two + "%1f/" + leaf,
		"/" + one[:1] + "%09" + one[1:] + "/" + two + "/" + leaf, "/.%09./" + one + "/" + two + "/" + leaf, "/" + one[:1] + "\t" + one[1:] + "/" + two + "/" + leaf, "/x/.\t." + dir + "/" + leaf, "/" + one + "\x00/" + two + "/" + leaf, "/" + one + "%c2%85/" + two + "/" + leaf,
		// decoded twice
		"/%25" + fmt.Sprintf("%02x", one[0]) + one[1:] + "/" + two + "/" + leaf, "/" + one + "%252f" + two + "/" + leaf, "/x/%252e%252e" + dir + "/" + leaf, "/x%252f.." + dir + "/" + leaf, "/%25252e" + dir + "/" + leaf,
		"/" + one + "%25%32%66" + two + "/" + leaf, "/x/%25%32%65%252e" + dir + "/" + leaf, "/" + one + "%25u002f" + two + "/" + leaf, "/" + one + "%25U2215" + two + "/" + leaf,
		// escapes that are none, and UTF-8 that is none
		"/" + one + "%u002f" + two + "/" + leaf, "/" + one + "%2" + "/" + two + "/" + leaf, "/" + one + "%" + "/" + two + "/" + leaf, "/%zz" + dir + "/" + leaf, "/" + one + "%c0%af" + two + "/" + leaf, "/x/%c0%ae%c0%ae" + dir + "/" + leaf,
		"/" + one + "%e0%80%af" + two + "/" + leaf, "/" + one + "%f0%80%80%af" + two + "/" + leaf, "/" + one + "%c1%9c" + two + "/" + leaf, "/%ff" + dir + "/" + leaf, "/" + one + "\xc0\xaf" + two + "/" + leaf,
		// dots and spaces at the end of a segment
		"/" + one + "./" + two + "/" + leaf, "/" + one + "/" + two + "./" + leaf, "/" + one + "/" + two + "%20/" + leaf, "/" + one + ".%20./" + two + "/" + leaf, "/" + one + "%2e/" + two + "/" + leaf,
		// whole URLs and what else is no path
		"http://other" + dir + "/" + leaf, "HTTP://other" + dir + "/" + leaf, "http:" + dir + "/" + leaf, "http:" + one + "/" + two + "/" + leaf, "http:/" + dir + "/" + leaf, "http://other:80" + dir + "/" + leaf, "x:" + dir + "/" + leaf,
		"/http://other" + dir + "/" + leaf, "/http:%2f%2fother" + dir + "/" + leaf, "http://other", "http://a@other" + dir + "/" + leaf, "ws://other" + dir + "/" + leaf, "*", one + "/" + two + "/" + leaf, "?" + dir + "/" + leaf, "#" + dir + "/" + leaf,
		"/#/.." + dir + "/" + leaf, "/x#" + dir + "/" + leaf, "/%23/.." + dir + "/" + leaf, "/%3f/.." + dir + "/" + leaf, "/x%3f/.." + dir + "/" + leaf,
	}
	return all
}

// encodeFirst writes the first letter of each segment as an escape.
func encodeFirst(dir string) string {
	segments := strings.Split(dir, "/")
	for i, s := range segments {
		if s != "" {
			segments[i] = fmt.Sprintf("%%%02x%s", s[0], s[1:])
		}
	}
	return strings.Join(segments, "/")
}

// readers are how servers make a path of a request target.
var readers = map[string]func(target string) string{
	"as it came": sentPath,
	"decoded":    func(t string) string { return decoded(sentPath(t)) },
	"Go, tidied": func(t string) string { return path.Clean("/" + decoded(sentPath(t))) },
	"tidied, then decoded": func(t string) string {
		return decoded(path.Clean("/" + sentPath(t)))
	},
	"WHATWG URL":           whatwg,
	"WHATWG URL, decoded":  func(t string) string { return decoded(whatwg(t)) },
	"Java":                 func(t string) string { return path.Clean("/" + decoded(withoutParameters(sentPath(t)))) },
	"Java, decoding first": func(t string) string { return path.Clean("/" + withoutParameters(decoded(sentPath(t)))) },
	"Windows": func(t string) string {
		segments := strings.Split(path.Clean("/"+strings.ReplaceAll(decoded(sentPath(t)), `\`, "/")), "/")
		for i, s := range segments {
			segments[i] = strings.TrimRight(s, ". ")
		}
		return path.Clean("/" + strings.Join(segments, "/"))
	},
	"decoded twice": func(t string) string {
		return path.Clean("/" + strings.ReplaceAll(decoded(decoded(sentPath(t))), `\`, "/"))
	},
	"urlsplit": func(t string) string { // PHP's parse_url and Python's urlsplit see a host behind //
		if rest, ok := strings.CutPrefix(t, "//"); ok {
			_, p, _ := strings.Cut(rest, "/")
			t = "/" + p
		}
		return decoded(sentPath(t))
	},
	"without control characters": func(t string) string {
		return path.Clean("/" + strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return -1
			}
			return r
		}, decoded(sentPath(t))))
	},
}

// sentPath cuts query and fragment off, and scheme and host of a whole URL.
func sentPath(target string) string {
	p, _, _ := strings.Cut(target, "?")
	p, _, _ = strings.Cut(p, "#")
	if _, rest, ok := strings.Cut(p, "://"); ok && !strings.HasPrefix(p, "/") {
		_, rest, _ = strings.Cut(rest, "/")
		return "/" + rest
	}
	return p
}

// decoded decodes what it can and leaves the rest.
func decoded(p string) string {
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if i+2 < len(p) && p[i] == '%' {
			if c, err := url.PathUnescape(p[i : i+3]); err == nil {
				b.WriteString(c)
				i += 2
				continue
			}
		}
		b.WriteByte(p[i])
	}
	return b.String()
}

func withoutParameters(p string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return strings.Join(segments, "/")
}

// whatwg is what new URL(target, base).pathname is in browsers and Node.
func whatwg(target string) string {
	target = strings.NewReplacer("\t", "", "\r", "", "\n", "", `\`, "/").Replace(target)
	p := target
	if rest, ok := strings.CutPrefix(p, "//"); ok {
		_, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		p = "/" + rest
	}
	var out []string
	segments := strings.Split(strings.TrimPrefix(sentPath(p), "/"), "/")
	for i, s := range segments {
		switch dots := strings.ReplaceAll(strings.ToLower(s), "%2e", "."); {
		case dots == ".." && len(out) > 0:
			out = out[:len(out)-1]
		case dots == ".." || dots == "." && i < len(segments)-1:
		case dots == ".":
			out = append(out, "")
		default:
			out = append(out, s)
		}
	}
	return "/" + strings.Join(out, "/")
}

// below returns which server reads a target as a path below dir.
func below(target, dir string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(readers)), func(name string) bool {
		return !strings.HasPrefix(strings.ToLower(readers[name](target)), dir+"/")
	})
}

// exchange sends a request line as it is and returns status and body.
func (d *server) exchange(t *testing.T, method, target, cookie string) (status int, body string) {
	t.Helper()
	conn := d.dial(t, 20*time.Second)
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nCookie: %s\r\nX-CSRF-Token: %s\r\nConnection: close\r\n\r\n", method, target, cookie, csrfToken)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s %q: %v", method, target, err)
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

func TestPaths_NoSpellingGetsPastAGuard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, dir, leaf, cookie string
		settings                func(app string) map[string]string
		role                    string // of requests that may arrive below dir
	}{
		{
			"frontend and API are one", "/api/v1", "tasks/5", "", func(app string) map[string]string {
				return map[string]string{"FRONTEND_UPSTREAM": app, "APP_UPSTREAM": app}
			}, "member",
		},
		{
			"two guards on one application", "/tools/admin", "users", "svc.sid=member", func(app string) map[string]string {
				return map[string]string{"ROUTES": twoGuards(app), "FRONTEND_UPSTREAM": app}
			}, "admin",
		},
		{
			"only what is named is public", "/private/x", "y", "", func(app string) map[string]string {
				return map[string]string{"FRONTEND_UPSTREAM": app, "APP_UPSTREAM": app, "FRONTEND_PUBLIC": "/ /assets/* /login"}
			}, "member",
		},
		{
			"our own paths", "/internal/x", "forward-auth", "svc.sid=admin", func(app string) map[string]string {
				return map[string]string{"FRONTEND_UPSTREAM": app, "APP_UPSTREAM": app}
			}, "none",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			app := stand(t, "app", nil)
			h := openSite(t, c.settings(app.addr()))
			tried := 0
			for _, target := range spellings(c.dir, c.leaf) {
				for _, method := range []string{"GET", "DELETE"} {
					status, body := h.exchange(t, method, target, c.cookie)
					tried++
					if status == http.StatusNotFound && !strings.Contains(body, `"code":404`) {
						t.Errorf("%s %q: 404 with %q", method, target, body)
					}
					if status == http.StatusBadRequest && !strings.HasPrefix(body, "400 Bad Request") {
						t.Errorf("%s %q: 400 with %q", method, target, body)
					}
				}
			}
			if tried < 120 {
				t.Errorf("only %d requests", tried)
			}
			for _, r := range append(app.received(), h.verifier.received()...) {
				if readers := below(r.RequestURI, c.dir); r.Header.Get("X-Auth-Role") != c.role && len(readers) > 0 {
					t.Errorf("%s %q arrived for %q, and %q read it as below %s", r.Method, r.RequestURI, r.Header.Get("X-Auth-Role"), readers, c.dir)
				}
			}
		})
	}
}

func twoGuards(app string) string {
	return `handle /tools/admin/* {
		import require_admin
		reverse_proxy ` + app + `
	}
	handle /tools/* {
		import require_login
		reverse_proxy ` + app + `
	}`
}

// The readers above are written after real servers; this is one.
func TestPaths_NoSpellingGetsPastAGuardToNode(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("node is not installed")
	}
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	cmd := exec.Command(node, "testdata/reader.mjs", port, "/api/v1/")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	addr := "127.0.0.1:" + port
	h := openSite(t, map[string]string{"FRONTEND_UPSTREAM": addr, "APP_UPSTREAM": addr})
	direct := &server{url: "http://" + addr, addr: addr}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	report := func() (found struct {
		Arrived int
		Below   []string
	},
	) {
		if err := json.Unmarshal([]byte(direct.request(t, "REPORT", "/", "").body), &found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	for _, target := range spellings("/api/v1", "tasks/5") {
		for _, method := range []string{"GET", "DELETE"} {
			h.exchange(t, method, target, "")
		}
	}
	if found := report(); len(found.Below) > 0 {
		t.Errorf("Node reads what arrived as below /api/v1: %q", found.Below)
	}
	// It would have found the attacks.
	for _, target := range []string{"/api/v1/export/../../..", "/api/v1/tasks/6%2f..%2f..%2f..%2f..", "//x/api/v1/lists", `/\x/api/v1/lists`} {
		before := len(report().Below)
		direct.exchange(t, "GET", target, "")
		if len(report().Below) == before {
			t.Errorf("Node does not read %s as below /api/v1", target)
		}
	}
}

// ordinary are paths that applications use, and queries with anything.
var ordinary = []string{
	"/%C3%BCber", "/?x=//../", "/a.b/x..y", "/.well-known/x", "/a%20b", "/~user", "/%7Euser", "/@scope/pkg", "/a+b", "/files/report..final.pdf",
	"/%E2%9C%93", "/a:b", "/http:/x", "/files/a%2Fb", "/files/a%2fb/", "/dir/", "/x?a=b%20c&d=%2F&e=..%2f..;\\&f=%00&g=http://x//y", "/x?", "/a,b", "/a=b", "/a&b",
	"/a'b", "/(a)", "/!$*", "/100%25", "/100%25%20x", "/...x/y", "/..x/y", "/wiki/Dr.", "/.env.d/x", "/a%3Fb", "/a%23b", "/%F0%9F%8E%82/x", "/a%C2%A0b", "/API",
}

func TestPaths_OrdinaryOnesArriveByteForByte(t *testing.T) {
	t.Parallel()
	frontend := stand(t, "frontend", nil)
	h := openSite(t, map[string]string{"FRONTEND_UPSTREAM": frontend.addr()})
	for _, target := range ordinary {
		status, body := h.exchange(t, "GET", target, "")
		if status != 200 || body != "frontend" || frontend.last(t).RequestURI != target {
			t.Errorf("%s: %d %s, %s arrived", target, status, body, frontend.last(t).RequestURI)
		}
		if target == "/API" || strings.HasPrefix(target, "/?") {
			continue
		}
		status, body = h.exchange(t, "DELETE", "/api/v1"+target, "svc.sid=member")
		if status != 200 || body != "app" || h.app.last(t).RequestURI != "/api/v1"+target {
			t.Errorf("below /api/v1, %s: %d %s, %s arrived", target, status, body, h.app.last(t).RequestURI)
		}
	}
}

func TestPaths_ThatServersReadDifferentlyAreNotFound(t *testing.T) {
	t.Parallel()
	h := openSite(t, nil)
	english(t, h.request(t, "GET", "/v1/x/../verify", ""), 404, "not_found", false)
	german(t, h.request(t, "GET", "/api/v1/auth//me", ""), 404)
	german(t, h.request(t, "GET", "/a%00b", ""), 404)
}
