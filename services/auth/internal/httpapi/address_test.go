package httpapi

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

func proxies(list ...string) addresses {
	var a addresses
	for _, p := range list {
		a.trusted = append(a.trusted, netip.MustParsePrefix(p))
	}
	return a
}

func requestFrom(peer string, forwardedFor ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = peer
	r.Header["X-Forwarded-For"] = forwardedFor
	r.Header.Set("X-Real-Ip", "9.9.9.9")
	r.Header.Set("Forwarded", "for=9.9.9.9")
	return r
}

func TestTheClientIsTheFirstAddressFromTheRightThatIsNoProxy(t *testing.T) {
	home := proxies("10.0.0.0/8", "fd00::/8", "::1/128")
	for name, c := range map[string]struct {
		a    addresses
		r    *http.Request
		want string
	}{
		"without proxies the peer counts":                 {proxies(), requestFrom("7.7.7.7:80", "1.1.1.1"), "7.7.7.7"},
		"a peer that is no proxy is not believed":         {home, requestFrom("7.7.7.7:80", "1.1.1.1"), "7.7.7.7"},
		"a proxy is believed":                             {home, requestFrom("10.0.0.1:80", "1.1.1.1"), "1.1.1.1"},
		"what the client wrote before is not":             {home, requestFrom("10.0.0.1:80", "6.6.6.6, 1.1.1.1"), "1.1.1.1"},
		"several headers are one list":                    {home, requestFrom("10.0.0.1:80", "6.6.6.6", "1.1.1.1"), "1.1.1.1"},
		"a chain of proxies is walked":                    {home, requestFrom("10.0.0.1:80", "6.6.6.6, 1.1.1.1, 10.2.3.4"), "1.1.1.1"},
		"proxies alone give the farthest":                 {home, requestFrom("10.0.0.1:80", "10.0.0.3,10.0.0.2"), "10.0.0.3"},
		"a proxy that says nothing is the client":         {home, requestFrom("10.0.0.1:80"), "10.0.0.1"},
		"a word that is no address ends the walk":         {home, requestFrom("10.0.0.1:80", "1.1.1.1, unknown"), "10.0.0.1"},
		"an empty word too":                               {home, requestFrom("10.0.0.1:80", "1.1.1.1,"), "10.0.0.1"},
		"ports and brackets are left out":                 {home, requestFrom("[::1]:80", "[2001:db8::1]:443"), "2001:db8::1"},
		"a mapped IPv4 address is that address":           {home, requestFrom("[::ffff:10.0.0.1]:80", "::ffff:1.1.1.1"), "1.1.1.1"},
		"zones are left out":                              {home, requestFrom("[fe80::1%eth0]:80"), "fe80::1"},
		"a peer without address has none":                 {home, requestFrom("@", "1.1.1.1"), ""},
		"a mapped peer is compared as what it stands for": {proxies("127.0.0.0/8"), requestFrom("[::ffff:127.0.0.1]:80", "1.1.1.1"), "1.1.1.1"},
	} {
		if got := c.a.string(c.r); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func FuzzClientAddress(f *testing.F) {
	f.Add("10.0.0.1:80", "1.1.1.1, 10.0.0.2")
	f.Add("[::1]:80", "[fe80::1%x]:3,,")
	home := proxies("10.0.0.0/8", "::1/128")
	f.Fuzz(func(t *testing.T, peer, list string) {
		got := home.of(requestFrom(peer, list))
		if got.Is4In6() || got.Zone() != "" {
			t.Errorf("%q, %q: got %s", peer, list, got)
		}
		if p := parseAddress(peer); !home.trusts(p) && got != p {
			t.Errorf("%q is no proxy, but %q was believed: %s", peer, list, got)
		}
	})
}
