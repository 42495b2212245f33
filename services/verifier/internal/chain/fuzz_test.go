package chain_test

import (
	"os"
	"testing"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// FuzzParseFile reads a CHAINS_FILE: what is accepted has chains, and each is
// valid by itself.
func FuzzParseFile(f *testing.F) {
	example, err := os.ReadFile("../../chains.example.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	f.Add([]byte(`{"chains":[{"name":"base","id":8453,"rpcUrls":["https://a","http://b:1/c?d"],"quorum":2}]}`))
	f.Add([]byte(`{"chains":[{"name":"base","id":0,"rpcUrls":[":"],"quorum":-1,"usdToken":{"address":"0x"}},{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		chains, err := chain.ParseFile(text)
		if err != nil {
			return
		}
		if len(chains) == 0 {
			t.Error("no chain and no fault")
		}
		for _, c := range chains {
			if err := c.Validate(); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	})
}
