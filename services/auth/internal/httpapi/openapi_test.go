package httpapi_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/api"
)

var document = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData(api.Document)
})

var router = sync.OnceValues(func() (routers.Router, error) {
	doc, err := document()
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(doc)
})

// seen holds "METHOD path status" of the answers given so far.
var seen sync.Map

// describe checks an answer against the description of the API. What the
// description does not know must be a 404 or a 405.
func describe(t *testing.T, r *http.Request, got reply) {
	t.Helper()
	known, err := router()
	if err != nil {
		t.Fatal(err)
	}
	route, params, err := known.FindRoute(r)
	if err != nil || strings.HasSuffix(r.URL.Path, "/") { // which the library takes for the path without
		if got.status != http.StatusNotFound && got.status != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d from a route that is not described", got.what, got.status)
		}
		return
	}
	seen.Store(fmt.Sprintf("%s %s %d", r.Method, route.Path, got.status), true)
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 got.status, Header: got.header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateResponse(t.Context(), input.SetBodyBytes(got.body)); err != nil {
		t.Errorf("%s: %d is not as described: %v", got.what, got.status, err)
	}
}

func TestOpenAPI_IsAValid31Document(t *testing.T) {
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil || doc.OpenAPI != "3.1.0" {
		t.Errorf("%s: %v", doc.OpenAPI, err)
	}
}

func TestOpenAPI_IsServed(t *testing.T) {
	got := newFixture(t).browser().get(prefix + "/openapi.json").want(http.StatusOK)
	if string(got.body) != string(api.Document) || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s, %d bytes", got.header.Get("Content-Type"), len(got.body))
	}
}

func TestOpenAPI_DescribesEveryRouteAndNoOther(t *testing.T) {
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	var described, served []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	for _, route := range newFixture(t).handler.(*echo.Echo).Routes() {
		served = append(served, route.Method+" "+strings.NewReplacer(":id", "{id}", ":slug", "{slug}").Replace(route.Path))
	}
	slices.Sort(described)
	slices.Sort(served)
	if diff := cmp.Diff(described, served); diff != "" {
		t.Errorf("described (-) and served (+): %s", diff)
	}
}

// TestMain fails a complete run in which a described answer was never given:
// then the description, or the tests, have too much or too little.
func TestMain(m *testing.M) {
	openapi3filter.RegisterBodyDecoder("text/html", func(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
		text, err := io.ReadAll(body)
		return string(text), err
	})
	code := m.Run()
	complete := func(name string) bool { return flag.Lookup(name).Value.String() == "" }
	if code == 0 && complete("test.run") && complete("test.skip") && complete("test.fuzz") && complete("test.list") {
		code = report(unseen())
	}
	os.Exit(code)
}

func report(missing []string) int {
	for _, m := range missing {
		fmt.Fprintln(os.Stderr, "described, but no test saw it: "+m)
	}
	return min(1, len(missing))
}

func unseen() []string {
	doc, err := document()
	if err != nil {
		return []string{err.Error()}
	}
	var missing []string
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			for status, response := range operation.Responses.Map() {
				if response.Ref == "#/components/responses/Starting" {
					continue // given before there is a handler, by package app
				}
				answer := method + " " + path + " " + status
				if _, ok := seen.Load(answer); !ok {
					missing = append(missing, answer)
				}
			}
		}
	}
	slices.Sort(missing)
	return missing
}
