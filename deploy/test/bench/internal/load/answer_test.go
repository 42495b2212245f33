package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestAnAnswerIsWholeWhenItsBodyIsThere(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		status int
	}{
		"with a length":           {"HTTP/1.1 402 Payment Required\r\nContent-Length: 2\r\n\r\n{}", 402},
		"with a name in any case": {"HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 0\r\n\r\n", 200},
		"in chunks":               {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 200},
		"without a body":          {"HTTP/1.1 204 No Content\r\n\r\n", 204},
	} {
		for n := range len(c.text) {
			if _, ok, err := whole([]byte(c.text[:n])); ok || err != nil {
				t.Errorf("%s, %d bytes of it: %v, %v", name, n, ok, err)
			}
		}
		if status, ok, err := whole([]byte(c.text)); status != c.status || !ok || err != nil {
			t.Errorf("%s: %d, %v, %v", name, status, ok, err)
		}
	}
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"} {
		if _, _, err := whole([]byte(text)); !errors.Is(err, errAnswer) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzAnswer compares with net/http: where both read an answer with a length,
// they agree.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		status, ok, err := whole(data)
		resp, httpErr := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), nil)
		if err != nil || !ok || httpErr != nil || resp.ContentLength < 0 {
			return
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.ReadAll(resp.Body); err == nil && status != resp.StatusCode {
			t.Errorf("%d, want %d", status, resp.StatusCode)
		}
	})
}

func TestEveryAnswerCounts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/asked" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer server.Close()
	job := Job{
		Addr: strings.TrimPrefix(server.URL, "http://"), Conns: 4, For: 200 * time.Millisecond, Status: http.StatusOK,
		Request: func() []byte { return []byte("GET /asked HTTP/1.1\r\nHost: x\r\n\r\n") },
	}
	for name, run := range map[string]func() (Result, error){
		"as fast as it goes": func() (Result, error) { return Run(context.Background(), job) },
		"at a pace":          func() (Result, error) { return Pace(context.Background(), job, 50) },
	} {
		result, err := run()
		if err != nil || result.Answers < 2 || result.Rate <= 0 || len(result.Latencies) != result.Answers || result.Quantile(.5) <= 0 || result.Quantile(.5) > result.Quantile(1) {
			t.Errorf("%s: %d answers, %v", name, result.Answers, err)
		}
	}
	job.Status = http.StatusNotFound
	if _, err := Run(context.Background(), job); err == nil {
		t.Error("another status was taken")
	}
	if _, err := Pace(context.Background(), job, 50); err == nil {
		t.Error("another status was taken at a pace")
	}
}

func TestTheRateIsTheServersOwn(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		answered []time.Duration
		rate     float64
	}{
		"nothing":                     {nil, 0},
		"nothing after the start":     {[]time.Duration{second / 8}, 0},
		"only after the end":          {[]time.Duration{2 * second}, 0},
		"one in each tenth":           {[]time.Duration{second / 10, second / 5, 3 * second / 10, 2 * second / 5, second / 2}, 10},
		"the first late":              {[]time.Duration{second / 2, second}, 2},
		"many of the end do not help": {[]time.Duration{second / 5, 7 * second / 10, 2 * second, 2 * second, 2 * second}, 2},
	} {
		if got := steadyRate(c.answered, second); got < c.rate-1e-9 || got > c.rate+1e-9 {
			t.Errorf("%s: %v a second, not %v", name, got, c.rate)
		}
	}
}
