package arch

import (
	"strings"
	"testing"
)

// The verifier compiles without the page that checks receipts, so what is shipped has to
// make sure that it is there.
func TestCheckPage_IsBuiltWhereTheVerifierShips(t *testing.T) {
	const made = "services/verifier/internal/checkpage/built/check.html.gz"
	for file, wants := range map[string][]string{
		"Makefile":          {made, "\nbuild/services/verifier: checker/page\n", "\n$(PLATFORMS:%=release/%): release/%: checker/page\n"},
		"deploy/Dockerfile": {`[ "${PROGRAM}" != verifier ] || { cd pkg/receipt && go run ./checker/page -o /src/` + made + "; }"},
	} {
		for _, want := range wants {
			if !strings.Contains(text(t, file), want) {
				t.Errorf("%s has no %q", file, want)
			}
		}
	}
}
