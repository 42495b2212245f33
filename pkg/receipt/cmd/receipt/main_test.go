package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
)

const vectors = "../../testdata/vectors/base/"

// run runs one command with text on its standard input.
func run(t *testing.T, in string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = execute(t.Context(), args, streams{strings.NewReader(in), &stdout, &stderr, time.Now}, "v1.2.3")
	return code, stdout.String(), stderr.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// write writes a file of the test's own.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVerify_ExitCodeReportsWhatWasFound(t *testing.T) {
	answer, key := vectors+"response.json", vectors+"key.json"
	changed := strings.Replace(read(t, answer), `"gasUsed":"243964"`, `"gasUsed":"243963"`, 1)
	revoked := revokedDocument(t, read(t, key))
	brokenProof := strings.Replace(read(t, answer), `"index":"3","transaction":["0xf8`, `"index":"3","transaction":["0xf9`, 1)
	foreign := write(t, otherKeyDocument(t))
	for _, c := range []struct {
		name   string
		in     string
		args   []string
		want   int
		output string
	}{
		{"a valid answer", "", []string{"verify", answer, "--key", key}, 0, "VALID\n"},
		{"flags in front", "", []string{"verify", "--key=" + key, answer}, 0, "VALID\n"},
		{"from the standard input", read(t, answer), []string{"verify", "-", "--key", key}, 0, "VALID\n"},
		{"the key from there", read(t, key), []string{"verify", answer, "--key", "-"}, 0, "VALID\n"},
		{"a DSSE envelope", "", []string{"verify", vectors + "dsse.json", "--key", key}, 0, "without a proof"},
		{"an envelope where a proof must be", "", []string{"verify", vectors + "dsse.json", "--key", key, "--require-proof"}, 1, "there is no proof"},
		{"a proof where one must be", "", []string{"verify", answer, "--key", key, "--require-proof"}, 0, "VALID\n"},
		{"a changed receipt", changed, []string{"verify", "-", "--key", key}, 1, "NOT VALID: signature does not match"},
		{"a changed proof", brokenProof, []string{"verify", "-", "--key", key}, 1, "NOT VALID: proof does not hold"},
		{"a revoked key", revoked, []string{"verify", answer, "--key", "-"}, 1, "NOT VALID: revoked key"},
		{"another's key", "", []string{"verify", answer, "--key", foreign}, 1, "NOT VALID: unknown key"},
		{"no receipt", "hello", []string{"verify", "-", "--key", key}, 1, "NOT VALID: malformed"},
		{"no key", "", []string{"verify", answer}, 3, "NOT DECIDED: no key given"},
		{"no key, and a changed proof", brokenProof, []string{"verify", "-"}, 1, "NOT VALID: proof does not hold"},
		{"a key file that is not there", "", []string{"verify", answer, "--key", "absent.json"}, 3, "NOT DECIDED: key document"},
		{"a key file that is none", "", []string{"verify", answer, "--key", answer}, 3, "NOT DECIDED"},
		{"a key over plain http", "", []string{"verify", answer, "--key", "http://192.0.2.1/key"}, 3, "must be https"},
		{"a key over another scheme", "", []string{"verify", answer, "--key", "file:///etc/passwd"}, 3, "must be https"},
	} {
		code, out, errOut := run(t, c.in, c.args...)
		if code != c.want || !strings.Contains(out, c.output) {
			t.Errorf("%s: exit %d, want %d with %q:\n%s%s", c.name, code, c.want, c.output, out, errOut)
		}
	}
}

func TestUsage_IsShownForWhatIsNoCommand(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"check"},
		{"verify"},
		{"verify", "a", "b"},
		{"verify", "a", "--unknown"},
		{"verify", "a", "--key"},
		{"verify", "-", "--key", "-"},
		{"inspect"},
		{"keygen", "file"},
		{"pubkey"},
	} {
		if code, out, errOut := run(t, "", args...); code != 2 || out != "" || errOut == "" {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, errOut)
		}
	}
	if code, _, errOut := run(t, "", "verify", "absent.json"); code != 4 || !strings.Contains(errOut, "absent.json") {
		t.Errorf("a file that is not there: exit %d, %q", code, errOut)
	}
}

func TestHelp_AndVersion(t *testing.T) {
	if code, out, _ := run(t, "", "--help"); code != 0 || !strings.Contains(out, "Exit codes") {
		t.Errorf("--help: exit %d\n%s", code, out)
	}
	if code, out, _ := run(t, "", "--version"); code != 0 || out != "receipt v1.2.3\n" {
		t.Errorf("--version: exit %d, %q", code, out)
	}
}

func TestVerify_ReportsWhatIsProvenAndWhatAttested(t *testing.T) {
	_, out, _ := run(t, "", "verify", vectors+"response.json", "--key", vectors+"key.json")
	proven, attested, ok := strings.Cut(out, "Attested by the signer only")
	if !ok {
		t.Fatalf("no attested part:\n%s", out)
	}
	for _, field := range []string{"transaction.from", "outcome.status", "block.number", "checks.selector"} {
		if !strings.Contains(proven, field) || strings.Contains(attested, field) {
			t.Errorf("%s is not among what is proven:\n%s", field, out)
		}
	}
	for _, words := range []string{"this block is the canonical one", "calls this block finalized", "confirmations", "outcome.gasUsed"} {
		if !strings.Contains(attested, words) || strings.Contains(proven, words) {
			t.Errorf("%q is not among what is attested:\n%s", words, out)
		}
	}
	if !strings.Contains(out, "succeeded in block 2000000 of base (eip155:8453)") {
		t.Errorf("no claim:\n%s", out)
	}
}

func TestVerify_PrintsATransferInOneSentence(t *testing.T) {
	for vector, want := range map[string]string{
		"transfer-usdc": "Transfer:  1800 USDC (known token, 6 decimals) from 0x7b60e46eba142b7e95e967c1e34cfb862385ee53" +
			" to 0x91a559d248a216d1dd17c4d39f51bda9bd1de7e2, log 0 of the transaction; 1 log fits\n",
		"transfer-native": "Transfer:  69970000000000014 of the native coin, in atomic units, from 0xe4edb277e41dc89ab076a1f049f4a3efa700bce8" +
			" to 0x846f480e35ef9c99f0160783850f01ba2c2bc907, by the transaction itself\n",
		"transfer-authorization": ", log 1 of the transaction; 1 log fits; by the authorization" +
			" 0x5be8e543063152124a76988173c8dfe5b3ab21bcf752713794a036f9bf288ba3 of 0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266, log 0\n",
	} {
		folder := filepath.Join("../../testdata/vectors", vector)
		code, out, errOut := run(t, "", "verify", filepath.Join(folder, "response.json"), "--key", filepath.Join(folder, "key.json"), "--require-proof")
		if code != 0 || !strings.HasPrefix(out, "VALID\n") || !strings.Contains(out, want) || !strings.Contains(out, "transfer.amount") {
			t.Errorf("%s: exit %d, %s:\n%s", vector, code, errOut, out)
		}
	}
}

// go test ./cmd/receipt -run TestVerify_DocumentedOutput -update
var update = flag.Bool("update", false, "write the documented output anew")

// deploy/docs/receipts.md shows how this output begins.
func TestVerify_DocumentedOutput(t *testing.T) {
	const path = "testdata/verify.txt"
	_, out, _ := run(t, "", "verify", vectors+"response.json", "--key", vectors+"key.json")
	if *update {
		if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(read(t, path), out); diff != "" {
		t.Errorf("output (-documented +is):\n%s", diff)
	}
}

func TestVerify_JSONReportsTheSame(t *testing.T) {
	type answer struct {
		Valid                   bool
		Signature, Proof, Error string
		Receipt                 *receipt.Receipt
		Key                     *receipt.Key
		Proven, Attested        []receipt.Fact
		Transfers               []receipt.Transfer
	}
	parse := func(out string) (a answer) {
		t.Helper()
		if err := json.Unmarshal([]byte(out), &a); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		return a
	}
	code, out, errOut := run(t, "", "verify", "--json", vectors+"response.json", "--key", vectors+"key.json")
	got := parse(out)
	if code != 0 || errOut != "" || !got.Valid || got.Signature != "valid" || got.Proof != "valid" || got.Error != "" {
		t.Errorf("exit %d, %q:\n%s", code, errOut, out)
	}
	if got.Receipt == nil || got.Key == nil || len(got.Proven) == 0 || len(got.Attested) == 0 || len(got.Transfers) == 0 {
		t.Errorf("something is missing:\n%s", out)
	}
	code, out, errOut = run(t, "hello", "verify", "--json", "-")
	got = parse(out)
	if code != 1 || errOut != "" || got.Valid || got.Error == "" || got.Signature != "not checked" || got.Proven == nil {
		t.Errorf("not a receipt: exit %d, %q:\n%s", code, errOut, out)
	}
}

func TestVerify_FetchesTheKeyDocument(t *testing.T) {
	document := read(t, vectors+"key.json")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/receipt-signing-key.json", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(document))
	})
	mux.HandleFunc("GET /gone", http.NotFound)
	mux.HandleFunc("GET /big", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20+1)) })
	mux.Handle("GET /away", http.RedirectHandler("http://192.0.2.1/key.json", http.StatusFound))
	mux.Handle("GET /loop", http.RedirectHandler("/loop", http.StatusFound))
	mux.Handle("GET /moved", http.RedirectHandler("/.well-known/receipt-signing-key.json", http.StatusFound))
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]int{
		"": 0, "/": 0, "/.well-known/receipt-signing-key.json": 0, "/moved": 0, "/gone": 3, "/big": 3, "/away": 3, "/loop": 3,
	} {
		code, out, errOut := run(t, "", "verify", vectors+"response.json", "--key", server.URL+path)
		if code != want {
			t.Errorf("%q: exit %d, want %d:\n%s%s", path, code, want, out, errOut)
		}
	}
}

func TestVerify_HostileDocumentsCannotSteerTheTerminal(t *testing.T) {
	_, out, errOut := run(t, `{"\u001b[31m\u0007":1}`, "verify", "-")
	if strings.ContainsAny(out+errOut, "\x1b\x07") {
		t.Errorf("control characters: %q", out+errOut)
	}
}

func TestVerify_HostileDocumentsAddNoLine(t *testing.T) {
	for _, command := range []string{"verify", "inspect"} {
		_, out, errOut := run(t, `{"x\n\nVALID\n":1}`, command, "-")
		if slices.Contains(strings.Split(out+errOut, "\n"), "VALID") || !strings.Contains(out+errOut, "VALID") {
			t.Errorf("%s: %q", command, out+errOut)
		}
	}
}

func TestInspect_ShowsTheReceiptAndBelievesNothing(t *testing.T) {
	code, out, _ := run(t, "", "inspect", vectors+"response.json")
	if code != 0 || !strings.Contains(out, `"number": "2000000"`) || !strings.Contains(out, "Nothing of this has been checked") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	if code, _, errOut := run(t, "{}", "inspect", "-"); code != 1 || !strings.Contains(errOut, "malformed") {
		t.Errorf("not a receipt: exit %d, %q", code, errOut)
	}
}

// revokedDocument is a document of another key in which this one's is revoked.
func revokedDocument(t *testing.T, document string) string {
	t.Helper()
	old, err := receipt.ParseKeyDocument([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := receipt.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	old.Keys[0].Status = receipt.KeyRevoked
	doc, err := receipt.NewKeyDocument(fresh, old.Chain, old.Keys...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func otherKeyDocument(t *testing.T) string {
	t.Helper()
	_, pem, _ := run(t, "", "keygen")
	_, doc, _ := run(t, pem, "pubkey", "-")
	return doc
}
