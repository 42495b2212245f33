package e2e

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
)

// TestPages_AreShown writes a picture of every page in both languages, themes and widths
// into the folder SHOTS, as `make shots` does, and fails on what the browser finds wrong.
func TestPages_AreShown(t *testing.T) {
	if os.Getenv("SHOTS") == "" {
		t.Skip("SHOTS is not set: make shots sets it")
	}
	for _, language := range []string{"de", "en"} {
		for _, theme := range []string{"light", "dark"} {
			t.Run(language+"/"+theme, func(t *testing.T) {
				h := newHousehold(t, "localhost", map[string]string{"BOOTSTRAP_ADMIN_USERNAME": "", "BOOTSTRAP_ADMIN_PASSWORD_FILE": "", "TZ": "Europe/Berlin"})
				h.journey(t, "shots.mjs", "LANGUAGE="+language, "THEME="+theme, "SHOTS="+os.Getenv("SHOTS"), "ONLY="+os.Getenv("ONLY"))
			})
		}
	}
}

// receipts are the golden files of the receipt's packages.
const receipts = top + "/pkg/receipt/"

// TestCheckPage_IsShown writes pictures of it, like TestPages_AreShown.
func TestCheckPage_IsShown(t *testing.T) {
	if os.Getenv("SHOTS") == "" {
		t.Skip("SHOTS is not set: make shots sets it")
	}
	dir := t.TempDir()
	read := func(path string) []byte {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	write := func(name string, text []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, policy := read(receipts+"testdata/vectors/base/key.json"), read(receipts+"receiptlog/testdata/policy")
	site, err := json.Marshal(map[string]any{"name": "verifier.example.com", "keys": json.RawMessage(key), "log": "/v1/log/1", "policy": string(policy)})
	if err != nil {
		t.Fatal(err)
	}
	page := write("page.html", bytes.Replace(read(filepath.Join(os.Getenv("PFORTE_BIN"), "receipt-checker.html")), []byte(`id="site">null<`), append(append([]byte(`id="site">`), site...), '<'), 1))
	keys := write("receipt-signing-key.json", key)
	base, transfer := write("answer.json", read(receipts+"testdata/vectors/base/response.json")), write("payment.json", read(receipts+"testdata/vectors/transfer-usdc/response.json"))
	proof, rules := write("answer.tlog-proof", read(receipts+"receiptlog/testdata/receipt.tlog-proof")), write("log-policy.txt", policy)
	finality := write("answer.finality.json", read(receipts+"finality/testdata/electra-1422.json"))
	checkpoint := write("checkpoint.txt", []byte("0xb8758d4bd976e1b33e62937ed31a709dba0a855869641581bef3d2a48b527690"))
	final := write("final.json", finalReceipt(t, read(receipts+"testdata/vectors/ethereum-blob/response.json")))
	changed := write("changed.json", bytes.ReplaceAll(read(base), []byte(`"2000000"`), []byte(`"2000001"`)))
	sets, err := json.Marshal(map[string][]string{
		"check-empty": {}, "check-undecided": {base}, "check-valid": {transfer, keys}, "check-logged": {base, keys, proof, rules},
		"check-final": {final, keys, finality, checkpoint}, "check-no-checkpoint": {final, keys, finality}, "check-no-policy": {base, keys, proof},
		"check-not-valid": {changed, keys}, "check-none": {rules, page},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, language := range []string{"de", "en"} {
		for _, theme := range []string{"light", "dark"} {
			t.Run(language+"/"+theme, func(t *testing.T) {
				runJourney(t, "check-shots.mjs", []string{
					"LANGUAGE=" + language, "THEME=" + theme, "SHOTS=" + os.Getenv("SHOTS"), "ONLY=" + os.Getenv("ONLY"), "PAGE=" + page, "SETS=" + string(sets),
				})
			})
		}
	}
}

// finalReceipt returns an answer, signed by the vectors' key (RFC 8032 section 7.1, test 1),
// about the block of the recorded finality document.
func finalReceipt(t *testing.T, like []byte) []byte {
	t.Helper()
	doc, err := receipt.Parse(like)
	if err != nil {
		t.Fatal(err)
	}
	doc.Receipt.Block.Number, doc.Receipt.Block.Hash = "22432991", "0xd4c1a04e15667a6a012075daee220cf04a052a3491632572bfb0e5d90736b4cb"
	seed, err := hex.DecodeString("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
	if err != nil {
		t.Fatal(err)
	}
	key, err := receipt.NewKeyFromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := receipt.Sign(key, doc.Receipt, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := answer.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
