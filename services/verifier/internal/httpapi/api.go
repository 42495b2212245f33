package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// Options is what the API is made of. All fields but those noted otherwise
// are required.
type Options struct {
	// Chains are served in this order; the first one also at the contract's own
	// path.
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
	Log    *slog.Logger
	Now    func() time.Time
}

// Chain is one chain whose transactions are verified.
type Chain struct {
	// Name is the word in the path.
	Name     string
	Verifier verification.Verifier
}

// api holds the handlers.
type api struct {
	Options
	receipts *verification.Receipts
}

// receiptsMemory bounds the signed receipts that are kept, in bytes.
const receiptsMemory = 16 << 20

// New checks the options and returns the handler of the verifier's address.
func New(o Options) (http.Handler, error) {
	if len(o.Chains) == 0 || o.Paywall == nil || o.Key == nil || o.PublicURL == "" || o.Health == nil ||
		o.Metrics == nil || o.Log == nil || o.Now == nil {
		return nil, errors.New("httpapi: an option is missing")
	}
	receipts := verification.NewReceipts(o.Key, receiptsMemory, o.Metrics.answered, func(bytes int) { o.Metrics.answerBytes.Set(float64(bytes)) })
	a := &api{Options: o, receipts: receipts}
	e := service.HTTP{
		Log: o.Log, Metrics: o.Metrics.requests, Now: o.Now, Tracer: o.Tracer,
		Client:     func(r *http.Request) string { return clientaddr.Group(o.Proxies.Of(r)) },
		WriteError: a.writeError, LogErrors: true, Options: true,
		Headers: everyAnswer, Use: []echo.MiddlewareFunc{crossOrigin},
	}.Echo()
	if err := a.route(e); err != nil {
		return nil, err
	}
	return e, nil
}
