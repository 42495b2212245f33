package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// floodFrom is where floods come from, and memberFrom where the member does.
	floodFrom, memberFrom = "127.0.66.66", "127.0.7.7"
	// memberEvery is how often the member sends a request, in turn to /me and to an application.
	memberEvery = 10 * time.Millisecond
	// crowd is how many connections a flood has, fewer than the proxy's.
	crowd = 900
)

// flood is what strangers do beside a member.
type flood struct {
	name string
	// send does it until ctx ends.
	send func(ctx context.Context, w *world)
	// afresh opens a connection for each request of the member.
	afresh bool
}

var floods = []flood{
	{name: "900 connections: guarded GET without a login", send: repeated("GET", appPath, "")},
	{name: "900 connections: a login page", send: repeated("GET", "/pforte/login", "")},
	{name: "900 connections: wrong logins", send: repeated("POST", loginPath, `{"username":"nobody","password":"wrong wrong"}`)},
	{name: "30 × 250 streams of HTTP/2 with a body that does not come", send: stalledStreams(false)},
	{name: "the same, with headers of 58 KB", send: stalledStreams(true)},
	{name: "1,020 idle connections of four /24s", send: idleConnections, afresh: true},
}

// appPath is the application's, behind the guard.
const appPath = "/api/v1/lists"

// beside is what a member finds.
type beside struct{ served, p99, idleP99, memory, idleMemory samples }

// application serves a page of an application of the household, and returns its address.
func (s *suite) application() string {
	app, err := (&net.ListenConfig{}).Listen(s.Context(), "tcp", "127.0.0.1:0")
	s.must(err)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "lists") })
	s.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(app) }() // until it is closed
	return app.Addr().String()
}

// floods measures a member of another network beside each flood.
func (s *suite) floods() {
	app := s.application()
	found := make([]beside, len(floods))
	product, generator := s.divideCores()
	for range s.rounds {
		for i, f := range floods {
			s.section(f.name, func(s *suite) { s.besideOnce(f, app, product, generator, &found[i]) })
		}
	}
	s.line("\n## A member beside a flood\n\nA user who is logged in sends %d requests a second through the proxy, in turn `GET /me` and a GET to an application behind the guard, from one address; strangers do what the row says from\n"+
		"another. The programs have half of the cores and both the others. HTTP/3 is off, so that there are no QUIC connections to count; the /64s of one /48 are a test of the listener\n"+
		"(`TestConnections_OfOneNetworkCannotShutOutOthersAtAnyWidth`), and the four /24s stand for them here.", int(time.Second/memberEvery))
	var rows []row
	for i, f := range floods {
		b := found[i]
		rows = append(rows,
			row{what: f.name + ": the member's answers that are 200", unit: "%", ours: b.served, goal: atLeast(95)},
			row{what: f.name + ": p99, beside none", unit: "ms", ours: b.p99, beside: b.idleP99, ratio: b.p99.over(b.idleP99), goal: atMost(5)},
			row{what: f.name + ": memory of the proxy, beside idle", unit: "MB", ours: b.memory, beside: b.idleMemory, ratio: b.memory.over(b.idleMemory), goal: atMost(2*b.idleMemory.median() + 64), own: true})
	}
	s.table("", rows...)
}

// besideOnce measures one flood, with programs of its own.
func (s *suite) besideOnce(f flood, app, product, generator string, into *beside) {
	w := s.open(s.bin)
	w.Extra["auth"] = nil // with the limits that strangers meet
	w.Extra["pforte-proxy"] = map[string]string{"APP_UPSTREAM": app}
	s.pin(product)
	w.startAll()
	s.pin(generator)
	header, err := w.login(w.Addresses.Auth)
	s.must(err)
	requests := [][]byte{request(http.MethodGet, mePath, "", header), request(http.MethodGet, appPath, "", header)}
	w.member(requests, f.afresh, s.step/2) // connections and caches are warm then
	idle := map[string]samples{}
	w.memory("VmRSS", []string{"proxy"}, idle)
	_, p99 := w.member(requests, f.afresh, s.step)
	into.idleP99, into.idleMemory = append(into.idleP99, p99), append(into.idleMemory, idle["proxy"]...)

	ctx, stop := context.WithCancel(s.Context())
	var all sync.WaitGroup
	all.Go(func() { f.send(ctx, w) })
	defer all.Wait()
	defer stop()
	time.Sleep(time.Second) // until all connections are open
	most := map[string]samples{}
	all.Go(func() {
		for ctx.Err() == nil {
			w.memory("VmRSS", []string{"proxy"}, most)
			time.Sleep(100 * time.Millisecond)
		}
	})
	served, p99 := w.member(requests, f.afresh, 2*s.step)
	stop()
	all.Wait()
	into.served, into.p99, into.memory = append(into.served, served), append(into.p99, p99), append(into.memory, most["proxy"].quantile(1))
	s.progress("%s: %s %% served, p99 %s ms beside %s, %s MB beside %s", f.name, figure(served), figure(p99), into.idleP99, into.memory, into.idleMemory)
}

// member sends requests at a constant rate, and returns the percentage that were answered 200 and
// the 99th percentile of the milliseconds that all answers took.
func (w *world) member(requests [][]byte, afresh bool, duration time.Duration) (served, p99 float64) {
	c := stranger{w: w, from: memberFrom}
	defer c.close()
	var took samples
	began, ok := time.Now(), 0
	for due := time.Duration(0); due < duration; due += memberEvery {
		time.Sleep(due - time.Since(began))
		if afresh {
			c.close()
		}
		if c.exchange(w.Context(), requests[len(took)%len(requests)]) == http.StatusOK {
			ok++
		}
		took = append(took, milli(time.Since(began)-due))
	}
	return 100 * float64(ok) / float64(len(took)), took.quantile(.99)
}

// stranger is a client of an address of its own, with one connection.
type stranger struct {
	w    *world
	from string
	conn net.Conn
	in   *bufio.Reader
}

func (c *stranger) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

func (c *stranger) open(ctx context.Context) (err error) {
	if c.conn != nil {
		return nil
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.from)}, Timeout: patience}
	if c.conn, err = dialer.DialContext(ctx, "tcp", c.w.Addresses.Proxy); err != nil {
		c.conn = nil
		return err
	}
	c.in = bufio.NewReader(c.conn)
	return c.conn.SetDeadline(time.Now().Add(time.Minute))
}

// exchange returns the status of the answer to a request, and 0 where none came.
func (c *stranger) exchange(ctx context.Context, text []byte) int {
	if c.open(ctx) != nil {
		return 0
	}
	if _, err := c.conn.Write(text); err != nil {
		c.close()
		return 0
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.close()
		return 0
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil || resp.Close {
		c.close()
	}
	return resp.StatusCode
}

// repeated returns a flood of one request, which each of many connections sends again as soon as it
// is answered.
func repeated(method, path, body string) func(context.Context, *world) {
	text := request(method, path, body, nil)
	return func(ctx context.Context, w *world) {
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() {
				c := stranger{w: w, from: floodFrom}
				defer c.close()
				for ctx.Err() == nil {
					if c.exchange(ctx, text) == 0 {
						time.Sleep(10 * time.Millisecond)
					}
				}
			})
		}
		all.Wait()
	}
}

// idleConnections opens a connection from each of many addresses, with one request.
func idleConnections(ctx context.Context, w *world) {
	text := request(http.MethodGet, "/pforte/login", "", nil)
	for ctx.Err() == nil { // those that were closed are opened again
		var open []*stranger
		for i := range 1020 {
			c := &stranger{w: w, from: fmt.Sprintf("127.0.%d.%d", 100+i%4, 1+i/4)}
			if open = append(open, c); ctx.Err() == nil {
				c.exchange(ctx, text)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
		for _, c := range open {
			c.close()
		}
	}
}

// stalledStreams returns a flood of HTTP/2: requests of which nothing comes but the header.
func stalledStreams(longHeader bool) func(context.Context, *world) {
	text := streamsOf(250, longHeader)
	return func(ctx context.Context, w *world) {
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				for ctx.Err() == nil { // a connection that was ended is opened again
					c := stranger{w: w, from: floodFrom}
					if c.open(ctx) == nil {
						stopped := context.AfterFunc(ctx, c.close)
						_, _ = c.conn.Write(text)
						_, _ = io.Copy(io.Discard, c.in)
						stopped()
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		all.Wait()
	}
}

// streamsOf returns what a client sends that begins so many requests (RFC 9113, section 4; RFC 7541).
// A long header costs it a few bytes after the first request, which names it.
func streamsOf(streams int, longHeader bool) []byte {
	var all bytes.Buffer
	all.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame := func(kind, flags byte, stream int, payload []byte) {
		length := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
		all.Write(append(length, flags))
		all.Write(binary.BigEndian.AppendUint32(nil, uint32(stream)))
		all.Write(payload)
	}
	text := func(to *bytes.Buffer, s string) {
		if len(s) < 127 {
			to.WriteByte(byte(len(s)))
		} else {
			to.WriteByte(127)
			to.Write(binary.AppendUvarint(nil, uint64(len(s)-127)))
		}
		to.WriteString(s)
	}
	frame(4, 0, 0, nil)
	for i := range streams {
		var header bytes.Buffer
		for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", loginPath}, {"content-length", "65000"}} {
			header.WriteByte(0) // a literal that is not indexed
			text(&header, field[0])
			text(&header, field[1])
		}
		if longHeader && i == 0 {
			header.WriteByte(0x40) // one that is
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
