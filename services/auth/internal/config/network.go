package config

import (
	"errors"
	"net/netip"
	"strings"
)

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

// Prefixes gives the plain ranges.
func Prefixes(networks []Network) []netip.Prefix {
	prefixes := make([]netip.Prefix, 0, len(networks))
	for _, n := range networks {
		prefixes = append(prefixes, n.Prefix)
	}
	return prefixes
}
