package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// recorder stands between the clients and the proxy, and compares what passes
// with the documents of the services.
type recorder struct {
	*httptest.Server
	documents []routers.Router

	mu     sync.Mutex
	seen   map[string]int // "METHOD path STATUS", paths as documented
	faults []string
	paid   *http.Request // the last one that carried a payment, with its body
}

// newRecorder listens in front of target, an origin.
func newRecorder(target string, documents ...string) (*recorder, error) {
	r := &recorder{seen: map[string]int{}}
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder) // which it does not know by itself
	for _, file := range documents {
		document, err := openapi3.NewLoader().LoadFromFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if err := document.Validate(context.Background()); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		document.Servers = nil // any host
		router, err := gorillamux.NewRouter(document)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		r.documents = append(r.documents, router)
	}
	origin, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(origin)
			p.Out.Host = p.In.Host
			p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
		},
		ModifyResponse: r.check,
		FlushInterval:  -1,
	}
	r.Server = httptest.NewServer(readFirst(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.keepPaid(request)
		proxy.ServeHTTP(w, request)
	})))
	return r, nil
}

// readFirst reads small bodies before a reverse proxy gets them. An answer that came
// while net/http still looked for the end of a body would close it, and the connection
// of the answer with it.
func readFirst(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if 0 < r.ContentLength && r.ContentLength < 1<<20 {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler) // the client has gone
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
}

// keepPaid remembers a request that carries a payment.
func (w *recorder) keepPaid(r *http.Request) {
	if r.Header.Get("PAYMENT-SIGNATURE") == "" {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the proxy meets the same error
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	kept := r.Clone(context.Background())
	kept.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paid = kept
}

// check checks one answer of a documented route. Other answers pass: those of the
// application behind the guard, and the proxy's own.
func (w *recorder) check(resp *http.Response) error {
	route, params := w.find(resp.Request)
	if route == nil || isTheProxys(resp) {
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: resp.Request, PathParams: params, Route: route},
		Status:                 resp.StatusCode,
		Header:                 resp.Header,
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if resp.Header.Get("Content-Encoding") == "gzip" && len(body) > 0 {
		unpacked, err := gzip.NewReader(bytes.NewReader(body))
		if err == nil {
			body, err = io.ReadAll(unpacked)
		}
		if err != nil {
			return err
		}
	}
	answer.SetBodyBytes(body)
	err = openapi3filter.ValidateResponse(resp.Request.Context(), answer)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[fmt.Sprintf("%s %s %d", route.Method, route.Path, resp.StatusCode)]++
	if err != nil {
		w.faults = append(w.faults, fmt.Sprintf("%s %s answers %d, which its document does not have: %v\n%s",
			route.Method, route.Path, resp.StatusCode, err, body))
	}
	return nil
}

// isTheProxys reports whether an answer is the proxy's own: a service is away, or
// the route is never served from outside.
func isTheProxys(resp *http.Response) bool {
	return resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusGatewayTimeout ||
		strings.HasPrefix(resp.Request.URL.Path, "/internal/")
}

func (w *recorder) find(r *http.Request) (*routers.Route, map[string]string) {
	for _, document := range w.documents {
		if route, params, err := document.FindRoute(r); err == nil {
			return route, params
		}
	}
	return nil, nil
}

// report reports what was found since the last report.
func (w *recorder) report(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fault := range w.faults {
		t.Error(fault)
	}
	w.faults = nil
}

// exchanges lists the documented exchanges that passed.
func (w *recorder) exchanges() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for exchange := range w.seen {
		all = append(all, exchange)
	}
	slices.Sort(all)
	return all
}
