package payment

import (
	"hash/maphash"
	"math"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// attempts counts attempts that cost us or the facilitator something and are
// not paid, in fixed windows: those of payers, or those of client addresses. It
// lives in the memory of one process: each replica allows the whole number.
//
// Its memory is bounded. Where no more can be counted one by one, those who are
// new are counted by the group they are in, and where no more groups can be
// counted, by a wider group. So an attacker who fills the counts takes attempts
// only from newcomers of the same groups.
type attempts struct {
	now func() time.Time
	// groups names a client or payer, then the groups around it, the narrower ones first.
	groups func(who string) []string
	seed   maphash.Seed

	mu    sync.Mutex
	index int64
	// counts are of the names that groups returns, by their place in it. Those in
	// the last place are hashed into buckets. A count of zero is not kept.
	counts [3]map[string]int
}

// attemptWindow is how long attempts are counted together.
const attemptWindow = time.Minute

// How many are counted at a time: clients or payers, the networks around them, and
// what is wider than that.
const (
	maxCounted  = 100_000
	maxNetworks = 10_000
	maxBuckets  = 1024
)

// widerBy is how many times the limit of a group is that of what is in it.
const widerBy = 16

func newAttempts(now func() time.Time, groups func(who string) []string) *attempts {
	a := &attempts{now: now, groups: groups, seed: maphash.MakeSeed()}
	for i := range a.counts {
		a.counts[i] = map[string]int{}
	}
	return a
}

// networksAround names an address, or the IPv6 /64 that package clientaddr takes
// for one, the network that its owner may have all of, and that of its provider:
// IPv6 /48 and /32, IPv4 /16 and /8.
func networksAround(who string) []string {
	prefix, err := netip.ParsePrefix(who)
	if err != nil {
		addr, err := netip.ParseAddr(who)
		if err != nil {
			return []string{who, who, who}
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	around := func(bits int) string {
		return netip.PrefixFrom(prefix.Addr(), min(bits, prefix.Bits())).Masked().String()
	}
	if prefix.Addr().Is6() {
		return []string{who, around(48), around(32)}
	}
	return []string{who, around(16), around(8)}
}

// onePayer names a payer, who is in no group: an account is anybody's to make.
func onePayer(who string) []string { return []string{who, who} }

// spend takes one attempt of who, of limit in a window, in one step. The refund
// that it returns gives it back; it does nothing once the window is over.
func (a *attempts) spend(who string, limit int) (refund func(), err error) {
	groups := a.groups(who)
	a.mu.Lock()
	defer a.mu.Unlock()
	index := a.roll()
	counts, name, limit := a.place(groups, limit)
	if counts[name] >= limit {
		next := time.Unix(0, (index+1)*int64(attemptWindow))
		return nil, &TooManyError{After: next.Sub(a.now())}
	}
	counts[name]++
	return func() { a.give(counts, name, index) }, nil
}

// place returns where an attempt is counted, and the limit there.
func (a *attempts) place(groups []string, limit int) (counts map[string]int, name string, most int) {
	last := len(groups) - 1
	rooms := [...]int{maxCounted, maxNetworks}
	for i, name := range groups[:last] {
		if _, known := a.counts[i][name]; known || len(a.counts[i]) < rooms[i] {
			return a.counts[i], name, limit
		}
		limit = min(limit, math.MaxInt/widerBy) * widerBy
	}
	return a.counts[last], a.bucket(groups[last]), limit
}

// bucket names the one of maxBuckets buckets that a group is in.
func (a *attempts) bucket(group string) string {
	return strconv.FormatUint(maphash.String(a.seed, group)%maxBuckets, 10)
}

func (a *attempts) give(counts map[string]int, name string, index int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.roll() != index {
		return
	}
	if counts[name]--; counts[name] <= 0 {
		delete(counts, name)
	}
}

// roll begins a new window when it is time, and returns the current one's number.
func (a *attempts) roll() int64 {
	index := a.now().UnixNano() / int64(attemptWindow)
	if index != a.index {
		a.index = index
		for _, counts := range a.counts {
			clear(counts)
		}
	}
	return index
}
