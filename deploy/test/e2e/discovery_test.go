package e2e

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/pkg/x402"
)

// challenges returns the challenge of every paid path and tool, as buyers get it, by the
// path or the tool's name.
func (w *world) challenges(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	var listed struct{ Resources []string }
	if err := client.Get(t.Context(), w.PublicURL+"/.well-known/x402").Want(http.StatusOK, &listed); err != nil {
		t.Fatal(err)
	}
	found := map[string]json.RawMessage{}
	for _, resource := range listed.Resources {
		u, err := url.Parse(resource)
		if err != nil {
			t.Fatal(err)
		}
		unpaid := client.Post(t.Context(), w.PublicURL+u.Path, struct{}{})
		var challenge json.RawMessage
		if err := x402.Decode(unpaid.Header.Get(x402.HeaderPaymentRequired), &challenge); err != nil {
			t.Fatalf("%s: %s: %v", u.Path, unpaid, err)
		}
		found[u.Path] = challenge
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: w.PublicURL + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool.Name})
		if err != nil {
			t.Fatal(err)
		}
		if object, _ := result.StructuredContent.(map[string]any); object["accepts"] != nil {
			if found[tool.Name], err = json.Marshal(object); err != nil {
				t.Fatal(err)
			}
		}
	}
	return found
}

// verdict is what the official validator says of an entry, and what a registry finds in it.
type verdict struct {
	Errors                          []string
	Resource, Method, Tool, Service string
	Tags                            []string
}

// officialVerdicts asks the official validator.
func officialVerdicts(t *testing.T, challenges map[string]json.RawMessage) map[string]verdict {
	t.Helper()
	text, err := json.Marshal(challenges)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node(t), "clients/validate-bazaar.mjs")
	cmd.Env, cmd.Stdin = []string{"PATH=" + os.Getenv("PATH")}, bytes.NewReader(text)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var verdicts map[string]verdict
	if err == nil {
		err = json.Unmarshal(out, &verdicts)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	return verdicts
}

// Buyers echo these entries, and facilitators list those that their validator accepts.
func TestDiscovery_OfficialValidatorAcceptsEveryEntry(t *testing.T) {
	w := sharedWorld(t)
	verdicts := officialVerdicts(t, w.challenges(t))
	want := map[string]verdict{}
	for _, path := range []string{"/v1/verify/batch", "/v1/verify/devnet-transaction", "/v1/verify/chain-transaction", "/v1/verify/devnet-token-transfer", "/v1/verify/token-transfer"} {
		want[path] = verdict{Resource: w.PublicURL + path, Method: http.MethodPost}
	}
	for _, tool := range []string{"verify_transaction", "verify_token_transfer"} {
		want[tool] = verdict{Resource: w.PublicURL + "/mcp", Tool: tool}
	}
	if got := slices.Sorted(maps.Keys(verdicts)); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Errorf("for sale are %v", got)
	}
	for name, got := range verdicts {
		if len(got.Errors) > 0 || got.Resource != want[name].Resource || got.Method != want[name].Method || got.Tool != want[name].Tool {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Service != "Pforte" || len(got.Tags) != 4 {
			t.Errorf("%s: registries leave out the service's name or tags: %+v", name, got)
		}
	}
}

// What the test above relies on: each fault that an entry could have is seen.
func TestDiscovery_OfficialValidatorRefusesABrokenEntry(t *testing.T) {
	intact := sharedWorld(t).challenges(t)
	broken := map[string]json.RawMessage{}
	for name, fault := range map[string]struct {
		of string
		do func(bazaar, input map[string]any)
	}{
		"another method":        {"/v1/verify/token-transfer", func(_, input map[string]any) { input["method"] = "GET" }},
		"no body type":          {"/v1/verify/token-transfer", func(_, input map[string]any) { delete(input, "bodyType") }},
		"an example that fails": {"/v1/verify/token-transfer", func(_, input map[string]any) { delete(input["body"].(map[string]any), "transfer") }},
		"a member too many":     {"/v1/verify/chain-transaction", func(_, input map[string]any) { input["price"] = "0.01" }},
		"a foreign schema":      {"/v1/verify/chain-transaction", func(bazaar, _ map[string]any) { bazaar["schema"] = map[string]any{"$ref": "https://example.com/"} }},
		"no schema":             {"verify_transaction", func(bazaar, _ map[string]any) { delete(bazaar, "schema") }},
		"no tool":               {"verify_transaction", func(_, input map[string]any) { delete(input, "toolName") }},
		"another transport":     {"verify_token_transfer", func(_, input map[string]any) { input["transport"] = "stdio" }},
		"no arguments":          {"verify_token_transfer", func(_, input map[string]any) { delete(input, "inputSchema") }},
	} {
		var challenge map[string]any
		if err := json.Unmarshal(intact[fault.of], &challenge); err != nil {
			t.Fatal(err)
		}
		bazaar := challenge["extensions"].(map[string]any)["bazaar"].(map[string]any)
		fault.do(bazaar, bazaar["info"].(map[string]any)["input"].(map[string]any))
		text, err := json.Marshal(challenge)
		if err != nil {
			t.Fatal(err)
		}
		broken[name] = text
	}
	for name, got := range officialVerdicts(t, broken) {
		if len(got.Errors) == 0 || got.Resource != "" {
			t.Errorf("%s is accepted: %+v", name, got)
		}
	}
}

// What an installation describes makes a client whose answers need no casts.
func TestOpenAPI_MakesAClientThatCompiles(t *testing.T) {
	w, folder := sharedWorld(t), t.TempDir()
	clients, err := filepath.Abs("clients")
	if err != nil {
		t.Fatal(err)
	}
	run := func(program string, args ...string) {
		t.Helper()
		if code, out := command(t, nil, node(t), append([]string{filepath.Join(clients, "node_modules", program)}, args...)...); code != 0 {
			t.Fatalf("%s ends with %d: %s", program, code, out)
		}
	}
	text, err := os.ReadFile(filepath.Join(clients, "typed.ts"))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "typed.ts"), text, 0o600)
	}
	if err == nil {
		err = os.Symlink(filepath.Join(clients, "node_modules"), filepath.Join(folder, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	document := filepath.Join(folder, "openapi.json")
	if err := os.WriteFile(document, []byte(fetched(t, w.PublicURL+"/openapi.json")), 0o600); err != nil {
		t.Fatal(err)
	}
	run("openapi-typescript/bin/cli.js", document, "-o", filepath.Join(folder, "typed.generated.ts"))
	run("typescript/bin/tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", "--skipLibCheck",
		filepath.Join(folder, "typed.ts"))
}
