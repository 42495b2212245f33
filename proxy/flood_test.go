package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// rss returns how much memory the proxy has, in MB.
func (d *server) rss(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.process.Pid))
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	kilobytes, _ := strconv.Atoi(string(regexp.MustCompile(`VmRSS:\s+(\d+)`).FindSubmatch(status)[1]))
	return kilobytes >> 10
}

// stalledStreams is what a client of HTTP/2 sends that begins requests, and announces a body of
// each that it does not send. A header of 58 KB costs it few bytes: after the first request it
// names the one that it sent (RFC 7541, section 2.3.3).
func stalledStreams(path string, streams int, longHeader bool) []byte {
	var all bytes.Buffer
	frame := func(kind, flags byte, stream int, payload []byte) {
		all.Write([]byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags})
		all.Write([]byte{byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)})
		all.Write(payload)
	}
	text := func(to *bytes.Buffer, s string) {
		if n := len(s); n < 127 {
			to.WriteByte(byte(n))
		} else {
			to.WriteByte(127)
			for n -= 127; n >= 128; n >>= 7 {
				to.WriteByte(byte(n) | 128)
			}
			to.WriteByte(byte(n))
		}
		to.WriteString(s)
	}
	all.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame(4, 0, 0, nil)
	for i := range streams {
		var header bytes.Buffer
		for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "x"}, {":path", path}, {"content-length", "65000"}} {
			header.WriteByte(0) // a literal, not indexed
			text(&header, field[0])
			text(&header, field[1])
		}
		if longHeader && i == 0 {
			header.WriteByte(0x40) // a literal, indexed
			text(&header, "x-long")
			text(&header, strings.Repeat("a", 3900))
		}
		if longHeader {
			header.Write(bytes.Repeat([]byte{0xbe}, 14))
		}
		frame(1, 4, 2*i+1, header.Bytes())
	}
	return all.Bytes()
}

// dialFrom opens a connection from an address of 127.0.0.0/8.
func (d *server) dialFrom(t *testing.T, from string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}).Dial("tcp", d.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(60 * time.Second))
	return conn
}

// Nothing but headers, of some twenty bytes each.
func TestMemory_IsBoundedBesideStalledBodies(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/api/v1/auth/login", "/v1/verify", "/upload"} {
		for _, long := range []bool{false, true} {
			t.Run(fmt.Sprint(path, " ", long), func(t *testing.T) {
				t.Parallel()
				public := stand(t, "public", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
				d := openSite(t, map[string]string{"FRONTEND_UPSTREAM": public.addr()})
				d.request(t, "GET", "/health", "")
				idle := d.rss(t)
				text := stalledStreams(path, 250, long)
				for range 30 {
					conn := d.dialFrom(t, "127.0.5.5")
					go func() { _, _ = io.Copy(io.Discard, conn) }()
					if _, err := conn.Write(text); err != nil {
						t.Logf("the connection was ended: %v", err)
					}
				}
				most := idle
				for range 30 {
					most = max(most, d.rss(t))
					time.Sleep(100 * time.Millisecond)
				}
				t.Logf("%d MB idle, %d MB beside them", idle, most)
				if most > raceMemory*(2*idle+64) {
					t.Errorf("%d MB idle, %d MB beside them", idle, most)
				}
				for _, want := range []string{"GET /health", "POST /api/v1/auth/echo", "POST /upload"} {
					method, to, _ := strings.Cut(want, " ")
					var got answer
					for deadline := time.Now().Add(time.Minute); ; {
						begun := time.Now()
						got = d.request(t, method, to, "{}")
						if !couldNotConnect(got, begun) || begun.After(deadline) {
							break
						}
					}
					if got.StatusCode != http.StatusOK {
						t.Errorf("%s: %d", want, got.StatusCode)
					}
				}
			})
		}
	}
}

// A field of five bytes takes twenty times as many, and a header has ten seconds to come.
func TestMemory_IsBoundedBesideManyFields(t *testing.T) {
	t.Parallel()
	for end, name := range map[string]string{"": "not ended", "\r\n": "ended"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leave := make(chan struct{})
			defer close(leave)
			public := stand(t, "", func(http.ResponseWriter, *http.Request) { <-leave })
			d := openSite(t, map[string]string{"FRONTEND_UPSTREAM": public.addr()})
			d.request(t, "GET", "/health", "")
			idle := d.rss(t)
			text := "GET /upload HTTP/1.1\r\nHost: x\r\n"
			for i := int64(0); len(text) < 64000; i++ {
				text += strconv.FormatInt(i, 36) + ":\r\n"
			}
			for range 500 {
				conn := d.dialFrom(t, "127.0.5.5")
				go func() { _, _ = io.WriteString(conn, text+end) }()
			}
			most := idle
			for range 30 {
				most = max(most, d.rss(t))
				time.Sleep(100 * time.Millisecond)
			}
			if most > raceMemory*(2*idle+64) {
				t.Errorf("%d MB idle, %d MB beside them", idle, most)
			}
			conn := d.dialFrom(t, "127.0.7.7") // with a header as long as that of a payment
			_, _ = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: x\r\nX-Payment: "+strings.Repeat("a", 16<<10)+"\r\n\r\n")
			if got, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || got.StatusCode != http.StatusOK {
				t.Errorf("of another network: %v", err)
			}
		})
	}
}

// ask sends a request over and over, after it was answered 200 once: until auth has named a user
// they share what strangers of their network have. It returns how many answers had each status.
func ask(conn net.Conn, text string, requests int) (statuses map[int]int, err error) {
	in := bufio.NewReader(conn)
	statuses = map[int]int{}
	for n := 0; n < requests; {
		if _, err := io.WriteString(conn, text); err != nil {
			return statuses, err
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return statuses, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if n > 0 || resp.StatusCode == http.StatusOK {
			statuses[resp.StatusCode]++
			n++
		}
	}
	return statuses, nil
}

// Who has not logged in cannot keep out who has, nor one network another.
func TestFlood_OfAnonymousRequestsLeavesAMemberAndOtherNetworksTheirPlaces(t *testing.T) {
	t.Parallel()
	auth := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(2 * time.Millisecond)
		guard(w, r)
	})
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "AUTH_MAX_REQUESTS": "16"})
	for name, text := range map[string]string{
		"the guard":   "GET /api/v1/lists HTTP/1.1\r\nHost: x\r\n\r\n",
		"a page":      "GET /pforte/login HTTP/1.1\r\nHost: x\r\n\r\n",
		"a bad token": "GET /api/v1/lists HTTP/1.1\r\nHost: x\r\nX-Pforte-Token: pft_b\r\nCookie: svc.sid=unknown\r\n\r\n",
		"logins":      "POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
	} {
		var done atomic.Bool
		var answered atomic.Int64
		var all sync.WaitGroup
		for range 300 {
			conn := h.dialFrom(t, "127.0.66.66")
			all.Go(func() {
				in := bufio.NewReader(conn)
				for !done.Load() {
					_, _ = io.WriteString(conn, text)
					resp, err := http.ReadResponse(in, nil)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					answered.Add(1)
				}
				_ = conn.Close()
			})
		}
		var probes sync.WaitGroup
		for who, member := range map[string]struct{ from, text string }{
			"a member":                           {"127.0.7.7", "GET /api/v1/lists HTTP/1.1\r\nHost: x\r\nCookie: svc.sid=member\r\n\r\n"},
			"a member of the same network":       {"127.0.66.66", "GET /api/v1/lists HTTP/1.1\r\nHost: x\r\nCookie: svc.sid=member\r\n\r\n"},
			"another network that is no user's":  {"127.0.7.8", "GET /pforte/login HTTP/1.1\r\nHost: x\r\n\r\n"},
			"another network that wants to join": {"127.0.7.9", "POST /api/v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"},
		} {
			conn := h.dialFrom(t, member.from)
			probes.Go(func() {
				const requests = 40
				statuses, err := ask(conn, member.text, requests)
				if served := statuses[http.StatusOK]; err != nil || served < 95*requests/100 {
					t.Errorf("%s beside %s: %d of %d are 200: %v", who, name, served, requests, err)
				}
			})
		}
		probes.Wait()
		done.Store(true)
		all.Wait()
		if answered.Load() < 300 {
			t.Errorf("%s: the flood had %d answers", name, answered.Load())
		}
	}
}

// A browser sends the cookies that it was sent last, and auth sends new ones with each answer to /me.
func TestFlood_LeavesAUserTheirPlacesWhoseCookiesAreRenewed(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var sent atomic.Int64
	auth := stand(t, "", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		session, err := r.Cookie("svc.sid")
		switch {
		case strings.HasPrefix(r.URL.Path, "/pforte/"):
			<-release
		case r.Method == http.MethodPost || err == nil && strings.HasPrefix(session.Value, "anna"):
			w.Header().Add("Set-Cookie", fmt.Sprintf("svc.sid=anna%d==; Path=/; Max-Age=60; HttpOnly", sent.Add(1)))
			w.Header().Add("Set-Cookie", "csrf-token=c; Path=/; Max-Age=60")
			w.Header().Set("X-CSRF-Token", "c")
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "AUTH_MAX_REQUESTS": "16"})
	// ask returns the answer, and the header of the next request.
	ask := func(method, path, cookies string) (status int, next string) {
		t.Helper()
		got := h.request(t, method, path, "", "Cookie", cookies)
		next = "theme=dark"
		for _, cookie := range got.Cookies() {
			next += "; " + cookie.Name + "=" + cookie.Value
		}
		return got.StatusCode, next
	}
	_, renewed := ask("GET", "/api/v1/auth/me", "csrf-token=c; svc.sid=anna==")
	_, loggedIn := ask("POST", "/api/v1/auth/login", "theme=dark")

	var all sync.WaitGroup
	defer all.Wait()
	defer close(release)
	for range 32 { // more than strangers have
		conn := h.dialFrom(t, "127.0.0.1")
		all.Go(func() {
			_, _ = io.WriteString(conn, "GET /pforte/slow HTTP/1.1\r\nHost: x\r\n\r\n")
			_, _ = http.ReadResponse(bufio.NewReader(conn), nil)
		})
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		status, _ := ask("GET", "/api/v1/auth/me", "svc.sid=unknown")
		if status == http.StatusServiceUnavailable {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a stranger beside the others: %d", status)
		}
	}
	for who, cookies := range map[string]string{"whose cookie was renewed": renewed, "who has just logged in": loggedIn} {
		for i := range 3 {
			var status int
			if status, cookies = ask("GET", "/api/v1/auth/me", cookies); status != http.StatusOK {
				t.Errorf("a user %s, request %d: %d", who, i, status)
				break
			}
		}
	}
}

// What a network that crowds out others is answered takes little of the processor from them.
func TestFlood_OfOneNetworkIsAnsweredAtASlowRate(t *testing.T) {
	t.Parallel()
	var answered atomic.Int64
	auth := stand(t, "", func(http.ResponseWriter, *http.Request) { answered.Add(1) })
	h := openSite(t, map[string]string{"AUTH_UPSTREAM": auth.addr(), "AUTH_MAX_REQUESTS": "32", "MAX_CONNECTIONS": "256"})
	h.dialFrom(t, "127.0.7.7")
	var done atomic.Bool
	var all sync.WaitGroup
	defer all.Wait()
	defer done.Store(true)
	for range 64 {
		conn := h.dialFrom(t, "127.0.66.66")
		all.Go(func() {
			for in := bufio.NewReader(conn); !done.Load(); {
				_, _ = io.WriteString(conn, "GET /pforte/login HTTP/1.1\r\nHost: x\r\n\r\n")
				if _, err := http.ReadResponse(in, nil); err != nil {
					return
				}
			}
		})
	}
	time.Sleep(time.Second) // until all connections are open
	before, began := answered.Load(), time.Now()
	time.Sleep(2 * time.Second)
	rate := float64(answered.Load()-before) / time.Since(began).Seconds()
	if rate == 0 || rate > 60 { // one place, which rests 25 ms after each
		t.Errorf("%.0f requests a second of one network were passed on", rate)
	}
}
