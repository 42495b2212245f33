package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
)

// route lists everything that is served.
func (a *api) route(e *echo.Echo) error {
	for _, chain := range a.Chains {
		for _, p := range a.paths(chain) {
			route, err := newPaidRoute(path(chain), a.offer(chain, p))
			if err != nil {
				return err
			}
			e.POST(p, answered(a.paid(route, a.verify(chain))))
		}
	}
	documents, err := a.documents()
	if err != nil {
		return err
	}
	for path, document := range documents {
		e.GET(path, document.serve)
		e.HEAD(path, document.serve)
	}
	e.GET("/health", answered(a.health))
	e.HEAD("/health", answered(a.health))
	return nil
}

// firstPath is the contract's path: it verifies on the first chain.
const firstPath = "/v1/verify/chain-transaction"

// path is where a chain's transactions are verified.
func path(chain Chain) string { return "/v1/verify/" + chain.Name + "-transaction" }

// paths are all paths of a chain, its own first.
func (a *api) paths(chain Chain) []string {
	paths := []string{path(chain)}
	if chain.Name == a.Chains[0].Name && paths[0] != firstPath {
		paths = append(paths, firstPath)
	}
	return paths
}

// answer is what a handler returns when it has not failed.
type answer struct {
	status int
	header http.Header
	// mediaType is "" for application/json.
	mediaType string
	body      []byte
}

// handler answers a request. It writes nothing.
type handler func(c echo.Context) (answer, error)

// answered writes what a handler answers.
func answered(h handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		ans, err := h(c)
		if err != nil {
			return err
		}
		return write(c, ans)
	}
}

func write(c echo.Context, ans answer) error {
	maps.Copy(c.Response().Header(), ans.header)
	if ans.mediaType == "" {
		ans.mediaType = "application/json"
	}
	return blob(c, ans.status, ans.mediaType, ans.body)
}

// blob writes a body whose length is sent beforehand. Of one that is longer than
// its buffer net/http would send the end only, in a write of its own.
func blob(c echo.Context, status int, mediaType string, body []byte) error {
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	return c.Blob(status, mediaType, body)
}

// jsonBody encodes a body of our own.
func jsonBody(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return body, nil
}

// health reports whether the service can do its work.
func (a *api) health(c echo.Context) (answer, error) {
	if err := a.Health(c.Request().Context()); err != nil {
		a.Log.WarnContext(c.Request().Context(), "not ready", "error", err)
		return answer{}, errNotReady
	}
	return answer{status: http.StatusOK, header: noStore, body: []byte(`{"status":"ok"}`)}, nil
}

// noStore is for answers that are true only now.
var noStore = http.Header{"Cache-Control": {"no-store"}}
