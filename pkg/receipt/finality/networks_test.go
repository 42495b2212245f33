package finality_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt/finality"
)

// The files are for programs in other languages, and are what `receipt verify --network` takes.
func TestNetworks_AreThoseOfTheFiles(t *testing.T) {
	for _, known := range []*finality.Network{finality.Mainnet(), finality.Sepolia(), finality.Hoodi()} {
		text, err := json.MarshalIndent(known, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		path := "networks/" + known.Name + ".json"
		if *update {
			if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		read, err := finality.ParseNetwork(file)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if diff := cmp.Diff(read, known); diff != "" {
			t.Errorf("%s (-file +known):\n%s", path, diff)
		}
	}
}
