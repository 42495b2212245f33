package edge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/timeouts"
	"github.com/prometheus/client_golang/prometheus"
)

// prepared is a request as Caddy passes it to handlers.
func prepared(r *http.Request) *http.Request {
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, &caddyhttp.Server{})
}

// counted returns a counter of refusals that no test reads.
func counted() *refusalCounter {
	return &refusalCounter{log: slog.New(slog.DiscardHandler), total: prometheus.NewCounter(prometheus.CounterOpts{Name: "refused"})}
}

// serviceOf returns a service with places for common requests alone.
func serviceOf(common *gate) *Service {
	return &Service{gates: serviceGates{common: common, unread: counted()}, bodies: new(bodies), users: new(users)}
}

// now returns how many places are taken, and how many requests wait.
func (g *gate) now() (taken, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.taken, g.waiting
}

// oneService returns a service with one place, for which no request waits.
func oneService() *Service { return serviceOf(newGate(1, 0, 0, counted())) }

func TestService_HasABoundedNumberOfRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serviceOf(newGate(10, 20, time.Second, counted()))
		var current, most, served, refused atomic.Int64
		next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
			most.Store(max(most.Load(), current.Add(1)))
			defer current.Add(-1)
			time.Sleep(400 * time.Millisecond)
			served.Add(1)
			return nil
		})
		started := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				err := s.ServeHTTP(httptest.NewRecorder(), prepared(httptest.NewRequest("GET", "/", nil)), next)
				if errors.Is(err, errBusy) {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if most.Load() != 10 || served.Load() != 30 || refused.Load() != 70 {
			t.Errorf("%d at once, %d served, %d refused", most.Load(), served.Load(), refused.Load())
		}
		if took := time.Since(started); took != 1200*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		if taken, waiting := s.gates.common.now(); taken+waiting+len(s.gates.common.clients.byPrefix) != 0 {
			t.Errorf("%d places are taken, %d wait", taken, waiting)
		}
	})
}

func TestService_ARequestThatWaitsTooLongIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 2, 500*time.Millisecond, counted())
		started := time.Now()
		if _, err := g.enter(t.Context(), netip.Addr{}); err != nil {
			t.Fatal(err)
		}
		if _, err := g.enter(t.Context(), netip.Addr{}); !errors.Is(err, errBusy) || time.Since(started) != g.wait {
			t.Errorf("got %v after %s", err, time.Since(started))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.enter(ctx, netip.Addr{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v of a client that is gone", err)
		}
	})
}

// A client that sends its body or reads its answer slowly must not take places
// from others.
func TestService_ASlowClientTakesNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serviceOf(newGate(1, 1, time.Second, counted()))
		body := &slowBody{rest: "{}"}
		taken := func() int {
			taken, _ := s.gates.common.now()
			return taken
		}
		r := prepared(httptest.NewRequest("POST", "/", body))
		x := &exchange{}
		caddyhttp.SetVar(r.Context(), exchangeVar, x)
		err := s.ServeHTTP(httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
			if taken() != 1 || body.rest != "" {
				t.Errorf("the service has it with %q to read and %d places taken", body.rest, taken())
			}
			a := &answer{ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: httptest.NewRecorder()}, exchange: x}
			a.WriteHeader(http.StatusEarlyHints)
			if taken() != 1 {
				t.Error("a hint is taken for the answer")
			}
			a.WriteHeader(http.StatusOK)
			if taken() != 0 {
				t.Error("an answer that has begun has a place")
			}
			return nil
		}))
		if err != nil || taken() != 0 {
			t.Errorf("got %v, %d places are taken", err, taken())
		}
		body.check = func() {
			if taken() != 0 {
				t.Error("a body that is still read has a place")
			}
		}
		body.rest = strings.Repeat("x", 100)
		_ = s.ServeHTTP(httptest.NewRecorder(), prepared(httptest.NewRequest("POST", "/", body)), caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil }))
	})
}

// One that never comes to the end of its body would hold memory and a connection. Caddy allows a minute for each read.
func TestService_ABodyHasALimitedTime(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string]struct{ first, every time.Duration }{
		"silent":          {time.Hour, time.Hour},
		"late byte":       {prefetchWithin - 100*time.Millisecond, time.Hour},
		"a byte a second": {time.Second, time.Second},
	} {
		for _, version := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, HTTP/%d", name, version), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { testSlowBody(t, version, bytes.first, bytes.every) })
			})
		}
	}
}

func testSlowBody(t *testing.T, version int, first, every time.Duration) {
	s := serviceOf(newGate(1, 1, time.Second, counted()))
	s.gates.long = s.gates.common
	service := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return s.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
			t.Error("the service has it")
			return nil
		}))
	})
	client := clientOf(t, version, func(w http.ResponseWriter, r *http.Request) {
		err := timeouts.Timeouts{ReadTimeout: time.Minute}.ServeHTTP(w, prepared(r), service)
		fault, _ := errors.AsType[caddyhttp.HandlerError](err)
		w.WriteHeader(cmp.Or(fault.StatusCode, http.StatusOK))
	})
	body, send := io.Pipe()
	defer func() { _ = send.Close() }()
	go func() {
		for wait := first; ; wait = every {
			select {
			case <-time.After(wait):
			case <-t.Context().Done():
				return
			}
			_, _ = send.Write([]byte("x"))
		}
	}()
	began := time.Now()
	res, err := client.Post("http://pforte.test/", "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if took := time.Since(began); res.StatusCode != http.StatusRequestTimeout || took != prefetchWithin {
		t.Errorf("%d after %s", res.StatusCode, took)
	}
	if has := s.bodies.clients.all.has; has != 0 {
		t.Errorf("%d are still read", has)
	}
}

// clientOf returns a client of a server that serves handler by one version of HTTP on connections in memory.
func clientOf(t *testing.T, version int, handler http.HandlerFunc) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(version == 1)
	protocols.SetUnencryptedHTTP2(version == 2)
	listener := &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: handler, Protocols: protocols}
	go func() { _ = server.Serve(listener) }()
	dial := func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		listener.conns <- theirs
		return ours, nil
	}
	transport := &http.Transport{Protocols: protocols, DialContext: dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
	})
	return &http.Client{Transport: transport}
}

// memoryListener has the connections that it is sent.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	close(l.closed)
	return nil
}

func (*memoryListener) Addr() net.Addr { return new(net.TCPAddr) }

// The guard sends the same request again when it checks again.
func TestService_ATrustedProxysRequestStaysAsItIs(t *testing.T) {
	t.Parallel()
	s := oneService()
	r := prepared(httptest.NewRequest("GET", "/", nil))
	r.Header.Set("X-Forwarded-For", "203.0.113.7")
	caddyhttp.SetVar(r.Context(), caddyhttp.TrustedProxyVarKey, true)
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "203.0.113.7")
	err := s.ServeHTTP(httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) error {
		if q.RemoteAddr != "203.0.113.7:0" || q.Header.Get("X-Forwarded-For") != "" {
			t.Errorf("the service gets it from %s, %s", q.RemoteAddr, q.Header.Get("X-Forwarded-For"))
		}
		return nil
	}))
	if err != nil || r.Header.Get("X-Forwarded-For") != "203.0.113.7" {
		t.Errorf("afterwards: %v, %s", err, r.Header)
	}
}

// slowBody has a byte a second.
type slowBody struct {
	rest  string
	check func()
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.check != nil {
		b.check()
	}
	time.Sleep(time.Second)
	return strings.NewReader(b.take()).Read(p)
}

func (b *slowBody) take() string {
	first := b.rest[:min(1, len(b.rest))]
	b.rest = b.rest[len(first):]
	return first
}

func TestService_HandlersOfOneNameShareTheirPlaces(t *testing.T) {
	t.Parallel()
	all := newGates()
	one, same, other := all.of(&Service{Name: "auth", Max: 8}), all.of(&Service{Name: "auth", Max: 8}), all.of(&Service{Name: "verifier", Max: 8})
	if one != same || one.common == other.common || one.quick == other.quick || one.long == other.long {
		t.Error("the gates are not one for each name")
	}
}

func TestService_QuickOnesAreChosenByMethodAndHeaders(t *testing.T) {
	t.Parallel()
	paid := func(name string) bool { return name == "X-Payment" }
	unpaid := func(string) bool { return false }
	for _, test := range []struct {
		quick  *Quick
		method string
		has    func(string) bool
		want   bool
	}{
		{nil, "GET", unpaid, false},
		{&Quick{Methods: []string{"GET", "HEAD"}}, "HEAD", paid, true},
		{&Quick{Methods: []string{"GET", "HEAD"}}, "POST", unpaid, false},
		{&Quick{Without: []string{"Payment-Signature", "X-Payment"}}, "POST", unpaid, true},
		{&Quick{Without: []string{"Payment-Signature", "X-Payment"}}, "POST", paid, false},
		{&Quick{Methods: []string{"GET"}, Without: []string{"X-Payment"}}, "GET", paid, false},
		{&Quick{}, "POST", paid, true},
	} {
		if got := test.quick.match(test.method, test.has); got != test.want {
			t.Errorf("%+v, %s, with a payment %v: %v", test.quick, test.method, test.has("X-Payment"), got)
		}
	}
}

func TestService_EachKindHasPlacesOfItsOwn(t *testing.T) {
	t.Parallel()
	one := func() *gate { return newGate(1, 0, 0, counted()) }
	of := serviceGates{common: one(), quick: one(), known: one(), crowd: one(), long: one()}
	s := serviceOf(of.common)
	s.gates, s.Quick, s.Known = of, &Quick{Methods: []string{"GET"}}, []string{"X-User"}
	const known, stranger userKey = 1, 2
	s.users.add(known)
	for _, test := range []struct {
		method string
		user   userKey
		crowds bool
		want   *gate
	}{
		{"GET", known, false, of.known},
		{"GET", known, true, of.known},
		{"POST", known, false, of.common},
		{"POST", known, true, of.crowd},
		{"GET", stranger, false, of.quick},
		{"GET", 0, false, of.quick},
		{"GET", stranger, true, of.crowd},
		{"POST", stranger, false, of.common},
	} {
		crowds := func() bool { return test.crowds }
		if got := s.gate(test.method, func(string) bool { return false }, test.user, crowds); got != test.want {
			t.Errorf("%s of user %d, whose network crowds out others: %t: other places", test.method, test.user, test.crowds)
		}
	}
	long := prepared(httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", maxPrefetch+1))))
	err := s.ServeHTTP(httptest.NewRecorder(), long, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		longer, _ := of.long.now()
		others, _ := of.common.now()
		if longer != 1 || others != 0 {
			t.Errorf("a long body has %d places of its own and %d of others", longer, others)
		}
		return nil
	}))
	if err != nil {
		t.Error(err)
	}
}

// services returns the edge_service handlers of a configuration.
func services(t *testing.T, configuration any) (all []*Service) {
	switch v := configuration.(type) {
	case []any:
		for _, one := range v {
			all = append(all, services(t, one)...)
		}
	case map[string]any:
		if v["handler"] == "edge_service" {
			text, _ := json.Marshal(v)
			s := new(Service)
			if err := json.Unmarshal(text, s); err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		for _, one := range v {
			all = append(all, services(t, one)...)
		}
	}
	return all
}

func TestReadme_HasThePlacesOfAuthAndTheVerifier(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../testdata/caddy.json")
	if err != nil {
		t.Fatal(err)
	}
	var configuration any
	if err := json.Unmarshal(text, &configuration); err != nil {
		t.Fatal(err)
	}
	all, counted, places := newGates(), map[*gate]bool{}, map[string]int{}
	for _, s := range services(t, configuration) {
		own := all.of(s)
		used := []*gate{own.long}
		if s.Quick == nil || len(s.Quick.Methods)+len(s.Quick.Without) > 0 {
			used = append(used, own.common)
		}
		if s.Quick != nil {
			used = append(used, own.quick)
		}
		if len(s.Known) > 0 {
			used = append(used, own.known, own.crowd)
		}
		for _, g := range used {
			if !counted[g] {
				name, _, _ := strings.Cut(s.Name, "_")
				counted[g], places[name] = true, places[name]+g.places
			}
		}
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("auth has %d and the verifier %d", places["auth"], places["verifier"])
	if !strings.Contains(string(readme), want) {
		t.Errorf("the README does not say that %s", want)
	}
}

func TestService_DirectiveIsChecked(t *testing.T) {
	t.Parallel()
	var s Service
	if err := s.UnmarshalCaddyfile(caddyfile.NewTestDispenser("edge_service auth 5")); err != nil || s.Name != "auth" || s.Max != 5 {
		t.Errorf("got %+v, %v", s, err)
	}
	if err := s.UnmarshalCaddyfile(caddyfile.NewTestDispenser("edge_service auth 5 {\nrefusal `{\"code\":503}`\n}")); err != nil || s.Refusal != `{"code":503}` {
		t.Errorf("%v: %q", err, s.Refusal)
	}
	if err := s.UnmarshalCaddyfile(caddyfile.NewTestDispenser("edge_service auth 5 {\nquick methods GET HEAD\nquick without x-payment\n}")); err != nil || !reflect.DeepEqual(s.Quick, &Quick{Methods: []string{"GET", "HEAD"}, Without: []string{"X-Payment"}}) {
		t.Errorf("%v: %+v", err, s.Quick)
	}
	for _, text := range []string{"edge_service auth 5 {\nanswer x\n}", "edge_service auth 5 {\nquick\n}", "edge_service auth 5 {\nquick methods\n}", "edge_service auth 5 {\nquick with x\n}", "edge_service auth 5 {\nquick all x\n}", "edge_service auth 5 {\nquick without\n}", "edge_service auth 5 {\nrefusal\n}", "edge_service", "edge_service auth", "edge_service auth none", "edge_service auth 0", "edge_service auth 1 1"} {
		if err := new(Service).UnmarshalCaddyfile(caddyfile.NewTestDispenser(text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}
