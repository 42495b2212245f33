package edge

import (
	"net"
	"net/netip"
	"slices"
)

// shares counts the units that clients have of something scarce, as connections, by their
// network at each width: of IPv4 by /24 and address, of IPv6 by /48, /56 and /64, since one
// customer has all of a /48 as easily as one address. A T is what a client can lose to another.
type shares[T comparable] struct {
	all      network[T]
	byPrefix map[netip.Prefix]*network[T]
}

// network counts the units that the clients of one network have.
type network[T comparable] struct {
	prefix netip.Prefix
	in     *network[T]   // the network of the next wider width
	within []*network[T] // those of the next narrower width
	// has is how many units the network's clients have. losing is how many entries lose has, here and in
	// all narrower networks within this one.
	has, losing int
	// lose is what clients of a network of the narrowest width can lose, the newest at the end.
	lose []T
}

// widths4 and widths6 are the prefix lengths of networks, from the widest network.
var widths4, widths6 = []int{24, 32}, []int{48, 56, 64}

// prefixes returns the n networks of an address, from the widest. All unknown addresses are in one
// network.
func prefixes(addr netip.Addr) (all [3]netip.Prefix, n int) {
	addr = addr.Unmap()
	widths := widths4
	switch {
	case !addr.IsValid():
		return all, 1
	case addr.Is6():
		widths = widths6
	}
	for i, bits := range widths {
		all[i], _ = addr.Prefix(bits) // without the zone
	}
	return all, len(widths)
}

// addrOf returns the address of a peer, and the zero Addr where it is no address of TCP.
func addrOf(peer net.Addr) netip.Addr {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// enter returns the narrowest network of an address, which has one unit more from now on.
func (s *shares[T]) enter(addr netip.Addr) *network[T] {
	if s.byPrefix == nil {
		s.byPrefix = map[netip.Prefix]*network[T]{}
	}
	n := &s.all
	all, levels := prefixes(addr)
	for _, prefix := range all[:levels] {
		narrower := s.byPrefix[prefix]
		if narrower == nil {
			narrower = &network[T]{prefix: prefix, in: n}
			s.byPrefix[prefix] = narrower
			n.within = append(n.within, narrower)
		}
		n = narrower
	}
	s.add(n, 1)
	return n
}

// add adds much, which may be negative, to the units of a network and of those around it, and
// forgets those that have nothing left.
func (s *shares[T]) add(n *network[T], much int) {
	for ; n != nil; n = n.in {
		n.has += much
		if n.has == 0 && n.in != nil {
			delete(s.byPrefix, n.prefix)
			i := slices.Index(n.in.within, n)
			n.in.within = slices.Delete(n.in.within, i, i+1)
		}
	}
}

// canLose notes something new that a client of a narrowest network can lose.
func (s *shares[T]) canLose(n *network[T], what T) {
	n.lose = append(n.lose, what)
	for ; n != nil; n = n.in {
		n.losing++
	}
}

// lost forgets what a client of a narrowest network could lose, and reports whether it was there.
func (s *shares[T]) lost(n *network[T], what T) bool {
	i := slices.Index(n.lose, what)
	if i < 0 {
		return false
	}
	n.lose = slices.Delete(n.lose, i, i+1)
	for ; n != nil; n = n.in {
		n.losing--
	}
	return true
}

// loser returns what is lost to a newcomer that wants much units, and reports whether there is
// something: the newest of the network that has most. At each width, from the widest, the
// newcomer's own network is the one that loses if it would have as much as any other that can lose
// something. If that is so at the narrowest width too, the newcomer itself loses, and found is false.
func (s *shares[T]) loser(addr netip.Addr, much int) (what T, found bool) {
	n := &s.all
	all, levels := prefixes(addr)
	for _, prefix := range all[:levels] {
		most := n.most()
		if most == nil {
			return what, false
		}
		own := s.byPrefix[prefix]
		would := much
		if own != nil {
			would += own.has
		}
		if would < most.has {
			for len(most.within) > 0 {
				most = most.most()
			}
			return most.lose[len(most.lose)-1], true
		}
		if own == nil {
			return what, false
		}
		n = own
	}
	return what, false
}

// most returns the network within n that has most, of those that can lose something, and nil
// where none can. Of several it is the last: the newest, or the one that next chose last.
func (n *network[T]) most() (most *network[T]) {
	for _, other := range n.within {
		if other.losing > 0 && (most == nil || other.has >= most.has) {
			most = other
		}
	}
	return most
}

// next returns the oldest of what can be lost in the network that has the fewest units beside what
// can be lost, chosen at each width from the widest. Of networks with equally few it is the one
// that was not chosen for longest. There must be something that can be lost.
func (s *shares[T]) next() (what T) {
	n := &s.all
	for len(n.within) > 0 {
		least := -1
		for i, other := range n.within {
			if other.losing > 0 && (least < 0 || other.has-other.losing < n.within[least].has-n.within[least].losing) {
				least = i
			}
		}
		chosen := n.within[least]
		n.within = append(slices.Delete(n.within, least, least+1), chosen)
		n = chosen
	}
	return n.lose[0]
}
