package e2e

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// newHousehold is a household's own API. It says who it was told is asking, and
// what it got.
func newHousehold() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/lists", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		size, err := io.Copy(sum, r.Body)
		if err != nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(visitor{
			ID: r.Header.Values("X-Auth-User-Id"), Name: r.Header.Values("X-Auth-Username"), Role: r.Header.Values("X-Auth-Role"),
			Size: size, SHA256: fmt.Sprintf("%x", sum.Sum(nil)), Cookie: r.Header.Get("Cookie"),
		})
	})
	mux.HandleFunc("/api/v1/live", func(w http.ResponseWriter, r *http.Request) {
		conn, stream, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello %s\n", r.Header.Get("X-Auth-Username"))
		_, _ = io.Copy(conn, stream) // says everything back
	})
	return httptest.NewServer(mux)
}

// visitor is what the household's API saw of a request.
type visitor struct {
	ID, Name, Role []string
	Size           int64
	SHA256, Cookie string
}

func TestTheHouseholdsAPIIsToldWhoAsks(t *testing.T) {
	w := visit(t)
	newBrowser(t, w.tap.URL).ask("GET", "/api/v1/lists", "").want(t, 401, nil)
	b, user := w.member(t, "frida")
	var seen visitor
	b.ask("GET", "/api/v1/lists", "", "X-Auth-User-Id", "1", "X-Auth-Username", "admin", "X-Auth-Role", "admin", "X_Auth_Role", "admin").want(t, 200, &seen)
	want := visitor{ID: []string{fmt.Sprint(user.ID)}, Name: []string{"frida"}, Role: []string{"member"}}
	if fmt.Sprint(seen.ID, seen.Name, seen.Role) != fmt.Sprint(want.ID, want.Name, want.Role) {
		t.Errorf("the API was told %+v, and it is %+v", seen, user)
	}
	b.ask("POST", "/api/v1/lists", `{}`, "X-CSRF-Token", "").want(t, 403, nil)
	b.ask("POST", "/api/v1/lists", `{}`).want(t, 200, &seen)
	if seen.Size != 2 {
		t.Errorf("the body has %d bytes there", seen.Size)
	}
	b.ask("POST", "/api/v1/auth/logout", "").want(t, 200, nil)
	b.ask("GET", "/api/v1/lists", "").want(t, 401, nil)
}

func TestALargeUploadPassesTheGuardWhole(t *testing.T) {
	w := visit(t)
	b, _ := w.member(t, "gerd")
	const size = 64 << 20
	sum := sha256.New()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, w.tap.URL+"/api/v1/lists", io.TeeReader(io.LimitReader(rand.Reader, size), sum))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-CSRF-Token", b.cookie("csrf-token"))
	var seen visitor
	before := w.askedRedis(t)
	b.send(req).want(t, 200, &seen)
	if n := w.askedRedis(t) - before; n != 1 {
		t.Errorf("the guard asked Redis %d times", n)
	}
	if seen.Size != size || seen.SHA256 != fmt.Sprintf("%x", sum.Sum(nil)) {
		t.Errorf("%d of %d bytes arrived", seen.Size, size)
	}
}

// askedRedis is how often auth has asked Redis, but for the question of every
// scrape and of every health check whether it is there.
func (w *world) askedRedis(t *testing.T) (n int) {
	t.Helper()
	var page strings.Builder
	resp, err := http.Get("http://" + w.AuthAdmin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(&page, resp.Body); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(page.String()) {
		if !strings.HasPrefix(line, "auth_redis_command_duration_seconds_count{") || strings.Contains(line, `"ping"`) {
			continue
		}
		value, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndex(line, " "):]))
		if err != nil {
			t.Fatal(err)
		}
		n += value
	}
	return n
}

func TestAWebSocketPassesTheGuard(t *testing.T) {
	w := visit(t)
	upgrade := func(b *browser, origin string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.tap.URL+"/api/v1/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Origin": origin, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
		} {
			req.Header.Set(name, value)
		}
		resp, err := b.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	b, _ := w.member(t, "hanna")
	for _, c := range []struct {
		who    *browser
		origin string
		want   int
	}{{newBrowser(t, w.tap.URL), w.tap.URL, http.StatusUnauthorized}, {b, "https://evil.example", http.StatusForbidden}} {
		refused := upgrade(c.who, c.origin)
		_ = refused.Body.Close()
		if refused.StatusCode != c.want {
			t.Errorf("from %s: got %d, want %d", c.origin, refused.StatusCode, c.want)
		}
	}
	b.Timeout = 0 // the conversation lasts
	before := w.askedRedis(t)
	resp := upgrade(b, w.tap.URL)
	defer func() { _ = resp.Body.Close() }()
	if n := w.askedRedis(t) - before; n != 1 {
		t.Errorf("the guard asked Redis %d times", n)
	}
	conn, ok := resp.Body.(io.ReadWriter)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		t.Fatalf("got %d", resp.StatusCode)
	}
	lines := bufio.NewReader(conn)
	for _, said := range []string{"", "one\n", "two\n"} {
		if _, err := io.WriteString(conn, said); err != nil {
			t.Fatal(err)
		}
		want := said
		if said == "" {
			want = "hello hanna\n"
		}
		if heard, err := lines.ReadString('\n'); err != nil || heard != want {
			t.Fatalf("heard %q, want %q: %v", heard, want, err)
		}
	}
	// The conversation ends soon after the session does.
	b.ask("POST", "/api/v1/auth/logout", "").want(t, 200, nil)
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("the conversation goes on without a session")
	}
}
