package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/services/verifier/internal/agent"
)

// logged returns a file of a log that has the recorded answer.
func logged(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../../pkg/receipt/receiptlog/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func policyFile(t *testing.T, policy string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// openLogged is a verifier that lists the log of logged, and answers a request for the proof of the recorded
// answer with status and proof.
func openLogged(t *testing.T, status int, proof string) *seller {
	t.Helper()
	policy := logged(t, "policy")
	list, err := json.Marshal(receiptlog.Directory{
		Logs: []receiptlog.Generation{{
			Origin: "verifier.example.com/v1/log/1", Key: strings.Fields(policy)[1], Prefix: "/v1/log/1", From: "2026-11-22T00:00:00Z",
		}},
		MergeDelay: 60, Policy: policy,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, deliver(t))
	s.pages = map[string]func(http.ResponseWriter){
		receiptlog.DirectoryPath: func(w http.ResponseWriter) { _, _ = w.Write(list) },
		"/v1/log/1/proof/" + strings.TrimSpace(logged(t, "receipt.leaf")): refuse(status, proof),
	}
	return s
}

func TestLog_IsAskedForAReceiptByThePolicyOfTheUser(t *testing.T) {
	const where = "Entry 7 of the log verifier.example.com/v1/log/1, which 2 witnesses saw"
	policy, proof := logged(t, "policy"), logged(t, "receipt.tlog-proof")
	failed := func(status int) string {
		return fmt.Sprintf(`{"error":"no","code":%d,"reason":"some_reason","retryable":%v}`, status, status >= 500)
	}
	for name, c := range map[string]struct {
		policy string
		status int
		proof  string
		valid  bool
		said   string
		reason string // why it is not decided
	}{
		"logged":                               {policy, 200, proof, true, where, ""},
		"several generations, this one listed": {logged(t, "policy-three"), 200, proof, true, where, ""},
		"too few witnesses":                    {strings.Replace(policy, "group two 2", "group two all", 1), 200, proof, false, "NOT LOGGED: log proof: too few witnesses", ""},
		"a log that is not trusted":            {"quorum none\n", 200, proof, false, "NOT LOGGED: log proof: not signed by a log", ""},
		"a log that is not listed":             {logged(t, "policy-three"), 200, logged(t, "hidden.tlog-proof"), false, "NOT LOGGED: log proof: a log that the verifier does not list", ""},
		"no proof":                             {policy, 200, policy, false, "NOT LOGGED: log proof: malformed", ""},
		"not known":                            {policy, 404, failed(404), false, "does not know the receipt", ""},
		"not yet":                              {policy, 202, failed(202), false, "not yet a proof", "log_proof_pending"},
		"away":                                 {policy, 503, failed(503), false, "The verifier refused", "some_reason"},
	} {
		t.Run(name, func(t *testing.T) {
			a := openLogged(t, c.status, c.proof).assistant(t.TempDir(), nil, "--log-policy", policyFile(t, c.policy))
			got := a.call("check_receipt", map[string]any{"answer": string(read(t, "response.json"))})
			if got.Valid != c.valid || got.isError == c.valid || !strings.Contains(got.text, c.said) || got.Reason != c.reason {
				t.Errorf("%+v", got)
			}
			if c.reason != "" && (!got.Retryable || got.Paid != "no") {
				t.Errorf("%+v", got)
			}
			if c.valid && (got.Log.Index != 7 || got.Log.Witnesses != 2 || got.Log.Earliest != "2026-11-22T03:45:09Z") {
				t.Errorf("%+v", got.Log)
			}
		})
	}
}

// A tool returns what it bought without its proof: that is in the log as well.
func TestLog_HasAReceiptWithoutItsProof(t *testing.T) {
	document, err := receipt.Parse(read(t, "response.json"))
	if err != nil {
		t.Fatal(err)
	}
	brief, err := json.Marshal(map[string]any{"receipt": document.Receipt, "signature": document.Signature})
	if err != nil {
		t.Fatal(err)
	}
	a := openLogged(t, 200, logged(t, "receipt.tlog-proof")).assistant(t.TempDir(), nil, "--log-policy", policyFile(t, logged(t, "policy")))
	if got := a.call("check_receipt", map[string]any{"answer": string(brief)}); !got.Valid || got.Log.Index != 7 {
		t.Errorf("%+v", got)
	}
}

func TestLog_APolicyThatIsNoneIsAFault(t *testing.T) {
	for _, file := range []string{"/nowhere", filepath.Join(vector, "response.json")} {
		var stderr bytes.Buffer
		code := agent.Run(t.Context(), "v0", []string{"mcp", "--log-policy", file}, func(string) string { return "" }, strings.NewReader(""), io.Discard, &stderr)
		if code != 2 || !strings.Contains(stderr.String(), "flag -log-policy: ") {
			t.Errorf("%s: code %d, %s", file, code, &stderr)
		}
	}
}
