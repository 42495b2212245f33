package edge

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// TestWatch_AShortSilenceEndsNothing, and each answer that allows the request begins the grace anew.
func TestWatch_AShortSilenceEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		ws := &watches{
			recheck: 5 * time.Second, grace: time.Minute, log: slog.New(slog.DiscardHandler),
			check: func(*http.Request) verdict {
				if away.Load() {
					return verdict{err: errNoAnswer}
				}
				return verdict{answer: &recorded{status: http.StatusOK}}
			},
			byKey: map[watchKey]*watch{}, checking: make(chan struct{}, 1),
		}
		conn := http.NewResponseController(httptest.NewRecorder())
		s := ws.begin(httptest.NewRequest("GET", "/", nil), nil, func() {}, conn)
		time.Sleep(49 * time.Second)
		away.Store(false)
		time.Sleep(5 * time.Second)
		away.Store(true)
		time.Sleep(55 * time.Second)
		if ws.wasCut(s) {
			t.Error("it was cut within the grace")
		}
		time.Sleep(15 * time.Second)
		if !ws.wasCut(s) {
			t.Error("it was not cut after the grace")
		}
		ws.end(s)
		time.Sleep(10 * time.Second) // until nothing is checked any more
	})
}

// Nothing else would keep a panic during a check from ending the proxy.
func TestWatch_APanicDuringACheckIsNoAnswer(t *testing.T) {
	t.Parallel()
	ws := &watches{log: slog.New(slog.DiscardHandler), check: func(*http.Request) verdict { panic("a fault of the handler") }}
	if v := ws.answer(httptest.NewRequest("GET", "/", nil)); v.passed() || v.refused() {
		t.Errorf("got %+v", v)
	}
}
