package app

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

func TestFacilitator_NeedNotSayWhatItSupports(t *testing.T) {
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

func TestUpstream_PublicPlainHTTPIsRefusedUnlessAllowed(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	file := filepath.Join(t.TempDir(), "chains.json")
	w.must(os.WriteFile(file, []byte(`{"chains":[{"name":"base","id":8453,"rpcUrls":["http://node:8545"]},
		{"name":"one","id":1,"rpcUrls":["https://a.example","http://b.example/secret"]},{"name":"two","id":2,"rpcUrls":["http://203.0.113.7"]}]}`), 0o600))
	w.env["CHAINS_FILE"], w.env["CHAIN_RPC_URLS"] = file, ""
	w.env["FACILITATOR_URL"], w.env["PAYMENT_RPC_URL"] = "http://facilitator.example", "http://c.example"
	_, err := load(func(name string) string { return w.env[name] })
	if err == nil {
		t.Fatal("the settings are accepted")
	}
	for _, want := range []string{"FACILITATOR_URL: plain", "PAYMENT_RPC_URL: plain", "CHAINS_FILE: chains.1 (one): rpcUrls: plain", "CHAINS_FILE: chains.2 (two): rpcUrls: plain"} {
		if strings.Count(err.Error(), want) != 1 {
			t.Errorf("no word of %q in:\n%v", want, err)
		}
	}
	if strings.Count(err.Error(), "\n") != 3 || strings.Contains(err.Error(), "secret") {
		t.Errorf("the faults are:\n%v", err)
	}
	w.env["ALLOW_INSECURE_UPSTREAMS"] = "true"
	if _, err := load(func(name string) string { return w.env[name] }); err != nil {
		t.Error(err)
	}
}

func TestUpstream_InsecureOnesAreWarnedOf(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	if logged := w.run().stderr.String(); strings.Contains(logged, "ALLOW_INSECURE_UPSTREAMS") {
		t.Errorf("a warning without a reason: %s", logged)
	}
	w.env["ALLOW_INSECURE_UPSTREAMS"] = "true"
	if logged := w.run().stderr.String(); !strings.Contains(logged, "ALLOW_INSECURE_UPSTREAMS") || !strings.Contains(logged, "WARN") {
		t.Errorf("no warning: %s", logged)
	}
}
