package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
)

// browser does what a frontend does: it keeps cookies, reads the
// cookie csrf-token, and sends its value as X-CSRF-Token with what changes
// state.
type browser struct {
	t      *testing.T
	origin *url.URL
	http.Client
}

// answer is a response that was read whole.
type answer struct {
	*http.Response
	body []byte
}

type member struct {
	ID          int64  `json:"id"`
	Username    string `json:"username"`
	DisplayName string `json:"display_name"`
	AvatarColor string `json:"avatar_color"`
	Role        string `json:"role"`
}

func newBrowser(t *testing.T, origin string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(origin)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t: t, origin: u, Client: http.Client{Jar: jar, Timeout: time.Minute}}
}

// admin is a browser in which the first administrator is logged in.
func (w *world) admin(t *testing.T) *browser {
	t.Helper()
	password, err := w.AdminPassword()
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, w.PublicURL)
	b.login(layout.AdminName, password)
	return b
}

// member is a browser in which a new member is logged in.
func (w *world) member(t *testing.T, username string) (*browser, member) {
	t.Helper()
	const password = "a password of eight"
	user := w.admin(t).create(username, password)
	b := newBrowser(t, w.PublicURL)
	b.login(username, password)
	return b, user
}

// request sends a request as the frontend does: a body is JSON, and what changes
// state carries the token.
func (b *browser) request(method, path, body string, headers ...string) answer {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.origin.String()+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if method != http.MethodGet {
		req.Header.Set("X-CSRF-Token", b.cookie("csrf-token"))
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return b.send(req)
}

func (b *browser) send(req *http.Request) answer {
	b.t.Helper()
	resp, err := b.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer{Response: resp, body: content}
}

// want fails the test unless the answer has a status, and reads its body into v
// unless v is nil.
func (a answer) want(t *testing.T, status int, v any) answer {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("%s %s: got %d, want %d: %s", a.Request.Method, a.Request.URL.Path, a.StatusCode, status, a.body)
	}
	if status >= 400 {
		var fault struct {
			Error string `json:"error"`
			Code  int    `json:"code"`
		}
		if err := json.NewDecoder(bytes.NewReader(a.body)).Decode(&fault); err != nil || fault.Error == "" || fault.Code != status {
			t.Fatalf("%s %s: %d without error and code: %s", a.Request.Method, a.Request.URL.Path, status, a.body)
		}
	}
	if v != nil {
		if err := json.Unmarshal(a.body, v); err != nil {
			t.Fatalf("%v: %s", err, a.body)
		}
	}
	return a
}

func (b *browser) cookie(name string) string {
	for _, c := range b.Jar.Cookies(b.origin) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

func (b *browser) login(username, password string) member {
	b.t.Helper()
	var in struct {
		User      member `json:"user"`
		CSRFToken string `json:"csrfToken"`
	}
	b.request("POST", "/api/v1/auth/login", credentials(username, password)).want(b.t, 200, &in)
	if in.CSRFToken == "" || in.CSRFToken != b.cookie("csrf-token") {
		b.t.Fatalf("the token is %q in the body and %q in the cookie", in.CSRFToken, b.cookie("csrf-token"))
	}
	return in.User
}

func (b *browser) create(username, password string) member {
	b.t.Helper()
	body, err := json.Marshal(map[string]string{"username": username, "display_name": "Das ist " + username, "password": password})
	if err != nil {
		b.t.Fatal(err)
	}
	var out struct {
		User member `json:"user"`
	}
	b.request("POST", "/api/v1/auth/users", string(body)).want(b.t, 201, &out)
	return out.User
}

// me is what the frontend calls at its start: 401 means that the session is
// over.
func (b *browser) me(status int) member {
	b.t.Helper()
	var out struct {
		User member `json:"user"`
	}
	b.request("GET", "/api/v1/auth/me", "").want(b.t, status, &out)
	return out.User
}

func credentials(username, password string) string {
	body, err := json.Marshal(map[string]string{"username": username, "password": password})
	if err != nil {
		panic(err) // strings can be marshalled
	}
	return string(body)
}

// eventually repeats a check until it holds, for at most ten seconds.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if last = check(t.Context()); last == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, last)
}
