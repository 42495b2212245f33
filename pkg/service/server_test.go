package service_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/service"
)

// start runs one server on a free port and returns its address, its stop and the
// channel of its end.
func start(t *testing.T, drain time.Duration, h http.Handler) (addr string, stop context.CancelFunc, end <-chan error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ready := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- service.Serve(ctx, func(addrs []net.Addr) { ready <- addrs[0].String() },
			service.Server{Name: "main", Addr: "127.0.0.1:0", Handler: h, Drain: drain})
	}()
	select {
	case addr = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return addr, stop, ended
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(body)
}

func TestStop_RequestsUnderWayFinish(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	addr, stop, end := start(t, 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-leave
		if r.Context().Err() != nil {
			t.Error("the request was cancelled")
		}
		_, _ = io.WriteString(w, "done")
	}))
	answer := make(chan string, 1)
	go func() {
		_, body := get(t, "http://"+addr)
		answer <- body
	}()
	<-entered
	stop()
	for refused := false; !refused; {
		conn, err := net.Dial("tcp", addr)
		if refused = err != nil; !refused {
			_ = conn.Close()
		}
	}
	close(leave)
	if got := <-answer; got != "done" {
		t.Errorf("got %q", got)
	}
	if err := <-end; err != nil {
		t.Error(err)
	}
}

func TestStop_WaitsNoLongerThanDrain(t *testing.T) {
	entered := make(chan struct{})
	leave := make(chan struct{})
	defer close(leave)
	addr, stop, end := start(t, 10*time.Millisecond, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-leave
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr, nil)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-entered
	stop()
	if err := <-end; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestServer_NeedsAllAddressesFree(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	err = service.Serve(t.Context(), func([]net.Addr) { t.Error("it served") },
		service.Server{Name: "main", Addr: "127.0.0.1:0"}, service.Server{Name: "admin", Addr: taken.Addr().String()})
	if err == nil {
		t.Error("no error")
	}
}

func TestServer_AdminHasLivezAndMetricsOnly(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "m 1") })
	addr, stop, _ := start(t, 0, service.Admin(metrics))
	defer stop()
	for path, want := range map[string]int{"/livez": 200, "/metrics": 200, "/": 404} {
		if status, _ := get(t, "http://"+addr+path); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestHealthcheck_FailsUnlessTheAnswerIs200(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	addr, stop, _ := start(t, 0, mux)
	defer stop()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Healthcheck(t.Context(), ":"+port); err != nil {
		t.Error(err)
	}
	other, stopOther, _ := start(t, 0, http.NotFoundHandler())
	defer stopOther()
	for _, bad := range []string{other, "127.0.0.1:1", "nowhere"} {
		if err := service.Healthcheck(t.Context(), bad); err == nil {
			t.Errorf("%v is healthy", bad)
		}
	}
}

func TestServer_CollectsGarbageInBulk(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // tests run with another
	_, stop, _ := start(t, 0, http.NotFoundHandler())
	defer stop()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.NextGC-m.HeapAlloc < 8<<20 {
		t.Errorf("the next collection is after %d bytes", m.NextGC-m.HeapAlloc)
	}
}
