package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality/beacontest"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain/bundlesql"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
)

// networkFile describes a beacon network of Base, which has none in truth.
func networkFile(t *testing.T) string {
	t.Helper()
	n, err := beacontest.NewNetwork("dev", "eip155:8453", "")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "network.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFinality_BeaconNetworkIsTheChains(t *testing.T) {
	w := newWorld(t, "sqlite::memory:")
	chains := filepath.Join(t.TempDir(), "chains.json")
	w.must(os.WriteFile(chains, []byte(`{"chains":[{"name":"base","id":8453,"rpcUrls":["http://127.0.0.1:1"],"beaconUrls":["http://beacon.example"]},
		{"name":"ethereum","id":1,"rpcUrls":["http://127.0.0.1:1"],"beaconUrls":["http://127.0.0.1:1"]}]}`), 0o600))
	for name, test := range map[string]struct {
		env  map[string]string
		want string
	}{
		"unknown":          {map[string]string{"CHAIN_BEACON_URLS": "http://127.0.0.1:1"}, "CHAIN_BEACON_NETWORK: no network of eip155:8453 is known"},
		"another chain's":  {map[string]string{"CHAIN_BEACON_URLS": "http://127.0.0.1:1", "CHAIN_BEACON_NETWORK": "mainnet"}, "mainnet is the network of eip155:1, not of eip155:8453"},
		"no file":          {map[string]string{"CHAIN_BEACON_URLS": "http://127.0.0.1:1", "CHAIN_BEACON_NETWORK": "/nowhere"}, "nor a file"},
		"no nodes":         {map[string]string{"CHAIN_BEACON_NETWORK": "mainnet"}, "beaconNetwork: comes only together with beaconUrls"},
		"plain http":       {map[string]string{"CHAIN_BEACON_URLS": "http://beacon.example"}, "CHAIN_BEACON_URLS: plain http"},
		"no address":       {map[string]string{"CHAIN_BEACON_URLS": "beacon"}, "beaconUrls.0: must be an http or https URL"},
		"beside the file":  {map[string]string{"CHAIN_RPC_URLS": "", "CHAINS_FILE": chains, "CHAIN_BEACON_URLS": "http://127.0.0.1:1"}, "comes in place of CHAIN_BEACON_URLS"},
		"in the file":      {map[string]string{"CHAIN_RPC_URLS": "", "CHAINS_FILE": chains}, "chains.0 (base): beaconNetwork: no network of eip155:8453 is known"},
		"http in the file": {map[string]string{"CHAIN_RPC_URLS": "", "CHAINS_FILE": chains}, "chains.0 (base): beaconUrls: plain http"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(func(setting string) string {
				if value, ok := test.env[setting]; ok {
					return value
				}
				return w.getenv(setting)
			})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

func TestFinality_ABeaconNodeThatHangsStopsNoSale(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		asked, release := make(chan struct{}, 100), make(chan struct{})
		hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}))
		t.Cleanup(hanging.Close)
		t.Cleanup(func() { close(release) })
		w := newWorld(t, url)
		w.env["CHAIN_BEACON_URLS"], w.env["CHAIN_BEACON_NETWORK"], w.env["CHAIN_BEACON_TIMEOUT"] = hanging.URL, networkFile(t), "1m"
		v := w.run()
		<-asked                                  // and gets no answer
		w.wantReceipt(w.post(v.url, w.pay("1"))) // is sold while the node hangs
		response, err := http.Get(v.url + "/v1/finality/base/0xf7c65086eb140a51b0811e83ada55a91539b83462064761ad02cfaf8398eb0fe")
		w.must(err)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusAccepted {
			t.Errorf("the proof: %d", response.StatusCode)
		}
		w.must(v.stop())
	})
}

func TestPrune_ForgetsProofsOfFinalityWithTheAnswers(t *testing.T) {
	now := time.Now()
	l := paymenttest.Ledger(t, time.Now)
	bundles := bundlesql.New(l.DB(), func() time.Time { return now })
	if err := bundles.KeepStep(t.Context(), beaconchain.Step{Chain: "c", Period: 1, Step: []byte("s")}); err != nil {
		t.Fatal(err)
	}
	for _, prune := range []struct {
		before time.Time
		left   int
	}{{now, 1}, {now.Add(365 * 24 * time.Hour), 0}} {
		if err := (sold{l, bundles}).Prune(t.Context(), prune.before); err != nil {
			t.Fatal(err)
		}
		if steps, err := bundles.Steps(t.Context(), "c", 1, 1); err != nil || len(steps) != prune.left {
			t.Errorf("%d steps are left, %v; want %d", len(steps), err, prune.left)
		}
	}
}
