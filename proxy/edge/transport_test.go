package edge

import (
	"io"
	"net"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestTransport_KeepsAConnectionForItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &connPool{timeout: time.Minute, most: 2, idle: map[string][]*serverConn{}}
		closed := make(chan int, 3)
		add := func(n int) {
			ours, theirs := net.Pipe()
			p.put(newServerConn(ours, "a:1"))
			go func() {
				_, _ = io.ReadAll(theirs)
				closed <- n
			}()
		}
		add(1)
		time.Sleep(30 * time.Second)
		add(2)
		add(3)
		if n := <-closed; n != 3 { // one too many
			t.Errorf("connection %d was closed", n)
		}
		began := time.Now()
		if n := <-closed; n != 1 || time.Since(began) != 30*time.Second {
			t.Errorf("connection %d was closed after %s", n, time.Since(began))
		}
		if n := <-closed; n != 2 || time.Since(began) != time.Minute {
			t.Errorf("connection %d was closed after %s", n, time.Since(began))
		}
		synctest.Wait()
		if len(p.idle) != 0 {
			t.Errorf("%d servers are left", len(p.idle))
		}
		p.close()
		add(4)
		if n := <-closed; n != 4 {
			t.Errorf("connection %d was closed", n)
		}
	})
}

// Each connection is closed in time, whichever address the sweep comes to first.
func TestTransport_KeepsAConnectionForItsTimeBesideOtherAddresses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const addresses = 20
		p := &connPool{timeout: time.Minute, most: 2, idle: map[string][]*serverConn{}}
		closed := make(chan time.Duration, addresses)
		for i := range addresses {
			ours, theirs := net.Pipe()
			p.put(newServerConn(ours, strconv.Itoa(i)))
			began := time.Now()
			go func() {
				_, _ = io.ReadAll(theirs)
				closed <- time.Since(began)
			}()
			time.Sleep(time.Second)
		}
		for range addresses {
			if kept := <-closed; kept != p.timeout {
				t.Errorf("a connection was kept for %s", kept)
			}
		}
	})
}
