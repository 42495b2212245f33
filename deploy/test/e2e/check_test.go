package e2e

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/pforte/pforte/deploy/internal/layout"
)

// maxCheckPage bounds what a reader loads to check a receipt, in bytes.
const maxCheckPage = 2_000_000

func TestCheckPage_ChecksAReceiptInTheBrowser(t *testing.T) {
	w := &logWorld{world: newWorld(t, withLog(t, func(l *layout.Layout) {
		l.Extra["pforte-proxy"] = map[string]string{"TRUSTED_PROXIES": "127.0.0.1"} // devices have addresses of their own
	})), dir: t.TempDir()}
	page := newBrowser(t, w.PublicURL).request("GET", "/v1/check", "", "Accept-Encoding", "gzip").want(t, http.StatusOK, nil)
	if page.Header.Get("Content-Encoding") != "gzip" || len(page.body) > maxCheckPage {
		t.Errorf("the page has %d bytes: %v", len(page.body), page.Header)
	}
	if again := newBrowser(t, w.PublicURL).request("GET", "/v1/check", "", "Accept-Encoding", "gzip", "If-None-Match", page.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("again: %d", again.StatusCode)
	}
	sold, _ := w.sell(t)
	w.prove(t, sold)
	// The file is the page before the verifier put into it what it publishes.
	file := filepath.Join(w.Bin, "receipt-checker.html")
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: run make checker", err)
	}
	served := newBrowser(t, w.PublicURL).request("GET", "/v1/check", "", "Accept-Encoding", "identity").want(t, http.StatusOK, nil)
	site := regexp.MustCompile(`(<script type="application/json" id="site">)\{.*?\}(</script>)`)
	if plain := site.ReplaceAll(served.body, []byte("${1}null$2")); !bytes.Equal(plain, kept) {
		t.Errorf("the page has %d bytes and the file %d, and they differ by more than what is published here", len(plain), len(kept))
	}
	inBothLanguages(t, func(t *testing.T, lang string) {
		runJourney(t, "check.mjs", []string{"ORIGIN=" + w.PublicURL, "LANGUAGE=" + lang, "ANSWER=" + sold.answer, "PROOF=" + sold.proof, "PAGE=" + file})
	})
}
