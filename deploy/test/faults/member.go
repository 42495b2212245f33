package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// person is a user of the household, and what was confirmed about him.
type person struct {
	name string
	id   int64
	// gone: his deletion was confirmed. changed: the change of his password was.
	gone, changed atomic.Bool
}

// session is one login that was answered.
type session struct {
	*person
	cookies, csrf string
	// old was made with the password before the change; keeper is the one that
	// changed it.
	old, keeper bool
	// ended: its logout, or its end in Redis, was confirmed.
	ended atomic.Bool
}

// over tells why a session must not be accepted any more, or nothing.
func (s *session) over() string {
	switch {
	case s.gone.Load():
		return "the deletion of its user"
	case s.changed.Load() && s.old && !s.keeper:
		return "the change of its user's password"
	case s.ended.Load():
		return "its end"
	}
	return ""
}

// result is the answer to one call; status 0 means that none came.
type result struct {
	status int
	body   []byte
	header http.Header
}

// door is where the household's browsers knock.
type door struct {
	url    string // of the proxy
	direct string // of auth, for the guard's question
	client *http.Client

	mu       sync.Mutex
	sessions []*session
}

func (d *door) ask(ctx context.Context, s *session, method, path string, body any) result {
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body) // maps of strings
	}
	request, err := http.NewRequestWithContext(ctx, method, d.url+"/api/v1/auth"+path, bytes.NewReader(text))
	if err != nil {
		return result{}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return d.send(request, s)
}

func (d *door) send(request *http.Request, s *session) result {
	if s != nil {
		request.Header.Set("Cookie", s.cookies)
		request.Header.Set("X-CSRF-Token", s.csrf)
	}
	response, err := d.client.Do(request) //nolint:gosec // to our own stack
	if err != nil {
		return result{}
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return result{}
	}
	return result{status: response.StatusCode, body: text, header: response.Header}
}

// guard asks auth as another application's door would.
func (d *door) guard(ctx context.Context, s *session) result {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.direct+"/internal/forward-auth", nil)
	if err != nil {
		return result{}
	}
	request.Header.Set("X-Forwarded-Method", http.MethodGet)
	request.Header.Set("X-Forwarded-Uri", "/api/v1/shopping")
	return d.send(request, s)
}

// login logs a person in and notes the session.
func (d *door) login(ctx context.Context, p *person, password string, old bool) (*session, int) {
	r := d.ask(ctx, nil, http.MethodPost, "/login", map[string]string{"username": p.name, "password": password})
	var answer struct {
		CSRFToken string `json:"csrfToken"`
	}
	if r.status != http.StatusOK || json.Unmarshal(r.body, &answer) != nil {
		return nil, r.status
	}
	s := &session{person: p, csrf: answer.CSRFToken, old: old}
	for _, cookie := range (&http.Response{Header: r.header}).Cookies() {
		s.cookies += cookie.Name + "=" + cookie.Value + "; "
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions = append(d.sessions, s)
	return s, r.status
}

// all gives the sessions so far.
func (d *door) all() []*session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*session(nil), d.sessions...)
}
