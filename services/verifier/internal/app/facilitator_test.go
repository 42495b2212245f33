package app

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

func TestAFacilitatorThatDoesNotSayWhatItSupportsIsGoodEnough(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	target, err := url.Parse(w.env["FACILITATOR_URL"])
	w.must(err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	silent := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/supported") {
			http.Error(rw, "rate limited", http.StatusTooManyRequests)
			return
		}
		proxy.ServeHTTP(rw, r)
	}))
	t.Cleanup(silent.Close)
	w.env["FACILITATOR_URL"] = silent.URL
	w.wantReceipt(w.post(w.run().url, w.pay("1")))
	w.wantTransfers(1)
}

func TestTokensThatAnybodyOnTheWayCanReadAreWarnedOf(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	w.env["CDP_API_KEY_ID"], w.env["CDP_API_KEY_SECRET"] = "id", base64.StdEncoding.EncodeToString(key)
	verifier := w.run()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(verifier.stderr.String(), "is not https"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(verifier.stderr)
		}
	}
}
