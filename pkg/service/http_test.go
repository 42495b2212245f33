package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pforte/pforte/pkg/service"
)

var (
	errRefused = errors.New("refused")
	table      = []failure{{errRefused, 403, "no"}, {service.ErrNoRoute, 404, "nothing here"}, {service.ErrWrongMethod, 405, "not so"}}
)

type failure struct {
	err    error
	status int
	text   string
}

func (f failure) Sentinel() error { return f.err }

// api is a small service's API, with its log and metrics.
type api struct {
	*echo.Echo
	log      *buffer
	registry *prometheus.Registry
}

func newAPI(t *testing.T, set func(*service.HTTP)) api {
	t.Helper()
	log, registry := &buffer{}, prometheus.NewRegistry()
	metrics, err := service.NewHTTPMetrics(registry, "test", []float64{1})
	if err != nil {
		t.Fatal(err)
	}
	h := service.HTTP{
		Log:     slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: metrics, Now: time.Now, Headers: http.Header{"X-Always": {"yes"}},
		Client: func(*http.Request) string { return "192.0.2.1" },
		WriteError: func(err error, c echo.Context) {
			f := service.Find(table, err, failure{status: 500, text: "internal"})
			_ = c.String(f.status, f.text)
		},
	}
	if set != nil {
		set(&h)
	}
	e := h.Echo()
	e.GET("/items/:id", func(c echo.Context) error { return c.String(http.StatusOK, "item") })
	e.POST("/items/:id", func(echo.Context) error { return fmt.Errorf("wrapped: %w", errRefused) })
	e.GET("/panic", func(echo.Context) error { panic("oh") })
	e.GET("/abort", func(echo.Context) error { panic(http.ErrAbortHandler) })
	return api{e, log, registry}
}

func (a api) send(method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

func TestRequest_HasOneLineWithTheSameKeys(t *testing.T) {
	a := newAPI(t, nil)
	a.send(http.MethodGet, "/items/secret-7", service.RequestIDHeader, "r-1")
	line := strings.TrimSpace(a.log.String())
	var keys []string
	decoder := json.NewDecoder(strings.NewReader(line))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if key, ok := token.(string); ok && len(keys)%2 == 0 {
			keys = append(keys, key)
			continue
		}
		if _, delim := token.(json.Delim); !delim {
			keys = append(keys, "")
		}
	}
	keys = slices.DeleteFunc(keys, func(k string) bool { return k == "" })
	want := []string{"time", "level", "msg", "method", "route", "status", "duration_ms", "client", "request_id", "trace_id"}
	if !slices.Equal(keys, want) || !strings.Contains(line, `"method":"GET","route":"/items/:id","status":200,`) || !strings.Contains(line, `"client":"192.0.2.1","request_id":"r-1","trace_id":""`) {
		t.Errorf("keys %v in %s", keys, line)
	}
	if strings.Contains(line, "secret-7") {
		t.Errorf("the path is in %s", line)
	}
}

func TestRequest_LogsAnErrorsTextFrom500OrWherePermitted(t *testing.T) {
	for _, all := range []bool{false, true} {
		a := newAPI(t, func(h *service.HTTP) { h.LogErrors = all })
		a.send(http.MethodPost, "/items/1")
		if got := strings.Contains(a.log.String(), `"error":"wrapped: refused"`); got != all {
			t.Errorf("LogErrors %v: %s", all, a.log)
		}
		if w := a.send(http.MethodGet, "/panic"); w.Code != 500 || w.Body.String() != "internal" || !strings.Contains(a.log.String(), `"error":"panic: oh\ngoroutine`) {
			t.Errorf("a panic: %d %s, %s", w.Code, w.Body, a.log)
		}
	}
}

// A failure that only comes of the client's going away is none of the service.
func TestRequest_OfAClientThatIsGoneIsNoFailure(t *testing.T) {
	for path, status := range map[string]int{"/waits": 499, "/fails": 500, "/refuses": 403} {
		a := newAPI(t, func(h *service.HTTP) { h.Timeout = time.Minute })
		ctx, hangUp := context.WithCancel(t.Context())
		gone := func(err func(context.Context) error) echo.HandlerFunc {
			return func(c echo.Context) error {
				hangUp()
				<-c.Request().Context().Done()
				return fmt.Errorf("redis: %w", err(c.Request().Context()))
			}
		}
		a.GET("/waits", gone(context.Context.Err))
		a.GET("/fails", gone(func(context.Context) error { return errors.New("disk full") }))
		a.GET("/refuses", gone(func(context.Context) error { return errRefused }))
		a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil).WithContext(ctx))
		hangUp()
		want := fmt.Sprintf(`"status":%d,`, status)
		if line := a.log.String(); !strings.Contains(line, want) || strings.Contains(line, `"level":"ERROR"`) != (status == 500) {
			t.Errorf("%s: %s", path, line)
		}
	}
}

func TestErrors_AreAnsweredByTheTable(t *testing.T) {
	a := newAPI(t, nil)
	for _, c := range []struct {
		method, path, body, allow string
		status                    int
	}{
		{"POST", "/items/1", "no", "", 403},
		{"GET", "/elsewhere", "nothing here", "", 404},
		{"GET", "/items/1/2", "nothing here", "", 404},
		{"DELETE", "/items/1", "not so", "GET, POST", 405},
		{"OPTIONS", "/items/1", "not so", "GET, POST", 405},
	} {
		w := a.send(c.method, c.path)
		if w.Code != c.status || w.Body.String() != c.body || w.Header().Get("Allow") != c.allow || w.Header().Get("X-Always") != "yes" {
			t.Errorf("%s %s: %d %s %v", c.method, c.path, w.Code, w.Body, w.Header())
		}
	}
	options := newAPI(t, func(h *service.HTTP) { h.Options = true })
	if w := options.send(http.MethodOptions, "/items/1"); w.Code != http.StatusNoContent || w.Header().Get("Allow") != "OPTIONS, GET, POST" {
		t.Errorf("OPTIONS: %d %v", w.Code, w.Header())
	}
}

func TestRequest_AnAbortedAnswerStaysAborted(t *testing.T) {
	a := newAPI(t, nil)
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("got %v", err)
		}
	}()
	a.send(http.MethodGet, "/abort")
}

func TestTimeout_LeavesAContextThatEndsWithTheClient(t *testing.T) {
	client, hangUp := context.WithCancel(t.Context())
	a := newAPI(t, func(h *service.HTTP) { h.Timeout = time.Nanosecond })
	a.GET("/wait", func(c echo.Context) error {
		ctx := c.Request().Context()
		<-ctx.Done()
		untimed := service.Untimed(ctx)
		if err := untimed.Err(); err != nil {
			t.Errorf("it ends with the timeout: %v", err)
		}
		hangUp()
		if untimed.Err() == nil {
			t.Error("it outlasts the client")
		}
		return nil
	})
	a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(client, http.MethodGet, "/wait", nil))
	if service.Untimed(client) != client {
		t.Error("a context without a bound is another one")
	}
}

func TestRequest_IsCountedByRouteNeverByPath(t *testing.T) {
	a := newAPI(t, nil)
	a.send("BREW", "/items/1")
	a.send(http.MethodGet, "/items/2")
	a.send(http.MethodGet, "/elsewhere")
	want := `
# HELP test_http_requests_total Requests answered, by route, method and status.
# TYPE test_http_requests_total counter
test_http_requests_total{method="GET",route="/items/:id",status="200"} 1
test_http_requests_total{method="GET",route="none",status="404"} 1
test_http_requests_total{method="other",route="/items/:id",status="405"} 1
`
	if err := testutil.GatherAndCompare(a.registry, strings.NewReader(want), "test_http_requests_total"); err != nil {
		t.Error(err)
	}
}

func TestRequest_KeepsAWellFormedID(t *testing.T) {
	a := newAPI(t, nil)
	id := func(sent string) string {
		return a.send(http.MethodGet, "/", service.RequestIDHeader, sent).Header().Get(service.RequestIDHeader)
	}
	for _, sent := range []string{"a", "AZaz09._-", strings.Repeat("x", 64)} {
		if got := id(sent); got != sent {
			t.Errorf("%q became %q", sent, got)
		}
	}
	for _, sent := range []string{"", "a b", "a\n", "ä", "a/b", "[", "`", "@", strings.Repeat("x", 65)} {
		one, two := id(sent), id(sent)
		if one == sent || one == two || len(one) < 20 {
			t.Errorf("%q became %q and %q", sent, one, two)
		}
	}
}

func TestBody_IsBoundedAndReadToItsEnd(t *testing.T) {
	read := func(body io.Reader) error {
		r := httptest.NewRequest(http.MethodPost, "/", body)
		_, err := service.ReadBody(httptest.NewRecorder(), r, 4)
		return err
	}
	for want, body := range map[error]io.Reader{
		nil:                     strings.NewReader("1234"),
		service.ErrBodyTooLarge: strings.NewReader("12345"),
		service.ErrBodyRead:     io.MultiReader(strings.NewReader("1"), failing{}),
	} {
		if err := read(body); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	if err := read(io.MultiReader(strings.NewReader("12345"))); !errors.Is(err, service.ErrBodyTooLarge) {
		t.Errorf("a body of unknown length: %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
