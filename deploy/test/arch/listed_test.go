package arch

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// The entry for the registry of MCP servers lists the npm module, and both packages that check
// receipts have one version.
func TestPackages_HaveTheVersionThatIsListed(t *testing.T) {
	var module struct{ Name, Version, McpName string }
	var entry struct {
		Name     string
		Packages []struct{ Identifier, Version string }
	}
	for path, into := range map[string]any{"pkg/receipt/npm/package.json": &module, "services/verifier/api/server.json": &entry} {
		text, err := os.ReadFile(top + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	if len(entry.Packages) != 1 || entry.Packages[0].Identifier != module.Name || entry.Packages[0].Version != module.Version ||
		entry.Name != module.McpName {
		t.Errorf("listed is %+v, the module is %+v", entry, module)
	}
	for _, path := range []string{"pkg/receipt/python/pyproject.toml", "pkg/receipt/python/src/pforte_receipt/__init__.py"} {
		text, err := os.ReadFile(top + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), `version = "`+module.Version+`"`) && !strings.Contains(string(text), `version__ = "`+module.Version+`"`) {
			t.Errorf("%s does not have the version %s", path, module.Version)
		}
	}
}
