package httpapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/web"
)

type sample struct {
	Username string  `json:"username"`
	Role     *string `json:"role"`
}

func decodeSample(contentType, body string) (sample, error) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	var v sample
	err := decode(httptest.NewRecorder(), r, &v)
	return v, err
}

func TestDecode_ReadsAJSONObject(t *testing.T) {
	for _, contentType := range []string{"application/json", "Application/JSON; charset=utf-8"} {
		v, err := decodeSample(contentType, ` {"username":"anna","role":null,"remember":{"me":[1,null]}} `)
		if err != nil || v.Username != "anna" || v.Role != nil {
			t.Errorf("%s: got %+v, %v", contentType, v, err)
		}
	}
}

func TestDecode_AnythingElseIsMalformed(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":              "",
		"white space":          " ",
		"an array":             `[{"username":"anna"}]`,
		"null":                 `null`,
		"a string":             `"username"`,
		"another type":         `{"username":["admin"]}`,
		"a number":             `{"username":1}`,
		"a name twice":         `{"username":"anna","username":"otto"}`,
		"trailing bytes":       `{"username":"anna"}x`,
		"a second value":       `{"username":"anna"}{}`,
		"a broken end":         `{"username":"anna"`,
		"invalid UTF-8":        "{\"username\":\"\xff\"}",
		"a lone surrogate":     `{"username":"\ud800"}`,
		"a comment":            `{"username":"anna"/**/}`,
		"gzip":                 "\x1f\x8b\x08\x00",
		"endless nesting":      `{"x":` + strings.Repeat("[", 30000),
		"nested deep and well": `{"x":` + strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + `}`,
	} {
		if _, err := decodeSample("application/json", body); !errors.Is(err, web.ErrMalformed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestDecode_NamesAreCaseSensitive(t *testing.T) {
	v, err := decodeSample("application/json", `{"Username":"anna","USERNAME":"otto"}`)
	if err != nil || v.Username != "" {
		t.Errorf("got %+v, %v", v, err)
	}
}

func TestDecode_ABodyOfAnotherTypeIsNotRead(t *testing.T) {
	for _, contentType := range []string{
		"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", "text/json", "application/json, text/plain", ";",
	} {
		if _, err := decodeSample(contentType, `{"username":"anna"}`); !errors.Is(err, service.ErrMediaType) {
			t.Errorf("%q: got %v", contentType, err)
		}
	}
}

func TestDecode_ACompressedBodyIsNotRead(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Encoding", "gzip")
	if err := decode(httptest.NewRecorder(), r, &sample{}); !errors.Is(err, service.ErrMediaType) {
		t.Errorf("got %v", err)
	}
}

func TestDecode_ABodyMayHave64KBAndNotOneByteMore(t *testing.T) {
	fits := `{"username":"` + strings.Repeat("a", maxBody-len(`{"username":""}`)) + `"}`
	if v, err := decodeSample("application/json", fits); err != nil || len(fits) != maxBody || len(v.Username) < maxBody-20 {
		t.Errorf("%d bytes: %v", len(fits), err)
	}
	if _, err := decodeSample("application/json", fits+" "); !errors.Is(err, service.ErrBodyTooLarge) {
		t.Errorf("one byte more: got %v", err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(fits+" "))
	r.ContentLength = -1 // chunked
	r.Header.Set("Content-Type", "application/json")
	if err := decode(httptest.NewRecorder(), r, &sample{}); !errors.Is(err, service.ErrBodyTooLarge) {
		t.Errorf("one byte more in chunks: got %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("application/json", `{"username":"anna","role":"admin"}`)
	f.Add("application/json;x", `{"username":null}`)
	f.Fuzz(func(t *testing.T, contentType, body string) {
		v, err := decodeSample(contentType, body)
		if err != nil && !errors.Is(err, web.ErrMalformed) && !errors.Is(err, service.ErrMediaType) && !errors.Is(err, service.ErrBodyTooLarge) {
			t.Errorf("%q: an error without meaning: %v", body, err)
		}
		if err == nil && !strings.HasPrefix(strings.TrimLeft(body, " \t\r\n"), "{") {
			t.Errorf("%q was read as %+v", body, v)
		}
	})
}
