package edge

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"
)

// errBusy is the error of a request for which there was no place.
var errBusy = caddyhttp.Error(http.StatusServiceUnavailable, errors.New("concurrency limit of the service reached"))

var errSlow = caddyhttp.Error(http.StatusRequestTimeout, errors.New("the body took too long"))

// maxPrefetch bounds the body that is read before a request gets its place, so that a client that sends slowly
// takes none from others. prefetchWithin is how long that may take, the same as the read timeout of our
// services. The end of a body of maxPrefetch bytes or more is not waited for, and such requests have
// Max/longShare places.
const (
	maxPrefetch    = 64 << 10
	prefetchWithin = 30 * time.Second
	longShare      = 8
)

// maxBodies is how many bodies are read at once, for all services: each takes memory before its
// request has a place. usualBody bounds the memory that a body gets by its announced length alone.
const (
	maxBodies = 256
	usualBody = 4 << 10
)

// quickShare and strangerShare divide the Max of a service. Quick requests have Max/quickShare
// places. With Known, quick requests of known users have Max/quickShare, and other quick ones
// Max/strangerShare: with more, strangers could take the processor from known users.
const (
	quickShare    = 2
	strangerShare = 8
)

// queueWait is the longest time for which a request waits for a place.
const queueWait = 500 * time.Millisecond

// With Known, most requests of networks that crowd out others (see Service.gate) have a queue of Max/crowdShare
// and Max/manyShare places, each of which stays taken for crowdRest after the answer has begun: else they could
// take the processor from others.
const (
	manyShare = 32
	crowdRest = 25 * time.Millisecond
)

// Service is a handler for the routes to a service of one's own, before their
// reverse_proxy. It bounds how many requests the service has at once: a request
// that it has not begun to answer takes one place of Max. When all are taken,
// as many requests wait, each for at most queueWait. One that finds no place gets a 503. Some requests
// have places of their own, and a queue: quick ones half as many places, and those whose body was not
// read to its end first an eighth. With Known, the half is for quick ones of users that the service has
// named lately; a 32nd is for what else comes from networks that crowd out others, long bodies apart;
// and an eighth is for other quick ones. Places and queues are shared between the networks of
// clients. A later check of Guard takes no place. A request by way of a trusted proxy has the
// client's address alone in X-Forwarded-For.
type Service struct {
	// Name is the service's. All handlers with the same name share the places.
	Name string `json:"name,omitempty"`
	Max  int    `json:"max,omitempty"`
	// Refusal is the JSON of the 503 for a request that finds no place; a person who opens a
	// page gets a page. It saves the way through the route for errors, because in an overload
	// most requests are refused. Where it is empty the refusal is an error.
	Refusal string `json:"refusal,omitempty"`
	// Quick is nil where no requests are quick.
	Quick *Quick `json:"quick,omitempty"`
	// Known are headers of which an answer to a user that the service knows has at least one.
	Known []string `json:"known,omitempty"`

	gates    serviceGates
	refusals *refusals
	bodies   *bodies
	users    *users
	pages    *pages
}

// Quick selects the requests that a service answers without waiting for anything slow.
// Their places are apart from those of others, so that neither kind keeps out the other, and
// are fewer, so that quick requests do not take the whole processor. Where both fields are
// empty, all requests are quick.
type Quick struct {
	// Methods are those of quick requests. Where it is empty, all methods are.
	Methods []string `json:"methods,omitempty"`
	// Without are the names of headers that a quick request does not have, or has empty.
	Without []string `json:"without,omitempty"`
}

// match reports whether a request is quick. has reports whether the request has a header that
// is not empty.
func (q *Quick) match(method string, has func(name string) bool) bool {
	return q != nil && (len(q.Methods) == 0 || slices.Contains(q.Methods, method)) && !slices.ContainsFunc(q.Without,
		has)
}

// CaddyModule returns the Caddy module information.
func (Service) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge_service", New: func() caddy.Module { return new(Service) }}
}

func parseService(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	s := new(Service)
	return s, s.UnmarshalCaddyfile(h.Dispenser)
}

// UnmarshalCaddyfile reads:
//
//	edge_service <name> <max> {
//		refusal <json>
//		quick   all | methods <method>... | without <header>...
//		known   <header of an answer>...
//	}
func (s *Service) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	var most string
	if !d.AllArgs(&s.Name, &most) {
		return d.ArgErr()
	}
	var err error
	if s.Max, err = strconv.Atoi(most); err != nil || s.Max <= 0 {
		return d.Errf("edge_service: not a number above zero: %s", most)
	}
	for d.NextBlock(0) {
		switch {
		case d.Val() == "refusal" && d.AllArgs(&s.Refusal):
		case d.Val() == "quick" && s.quickArgs(d.RemainingArgs()):
		case d.Val() == "known" && d.CountRemainingArgs() > 0:
			for _, name := range d.RemainingArgs() {
				s.Known = append(s.Known, http.CanonicalHeaderKey(name))
			}
		default:
			return d.ArgErr()
		}
	}
	return nil
}

// quickArgs reads the arguments of a line "quick", and reports whether they are valid.
func (s *Service) quickArgs(args []string) bool {
	if len(args) == 0 {
		return false
	}
	if s.Quick == nil {
		s.Quick = new(Quick)
	}
	switch names := args[1:]; args[0] {
	case "all":
		return len(names) == 0
	case "methods":
		s.Quick.Methods = append(s.Quick.Methods, names...)
		return len(names) > 0
	case "without":
		for _, name := range names {
			s.Quick.Without = append(s.Quick.Without, http.CanonicalHeaderKey(name))
		}
		return len(names) > 0
	}
	return false
}

// Provision implements caddy.Provisioner.
func (s *Service) Provision(ctx caddy.Context) error {
	all, err := gatesOf(ctx)
	if err != nil {
		return fmt.Errorf("edge_service: %w", err)
	}
	s.gates = all.of(s)
	s.refusals, s.bodies, s.users = &all.refusals, &all.bodies, &all.users
	if s.pages, err = newPages(ctx); err != nil {
		return fmt.Errorf("edge_service: %w", err)
	}
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	r = fromClient(r)
	if caddyhttp.GetVar(r.Context(), againVar) != nil {
		return next.ServeHTTP(w, r) // the guard bounds these, and refusals for all of its grace would end a stream
	}
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	client, _ := netip.ParseAddr(text) // all without one are one network
	x, noEdge := exchangeOf(r)
	var user userKey
	if len(s.Known) > 0 && noEdge == nil {
		user = s.users.key(x.cookies, x.credentials)
	}
	whole, err := s.prefetch(w, r, client)
	if errors.Is(err, errBusy) && s.Refusal != "" {
		s.gates.unread.add()
		refuseLate(r)
		return s.refuse(w, r)
	} else if err != nil {
		return err
	}
	has := func(name string) bool { return slices.ContainsFunc(r.Header[name], notEmpty) }
	g := s.gate(r.Method, has, user, func() bool { return crowding(r) })
	if !whole {
		g = s.gates.long
	}
	place, err := g.enter(r.Context(), client)
	if errors.Is(err, errBusy) && s.Refusal != "" {
		refuseLate(r)
		err := s.refuse(w, r)
		if whole && noEdge == nil {
			s.refusals.add(s, x, w.Header())
		}
		return err
	} else if err != nil {
		return err
	}
	leave := sync.OnceFunc(func() {
		if g == s.gates.crowd {
			time.AfterFunc(crowdRest, func() { g.leave(place) })
			return
		}
		g.leave(place)
	})
	defer leave()
	if noEdge == nil {
		x.begun, x.whole = leave, whole
		defer func() { x.whole = false }() // for an application behind a guard
	}
	err = next.ServeHTTP(w, r)
	if noEdge == nil && slices.ContainsFunc(s.Known, func(name string) bool { return len(w.Header()[name]) > 0 }) {
		s.users.add(user)
		if lines := w.Header()["Set-Cookie"]; len(lines) > 0 {
			s.users.add(s.users.key(x.cookies, x.after(lines, x.cookies)))
		}
	}
	return err
}

func notEmpty(value string) bool { return value != "" }

// gate returns the gate for a request whose body was read whole, or has none. With Known, requests of networks
// that crowd out others have few places, but for quick ones of known users: with as many as they want,
// requests of others would wait for the processor.
func (s *Service) gate(method string, has func(name string) bool, user userKey, crowding func() bool) *gate {
	quick := s.Quick.match(method, has)
	switch {
	case quick && user != 0 && s.users.has(user):
		return s.gates.known
	case len(s.Known) > 0 && crowding():
		return s.gates.crowd
	case quick:
		return s.gates.quick
	}
	return s.gates.common
}

// retryAfter is the Retry-After of Service.Refusal and of pages about an error that may pass, in seconds.
var retryAfter = []string{"2"}

func (s *Service) refuse(w http.ResponseWriter, r *http.Request) error {
	if isNavigation(r.Method, r.Header) {
		return s.pages.fault(w, r, http.StatusServiceUnavailable, false)
	}
	h := w.Header()
	h["Content-Type"], h["Cache-Control"], h["Retry-After"] = []string{"application/json"}, []string{"no-store"},
		retryAfter
	w.WriteHeader(http.StatusServiceUnavailable)
	_, err := io.WriteString(w, s.Refusal)
	return err
}

// fromClient returns a request for which reverse_proxy writes the client's address alone
// into X-Forwarded-For. It is r itself where r does not come from a trusted proxy.
func fromClient(r *http.Request) *http.Request {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	client, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if !trusted || client == "" {
		return r
	}
	named := *r
	named.RemoteAddr = net.JoinHostPort(client, "0")
	named.Header = maps.Clone(r.Header)
	delete(named.Header, "X-Forwarded-For")
	return &named
}

// prefetch reads a body that is not too long, and reports whether it has been read whole or is empty.
// A body that cannot be read to its end is no error, unless reading it fails with a
// caddyhttp.HandlerError, as errSlow or errBusy.
func (s *Service) prefetch(w http.ResponseWriter, r *http.Request, client netip.Addr) (whole bool, err error) {
	if r.ContentLength == 0 || r.Body == nil || r.ContentLength > maxPrefetch {
		return r.ContentLength == 0 || r.Body == nil, nil
	}
	b := &body{Reader: r.Body, deadline: deadlineOf(w, r)}
	_ = b.deadline.SetReadDeadline(time.Now().Add(prefetchWithin))
	defer func() { _ = b.deadline.SetReadDeadline(time.Time{}) }()
	if !s.bodies.enter(b, client) {
		return false, errBusy
	}
	defer s.bodies.leave(b)
	var buffer bytes.Buffer
	// A client may announce what it does not send.
	buffer.Grow(int(min(max(r.ContentLength, 0), usualBody)) + bytes.MinRead)
	n, err := buffer.ReadFrom(io.LimitReader(b, maxPrefetch))
	if b.lost.Load() {
		return false, errBusy
	}
	r.Body = prefetched{io.MultiReader(&buffer, r.Body), r.Body}
	if _, refused := errors.AsType[caddyhttp.HandlerError](err); refused {
		return false, err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, errSlow
	}
	return err == nil && n < maxPrefetch, nil
}

// deadline sets until when reads of a request's body may last.
type deadline interface{ SetReadDeadline(until time.Time) error }

// deadlineOf returns the deadline of a request's body. It is that of Caddy's timeouts, where the request has
// some: at each read they set the connection's anew, past any that is not set by way of them.
func deadlineOf(w http.ResponseWriter, r *http.Request) deadline {
	if reader, _ := caddyhttp.IdleTimeoutsFromContext(r.Context()); reader != nil {
		return reader
	}
	return http.NewResponseController(w)
}

// body is a request's body that is being read. Reads fail from when its place has gone to another client.
type body struct {
	io.Reader
	deadline deadline
	lost     atomic.Bool
	// network is that of the body's client.
	network *network[*body]
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.lost.Load() {
		return 0, errBusy
	}
	return b.Reader.Read(p)
}

// bodies bounds how many bodies are read at once.
type bodies struct {
	mu      sync.Mutex
	clients shares[*body]
}

// enter reports whether there is a place to read a body. leave must be called if there is.
func (all *bodies) enter(b *body, client netip.Addr) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.clients.all.has >= maxBodies {
		loser, found := all.clients.loser(client, 1)
		if !found {
			return false
		}
		all.remove(loser)
		loser.lost.Store(true)
		_ = loser.deadline.SetReadDeadline(time.Unix(1, 0)) // what knows no deadline ends by itself
	}
	b.network = all.clients.enter(client)
	all.clients.canLose(b.network, b)
	return true
}

func (all *bodies) leave(b *body) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.remove(b)
}

// remove removes a body unless that was done before.
func (all *bodies) remove(b *body) {
	if all.clients.lost(b.network, b) {
		all.clients.add(b.network, -1)
	}
}

type prefetched struct {
	io.Reader
	io.Closer
}

// gates is the Caddy app that has the gates of each service by its name, and the refusals,
// the bodies and the known users of all services.
type gates struct {
	log      *slog.Logger
	counter  *prometheus.CounterVec
	refusals refusals
	bodies   bodies
	users    users
	// compressed has an element for each answer that is compressed now.
	compressed chan struct{}

	mu     sync.Mutex
	byName map[string]serviceGates
}

// serviceGates are the gates of a service: quick for quick requests, known for quick ones of known
// users, long for those whose body was not read whole, crowd for those of networks that crowd out
// others, and common for all others. With Service.Refusal, unread counts the requests that were
// refused because their body had no place to be read.
type serviceGates struct {
	common, quick, known, crowd, long *gate
	unread                            *refusalCounter
}

// CaddyModule returns the Caddy module information.
func (*gates) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "edge_gates", New: func() caddy.Module { return newGates() }}
}

func gatesOf(ctx caddy.Context) (*gates, error) {
	app, err := ctx.App("edge_gates")
	if err != nil {
		return nil, err
	}
	return app.(*gates), nil
}

func newGates() *gates {
	return &gates{
		users:      users{seed: maphash.MakeSeed()},
		compressed: make(chan struct{}, maxCompressed),
		counter: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "edge_refused_requests_total", Help: "Requests that were refused because their service had as many " +
				"as it may have.",
		}, []string{"service", "kind"}),
		byName: map[string]serviceGates{},
	}
}

// Provision implements caddy.Provisioner.
func (g *gates) Provision(ctx caddy.Context) error {
	g.log = ctx.Slogger()
	return ctx.GetMetricsRegistry().Register(g.counter)
}

// Start implements caddy.App.
func (*gates) Start() error { return nil }

// Stop implements caddy.App.
func (*gates) Stop() error { return nil }

func (g *gates) of(s *Service) serviceGates {
	g.mu.Lock()
	defer g.mu.Unlock()
	of, found := g.byName[s.Name]
	if !found {
		count := func(kind string) *refusalCounter {
			return &refusalCounter{
				service: s.Name, kind: kind, log: g.log, total: g.counter.WithLabelValues(s.Name, kind),
			}
		}
		share := quickShare
		if len(s.Known) > 0 {
			share = strangerShare
		}
		of = serviceGates{
			unread: count("body"),
			common: newGate(s.Max, s.Max, queueWait, count("other")),
			quick:  newGate(max(1, s.Max/share), max(1, s.Max/quickShare), queueWait, count("quick")),
			known:  newGate(max(1, s.Max/quickShare), max(1, s.Max/quickShare), queueWait, count("known")),
			crowd:  newGate(max(1, s.Max/manyShare), max(1, s.Max/crowdShare), queueWait, count("crowd")),
			long:   newGate(max(1, s.Max/longShare), s.Max/longShare, queueWait, count("long")),
		}
		g.byName[s.Name] = of
	}
	return of
}

// refusalCounter counts the requests that a service had no place for. Those that are
// answered early have no line in the access log, so a line of its own tells how many were
// refused since the last one, at most one line every refusedLogged.
type refusalCounter struct {
	service, kind string
	log           *slog.Logger
	total         prometheus.Counter

	since  atomic.Int64
	logged atomic.Int64 // Unix time in nanoseconds
}

const refusedLogged = time.Second

func (r *refusalCounter) add() {
	r.total.Inc()
	r.since.Add(1)
	last, now := r.logged.Load(), time.Now().UnixNano()
	if now-last >= int64(refusedLogged) && r.logged.CompareAndSwap(last, now) {
		r.log.Warn("requests were refused: the service has as many as it may have", "service", r.service, "kind",
			r.kind, "requests", r.since.Swap(0))
	}
}

var (
	_ caddyhttp.MiddlewareHandler = (*Service)(nil)
	_ caddy.Provisioner           = (*Service)(nil)
	_ caddyfile.Unmarshaler       = (*Service)(nil)
	_ caddy.App                   = (*gates)(nil)
	_ caddy.Provisioner           = (*gates)(nil)
)
