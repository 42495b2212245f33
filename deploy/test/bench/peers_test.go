package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/internal/client"
)

// peers measures Pforte's proxy beside bare Caddy, and its services beside their
// peers.
func (s *suite) peers() {
	w := s.open(s.bin)
	w.startAll()
	w.startPeers()
	var proxy, services []row
	for _, compared := range []struct {
		kind           kind
		peer           string
		viaProxy, gain goal
	}{
		{me, "express", atLeast(.9), atLeast(7)},
		{unpaid, "x402", atLeast(.9), atLeast(20)},
		{paid, "x402", goal{}, atLeast(6)},
	} {
		p, direct := w.compareKind(compared.kind, compared.peer, compared.viaProxy, compared.gain)
		proxy, services = append(proxy, p...), append(services, direct...)
	}
	services = append(services, w.besideScs()...)
	services = append(services, w.besideNothing()...)
	services = append(services, w.onePaidCall(), w.officialClient())
	s.line("\n## The proxy\n\nBeside it the same program with nothing but `reverse_proxy`, before the same service. Processor time is that of the proxy alone.")
	s.table("bare Caddy", proxy...)
	s.line("\n## The services\n\n`GET /me` beside Express with connect-redis and beside Go's session library scs, both in the same Redis, whose users are in memory;\n" +
		"calls beside the official @x402/express, with a facilitator that accepts every payment at once.")
	s.table("peer", services...)
}

// loginsBesidePeers measures logins, and what they do to others.
func (s *suite) loginsBesidePeers() {
	w := s.open(s.bin)
	w.startAll()
	w.startPeers()
	rows := w.logins()
	storm, storms := w.storm()
	s.line("\n## Logins\n\nbcrypt of cost 12 at all servers.")
	s.table("peer", append(rows, storm)...)
	s.line("\np99 of `GET /me`, sent %d times a second, while nothing else happens and while %d clients do nothing but log in.", pace, loggingIn)
	s.cells(storms...)
}

// compareKind puts one kind of load on a service and on its peer, directly and
// behind bare Caddy, and on the service behind the proxy.
func (w *world) compareKind(k kind, peer string, viaProxy, gain goal) (proxy, services []row) {
	service, addr := k.service(), w.Addresses.Auth
	if service == "verifier" {
		addr = w.Addresses.Verifier
	}
	var cells []cell
	for _, server := range []struct{ addr, program string }{
		{addr, service},
		{w.others[peer], peer},
		{w.Addresses.Proxy, "proxy"},
		{w.others["caddy-"+service], "caddy-" + service},
		{w.others["caddy-"+peer], "caddy-" + peer},
	} {
		c := w.cell(k, server.addr, w.pids(server.program)...)
		c.name = string(k) + ", " + server.program
		cells = append(cells, c)
	}
	r := w.compare(cells...)
	ours, theirs, behindProxy, behindBare, theirsBehindBare := r[0], r[1], r[2], r[3], r[4]
	return behindProxy.beside(string(k), behindBare, viaProxy, viaProxy),
		append(ours.beside(string(k)+", direct", theirs, gain, goal{}),
			faster(string(k)+", both behind bare Caddy", behindBare.rate, theirsBehindBare.rate, goal{}))
}

// besideScs measures GET /me beside scs, and with one session for all clients.
func (w *world) besideScs() []row {
	ours := w.cell(me, w.Addresses.Auth, w.pids("auth")...)
	shared := ours
	shared.name, shared.requests = string(me)+" of one session", ours.requests[:1]
	r := w.compare(ours, w.cell(me, w.others["scs"], w.pids("scs")...), shared)
	return append(r[0].beside(string(me)+", direct, beside scs", r[1], atLeast(.9), goal{}),
		faster(string(me)+", one session for all, beside one each", r[2].rate, r[0].rate, goal{}))
}

// besideNothing measures unpaid calls beside a server of net/http that does nothing but
// answer the same bytes: no program on net/http answers more of them.
func (w *world) besideNothing() []row {
	ours := w.cell(unpaid, w.Addresses.Verifier, w.pids("verifier")...)
	same := client.Post(w.Context(), "http://"+ours.addr+w.path, w.order)
	w.must(same.Err)
	nothing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), same.Header)
		w.WriteHeader(same.Status)
		_, _ = w.Write(same.Body)
	}))
	defer nothing.Close()
	r := w.compare(ours, w.cell(unpaid, nothing.Listener.Addr().String(), os.Getpid()))
	return r[0].beside(string(unpaid)+", beside net/http that answers the same", r[1], goal{}, goal{})
}

// onePaidCall measures what a paid call of one client takes besides the two
// answers of the facilitator.
func (w *world) onePaidCall() row {
	one, peer := w.cell(paid, w.Addresses.Verifier), w.cell(paid, w.others["x402"])
	one.clients, peer.clients = 1, 1
	alone := cell{name: "the facilitator", addr: w.Facilitator, clients: 1, status: http.StatusOK, requests: [][]byte{request(http.MethodPost, "/verify", w.order, nil)}}
	r := w.compare(one, peer, alone)
	added := func(call, answer float64) float64 { return call - 2*answer }
	ours, theirs := r[0].p50.pair(r[2].p50, added), r[1].p50.pair(r[2].p50, added)
	return row{what: "one paid call, without the facilitator's two answers", unit: "ms", ours: ours, beside: theirs, ratio: theirs.over(ours), goal: atMost(1), own: true}
}

// officialClient measures a purchase as @x402/fetch makes it: the call, its 402,
// the signature and the call again.
func (w *world) officialClient() row {
	took := make([]samples, 2)
	script := filepath.Join(w.top, "deploy/test/bench/peers/buy.mjs")
	for range w.rounds {
		for i, addr := range []string{w.Addresses.Verifier, w.others["x402"]} {
			out := w.run(stack.Program{Path: "node", Env: []string{"BUYER_KEY=" + layout.PayerKey}}, script, "http://"+addr+verifyPath, w.order, "100")
			var ms samples
			w.must(json.Unmarshal(out, &ms))
			took[i] = append(took[i], ms.median())
		}
	}
	return sooner("a purchase by the official client", "ms", took[0], took[1], goal{})
}

// logins measures logins beside what the machine could do if a login were nothing
// but bcrypt, and beside the peers.
func (w *world) logins() []row {
	const long = 8 * time.Second // wrk leaves out the logins under way at the end
	hash, err := bcrypt.GenerateFromPassword([]byte("a password"), 12)
	w.must(err)
	cells := []cell{
		w.cell(login, w.Addresses.Auth, w.pids("auth")...),
		w.cell(login, w.others["express"], w.pids("express")...),
		w.cell(login, w.others["scs"], w.pids("scs")...),
	}
	r := make([]rounds, len(cells))
	var ideal samples
	for range w.rounds {
		ideal = append(ideal, bcryptRate(hash, long/2))
		for i, c := range cells {
			w.turn(c, long, &r[i])
		}
	}
	return slices.Concat(
		[]row{faster(fmt.Sprintf("%s, beside %d cores ÷ one bcrypt of cost 12", login, runtime.NumCPU()), r[0].rate, ideal, atLeast(.95))},
		r[0].beside(string(login)+", beside Express", r[1], goal{}, goal{}),
		r[0].beside(string(login)+", beside scs", r[2], goal{}, goal{}))
}

// bcryptRate returns how many comparisons all cores do in a second: a machine may
// not run all of them as fast as one alone.
func bcryptRate(hash []byte, duration time.Duration) (rate float64) {
	var all sync.WaitGroup
	rates := make(chan float64, runtime.NumCPU())
	for range runtime.NumCPU() {
		all.Go(func() {
			began, n := time.Now(), 0
			for ; time.Since(began) < duration; n++ {
				_ = bcrypt.CompareHashAndPassword(hash, []byte("a password"))
			}
			rates <- float64(n) / time.Since(began).Seconds()
		})
	}
	all.Wait()
	close(rates)
	for one := range rates {
		rate += one
	}
	return rate
}

// pace is how many GET /me a second the clients of a storm send.
const pace = 200

// storm measures GET /me at a steady rate, alone and while others do nothing but log
// in, and returns what it found of auth and of all servers.
func (w *world) storm() (ours row, all [][]string) {
	all = [][]string{{"server", "idle, ms", "in the storm, ms", "ratio"}}
	for _, server := range []struct{ name, addr string }{{"scs", w.others["scs"]}, {"Express", w.others["express"]}, {"auth", w.Addresses.Auth}} {
		c, logins := w.cell(me, server.addr), w.cell(login, server.addr)
		paced := func() float64 {
			return p99(openLoop(w.Context(), c.addr, c.requests, steadily(pace, 0, 2*time.Second)))
		}
		var idle, during samples
		for range w.rounds {
			idle = append(idle, paced())
			over := make(chan error, 1)
			go func() {
				_, err := w.wrk(logins, logins.requests, 4*time.Second)
				over <- err
			}()
			time.Sleep(time.Second) // until all of them compute
			during = append(during, paced())
			w.must(<-over)
		}
		ours = row{what: fmt.Sprintf("%s in a storm of logins, p99, beside no logins", me), unit: "ms", ours: during, beside: idle, ratio: during.over(idle), goal: atMost(3)}
		all = append(all, []string{server.name, idle.String(), during.String(), ours.ratio.String()})
	}
	return ours, all // auth is the last one
}
