package facilitator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/facilitator"
)

// calls records what a client reports of its calls.
type calls struct {
	mu  sync.Mutex
	all []string
}

func (c *calls) called(call, outcome string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call+" "+outcome)
	if took < 0 {
		c.all = append(c.all, "took less than nothing")
	}
}

func (c *calls) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.all, ", ")
}

func serve(t *testing.T, handler http.HandlerFunc) (*facilitator.Client, *calls) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return client(t, server.URL+"/x402/")
}

func client(t *testing.T, url string) (*facilitator.Client, *calls) {
	t.Helper()
	seen := &calls{}
	c, err := facilitator.New(facilitator.Options{URL: url, Now: time.Now, Called: seen.called})
	if err != nil {
		t.Fatal(err)
	}
	return c, seen
}

func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestClient_PostsAQuestionToTheBase(t *testing.T) {
	c, seen := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || string(body) != `{"x":1}` {
			t.Errorf("called %s %s with %q", r.Method, r.Header, body)
		}
		switch r.URL.Path {
		case "/x402/verify":
			_, _ = io.WriteString(w, `{"isValid":true,"payer":"0xb0b","more":null}`)
		case "/x402/settle":
			_, _ = io.WriteString(w, `{"success":true,"transaction":"0x1","network":"n","payer":"0xb0b"}`)
		}
	})
	v, err := c.Verify(context.Background(), []byte(`{"x":1}`))
	if err != nil || !*v.IsValid || v.Payer != "0xb0b" {
		t.Errorf("verify: %+v, %v", v, err)
	}
	s, err := c.Settle(context.Background(), []byte(`{"x":1}`))
	if err != nil || !*s.Success || s.Transaction != "0x1" {
		t.Errorf("settle: %+v, %v", s, err)
	}
	if seen.String() != "verify ok, settle ok" {
		t.Errorf("told %s", seen)
	}
}

func TestClient_ReadsJSONWhateverTheStatus(t *testing.T) {
	for _, status := range []int{200, 400, 402, 409, 422, 429, 500, 502} {
		c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			if strings.HasSuffix(r.URL.Path, "verify") {
				_, _ = io.WriteString(w, `{"isValid":false,"invalidReason":"insufficient_funds"}`)
			} else {
				_, _ = io.WriteString(w, `{"success":false,"errorReason":"settlement_pending","transaction":"0x1","network":"n"}`)
			}
		})
		v, err := c.Verify(context.Background(), nil)
		if err != nil || *v.IsValid || v.InvalidReason != "insufficient_funds" {
			t.Errorf("%d: %+v, %v", status, v, err)
		}
		s, err := c.Settle(context.Background(), nil)
		if err != nil || *s.Success || s.ErrorReason != "settlement_pending" || s.Transaction != "0x1" {
			t.Errorf("%d: %+v, %v", status, s, err)
		}
	}
}

func TestClient_AnAnswerWithoutAVerdictIsAnError(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"no JSON":                      answering(200, "<html>"),
		"nothing":                      answering(200, ""),
		"no verdict":                   answering(200, `{"payer":"0xb0b"}`),
		"a verdict of null":            answering(200, `{"isValid":null,"success":null}`),
		"a verdict in a string":        answering(200, `{"isValid":"true","success":"true"}`),
		"a verdict in capitals":        answering(200, `{"IsValid":true,"SUCCESS":true}`),
		"two verdicts":                 answering(200, `{"isValid":false,"isValid":true,"success":false,"success":true}`),
		"yes with a status of failure": answering(500, `{"isValid":true,"success":true,"transaction":"0x1","network":"n"}`),
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		},
		"a huge body": answering(200, `{"isValid":true,"success":true,"x":"`+strings.Repeat("x", 300<<10)+`"}`),
		"half a body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			_, _ = io.WriteString(w, `{"isValid":`)
		},
		"unauthorized": answering(401, `{"error":"no"}`),
	} {
		c, seen := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/other" {
				t.Error("a redirect was followed")
			}
			handler(w, r)
		})
		_, err := c.Verify(context.Background(), nil)
		_, settleErr := c.Settle(context.Background(), nil)
		for _, err := range []error{err, settleErr} {
			if !errors.Is(err, facilitator.ErrAway) || errors.Is(err, payment.ErrFacilitatorLimit) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if want := "verify unusable, verify unusable, settle unusable"; seen.String() != want {
			t.Errorf("%s: told %s, want %s", name, seen, want)
		}
	}
}

func TestClient_DoesNotCallBeforeTheRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		status     int
		retryAfter string
		body       string
		want       time.Duration
	}{
		"a limit":                          {status: 402, body: "pay"},
		"a limit for two minutes":          {status: 402, retryAfter: "120", want: 2 * time.Minute},
		"a limit until a date":             {status: 402, retryAfter: date(90 * time.Second), want: 90 * time.Second},
		"a limit for a month":              {status: 402, retryAfter: "2592000", want: time.Hour},
		"a limit that is over":             {status: 402, retryAfter: date(-time.Hour), want: time.Second},
		"a limit for a while":              {status: 402, retryAfter: "soon"},
		"busy":                             {status: 429, want: time.Second},
		"busy, in words of a limit":        {status: 429, body: `{"errorType":"rate_limit_exceeded","error":"quota, free_tier, billing"}`, want: time.Second},
		"busy for three seconds":           {status: 429, retryAfter: "3", want: 3 * time.Second},
		"busy until a date":                {status: 429, retryAfter: date(5 * time.Second), want: 5 * time.Second},
		"busy for no time":                 {status: 429, retryAfter: "0", want: time.Second},
		"busy for a day":                   {status: 429, retryAfter: "86400", want: 10 * time.Second},
		"busy for longer than can be read": {status: 429, retryAfter: "99999999999999999999", want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var called atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if called.Add(1) > 2 {
					_, _ = io.WriteString(w, `{"isValid":true}`)
					return
				}
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			t.Cleanup(server.Close)
			clock, seen := now, &calls{}
			f, err := facilitator.New(facilitator.Options{URL: server.URL, Now: func() time.Time { return clock }, Called: seen.called})
			if err != nil {
				t.Fatal(err)
			}
			limit := c.status == http.StatusPaymentRequired
			check := func(err error, want time.Duration) {
				t.Helper()
				var later *payment.LaterError
				if !errors.As(err, &later) || later.After != want || errors.Is(err, payment.ErrFacilitatorLimit) != limit ||
					errors.Is(err, facilitator.ErrAway) == limit || errors.Is(err, payment.ErrNoVerdict) {
					t.Errorf("got %v after %+v, want %s", err, later, want)
				}
			}
			_, err = f.Verify(context.Background(), nil)
			check(err, c.want)
			_, err = f.Settle(context.Background(), nil)
			check(err, c.want)
			told := "verify unusable, settle unusable"
			if limit {
				told = "verify limit, settle limit"
			} else {
				clock = clock.Add(c.want - time.Millisecond)
				_, err = f.Verify(context.Background(), nil)
				check(err, time.Millisecond)
				told += ", verify open"
				clock = clock.Add(time.Millisecond)
			}
			if seen.String() != told || called.Load() != 2 {
				t.Errorf("reported %s, called %d times", seen, called.Load())
			}
			if _, err := f.Verify(context.Background(), nil); err != nil {
				t.Errorf("after the pause: %v", err)
			}
		})
	}
}

func TestClient_RepeatsACheckOnceAndASettlingNever(t *testing.T) {
	var called atomic.Int32
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if called.Add(1) == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, `{"isValid":true}`)
	})
	if _, err := c.Verify(context.Background(), nil); err != nil || called.Load() != 2 {
		t.Errorf("%v after %d", err, called.Load())
	}
	called.Store(0)
	if _, err := c.Settle(context.Background(), nil); err == nil || called.Load() != 1 {
		t.Errorf("%v after %d", err, called.Load())
	}
}

// Else a caller who hangs up in time hides that there was no answer.
func TestClient_ACallerWhoLeavesDuringTheSecondCheckHidesNoFailure(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	var called atomic.Int32
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if called.Add(1) == 1 {
			w.WriteHeader(http.StatusGatewayTimeout)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		leave()
		<-r.Context().Done()
	})
	_, err := c.Verify(ctx, []byte("{}"))
	if !errors.Is(err, facilitator.ErrAway) || errors.Is(err, context.Canceled) || called.Load() != 2 {
		t.Errorf("%v after %d", err, called.Load())
	}
}

func TestClient_ACallEndsWithItsContext(t *testing.T) {
	c, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the caller goes
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := c.Verify(ctx, []byte("{}")); !errors.Is(err, facilitator.ErrAway) || time.Since(began) > 2*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

func TestClient_ReadsSupported(t *testing.T) {
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/x402/supported" {
			t.Errorf("called %s %s", r.Method, r.URL)
		}
		_, _ = io.WriteString(w, `{"kinds":[{"x402Version":2,"scheme":"exact","network":"eip155:8453"}]}`)
	})
	s, err := c.Supported(context.Background())
	if err != nil || len(s.Kinds) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestClient_OnlyAWebAddressIsAFacilitator(t *testing.T) {
	for _, url := range []string{"", "x402.org", "ftp://x", "https://", "https://user:secret@host/", "https://host/?key=1"} {
		_, err := facilitator.New(facilitator.Options{URL: url, Now: time.Now})
		if err == nil || strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func FuzzFacilitatorAnswers(f *testing.F) {
	f.Add(200, `{"isValid":true,"success":true,"transaction":"0x1","network":"n","payer":"p"}`)
	f.Add(400, `{"isValid":false,"invalidReason":"x","success":false,"errorReason":"y"}`)
	f.Add(200, `{"success":tru`)
	status, body := 200, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	f.Cleanup(server.Close)
	c, err := facilitator.New(facilitator.Options{URL: server.URL, Now: time.Now})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, code int, text string) {
		status, body = 200+max(0, code)%400, text
		answer, err := c.Settle(context.Background(), nil)
		if err == nil && answer.Success == nil {
			t.Errorf("%d %q was taken for an answer", status, text)
		}
		if err == nil && *answer.Success && status >= 300 {
			t.Errorf("%d %q was taken for a yes", status, text)
		}
	})
}
