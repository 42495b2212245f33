package clientaddr_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"

	"github.com/pforte/pforte/pkg/clientaddr"
)

func proxies(t testing.TB, list ...string) clientaddr.Proxies {
	t.Helper()
	var p clientaddr.Proxies
	for _, text := range list {
		var n clientaddr.Network
		if err := n.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		p = append(p, n)
	}
	return p
}

func request(peer string, forwardedFor ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = peer
	r.Header["X-Forwarded-For"] = forwardedFor
	r.Header.Set("X-Real-Ip", "9.9.9.9")
	r.Header.Set("Forwarded", "for=9.9.9.9")
	return r
}

func TestClient_IsTheFirstFromTheRightThatIsNoProxy(t *testing.T) {
	home := proxies(t, "10.0.0.0/8", "fd00::/8", "::1")
	for name, c := range map[string]struct {
		proxies clientaddr.Proxies
		r       *http.Request
		want    string
	}{
		"without proxies the peer counts":         {nil, request("7.7.7.7:80", "1.1.1.1"), "7.7.7.7"},
		"a peer that is no proxy is not believed": {home, request("7.7.7.7:80", "1.1.1.1"), "7.7.7.7"},
		"a proxy is believed":                     {home, request("10.0.0.1:80", "1.1.1.1"), "1.1.1.1"},
		"what the client wrote before is not":     {home, request("10.0.0.1:80", "6.6.6.6, 1.1.1.1"), "1.1.1.1"},
		"several headers are one list":            {home, request("10.0.0.1:80", "6.6.6.6", "1.1.1.1"), "1.1.1.1"},
		"a chain of proxies is walked":            {home, request("10.0.0.1:80", "6.6.6.6, 1.1.1.1, 10.2.3.4"), "1.1.1.1"},
		"among proxies alone the farthest counts": {home, request("10.0.0.1:80", "10.0.0.3,10.0.0.2"), "10.0.0.3"},
		"a proxy without a header is the client":  {home, request("10.0.0.1:80"), "10.0.0.1"},
		"text that is no address ends the walk":   {home, request("10.0.0.1:80", "1.1.1.1, unknown"), "10.0.0.1"},
		"ports and brackets are left out":         {home, request("[::1]:80", "[2001:db8::1]:443"), "2001:db8::1"},
		"a mapped IPv4 address is that address":   {home, request("[::ffff:10.0.0.1]:80", "::ffff:1.1.1.1"), "1.1.1.1"},
		"a mapped range is the IPv4 range":        {proxies(t, "::ffff:10.0.0.0/104"), request("10.0.0.1:80", "1.1.1.1"), "1.1.1.1"},
		"zones are left out":                      {home, request("[fe80::1%eth0]:80"), "fe80::1"},
		"a peer without address has none":         {home, request("@", "1.1.1.1"), "invalid IP"},
	} {
		if got := c.proxies.Of(c.r).String(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestClient_ProxyIsOneWhosePeerIs(t *testing.T) {
	home := proxies(t, "10.0.0.0/8")
	for peer, want := range map[string]bool{"10.0.0.1:80": true, "7.7.7.7:80": false, "@": false} {
		if got := home.Sent(request(peer, "10.0.0.1")); got != want {
			t.Errorf("%s: got %t", peer, got)
		}
	}
}

func TestGroup_OneHouseholdIsOne(t *testing.T) {
	for addr, want := range map[string]string{"1.2.3.4": "1.2.3.4", "2001:db8:1:2:3::4": "2001:db8:1:2::/64"} {
		if got := clientaddr.Group(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: got %q, want %q", addr, got, want)
		}
	}
}

func TestGroup_AnIPv6AddressIsInThree(t *testing.T) {
	for addr, want := range map[string][]string{
		"1.2.3.4":             {"1.2.3.4"},
		"2001:db8:1:2ff:3::4": {"2001:db8:1:2ff::/64", "2001:db8:1:200::/56", "2001:db8:1::/48"},
	} {
		if got := clientaddr.Groups(netip.MustParseAddr(addr)); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", addr, got, want)
		}
	}
	if got := clientaddr.Groups(netip.Addr{}); !slices.Equal(got, []string{"invalid IP"}) {
		t.Errorf("no address: got %q", got)
	}
}

func TestGroup_NeighborhoodIsTheNetworkAround(t *testing.T) {
	for addr, want := range map[string]string{"1.2.3.4": "1.2.3.0/24", "2001:db8:1:2:3::4": "2001:db8:1::/48"} {
		if got := clientaddr.Neighborhood(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: got %q, want %q", addr, got, want)
		}
	}
	if got := clientaddr.Neighborhood(netip.Addr{}); got != "invalid IP" {
		t.Errorf("no address: got %q", got)
	}
}

func TestNetwork_ThatIsNoneIsRefused(t *testing.T) {
	for _, text := range []string{"", "10.0.0.0/33", "localhost", "fe80::1%eth0", "10.0.0.1-10.0.0.9"} {
		var n clientaddr.Network
		if err := n.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %s", text, n)
		}
	}
}

func FuzzClientAddress(f *testing.F) {
	f.Add("10.0.0.1:80", "1.1.1.1, 10.0.0.2")
	f.Add("[::1]:80", "[fe80::1%x]:3,,")
	home := proxies(f, "10.0.0.0/8", "::1")
	f.Fuzz(func(t *testing.T, peer, list string) {
		got := home.Of(request(peer, list))
		if got.Is4In6() || got.Zone() != "" {
			t.Errorf("%q, %q: got %s", peer, list, got)
		}
		if alone := home.Of(request(peer)); got != alone && !home[0].Contains(alone) && !home[1].Contains(alone) {
			t.Errorf("%q is no proxy, but %q was believed: %s", peer, list, got)
		}
	})
}

func TestToken_MakesThePeerAProxyAndNobodyElse(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	of := func(token string, sent ...string) (client string, isProxy bool) {
		r := request("7.7.7.7:80", "6.6.6.6, 1.1.1.1")
		r.Header[clientaddr.TokenHeader] = sent
		clientaddr.WithToken(token, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if token != "" && r.Header.Get(clientaddr.TokenHeader) != "" {
				t.Error("the token goes further")
			}
			client, isProxy = proxies(t, "10.0.0.0/8").Of(r).String(), proxies(t).Sent(r)
		})).ServeHTTP(httptest.NewRecorder(), r)
		return client, isProxy
	}
	if client, isProxy := of(token, token); client != "1.1.1.1" || !isProxy {
		t.Errorf("with the token: client %s, a proxy: %t", client, isProxy)
	}
	for name, c := range map[string]struct {
		token string
		sent  []string
	}{"none sent": {token, nil}, "empty": {token, []string{""}}, "wrong": {token, []string{token[1:]}}, "two": {token, []string{token, token}}, "none set": {"", []string{""}}} {
		if client, isProxy := of(c.token, c.sent...); client != "7.7.7.7" || isProxy {
			t.Errorf("%s: client %s, a proxy: %t", name, client, isProxy)
		}
	}
}
