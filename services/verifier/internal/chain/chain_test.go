package chain_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

func TestHexadecimalTextsAreReadInEitherCase(t *testing.T) {
	lower := "0x" + strings.Repeat("ab", 32)
	for _, text := range []string{lower, "0x" + strings.Repeat("AB", 32), "0x" + strings.Repeat("aB", 32)} {
		h, err := chain.ParseHash(text)
		if err != nil || h.String() != lower {
			t.Errorf("%s: %v, %v", text, h, err)
		}
	}
	for _, text := range []string{"", "0x", lower[:65], lower + "0", "0X" + lower[2:], lower[2:], "0x" + strings.Repeat("g", 64)} {
		if _, err := chain.ParseHash(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	if a, err := chain.ParseAddress("0x" + strings.Repeat("0A", 20)); err != nil || a.String() != "0x"+strings.Repeat("0a", 20) {
		t.Error(a, err)
	}
	if s, err := chain.ParseSelector("0x18CBafe5"); err != nil || s.String() != "0x18cbafe5" {
		t.Error(s, err)
	}
}

func TestConfirmationsCountBothEnds(t *testing.T) {
	for _, c := range []struct{ latest, number, want uint64 }{{100, 100, 1}, {111, 100, 12}, {99, 100, 0}, {0, 0, 1}} {
		if got := (chain.Heads{Latest: c.latest}).Confirmations(c.number); got != c.want {
			t.Errorf("block %d, latest %d: %d, want %d", c.number, c.latest, got, c.want)
		}
	}
}

func TestWaitIsBetweenASecondAndAnHour(t *testing.T) {
	for _, c := range []struct {
		each   time.Duration
		blocks uint64
		want   time.Duration
	}{
		{2 * time.Second, 30, time.Minute},
		{250 * time.Millisecond, 1, time.Second},
		{0, 100, 5 * time.Second},
		{12 * time.Second, 100_000, time.Hour},
		{time.Second, 1 << 63, time.Hour},
	} {
		if got := (chain.Heads{BlockTime: c.each}).Wait(c.blocks); got != c.want {
			t.Errorf("%d blocks of %v: %v, want %v", c.blocks, c.each, got, c.want)
		}
	}
}

func TestFaultsAreToldApartThroughWraps(t *testing.T) {
	codes := map[string]bool{}
	for _, fault := range chain.Faults() {
		if codes[fault.Code] || fault.Code == "" || fault.Text == "" {
			t.Errorf("%+v", fault)
		}
		codes[fault.Code] = true
		err := fmt.Errorf("outside: %w", chain.WithRetryAfter(fmt.Errorf("inside: %w", fault), 1500*time.Millisecond))
		var got *chain.Fault
		if !errors.Is(err, fault) || !errors.As(err, &got) || got != fault {
			t.Errorf("%s is lost", fault.Code)
		}
		if seconds, ok := chain.RetryAfter(err); !ok || seconds != 2 {
			t.Errorf("retry after %d s, %v", seconds, ok)
		}
	}
	if _, ok := chain.RetryAfter(chain.ErrQuorum); ok {
		t.Error("a time from nowhere")
	}
}

func TestTheExampleFileIsValid(t *testing.T) {
	text, err := os.ReadFile("../../chains.example.json")
	if err != nil {
		t.Fatal(err)
	}
	configs, err := chain.ParseFile(text)
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

func TestAChainsFileIsRead(t *testing.T) {
	got, err := chain.ParseFile([]byte(`{"chains":[{"name":"base","id":8453,"rpcUrls":["https://a","http://b"],"quorum":2,
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

func TestFaultsInAChainsFileAreAllReported(t *testing.T) {
	_, err := chain.ParseFile([]byte(`{"chains":[
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
		if _, err := chain.ParseFile([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

func TestANodeUnderTwoNamesIsOneNode(t *testing.T) {
	for _, other := range []string{
		"https://node.example/key", "https://NODE.example/key", "HTTPS://node.example:443/key/", "https://node.example./key",
	} {
		c := chain.Config{Name: "base", ID: 8453, RPCURLs: []string{"https://node.example/key", other}, Quorum: 2}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "comes twice") {
			t.Errorf("%s: %v", other, err)
		}
	}
	for _, other := range []string{"https://node.example/Key", "https://node.example:444/key", "http://node.example/key", "https://node.example/key?a"} {
		c := chain.Config{Name: "base", ID: 8453, RPCURLs: []string{"https://node.example/key", other}}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}
