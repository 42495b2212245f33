package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/layout"
)

const (
	verifierPage = top + "/services/verifier/README.md"
	examples     = top + "/services/verifier/examples"
)

// snippet returns the fenced block of the verifier's page that follows the comment
// <!-- snippet: NAME -->.
func snippet(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(verifierPage)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "<!-- snippet: "+name+" -->\n```")
	_, rest, opened := strings.Cut(rest, "\n")
	text, _, closed := strings.Cut(rest, "\n```\n")
	if !found || !opened || !closed {
		t.Fatalf("the page has no snippet %s", name)
	}
	return text + "\n"
}

// exampleFile returns a file of the examples.
func exampleFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(examples, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// desk is a folder with the examples as they are, and the official packages beside
// them, as a buyer has it.
func desk(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	scripts, err := filepath.Glob(filepath.Join(examples, "*.mjs"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%v, %v", scripts, err)
	}
	for _, script := range scripts {
		name := filepath.Base(script)
		if err := os.WriteFile(filepath.Join(folder, name), exampleFile(t, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	packages, err := filepath.Abs("clients/node_modules")
	if err == nil {
		err = os.Symlink(packages, filepath.Join(folder, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// shell runs a snippet by bash, with what a buyer has set before, in a folder.
func (w *world) shell(t *testing.T, folder, text string, env ...string) string {
	t.Helper()
	node(t) // is installed
	bin, err := filepath.Abs(w.Bin)
	if err != nil {
		t.Fatal(err)
	}
	project, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", text)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(),
		"PATH="+bin+":"+os.Getenv("PATH"), "GOWORK=off", "PFORTE="+project, "VERIFIER="+w.PublicURL, "PRIVATE_KEY="+layout.PayerKey)
	cmd.Env = append(cmd.Env, env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s\n%v\n%s\n%s", text, err, out, &stderr)
	}
	return string(out)
}

func TestBuyers_OfThePageBuyAsWritten(t *testing.T) {
	w := sharedWorld(t)
	sent := w.buy(t)
	for name, expectations := range map[string]string{ // each a question of its own, which holds of whatever is final
		"curl":                        `{"status":"success","minConfirmations":1}`,
		"typescript":                  `{"status":"success","minConfirmations":2}`,
		"typescript that sends again": `{"minConfirmations":1}`,
		"go":                          `{"minConfirmations":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			text, folder, before := snippet(t, name), desk(t), w.income(t)
			if !strings.Contains(text, "\nreceipt verify answer.json") {
				t.Errorf("it does not end with the check of the receipt:\n%s", text)
			}
			printed := w.shell(t, folder, text, "URL="+w.PublicURL+"/v1/verify/chain-transaction",
				fmt.Sprintf(`BODY={"transactionHash":%q,"expectations":%s}`, sent.Transaction, expectations))
			if !strings.Contains(printed, "VALID") {
				t.Errorf("printed:\n%s", printed)
			}
			answer, err := os.ReadFile(filepath.Join(folder, "answer.json"))
			if err != nil {
				t.Fatal(err)
			}
			w.checkReceipt(t, answer)
			if got := w.income(t) - before; got != price {
				t.Errorf("%d moved", got)
			}
		})
	}
}

func TestBuyers_ProveTheirOwnPayment(t *testing.T) {
	w := sharedWorld(t)
	sent, before, folder := w.buy(t), w.income(t), desk(t)
	url := "URL=" + w.PublicURL + "/v1/verify/chain-transaction"
	// As a reader of the page does, who has bought the question of the snippets before.
	body := fmt.Sprintf(`BODY={"transactionHash":%q,"expectations":{"status":"success"}}`, sent.Transaction)
	w.shell(t, folder, snippet(t, "typescript"), url, body)
	before += price
	printed := w.shell(t, folder, snippet(t, "prove"), url, body, "TRANSACTION="+sent.Transaction)
	if !strings.Contains(printed, "VALID") || !strings.Contains(printed, "log 1 of the transaction") {
		t.Errorf("printed:\n%s", printed)
	}
	if got := w.income(t) - before; got != 2*price {
		t.Errorf("%d moved", got)
	}
}

func TestBuyers_ProveTheirOwnPaymentByMCP(t *testing.T) {
	w := sharedWorld(t)
	sent, before, folder := w.buy(t), w.income(t), desk(t)
	printed := w.shell(t, folder, snippet(t, "prove by MCP"), "SELLER="+w.PublicURL+"/mcp", "TOOL=verify_transaction",
		fmt.Sprintf(`ARGUMENTS={"transactionHash":%q,"expectations":{"minConfirmations":2}}`, sent.Transaction))
	if !strings.Contains(printed, "VALID") || !strings.Contains(printed, "log 1 of the transaction") {
		t.Errorf("printed:\n%s", printed)
	}
	if got := w.income(t) - before; got != 2*price {
		t.Errorf("%d moved", got)
	}
}

// The official client pays for two questions at once.
func TestBuyers_BuyManyInOnePayment(t *testing.T) {
	w := sharedWorld(t)
	sent, before, folder := w.buy(t), w.income(t), desk(t)
	w.shell(t, folder, "node pay.mjs \"$URL\" \"$BODY\" > answers.json", "URL="+w.PublicURL+"/v1/verify/batch", fmt.Sprintf(
		`BODY={"questions":[{"transactionHash":%q},{"transactionHash":%q,"expectations":{"status":"success"}}]}`,
		sent.Transaction, sent.Transaction))
	text, err := os.ReadFile(filepath.Join(folder, "answers.json"))
	if err != nil {
		t.Fatal(err)
	}
	var batch struct{ Answers []json.RawMessage }
	if err := json.Unmarshal(text, &batch); err != nil || len(batch.Answers) != 2 {
		t.Fatalf("%v: %s", err, text)
	}
	for _, answer := range batch.Answers {
		w.checkReceipt(t, answer)
	}
	if got := w.income(t) - before; got != 2*price {
		t.Errorf("%d moved", got)
	}
}

func TestBuyers_ProgramOnThePageIsTheExample(t *testing.T) {
	if text := snippet(t, "pay.mjs"); !strings.Contains(string(exampleFile(t, "pay.mjs")), text) {
		t.Errorf("examples/pay.mjs does not hold\n%s", text)
	}
}

func TestBuyers_ExamplesHandle503AndCheck(t *testing.T) {
	for _, name := range []string{"pay.mjs", "pay-again.mjs", "pay.go", "pay.py"} {
		text := string(exampleFile(t, name))
		if !strings.Contains(text, "After 503") || !strings.Contains(text, "same payment again") || !strings.Contains(text, "receipt verify answer.json") {
			t.Errorf("%s: it does not say so", name)
		}
	}
}

// values are what differs between two sessions.
var values = regexp.MustCompile(`0x[0-9a-fA-F]+|sha256:[0-9a-f]+|\d+`)

func withoutValues(text string) string { return values.ReplaceAllString(text, "*") }

func TestBuyers_SessionOnThePageIsWhatAnAssistantGets(t *testing.T) {
	w := sharedWorld(t)
	sent, before, folder := w.buy(t), int64(0), desk(t)
	before = w.income(t)
	var configuration struct {
		Servers map[string]struct {
			Command string            `json:"command"`
			Args    []string          `json:"args"`
			Env     map[string]string `json:"env"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(snippet(t, "mcp configuration")), &configuration); err != nil {
		t.Fatal(err)
	}
	server := configuration.Servers["pforte"]
	at := slices.Index(server.Args, "https://verifier.example")
	if server.Command != "agent" || at < 0 || server.Env["AGENT_PRIVATE_KEY_FILE"] == "" {
		t.Fatalf("%+v", server)
	}
	key := filepath.Join(folder, "agent.key")
	server.Args[at], server.Env["AGENT_PRIVATE_KEY_FILE"], server.Env["HOME"] = w.PublicURL, key, folder
	written, err := json.Marshal(configuration)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{key: []byte(layout.PayerKey), filepath.Join(folder, "mcp.json"): written} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	session := snippet(t, "mcp session")
	hash := regexp.MustCompile(`0x[0-9a-f]{64}`)
	type call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	var calls []call
	for _, line := range strings.Split(session, "\n") {
		if name, arguments, ok := strings.Cut(strings.TrimPrefix(line, "> "), " "); ok && strings.HasPrefix(line, "> ") {
			asked := sent.Transaction
			if name == "verify_token_transfer" { // the payment for the first purchase
				asked = sent.Payment.Transaction
			}
			calls = append(calls, call{name, json.RawMessage(hash.ReplaceAllString(arguments, asked))})
		}
	}
	asked, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	got := w.shell(t, folder, `node mcp.mjs mcp.json "$CALLS"`, "CALLS="+string(asked))
	if withoutValues(got) != withoutValues(session) {
		t.Errorf("got\n%s\nthe page has\n%s", got, session)
	}
	if moved := w.income(t) - before; moved != 2*price {
		t.Errorf("%d moved", moved)
	}
}

func TestBuyers_PythonExampleCompilesWithTheSDK(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("python3 is not installed, and CI is set")
		}
		t.Skip("python3 is not installed")
	}
	file := filepath.Join(t.TempDir(), "pay.py")
	if err := os.WriteFile(file, exampleFile(t, "pay.py"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), python, "-m", "py_compile", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const list = `import ast, sys
for node in ast.walk(ast.parse(open(sys.argv[1]).read())):
    if isinstance(node, ast.ImportFrom):
        for name in node.names: print(node.module, name.name)`
	out, err := exec.CommandContext(t.Context(), python, "-c", list, file).Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/python-sdk.json")
	if err != nil {
		t.Fatal(err)
	}
	var sdk struct{ Modules map[string][]string }
	if err := json.Unmarshal(text, &sdk); err != nil {
		t.Fatal(err)
	}
	imported := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(imported) < 5 {
		t.Errorf("the example imports %v", imported)
	}
	for _, line := range imported {
		module, name, _ := strings.Cut(line, " ")
		if !slices.Contains(sdk.Modules[module], name) {
			t.Errorf("%s has no %s", module, name)
		}
	}
}
