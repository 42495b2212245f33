package httpapi

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// addresses finds out from which address a request comes. It believes
// X-Forwarded-For only as far as trusted proxies wrote it: from the right, up to
// the first address that is not one of theirs. Everything left of that, and
// every other header, is the client's own word.
type addresses struct{ trusted []netip.Prefix }

// SentBy tells of a request whether it comes straight from one of the proxies.
func SentBy(proxies []netip.Prefix) func(*http.Request) bool {
	a := addresses{trusted: proxies}
	return func(r *http.Request) bool { return a.trusts(parseAddress(r.RemoteAddr)) }
}

// of gives the address of the client, IPv4 where it is IPv4 mapped into IPv6,
// and the zero Addr when not even the peer has one.
func (a addresses) of(r *http.Request) netip.Addr {
	client := parseAddress(r.RemoteAddr)
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !a.trusts(client) {
			return client
		}
		addr := parseAddress(strings.TrimSpace(hop))
		if !addr.IsValid() {
			return client // what the proxy says is no address: the proxy is all we know
		}
		client = addr
	}
	return client
}

// string is of in the form of echo.IPExtractor.
func (a addresses) string(r *http.Request) string {
	if addr := a.of(r); addr.IsValid() {
		return addr.String()
	}
	return ""
}

func (a addresses) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(a.trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// parseAddress reads "1.2.3.4", "1.2.3.4:5", "::1", "[::1]" or "[::1]:5".
func parseAddress(s string) netip.Addr {
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil {
		port, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}
		}
		addr = port.Addr()
	}
	return addr.Unmap().WithZone("")
}
