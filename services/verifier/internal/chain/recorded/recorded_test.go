package recorded_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
)

// FuzzNode sends a node any request: it answers with JSON or refuses the request.
func FuzzNode(f *testing.F) {
	recording := chaintest.Load(f, "ethereum-1000000")
	transaction := recorded.Member(recording.Blocks[0].Transactions()[0], "hash")
	for _, seed := range []string{
		`{"id":1,"method":"eth_chainId","params":[]}`,
		`[{"id":1,"method":"eth_getTransactionByHash","params":["` + transaction + `"]},{"id":"2","method":"eth_blockNumber"}]`,
		`{"method":"eth_getBlockByNumber","params":["0xf4240",true]}`,
		`{"method":"eth_getBlockByNumber","params":["finalized",false]}`,
		`{"method":"eth_getBlockReceipts","params":[{"blockHash":"` + recording.Blocks[0].Hash() + `"}]}`,
		`{"method":"eth_getBlockReceipts","params":[{"blockNumber":"0xf4240"}]}`,
		`{"method":"eth_getBlockByHash","params":[null,7]}`, `[]`, `null`, `[null]`,
	} {
		f.Add([]byte(seed))
	}
	node := recorded.NewNode(recording)
	node.SetHeads(2_000_000, 1_000_001)
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		node.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body))))
		switch {
		case w.Code == http.StatusBadRequest:
		case w.Code != http.StatusOK || !json.Valid(w.Body.Bytes()):
			t.Errorf("%q: %d %.200q", body, w.Code, w.Body)
		}
	})
}

// FuzzRecording serves whatever a recording contains.
func FuzzRecording(f *testing.F) {
	text, err := json.Marshal(chaintest.Load(f, "ethereum-1000000"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"chainId":1,"blocks":[{"block":{"number":"0x1","transactions":[{}]},"receipts":[null]}]}`))
	f.Add([]byte(`{"chainId":1,"blocks":[{"receipts":[null]}]}`))
	f.Add([]byte(`{"chainId":1,"block":{"number":7,"hash":null,"transactions":{}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := recorded.Parse(text)
		if err != nil {
			return
		}
		node := recorded.NewNode(r)
		for _, tag := range []string{`"latest"`, `"0x1"`} {
			for _, method := range []string{"eth_getBlockByNumber", "eth_getBlockReceipts"} {
				result, fault := node.Call(method, []json.RawMessage{json.RawMessage(tag)})
				if _, err := json.Marshal(result); err != nil || fault != nil {
					t.Errorf("%s %s: %v %v", method, tag, err, fault)
				}
			}
		}
	})
}

func TestNode_ABatchHasAnEnd(t *testing.T) {
	node := recorded.NewNode(chaintest.Load(t, "ethereum-1000000"))
	for count, want := range map[int]int{100: http.StatusOK, 101: http.StatusBadRequest} {
		w := httptest.NewRecorder()
		body := "[" + strings.Repeat(`{"method":"eth_chainId"},`, count-1) + `{"method":"eth_chainId"}]`
		node.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		if w.Code != want {
			t.Errorf("%d calls: %d", count, w.Code)
		}
	}
}

func TestRecording_WithoutABlockIsRefused(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"meta.json": `{"chainId":1}`, "block.json": `null`} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := recorded.Load(folder); err == nil || !strings.Contains(err.Error(), "no block") {
		t.Errorf("got %v", err)
	}
}
