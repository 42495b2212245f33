package edge

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// One client must not be able to take all connections.
func TestConnectionsAreSharedBetweenNetworks(t *testing.T) {
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
