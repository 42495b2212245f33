package edge

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

var (
	greedy = netip.MustParseAddr("203.0.113.1")
	other  = netip.MustParseAddr("198.51.100.1")
)

func TestGate_GivesThePlaceThatGetsFreeToTheNetworkWithFewest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(4, 4, time.Minute, counted())
		var places []*network[*waiter]
		for range 4 { // while nobody else is there
			place, err := g.enter(t.Context(), greedy)
			if err != nil {
				t.Fatal(err)
			}
			places = append(places, place)
		}
		var refused atomic.Int64
		for range 4 {
			go func() {
				if place, err := g.enter(t.Context(), greedy); err != nil {
					refused.Add(1)
				} else {
					defer g.leave(place)
					time.Sleep(time.Hour)
				}
			}()
		}
		synctest.Wait()
		if _, err := g.enter(t.Context(), greedy); !errors.Is(err, errBusy) || !g.full(greedy) || g.full(other) {
			t.Errorf("one more: %v; full for it %v, for others %v", err, g.full(greedy), g.full(other))
		}
		served := make(chan error)
		go func() {
			place, err := g.enter(t.Context(), other)
			if err == nil {
				g.leave(place)
			}
			served <- err
		}()
		synctest.Wait()
		if refused.Load() != 1 {
			t.Errorf("%d of those that waited have lost their place", refused.Load())
		}
		g.leave(places[0])
		if err := <-served; err != nil {
			t.Errorf("another network: %v", err)
		}
		for _, place := range places[1:] {
			g.leave(place)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if taken, waiting := g.now(); taken+waiting+g.clients.all.has != 0 || len(g.clients.byPrefix) != 0 {
			t.Errorf("%d places are taken in the end, %d wait", taken, waiting)
		}
	})
}

func TestGate_CountsRequestsThatComeAtOnceFromManyNetworks(t *testing.T) {
	t.Parallel()
	g := newGate(8, 8, 5*time.Millisecond, counted())
	var current, most, served atomic.Int64
	var all sync.WaitGroup
	for i := range 100 {
		client := netip.AddrFrom4([4]byte{10, 0, byte(i % 7), byte(i % 11)})
		all.Go(func() {
			for range 50 {
				place, err := g.enter(t.Context(), client)
				if err != nil {
					continue
				}
				now := current.Add(1)
				for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
				}
				served.Add(1)
				time.Sleep(10 * time.Microsecond)
				current.Add(-1)
				g.leave(place)
			}
		})
	}
	all.Wait()
	if most.Load() > 8 || served.Load() == 0 || g.taken+g.waiting+g.clients.all.has+g.clients.all.losing != 0 || len(g.clients.byPrefix) != 0 {
		t.Errorf("%d at once, %d served; in the end %+v", most.Load(), served.Load(), &g.clients)
	}
}

// Bodies take memory before their requests have a place. Who comes with one more loses it to no
// other network.
func TestBodies_AreSharedBetweenNetworks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serviceOf(newGate(1, 0, time.Second, counted()))
		send := func(client netip.Addr, body io.Reader) error {
			w := &deadlined{ResponseRecorder: httptest.NewRecorder(), body: body}
			r := prepared(httptest.NewRequest("POST", "/", body))
			caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, client.String())
			return s.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil }))
		}
		var lost atomic.Int64
		for range maxBodies {
			go func() {
				if err := send(greedy, new(stalled)); errors.Is(err, errBusy) {
					lost.Add(1)
				}
			}()
		}
		synctest.Wait()
		if err := send(greedy, strings.NewReader("{}")); !errors.Is(err, errBusy) {
			t.Errorf("one more of the same network: %v", err)
		}
		if err := send(other, strings.NewReader("{}")); err != nil {
			t.Errorf("another network: %v", err)
		}
		synctest.Wait()
		if lost.Load() != 1 {
			t.Errorf("%d of the first have lost their place", lost.Load())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if has := s.bodies.clients.all.has; has != 0 {
			t.Errorf("%d are read in the end", has)
		}
	})
}

// stalled is a body that does not come, until it has a deadline.
type stalled struct {
	once sync.Once
	end  chan struct{}
}

func (b *stalled) ended() chan struct{} {
	b.once.Do(func() { b.end = make(chan struct{}) })
	return b.end
}

func (b *stalled) Read([]byte) (int, error) {
	select {
	case <-b.ended():
		return 0, io.ErrUnexpectedEOF
	case <-time.After(time.Minute):
		return 0, errSlow
	}
}

type deadlined struct {
	*httptest.ResponseRecorder
	body io.Reader
}

func (d *deadlined) SetReadDeadline(until time.Time) error {
	if !until.IsZero() && until.Before(time.Now()) {
		close(d.body.(*stalled).ended())
	}
	return nil
}

func TestUsers_AreKnownForAMinuteByWhatTheyLoggedInWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &newGates().users
		named := names{"svc.*", "csrf-token"}
		of := func(lines ...string) userKey { return u.key(named, credentials{sent: lines}) }
		if of("theme=dark; csrf=x") != 0 || of() != 0 || u.key(named, credentials{authorization: []string{"Basic eDp5"}}) != 0 {
			t.Error("who sends nothing of ours is somebody")
		}
		anna := of("a=1; svc.sid=anna; b=2")
		if anna == 0 || anna != of("svc.sid=anna", "c=3") || anna == of("svc.sid=paul") || anna == of("svc.sid=anna; svc.sid=paul") {
			t.Error("users are not told by our cookies alone")
		}
		for _, c := range []credentials{{token: []string{"pft_a"}}, {authorization: []string{"Bearer pft_a"}}, {authorization: []string{"Basic YW5uYTpwZnRfYQ=="}}} {
			if key := u.key(named, c); key == 0 || u.has(key) {
				t.Errorf("%+v is %d", c, key)
			}
		}
		if u.has(anna) {
			t.Error("a user is known before the service has said so")
		}
		u.add(anna)
		time.Sleep(knownFor - time.Second)
		if !u.has(anna) {
			t.Error("a user is not known for as long as promised")
		}
		time.Sleep(knownFor + 2*time.Second)
		if u.has(anna) {
			t.Error("a user is known for ever")
		}
		u.add(anna)
		time.Sleep(knownFor)
		u.add(of("svc.sid=paul"))
		if !u.has(anna) {
			t.Error("a user is forgotten when another one becomes known")
		}
		time.Sleep(knownFor)
		if u.has(anna) {
			t.Error("a user is known until the next one becomes known")
		}
		for i := range 3 * maxKnownUsers {
			u.add(of("svc.sid=" + strconv.Itoa(i)))
		}
		if len(u.now)+len(u.before) > 2*maxKnownUsers {
			t.Errorf("%d users are known", len(u.now)+len(u.before))
		}
	})
}
