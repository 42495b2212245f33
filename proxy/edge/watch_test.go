package edge

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Requests must end after the grace also when all checks that may be under way
// hang, so that no more can be sent.
func TestWatch_AnUncheckableRequestEndsAfterTheGrace(t *testing.T) {
	t.Parallel()
	ws := &watches{
		recheck: time.Millisecond, grace: 20 * time.Millisecond, log: slog.New(slog.DiscardHandler),
		check: func(*http.Request) verdict {
			t.Error("more checks than allowed")
			return verdict{}
		},
		byKey:    map[watchKey]*watch{},
		checking: make(chan struct{}), // as if it were full
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := ws.begin(httptest.NewRequest("GET", "/", nil), nil, cancel, http.NewResponseController(httptest.NewRecorder()))
	<-ctx.Done()
	if !ws.wasCut(s) {
		t.Error("it was not cut")
	}
	ws.end(s)
	if len(ws.byKey) != 0 {
		t.Error("it is watched after its end")
	}
}

// Nothing else would keep a panic during a check from ending the proxy.
func TestWatch_APanicDuringACheckIsNoAnswer(t *testing.T) {
	t.Parallel()
	ws := &watches{log: slog.New(slog.DiscardHandler), check: func(*http.Request) verdict { panic("a fault of the handler") }}
	if v := ws.answer(httptest.NewRequest("GET", "/", nil)); v.passed() || v.refused() {
		t.Errorf("got %+v", v)
	}
}
