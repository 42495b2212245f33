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

	"github.com/pforte/pforte/deploy/test/internal/client"
)

// newApp is an application behind the guard. It answers with the user and the body
// that it received.
func newApp() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/lists", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		size, err := io.Copy(sum, r.Body)
		if err != nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(received{
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
		_, _ = io.Copy(conn, stream) // echo
	})
	return httptest.NewServer(mux)
}

// received is what the application received of a request.
type received struct {
	ID, Name, Role []string
	Size           int64
	SHA256, Cookie string
}

func TestApp_ReceivesTheUser(t *testing.T) {
	w := sharedWorld(t)
	newBrowser(t, w.PublicURL).request("GET", "/api/v1/lists", "").want(t, 401, nil)
	b, user := w.member(t, "frida")
	var seen received
	b.request("GET", "/api/v1/lists", "", "X-Auth-User-Id", "1", "X-Auth-Username", "admin", "X-Auth-Role", "admin", "X_Auth_Role", "admin").want(t, 200, &seen)
	want := received{ID: []string{fmt.Sprint(user.ID)}, Name: []string{"frida"}, Role: []string{"member"}}
	if fmt.Sprint(seen.ID, seen.Name, seen.Role) != fmt.Sprint(want.ID, want.Name, want.Role) {
		t.Errorf("the application received %+v, and it is %+v", seen, user)
	}
	b.request("POST", "/api/v1/lists", `{}`, "X-CSRF-Token", "").want(t, 403, nil)
	b.request("POST", "/api/v1/lists", `{}`).want(t, 200, &seen)
	if seen.Size != 2 {
		t.Errorf("the body has %d bytes there", seen.Size)
	}
	b.request("POST", "/api/v1/auth/logout", "").want(t, 200, nil)
	b.request("GET", "/api/v1/lists", "").want(t, 401, nil)
}

func TestApp_ALargeUploadPassesTheGuardWhole(t *testing.T) {
	w := sharedWorld(t)
	b, _ := w.member(t, "gerd")
	const size = 64 << 20
	sum := sha256.New()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, w.PublicURL+"/api/v1/lists", io.TeeReader(io.LimitReader(rand.Reader, size), sum))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-CSRF-Token", b.cookie("csrf-token"))
	var seen received
	before := w.redisCommands(t)
	b.send(req).want(t, 200, &seen)
	if n := w.redisCommands(t) - before; n != 1 {
		t.Errorf("the guard sent %d commands to Redis", n)
	}
	if seen.Size != size || seen.SHA256 != fmt.Sprintf("%x", sum.Sum(nil)) {
		t.Errorf("%d of %d bytes arrived", seen.Size, size)
	}
}

// redisCommands is how many commands auth has sent to Redis, without the ping of
// every scrape and of every health check.
func (w *world) redisCommands(t *testing.T) (n int) {
	t.Helper()
	page := client.Get(t.Context(), "http://"+w.AuthAdmin+"/metrics")
	if page.Err != nil {
		t.Fatal(page.Err)
	}
	for line := range strings.Lines(string(page.Body)) {
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

func TestWebSocket_PassesTheGuard(t *testing.T) {
	w := sharedWorld(t)
	upgrade := func(b *browser, origin string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.PublicURL+"/api/v1/live", nil)
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
		by     *browser
		origin string
		want   int
	}{{newBrowser(t, w.PublicURL), w.PublicURL, http.StatusUnauthorized}, {b, "https://evil.example", http.StatusForbidden}} {
		refused := upgrade(c.by, c.origin)
		_ = refused.Body.Close()
		if refused.StatusCode != c.want {
			t.Errorf("from %s: got %d, want %d", c.origin, refused.StatusCode, c.want)
		}
	}
	b.Timeout = 0 // the WebSocket lasts
	before := w.redisCommands(t)
	resp := upgrade(b, w.PublicURL)
	defer func() { _ = resp.Body.Close() }()
	if n := w.redisCommands(t) - before; n != 1 {
		t.Errorf("the guard sent %d commands to Redis", n)
	}
	conn, ok := resp.Body.(io.ReadWriter)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		t.Fatalf("got %d", resp.StatusCode)
	}
	lines := bufio.NewReader(conn)
	for _, sent := range []string{"", "one\n", "two\n"} {
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		want := sent
		if sent == "" {
			want = "hello hanna\n"
		}
		if got, err := lines.ReadString('\n'); err != nil || got != want {
			t.Fatalf("got %q, want %q: %v", got, want, err)
		}
	}
	// The WebSocket ends soon after the session does.
	b.request("POST", "/api/v1/auth/logout", "").want(t, 200, nil)
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("the WebSocket stays open without a session")
	}
}
