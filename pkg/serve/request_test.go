package serve_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/serve"
)

func TestARequestKeepsANameThatIsOne(t *testing.T) {
	for _, id := range []string{"a", "AZaz09._-", strings.Repeat("x", 64)} {
		if got := requestID(id); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
}

func TestARequestWithoutANameOfItsOwnGetsANewOne(t *testing.T) {
	for _, id := range []string{"", "a b", "a\n", "ä", "a/b", "[", "`", "@", strings.Repeat("x", 65)} {
		one, two := requestID(id), requestID(id)
		if one == id || one == two || len(one) < 20 {
			t.Errorf("%q became %q and %q", id, one, two)
		}
	}
}

func requestID(id string) string {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header[serve.RequestIDHeader] = []string{id}
	return serve.RequestID(r)
}

func panicking(value any) (err error) {
	defer serve.Recover(&err)
	if value != nil {
		panic(value)
	}
	return nil
}

func TestAPanicBecomesAnErrorWithItsStack(t *testing.T) {
	if err := panicking("oh"); err == nil || !strings.Contains(err.Error(), "panic: oh") || !strings.Contains(err.Error(), "panicking") {
		t.Errorf("got %v", err)
	}
	if err := panicking(nil); err != nil {
		t.Errorf("without a panic: %v", err)
	}
}

func TestAnAbortedAnswerStaysAborted(t *testing.T) {
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("got %v", err)
		}
	}()
	_ = panicking(http.ErrAbortHandler)
}
