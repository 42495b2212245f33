package api_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pforte/pforte/services/verifier/api"
)

// serverSchema is the schema of server.json that the MCP registry published on
// 2025-12-11, without its texts; the Go module github.com/modelcontextprotocol/registry
// has it.
func serverSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	text, err := os.ReadFile("testdata/server.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// server reads server.json, which a test may change.
func server(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile("server.json")
	if err != nil {
		t.Fatal(err)
	}
	var entry map[string]any
	if err := json.Unmarshal(text, &entry); err != nil {
		t.Fatal(err)
	}
	return entry
}

func TestRegistry_EntryForMCPIsValid(t *testing.T) {
	schema, entry := serverSchema(t), server(t)
	if err := schema.Validate(entry); err != nil {
		t.Error(err)
	}
	if !strings.HasSuffix(entry["$schema"].(string), "/schemas/2025-12-11/server.schema.json") {
		t.Errorf("it names the schema %s", entry["$schema"])
	}
	var document struct{ Info struct{ Version string } }
	if err := json.Unmarshal(api.Document, &document); err != nil {
		t.Fatal(err)
	}
	if entry["version"] != document.Info.Version {
		t.Errorf("it has the version %s, and the interface %s", entry["version"], document.Info.Version)
	}
}

func TestRegistry_ABrokenEntryIsNotValid(t *testing.T) {
	schema := serverSchema(t)
	remote := func(entry map[string]any) map[string]any { return entry["remotes"].([]any)[0].(map[string]any) }
	for name, fault := range map[string]func(map[string]any){
		"no name":            func(entry map[string]any) { delete(entry, "name") },
		"no namespace":       func(entry map[string]any) { entry["name"] = "verifier" },
		"a long description": func(entry map[string]any) { entry["description"] = strings.Repeat("x", 101) },
		"no address":         func(entry map[string]any) { delete(remote(entry), "url") },
		"no http":            func(entry map[string]any) { remote(entry)["url"] = "{host}/mcp" },
		"another transport":  func(entry map[string]any) { remote(entry)["type"] = "stdio" },
		"a variable as text": func(entry map[string]any) { remote(entry)["variables"].(map[string]any)["host"] = "verifier.example" },
		"no source":          func(entry map[string]any) { delete(entry["repository"].(map[string]any), "source") },
	} {
		entry := server(t)
		fault(entry)
		if schema.Validate(entry) == nil {
			t.Errorf("%s: it is valid", name)
		}
	}
}
