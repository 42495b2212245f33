package edge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// around is a reach in a network of its own: auth at 10.1.0.9 in the proxy's 10.1.0.0/26, applications in 10.2.0.0/24,
// the world by 172.20.0.0/16, the proxy's ports 443 and 9080.
func around(t *testing.T, mode string, to ...string) *reach {
	t.Helper()
	x, err := newReach(mode, to, []string{"auth:8081"}, []string{"verifier:8082"})
	if err != nil {
		t.Fatal(err)
	}
	x.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		addrs := map[string]string{"auth": "10.1.0.9", "verifier": "10.1.0.10", "redis": "10.3.0.7"}
		if addrs[host] == "" {
			return nil, errors.New("no such host")
		}
		return []netip.Addr{netip.MustParseAddr(addrs[host])}, nil
	}
	x.interfaces = func() ([]netip.Prefix, error) {
		return []netip.Prefix{
			netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("10.1.0.2/26"),
			netip.MustParsePrefix("10.2.0.2/24"), netip.MustParsePrefix("172.20.0.2/16"),
		}, nil
	}
	x.outward = func(context.Context) []netip.Addr { return []netip.Addr{netip.MustParseAddr("172.20.0.2")} }
	x.setPorts([]uint16{443, 9080})
	x.report([]string{"redis:6379", "192.168.1.5:5432", "gone:1", "nonsense"})
	return x
}

func TestReach_IsWhatTheSettingNames(t *testing.T) {
	t.Parallel()
	to := []string{"127.0.0.1:3000", "[::1]:3000", "203.0.113.0/24", "10.1.0.20:80", "1.1.1.1", "169.254.0.0/16", "10.1.0.9:8081"}
	for addr, want := range map[string]string{ // in which settings it is allowed: lan, containers, with APPS_TO
		"10.9.9.9:80": "lan to", "192.168.1.20:5232": "lan to", "172.31.0.1:1": "lan to", "100.64.0.1:1": "lan to", "[fd12::1]:80": "lan to",
		"10.2.0.30:8080": "lan containers to", "172.20.0.1:80": "lan to", "10.2.0.2:8080": "lan containers to",
		// Never.
		"0.0.0.0:80": "", "0.1.2.3:80": "", "[::]:80": "", "169.254.169.254:80": "", "169.254.1.1:80": "", "[fd20:ce::254]:80": "", "[fd00:42::42]:80": "", "[fd00:c1::a9fe:a9fe]:80": "", "[fd00:a9fe:a9fe::1]:80": "", "[fe80::1]:80": "", "[fe80::1%eth0]:80": "",
		"224.0.0.1:80": "", "239.1.1.1:80": "", "255.255.255.255:80": "", "[ff02::1]:80": "", "100.100.100.200:80": "", "[fd00:ec2::254]:80": "",
		"168.63.129.16:80": "", "192.0.0.192:80": "", "[64:ff9b::a00:1]:80": "", "[64:ff9b:1::1]:80": "", "[2002:a00:1::1]:80": "", "[2001::1]:80": "", "[::10.0.0.1]:80": "",
		// Our services, and the networks in which they are.
		"10.1.0.9:8081": "", "10.1.0.9:80": "", "10.1.0.20:80": "to", "10.1.0.10:8082": "", "10.3.0.7:6379": "", "10.3.0.7:6380": "lan to", "192.168.1.5:5432": "",
		"192.168.1.5:80": "lan to", "10.2.0.2:443": "", "10.2.0.2:9080": "", "172.20.0.2:443": "", "127.0.0.1:9080": "",
		// Only where they are named.
		"127.0.0.1:3000": "to", "127.0.0.1:3001": "", "127.0.0.2:3000": "", "[::1]:3000": "to", "[::1]:80": "", "203.0.113.9:80": "to", "8.8.8.8:80": "", "1.1.1.1:80": "to",
		"[2a00::1]:80": "", "[::ffff:10.9.9.9]:80": "lan to", "[::ffff:127.0.0.1]:80": "",
		"[::ffff:10.1.0.9]:8081": "",
	} {
		for setting, x := range map[string]*reach{"lan": around(t, "lan"), "containers": around(t, "containers"), "to": around(t, "lan", to...)} {
			err := x.check(t.Context(), netip.MustParseAddrPort(addr), false)
			if allowed := strings.Contains(" "+want+" ", " "+setting+" "); allowed != (err == nil) || err != nil && !errors.Is(err, errReach) {
				t.Errorf("%s, %s: %v", addr, setting, err)
			}
		}
	}
}

func TestReach_NamesOfServicesAreNoApplications(t *testing.T) {
	t.Parallel()
	x := around(t, "lan")
	for to, allowed := range map[string]bool{"http://auth:8081": false, "http://verifier:8082": false, "http://redis:6379": false, "http://redis:1": true, "http://notes:8081": true} {
		target, ok := parseTarget(to)
		if err := x.entry(t.Context(), target); !ok || (err == nil) != allowed {
			t.Errorf("%s: %v", to, err)
		}
	}
}

func TestReach_NamesOnlyAddresses(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"x", "http://10.0.0.1:1", "10.0.0.1:0", "10.0.0.0/33", "a:b", "*:80"} {
		if _, err := newReach("lan", []string{entry}, nil, nil); err == nil {
			t.Errorf("%s is taken", entry)
		}
	}
	if _, err := newReach("all", nil, nil, nil); err == nil {
		t.Error("the mode all is taken")
	}
}

// A name may lead elsewhere the next time that it is looked up.
func TestReach_OfANameIsDecidedAtEachConnection(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(app.Close)
	at := netip.MustParseAddrPort(app.Listener.Addr().String())
	x := around(t, "lan", at.String())
	var good atomic.Bool
	good.Store(true)
	dns := fakeDNS(t, func() [4]byte {
		if good.Load() {
			return [4]byte{127, 0, 0, 1}
		}
		return [4]byte{127, 0, 0, 3}
	})
	x.resolver = dns
	dial := x.dialer(time.Second)
	conn, err := dial(t.Context(), "tcp", fmt.Sprintf("name.test:%d", at.Port()))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	good.Store(false)
	if conn, err := dial(t.Context(), "tcp", fmt.Sprintf("name.test:%d", at.Port())); !errors.Is(err, errReach) {
		t.Errorf("a connection to %v, %v", conn, err)
	}
}

// While names cannot be looked up, an application at an address opens, and the network towards the world is closed.
func TestReach_WaitsShortlyForASilentResolver(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(app.Close)
	at := app.Listener.Addr().String()
	x := around(t, "containers", at)
	x.lookup = func(ctx context.Context, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	x.outward = func(ctx context.Context) []netip.Addr {
		if ctx.Err() != nil {
			return nil
		}
		return []netip.Addr{netip.MustParseAddr("172.20.0.2")}
	}
	conn, err := x.dialer(2*time.Second)(t.Context(), "tcp", at) // dial_timeout of the Caddyfile
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if err := x.check(t.Context(), netip.MustParseAddrPort("172.20.0.1:80"), false); !errors.Is(err, errReach) {
		t.Errorf("the network towards the world is taken for one of containers: %v", err)
	}
}

// fakeDNS is a resolver that answers each question for an IPv4 address.
func fakeDNS(t *testing.T, answer func() [4]byte) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			end := 12
			for end < n && b[end] != 0 {
				end += int(b[end]) + 1
			}
			end += 5
			reply := append([]byte(nil), b[:end]...)
			isA := b[end-3] == 1
			copy(reply[2:12], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
			if isA {
				reply[7] = 1
				ip := answer()
				reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ip[0], ip[1], ip[2], ip[3])
			}
			_, _ = conn.WriteTo(reply, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}
