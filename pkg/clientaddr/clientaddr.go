package clientaddr

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the addresses of the proxies whose X-Forwarded-For is believed.
// Without any, the peer is the client.
type Proxies []Network

// Of gives the address of the client, as IPv4 where it is IPv4 mapped into IPv6,
// and the zero Addr when not even the peer has one. X-Forwarded-For is believed
// only as far as trusted proxies wrote it: from the right, up to the first
// address that is not one of theirs. Everything left of that, and every other
// header, is the client's own word.
func (p Proxies) Of(r *http.Request) netip.Addr {
	client := parse(r.RemoteAddr)
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !p.trust(client) {
			return client
		}
		addr := parse(strings.TrimSpace(hop))
		if !addr.IsValid() {
			return client // what the proxy says is no address: the proxy is all we know
		}
		client = addr
	}
	return client
}

// Sent tells whether the request comes straight from one of the proxies, so that
// what they say of it holds.
func (p Proxies) Sent(r *http.Request) bool { return p.trust(parse(r.RemoteAddr)) }

func (p Proxies) trust(addr netip.Addr) bool {
	return slices.ContainsFunc(p, func(n Network) bool { return n.Contains(addr) })
}

// parse reads "1.2.3.4", "1.2.3.4:5", "::1", "[::1]" or "[::1]:5".
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

// Group names whoever is behind an address for the purpose of limits: the
// address itself, and for IPv6 its /64, because one household has all of it.
func Group(addr netip.Addr) string {
	if addr.Is6() {
		if prefix, err := addr.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return addr.String()
}

// Groups names an address and the networks that it may have been delegated with,
// from the narrowest to the widest, for the purpose of limits: an IPv4 address is
// alone; a line has all of an IPv6 /64 and usually a /56 or /48, which its owner
// divides as they like.
func Groups(addr netip.Addr) []string {
	if !addr.Is6() {
		return []string{addr.String()}
	}
	return []string{Group(addr), masked(addr, 56), masked(addr, 48)}
}

// Neighborhood names the network that addresses of one owner are likely to be
// in: an IPv4 /24, an IPv6 /48. It is for sharing what is scarce between owners,
// not for limits: in a /24 others live too.
func Neighborhood(addr netip.Addr) string {
	if addr.Is6() {
		return masked(addr, 48)
	}
	return masked(addr, 24)
}

// masked is the network of so many bits around an address, or the address itself
// when it has none.
func masked(addr netip.Addr, bits int) string {
	prefix, err := addr.Prefix(bits)
	if err != nil || !addr.IsValid() {
		return addr.String()
	}
	return prefix.String()
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
