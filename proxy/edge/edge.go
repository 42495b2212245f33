package edge

import (
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/google/uuid"
	"go.uber.org/zap"
)

func init() {
	caddy.RegisterModule(Edge{})
	caddy.RegisterModule(Cookies{})
	caddy.RegisterModule(Guard{})
	caddy.RegisterModule(Path{})
	caddy.RegisterModule(Service{})
	caddy.RegisterModule(new(gates))
	caddy.RegisterModule(Connections{})
	caddy.RegisterModule(Transport{})
	caddy.RegisterModule(Page{})
	caddy.RegisterModule(new(Applications))
	caddy.RegisterModule(Apps{})
	caddy.RegisterModule(new(AppTransport))
	caddy.RegisterModule(Root{})
	caddy.RegisterModule(Compress{})
	caddy.RegisterModule(Permission{})
	caddy.RegisterModule(Handshake{})
	caddy.RegisterModule(OwnIssuer{})
	caddy.RegisterModule(new(AcmeDNS))
	caddy.RegisterModule(new(DNSUpdate))
	caddy.RegisterModule(Log{})
	httpcaddyfile.RegisterGlobalOption("edge_apps", parseApplications)
	httpcaddyfile.RegisterHandlerDirective("edge", parseEdge)
	httpcaddyfile.RegisterHandlerDirective("edge_cookies", parseAlone[Cookies])
	httpcaddyfile.RegisterHandlerDirective("edge_compress", parseAlone[Compress])
	httpcaddyfile.RegisterDirectiveOrder("edge_compress", httpcaddyfile.Before, "encode")
	httpcaddyfile.RegisterHandlerDirective("edge_guard", parseGuard)
	httpcaddyfile.RegisterHandlerDirective("edge_service", parseService)
	httpcaddyfile.RegisterHandlerDirective("edge_page", parseAlone[Page])
	httpcaddyfile.RegisterHandlerDirective("edge_apps", parseApps)
	httpcaddyfile.RegisterHandlerDirective("edge_root", parseAlone[Root])
	// Before everything that may answer or change the path.
	for _, directive := range []string{
		"edge", "edge_cookies", "edge_root", "edge_guard", "edge_service", "edge_page", "edge_apps",
	} {
		httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "redir")
	}
}

var (
	errMethod = errors.New("the method is no token")
	errPath   = errors.New("servers may read this path differently")
	errNoEdge = errors.New("the directive edge must stand before edge_cookies and edge_guard")
)

// Edge is the handler that a request meets first. In one pass it gives the request
// an id, takes out of its headers what no service may get from this client, and
// puts the answer's headers right. The id is the client's X-Request-Id, if that is well
// formed, or a random one. It is passed on, answered, logged as request_id, and the
// placeholder {request_id}. The header AppToken, and an Authorization with an app token,
// reach the service that edge_guard checks with, and nothing else. A path that servers may read differently is an
// error 404, and a method that is no token an error 400: HTTP/2 lets a space in it pass, which
// HTTP/1.1 would read as the end of the method. A client's Connection header ends here,
// and an Upgrade to anything but a WebSocket. So do trailers of a request, because
// servers may take them for headers. In a route for errors it only puts the answer's
// headers right, and gives an id to a request that has none.
type Edge struct {
	// Drop names request headers that nothing behind this handler gets from a client, in
	// any case and with any sign for "-". A "*" at the end stands for any end.
	Drop []string `json:"drop,omitempty"`
	// DropUntrusted names those that only the server's trusted proxies may send, and only spelled with "-".
	DropUntrusted []string `json:"drop_untrusted,omitempty"`
	// Cookies names cookies that only routes with edge_cookies get and may set,
	// and the service that edge_guard checks with. Letters must have the same case, as
	// for browsers. A "*" at the end stands for any end.
	Cookies []string `json:"cookies,omitempty"`
	// Answer has headers that an answer gets unless it has them already, and
	// AnswerTLS more of them for an answer over TLS. Server and Via are dropped. So are
	// Clear-Site-Data, NEL and Report-To, except from answers that may set the cookies.
	Answer    map[string]string `json:"answer,omitempty"`
	AnswerTLS map[string]string `json:"answer_tls,omitempty"`

	drop, dropUntrusted headerSet
	answer, answerTLS   []field
}

// requestIDKey is the placeholder of a request's id.
const requestIDKey = "request_id"

// wellFormedID matches the ids that a client may give its request.
var wellFormedID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// requestID returns the id that the client sent, if it is well formed, or a random one.
func requestID(sent string) string {
	if wellFormedID.MatchString(sent) {
		return sent
	}
	return uuid.NewString()
}

// field is a header that Edge adds to answers, which share its value.
type field struct {
	name  string
	value []string
}

// CaddyModule returns the Caddy module information.
func (Edge) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge", New: func() caddy.Module { return new(Edge) }}
}

// Provision implements caddy.Provisioner.
func (e *Edge) Provision(caddy.Context) error {
	drop := append([]string{AppToken}, e.Drop...)
	e.drop = headerNames(drop)
	e.dropUntrusted = headerNames(slices.Concat(drop, e.DropUntrusted))
	e.answer = fields(e.Answer)
	e.answerTLS = append(fields(e.AnswerTLS), e.answer...)
	return nil
}

func fields(headers map[string]string) (all []field) {
	for name, value := range headers {
		all = append(all, field{http.CanonicalHeaderKey(name), []string{value}})
	}
	return all
}

// parseEdge reads:
//
//	edge {
//		drop           <headers...>
//		drop_untrusted <headers...>
//		cookies        <cookies...>
//		answer         <header> <value>
//		answer_tls     <header> <value>
//	}
func parseEdge(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	e := &Edge{Answer: map[string]string{}, AnswerTLS: map[string]string{}}
	h.Next()
	if h.NextArg() {
		return nil, h.ArgErr()
	}
	for h.NextBlock(0) {
		what, all := h.Val(), h.RemainingArgs()
		switch {
		case what == "drop" && len(all) > 0:
			e.Drop = append(e.Drop, all...)
		case what == "drop_untrusted" && len(all) > 0:
			e.DropUntrusted = append(e.DropUntrusted, all...)
		case what == "cookies" && len(all) > 0:
			e.Cookies = append(e.Cookies, all...)
		case what == "answer" && len(all) == 2:
			e.Answer[all[0]] = all[1]
		case what == "answer_tls" && len(all) == 2:
			e.AnswerTLS[all[0]] = all[1]
		default:
			return nil, h.Errf("edge: wrong name or number of arguments: %s", what)
		}
	}
	return e, nil
}

// parseAlone reads a directive that has neither arguments nor a block.
func parseAlone[H any, P interface {
	*H
	caddyhttp.MiddlewareHandler
}](h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h.Next()
	if h.NextArg() || h.NextBlock(0) {
		return nil, h.ArgErr()
	}
	return P(new(H)), nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (e *Edge) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	x := &exchange{received: r, cookies: e.Cookies, fields: e.answer}
	x.token, x.authorization = r.Header[AppToken], r.Header["Authorization"]
	if r.TLS != nil {
		x.fields = e.answerTLS
	}
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	id, known := repl.GetString(requestIDKey)
	if !known { // in a route for errors it is, unless the error came before
		id = requestID(strings.Join(r.Header["X-Request-Id"], ","))
		repl.Set(requestIDKey, id)
	}
	x.id = []string{id}
	a := &answer{ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, exchange: x}
	if r.Context().Value(caddyhttp.ErrorCtxKey) != nil {
		x.own = true // nothing behind is another service
		return next.ServeHTTP(a, r)
	}
	if extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Add(zap.String("request_id", id))
	}
	leave, err := enterStream(r)
	if err != nil {
		return err
	}
	defer leave()
	e.clean(r)
	if slices.ContainsFunc(x.authorization, hasAppToken) {
		setLines(r.Header, "Authorization", slices.DeleteFunc(slices.Clone(x.authorization), hasAppToken))
	}
	r.Header["X-Request-Id"] = x.id
	if !isToken(r.Method) {
		return caddyhttp.Error(http.StatusBadRequest, errMethod)
	}
	if !unambiguous(r.RequestURI) {
		return caddyhttp.Error(http.StatusNotFound, errPath)
	}
	// net/http writes what follows the body into the request that it made; what is
	// behind this handler sees a copy, which gets none.
	behind := *r
	behind.Trailer = nil
	r = &behind
	x.sent = r.Header["Cookie"]
	setLines(r.Header, "Cookie", withoutCookies(x.sent, x.cookies))
	caddyhttp.SetVar(r.Context(), exchangeVar, x)
	err = next.ServeHTTP(a, r)
	a.begin(http.StatusOK) // for an answer that is nothing but headers
	if fault, ok := errors.AsType[caddyhttp.HandlerError](err); ok &&
		fault.StatusCode == http.StatusServiceUnavailable && !errors.Is(err, errBusy) && !errors.Is(err, errFailed) {
		fault.StatusCode = http.StatusBadGateway // Caddy's 503 for no available replica: as where the only one is away
		return fault
	}
	return err
}

// clean takes the headers to drop out of a request, and Upgrade and Connection unless they are for a WebSocket.
func (e *Edge) clean(r *http.Request) {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	for name := range r.Header {
		drop, read := &e.dropUntrusted, headerName(name)
		if trusted && strings.EqualFold(read, name) { // a proxy sets no other spelling: its client does
			drop = &e.drop
		}
		if drop.has(read) {
			delete(r.Header, name)
		}
	}
	if !slices.ContainsFunc(r.Header["Upgrade"],
		func(kind string) bool { return strings.EqualFold(kind, "websocket") }) {
		delete(r.Header, "Upgrade")
		delete(r.Header, "Connection")
		return
	}
	// One line: Caddy would pass on the first of several, which may request h2c.
	r.Header["Connection"], r.Header["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
}

const exchangeVar = "edge.exchange"

// exchange is what the handlers of one request share.
type exchange struct {
	// id is the request's, fields are headers that the answer gets unless it has them.
	id      []string
	fields  []field
	cookies names
	credentials
	// whole is whether a Service has read the body, or found none, and its next handler runs.
	whole bool
	// own is whether the answer may set the named cookies and keeps Clear-Site-Data, NEL and Report-To: it is
	// one of the service whose cookies they are, of the one that edge_guard checks with, or of the route for errors.
	own bool
	// received has the method and the RequestURI that the client sent. Its headers and
	// its URL are those that handlers change.
	received *http.Request
	// guarded is whether the request has come to a Guard.
	guarded bool
	// private is whether no cache but the browser's may keep the answer.
	private bool
	// renewed are the lines of Set-Cookie that the guard wants to add to an answer
	// that begins by until.
	renewed []string
	until   time.Time
	// begun is called when the answer begins. It may be nil.
	begun func()
}

func exchangeOf(r *http.Request) (*exchange, error) {
	x, ok := caddyhttp.GetVar(r.Context(), exchangeVar).(*exchange)
	if !ok {
		return nil, caddyhttp.Error(http.StatusInternalServerError, errNoEdge)
	}
	return x, nil
}

func setLines(h http.Header, name string, lines []string) {
	if len(lines) == 0 {
		delete(h, name)
		return
	}
	h[name] = lines
}

// answer is a response whose headers are put right when it begins.
type answer struct {
	*caddyhttp.ResponseWriterWrapper
	exchange *exchange
	begun    bool
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.begin(status)
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.begin(http.StatusOK)
	return a.ResponseWriter.Write(p)
}

// ReadFrom implements io.ReaderFrom.
func (a *answer) ReadFrom(r io.Reader) (int64, error) {
	a.begin(http.StatusOK)
	return a.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError is what http.ResponseController calls.
func (a *answer) FlushError() error {
	a.begin(http.StatusOK)
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// begin puts the headers right: those of each informational answer and, once, those of
// the final one.
func (a *answer) begin(status int) {
	if a.begun {
		return
	}
	a.begun = status >= http.StatusOK || status == http.StatusSwitchingProtocols
	h, x := a.Header(), a.exchange
	if x.begun != nil && a.begun {
		x.begun()
	}
	h["X-Request-Id"] = x.id
	for _, f := range x.fields {
		if len(h[f.name]) == 0 {
			h[f.name] = f.value
		}
	}
	delete(h, "Server")
	delete(h, "Via")
	if x.own {
		return
	}
	// Browsers act on these for the whole site or origin, which others share.
	delete(h, "Clear-Site-Data")
	delete(h, "Nel")
	delete(h, "Report-To")
	if x.private && a.begun {
		keepFromSharedCaches(h)
	}
	lines := withoutSetCookies(h["Set-Cookie"], x.cookies)
	if a.begun && len(x.renewed) > 0 && !time.Now().After(x.until) {
		lines = append(append([]string(nil), x.renewed...), lines...)
		keepFromCaches(h)
	}
	if len(lines) == 0 {
		delete(h, "Set-Cookie")
		return
	}
	h["Set-Cookie"] = lines
}

// keepFromCaches replaces the application's headers for caches: an answer with a
// session cookie is for its user alone.
func keepFromCaches(h http.Header) {
	for name := range h {
		if strings.HasSuffix(name, "Cache-Control") || name == "Surrogate-Control" || name == "Expires" ||
			name == "Pragma" {
			delete(h, name)
		}
	}
	h["Cache-Control"] = []string{"private, no-store"}
}

// keepFromSharedCaches changes an answer's headers so that no cache but the browser's may
// keep it (RFC 9111, section 5.2.2).
func keepFromSharedCaches(h http.Header) {
	kept := []string{"private"}
	for _, line := range h["Cache-Control"] {
		for directive := range strings.SplitSeq(line, ",") {
			directive = strings.TrimSpace(directive)
			name, _, _ := strings.Cut(strings.ToLower(directive), "=")
			switch name {
			case "", "public", "s-maxage", "proxy-revalidate", "private":
			default:
				kept = append(kept, directive)
			}
		}
	}
	for name := range h {
		if strings.HasSuffix(name, "-Cache-Control") || name == "Surrogate-Control" {
			delete(h, name)
		}
	}
	h["Cache-Control"] = []string{strings.Join(kept, ", ")}
}

// Cookies is a handler for the routes of the service whose cookies Edge keeps
// from all others. The service gets them and may set them, and its answers keep
// Clear-Site-Data, NEL and Report-To.
type Cookies struct{}

// CaddyModule returns the Caddy module information.
func (Cookies) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge_cookies", New: func() caddy.Module { return new(Cookies) }}
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (*Cookies) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	x, err := exchangeOf(r)
	if err != nil {
		return err
	}
	x.own = true
	setLines(r.Header, "Cookie", x.sent)
	return next.ServeHTTP(w, r)
}

var (
	_ caddyhttp.MiddlewareHandler       = (*Edge)(nil)
	_ caddyhttp.MiddlewareHandler       = (*Cookies)(nil)
	_ caddyhttp.RequestMatcherWithError = (*Path)(nil)
	_ caddy.Provisioner                 = (*Edge)(nil)
	_ caddyfile.Unmarshaler             = (*Path)(nil)
)
