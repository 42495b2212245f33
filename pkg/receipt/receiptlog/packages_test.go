package receiptlog_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/internal/verdict"
)

var notes verdict.Notes

// judgeAlike has the npm module and the Python one judge the first vector too, with these documents of
// its log, and the key document where it is not the vector's own. What is nil is the usual.
func judgeAlike(t testing.TB, keys *receipt.KeyDocument, proof, policy, list []byte) {
	t.Helper()
	q := verdict.Question{
		Answer: readFile(t, "../testdata/vectors/base/response.json"), Keys: readFile(t, "../testdata/vectors/base/key.json"),
		Log: proof, Policy: policy, List: list,
	}
	if keys != nil {
		text, err := json.Marshal(keys)
		if err != nil {
			t.Fatal(err)
		}
		q.Keys = text
	}
	if q.Log == nil {
		q.Log = readFile(t, "testdata/receipt.tlog-proof")
	}
	if q.Policy == nil {
		q.Policy = readFile(t, "testdata/policy")
	}
	notes.Add(q)
}

func TestMain(m *testing.M) { os.Exit(notes.Main(m, "..", verdict.JavaScript, verdict.Python)) }
