package ratelimit

import "net/netip"

// AddressKey is the key of a client address: an IPv4 address whole, also when
// it is mapped into IPv6; of an IPv6 address the /64 network, which is what one
// customer has. What is no address shares one key with everything that is none,
// so that inventing garbage gains nothing.
func AddressKey(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return "unknown"
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return "unknown"
	}
	return network.String()
}
