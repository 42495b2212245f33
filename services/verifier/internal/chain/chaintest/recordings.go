package chaintest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
)

// BaseBlock is the name of a recording that many tests use: block 2,000,000 of Base.
const BaseBlock = "base-mainnet-2000000"

// Folder returns the folder of the recordings. It is that of pkg/receipt, whose tests
// read them too. In a recording, "exercises" is what it shows, "source" where it is
// from, and "licence" its terms.
func Folder() string {
	const folder = "pkg/receipt/testdata/blocks"
	above := ".."
	for range 10 {
		if _, err := os.Stat(filepath.Join(above, folder)); err == nil {
			break
		}
		above = filepath.Join(above, "..")
	}
	return filepath.Join(above, folder)
}

// Names lists the recordings that hold whole blocks.
func Names(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(Folder())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		name, _ := strings.CutSuffix(entry.Name(), ".json.gz")
		if !strings.Contains(name, "-deposit-") && !strings.Contains(name, "-header-") {
			names = append(names, name)
		}
	}
	if len(names) < 10 {
		t.Fatalf("only %d recordings in %s", len(names), Folder())
	}
	return names
}

// Load reads a recording by its name.
func Load(t testing.TB, name string) recorded.Recording {
	t.Helper()
	recording, err := recorded.Load(filepath.Join(Folder(), name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return recording
}
