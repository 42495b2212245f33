package edge

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// peer is a connection that comes from an address.
func peer(t *testing.T, l *boundListener, addr string) *boundConn {
	t.Helper()
	ours, theirs := pipe(t)
	_ = theirs
	c := &boundConn{TCPConn: ours, listener: l, addr: netip.MustParseAddr(addr)}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.admit(c)
}

// pipe returns the two ends of a connection.
func pipe(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = dialed.Close(), accepted.Close() })
	return accepted.(*net.TCPConn), dialed.(*net.TCPConn)
}

// A /48 of IPv6, and a /24 of IPv4, belong to one customer as easily as one address.
func TestConnections_OfOneNetworkCannotShutOutOthersAtAnyWidth(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]func(i int) string{
		"the /64s of a /48":  func(i int) string { return fmt.Sprintf("2001:db8:1:%x::1", i) },
		"the /56s of a /48":  func(i int) string { return fmt.Sprintf("2001:db8:1:%x00::1", i) },
		"addresses of a /64": func(i int) string { return fmt.Sprintf("2001:db8:1:1::%x", i) },
		"addresses of a /24": func(i int) string { return fmt.Sprintf("203.0.113.%d", i) },
	} {
		const most = 128
		l := (&Connections{Max: most}).WrapListener(nil).(*boundListener)
		var taken []*boundConn
		for i := range most {
			taken = append(taken, peer(t, l, from(i)))
		}
		if peer(t, l, from(200)) != nil {
			t.Errorf("%s: one more has a place", name)
		}
		for i, other := range []string{"2001:db8:2::1", "198.51.100.1", "198.51.100.2", "2001:db8:2::2"} {
			if peer(t, l, other) == nil {
				t.Errorf("%s: %s, the first of them, is shut out", name, other)
			}
			if newest := taken[most-1-i]; newest.network != nil || l.open != most {
				t.Errorf("%s: %d are open, the newest still %v", name, l.open, newest.network != nil)
			}
		}
	}
}

// In its own network a client keeps its place beside one that takes all others.
func TestConnections_AreSharedWithinANetworkToo(t *testing.T) {
	t.Parallel()
	l := (&Connections{Max: 8}).WrapListener(nil).(*boundListener)
	for range 8 {
		peer(t, l, "2001:db8:1:1::1")
	}
	for i, addr := range []string{"2001:db8:1:2::1", "2001:db8:1:3::1", "2001:db8:1:2::2", "2001:db8:2::1"} {
		if peer(t, l, addr) == nil {
			t.Errorf("%d: %s is shut out", i, addr)
		}
	}
}

func TestConnections_OfATrustedProxyAreNeverClosedForOthers(t *testing.T) {
	t.Parallel()
	l := (&Connections{Max: 4, trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}).WrapListener(nil).(*boundListener)
	if peer(t, l, "203.0.113.1") == nil {
		t.Fatal("the first has no place")
	}
	for i := range 4 { // the last takes that of another
		if peer(t, l, "192.0.2.1") == nil {
			t.Errorf("the connection %d of the proxy is shut out", i)
		}
	}
	if peer(t, l, "203.0.113.1") != nil || peer(t, l, "192.0.2.1") != nil || l.open != 4 {
		t.Errorf("%d connections are open", l.open)
	}
}

// A connection of HTTP/2 costs little without its requests.
func TestConnections_ShareTheRequestsOfHTTP2BetweenNetworks(t *testing.T) {
	t.Parallel()
	l := (&Connections{Max: 10}).WrapListener(nil).(*boundListener)
	greedy, others := []*boundConn{peer(t, l, "203.0.113.1"), peer(t, l, "203.0.113.2")}, peer(t, l, "198.51.100.1")
	for i := range streamsEach * l.max {
		if !l.enterStream(greedy[i%2], 1) {
			t.Fatalf("%d have no place", i)
		}
	}
	if l.enterStream(greedy[0], 1) {
		t.Error("one more has a place")
	}
	if !l.enterStream(others, 3) || greedy[0].network == nil == (greedy[1].network == nil) || l.streams != 13 {
		t.Errorf("another network has no place: %d streams", l.streams)
	}
	for range 10 {
		l.leaveStream(greedy[0], 1)
		l.leaveStream(greedy[1], 1)
	}
	if l.leaveStream(others, 3); l.streams != 0 || l.requesting.all.has != 0 || len(l.requesting.byPrefix) != 0 || l.clients.all.has != 2 {
		t.Errorf("%d streams in the end, %+v, %+v", l.streams, l.requesting.all, l.clients.all)
	}
}

// After a request of HTTP/2 was answered, its body may go on to come.
func TestConnections_WeighNoBodyAsAHeader(t *testing.T) {
	t.Parallel()
	l := (&Connections{Max: 100}).WrapListener(nil).(*boundListener)
	c := peer(t, l, "203.0.113.1")
	for range 100 {
		if _, err := c.count(16<<10, nil); err != nil {
			t.Fatal(err)
		}
	}
	if l.streams != 34 {
		t.Errorf("1.6 MB weigh %d", l.streams)
	}
	if c.leaveHeader(); l.streams != 0 {
		t.Errorf("%d are left", l.streams)
	}
}

// What a connection has sent may be read after it was closed for others.
func TestConnections_ThatAreClosedTakeNoPlaceFromOthers(t *testing.T) {
	t.Parallel()
	l := (&Connections{Max: 2}).WrapListener(nil).(*boundListener)
	closed, busy := peer(t, l, "198.51.100.1"), peer(t, l, "203.0.113.1")
	for range streamsEach * l.max {
		if !l.enterStream(busy, 1) {
			t.Fatal("there is no place")
		}
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if l.enterStream(closed, 1) || busy.network == nil || l.streams != streamsEach*l.max {
		t.Errorf("a request of a closed connection has closed another one; %d are left", l.streams)
	}
}

// One client must not be able to take all connections.
func TestConnections_AreSharedBetweenNetworks(t *testing.T) {
	t.Parallel()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := (&Connections{Max: 3}).WrapListener(plain)
	t.Cleanup(func() { _ = l.Close() })
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func(from string) net.Conn {
		t.Helper()
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	wait := func() net.Conn {
		t.Helper()
		select {
		case conn := <-accepted:
			return conn
		case <-time.After(5 * time.Second):
			t.Fatal("no connection was accepted")
			return nil
		}
	}
	refused := func(conn net.Conn) {
		t.Helper()
		if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(conn); !strings.HasPrefix(string(got), "HTTP/1.1 503 ") {
			t.Errorf("got %q above the limit", got)
		}
	}
	var greedy [3]net.Conn
	var served [3]net.Conn
	for i := range greedy {
		greedy[i] = dial("127.0.0.1")
		served[i] = wait()
	}
	refused(dial("127.0.0.1"))
	dial("127.0.0.2")
	other := wait()
	if host, _, _ := net.SplitHostPort(other.RemoteAddr().String()); host != "127.0.0.2" {
		t.Errorf("accepted %s", host)
	}
	_ = greedy[2].SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := greedy[2].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the newest connection of the other network: %v", err)
	}
	_ = served[2].Close() // its place is another's already
	refused(dial("127.0.0.2"))
	refused(dial("127.0.0.1"))
	_ = served[0].Close()
	_ = served[0].Close()
	dial("127.0.0.2")
	wait()
	refused(dial("127.0.0.2"))
}

// One that is alone takes nothing from others, and one with few connections not much.
func TestConnections_OfANetworkCrowdOutOthersWhereTheyAreMostOfMany(t *testing.T) {
	t.Parallel()
	l := (&Connections{Max: 80, trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}).WrapListener(nil).(*boundListener)
	var greedy, other, proxy *boundConn
	few := (&Connections{Max: 80}).WrapListener(nil).(*boundListener)
	for i := range 10 {
		greedy = peer(t, few, fmt.Sprintf("203.0.113.%d", i))
	}
	if peer(t, few, "198.51.100.1"); few.crowds(greedy) {
		t.Error("with an eighth of 80 it crowds out others")
	}
	for i := range 11 {
		if greedy = peer(t, l, fmt.Sprintf("203.0.113.%d", i)); l.crowds(greedy) {
			t.Errorf("alone it crowds out others with %d", i+1)
		}
	}
	if other = peer(t, l, "198.51.100.1"); !l.crowds(greedy) || l.crowds(other) {
		t.Errorf("of 11 and 1 the first: %v, the other: %v", l.crowds(greedy), l.crowds(other))
	}
	for range 30 {
		proxy = peer(t, l, "192.0.2.1")
	}
	if l.crowds(proxy) {
		t.Error("a trusted proxy crowds out others")
	}
	_ = greedy.Close()
	if l.crowds(greedy) {
		t.Error("a connection that is closed crowds out others")
	}
}

// A service times what its client takes of an answer. Megabytes that wait in the proxy's own buffer would be taken from
// the service at once, and nothing more for a long time then.
func TestConnections_HoldLittleOfWhatASlowClientDoesNotTake(t *testing.T) {
	t.Parallel()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := (&Connections{Max: 1}).WrapListener(plain)
	t.Cleanup(func() { _ = l.Close() })
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if err := client.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var written atomic.Int64
	go func() {
		piece := make([]byte, 32<<10)
		for {
			n, err := conn.Write(piece)
			if written.Add(int64(n)); err != nil {
				return
			}
		}
	}()
	const taken = 16 << 20 // the line is fast at first, so that the kernel's buffer grows
	if _, err := io.CopyN(io.Discard, client, taken); err != nil {
		t.Fatal(err)
	}
	held := int64(-1)
	for now := written.Load() - taken; now != held; now = written.Load() - taken {
		held = now
		time.Sleep(200 * time.Millisecond)
	}
	if held > 1<<20 {
		t.Errorf("%d bytes wait for the client", held)
	}
}
