package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/observability"
	"github.com/pforte/pforte/pkg/tracing/tracingtest"
)

// exposed reads a program's metrics: of each its type and labels, in the form of
// the page.
func exposed(t *testing.T, program, addr string) map[string]observability.Metric {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string]observability.Metric{}
	for name, family := range families {
		m := observability.Metric{Program: program, Name: name, Type: strings.ToLower(family.GetType().String())}
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				if !slices.Contains(m.Labels, label.GetName()) {
					m.Labels = append(m.Labels, label.GetName())
				}
			}
		}
		slices.Sort(m.Labels)
		metrics[name] = m
	}
	return metrics
}

func TestMetrics_PageIsWhatTheProgramsExpose(t *testing.T) {
	w := sharedWorld(t)
	w.admin(t)
	w.buy(t)
	page, err := observability.ReadPage(top + "/deploy/docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]observability.Metric{}
	addrs := map[string]string{"auth": w.AuthAdmin, "verifier": w.VerifierAdmin, "proxy": w.ProxyAdmin}
	for program, addr := range addrs {
		for name, m := range exposed(t, program, addr) {
			_, named := page[name]
			switch {
			case strings.HasPrefix(name, program+"_"), program == "proxy" && named && page[name].Program == "proxy":
				there[name] = m
			case named && page[name].Program == "others":
				m.Program = "others"
				there[name] = m
			}
		}
	}
	for name, m := range page {
		m.Meaning = ""
		page[name] = m
		if name == "up" || strings.HasPrefix(name, "probe_") {
			delete(page, name) // not ours to expose
		}
		if strings.HasPrefix(name, "verifier_log_") { // only where there is a log; the verifier's own tests compare them
			delete(page, name)
		}
	}
	if diff := cmp.Diff(page, there); diff != "" {
		t.Errorf("the page has (-), the programs have (+):\n%s", diff)
	}
}

func TestTraces_OneGoesThroughEveryProgram(t *testing.T) {
	c := tracingtest.New(t)
	outside := &headers{}
	w := newWorld(t, options{change: func(l *layout.Layout) {
		traced(l, c, "OTEL_SDK_DISABLED", "false")
		l.Extra["verifier"]["CHAIN_RPC_URLS"] = outside.before(t, l.Chain)
		l.Extra["verifier"]["FACILITATOR_URL"] = outside.before(t, l.Facilitator)
	}})
	b := w.admin(t)
	b.me(http.StatusOK)
	w.buy(t)
	me := []string{"proxy: GET", "auth: GET /api/v1/auth/me", "auth: redis load session", "auth: sql read user"}
	login := []string{"proxy: POST", "auth: POST /api/v1/auth/login", "auth: redis evalsha", "auth: sql read user", "auth: password compute"}
	bought := []string{
		"proxy: POST", "verifier: POST /v1/verify/chain-transaction", "verifier: rpc batch", "verifier: chain prove block",
		"verifier: facilitator verify", "verifier: facilitator settle", "verifier: sql write payment",
	}
	var loginTrace string
	spans := c.Wait(t, 20*time.Second, func(spans []tracingtest.Span) bool {
		loginTrace = traceWith(spans, login)
		return loginTrace != "" && traceWith(spans, me) != "" && traceWith(spans, bought) != ""
	})
	secrets := w.secrets(t, b)
	for _, s := range spans {
		t.Logf("%s %s: %s %s", s.Trace[:8], s.Service, s.Name, s.Took)
		for key, value := range s.Attributes {
			for what, secret := range secrets {
				if strings.Contains(value, secret) {
					t.Errorf("%s of %s holds %s in %s", s.Name, s.Service, what, key)
				}
			}
		}
	}
	for _, program := range []string{"auth", "proxy"} {
		if !strings.Contains(w.log(t, program), loginTrace) {
			t.Errorf("the log of %s does not name the trace of the login", program)
		}
	}
	if got := outside.named("Traceparent", "Tracestate", "Baggage"); len(got) > 0 || outside.count() < 4 {
		t.Errorf("nodes and the facilitator got %v in %d calls", got, outside.count())
	}
}

func TestTraces_NothingIsSentWhenOff(t *testing.T) {
	c := tracingtest.New(t)
	w := newWorld(t, options{change: func(l *layout.Layout) {
		traced(l, c, "OTEL_SDK_DISABLED", "true")
	}})
	w.admin(t)
	w.buy(t)
	time.Sleep(time.Second) // ten times what a span waits
	for _, program := range []string{"proxy", "auth", "verifier"} {
		log := strings.ReplaceAll(w.log(t, program), `"trace_id":""`, "")
		if strings.Contains(log, "trace_id") || strings.Contains(log, "traceID") {
			t.Errorf("%s logs a trace", program)
		}
	}
	if n := c.Requests.Load(); n != 0 {
		t.Errorf("%d messages were sent", n)
	}
}

// traced names the collector to every program, with one more setting.
func traced(l *layout.Layout, c *tracingtest.Collector, setting, value string) {
	for _, program := range []string{"auth", "verifier", "pforte-proxy"} {
		l.Extra[program] = map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_BSP_SCHEDULE_DELAY": "100", setting: value}
	}
}

// headers keeps the headers of all calls to programs that are not ours.
type headers struct {
	mu   sync.Mutex
	seen []http.Header
}

// before returns the URL of a proxy before a program.
func (h *headers) before(t *testing.T, addr string) string {
	t.Helper()
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	server := httptest.NewServer(readFirst(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.seen = append(h.seen, r.Header.Clone())
		h.mu.Unlock()
		forward.ServeHTTP(w, r)
	})))
	t.Cleanup(server.Close)
	return server.URL
}

func (h *headers) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.seen)
}

// named returns those of the headers that came.
func (h *headers) named(names ...string) (came []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, header := range h.seen {
		for _, name := range names {
			if header.Get(name) != "" {
				came = append(came, name)
			}
		}
	}
	return came
}

// traceWith returns a trace that has all steps, each but the first below another
// step of it.
func traceWith(spans []tracingtest.Span, steps []string) string {
	byTrace := map[string][]tracingtest.Span{}
	for _, s := range spans {
		byTrace[s.Trace] = append(byTrace[s.Trace], s)
	}
	for trace, all := range byTrace {
		ids, names := map[string]bool{"": true}, map[string]bool{}
		for _, s := range all {
			ids[s.ID] = true
		}
		for _, s := range all {
			names[s.Service+": "+s.Name] = ids[s.Parent]
		}
		if !slices.ContainsFunc(steps, func(step string) bool { return !names[step] }) {
			return trace
		}
	}
	return ""
}
