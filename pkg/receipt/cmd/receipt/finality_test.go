package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
)

// The documents are about the block of this answer, in a network of their own.
const (
	finalAnswer = "../../testdata/vectors/ethereum-blob/response.json"
	finalKey    = "../../testdata/vectors/ethereum-blob/key.json"
	finalFiles  = "../../finality/testdata/ethereum-blob/"
)

func checkpoint(t *testing.T, name string) string {
	t.Helper()
	var roots map[string]string
	if err := json.Unmarshal([]byte(read(t, finalFiles+"checkpoints.json")), &roots); err != nil {
		t.Fatal(err)
	}
	return roots[name]
}

func TestFinality_IsReported(t *testing.T) {
	for _, name := range []string{"signed", "pinned"} {
		code, out, errOut := run(t, "", "verify", finalAnswer, "--key", finalKey, "--finality", finalFiles+name+".json",
			"--checkpoint", checkpoint(t, name), "--network", finalFiles+"network.json", "--require-finality")
		if code != 0 {
			t.Fatalf("exit %d: %s%s", code, out, errOut)
		}
		path := "testdata/finality-" + name + ".txt"
		if *update {
			if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(read(t, path), out); diff != "" {
			t.Errorf("%s (-documented +is):\n%s", name, diff)
		}
	}
}

func TestFinality_MustHoldWhenAskedFor(t *testing.T) {
	signed, root := finalFiles+"signed.json", checkpoint(t, "signed")
	network := []string{"--network", finalFiles + "network.json"}
	with := func(args ...string) []string { return append(args, network...) }
	changed := write(t, strings.Replace(read(t, signed), `"index": 61`, `"index": 60`, 1))
	attested := "Final:     attested by the signer only. No finality proof was given; ask for one at /v1/finality/ethereum/0x"
	base := []string{vectors + "response.json", "--key", vectors + "key.json"}
	for _, c := range []struct {
		name   string
		args   []string
		want   int
		output string
	}{
		{"not asked for", nil, 0, "Proof:     valid\nLog:       not asked for\n\nProven by"},
		{
			"final", with("--finality", signed, "--checkpoint", root), 0,
			"Final:     proven from your checkpoint " + root + " (slot 10)\n" +
				"  by 2 sync committees (periods 0 and 1); the least signed step had 61 of 64\n" +
				"  block 22119617 is an ancestor of the finalized block 22119628, by the headers between them\n" +
				"  A sync committee is a random sample of the validators and is not punished for lying.\n",
		},
		{
			"pinned", with("--finality", finalFiles+"pinned.json", "--checkpoint", checkpoint(t, "pinned")), 0,
			"\n  which is itself the finalized block: no sync committee is needed\n  block 22119617 is the finalized block\n\n",
		},
		{"the checkpoint in upper case", with("--finality", signed, "--checkpoint", "0x"+strings.ToUpper(root[2:])), 0, "proven from your checkpoint"},
		{"without a checkpoint", with("--finality", signed), 2, ""},
		{"a checkpoint that is none", with("--finality", signed, "--checkpoint", "0x12"), 2, ""},
		{"an unknown network", []string{"--finality", signed, "--checkpoint", root, "--network", "holesky"}, 2, ""},
		{"a network that is none", []string{"--finality", signed, "--checkpoint", root, "--network", signed}, 2, ""},
		{"no age", with("--finality", signed, "--checkpoint", root, "--max-checkpoint-age", "0s"), 2, ""},
		{"a network for nothing", network, 2, ""},
		{"an age for nothing", []string{"--max-checkpoint-age", "1h"}, 2, ""},
		{
			"another checkpoint", with("--finality", signed, "--checkpoint", checkpoint(t, "pinned")), 1,
			"NOT VALID: NOT SHOWN TO BE FINAL: finality document from another checkpoint",
		},
		{"another network", []string{"--finality", signed, "--checkpoint", root}, 1, "NOT SHOWN TO BE FINAL: finality document of another chain"},
		{"a changed proof", with("--finality", changed, "--checkpoint", root), 1, "NOT SHOWN TO BE FINAL: step 2: not signed by the sync committee of its period"},
		{"no proof at all", with("--finality", finalAnswer, "--checkpoint", root), 1, "NOT SHOWN TO BE FINAL: malformed finality document"},
		{"a file that is not there", with("--finality", "absent.json", "--checkpoint", root), 4, "NOT DECIDED: finality proof:"},
		{
			"another block", with("--finality", "../../finality/testdata/electra-1422.json", "--checkpoint", root), 1,
			"NOT SHOWN TO BE FINAL: finality document of another block",
		},
		{
			"a checkpoint of 17 days",
			[]string{"--finality", signed, "--checkpoint", root, "--network", finalFiles + "old-network.json"},
			1,
			"NOT SHOWN TO BE FINAL: the checkpoint is too old",
		},
		{
			"that age allowed",
			[]string{"--finality", signed, "--checkpoint", root, "--network", finalFiles + "old-network.json", "--max-checkpoint-age", "480h"},
			0,
			"\n  The checkpoint lies 17 days before it, more than 14: validators who left since can sign another history without a loss.\n",
		},
		{"nothing given", []string{"--checkpoint", root}, 0, attested},
		{"nothing given, but required", []string{"--require-finality"}, 1, "NOT VALID: there is no finality proof"},
		{"an L2", append(base, "--checkpoint", root), 0, "Final:     attested by the signer only; no finality proof exists for this chain yet.\n"},
		{"an L2, but required", append(base, "--require-finality"), 1, "NOT VALID: there is no finality proof"},
		{"a proof for an L2", append(base, "--finality", signed, "--checkpoint", root), 1, "NOT SHOWN TO BE FINAL: finality document of another chain"},
		{"over plain http", with("--finality", "http://192.0.2.1", "--checkpoint", root), 3, "NOT DECIDED: finality proof: the address of a finality proof must be https"},
	} {
		args := c.args
		if len(args) == 0 || args[0] != base[0] {
			args = append([]string{finalAnswer, "--key", finalKey}, args...)
		}
		code, out, errOut := run(t, "", append([]string{"verify"}, args...)...)
		if code != c.want || !strings.Contains(out, c.output) || code != 0 && strings.HasPrefix(out, "VALID") {
			t.Errorf("%s: exit %d, want %d with %q:\n%s%s", c.name, code, c.want, c.output, out, errOut)
		}
	}
	if _, _, errOut := run(t, "", "verify", finalAnswer, "--finality", signed); !strings.Contains(errOut, "pin a checkpoint: without one a finality proof proves nothing") {
		t.Error(errOut)
	}
}

func TestFinality_IsOnlyClaimedWithoutASignature(t *testing.T) {
	root := checkpoint(t, "signed")
	for want, args := range map[string][]string{
		"Final:     only claimed, by a signature that is not checked. No finality proof was given":                  {finalAnswer},
		"Final:     only claimed, by a signature that is not checked; no finality proof exists for this chain yet.": {"../../testdata/vectors/base/response.json"},
	} {
		code, out, _ := run(t, "", append([]string{"verify", "--checkpoint", root}, args...)...)
		if code != 3 || !strings.Contains(out, want) {
			t.Errorf("exit %d, want 3 with %q:\n%s", code, want, out)
		}
	}
}

func TestFinality_ProofComesFromAVerifier(t *testing.T) {
	root := checkpoint(t, "signed")
	doc, err := receipt.Parse([]byte(read(t, finalAnswer)))
	if err != nil {
		t.Fatal(err)
	}
	own := "/v1/finality/ethereum/" + doc.Receipt.Block.Hash
	status, asked := http.StatusOK, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		w.WriteHeader(status)
		if status == http.StatusOK {
			_, _ = w.Write([]byte(read(t, finalFiles+"signed.json")))
		}
	}))
	defer server.Close()
	verify := func(address string, more ...string) (int, string) {
		code, out, errOut := run(t, "", append([]string{
			"verify", finalAnswer, "--key", finalKey, "--finality", address,
			"--checkpoint", root, "--network", finalFiles + "network.json",
		}, more...)...)
		return code, out + errOut
	}
	for address, want := range map[string]string{
		server.URL:                      own + "?checkpoint=" + root,
		server.URL + "/":                own + "?checkpoint=" + root,
		server.URL + "/elsewhere?a=b":   "/elsewhere?a=b&checkpoint=" + root,
		server.URL + "/x?checkpoint=0x": "/x?checkpoint=" + root,
	} {
		if code, out := verify(address); code != 0 || asked != want || !strings.Contains(out, "Final:     proven from your checkpoint") {
			t.Errorf("%s: exit %d, asked %s:\n%s", address, code, asked, out)
		}
	}
	host := strings.TrimPrefix(server.URL, "http://")
	for answer, want := range map[int]string{
		http.StatusAccepted:            "The finality proof is not made yet; ask again in some minutes.",
		http.StatusNotFound:            host + " has no finality proof of this block.",
		http.StatusUnprocessableEntity: host + " cannot prove it from your checkpoint: it does not know that checkpoint, or the checkpoint is too old.",
		http.StatusServiceUnavailable:  host + " cannot make the finality proof now; ask again in some minutes.",
	} {
		status = answer
		if code, out := verify(server.URL); code != 0 || !strings.Contains(out, "\nFinal:     attested by the signer only. "+want+"\n") {
			t.Errorf("%d: exit %d\n%s", answer, code, out)
		}
		if code, out := verify(server.URL, "--require-finality"); code != 1 || !strings.HasPrefix(out, "NOT VALID: there is no finality proof") {
			t.Errorf("%d, required: exit %d\n%s", answer, code, out)
		}
	}
	status = http.StatusInternalServerError
	if code, out := verify(server.URL); code != 3 || !strings.HasPrefix(out, "NOT DECIDED: finality proof:") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestFinality_IsInJSON(t *testing.T) {
	type answer struct {
		Valid            bool
		Proven, Attested []receipt.Fact
		Finality         *struct {
			State, Reason string
			Result        *struct {
				Proven       []receipt.Fact
				LeastSigners int
				AgeSeconds   int
			}
		}
	}
	parse := func(args ...string) (a answer) {
		t.Helper()
		_, out, _ := run(t, "", append([]string{"verify", "--json", finalAnswer, "--key", finalKey}, args...)...)
		if err := json.Unmarshal([]byte(out), &a); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		return a
	}
	without := parse()
	got := parse("--finality", finalFiles+"signed.json", "--checkpoint", checkpoint(t, "signed"), "--network", finalFiles+"network.json")
	if without.Finality != nil || got.Finality == nil || got.Finality.State != "valid" || got.Finality.Result == nil ||
		got.Finality.Result.LeastSigners != 61 || got.Finality.Result.AgeSeconds != 840 || len(got.Finality.Result.Proven) != 4 {
		t.Errorf("%+v", got.Finality)
	}
	if len(got.Attested) != len(without.Attested)-3 || len(got.Proven) != len(without.Proven) { // chain.id is proven twice
		t.Errorf("%d attested, %d without; %d proven, %d without", len(got.Attested), len(without.Attested), len(got.Proven), len(without.Proven))
	}
	if absent := parse("--checkpoint", checkpoint(t, "signed")); !absent.Valid || absent.Finality == nil || absent.Finality.State != "absent" || absent.Finality.Reason == "" {
		t.Errorf("%+v", absent.Finality)
	}
}
