package verdict

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// maxPacked is how many bytes the npm module may have as it is installed from.
const maxPacked = 150 << 10

// The transfer is of Base mainnet; the files are copied, so that nothing of the repository is in reach.
const (
	sampleAnswer = "testdata/vectors/transfer-base/response.json"
	sampleKeys   = "testdata/vectors/transfer-base/key.json"
)

// built is the file in bin/packages that a pattern names.
func built(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(top, "../../bin/packages", pattern))
	if err != nil || len(found) != 1 {
		missing(t, pattern+" is not built: make packages")
	}
	path, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// folder is an empty folder with files.
func folder(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	contents["answer.json"], contents["keys.json"] = string(read(t, sampleAnswer)), string(read(t, sampleKeys))
	for name, text := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// offline runs a program in a folder, in a network namespace without interfaces where the
// system allows one, and returns what it writes.
func offline(t *testing.T, dir, in, program string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		missing(t, program+" is not installed")
	}
	if exec.CommandContext(t.Context(), "unshare", "--map-root-user", "--net", "true").Run() == nil {
		program, args = "unshare", append([]string{"--map-root-user", "--net", program}, args...)
	} else {
		t.Log("no network namespace can be made: it runs with the network")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	var errors bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, strings.NewReader(in), &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, errors.String())
	}
	return string(out)
}

const sixLines = `
const keys = readFileSync('keys.json');
const {valid, transfer, proven, attested} = verify(readFileSync('answer.json'), {keys, kind: 'transfer'});
console.log(valid, transfer.amount, proven.length, attested.length);
`

const typed = `
const options: Options = {keys: new Uint8Array(0), kind: 'transfer', checkpoint: '0x'};
export function amount(answer: string): string | undefined {
  try {
    const {transfer, proven, finality, log}: Result = verify(answer, options);
    const how: string[] = proven.map((f: Fact) => f.how);
    return transfer?.amount ?? finality?.anchorBlock.hash ?? log?.earliest ?? how[0];
  } catch (err) {
    if (err instanceof RevokedKeyError || (err instanceof VerificationError && err.code === 'quorum')) return err.name;
    throw err;
  }
}
`

func TestPackages_NPMModuleInstallsOfflineAndChecks(t *testing.T) {
	module := built(t, "*.tgz")
	if info, err := os.Stat(module); err != nil || info.Size() > maxPacked {
		t.Errorf("%s has %d bytes, more than %d", module, info.Size(), maxPacked)
	}
	const names = "VerificationError, RevokedKeyError, verify, type Fact, type Options, type Result"
	dir := folder(t, map[string]string{
		"package.json": `{"private": true}`,
		"check.mjs":    "import {readFileSync} from 'node:fs';\nimport {verify} from '@pforte/receipt';" + sixLines,
		"check.cjs":    "const {readFileSync} = require('node:fs');\nconst {verify} = require('@pforte/receipt');" + sixLines,
		"globals.mjs": `const before = Object.getOwnPropertyNames(globalThis).join();
await import('@pforte/receipt');
console.log(Object.getOwnPropertyNames(globalThis).join() === before);`,
		"typed.mts": "import {" + names + "} from '@pforte/receipt';" + typed,
		"typed.cts": "import {" + names + "} from '@pforte/receipt';" + typed,
	})
	offline(t, dir, "", "npm", "install", "--offline", "--no-audit", "--no-fund", module)
	if installed, _ := filepath.Glob(filepath.Join(dir, "node_modules", "[^.]*")); len(installed) != 1 {
		t.Errorf("it brings others: %v", installed)
	}
	for _, script := range []string{"check.mjs", "check.cjs"} {
		if got := offline(t, dir, "", "node", script); got != "true 1218414017899128 36 5\n" {
			t.Errorf("%s: %s", script, got)
		}
	}
	if got := offline(t, dir, "", "node", "globals.mjs"); got != "true\n" {
		t.Error("it leaves something global")
	}
	tsc, err := filepath.Abs(filepath.Join(top, "npm/node_modules/typescript/bin/tsc"))
	if err != nil {
		t.Fatal(err)
	}
	offline(t, dir, "", "node", tsc, "--noEmit", "--strict", "--exactOptionalPropertyTypes", "--module", "nodenext", "--target",
		"es2022", "--lib", "es2022", "typed.mts", "typed.cts")
}

func TestPackages_ProgramServesCheckReceipt(t *testing.T) {
	dir := folder(t, map[string]string{"package.json": `{"private": true}`})
	offline(t, dir, "", "npm", "install", "--offline", "--no-audit", "--no-fund", built(t, "*.tgz"))
	call := func(answer string) map[string]any {
		t.Helper()
		message, err := json.Marshal(map[string]any{
			"jsonrpc": "2.0", "id": 2, "method": "tools/call",
			"params": map[string]any{"name": "check_receipt", "arguments": map[string]any{"answer": answer}},
		})
		if err != nil {
			t.Fatal(err)
		}
		out := offline(t, dir, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`+"\n"+
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+string(message)+"\n", "npx", "--offline", "@pforte/receipt", "mcp",
			"--keys", "keys.json")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 2 {
			t.Fatalf("%s", out)
		}
		var answered struct{ Result map[string]any }
		if err := json.Unmarshal([]byte(lines[1]), &answered); err != nil {
			t.Fatal(err)
		}
		return answered.Result
	}
	answer := string(read(t, sampleAnswer))
	if r := call(answer); r["isError"] != false || r["structuredContent"].(map[string]any)["valid"] != true {
		t.Errorf("%v", r)
	}
	forged := strings.Replace(answer, `"gasUsed":"`, `"gasUsed":"1`, 1)
	if r := call(forged); r["isError"] != true || r["structuredContent"].(map[string]any)["code"] == nil {
		t.Errorf("%v", r)
	}
}

func TestPackages_WheelInstallsOfflineAndChecks(t *testing.T) {
	wheel := built(t, "*.whl")
	dir := folder(t, map[string]string{"check.py": `
from pforte_receipt import verify
result = verify(open("answer.json").read(), keys=open("keys.json").read(), kind="transfer")
print(result.transfer["amount"], len(result.proven), len(result.attested))
from pforte_receipt import FinalityUnsupportedError
try:
    verify(open("answer.json").read(), keys=open("keys.json").read(), checkpoint="0x00")
except FinalityUnsupportedError as err:
    print(err.code)
`})
	// pip is not everywhere; a wheel of Python alone is an archive of its modules.
	if exec.CommandContext(t.Context(), "python3", "-m", "pip", "--version").Run() == nil {
		offline(t, dir, "", "python3", "-m", "pip", "install", "--quiet", "--no-index", "--target", dir, wheel)
	} else {
		offline(t, dir, "", "python3", "-m", "zipfile", "-e", wheel, dir)
	}
	if got := offline(t, dir, "", "python3", "-E", "check.py"); got != "1218414017899128 36 5\nfinalityUnsupported\n" {
		t.Error(got)
	}
}

func TestPackages_NPMModuleChecksInABrowser(t *testing.T) {
	module, err := os.ReadFile(filepath.Join(top, "npm/dist/esm/index.js"))
	if err != nil {
		missing(t, "the npm package is not built: make packages")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		missing(t, "chromium is not installed")
	}
	texts, err := json.Marshal([]string{string(read(t, sampleAnswer)), string(read(t, sampleKeys))})
	if err != nil {
		t.Fatal(err)
	}
	page := `<!doctype html><body>nothing</body><script type=module>
import {verify} from './index.js';
const [answer, keys] = ` + string(texts) + `;
document.body.textContent = 'amount ' + verify(answer, {keys}).transfer.amount;
</script>`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(page))
		case "/index.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(module)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--dump-dom", server.URL).Output()
	if err != nil || !strings.Contains(string(out), "amount 1218414017899128") {
		t.Errorf("%v: %s", err, out)
	}
}
