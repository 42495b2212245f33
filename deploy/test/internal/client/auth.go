package client

import (
	"context"
	"net/http"
	"strconv"
	"strings"
)

// Auth calls the service auth.
type Auth struct {
	// URL is the origin of the proxy, or of the service itself.
	URL string
	// HTTP is nil for http.DefaultClient.
	HTTP *http.Client
}

// Session is a login. Its cookies stay those of the login, also when a later answer
// renews or removes them.
type Session struct {
	UserID       int64
	Cookie, CSRF string
}

// Authorize adds the session to a request; nil adds nothing.
func (s *Session) Authorize(request *http.Request) {
	if s != nil {
		request.Header.Set("Cookie", s.Cookie)
		request.Header.Set("X-CSRF-Token", s.CSRF)
	}
}

// Call sends a request to a path below /api/v1/auth, with the session unless it is
// nil.
func (a Auth) Call(ctx context.Context, s *Session, method, path string, body any) Answer {
	return send(ctx, a.HTTP, method, a.URL+"/api/v1/auth"+path, body, s.Authorize)
}

// Login logs a user in and returns the answer, and the session, which is nil unless the answer is 200.
func (a Auth) Login(ctx context.Context, username, password string) (*Session, Answer) {
	answer := a.Call(ctx, nil, http.MethodPost, "/login", map[string]string{"username": username, "password": password})
	var login struct {
		User      struct{ ID int64 }
		CSRFToken string
	}
	if answer.Want(http.StatusOK, &login) != nil {
		return nil, answer
	}
	var cookies []string
	for _, cookie := range (&http.Response{Header: answer.Header}).Cookies() {
		cookies = append(cookies, cookie.Name+"="+cookie.Value)
	}
	return &Session{UserID: login.User.ID, CSRF: login.CSRFToken, Cookie: strings.Join(cookies, "; ")}, answer
}

// Guard calls auth, at its own address addr, to check whether a session may
// read an application's page.
func (a Auth) Guard(ctx context.Context, s *Session, addr string) Answer {
	return send(ctx, a.HTTP, http.MethodGet, "http://"+addr+"/internal/forward-auth", nil, func(r *http.Request) {
		r.Header.Set("X-Forwarded-Method", http.MethodGet)
		r.Header.Set("X-Forwarded-Uri", "/api/v1/shopping")
		s.Authorize(r)
	})
}

// CreateUser creates a user, as an administrator, and returns their id.
func (a Auth) CreateUser(ctx context.Context, admin *Session, username, role, password string) (int64, error) {
	var created struct{ User struct{ ID int64 } }
	err := a.Call(ctx, admin, http.MethodPost, "/users", map[string]string{
		"username": username, "display_name": username, "password": password, "role": role,
	}).Want(http.StatusCreated, &created)
	return created.User.ID, err
}

// DeleteUser deletes a user, as an administrator.
func (a Auth) DeleteUser(ctx context.Context, admin *Session, id int64) Answer {
	return a.Call(ctx, admin, http.MethodDelete, "/users/"+strconv.FormatInt(id, 10), nil)
}
