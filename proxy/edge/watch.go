package edge

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// maxChecking is how many checks of lasting requests one Guard has under way at once.
const maxChecking = 16

// answerWithin is how long the service has for the check of a lasting request.
const answerWithin = 15 * time.Second

// abortAfter is how long a request that was ended has to notice that itself, before its
// connection gets deadlines in the past.
const abortAfter = time.Second

// watchKey is the same for all requests to one host with the same credentials.
type watchKey [sha256.Size]byte

// credentialHeaders are those that a service may tell users by.
var credentialHeaders = []string{"Cookie", "Authorization", AppToken}

func keyOf(q *http.Request) watchKey {
	parts := []string{q.Host}
	for _, name := range credentialHeaders {
		parts = append(parts, strings.Join(q.Header[name], "\n"))
	}
	return watchKey(sha256.Sum256([]byte(strings.Join(parts, "\n\n")))) // no value has a line break
}

// watches are the requests of one Guard that last.
type watches struct {
	recheck, grace time.Duration
	log            *slog.Logger
	// check decides again about a request that passed.
	check func(q *http.Request) verdict
	// checking bounds how many checks are under way at once.
	checking chan struct{}

	mu    sync.Mutex
	byKey map[watchKey]*watch
}

// watch checks all lasting requests with the same key.
type watch struct {
	key     watchKey
	request *http.Request
	streams map[*stream]struct{}
	// done is closed when the last of them has ended.
	done chan struct{}
}

// stream is a request that passed.
type stream struct {
	request  *http.Request
	identity []string
	cancel   context.CancelFunc
	conn     *http.ResponseController
	start    *time.Timer

	// The fields below are the watches' own, under their lock.
	watch *watch
	ended bool
	// passed is when the service last allowed the request.
	passed time.Time
	// no is why the request was ended, nil while it was not.
	no *verdict
}

// begin returns a stream for a request that passed with the check q. If it lasts longer than recheck, it is
// checked again.
func (ws *watches) begin(
	q *http.Request, identity []string, cancel context.CancelFunc, conn *http.ResponseController,
) *stream {
	s := &stream{request: q, identity: identity, cancel: cancel, conn: conn, passed: time.Now()}
	s.start = time.AfterFunc(ws.recheck, func() { ws.join(s) })
	return s
}

// end ends the checks of a request. It must be called before the request's handler returns.
func (ws *watches) end(s *stream) {
	s.start.Stop()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	w := s.watch
	if w == nil {
		return
	}
	delete(w.streams, s)
	if len(w.streams) == 0 {
		delete(ws.byKey, w.key)
		close(w.done)
	}
}

// wasCut reports whether a request was ended by cut.
func (ws *watches) wasCut(s *stream) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return s.no != nil
}

// join adds a request that lasts to those that are checked.
func (ws *watches) join(s *stream) {
	key := keyOf(s.request)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if s.ended {
		return
	}
	w := ws.byKey[key]
	if w == nil {
		w = &watch{key: key, request: s.request, streams: map[*stream]struct{}{}, done: make(chan struct{})}
		ws.byKey[key] = w
		go ws.run(w)
	}
	s.watch = w
	w.streams[s] = struct{}{}
}

// run checks at once and then every recheck, until the last request has ended. A check that gets no place within
// recheck is no decision.
func (ws *watches) run(w *watch) {
	ticker := time.NewTicker(ws.recheck)
	defer ticker.Stop()
	for {
		v := verdict{err: errSilent}
		select {
		case ws.checking <- struct{}{}:
			v = ws.answer(w.request)
			<-ws.checking
		case <-time.After(ws.recheck): // too many wait for an answer
		}
		ws.apply(w, v)
		select {
		case <-w.done:
			return
		case <-ticker.C:
		}
	}
}

// answer returns the service's decision. A panic in the handlers counts as no decision; it must not
// end the proxy.
func (ws *watches) answer(q *http.Request) (v verdict) {
	defer func() {
		if p := recover(); p != nil {
			ws.log.Error("panic while checking a lasting request", "panic", p)
			v = verdict{err: errNoAnswer}
		}
	}()
	return ws.check(q)
}

// apply ends the requests of w that may not go on.
func (ws *watches) apply(w *watch, v verdict) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for s := range w.streams {
		switch {
		case v.passed() && slices.Equal(v.identity, s.identity):
			s.passed = time.Now()
		case v.passed():
			ws.cut(s, verdict{err: caddyhttp.Error(http.StatusForbidden, errChanged)})
		case v.refused():
			ws.cut(s, v)
		case time.Since(s.passed) >= ws.grace:
			ws.cut(s, verdict{err: caddyhttp.Error(http.StatusBadGateway, errSilent)})
		}
	}
}

// cut ends a request: what waits for the application is canceled at once, and what
// waits for the client abortAfter later. The caller holds the lock.
func (ws *watches) cut(s *stream, no verdict) {
	if s.no != nil {
		return
	}
	s.no = &no
	reason := "refused"
	if no.err != nil {
		reason = no.err.Error()
	}
	ws.log.Info("ended a request that may not go on", "reason", reason)
	s.cancel()
	time.AfterFunc(abortAfter, func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		if !s.ended {
			past := time.Unix(1, 0)
			_ = s.conn.SetWriteDeadline(past) // a connection that knows no deadline ends by itself
			_ = s.conn.SetReadDeadline(past)
		}
	})
}
