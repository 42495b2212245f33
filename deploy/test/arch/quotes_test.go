package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// quotes lists the pages that show a tested file, which must stand there as it is.
var quotes = map[string][]string{
	"deploy/docs/receipts.md": {
		"pkg/receipt/testdata/verify.mjs",
	},
}

func TestPagesQuoteTestedFilesAsTheyAre(t *testing.T) {
	for page, files := range quotes {
		text, err := os.ReadFile(filepath.Join(top, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			quoted, err := os.ReadFile(filepath.Join(top, file))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "\n"+string(quoted)+"```\n") {
				t.Errorf("%s does not show %s as it is", page, file)
			}
		}
	}
}
