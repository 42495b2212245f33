package config_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/config"
)

func TestChains_ExampleFileIsValid(t *testing.T) {
	text, err := os.ReadFile("../../chains.example.json")
	if err != nil {
		t.Fatal(err)
	}
	configs, err := config.ParseChains(text)
	if err != nil {
		t.Fatal(err)
	}
	got := map[uint64]string{}
	for _, c := range configs {
		got[c.ID] = c.Name
		if c.USDToken == nil || c.USDToken.Name != "USD Coin" || c.USDToken.Version != "2" {
			t.Errorf("%s: token %+v", c.Name, c.USDToken)
		}
	}
	want := map[uint64]string{1: "ethereum", 10: "optimism", 137: "polygon", 8453: "base", 42161: "arbitrum"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestChains_FileIsRead(t *testing.T) {
	got, err := config.ParseChains([]byte(`{"chains":[{"name":"base","id":8453,"rpcUrls":["https://a","http://b"],"quorum":2,
		"rpcTimeoutSeconds":7,"maxHeadAgeSeconds":30,"usdToken":{"address":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","name":"USD Coin","version":"2"}},
		{"name":"op-1","id":10,"rpcUrls":["https://c"]}]}`))
	want := []chain.Config{
		{
			Name: "base", ID: 8453, RPCURLs: []string{"https://a", "http://b"}, Quorum: 2, RPCTimeout: 7 * time.Second,
			MaxHeadAge: 30 * time.Second, USDToken: &chain.Token{Address: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", Name: "USD Coin", Version: "2"},
		},
		{Name: "op-1", ID: 10, RPCURLs: []string{"https://c"}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestChains_SpacesAroundURLsAreNoPartOfThem(t *testing.T) {
	got, err := config.ParseChains([]byte(`{"chains":[{"name":"base","id":8453,"rpcUrls":[" https://a/b\n"],
		"beaconUrls":[" https://c/d "]}]}`))
	want := []chain.Config{
		{Name: "base", ID: 8453, RPCURLs: []string{"https://a/b"}, BeaconURLs: []string{"https://c/d"}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestChains_FaultsAreAllReported(t *testing.T) {
	_, err := config.ParseChains([]byte(`{"chains":[
		{"name":"Base","id":0,"rpcUrls":[]},
		{"name":"ok","id":5,"rpcUrls":["ws://host/secret","https://x","https://x"],"quorum":4,"rpcTimeoutSeconds":61,"maxHeadAgeSeconds":1,
		 "usdToken":{"address":"0x1","name":"","version":""}},
		{"name":"ok","id":5,"rpcUrls":["https://x"]},
		{"name":"chain","id":6,"rpcUrls":["https://x"]}]}`))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`chains.0 (Base): name "Base"`, "id: must be a positive", "rpcUrls: at least one",
		"chains.1 (ok): rpcUrls.0: must be an http", "rpcUrls.2: comes twice", "quorum: must be 1 to the number of rpcUrls (3)",
		"rpcTimeoutSeconds", "maxHeadAgeSeconds", "usdToken.address", "usdToken: name and version",
		"chains.2 (ok): name and id must come once", "chains.3 (chain)",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Error("the error repeats a URL")
	}
	for _, text := range []string{``, `{}`, `{"chains":[]}`, `{"chains":[{"nam":"x"}]}`, `{"chains":[{"name":"x","id":1.5}]}`} {
		if _, err := config.ParseChains([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

func TestChains_ANodeUnderTwoNamesIsOne(t *testing.T) {
	for _, other := range []string{
		"https://node.example/key", "https://NODE.example/key", "HTTPS://node.example:443/key/", "https://node.example./key",
	} {
		c := chain.Config{Name: "base", ID: 8453, RPCURLs: []string{"https://node.example/key", other}, Quorum: 2}
		if err := config.ValidateChain(c); err == nil || !strings.Contains(err.Error(), "comes twice") {
			t.Errorf("%s: %v", other, err)
		}
	}
	for _, other := range []string{"http://127.0.0.1:8545", "http://[::1]:8545"} {
		c := chain.Config{Name: "base", ID: 8453, RPCURLs: []string{"http://localhost:8545", other}, Quorum: 2}
		if err := config.ValidateChain(c); err == nil || !strings.Contains(err.Error(), "comes twice") {
			t.Errorf("%s: %v", other, err)
		}
	}
	for _, other := range []string{"https://node.example/Key", "https://node.example:444/key", "http://node.example/key", "https://node.example/key?a"} {
		c := chain.Config{Name: "base", ID: 8453, RPCURLs: []string{"https://node.example/key", other}}
		if err := config.ValidateChain(c); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// FuzzParseChains reads a CHAINS_FILE: what is accepted has chains, and each is
// valid by itself.
func FuzzParseChains(f *testing.F) {
	example, err := os.ReadFile("../../chains.example.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	f.Add([]byte(`{"chains":[{"name":"base","id":8453,"rpcUrls":["https://a","http://b:1/c?d"],"quorum":2}]}`))
	f.Add([]byte(`{"chains":[{"name":"base","id":0,"rpcUrls":[":"],"quorum":-1,"usdToken":{"address":"0x"}},{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		chains, err := config.ParseChains(text)
		if err != nil {
			return
		}
		if len(chains) == 0 {
			t.Error("no chain and no fault")
		}
		for _, c := range chains {
			if err := config.ValidateChain(c); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	})
}
