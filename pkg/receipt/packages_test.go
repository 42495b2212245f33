package receipt_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"os"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/internal/verdict"
)

var notes verdict.Notes

// judgeAlike has the npm module and the Python one judge an answer too. kind is transaction or transfer, or ""
// for any. An answer may be without its proof.
func judgeAlike(answer, keys []byte, kind string) {
	if len(answer) > 1<<20 {
		return // a note would be larger than what it tests
	}
	notes.Add(verdict.Question{Answer: answer, Keys: keys, Kind: kind, WithoutProof: true})
}

// judgeSigned has them judge a receipt that the key of the vectors has signed, whatever [receipt.Sign] says of it.
func judgeSigned(t testing.TB, r receipt.Receipt, proof *receipt.Proof) {
	t.Helper()
	body, err := receipt.Canonicalize(mustMarshal(t, r))
	if err != nil {
		return // it has no signed bytes
	}
	seed, err := hex.DecodeString(testSeed)
	if err != nil {
		t.Fatal(err)
	}
	payloadType := receipt.PayloadType
	if r.Type == receipt.TransferType {
		payloadType = receipt.TransferPayloadType
	}
	answer := mustMarshal(t, receipt.Response{
		Receipt: body, Proof: proof,
		Signature: receipt.Signature{
			Algorithm: receipt.Algorithm, KeyID: testKey(t).ID(), PayloadType: payloadType,
			Value: base64.StdEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(seed), receipt.PAE(payloadType, body))),
		},
	})
	judgeAlike(answer, readFile(t, vectorFile("transfer-base", "key.json")), "")
}

func TestMain(m *testing.M) { os.Exit(notes.Main(m, ".", verdict.JavaScript, verdict.Python)) }
