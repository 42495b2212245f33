package application

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Route is where the proxy finds an application. The zero value is none: then only lines of the operator's in the
// proxy's configuration lead to it.
type Route struct {
	// Upstream is http://host:port or https://host:port, as ParseUpstream returns it.
	Upstream string
	// Strip removes the application's path from the paths of requests; it has no effect at a host of its own.
	Strip bool
	// UserHeader is one more request header that names the user; empty: none.
	UserHeader string
	// Pin is the SHA-256, hexadecimal, of the public key that Upstream must have; empty for http, and until a proxy
	// has seen the key.
	Pin string
	// Recipe is the slug of the recipe that filled the form; empty: none.
	Recipe string
}

// UserHeaders are the names that UserHeader may have.
var UserHeaders = []string{
	"Remote-User", "X-Authenticated-User", "X-Authentik-Username", "X-Forwarded-Preferred-Username", "X-Forwarded-User",
	"X-Remote-User", "X-User", "X-User-Name", "X-Username", "X-Webauth-User",
}

// Errors of a route's fields.
var (
	ErrUpstream = errors.New("internal address is not http://host:port or https://host:port without a path")
	// ErrUpstreamBlocked is returned for an address that no application may have, and for one that only an operator can
	// permit and has not.
	ErrUpstreamBlocked = errors.New("internal address is blocked")
	ErrUserHeader      = errors.New("header is none of those that name a user")
	ErrPin             = errors.New("pin is not 64 hexadecimal digits")

	ErrNoRoute = errors.New("application has no route")
)

// The forms of a route's fields. A host name is of the form upstreamName, and its last label is not
// numeric: resolvers and browsers would read the name as an address.
var (
	upstreamName = regexp.MustCompile(`\A[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\z`)
	numeric      = regexp.MustCompile(`\A(?:[0-9]+|0x[0-9a-f]*)\z`)
	pinPattern   = regexp.MustCompile(`\A[0-9a-f]{64}\z`)
	recipeName   = regexp.MustCompile(`\A[a-z0-9-]{0,32}\z`)
)

// ParseUpstream returns an internal address in its one spelling: in lower case, with its port, without a slash at the
// end. Without a scheme it is http. ErrUpstream, and ErrUpstreamBlocked for an address that NeverUpstream reports.
func ParseUpstream(s string) (string, error) {
	s = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), "/")
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	scheme, authority, _ := strings.Cut(s, "://")
	u, err := url.Parse(s)
	if err != nil || scheme != "http" && scheme != "https" || u.Host != authority || u.Scheme != scheme ||
		len(s) > MaxDescription {
		return "", ErrUpstream
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port || strings.HasSuffix(authority, ":") {
		return "", ErrUpstream
	}
	host, err := upstreamHost(u.Hostname(), strings.HasPrefix(authority, "["))
	if err != nil {
		return "", err
	}
	return scheme + "://" + host + ":" + port, nil
}

// upstreamHost returns the one spelling of a host name or address; bracketed reports whether it was in brackets, as
// IPv6 addresses are. ErrUpstream, ErrUpstreamBlocked.
func upstreamHost(host string, bracketed bool) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is6() == bracketed {
		if addr.Zone() != "" {
			return "", ErrUpstream
		}
		if NeverUpstream(addr) {
			return "", ErrUpstreamBlocked
		}
		if bracketed {
			return "[" + addr.String() + "]", nil
		}
		return addr.String(), nil
	}
	// A name with a number at its end is an IPv4 address to browsers and to libc, in forms such as 127.1.
	last := host[strings.LastIndexByte(host, '.')+1:]
	if bracketed || !upstreamName.MatchString(host) || numeric.MatchString(last) {
		return "", ErrUpstream
	}
	return host, nil
}

// never are the networks that no application may be in: unspecified, link-local, multicast and reserved addresses, the
// metadata services of clouds, and addresses that stand for others, as those of NAT64 and 6to4.
var never = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("224.0.0.0/3"),
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("ff00::/8"),
	netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("::ffff:0:0:0/96"),
	// Metadata of Google, Scaleway, Oracle and Linode: to all others these are private addresses.
	netip.MustParsePrefix("fd20:ce::254/128"), netip.MustParsePrefix("fd00:42::42/128"),
	netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), netip.MustParsePrefix("fd00:a9fe:a9fe::1/128"),
}

// NeverUpstream reports whether an address is never that of an application, whatever an operator permits.
func NeverUpstream(addr netip.Addr) bool {
	if addr.Is4In6() || addr.IsUnspecified() {
		return true
	}
	// IPv4-compatible addresses, but for ::1.
	if addr.Is6() && !addr.IsLoopback() && netip.MustParsePrefix("::/96").Contains(addr) {
		return true
	}
	return slices.ContainsFunc(never, func(p netip.Prefix) bool { return p.Contains(addr) })
}

var shared = netip.MustParsePrefix("100.64.0.0/10")

// NeedsNaming reports whether the host of an upstream is localhost or a name below it, or an address that is neither
// private nor shared: the operator has to name it. The addresses of other names are known at each connection only.
func NeedsNaming(upstream string) bool {
	host := hostOf(upstream)
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host == "localhost" || strings.HasSuffix(host, ".localhost")
	}
	return !addr.IsPrivate() && !shared.Contains(addr)
}

// IsNamed reports whether an entry of the operator's names an upstream: name:port or address:port, or, of an upstream
// that is not loopback, its address or a network.
func IsNamed(upstream, entry string) bool {
	_, authority, _ := strings.Cut(upstream, "://")
	entry = strings.ToLower(entry)
	if entry == authority {
		return true
	}
	addr, err := netip.ParseAddr(hostOf(upstream))
	if err != nil || addr.IsLoopback() {
		return false
	}
	if network, err := netip.ParsePrefix(entry); err == nil {
		return network.Contains(addr)
	}
	named, err := netip.ParseAddr(entry)
	return err == nil && named == addr
}

// hostOf returns the host of an upstream without brackets; "" where it cannot be parsed.
func hostOf(upstream string) string {
	u, err := url.Parse(upstream)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// Check returns the route in its one spelling, without a pin where it is not https, and without a recipe whose name is
// malformed. ErrUpstream, ErrUpstreamBlocked, ErrUserHeader, ErrPin.
func (r Route) Check() (Route, error) {
	var err error
	if r.Upstream, err = ParseUpstream(r.Upstream); err != nil {
		return Route{}, err
	}
	if r.UserHeader != "" {
		i := slices.IndexFunc(UserHeaders, func(name string) bool { return strings.EqualFold(name, r.UserHeader) })
		if i < 0 {
			return Route{}, ErrUserHeader
		}
		r.UserHeader = UserHeaders[i]
	}
	r.Pin = strings.ToLower(r.Pin)
	if r.Pin != "" && !pinPattern.MatchString(r.Pin) {
		return Route{}, ErrPin
	}
	if !r.IsHTTPS() {
		r.Pin = ""
	}
	if !recipeName.MatchString(r.Recipe) {
		r.Recipe = ""
	}
	return r, nil
}

// IsHTTPS reports whether the application is reached by https.
func (r Route) IsHTTPS() bool { return strings.HasPrefix(r.Upstream, "https://") }
