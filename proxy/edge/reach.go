package edge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

var errReach = errors.New("no application may be at this address")

// Values of the setting APPS, but for off: where applications may be.
const (
	reachLAN        = "lan"
	reachContainers = "containers"
)

// never are the networks that no application may be in: unspecified, link-local, multicast and reserved addresses,
// the metadata services of clouds, and addresses that stand for others, as those of NAT64 and 6to4.
var never = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("224.0.0.0/3"),
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("::/128"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("ff00::/8"), netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("::ffff:0:0:0/96"),
	// Metadata of Google, Scaleway, Oracle and Linode: to all others these are private addresses.
	netip.MustParsePrefix("fd20:ce::254/128"), netip.MustParsePrefix("fd00:42::42/128"),
	netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), netip.MustParsePrefix("fd00:a9fe:a9fe::1/128"),
}

var (
	// sharedSpace is what providers and some private networks use as private (RFC 6598).
	sharedSpace = netip.MustParsePrefix("100.64.0.0/10")
	// compatible are IPv4 addresses in a form that is obsolete; ::1 is in it.
	compatible = netip.MustParsePrefix("::/96")
)

// reachFresh is for how long names of our services and interfaces are not looked up again, unless report or setPorts
// sets something new.
const reachFresh = 15 * time.Second

// lookupWithin is how long looking up the names of our services may take together: half of dial_timeout, in which it is
// done.
const lookupWithin = time.Second

// reach decides where applications may be: for an address when it is taken from the list, and for each address, also
// of a name, at each connection.
type reach struct {
	mode string
	// names, addrPorts and networks are what the operator permits as well.
	names     []string // host:port
	addrPorts []netip.AddrPort
	networks  []netip.Prefix
	// auth and others are the addresses host:port of our services.
	auth, others []string

	lookup   func(ctx context.Context, host string) ([]netip.Addr, error)
	resolver *net.Resolver // of the names of applications; nil: the machine's
	// interfaces returns the machine's addresses with their networks, outward those by which it reaches the internet.
	interfaces func() ([]netip.Prefix, error)
	outward    func(context.Context) []netip.Addr

	mu sync.Mutex
	// ports are the proxy's own.
	ports []uint16
	// reported are the addresses host:port at which auth says that it and its stores are.
	reported []string
	resolved map[string][]netip.Addr // by host
	around   *surroundings
	until    time.Time
}

// surroundings are what is known of the network around the proxy.
type surroundings struct {
	services map[netip.AddrPort]bool
	local    []netip.Addr
	ports    []uint16
	// withAuth are the machine's networks with auth in them, containers the others but loopback and those outward.
	withAuth, containers []netip.Prefix
}

// newReach returns a reach by mode. The operator permits what is in to as well.
func newReach(mode string, to, auth, others []string) (*reach, error) {
	if mode != reachLAN && mode != reachContainers {
		return nil, fmt.Errorf("APPS is neither lan, containers nor off: %s", mode)
	}
	x := &reach{
		mode: mode, auth: auth, others: others, resolved: map[string][]netip.Addr{},
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		interfaces: localPrefixes, outward: outwardAddrs,
	}
	for _, entry := range to {
		if network, err := netip.ParsePrefix(entry); err == nil {
			x.networks = append(x.networks, network)
		} else if addr, err := netip.ParseAddr(entry); err == nil {
			x.networks = append(x.networks, netip.PrefixFrom(addr, addr.BitLen()))
		} else if addr, err := netip.ParseAddrPort(entry); err == nil && addr.Port() > 0 {
			x.addrPorts = append(x.addrPorts, addr)
		} else if t, ok := parseTarget("http://" + strings.ToLower(entry)); ok {
			x.names = append(x.names, t.dial)
		} else {
			return nil, fmt.Errorf("APPS_TO has no address, address:port, name:port or network: %s", entry)
		}
	}
	return x, nil
}

// report sets the addresses at which auth says that it and its stores are.
func (x *reach) report(addrs []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !slices.Equal(x.reported, addrs) {
		x.reported, x.until = addrs, time.Time{}
	}
}

func (x *reach) setPorts(ports []uint16) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ports, x.until = ports, time.Time{}
}

// entry returns an error that wraps errReach unless an application may be at an address of the list. Of a name it
// compares only whether it is one of a service; what is behind the name is checked at each connection.
func (x *reach) entry(ctx context.Context, t target) error {
	if t.addr.IsValid() {
		return x.check(ctx, t.addr, false)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, service := range slices.Concat(x.auth, x.others, x.reported) {
		if strings.EqualFold(service, t.dial) {
			return fmt.Errorf("%s: %w", t.dial, errReach)
		}
	}
	return nil
}

// check returns an error that wraps errReach unless an application may be at an address. named is whether the operator
// named the name that it was looked up by.
func (x *reach) check(ctx context.Context, a netip.AddrPort, named bool) error {
	a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	addr := a.Addr()
	in := func(p netip.Prefix) bool { return p.Contains(addr) }
	no := fmt.Errorf("%s: %w", a, errReach)
	if addr.Zone() != "" || slices.ContainsFunc(never, in) || in(compatible) && !addr.IsLoopback() {
		return no
	}
	around, err := x.surroundings(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", no, err)
	}
	switch here := addr.IsLoopback() || slices.Contains(around.local, addr); {
	case around.services[a] || here && slices.Contains(around.ports, a.Port()):
		return no
	case named || slices.Contains(x.addrPorts, a):
		return nil
	case addr.IsLoopback() || slices.ContainsFunc(around.withAuth, in):
		return no
	case slices.ContainsFunc(x.networks, in):
		return nil
	case x.mode == reachContainers && slices.ContainsFunc(around.containers, in):
		return nil
	case x.mode == reachLAN && (addr.IsPrivate() || sharedSpace.Contains(addr)):
		return nil
	}
	return no
}

// surroundings returns what is known of the network, read again after reachFresh. A name that is not found keeps the
// addresses that it had.
func (x *reach) surroundings(ctx context.Context) (*surroundings, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if time.Now().Before(x.until) {
		return x.around, nil
	}
	ctx = context.WithoutCancel(ctx)
	lookups, cancel := context.WithTimeout(ctx, lookupWithin)
	defer cancel()
	around := &surroundings{services: map[netip.AddrPort]bool{}, ports: x.ports}
	prefixes, err := x.interfaces()
	if err != nil {
		return nil, err
	}
	for _, p := range prefixes {
		around.local = append(around.local, p.Addr())
	}
	var auth []netip.Addr
	for i, service := range slices.Concat(x.auth, x.others, x.reported) {
		for _, a := range x.resolve(lookups, service) {
			around.services[a] = true
			if i < len(x.auth) {
				auth = append(auth, a.Addr())
			}
		}
	}
	outward := x.outward(ctx)
	for _, p := range prefixes {
		withAuth := slices.ContainsFunc(auth, func(a netip.Addr) bool {
			return p.Contains(a) && !slices.Contains(around.local, a) // of this machine only auth's port is refused
		})
		switch {
		case withAuth:
			around.withAuth = append(around.withAuth, p.Masked())
		case !p.Addr().IsLoopback() && !slices.ContainsFunc(outward, p.Contains):
			around.containers = append(around.containers, p.Masked())
		}
	}
	x.around, x.until = around, time.Now().Add(reachFresh)
	return around, nil
}

// resolve returns the addresses of host:port, none where it is not one or its host was never found.
func (x *reach) resolve(ctx context.Context, service string) (all []netip.AddrPort) {
	if a, err := netip.ParseAddrPort(service); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(a.Addr().Unmap(), a.Port())}
	}
	host, text, err := net.SplitHostPort(service)
	if err != nil {
		return nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil
	}
	if addrs, err := x.lookup(ctx, host); err == nil {
		x.resolved[host] = addrs
	}
	for _, a := range x.resolved[host] {
		all = append(all, netip.AddrPortFrom(a.Unmap(), uint16(port)))
	}
	return all
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns what makes connections to applications. Each address is checked, after a name has been looked up.
func (x *reach) dialer(timeout time.Duration) dialFunc {
	dial := func(named bool) dialFunc {
		return (&net.Dialer{
			Timeout: timeout, Resolver: x.resolver,
			ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
				a, err := netip.ParseAddrPort(address)
				if err != nil {
					return errReach
				}
				return x.check(ctx, a, named)
			},
		}).DialContext
	}
	byName, other := dial(true), dial(false)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if slices.Contains(x.names, address) {
			return byName(ctx, network, address)
		}
		return other(ctx, network, address)
	}
}

func localPrefixes() (all []netip.Prefix, err error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			all = append(all, netip.PrefixFrom(p.Addr().Unmap(), p.Bits()))
		}
	}
	return all, nil
}

// outwardAddrs returns the machine's addresses in the networks of its default routes. Nothing is sent: connecting over
// UDP only chooses a route, and the destinations are addresses for documentation.
func outwardAddrs(ctx context.Context) (all []netip.Addr) {
	for _, to := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		conn, err := new(net.Dialer).DialContext(ctx, "udp", to)
		if err != nil {
			continue // there is no such route
		}
		if a, ok := conn.LocalAddr().(*net.UDPAddr); ok {
			all = append(all, a.AddrPort().Addr().Unmap())
		}
		_ = conn.Close()
	}
	return all
}
