package httpapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// anna is a browser of the admin, who is logged in.
func (h *fixture) anna() *browser { return h.loggedIn("anna", adminPass) }

// otto is a browser of the member, who is logged in.
func (h *fixture) otto() *browser { return h.loggedIn("otto", userPass) }

func (h *fixture) loggedIn(username, pass string) *browser {
	h.t.Helper()
	b := h.browser()
	b.login(username, pass).want(http.StatusOK)
	return b
}

// fastBrowser returns a browser for bursts.
func (h *fixture) fastBrowser() *browser {
	b := h.browser()
	b.unchecked = true
	return b
}

// browser keeps cookies and sends the CSRF token as a frontend does.
type browser struct {
	h         *fixture
	cookies   map[string]string
	addr      string // host:port of the peer
	unchecked bool   // answers are not checked against the description, which is slow
}

func (h *fixture) browser() *browser {
	return &browser{h: h, cookies: map[string]string{}, addr: "192.0.2.1:1234"}
}

// send sends a request with a JSON body, unless that is empty, and checks the
// answer against the API's description. Further headers come in pairs; an empty
// value removes one.
func (b *browser) send(method, path, body string, headers ...string) reply {
	b.h.t.Helper()
	return b.sendBody(method, path, strings.NewReader(body), headers...)
}

func (b *browser) sendBody(method, path string, body io.Reader, headers ...string) reply {
	b.h.t.Helper()
	r := httptest.NewRequestWithContext(b.h.t.Context(), method, path, body)
	r.RemoteAddr = b.addr
	r.Header.Set("Content-Type", "application/json")
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	if token := b.cookies["csrf-token"]; token != "" && method != http.MethodGet {
		r.Header.Set("X-CSRF-Token", token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	return b.do(r)
}

func (b *browser) do(r *http.Request) reply {
	b.h.t.Helper()
	recorder := httptest.NewRecorder()
	b.h.handler.ServeHTTP(recorder, r)
	result := recorder.Result()
	for _, cookie := range result.Cookies() {
		b.cookies[cookie.Name] = cookie.Value
		if cookie.MaxAge < 0 {
			delete(b.cookies, cookie.Name)
		}
	}
	answer := reply{t: b.h.t, to: r, status: result.StatusCode, header: result.Header, body: recorder.Body.Bytes(), what: r.Method + " " + r.URL.Path}
	if !b.unchecked {
		describe(b.h.t, r, answer)
	}
	return answer
}

func (b *browser) get(path string) reply { return b.send(http.MethodGet, path, "") }

func (b *browser) login(username, pass string) reply {
	b.h.t.Helper()
	return b.send(http.MethodPost, prefix+"/login", object("username", username, "password", pass))
}

func (b *browser) logout() reply { return b.send(http.MethodPost, prefix+"/logout", "") }

func (b *browser) changePassword(current, replacement string) reply {
	b.h.t.Helper()
	return b.send(http.MethodPatch, prefix+"/me/password", object("current_password", current, "new_password", replacement))
}

const prefix = "/api/v1/auth"

// object is a JSON object of names and values in turn.
func object(pairs ...any) string {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	data, _ := json.Marshal(m) //nolint:errchkjson // strings and numbers
	return string(data)
}

// reply is an answer.
type reply struct {
	t      *testing.T
	to     *http.Request
	what   string
	status int
	header http.Header
	body   []byte
}

// want checks the status and, of a failure, the error body.
func (r reply) want(status int) reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%s: got %d %s, want %d", r.what, r.status, r.body, status)
	}
	if status < 400 {
		return r
	}
	var body map[string]any
	if err := json.Unmarshal(r.body, &body); err != nil {
		r.t.Fatalf("%s: %v in %s", r.what, err, r.body)
	}
	if text, _ := body["error"].(string); text == "" || body["code"] != float64(status) || len(body) != 2 {
		r.t.Errorf("%s: got the error body %s", r.what, r.body)
	}
	return r
}

// json reads the body into a T.
func read[T any](r reply) T {
	r.t.Helper()
	var v T
	if err := json.Unmarshal(r.body, &v); err != nil {
		r.t.Fatalf("%s: %v in %s", r.what, err, r.body)
	}
	return v
}

type person struct {
	ID          int64  `json:"id"`
	Username    string `json:"username"`
	DisplayName string `json:"display_name"`
	AvatarColor string `json:"avatar_color"`
	Role        string `json:"role"`
	CreatedAt   string `json:"created_at"`
}

type sessionBody struct {
	User      person  `json:"user"`
	CSRFToken *string `json:"csrfToken"`
}
