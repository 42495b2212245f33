package receipt_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
)

// go test -run TestGolden_Vectors -update .
var update = flag.Bool("update", false, "write the golden vectors anew")

const vectorsFolder = "testdata/vectors"

// vectors are the recorded transactions that the golden vectors are made of.
var vectors = []struct{ name, block, transaction string }{
	{"base", "base-mainnet-2000000", "0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb"},
	{"optimism-deposit", "op-mainnet-109860869", "0x2d5e46e707b189b00756eb26fa5b8f009ecc3795fec4341eec9744440a07b4e6"},
	{"arbitrum", "arbitrum-one-150000000", "0x08627d8fc27a4462c22c8096886926cb5d58bb6515759f9d8e73dfbaf08beb35"},
	{"polygon-reverted", "polygon-38102393", "0xa6e7c28d1240ed8ede87dfe595905513d4a34457a87e6ab6b31138b8ce270c71"},
	{"ethereum-blob", "ethereum-22119617", "0xcb04d3eddd320d31de516ff1d235df6bcf927869ef95a4359c16e5371e0afa28"},
}

// vector is one golden vector in its four files.
type vector struct {
	folder   string
	files    map[string][]byte
	response receipt.Response
	keys     receipt.KeyDocument
}

// readVectors reads the golden vectors as they are in the repository.
func readVectors(t testing.TB) []vector {
	t.Helper()
	var out []vector
	for _, known := range vectors {
		out = append(out, readVector(t, known.name))
	}
	return out
}

func readVector(t testing.TB, name string) vector {
	t.Helper()
	v := vector{folder: name, files: map[string][]byte{}}
	for _, file := range []string{"payload.jcs", "response.json", "dsse.json", "key.json"} {
		v.files[file] = readFile(t, vectorFile(name, file))
	}
	unmarshal(t, v.files["response.json"], &v.response)
	unmarshal(t, v.files["key.json"], &v.keys)
	return v
}

// makeVectors makes them from the recorded blocks.
func makeVectors(t testing.TB) []vector {
	t.Helper()
	blocks := map[string]recordedBlock{}
	for _, block := range allBlocks(t) {
		blocks[block.Name] = block
	}
	var out []vector
	for _, v := range vectors {
		block := blocks[v.block]
		i := block.Find(t, v.transaction)
		r := block.Receipt(i, expected(block.Receipt(i, receipt.Expectations{}), 12))
		out = append(out, makeVector(t, v.name, r, block.Proof(i)))
	}
	return out
}

func makeVector(t testing.TB, name string, r receipt.Receipt, proof receipt.Proof) vector {
	t.Helper()
	response, err := receipt.Sign(testKey(t), r, &proof)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	keys, err := receipt.NewKeyDocument(testKey(t), r.Chain.ID)
	if err != nil {
		t.Fatal(err)
	}
	if r.Type == receipt.Type {
		keys.PayloadTypes = nil // as it was before there was another kind
	}
	envelope, err := response.Envelope()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := response.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return vector{folder: name, files: map[string][]byte{
		"payload.jcs":   response.Receipt,
		"response.json": append(answer, '\n'),
		"dsse.json":     append(mustMarshal(t, envelope), '\n'),
		"key.json":      append(mustIndent(t, keys), '\n'),
	}}
}

func TestGolden_Vectors(t *testing.T) {
	for _, v := range append(makeVectors(t), makeTransfers(t)...) {
		folder := filepath.Join(vectorsFolder, v.folder)
		for name, want := range v.files {
			path := filepath.Join(folder, name)
			if *update {
				if err := os.MkdirAll(folder, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, want, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(readFile(t, path)), string(want)); diff != "" {
				t.Errorf("%s (-file +made):\n%s", path, diff)
			}
		}
	}
}

// The first vector was made by another program, which knew only the format.
func TestGolden_FormatIsThatOfTheSample(t *testing.T) {
	base := readVectors(t)[0]
	sum := sha256.Sum256(base.response.Receipt)
	if got, want := hex.EncodeToString(sum[:]), "b761364cfc8fafd992941700246b9aa7a263ff3128b425b42a9d805e7d90ba3d"; got != want {
		t.Errorf("SHA-256 of the canonical bytes = %s, want %s", got, want)
	}
	want := receipt.Signature{
		Algorithm:   "Ed25519",
		KeyID:       "sha256:06e3fd8fda29bb60ab59557de61edb0aecdb231134be30e75b455f8e1b792fa9",
		PayloadType: "application/vnd.chain-evidence.receipt.v1+json",
		Value:       "GEGKcXOKl8hVoVXVZfOHDs+pc7OMihilJqi1iDYzS53DhHAz359vXaik4p0K2gsSRGmcdX6XA+YBUWGis8b8Aw==",
	}
	if diff := cmp.Diff(want, base.response.Signature); diff != "" {
		t.Errorf("signature (-want +got):\n%s", diff)
	}
	// RFC 8032 section 7.1, test 1: the public key, in SPKI DER.
	if got, want := base.keys.PublicKey, "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="; got != want {
		t.Errorf("public key = %s, want %s", got, want)
	}
}

func TestGolden_VectorsVerifyInBothPresentations(t *testing.T) {
	for _, v := range readVectors(t) {
		plain, err := receipt.Verify(v.files["response.json"], v.keys)
		if err != nil {
			t.Fatalf("%s: %v", v.folder, err)
		}
		if len(plain.Proven) == 0 || len(plain.Attested) == 0 {
			t.Errorf("%s: %d facts proven, %d attested", v.folder, len(plain.Proven), len(plain.Attested))
		}
		envelope, err := receipt.Verify(v.files["dsse.json"], v.keys)
		if err != nil {
			t.Fatalf("%s as DSSE: %v", v.folder, err)
		}
		if diff := cmp.Diff(plain.Receipt, envelope.Receipt); diff != "" {
			t.Errorf("%s (-plain +DSSE):\n%s", v.folder, diff)
		}
		if len(envelope.Proven) != 0 {
			t.Errorf("%s: an envelope has no proof, yet %d facts are proven", v.folder, len(envelope.Proven))
		}
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mustMarshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mustIndent(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return data
}
