package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A name as SITE_ADDRESS is all that TLS needs. The test's file differs from the
// built-in one in one line: port 80 is not for tests.
func TestTLS_ANameGetsItByItself(t *testing.T) {
	t.Parallel()
	verifier := stand(t, "verifier", nil)
	d, transport := openTLS(t, verifier.addr())
	got := overTLS(t, transport, d, "/health")
	if got.StatusCode != 200 || got.body != "verifier" || got.ProtoMajor != 2 {
		t.Errorf("got %s %d %s", got.Proto, got.StatusCode, got.body)
	}
	if proto := verifier.last(t).Header.Get("X-Forwarded-Proto"); proto != "https" {
		t.Errorf("the service got %q", proto)
	}
	for _, path := range []string{"/health", "/nothing"} {
		if got := overTLS(t, transport, d, path).Header.Get("Strict-Transport-Security"); got != "max-age=31536000" {
			t.Errorf("%s: Strict-Transport-Security is %q", path, got)
		}
	}
}

// HTTP/2 has the method in a field of its own, in which a space or a whole request
// line may be.
func TestTLS_AMethodThatIsNoTokenIsRefused(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	verifier := speak(t, func(conn net.Conn, r *http.Request) {
		got <- r.Method
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	d, transport := openTLS(t, verifier)
	overTLS(t, transport, d, "/health")
	for method, want := range map[string]byte{"GET": 0x88, "M-SEARCH": 0x88, "GET /internal/x": 0x8c, "GET ": 0x8c, "G\tT": 0x8c, "G\u00e4T": 0x8c, "G{T": 0x8c} {
		if status := overHTTP2(t, d.addr, method, "/health"); status != want {
			t.Errorf("%q: status %#x of the static table, not %#x", method, status, want)
		}
	}
	close(got)
	for method := range got {
		if method != "GET" && method != "M-SEARCH" {
			t.Errorf("the service got %q", method)
		}
	}
}

// HTTP/2 has the target in a field of its own, too: after a space there may be another version than the proxy's.
func TestTLS_ATargetWithASpaceIsNotFound(t *testing.T) {
	t.Parallel()
	verifier := stand(t, "verifier", nil)
	d, transport := openTLS(t, verifier.addr())
	overTLS(t, transport, d, "/health") // waits for the certificate
	for path, want := range map[string]byte{
		"/health?a%20b": 0x88, "/health?a HTTP/1.0": 0x8d, "/health ": 0x8d, "/v1/a b": 0x8d,
	} {
		if status := overHTTP2(t, d.addr, "GET", path); status != want {
			t.Errorf("%q: status %#x of the static table, not %#x", path, status, want)
		}
	}
}

// overHTTP2 sends a request without a body and returns the first byte of the
// response's header, which is the status in the static table (RFC 7541, appendix A).
func overHTTP2(t *testing.T, addr, method, path string) byte {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, ServerName: "localhost", NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	var fields []byte
	for _, field := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", "localhost"}, {":path", path}} {
		for i, text := range field {
			if i == 0 {
				fields = append(fields, 0) // a literal, not indexed, with a new name
			}
			fields = append(append(fields, byte(len(text))), text...)
		}
	}
	const settings, headers, endOfBoth = 4, 1, 5
	text := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, 0, 0, settings, 0, 0, 0, 0, 0)
	text = append(append(text, 0, 0, byte(len(fields)), headers, endOfBoth, 0, 0, 0, 1), fields...)
	if _, err := conn.Write(text); err != nil {
		t.Fatal(err)
	}
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			t.Fatalf("%q: %v", method, err)
		}
		body := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(conn, body); err != nil {
			t.Fatalf("%q: %v", method, err)
		}
		if head[3] == headers {
			return body[0]
		}
	}
}

// Each stream costs memory, and a browser has fewer under way.
func TestHTTP2_HasAtMost32StreamsOfAConnection(t *testing.T) {
	t.Parallel()
	d, transport := openTLS(t, stand(t, "", nil).addr())
	overTLS(t, transport, d, "/health")
	conn, err := tls.Dial("tcp", d.addr, &tls.Config{InsecureSkipVerify: true, ServerName: "localhost", NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, 0, 0, 4, 0, 0, 0, 0, 0)); err != nil {
		t.Fatal(err)
	}
	var head [9]byte // RFC 9113, section 6.5: a frame of settings comes first
	if _, err := io.ReadFull(conn, head[:]); err != nil || head[3] != 4 {
		t.Fatalf("the frame %x, %v", head, err)
	}
	settings := make([]byte, int(head[1])<<8|int(head[2]))
	if _, err := io.ReadFull(conn, settings); err != nil {
		t.Fatal(err)
	}
	const maxConcurrentStreams = 3
	for ; len(settings) >= 6; settings = settings[6:] {
		if binary.BigEndian.Uint16(settings) == maxConcurrentStreams {
			if n := binary.BigEndian.Uint32(settings[2:]); n != 32 {
				t.Errorf("%d streams", n)
			}
			return
		}
	}
	t.Error("streams have no limit")
}

// A client need not make a request to send a long frame, which is kept until its end has come.
func TestHTTP2_LongFramesTakeLittleMemory(t *testing.T) {
	t.Parallel()
	d, transport := openTLS(t, stand(t, "", nil).addr())
	overTLS(t, transport, d, "/health")
	idle := d.rss(t)
	begun := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, 0, 0, 4, 0, 0, 0, 0, 0)
	begun = append(begun, 15, 255, 255, 0xee, 0, 0, 0, 0, 0) // of a type that there is not, and 1 MB
	begun = append(begun, make([]byte, 1<<20-2)...)          // all but its last byte
	for range 100 {
		conn := tls.Client(d.dialFrom(t, "127.0.5.5"), &tls.Config{InsecureSkipVerify: true, ServerName: "localhost", NextProtos: []string{"h2"}})
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		_, _ = conn.Write(begun) // the proxy may close it
	}
	time.Sleep(time.Second)
	if most := d.rss(t); most > raceMemory*(idle+64) {
		t.Errorf("%d MB idle, %d MB beside 100 frames", idle, most)
	}
}

// Nothing bounds the connections and streams of HTTP/3.
func TestHTTP3_IsOff(t *testing.T) {
	t.Parallel()
	d, transport := openTLS(t, stand(t, "", nil).addr())
	if got := overTLS(t, transport, d, "/health").Header.Get("Alt-Svc"); got != "" {
		t.Errorf("answers offer %s", got)
	}
	conn, err := net.ListenPacket("udp", d.addr)
	if err != nil {
		t.Fatalf("the port of UDP is taken: %v", err)
	}
	_ = conn.Close()
}

// The server that sends http to https has the bounds of the other one: no network has all of it.
func TestRedirects_AreBoundedLikeTheSite(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	d, transport := openTLSWith(t, stand(t, "", nil).addr(), port, map[string]string{"MAX_CONNECTIONS": "4"})
	overTLS(t, transport, d, "/health")
	from := func(address string) net.Conn {
		t.Helper()
		dialer := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		conn, err := dialer.DialContext(t.Context(), "tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		return conn
	}
	answer := func(conn net.Conn) (status int, location string) {
		t.Helper()
		if _, err := io.WriteString(conn, "GET /pforte/ HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		got, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		return got.StatusCode, got.Header.Get("Location")
	}
	for range 4 {
		from("127.0.0.66")
	}
	if status, _ := answer(from("127.0.0.66")); status != http.StatusServiceUnavailable {
		t.Errorf("one connection more of the network that has all: %d", status)
	}
	if status, to := answer(from("127.0.1.7")); status != http.StatusPermanentRedirect || !strings.HasPrefix(to, "https://localhost") {
		t.Errorf("from another network: %d, to %s", status, to)
	}
}

func TestTLS_IsKnownFromTheAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"home.example.org": true, "https://home.example.org": true, "localhost:8443": true, "https://home.example.org:8443/x": true,
		"192.0.2.1": true, "": false, ":8080": false, ":443": false, "http://home.example.org": false, "home.example.org:80": false,
		"http://": false, "http://:8080": false,
	} {
		if got := hasTLS(address); got != want {
			t.Errorf("%q: %v", address, got)
		}
	}
}

// The site of all hosts at http, which the redirects are added to, may be the operator's own.
func TestTLS_BesideASiteOfAllHostsAtHTTP(t *testing.T) {
	t.Parallel()
	for _, site := range []string{"home.example.org, http://", "home.example.org, :80", "home.example.org:8443, :8080"} {
		settings := map[string]string{"SITE_ADDRESS": site, "APPS": "lan"}
		if out, err := program(t, settings, "adapt", "--config", "Caddyfile", "--adapter", "caddyfile").CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", site, err, out)
		}
	}
}

// openTLS runs the proxy with TLS before a verifier, on one port alone.
func openTLS(t *testing.T, verifier string) (*server, *http.Transport) {
	t.Helper()
	return openTLSWith(t, verifier, "", nil)
}

// openTLSWith also redirects from a port for http, unless that is empty.
func openTLSWith(t *testing.T, verifier, port string, more map[string]string) (*server, *http.Transport) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "Caddyfile")
	option, text := "http_port "+port, configuration
	if port == "" {
		option = "auto_https disable_redirects"
		text = strings.NewReplacer("import redirects_{$REDIRECTS_SWITCH:off}", "", "import root_sites_{$ROOT_SWITCH:off}", "").Replace(text)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(text, "admin off", "admin off\n\t"+option, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{"SITE_ADDRESS": "localhost:PORT", "VERIFIER_UPSTREAM": verifier}
	maps.Copy(settings, more)
	d := open(t, settings, "run", "--config", file, "--adapter", "caddyfile")
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, d.addr)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return d, transport
}

// overTLS sends requests until the proxy has its certificate.
func overTLS(t *testing.T, transport http.RoundTripper, d *server, path string) answer {
	t.Helper()
	url := "https://localhost:" + d.addr[strings.LastIndex(d.addr, ":")+1:] + path
	for deadline := time.Now().Add(20 * time.Second); ; {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
			return roundTrip(t, transport, req)
		}
		if time.Now().After(deadline) {
			t.Fatalf("no TLS: %v\n%s", err, d.log)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
