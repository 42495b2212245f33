// Package clientaddr determines the client's address of a request that passed
// trusted proxies.
package clientaddr

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the addresses of the proxies whose X-Forwarded-For is trusted. Without any,
// the peer is the client, unless it sent the token of WithToken.
type Proxies []Network

// Of returns the address of the client, as IPv4 where it is IPv4 mapped into IPv6,
// and the zero Addr when not even the peer has one. X-Forwarded-For is trusted
// only as far as trusted proxies wrote it: from the right, up to the first
// address that is not one of theirs. Everything left of that, and every other
// header, can be set by the client.
func (p Proxies) Of(r *http.Request) netip.Addr {
	client, vouched := parse(r.RemoteAddr), vouchedFor(r)
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !vouched && !p.trust(client) {
			return client
		}
		vouched = false // for the peer alone
		addr := parse(strings.TrimSpace(hop))
		if !addr.IsValid() {
			return client // not an address: the proxy is the last one known
		}
		client = addr
	}
	return client
}

// Sent reports whether the request comes directly from one of the proxies, or from one that sent
// the token of WithToken.
func (p Proxies) Sent(r *http.Request) bool { return vouchedFor(r) || p.trust(parse(r.RemoteAddr)) }

// TokenHeader is where a proxy on another machine sends its token.
const TokenHeader = "X-Guard-Token" //nolint:gosec // G101: the name of a header, no credential

type vouchedKey struct{}

// WithToken returns a handler that calls next. A request whose TokenHeader is the token counts as sent
// by a trusted proxy, whatever its address: behind a router or Docker's bridge many clients have the
// address of the proxy. next does not get the header. If token is "", WithToken returns next itself.
func WithToken(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sent := r.Header.Values(TokenHeader); len(sent) > 0 {
			got := sha256.Sum256([]byte(sent[0]))
			if len(sent) == 1 && subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
				r = r.WithContext(context.WithValue(r.Context(), vouchedKey{}, true))
			}
			r.Header.Del(TokenHeader)
		}
		next.ServeHTTP(w, r)
	})
}

func vouchedFor(r *http.Request) bool { return r.Context().Value(vouchedKey{}) != nil }

func (p Proxies) trust(addr netip.Addr) bool {
	return slices.ContainsFunc(p, func(n Network) bool { return n.Contains(addr) })
}

// parse reads "1.2.3.4", "1.2.3.4:5", "::1", "[::1]" or "[::1]:5"; else it returns the zero Addr.
func parse(s string) netip.Addr {
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

// Group returns what an address counts as for limits: an IPv4 address itself, an IPv6
// address as its /64, because one client has all of it.
func Group(addr netip.Addr) string {
	if addr.Is6() {
		return masked(addr, 64)
	}
	return addr.String()
}

// Groups returns what an address counts as for limits, from the narrowest to the
// widest: an IPv4 address alone; an IPv6 address as its /64, /56 and /48, as
// providers delegate a /56 or /48 to one customer.
func Groups(addr netip.Addr) []string {
	if !addr.Is6() {
		return []string{addr.String()}
	}
	return []string{Group(addr), masked(addr, 56), masked(addr, 48)}
}

// Neighborhood returns the network in which addresses of one owner are likely to
// be: an IPv4 /24, an IPv6 /48. It is for sharing a resource between owners, not
// for limits, because a /24 has several owners.
func Neighborhood(addr netip.Addr) string {
	if addr.Is6() {
		return masked(addr, 48)
	}
	return masked(addr, 24)
}

// masked returns the network of an address with so many bits, or the address
// itself when it is not valid.
func masked(addr netip.Addr, bits int) string {
	if prefix, _ := addr.Prefix(bits); prefix.IsValid() {
		return prefix.String()
	}
	return addr.String()
}

// Network is a range of addresses, written as CIDR or as one address.
type Network struct{ netip.Prefix }

// UnmarshalText reads "10.0.0.0/8", "10.1.2.3", "fd00::/8" or "::1". An IPv4
// range mapped into IPv6 (::ffff:10.0.0.0/104) becomes the IPv4 range.
func (n *Network) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		addr, err := netip.ParseAddr(s)
		if err != nil || addr.Zone() != "" {
			return errors.New("is neither an address nor a network in CIDR form")
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	if addr := prefix.Addr(); addr.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
	}
	n.Prefix = prefix.Masked()
	return nil
}
