package httpapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
	"github.com/pforte/pforte/services/verifier/internal/translog"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// Options is what the API is made of. All fields but those noted otherwise
// are required.
type Options struct {
	// Chains are listed in this order; the first one is also served at the paths that name none
	// (VERIFIER-1.1, VERIFIER-1.2).
	Chains  []Chain
	Paywall *paywall.Paywall
	Terms   payment.Terms
	Key     *receipt.SigningKey
	Keys    receipt.KeyDocument
	// PublicURL is the address that buyers see, without a slash at its end.
	PublicURL string
	// Health fails while the service cannot do its work.
	Health func(context.Context) error
	// Proxies are the peers whose X-Forwarded-For is believed; may be empty.
	Proxies clientaddr.Proxies
	Metrics *Metrics
	// Tracer may be nil: then requests are not traced.
	Tracer *tracing.Tracer
	// MCP may be nil: then there are no tools.
	MCP *MCP
	// Receipts may be nil: then there is no log of receipts.
	Receipts *translog.Log
	// CheckPage is the page that checks receipts, as [checkpage.Built] returns it; nil
	// where there is none.
	CheckPage []byte
	// Sold returns a sold answer by its SHA-256; payment.ErrNotFound where none is kept.
	Sold func(context.Context, payment.Digest) (payment.Answer, error)
	Log  *slog.Logger
	Now  func() time.Time
}

// Chain is one chain whose transactions are verified.
type Chain struct {
	// Name is the name of the chain in paths.
	Name string
	// ID is the EIP-155 chain id.
	ID       uint64
	Verifier verification.Verifier
	// Heads returns how far the chain is.
	Heads func(context.Context) (chain.Heads, error)
	// Progress returns how far a transaction is. It calls ask before it asks a node about it.
	Progress func(ctx context.Context, transaction chain.Hash, ask func() error) (chain.Progress, error)
	// Finality may be nil: then no proofs of finality are made for it.
	Finality *beaconchain.Chain
}

// api holds the handlers.
type api struct {
	Options
	paid []*paidRoute
	// operations are those of each kind, in the order of the chains.
	operations map[*kind][]operation
	// priced has the handlers that answer a GET or HEAD of a paid path, by path.
	priced map[string]echo.HandlerFunc
	check  checkPage
	// logReads bounds reads of the log, finalityReads of proofs of finality that are kept, namedReads of
	// those that nodes are asked about, and receiptReads of sold answers. checks bounds how many receipts
	// are checked at once. largeSold and largeFree bound what large answers take in memory: for those who
	// paid, and for others.
	logReads, finalityReads, namedReads, receiptReads, checks freeReads
	largeSold, largeFree                                      *largeAnswers
}

// receiptsMemory is about how many bytes of signed receipts are kept in memory, at most.
const receiptsMemory = 16 << 20

// New returns the handler of the verifier's public address. An error means that an option is missing or does not fit.
func New(o Options) (http.Handler, error) {
	if len(o.Chains) == 0 || o.Paywall == nil || o.Key == nil || o.PublicURL == "" || o.Health == nil ||
		o.Metrics == nil || o.Sold == nil || o.Log == nil || o.Now == nil {
		return nil, errors.New("httpapi: an option is missing")
	}
	receipts := verification.NewReceipts(o.Key, receiptsMemory, o.Metrics.answered,
		func(bytes int) { o.Metrics.answerBytes.Set(float64(bytes)) })
	a := &api{
		Options: o, operations: map[*kind][]operation{}, priced: map[string]echo.HandlerFunc{},
		logReads: newFreeReads(), finalityReads: newFreeReads(), namedReads: make(freeReads, 2),
		receiptReads: newFreeReads(), checks: newFreeReads(),
		largeSold: newLargeAnswers(mostSold), largeFree: newLargeAnswers(mostFree),
	}
	compressing := newCompressor()
	e := service.HTTP{
		Log: o.Log, Metrics: o.Metrics.requests, Now: o.Now, Tracer: o.Tracer,
		Client:     func(r *http.Request) string { return clientaddr.Group(o.Proxies.Of(r)) },
		WriteError: a.writeError, LogErrors: true, Options: true,
		Headers: everyAnswer, Use: []echo.MiddlewareFunc{crossOrigin, compressing.use},
	}.Echo()
	for _, kind := range kinds {
		for i, chain := range o.Chains {
			chain.Verifier.Reader = placed{chain.Verifier.Reader}
			operation := operation{kind: kind, chain: chain, receipts: receipts}
			a.operations[kind] = append(a.operations[kind], operation)
			paths := []string{operation.path()}
			if i == 0 && paths[0] != kind.firstPath {
				paths = append(paths, kind.firstPath)
			}
			for _, path := range paths {
				route, err := a.newPaidRoute(operation, path, o.Terms)
				if err != nil {
					return nil, err
				}
				a.paid = append(a.paid, route)
				e.POST(path, route.serve)
				if a.priced[path], err = route.priced(kind.title, kind.subject+" on "+chain.Name); err != nil {
					return nil, err
				}
			}
		}
	}
	batch, err := a.newBatchRoute()
	if err != nil {
		return nil, err
	}
	e.POST(batchPath, batch.serve)
	if a.priced[batchPath], err = batch.priced(); err != nil {
		return nil, err
	}
	if a.MCP != nil {
		tools, err := a.newMCPRoute()
		if err != nil {
			return nil, err
		}
		e.POST(mcpPath, tools.serve)
	}
	pages, err := a.pages()
	if err != nil {
		return nil, err
	}
	pages["/health"] = a.health
	pages[checkPath] = a.checkPage
	maps.Copy(pages, a.logPages())
	pages[finalityPath+":chain/:block"] = a.finality
	pages[statusPath+":chain/:hash"] = a.status
	pages[receiptsPath+":hash"] = a.soldReceipt
	for path, page := range pages {
		e.GET(path, page)
		e.HEAD(path, page)
	}
	return e, nil
}

// health answers whether the service can do its work.
func (a *api) health(c echo.Context) error {
	if err := a.Health(c.Request().Context()); err != nil {
		a.Log.WarnContext(c.Request().Context(), "not ready", "error", err)
		return errNotReady
	}
	return answer{status: http.StatusOK, header: noStore, body: []byte(`{"status":"ok"}`)}.write(c)
}

type answer struct {
	status int
	header http.Header
	// mediaType is "" for application/json.
	mediaType string
	body      []byte
}

// write sends the length of the body beforehand. Without it, net/http would send the end of a body
// that is longer than its buffer in a write of its own.
func (a answer) write(c echo.Context) error {
	maps.Copy(c.Response().Header(), a.header)
	if z, ok := c.Get(compressorKey).(*compressor); ok && a.status == http.StatusOK && a.mediaType != tileType {
		a.body = z.compress(c.Response().Header(), c.Request().Header.Values(echo.HeaderAcceptEncoding), a.body)
	}
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(a.body)))
	return c.Blob(a.status, cmp.Or(a.mediaType, receipt.MediaTypeJSON), a.body)
}

// allowHeaders are the request headers that browsers may send to every path. The official client
// sends Access-Control-Expose-Headers as a request header on its paid retry.
const allowHeaders = "Content-Type, Accept, PAYMENT-SIGNATURE, X-PAYMENT, Access-Control-Expose-Headers, " +
	"X-Request-Id, If-None-Match"

// Headers of every answer, and those of the answer to a preflight. Their values
// must not be changed.
var (
	everyAnswer = http.Header{
		"X-Content-Type-Options":      {"nosniff"},
		"Access-Control-Allow-Origin": {"*"},
		"Access-Control-Expose-Headers": {"PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, Retry-After, " +
			"X-Request-Id, ETag, Link"},
	}
	preflight    = preflightOf(allowHeaders)
	mcpPreflight = preflightOf(allowHeaders +
		", MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID")
)

func preflightOf(headers string) http.Header {
	return http.Header{
		"Access-Control-Allow-Methods": {"GET, HEAD, POST, OPTIONS"},
		"Access-Control-Allow-Headers": {headers},
		"Access-Control-Max-Age":       {"7200"},
	}
}

// noStore is for answers that are true only now.
var noStore = http.Header{"Cache-Control": {"no-store"}}

// crossOrigin answers the preflights of browsers. Pages of any origin may use the
// service: it has no cookies and no sessions that they could abuse.
func crossOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h, r := c.Response().Header(), c.Request()
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			if c.Path() == mcpPath {
				maps.Copy(h, mcpPreflight)
			} else {
				maps.Copy(h, preflight)
			}
			return c.NoContent(http.StatusNoContent)
		}
		return next(c)
	}
}
