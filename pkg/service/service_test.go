package service_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/freeport"
	"github.com/pforte/pforte/pkg/service"
)

// buffer is a log that several goroutines write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// run runs a service on free ports and returns its log and the channel of its end.
func run(ctx context.Context, t *testing.T, s service.Settings, ready func(addr, admin net.Addr), parts service.Parts) (*buffer, <-chan error) {
	t.Helper()
	log := &buffer{}
	svc, err := service.New(ctx, "test", service.Process{Stderr: log, Version: "v1", Ready: ready}, s)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- svc.Run(ctx, parts) }()
	return log, ended
}

func TestService_ListensFirstAndAnswersStarting(t *testing.T) {
	addrs, ctx, stop := addresses(t)
	defer stop()
	open, ready := make(chan struct{}), make(chan string, 1)
	var closed, worked bool
	log, ended := run(ctx, t, service.Settings{Addr: addrs[0], AdminAddr: addrs[1]}, func(a, _ net.Addr) { ready <- a.String() }, service.Parts{
		Open:       func(context.Context) (http.Handler, error) { <-open; return http.NotFoundHandler(), nil },
		Background: []func(context.Context){func(ctx context.Context) { <-ctx.Done(); worked = true }},
		Close:      func(context.Context) error { closed = worked; return nil },
		Starting:   `{"error":"starting"}`,
	})
	url := "http://" + addrs[0]
	var status int
	var body string
	for deadline := time.Now().Add(5 * time.Second); status == 0 && time.Now().Before(deadline); {
		if conn, err := net.Dial("tcp", addrs[0]); err == nil {
			_ = conn.Close()
			status, body = get(t, url+service.ReadyPath)
		}
	}
	if status != http.StatusServiceUnavailable || body != `{"error":"starting"}` {
		t.Errorf("while it starts: %d %s", status, body)
	}
	close(open)
	<-ready
	if status, body := get(t, url+service.ReadyPath); status != http.StatusOK || body != `{"status":"ok"}` {
		t.Errorf("once it serves: %d %s", status, body)
	}
	if status, _ := get(t, "http://"+addrs[1]+"/metrics"); status != http.StatusOK {
		t.Errorf("metrics: %d", status)
	}
	stop()
	if err := <-ended; err != nil || !closed {
		t.Errorf("it ended with %v, closed after its background work: %v", err, closed)
	}
	for _, want := range []string{`"msg":"serving","addr":"` + addrs[0] + `","admin_addr":"` + addrs[1] + `","version":"v1"`, `"msg":"stopped"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s is not in the log: %s", want, log)
		}
	}
}

// addresses returns two free addresses and a context with its end.
func addresses(t *testing.T) (addrs [2]string, ctx context.Context, stop context.CancelFunc) {
	t.Helper()
	for i := range addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addrs[i] = l.Addr().String()
		defer func() { _ = l.Close() }()
	}
	ctx, stop = context.WithCancel(t.Context())
	return addrs, ctx, stop
}

func TestService_ThatCannotOpenClosesWithTheError(t *testing.T) {
	broken, closed := errors.New("broken"), false
	_, ended := run(t.Context(), t, service.Settings{Addr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0"}, nil, service.Parts{
		Open:  func(context.Context) (http.Handler, error) { return nil, broken },
		Close: func(context.Context) error { closed = true; return nil },
	})
	if err := <-ended; !errors.Is(err, broken) || !closed {
		t.Errorf("got %v, closed %v", err, closed)
	}
}

func TestService_ServesWhileRunsAndEndsWithItsError(t *testing.T) {
	broken, status := errors.New("broken"), 0
	addr := listenable(t)
	_, ended := run(t.Context(), t, service.Settings{Addr: addr, AdminAddr: "127.0.0.1:0"}, nil, service.Parts{
		Open: func(context.Context) (http.Handler, error) { return http.NotFoundHandler(), nil },
		Opened: func(context.Context) error {
			for deadline := time.Now().Add(10 * time.Second); status == 0 && time.Now().Before(deadline); {
				if resp, err := http.Get("http://" + addr); err == nil {
					status = resp.StatusCode
					_ = resp.Body.Close()
				}
			}
			return broken
		},
	})
	if err := <-ended; !errors.Is(err, broken) || status != http.StatusNotFound {
		t.Errorf("got %v, status %d", err, status)
	}
}

// listenable returns an address that nothing listens on.
func listenable(t *testing.T) string {
	t.Helper()
	addrs, err := freeport.Addrs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return addrs[0]
}

func TestService_AStopWhileItOpensIsNoFailure(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	_, ended := run(ctx, t, service.Settings{Addr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0"}, nil, service.Parts{
		Open: func(ctx context.Context) (http.Handler, error) { stop(); return nil, ctx.Err() },
	})
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestService_ThatStopsIsNotReadyAndServesOn(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready := make(chan string, 1)
	_, ended := run(ctx, t, service.Settings{Addr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", ShutdownDelay: 500 * time.Millisecond},
		func(a, _ net.Addr) { ready <- a.String() },
		service.Parts{Open: func(context.Context) (http.Handler, error) { return http.NotFoundHandler(), nil }})
	url := "http://" + <-ready
	stop()
	for deadline := time.Now().Add(5 * time.Second); ; {
		resp, err := http.Get(url + service.ReadyPath)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable && resp.Close {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is still ready: %v", resp)
		}
	}
	resp, err := http.Get(url + "/other")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound || !resp.Close {
		t.Errorf("a request meanwhile: %d, close %v", resp.StatusCode, resp.Close)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestReadiness_OnlyAReadAsksForIt(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ready := make(chan string, 1)
	_, ended := run(ctx, t, service.Settings{Addr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0"}, func(a, _ net.Addr) { ready <- a.String() },
		service.Parts{Open: func(context.Context) (http.Handler, error) { return http.NotFoundHandler(), nil }})
	resp, err := http.Post("http://"+<-ready+service.ReadyPath, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("a POST gets %d", resp.StatusCode)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestService_WaitsForAStoreThatMayCome(t *testing.T) {
	log := &buffer{}
	svc, err := service.New(t.Context(), "test", service.Process{Stderr: log}, service.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	away, wrong := errors.New("away"), errors.New("wrong")
	attempts := 0
	open := func(context.Context) error {
		if attempts++; attempts < 3 {
			return away
		}
		return nil
	}
	mayCome := func(err error) bool { return errors.Is(err, away) }
	if err := service.WaitFor(t.Context(), svc.Log, "Redis", open, mayCome); err != nil || attempts != 3 {
		t.Errorf("got %v after %d attempts", err, attempts)
	}
	if n := strings.Count(log.String(), `"msg":"waiting for Redis","error":"away","next_attempt_in":`); n != 2 || !strings.Contains(log.String(), `"msg":"reached Redis"`) {
		t.Errorf("the log is %s", log)
	}
	if err := service.WaitFor(t.Context(), svc.Log, "Redis", func(context.Context) error { return wrong }, mayCome); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
}
