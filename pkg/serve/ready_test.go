package serve_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/serve"
)

func TestAServerThatLeavesSaysSoAndServesOn(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx, serve.Server{
			Name: "main", Addr: "127.0.0.1:0", Handler: serve.Ready(http.NotFoundHandler()), Leave: 500 * time.Millisecond,
			Ready: func(a net.Addr) { ready <- a.String() },
		})
	}()
	url := "http://" + <-ready
	if status, body := get(t, url+serve.ReadyPath); status != http.StatusOK || body != `{"status":"ok"}` {
		t.Errorf("before: %d %s", status, body)
	}
	stop()
	for deadline := time.Now().Add(5 * time.Second); ; {
		resp, err := http.Get(url + serve.ReadyPath)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable && resp.Close {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not say that it leaves: %v", resp)
		}
	}
	resp, err := http.Get(url + "/other")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound || !resp.Close {
		t.Errorf("a request while it leaves: %d, close %v", resp.StatusCode, resp.Close)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestOnlyAQuestionIsAnsweredAsReady(t *testing.T) {
	addr, stop, _ := start(t, 0, serve.Ready(http.NotFoundHandler()))
	defer stop()
	resp, err := http.Post("http://"+addr+serve.ReadyPath, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("a POST gets %d", resp.StatusCode)
	}
}
