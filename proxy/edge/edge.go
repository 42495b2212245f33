package edge

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	caddy.RegisterModule(Edge{})
	caddy.RegisterModule(Cookies{})
	caddy.RegisterModule(Guard{})
	caddy.RegisterModule(Path{})
	httpcaddyfile.RegisterHandlerDirective("edge", parseEdge)
	httpcaddyfile.RegisterHandlerDirective("edge_cookies", parseCookies)
	httpcaddyfile.RegisterHandlerDirective("edge_guard", parseGuard)
	// Before everything that may answer or change the path.
	httpcaddyfile.RegisterDirectiveOrder("edge", httpcaddyfile.Before, "redir")
	httpcaddyfile.RegisterDirectiveOrder("edge_cookies", httpcaddyfile.Before, "redir")
	httpcaddyfile.RegisterDirectiveOrder("edge_guard", httpcaddyfile.Before, "redir")
}

var (
	errPath   = errors.New("servers may read this path differently")
	errNoEdge = errors.New("the directive edge must stand before edge_cookies and edge_guard")
)

// Edge is the handler that a request meets first. A path that servers may read
// differently is an error 404. Trailers of a request end here, because servers may
// take them for headers.
type Edge struct {
	// Drop names request headers that nothing behind this handler gets, in any
	// case and with any sign for "-". A "*" at the end stands for any end.
	Drop []string `json:"drop,omitempty"`
	// Cookies names cookies that only routes with edge_cookies get and may set,
	// and the service that edge_guard checks with. Letters must have the same case, as
	// for browsers. A "*" at the end stands for any end.
	Cookies []string `json:"cookies,omitempty"`

	drop names
}

// CaddyModule returns the Caddy module information.
func (Edge) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge", New: func() caddy.Module { return new(Edge) }}
}

// Provision implements caddy.Provisioner.
func (e *Edge) Provision(caddy.Context) error {
	e.drop = headerNames(e.Drop)
	return nil
}

func parseEdge(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	e := new(Edge)
	return e, e.UnmarshalCaddyfile(h.Dispenser)
}

// UnmarshalCaddyfile reads:
//
//	edge {
//		drop    <headers...>
//		cookies <cookies...>
//	}
func (e *Edge) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() {
		if d.NextArg() {
			return d.ArgErr()
		}
		for d.NextBlock(0) {
			what, all := d.Val(), d.RemainingArgs()
			switch {
			case len(all) == 0:
				return d.ArgErr()
			case what == "drop":
				e.Drop = append(e.Drop, all...)
			case what == "cookies":
				e.Cookies = append(e.Cookies, all...)
			default:
				return d.Errf("edge has no %s", what)
			}
		}
	}
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (e *Edge) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if !unambiguous(r.RequestURI) {
		return caddyhttp.Error(http.StatusNotFound, errPath)
	}
	for name := range r.Header {
		if e.drop.has(headerName(name)) {
			delete(r.Header, name)
		}
	}
	// net/http writes what follows the body into the request that it made; what is
	// behind this handler sees a copy, which gets none.
	behind := *r
	behind.Trailer = nil
	r = &behind
	x := &exchange{cookies: e.Cookies, sent: r.Header["Cookie"]}
	setCookies(r.Header, withoutCookies(x.sent, x.cookies))
	caddyhttp.SetVar(r.Context(), exchangeVar, x)
	a := &answer{ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, exchange: x}
	err := next.ServeHTTP(a, r)
	a.begin(http.StatusOK) // for an answer that is nothing but headers
	return err
}

const exchangeVar = "edge.exchange"

// exchange is what the handlers of one request share.
type exchange struct {
	cookies names
	// sent are the lines of Cookie that the client sent.
	sent []string
	// own is whether the answer may set the cookies that are named.
	own bool
	// renewed are the lines of Set-Cookie that the guard wants to add to an answer
	// that begins by until.
	renewed []string
	until   time.Time
}

func exchangeOf(r *http.Request) (*exchange, error) {
	x, ok := caddyhttp.GetVar(r.Context(), exchangeVar).(*exchange)
	if !ok {
		return nil, caddyhttp.Error(http.StatusInternalServerError, errNoEdge)
	}
	return x, nil
}

func setCookies(h http.Header, lines []string) {
	if len(lines) == 0 {
		delete(h, "Cookie")
		return
	}
	h["Cookie"] = lines
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

// begin puts the headers right. An answer that is informational comes before the
// one that counts.
func (a *answer) begin(status int) {
	if a.begun {
		return
	}
	a.begun = status >= http.StatusOK || status == http.StatusSwitchingProtocols
	h, x := a.Header(), a.exchange
	if x.own {
		return
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
		if strings.HasSuffix(name, "Cache-Control") || name == "Surrogate-Control" || name == "Expires" || name == "Pragma" {
			delete(h, name)
		}
	}
	h["Cache-Control"] = []string{"private, no-store"}
}

// Cookies is a handler for the routes of the service whose cookies Edge keeps
// from all others: it gets them and may set them.
type Cookies struct{}

// CaddyModule returns the Caddy module information.
func (Cookies) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge_cookies", New: func() caddy.Module { return new(Cookies) }}
}

func parseCookies(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	c := new(Cookies)
	return c, c.UnmarshalCaddyfile(h.Dispenser)
}

// UnmarshalCaddyfile reads: edge_cookies.
func (*Cookies) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() {
		if d.NextArg() || d.NextBlock(0) {
			return d.ArgErr()
		}
	}
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (*Cookies) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	x, err := exchangeOf(r)
	if err != nil {
		return err
	}
	x.own = true
	setCookies(r.Header, x.sent)
	return next.ServeHTTP(w, r)
}

var (
	_ caddyhttp.MiddlewareHandler       = (*Edge)(nil)
	_ caddyhttp.MiddlewareHandler       = (*Cookies)(nil)
	_ caddyhttp.RequestMatcherWithError = (*Path)(nil)
	_ caddy.Provisioner                 = (*Edge)(nil)
	_ caddyfile.Unmarshaler             = (*Edge)(nil)
	_ caddyfile.Unmarshaler             = (*Cookies)(nil)
	_ caddyfile.Unmarshaler             = (*Path)(nil)
)
