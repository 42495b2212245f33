package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestLoadCountsTheAnswersOfWrkAndRefusesOthers(t *testing.T) {
	if _, err := exec.LookPath("wrk"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("wrk is not installed, and CI is set")
		}
		t.Skip("wrk is not installed")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Client") == "" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer server.Close()
	s := &suite{scratch: t.TempDir(), output: t.Output()}
	known := func(name string) []byte { return request(http.MethodGet, "/", "", http.Header{"X-Client": {name}}) }
	j := job{addr: strings.TrimPrefix(server.URL, "http://"), clients: 4, duration: time.Second, requests: [][]byte{known("a"), known("b")}, status: http.StatusOK}
	if r, err := s.load(t.Context(), j); err != nil || r.Answers < 2 || r.P50 <= 0 || r.Microseconds < 500_000 {
		t.Errorf("got %+v, %v", r, err)
	}
	once := j
	once.once = true
	if _, err := s.load(t.Context(), once); err == nil {
		t.Error("requests that may be sent once were sent again")
	}
	j.requests = append(j.requests, request(http.MethodGet, "/", "", nil))
	if _, err := s.load(t.Context(), j); err == nil {
		t.Error("an answer of another status was counted")
	}
	if err := first(t.Context(), job{addr: j.addr, requests: j.requests[2:], status: http.StatusOK}); err == nil {
		t.Error("a first answer of another status was accepted")
	}
}
