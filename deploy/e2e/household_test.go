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
	"testing"
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
	b.send(req).want(t, 200, &seen)
	if seen.Size != size || seen.SHA256 != fmt.Sprintf("%x", sum.Sum(nil)) {
		t.Errorf("%d of %d bytes arrived", seen.Size, size)
	}
}

func TestAWebSocketPassesTheGuard(t *testing.T) {
	w := visit(t)
	upgrade := func(b *browser) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.tap.URL+"/api/v1/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
		} {
			req.Header.Set(name, value)
		}
		resp, err := b.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	stranger := upgrade(newBrowser(t, w.tap.URL))
	_ = stranger.Body.Close()
	if stranger.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stranger gets %d", stranger.StatusCode)
	}
	b, _ := w.member(t, "hanna")
	b.Timeout = 0 // the conversation lasts
	resp := upgrade(b)
	defer func() { _ = resp.Body.Close() }()
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
}
