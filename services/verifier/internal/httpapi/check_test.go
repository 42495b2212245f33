package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

// compressed is a page that has what the one that checks receipts has for the server, and is large enough to be
// compressed for clients.
func compressed(t *testing.T, html string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, html+strings.Repeat("\n", 2000)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const (
	checkPath = "/v1/check"
	checkHTML = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:">
<script type="application/json" id="site">null</script>`
)

func TestCheckPage_IsServedWithWhatTheSitePublishes(t *testing.T) {
	w, _ := openLogged(t)
	w.check = compressed(t, checkHTML)
	w.reopen()
	sold := w.buy("1")
	sold.wantReceipt(w)
	plain := w.do(http.MethodGet, checkPath, "", "Accept-Encoding", "identity")
	plain.wantCached("text/html; charset=utf-8", "max-age=300")
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; img-src data:; frame-ancestors 'none'", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin", "X-Content-Type-Options": "nosniff", "Vary": "Accept-Encoding", "Content-Encoding": "", "Set-Cookie": "",
	} {
		if got := plain.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, want := range []string{`"name":"seller.example"`, w.key.ID(), `"log":"/v1/log/1"`, `quorum none`} {
		if !strings.Contains(string(plain.body), want) {
			t.Errorf("it does not offer %s:\n%s", want, plain.body)
		}
	}
	for accepted, packed := range map[string]bool{"gzip": true, "br, gzip;q=0.5": true, "*": true, "br": false, "gzip;q=0": false, "gzip; q=0.0": false, "gzip;q=0, *": false, "*, gzip;q=0": false, "gzip;Q=0": false, "GZIP": true, "*;q=0, gzip": true} {
		r := w.do(http.MethodGet, checkPath, "", "Accept-Encoding", accepted)
		body := r.body
		if packed {
			unpacked, err := gzip.NewReader(bytes.NewReader(body))
			w.must(err)
			body, err = io.ReadAll(unpacked)
			w.must(err)
		}
		if (r.header.Get("Content-Encoding") == "gzip") != packed || !bytes.Equal(body, plain.body) || (r.header.Get("ETag") == plain.header.Get("ETag")) == packed {
			t.Errorf("%s: %d %v", accepted, r.status, r.header)
		}
		again := w.do(http.MethodGet, checkPath, "", "Accept-Encoding", accepted, "If-None-Match", r.header.Get("ETag"))
		if again.status != http.StatusNotModified || len(again.body) != 0 || again.header.Get("Content-Security-Policy") == "" {
			t.Errorf("again: %d %v", again.status, again.header)
		}
	}
}

func TestCheckPage_OffersNoLogWhereThereIsNone(t *testing.T) {
	w := open(t, nil)
	w.check = compressed(t, checkHTML)
	w.reopen()
	if r := w.do(http.MethodGet, checkPath, ""); r.status != http.StatusOK || strings.Contains(string(r.body), `"log"`) || strings.Contains(string(r.body), `"policy"`) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestCheckPage_OffersTheLogAsItWasReadLast(t *testing.T) {
	w, _ := openLogged(t)
	w.check = compressed(t, checkHTML)
	w.reopen()
	first := w.do(http.MethodGet, checkPath, "")
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	for range 10 {
		r := httptest.NewRecorder()
		w.handler.ServeHTTP(r, httptest.NewRequestWithContext(gone, http.MethodGet, checkPath, http.NoBody))
		if r.Code != http.StatusServiceUnavailable || !strings.Contains(r.Body.String(), "request_canceled") {
			t.Fatalf("a client that is gone gets %d %s", r.Code, r.Body)
		}
	}
	w.must(w.ledger.(*ledger.Ledger).Close())
	r := w.do(http.MethodGet, checkPath, "")
	if !strings.Contains(string(r.body), `"log":"/v1/log/1"`) || r.header.Get("ETag") != first.header.Get("ETag") {
		t.Errorf("while the log cannot be read: %d %s", r.status, r.body)
	}
}

func TestCheckPage_ThatIsMissingIsReported(t *testing.T) {
	w := open(t, nil)
	w.do(http.MethodGet, checkPath, "").wantFailure(http.StatusNotFound, "not_found")
}
