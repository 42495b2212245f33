package edge

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A request that is answered early must end where net/http would find its end: what
// follows is the next one.
func TestEarly_OnlyWholeRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	const get, post = "GET /a?b HTTP/1.1\r\nHost: x\r\nX-Request-ID: 7\r\n\r\n", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
	with := func(line string) string { return strings.Replace(get, "Host", line+"\r\nHost", 1) }
	for name, test := range map[string]struct {
		reads []string
		whole []bool
		lost  bool
	}{
		"requests":                        {reads: []string{get, post, get}, whole: []bool{true, true, true}},
		"a body of its own reads":         {reads: []string{post[:len(post)-3], "a", "bc", get}, whole: []bool{false, false, false, true}},
		"a first byte that is read ahead": {reads: []string{get, get[:1], get[1:], get}, whole: []bool{true, false, false, true}},
		"a beginning read for HTTP/2":     {reads: []string{get[:14], get[14:], get}, whole: []bool{false, false, true}},
		"a short one":                     {reads: []string{"GET / HTTP/1.1\r\nHost:x\r\n\r\n", get}, whole: []bool{true, true}},
		"a connection that is kept":       {reads: []string{with("Connection: Keep-Alive")}, whole: []bool{true}},
		"two requests in one read":        {reads: []string{get + get, get}, whole: []bool{false, false}, lost: true},
		"a body with something after it":  {reads: []string{post + "x"}, whole: []bool{false}, lost: true},
		"a body that comes with more":     {reads: []string{post[:len(post)-3], "abcG"}, whole: []bool{false, false}, lost: true},
		"a header of several reads":       {reads: []string{get[:40], get[40:]}, whole: []bool{false, false}, lost: true},
		"chunks":                          {reads: []string{with("Transfer-Encoding: chunked")}, whole: []bool{false}, lost: true},
		"two lengths":                     {reads: []string{with("Content-Length: 0\r\nContent-Length: 0")}, whole: []bool{false}, lost: true},
		"a length with a sign":            {reads: []string{with("Content-Length: +0")}, whole: []bool{false}, lost: true},
		"a line that is continued":        {reads: []string{with("A: b\r\n c: d")}, whole: []bool{false}, lost: true},
		"a line feed alone":               {reads: []string{with("A: b\nTransfer-Encoding: chunked")}, whole: []bool{false}, lost: true},
		"a space before the colon":        {reads: []string{with("Transfer-Encoding : chunked")}, whole: []bool{false}, lost: true},
		"two ids":                         {reads: []string{with("X-Request-ID: 8")}, whole: []bool{false}, lost: true},
		"two hosts":                       {reads: []string{with("Host: y")}, whole: []bool{false}, lost: true},
		"no host":                         {reads: []string{"GET /a HTTP/1.1\r\nHosts: x\r\nAccept: y\r\n\r\n"}, whole: []bool{false}, lost: true},
		"the end of the connection":       {reads: []string{with("Connection: close")}, whole: []bool{false}, lost: true},
		"another protocol":                {reads: []string{with("Connection: Upgrade\r\nUpgrade: websocket")}, whole: []bool{false}, lost: true},
		"a client that waits to go on":    {reads: []string{with("Expect: 100-continue")}, whole: []bool{false}, lost: true},
		"HTTP/1.0":                        {reads: []string{strings.Replace(get, "1.1", "1.0", 1)}, whole: []bool{false}, lost: true},
		"HTTP/2":                          {reads: []string{"PRI * HTTP/2.0", "\r\n\r\nSM\r\n\r\n and frames"}, whole: []bool{false, false}, lost: true},
		"TLS":                             {reads: []string{"\x16\x03\x01" + strings.Repeat("x", 500)}, whole: []bool{false}, lost: true},
		"a whole URL":                     {reads: []string{strings.Replace(get, "/a", "http://y/a", 1)}, whole: []bool{false}, lost: true},
		"a tunnel":                        {reads: []string{strings.Replace(get, "GET", "CONNECT", 1)}, whole: []bool{false}, lost: true},
	} {
		var f framing
		var got []bool
		for _, text := range test.reads {
			q, whole := f.read([]byte(text))
			if got = append(got, whole); whole && (len(q.method) == 0 || string(q.host) != "x") {
				t.Errorf("%s: read as %q", name, q)
			}
		}
		if !slices.Equal(got, test.whole) || f.lost != test.lost {
			t.Errorf("%s: whole %v, lost %v", name, got, f.lost)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte("GET /a?b HTTP/1.1\r\nHost: x\r\nX-Request-ID: 7\r\n\r\n"))
	f.Add([]byte("POST /v1/verify HTTP/1.1\r\nHost: x:80\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nabcGET"))
	f.Add([]byte("GET /v1/verify HTTP/1.1\r\nhost: x\r\nx-PAYMENT:\t e30=\r\n\r\n"))
	f.Add([]byte("GET /v1/verify HTTP/1.1\r\nHost: x\r\nX-Payment: \t\r\nX-Payment:7\r\n\r\n"))
	f.Add([]byte("GET /v1/verify HTTP/1.1\r\nHost: x\r\nX-Payments: 7\r\nX-Payment: \r\n\r\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		q, length, ok := parseRequest(p)
		if !ok {
			return
		}
		if length < 0 || length > maxLength+int64(len(p)) {
			t.Fatalf("%d bytes", length)
		}
		in := bufio.NewReader(bytes.NewReader(p))
		r, err := http.ReadRequest(in)
		if err != nil {
			return // net/http answers it, and closes the connection
		}
		_, readErr := io.Copy(io.Discard, r.Body)
		read := int64(len(p) - in.Buffered())
		if r.Method != string(q.method) || r.RequestURI != string(q.target) || r.Host != string(q.host) || len(r.TransferEncoding) > 0 || r.Close {
			t.Errorf("read as %q, and by net/http as %s %s of %s", q, r.Method, r.RequestURI, r.Host)
		}
		if want := slices.ContainsFunc(r.Header["X-Payment"], notEmpty); q.has("X-Payment") != want {
			t.Errorf("%q has a payment: %v, and for net/http %v", q.fields, !want, want)
		}
		if readErr == nil && read != length {
			t.Errorf("%d bytes, and for net/http %d", length, read)
		}
	})
}

// Clients choose paths: they must not fill the memory.
func TestEarly_FewRoutesAreKnown(t *testing.T) {
	t.Parallel()
	var s refusals
	for i := range 3 * maxKnown {
		s.add(oneService(), received(t, new(net.TCPAddr), "/"+strconv.Itoa(i)), http.Header{})
		if n := len(s.known); n == 0 || n > maxKnown {
			t.Fatalf("%d routes are known", n)
		}
	}
}

// earlyServer returns a connection to a listener whose only route is refused, and the
// end of it that a server would read.
func earlyServer(t *testing.T) (g *gate, client *net.TCPConn, server *boundConn) {
	t.Helper()
	service := oneService()
	g = service.gates.common
	if _, err := g.enter(t.Context(), netip.Addr{}); err != nil {
		t.Fatal(err)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var s refusals
	l := (&Connections{Max: 3, refusals: &s}).WrapListener(plain)
	t.Cleanup(func() { _ = l.Close() })
	conn, err := net.Dial("tcp", plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = accepted.Close() })
	server = accepted.(*boundConn)
	s.add(service, received(t, server.LocalAddr(), "/a"), http.Header{})
	return g, conn.(*net.TCPConn), server
}

const getA = "GET /a HTTP/1.1\r\nHost: x\r\nAccept: y\r\n\r\n"

func received(t *testing.T, local net.Addr, uri string) *exchange {
	r := &http.Request{Method: http.MethodGet, Host: "x", RequestURI: uri}
	return &exchange{received: r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local))}
}

// The same host and path without TLS are those of a server that leads to TLS.
func TestEarly_ARefusalOverTLSIsNotKnown(t *testing.T) {
	t.Parallel()
	var s refusals
	x := received(t, new(net.TCPAddr), "/a")
	x.received.TLS = new(tls.ConnectionState)
	s.add(oneService(), x, http.Header{})
	if len(s.known) > 0 {
		t.Error("it is known")
	}
}

// net/http sets no deadline for writing, so such a client would keep its connection.
func TestEarly_AClientThatReadsNothingIsClosed(t *testing.T) {
	t.Parallel()
	// The kernel of a busy machine may take an answer although it took nothing more before.
	for range 5 {
		_, client, server := earlyServer(t)
		_ = client.SetReadBuffer(4096)
		_ = server.SetWriteBuffer(4096) // else the kernel takes more after a while
		for n := 1; n > 0; {            // as much as the kernel takes
			_ = server.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			n, _ = server.TCPConn.Write(make([]byte, 16<<20))
		}
		_ = server.SetWriteDeadline(time.Time{})
		if _, err := io.WriteString(client, getA); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := server.Read(make([]byte, 4096))
			ended <- err
		}()
		select {
		case err := <-ended:
			if err == nil {
				t.Error("its request was passed on")
			}
			return
		case <-time.After(10 * refuseWithin):
		}
	}
	t.Error("it has its connection still")
}

func TestEarly_ARequestPassedOnIsNotCountedAsRefused(t *testing.T) {
	t.Parallel()
	g, client, server := earlyServer(t)
	server.passed = time.Now().Add(-2 * passEvery)
	if _, err := io.WriteString(client, getA); err != nil {
		t.Fatal(err)
	}
	if n, err := server.Read(make([]byte, 4096)); n == 0 || err != nil {
		t.Fatal(n, err)
	}
	if g.refused.logged.Load() != 0 || g.refused.since.Load() != 0 {
		t.Error("it is counted, and will be once more by edge_service")
	}
}
