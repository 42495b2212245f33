package edge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Defaults of Guard.
const (
	defaultRecheck = 5 * time.Second
	defaultGrace   = time.Minute
)

// renewWithin is how long after the guard's decision an answer may begin and still
// carry the cookies that came with it. A later one could overwrite the cookie of
// another login in the same browser; they come again with the next request.
const renewWithin = 10 * time.Second

// maxAnswer is the longest body that the guarding service may send, in bytes.
const maxAnswer = 1 << 20

// NoRenewal is the header of a check of a request that already passed: the
// answer must not make a session live longer. Its value is "no".
const NoRenewal = "X-Auth-Renew"

// Consumed is the header of an answer in which the service names request headers that
// were for it alone, as an Authorization with a token of its own.
const Consumed = "X-Auth-Consumed"

// AppToken is the request header with a token for the guarding service. Nothing else gets it.
const AppToken = "X-Pforte-Token" //nolint:gosec // a name

// appTokenBegin is how an app token begins, the token of AppToken. A client may send it in an Authorization too.
const appTokenBegin = "pft_"

// againVar is the Caddy variable that marks a check of a request that already passed, so that edge_service lets the
// check through uncounted.
const againVar = "edge.again"

var (
	errNameless = errors.New("guard: the answer names no user")
	errNoAnswer = errors.New("guard: the answer is incomplete")
	errFailed   = errors.New("guard: the service cannot answer")
	errRefused  = errors.New("guard: refused")
	errChanged  = errors.New("guard: the user or their role changed")
	errSilent   = errors.New("guard: no answer within the grace period")
)

// Guard is a handler that passes a request on when a service allows it: with a
// status of 2xx and every header of Identity, which the next handlers get in place
// of the client's. A 2xx that does not have each of them once is an error 502. Any other answer goes to
// the client, but in place of JSON a person who opened a page may get the proxy's page. A request
// that takes longer than Recheck is checked again, and ended when it may not pass any more.
type Guard struct {
	// Ask holds the routes to the guarding service, as a rule a reverse_proxy. They get
	// the request with all its cookies and without its body.
	Ask caddyhttp.RouteList `json:"ask,omitempty"`
	// Identity names the headers of the service's answer that name the user.
	Identity []string `json:"identity,omitempty"`
	// Also names further headers that the next handlers get, each with the value of a
	// header of Identity.
	Also map[string]string `json:"also,omitempty"`
	// Private is whether no cache but the browser's may keep answers of the next handlers, which may not
	// know that an answer is for one user alone.
	Private bool `json:"private,omitempty"`
	// Recheck is how often a request that lasts is checked again, once for all requests
	// to the same host with the same credentials. 5 seconds where it is zero.
	Recheck caddy.Duration `json:"recheck,omitempty"`
	// Grace is for how long a request that lasts goes on while the service neither
	// allows nor refuses it. A minute where it is zero.
	Grace caddy.Duration `json:"grace,omitempty"`

	check   caddyhttp.Handler
	watches *watches
}

// CaddyModule returns the Caddy module information.
func (Guard) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge_guard", New: func() caddy.Module { return new(Guard) }}
}

// Provision implements caddy.Provisioner.
func (g *Guard) Provision(ctx caddy.Context) error {
	if len(g.Ask) == 0 || len(g.Identity) == 0 {
		return errors.New("edge_guard: ask or identity is missing")
	}
	if g.Recheck < 0 || g.Grace < 0 {
		return errors.New("edge_guard: recheck and grace cannot be negative")
	}
	if g.Recheck == 0 {
		g.Recheck = caddy.Duration(defaultRecheck)
	}
	if g.Grace == 0 {
		g.Grace = caddy.Duration(defaultGrace)
	}
	if err := g.Ask.Provision(ctx); err != nil {
		return fmt.Errorf("edge_guard: %w", err)
	}
	for i, name := range g.Identity {
		g.Identity[i] = http.CanonicalHeaderKey(name)
	}
	for name, from := range g.Also {
		if !slices.Contains(g.Identity, http.CanonicalHeaderKey(from)) {
			return fmt.Errorf("edge_guard: %s is to have the value of %s, which is not in identity", name, from)
		}
	}
	g.check = g.Ask.Compile(caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil }))
	g.watches = &watches{
		recheck: time.Duration(g.Recheck), grace: time.Duration(g.Grace), log: ctx.Slogger(),
		check: func(q *http.Request) verdict {
			ctx, cancel := context.WithTimeout(ctx, answerWithin)
			defer cancel()
			return g.judge(again(ctx, q))
		},
		byKey:    map[watchKey]*watch{},
		checking: make(chan struct{}, maxChecking),
	}
	return nil
}

func parseGuard(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	g := new(Guard)
	for h.Next() {
		if h.NextArg() {
			return nil, h.ArgErr()
		}
		for h.NextBlock(0) {
			if err := g.parse(h); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

// parse reads one line of:
//
//	edge_guard {
//		identity <headers...>
//		also     <header> <header of identity>
//		private
//		recheck  <duration>
//		grace    <duration>
//		ask {
//			<directives...>
//		}
//	}
func (g *Guard) parse(h httpcaddyfile.Helper) error {
	switch what := h.Val(); what {
	case "ask":
		routes, err := httpcaddyfile.ParseSegmentAsSubroute(h.WithDispenser(h.NewFromNextSegment()))
		if err != nil {
			return err
		}
		subroute, ok := routes.(*caddyhttp.Subroute)
		if !ok {
			return h.Err("edge_guard: ask has no routes")
		}
		g.Ask = subroute.Routes
	case "identity":
		g.Identity = append(g.Identity, h.RemainingArgs()...)
	case "also":
		var name, from string
		if !h.Args(&name, &from) {
			return h.ArgErr()
		}
		if g.Also == nil {
			g.Also = map[string]string{}
		}
		g.Also[name] = from
	case "private":
		g.Private = true
	case "recheck", "grace":
		if !h.NextArg() {
			return h.ArgErr()
		}
		d, err := caddy.ParseDuration(h.Val())
		if err != nil || d <= 0 {
			return h.Errf("edge_guard: %s is no duration above zero: %s", what, h.Val())
		}
		if what == "recheck" {
			g.Recheck = caddy.Duration(d)
		} else {
			g.Grace = caddy.Duration(d)
		}
	default:
		return h.Errf("edge_guard has no %s", what)
	}
	if h.NextArg() {
		return h.ArgErr()
	}
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	x, err := exchangeOf(r)
	if err != nil {
		return err
	}
	q := checkRequest(r, x)
	x.guarded = true
	v := g.judge(q)
	switch {
	case v.err != nil:
		x.own = true
		return v.err
	case !v.passed():
		x.own = true
		return v.send(w, x)
	}
	for _, name := range v.answer.header[Consumed] {
		r.Header.Del(name)
	}
	for i, name := range g.Identity {
		r.Header[name] = []string{v.identity[i]}
	}
	for name, from := range g.Also {
		r.Header.Set(name, r.Header.Get(from))
	}
	x.private = g.Private
	x.renewed, x.until = v.answer.header["Set-Cookie"], time.Now().Add(renewWithin)

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s := g.watches.begin(q, v.identity, cancel, http.NewResponseController(w))
	defer g.watches.end(s)
	p := &passed{ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, wasCut: func() bool {
		return g.watches.wasCut(s)
	}}
	err = next.ServeHTTP(p, r.WithContext(ctx))
	g.watches.end(s)
	switch no := s.no; {
	case no == nil || err == nil && !p.silent:
		return err
	case no.err != nil:
		x.own = true
		return no.err
	default: // nothing was sent yet
		x.own = true
		return no.send(w, x)
	}
}

// statusCanceled is how reverse_proxy answers when its request's context ends.
const statusCanceled = 499

// passed is the response to a request that passed. When Guard ends the request before it is
// answered, passed does not write statusCanceled: Guard answers in its place.
type passed struct {
	*caddyhttp.ResponseWriterWrapper
	wasCut func() bool
	silent bool // statusCanceled was not written
}

// WriteHeader implements http.ResponseWriter.
func (p *passed) WriteHeader(status int) {
	if status == statusCanceled && p.wasCut() {
		p.silent = true
		return
	}
	p.ResponseWriter.WriteHeader(status)
}

// checkRequest returns the request to the guarding service about a request.
func checkRequest(r *http.Request, x *exchange) *http.Request {
	q := r.Clone(r.Context())
	q.Body, q.ContentLength, q.TransferEncoding, q.Trailer = http.NoBody, 0, nil, nil
	setLines(q.Header, "Cookie", x.sent)
	setLines(q.Header, AppToken, x.token)
	setLines(q.Header, "Authorization", x.authorization)
	return q
}

// aboutThePage are headers that say what a client does with the answer.
var aboutThePage = headerNames([]string{
	"Upgrade", "Connection", "Origin", ":protocol", "Accept", "Sec-Fetch-*", "Sec-WebSocket-*",
})

// again returns the next check of a request that passed with the check q and still lasts. It does
// not have the headers of aboutThePage, because the service would lead a person who opens a page to
// the login, and refuse a WebSocket without an Origin. It ends with ctx, not with the request.
func again(ctx context.Context, q *http.Request) *http.Request {
	server, _ := q.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	r := q.Clone(ctx)
	r.Method = http.MethodGet
	for name := range r.Header {
		if aboutThePage.has(headerName(name)) {
			delete(r.Header, name)
		}
	}
	r.Header[NoRenewal] = []string{"no"}
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), newRecorded(), server)
	caddyhttp.SetVar(r.Context(), againVar, true) //nolint:contextcheck // that of the new request
	return r
}

// verdict is the service's decision about a request.
type verdict struct {
	// err is set in place of the answer: there is no decision, or the user changed.
	err      error
	answer   *recorded
	identity []string
}

func (v verdict) passed() bool { return v.err == nil && v.answer.status/100 == 2 }

// refused reports whether the service refused, by a 401 or 403.
func (v verdict) refused() bool {
	return v.err == nil && (v.answer.status == http.StatusUnauthorized || v.answer.status == http.StatusForbidden)
}

// send answers a request for which v is an answer that does not let it pass. A person who opened a page gets an error
// in place of JSON, for which Page has a page, unless the service refused a request with an app token or an
// Authorization. All others get the service's answer.
func (v verdict) send(w http.ResponseWriter, x *exchange) error {
	why := errFailed
	if v.refused() {
		why = errRefused
	}
	byToken := v.refused() && len(x.token)+len(x.authorization) > 0
	if one(v.answer.header["Content-Type"]) != "application/json" || byToken ||
		!isNavigation(x.received.Method, x.received.Header) {
		return v.answer.send(w)
	}
	setLines(w.Header(), "Retry-After", v.answer.header["Retry-After"])
	return caddyhttp.Error(v.answer.status, why)
}

// judge sends a check to the service and returns its verdict.
func (g *Guard) judge(q *http.Request) verdict {
	a := newRecorded()
	if err := a.record(g.check, q); err != nil {
		return verdict{err: err}
	}
	v := verdict{answer: a}
	if !v.passed() {
		return v
	}
	for _, name := range g.Identity {
		values := a.header[name]
		if len(values) != 1 || values[0] == "" {
			return verdict{err: caddyhttp.Error(http.StatusBadGateway, errNameless)}
		}
		v.identity = append(v.identity, values[0])
	}
	return v
}

// recorded is an answer that was kept in memory.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newRecorded() *recorded { return &recorded{header: http.Header{}} }

// record lets h answer a request and keeps the answer in a. The error is that of h, or wraps errNoAnswer where
// there was no answer or h aborted it.
func (a *recorded) record(h caddyhttp.Handler, r *http.Request) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler: // the service closed the connection
			err = caddyhttp.Error(http.StatusBadGateway, errNoAnswer)
		default:
			panic(p)
		}
	}()
	if err := h.ServeHTTP(a, r); err != nil {
		return err
	}
	if a.status == 0 {
		return caddyhttp.Error(http.StatusBadGateway, errNoAnswer)
	}
	return nil
}

// Header implements http.ResponseWriter.
func (a *recorded) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *recorded) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *recorded) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.body.Len()+len(p) > maxAnswer {
		return 0, errNoAnswer
	}
	return a.body.Write(p)
}

// FlushError is what http.ResponseController calls.
func (a *recorded) FlushError() error { return nil }

func (a *recorded) send(w http.ResponseWriter) error {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, err := w.Write(a.body.Bytes())
	if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		return fmt.Errorf("answer for the guard: %w", err)
	}
	return nil
}

var (
	_ caddyhttp.MiddlewareHandler = (*Guard)(nil)
	_ caddy.Provisioner           = (*Guard)(nil)
)
