package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

const (
	logFiles = "../../receiptlog/testdata/"
	proof    = logFiles + "receipt.tlog-proof"
	policy   = logFiles + "policy"
)

// listed is the key document with the signing key revoked, and its cut-off.
func listed(t *testing.T, logged *receipt.Logged) string {
	t.Helper()
	doc, err := receipt.ParseKeyDocument([]byte(read(t, vectors+"key.json")))
	if err != nil {
		t.Fatal(err)
	}
	key := doc.Keys[0]
	key.Status, key.Logged = receipt.KeyRevoked, logged
	active, err := receipt.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = receipt.NewKeyDocument(active, doc.Chain, key); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, string(text))
}

func TestLog_MustHaveTheReceiptWhenAskedFor(t *testing.T) {
	answer, key := vectors+"response.json", vectors+"key.json"
	where := "Logged:    entry 7 of verifier.example.com/v1/log/1, in a checkpoint of 300 that 2 of 3 witnesses saw (earliest 2026-11-22T03:45:09Z)\n"
	all := write(t, strings.Replace(read(t, policy), "group two 2", "group two all", 1))
	none := write(t, strings.Replace(read(t, policy), "quorum two", "quorum none", 1))
	otherLog := write(t, "quorum none\n")
	hidden, three := logFiles+"hidden.tlog-proof", logFiles+"policy-three"
	list, malformed := write(t, directory(t)), write(t, "{}")
	cut := func(before string) string {
		return listed(t, &receipt.Logged{Origin: "verifier.example.com/v1/log/1", Before: before})
	}
	for _, c := range []struct {
		name   string
		args   []string
		want   int
		output string
	}{
		{"not asked for", []string{answer, "--key", key}, 0, "Proof:     valid\nLog:       not asked for\n\nProven by"},
		{"logged", []string{answer, "--key", key, "--log", proof, "--log-policy", policy}, 0, where},
		{"a DSSE envelope", []string{vectors + "dsse.json", "--key", key, "--log", proof, "--log-policy", policy}, 0, where},
		{"a policy that asks for none", []string{answer, "--key", key, "--log", proof, "--log-policy", none}, 0, "that 2 of 3 witnesses saw"},
		{"too few witnesses", []string{answer, "--key", key, "--log", proof, "--log-policy", all}, 1, "NOT VALID: NOT LOGGED: log proof: too few witnesses"},
		{"a generation that is not listed", []string{answer, "--key", key, "--log", hidden, "--log-policy", three, "--log-list", list}, 1, "NOT VALID: NOT LOGGED: log proof: a log that the verifier does not list: verifier.example.com/v1/log/2"},
		{"several generations, and no list", []string{answer, "--key", key, "--log", hidden, "--log-policy", three}, 1, "NOT LOGGED: log proof: a log that the verifier does not list"},
		{"several generations, honest, and no list", []string{answer, "--key", key, "--log", proof, "--log-policy", three}, 1, "the policy names 3 generations of this log"},
		{"several generations, listed", []string{answer, "--key", key, "--log", proof, "--log-policy", three, "--log-list", list}, 0, where},
		{"no list file", []string{answer, "--key", key, "--log", proof, "--log-policy", three, "--log-list", "absent"}, 4, "NOT DECIDED"},
		{"a list that is none", []string{answer, "--key", key, "--log", proof, "--log-policy", three, "--log-list", malformed}, 3, "NOT DECIDED"},
		{"a list without a proof", []string{answer, "--key", key, "--log-list", list}, 2, ""},
		{"another log", []string{answer, "--key", key, "--log", proof, "--log-policy", otherLog}, 1, "NOT LOGGED: log proof: not signed by a log"},
		{"another receipt", []string{vectors + "../arbitrum/response.json", "--key", key, "--log", proof, "--log-policy", policy}, 1, "NOT LOGGED: the entry is not in the log"},
		{"no proof", []string{answer, "--key", key, "--log", policy, "--log-policy", policy}, 1, "NOT LOGGED: log proof: malformed"},
		{"revoked", []string{answer, "--key", listed(t, nil), "--log", proof, "--log-policy", policy}, 1, "NOT VALID: revoked key"},
		{"revoked later", []string{answer, "--key", cut("8"), "--log", proof, "--log-policy", policy}, 0, "its key was revoked later, from entry 8 on"},
		{"revoked before", []string{answer, "--key", cut("7"), "--log", proof, "--log-policy", policy}, 1, "NOT VALID: revoked key"},
		{"revoked later, log not asked for", []string{answer, "--key", cut("8")}, 1, "NOT VALID: revoked key"},
		{"another's key", []string{answer, "--key", write(t, otherKeyDocument(t)), "--log", proof, "--log-policy", policy}, 1, "NOT VALID: unknown key"},
		{"no key", []string{answer, "--log", proof, "--log-policy", policy}, 3, "NOT DECIDED: no key given"},
		{"no policy file", []string{answer, "--key", key, "--log", proof, "--log-policy", "absent"}, 3, "NOT DECIDED"},
		{"a policy that is none", []string{answer, "--key", key, "--log", proof, "--log-policy", proof}, 3, "NOT DECIDED"},
		{"no proof file", []string{answer, "--key", key, "--log", "absent", "--log-policy", policy}, 4, "NOT DECIDED"},
		{"a proof without a policy", []string{answer, "--key", key, "--log", proof}, 2, ""},
		{"a policy without a proof", []string{answer, "--key", key, "--log-policy", policy}, 2, ""},
		{"a log over plain http", []string{answer, "--key", key, "--log", "http://192.0.2.1"}, 1, "NOT LOGGED: the address of a log must be https"},
	} {
		code, out, errOut := run(t, "", append([]string{"verify"}, c.args...)...)
		if code != c.want || !strings.Contains(out, c.output) || code != 0 && strings.HasPrefix(out, "VALID") {
			t.Errorf("%s: exit %d, want %d with %q:\n%s%s", c.name, code, c.want, c.output, out, errOut)
		}
	}
}

func TestLog_AskedForIsNotCheckedWithoutAKeyOrAReceipt(t *testing.T) {
	for _, args := range [][]string{{vectors + "response.json"}, {write(t, "{}"), "--key", vectors + "key.json"}} {
		args = append(args, "--log", proof, "--log-policy", policy)
		_, out, _ := run(t, "", append([]string{"verify"}, args...)...)
		_, inJSON, _ := run(t, "", append([]string{"verify", "--json"}, args...)...)
		if !strings.Contains(out, "\nLog:       not checked\n") || !strings.Contains(inJSON, `"state": "not checked"`) {
			t.Errorf("%v:\n%s%s", args, out, inJSON)
		}
	}
}

// directory is the list of a verifier with one generation.
func directory(t *testing.T) string {
	t.Helper()
	key := strings.Fields(read(t, policy))[1]
	list, err := json.Marshal(receiptlog.Directory{
		Logs:       []receiptlog.Generation{{Origin: "verifier.example.com/v1/log/1", Key: key, Prefix: "/v1/log/1", From: "2026-11-22T00:00:00Z"}},
		MergeDelay: 60, Policy: read(t, policy),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(list)
}

// site is a verifier with a log: its key and its list, and an answer for the base vector's
// proof.
func site(t *testing.T, status int, body string) string {
	t.Helper()
	list, key := directory(t), read(t, vectors+"key.json")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/receipt-log.json", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(list)) })
	mux.HandleFunc("GET "+keyPath, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(key)) })
	mux.HandleFunc("GET /v1/log/1/proof/"+strings.TrimSpace(read(t, logFiles+"receipt.leaf")), func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func TestLog_ProofIsFetchedFromTheVerifier(t *testing.T) {
	answer, key, good := vectors+"response.json", vectors+"key.json", read(t, proof)
	own := "earliest 2026-11-22T03:45:09Z), by the log's own policy\n"
	if code, out, _ := run(t, "", "verify", answer, "--key", key, "--log", site(t, 200, good)); code != 0 || !strings.Contains(out, own) {
		t.Errorf("exit %d:\n%s", code, out)
	}
	if code, out, _ := run(t, "", "verify", answer, "--key", key, "--log", site(t, 200, good), "--log-policy", policy); code != 0 || strings.Contains(out, "own policy") {
		t.Errorf("by the reader's policy: exit %d:\n%s", code, out)
	}
	three := []string{"--log-policy", logFiles + "policy-three"}
	for _, c := range []struct {
		name, proof, address string
		want                 int
	}{
		{"fetched", site(t, 200, good), site(t, 200, good), 0},
		{"a hidden generation, fetched", site(t, 200, read(t, logFiles+"hidden.tlog-proof")), key, 1},
		{"a hidden generation, the site of the key", logFiles + "hidden.tlog-proof", site(t, 200, good), 1},
		{"the site of the key", proof, site(t, 200, good), 0},
		{"the key's path", proof, site(t, 200, good) + keyPath, 0},
	} {
		code, out, errOut := run(t, "", append([]string{"verify", answer, "--key", c.address, "--log", c.proof}, three...)...)
		if code != c.want || c.want != 0 && !strings.Contains(out, "NOT LOGGED: log proof: a log that the verifier does not list: verifier.example.com/v1/log/2") {
			t.Errorf("several generations, %s: exit %d:\n%s%s", c.name, code, out, errOut)
		}
	}
	second := write(t, regexp.MustCompile(`(?m)^log \S+/v1/log/[13]\+.*\n`).ReplaceAllString(read(t, logFiles+"policy-three"), ""))
	for name, c := range map[string]struct{ address, want string }{
		"not listed": {site(t, 200, good), "a log that the verifier does not list: verifier.example.com/v1/log/2"},
		"no list":    {httptest.NewServer(http.FileServer(http.Dir(vectors))).URL + "/key.json", "the verifier has no log"},
	} {
		code, out, errOut := run(t, "", "verify", answer, "--key", c.address, "--log", logFiles+"hidden.tlog-proof", "--log-policy", second)
		if code != 1 || !strings.Contains(out, "NOT LOGGED: ") || !strings.Contains(out, c.want) {
			t.Errorf("a policy that names the hidden generation alone, %s: exit %d:\n%s%s", name, code, out, errOut)
		}
	}
	arbitrum := vectors + "../arbitrum/response.json"
	for _, c := range []struct{ name, answer, address, want string }{
		{"pending", answer, site(t, 202, ""), "not yet a proof"},
		{"frozen", answer, site(t, 503, ""), "answers 503"},
		{"unknown", arbitrum, site(t, 200, good), "does not know the receipt"},
		{"changed", answer, site(t, 200, strings.Replace(good, "index 7", "index 8", 1)), "the entry is not in the log"},
		{"endless", answer, site(t, 200, strings.Repeat("a", 1<<20)), "more than"},
		{"no log", answer, httptest.NewServer(http.NotFoundHandler()).URL, "the verifier has no log"},
	} {
		code, out, _ := run(t, "", "verify", c.answer, "--key", key, "--log", c.address)
		if code != 1 || !strings.Contains(out, "NOT LOGGED: ") || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit %d:\n%s", c.name, code, out)
		}
		if code, out, errOut := run(t, "", "log", "get", c.answer, c.address); code != 1 || out != "" || !strings.Contains(errOut, "NOT LOGGED: ") {
			t.Errorf("log get, %s: exit %d, %q, %q", c.name, code, out, errOut)
		}
	}
	if code, out, errOut := run(t, "", "log", "get", answer, site(t, 200, good)); code != 0 || out != good {
		t.Errorf("log get: exit %d, %s%s", code, out, errOut)
	}
	for _, args := range [][]string{{"log"}, {"log", "put"}, {"log", "get", answer}, {"log", "get", answer, "https://verifier.example.com/v1"}} {
		if code, _, errOut := run(t, "", args...); code != 2 || errOut == "" {
			t.Errorf("%v: exit %d, %q", args, code, errOut)
		}
	}
}

// An outage says nothing of the receipt.
func TestLog_ThatCannotBeReachedDecidesNothing(t *testing.T) {
	answer, key := vectors+"response.json", vectors+"key.json"
	server := httptest.NewServer(nil)
	server.Close()
	list := []byte(directory(t))
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != receiptlog.DirectoryPath {
			cutOff(w)
		}
		_, _ = w.Write(list)
	}))
	defer cut.Close()
	for _, address := range []string{server.URL, cut.URL} {
		code, out, _ := run(t, "", "verify", answer, "--key", key, "--log", address)
		if code != 3 || !strings.Contains(out, "NOT DECIDED: ") ||
			!strings.Contains(out, "Log:       not checked") || strings.Contains(out, "NOT LOGGED") {
			t.Errorf("exit %d:\n%s", code, out)
		}
		code, out, errOut := run(t, "", "log", "get", answer, address)
		if code != 3 || out != "" || strings.Contains(errOut, "NOT LOGGED") {
			t.Errorf("log get: exit %d, %q, %q", code, out, errOut)
		}
	}
	later := listed(t, &receipt.Logged{Origin: "verifier.example.com/v1/log/1", Before: "8"})
	for key, want := range map[string]int{later: 3, listed(t, nil): 1} {
		code, out, _ := run(t, "", "verify", answer, "--key", key, "--log", server.URL)
		if code != want || strings.Contains(out, "\nSignature: valid") {
			t.Errorf("a revoked key: exit %d, want %d:\n%s", code, want, out)
		}
	}
}

func TestLog_PlaceIsInJSON(t *testing.T) {
	answer, key := vectors+"response.json", vectors+"key.json"
	var got struct{ Log *logReport }
	_, out, _ := run(t, "", "verify", "--json", answer, "--key", key, "--log", proof, "--log-policy", policy)
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Log == nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	want := logReport{State: "valid", Origin: "verifier.example.com/v1/log/1", Index: 7, Size: 300, Witnesses: 2, Of: 3, Earliest: "2026-11-22T03:45:09Z"}
	if *got.Log != want {
		t.Errorf("%+v, not %+v", *got.Log, want)
	}
	if _, out, _ := run(t, "", "verify", "--json", answer, "--key", key); strings.Contains(out, `"log"`) {
		t.Errorf("not asked for:\n%s", out)
	}
}
