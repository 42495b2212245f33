package application_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/application"
)

func TestUpstream_HasOneSpelling(t *testing.T) {
	for typed, want := range map[string]string{
		"http://notes:8080":           "http://notes:8080",
		"HTTP://Notes:8080/":          "http://notes:8080",
		"notes:8080":                  "http://notes:8080",
		"notes":                       "http://notes:80",
		"https://nas.fritz.box":       "https://nas.fritz.box:443",
		"192.168.1.20:5232":           "http://192.168.1.20:5232",
		"10.0.0.1":                    "http://10.0.0.1:80",
		"100.64.1.2:1":                "http://100.64.1.2:1",
		"http://[FD00:0:0::1]:80":     "http://[fd00::1]:80",
		"http://my_app-1.lan:65535":   "http://my_app-1.lan:65535",
		"http://127.0.0.1:3000":       "http://127.0.0.1:3000", // which the operator has to name
		"http://8.8.8.8":              "http://8.8.8.8:80",
		"http://localhost:3000":       "http://localhost:3000",
		"http://1password:80":         "http://1password:80",
		"http://immich-server-2:2283": "http://immich-server-2:2283",
	} {
		got, err := application.ParseUpstream(typed)
		if again, err2 := application.ParseUpstream(got); err != nil || got != want || err2 != nil || again != want {
			t.Errorf("%q: %q, %v, want %q; again %q, %v", typed, got, err, want, again, err2)
		}
	}
}

func TestUpstream_ThatIsNoneIsRefused(t *testing.T) {
	for _, typed := range []string{
		"", "http://", "http://:80", "ftp://notes:80", "http://notes:8080/radicale", "http://notes:8080//", "http://notes?x=1", "http://notes#x", "http://notes/?",
		"http://anna@notes", "http://anna:pw@notes:80", "http://notes:", "http://notes:0", "http://notes:080", "http://notes:65536", "http://notes:http", "http://notes:-1",
		"http://no tes", "http://no\ntes", "http://notes\x00", `http://x"}:1`, "http://{env.HOME}:1", "http://{edge.to}", "http://a..b", "http://.a", "http://a.", "http://-a", "http://a-:80",
		"http://127.1", "http://127.1:80", "http://2130706433", "http://0x7f000001:80", "http://0x7f.0.0.1", "http://0177.0.0.1:80", "http://127.0.0.01", "http://1.2.3.4.5", "http://256.1.1.1",
		"http://notes.1:80", "http://fd00::1:80", "http://[10.0.0.1]:80", "http://[fd00::1", "http://[fe80::1%25eth0]:80", "http://[notes]:80", "http://nötes:80", "http://１２７.0.0.1", "http:notes",
		"//notes:80", "http://notes:80\\x", "http://notes%2e:80", "unix:///run/docker.sock", "http://http://notes",
	} {
		if got, err := application.ParseUpstream(typed); err == nil {
			t.Errorf("%q: %q", typed, got)
		}
	}
}

func TestUpstream_IsNeverAtTheseAddresses(t *testing.T) {
	for _, addr := range []string{
		"0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.1.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "192.88.99.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
		"[::]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[::ffff:a9fe:a9fe]", "[0:0:0:0:0:ffff:a00:1]", "[::7f00:1]", "[::10.0.0.1]", "[::ffff:0:10.0.0.1]", "[fe80::1]", "[fec0::1]", "[ff02::1]",
		"[fd00:ec2::254]", "[fd20:ce::254]", "[fd00:42::42]", "[fd00:c1::a9fe:a9fe]", "[fd00:a9fe:a9fe::1]", "[64:ff9b::a00:1]", "[64:ff9b::169.254.169.254]", "[64:ff9b:1::1]", "[2002:a9fe:a9fe::1]", "[2001::1]", "[2001:0:53aa:64c::1]",
	} {
		if got, err := application.ParseUpstream("http://" + addr + ":80"); !errors.Is(err, application.ErrUpstreamBlocked) {
			t.Errorf("%s: %q, %v", addr, got, err)
		}
	}
}

func TestUpstream_LoopbackAndPublicAddressesHaveToBeNamed(t *testing.T) {
	for upstream, want := range map[string]bool{
		"http://127.0.0.1:3000": true, "http://[::1]:3000": true, "http://localhost:3000": true, "http://x.localhost:1": true, "http://8.8.8.8:80": true, "http://[2a00::1]:80": true,
		"http://10.0.0.1:80": false, "http://172.16.0.1:80": false, "http://192.168.0.1:80": false, "http://100.64.0.1:80": false, "http://[fd00::1]:80": false, "http://notes:80": false,
	} {
		if got := application.NeedsNaming(upstream); got != want {
			t.Errorf("%s: %t", upstream, got)
		}
	}
	for _, c := range []struct {
		upstream, entry string
		want            bool
	}{
		{"http://127.0.0.1:3000", "127.0.0.1:3000", true},
		{"http://127.0.0.1:3000", "127.0.0.1:3001", false},
		{"http://127.0.0.1:3000", "127.0.0.1", false},
		{"http://127.0.0.1:3000", "127.0.0.0/8", false},
		{"http://[::1]:3000", "[::1]:3000", true},
		{"http://localhost:3000", "LOCALHOST:3000", true},
		{"http://localhost:3000", "127.0.0.1:3000", false},
		{"http://203.0.113.7:80", "203.0.113.0/24", true},
		{"http://203.0.113.7:80", "203.0.113.7", true},
		{"http://203.0.113.7:80", "203.0.113.8", false},
		{"http://203.0.113.7:80", "", false},
	} {
		if got := application.IsNamed(c.upstream, c.entry); got != c.want {
			t.Errorf("%s by %q: %t", c.upstream, c.entry, got)
		}
	}
}

func FuzzUpstream(f *testing.F) {
	for _, seed := range []string{"http://notes:80", "127.1", "[::ffff:1.2.3.4]", "https://a.b/", `x"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, typed string) {
		got, err := application.ParseUpstream(typed)
		if err != nil {
			return
		}
		if again, err := application.ParseUpstream(got); err != nil || again != got {
			t.Errorf("%q is %q, which is %q, %v", typed, got, again, err)
		}
		if addr, err := netip.ParseAddrPort(got[len("http://"):]); err == nil && application.NeverUpstream(addr.Addr()) {
			t.Errorf("%q is %q", typed, got)
		}
	})
}

func TestRoute_NamesTheUserInHeadersThatTheProxyDrops(t *testing.T) {
	r, err := application.Route{Upstream: "notes", UserHeader: "x-webauth-user"}.Check()
	if err != nil || r.UserHeader != "X-Webauth-User" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, name := range []string{"Host", "Cookie", "X-Auth-Role", "X-Forwarded-For", "Remote-User\r\nX: y", "remote user"} {
		if _, err := (application.Route{Upstream: "notes", UserHeader: name}).Check(); !errors.Is(err, application.ErrUserHeader) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
