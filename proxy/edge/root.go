package edge

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddypki"
)

// Where the certificate of the proxy's own authority is, and the page about it.
const (
	rootPath     = "/pforte/root.crt"
	rootPagePath = "/pforte/root"
)

// logRoot has the certificate's fingerprint logged once, although several sites may have the handler.
var logRoot sync.Once

// Root is a handler that gives out the certificate of the proxy's own authority at /pforte/root.crt, and at
// /pforte/root says how a device comes to trust it. All other requests go on.
type Root struct {
	pages *pages
	root  *x509.Certificate
}

// CaddyModule returns the Caddy module information.
func (Root) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge_root", New: func() caddy.Module { return new(Root) }}
}

// Provision implements caddy.Provisioner.
func (h *Root) Provision(ctx caddy.Context) error {
	app, err := ctx.App("pki")
	if err != nil {
		return fmt.Errorf("edge_root: %w", err)
	}
	authority, err := app.(*caddypki.PKI).GetCA(ctx, caddypki.DefaultCAID)
	if err != nil {
		return fmt.Errorf("edge_root: %w", err)
	}
	h.root = authority.RootCertificate()
	logRoot.Do(func() {
		ctx.Slogger().Info("certificates are of the proxy's own authority, which devices have to trust",
			"page", rootPagePath, "sha256", fingerprint(h.root))
	})
	h.pages, err = newPages(ctx)
	return err
}

// fingerprint returns the SHA-256 of a certificate as phones and browsers show it.
func fingerprint(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.Raw)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h *Root) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return next.ServeHTTP(w, r)
	}
	switch r.URL.Path {
	case rootPath:
		w.Header()["Content-Type"] = []string{"application/x-x509-ca-cert"}
		w.Header()["Cache-Control"] = []string{"no-store"}
		_, err := w.Write(h.root.Raw)
		return err
	case rootPagePath:
		v := struct {
			page
			Name, File  string
			Fingerprint []string
		}{h.pages.begin(r), h.root.Subject.CommonName, rootPath, nil}
		for group := range slices.Chunk([]byte(fingerprint(h.root)), len("00:00:00:00:")) {
			v.Fingerprint = append(v.Fingerprint, string(group))
		}
		v.Title = v.T["root"]
		return h.pages.send(w, http.StatusOK, "root", v)
	default:
		return next.ServeHTTP(w, r)
	}
}

var (
	_ caddyhttp.MiddlewareHandler = (*Root)(nil)
	_ caddy.Provisioner           = (*Root)(nil)
)
