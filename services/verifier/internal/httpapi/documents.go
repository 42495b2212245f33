package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// document is a page that never changes while the process runs.
type document struct {
	mediaType string
	body      []byte
	etag      string
}

func newDocument(mediaType string, body []byte) document {
	sum := sha256.Sum256(body)
	return document{mediaType: mediaType, body: body, etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
}

func (d document) serve(c echo.Context) error {
	h := c.Response().Header()
	h.Set("Cache-Control", "max-age=300")
	h.Set("ETag", d.etag)
	if matches(c.Request().Header.Values("If-None-Match"), d.etag) {
		return c.NoContent(http.StatusNotModified)
	}
	return blob(c, http.StatusOK, d.mediaType, d.body)
}

// matches compares weakly (RFC 9110, section 13.1.2).
func matches(tags []string, etag string) bool {
	for _, tag := range strings.Split(strings.Join(tags, ","), ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == etag || tag == "*" {
			return true
		}
	}
	return false
}

// documents are the pages that need no payment, by path.
func (a *api) documents() (map[string]document, error) {
	keys, err := jsonBody(a.Keys)
	if err != nil {
		return nil, err
	}
	openapi, err := a.openapi()
	if err != nil {
		return nil, err
	}
	resources, err := jsonBody(map[string]any{"version": 1, "resources": a.urls()})
	if err != nil {
		return nil, err
	}
	return map[string]document{
		"/.well-known/receipt-signing-key.json": newDocument("application/json", keys),
		"/.well-known/x402":                     newDocument("application/json", resources),
		"/openapi.json":                         newDocument("application/json", openapi),
		"/llms.txt":                             newDocument("text/plain; charset=utf-8", a.llms()),
	}, nil
}

// urls are the addresses of all paid paths.
func (a *api) urls() []string {
	var urls []string
	for _, chain := range a.Chains {
		for _, path := range a.paths(chain) {
			urls = append(urls, a.PublicURL+path)
		}
	}
	return urls
}
