package tracing_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/config"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/pkg/tracing/tracingtest"
)

const proxy = "10.0.0.1:80"

const remote = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func settings(t testing.TB, environment ...string) tracing.Settings {
	t.Helper()
	s, err := load(environment...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func load(environment ...string) (tracing.Settings, error) {
	env := map[string]string{}
	for i := 0; i < len(environment); i += 2 {
		env[environment[i]] = environment[i+1]
	}
	return config.Load[tracing.Settings](func(name string) string { return env[name] })
}

func start(t testing.TB, log *bytes.Buffer, s tracing.Settings) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.Start(t.Context(), tracing.Options{
		Settings: s, Service: "auth", Version: "1.2.3", Log: slog.New(slog.NewJSONHandler(log, nil)),
		Trusted: func(r *http.Request) bool { return r.RemoteAddr == proxy },
	})
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

func request(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/things/hunter2?token=hunter2", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func fromProxy(r *http.Request) *http.Request {
	r.RemoteAddr = proxy
	return r
}

func TestTrace_ARequestAndItsQuestionsAreOne(t *testing.T) {
	c := tracingtest.New(t)
	tracer := start(t, &bytes.Buffer{}, settings(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.URL+"/", "OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b, y=c"))
	ctx, span := tracer.Request(fromProxy(request("Traceparent", remote)), "POST", "/v1/things/:id")
	_, call := tracing.Call(ctx, "redis", "evalsha")
	call.Set("chain", "base")
	call.End("timeout")
	span.Set("request_id", "abc")
	span.Answered(http.StatusOK)
	id := tracing.ID(ctx)
	tracer.Stop(t.Context())
	spans := c.Spans()
	if len(spans) != 2 {
		t.Fatalf("got %v", spans)
	}
	command, served := spans[0], spans[1]
	if served.Name != "POST /v1/things/:id" || served.Trace != "0af7651916cd43dd8448eb211c80319c" || served.Parent != "b7ad6b7169203331" ||
		served.Service != "auth" || served.Attributes["service.version"] != "1.2.3" || served.Attributes["request_id"] != "abc" || served.Failed || id != served.Trace {
		t.Errorf("got %+v", served)
	}
	if command.Name != "redis evalsha" || command.Trace != served.Trace || command.Parent != served.ID || !command.Failed ||
		command.Attributes["error.type"] != "timeout" || command.Attributes["chain"] != "base" {
		t.Errorf("got %+v", command)
	}
	if h := c.Headers()[0]; h.Get("X-Key") != "a b" || h.Get("Y") != "c" {
		t.Errorf("sent %v", h)
	}
}

func TestTrace_IsSentWithTheHeadersOfTraces(t *testing.T) {
	c := tracingtest.New(t)
	tracer := start(t, &bytes.Buffer{}, settings(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.URL,
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-key=a", "OTEL_EXPORTER_OTLP_HEADERS", "x-key=b"))
	_, span := tracer.Request(request(), "POST", "/")
	span.Answered(http.StatusOK)
	tracer.Stop(t.Context())
	if all := c.Headers(); len(all) != 1 || all[0].Get("X-Key") != "a" {
		t.Errorf("sent %v", all)
	}
}

func TestTrace_HoldsNothingAClientSent(t *testing.T) {
	c := tracingtest.New(t)
	tracer := start(t, &bytes.Buffer{}, settings(t, "OTEL_EXPORTER_OTLP_ENDPOINT", c.URL))
	_, span := tracer.Request(request("Cookie", "svc.sid=hunter2", "Baggage", "k=hunter2", "Tracestate", "k=hunter2", "User-Agent", "hunter2"), "POST", "/v1/things/:id")
	span.Answered(http.StatusInternalServerError)
	tracer.Stop(t.Context())
	for _, s := range c.Spans() {
		for key, value := range s.Attributes {
			if strings.Contains(s.Name+key+value, "hunter2") {
				t.Errorf("%s: %s", key, value)
			}
		}
		if !s.Failed {
			t.Error("a 500 is no failure")
		}
	}
}

func TestTrace_IsSetByATrustedProxyOnly(t *testing.T) {
	c := tracingtest.New(t)
	tracer := start(t, &bytes.Buffer{}, settings(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.URL+"/v1/traces"))
	ctx, span := tracer.Request(request("Traceparent", remote), "POST", "/")
	if id := tracing.ID(ctx); len(id) != 32 || strings.Contains(remote, id) {
		t.Errorf("the trace is %q", id)
	}
	span.Answered(http.StatusOK)
	tracer.Stop(t.Context())
	if spans := c.Spans(); len(spans) != 1 || spans[0].Parent != "" {
		t.Errorf("got %v", spans)
	}
}

func TestTrace_OffRunsAndAllocatesNothing(t *testing.T) {
	c := tracingtest.New(t)
	for name, environment := range map[string][]string{
		"nothing is set": nil,
		"no collector":   {"OTEL_SERVICE_NAME", "x"},
		"no exporter":    {"OTEL_EXPORTER_OTLP_ENDPOINT", c.URL, "OTEL_TRACES_EXPORTER", "none"},
		"disabled":       {"OTEL_EXPORTER_OTLP_ENDPOINT", c.URL, "OTEL_SDK_DISABLED", "True"},
	} {
		before := runtime.NumGoroutine()
		tracer := start(t, &bytes.Buffer{}, settings(t, environment...))
		if after := runtime.NumGoroutine(); tracer != nil || after > before {
			t.Errorf("%s: got %v, %d goroutines more", name, tracer, after-before)
		}
		r := fromProxy(request("Traceparent", remote))
		work := func() {
			ctx, span := tracer.Request(r, "POST", "/")
			ctx, call := tracing.Call(ctx, "redis", "evalsha")
			call.Set("chain", "base")
			call.End("timeout")
			if tracing.ID(ctx) != "" {
				t.Error("there is a trace")
			}
			span.Answered(http.StatusOK)
		}
		if n := testing.AllocsPerRun(100, work); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		tracer.Stop(t.Context())
	}
	if c.Requests.Load() != 0 {
		t.Error("something was sent")
	}
}

// OpenTelemetry's specification takes only "true" for true, and all else for false.
func TestTrace_IsDisabledByTheWordTrueAlone(t *testing.T) {
	for _, word := range []string{"1", "t", "yes", "false"} {
		tracer := start(t, &bytes.Buffer{}, settings(t, "OTEL_EXPORTER_OTLP_ENDPOINT", tracingtest.New(t).URL, "OTEL_SDK_DISABLED", word))
		if tracer == nil {
			t.Errorf("%s disables traces", word)
		}
		tracer.Stop(t.Context())
	}
}

func TestTrace_AFailingCollectorDisturbsNoRequest(t *testing.T) {
	c := tracingtest.New(t)
	over := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(over) })
	c.Refuse.Store(true)
	for name, url := range map[string]string{"it refuses": c.URL, "it is away": "http://127.0.0.1:1/key-hunter2", "it hangs": hanging.URL} {
		var log bytes.Buffer
		tracer := start(t, &log, settings(t, "OTEL_EXPORTER_OTLP_ENDPOINT", url))
		began := time.Now()
		for range 10_000 {
			_, span := tracer.Request(request(), "POST", "/")
			span.Answered(http.StatusOK)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: requests took %s", name, took)
		}
		began = time.Now()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		tracer.Stop(gone)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: the stop took %s", name, took)
		}
		if n := strings.Count(log.String(), "traces are lost"); n != 1 || strings.Contains(log.String(), "hunter2") {
			t.Errorf("%s: %d complaints in %s", name, n, &log)
		}
	}
}

func TestSettings_ThatCannotWorkAreRefused(t *testing.T) {
	const at = "http://127.0.0.1:4318"
	for want, environment := range map[string][]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT":                    {"OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318"},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT":             {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "127.0.0.1:4318"},
		"OTEL_EXPORTER_OTLP_PROTOCOL":                    {"OTEL_EXPORTER_OTLP_ENDPOINT", at, "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
		"OTEL_TRACES_EXPORTER":                           {"OTEL_EXPORTER_OTLP_ENDPOINT", at, "OTEL_TRACES_EXPORTER", "zipkin"},
		"OTEL_EXPORTER_OTLP_HEADERS: is not of the form": {"OTEL_EXPORTER_OTLP_ENDPOINT", at, "OTEL_EXPORTER_OTLP_HEADERS", "hunter2"},
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS: is not of the": {
			"OTEL_EXPORTER_OTLP_ENDPOINT", at, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "hunter2",
		},
	} {
		if _, err := load(environment...); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, environment := range [][]string{nil, {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}} {
		if _, err := load(environment...); err != nil {
			t.Errorf("off, but refused: %v", err)
		}
	}
}

// BenchmarkTraced is what a request with three questions costs, off and on.
func BenchmarkTraced(b *testing.B) {
	c := tracingtest.New(b)
	for name, environment := range map[string][]string{"off": nil, "on": {"OTEL_EXPORTER_OTLP_ENDPOINT", c.URL}} {
		b.Run(name, func(b *testing.B) {
			tracer := start(b, &bytes.Buffer{}, settings(b, environment...))
			defer tracer.Stop(b.Context())
			r := fromProxy(request("Traceparent", remote))
			b.ReportAllocs()
			for b.Loop() {
				ctx, span := tracer.Request(r, "POST", "/")
				for range 3 {
					_, call := tracing.Call(ctx, "redis", "evalsha")
					call.End("")
				}
				span.Answered(http.StatusOK)
			}
		})
	}
}
