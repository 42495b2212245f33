package edge

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// maxCompressed is how many answers are compressed at once, by all handlers: each takes more than a megabyte for as
// long as its client reads.
const maxCompressed = 32

// Compress is a handler before encode. Where as many answers are compressed as may be, the next one is not: its
// client gets it whole, only later. So places need not be shared between networks.
type Compress struct{ places chan struct{} }

// CaddyModule returns the Caddy module information.
func (Compress) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge_compress", New: func() caddy.Module { return new(Compress) }}
}

// Provision implements caddy.Provisioner.
func (c *Compress) Provision(ctx caddy.Context) error {
	all, err := gatesOf(ctx)
	if err != nil {
		return fmt.Errorf("edge_compress: %w", err)
	}
	c.places = all.compressed
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (c *Compress) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if len(r.Header["Accept-Encoding"]) == 0 {
		return next.ServeHTTP(w, r)
	}
	if slices.Contains(r.Header["Accept"], "text/event-stream") { // it would have its place for hours
		return next.ServeHTTP(w, whole(r))
	}
	select {
	case c.places <- struct{}{}:
	default:
		return next.ServeHTTP(w, whole(r))
	}
	leave := sync.OnceFunc(func() { <-c.places })
	defer leave()
	return next.ServeHTTP(&compressing{&caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, leave}, r)
}

// whole returns a copy of a request whose answer is not to be compressed.
func whole(r *http.Request) *http.Request {
	c := *r
	c.Header = maps.Clone(r.Header)
	c.Header["Accept-Encoding"] = []string{"identity"}
	return &c
}

// compressing returns the place of an answer that is not compressed, which may be a long one.
type compressing struct {
	*caddyhttp.ResponseWriterWrapper
	leave func()
}

// WriteHeader implements http.ResponseWriter.
func (c *compressing) WriteHeader(status int) {
	if status == http.StatusSwitchingProtocols || status >= 200 && len(c.Header()["Content-Encoding"]) == 0 {
		c.leave()
	}
	c.ResponseWriterWrapper.WriteHeader(status)
}

var (
	_ caddyhttp.MiddlewareHandler = (*Compress)(nil)
	_ caddy.Provisioner           = (*Compress)(nil)
)
