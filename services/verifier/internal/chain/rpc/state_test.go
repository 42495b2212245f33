package rpc_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
)

// headers are blocks of which each names the one before as its parent.
func headers(n int) (list []*types.Header) {
	for i := range n {
		h := &types.Header{Number: big.NewInt(int64(i)), Difficulty: new(big.Int), Time: uint64(1_700_000_000 + i), Extra: []byte{}}
		if i > 0 {
			h.ParentHash = list[i-1].Hash()
		}
		list = append(list, h)
	}
	return list
}

// emptyProof has a stateNode answer with a proof of nothing.
const emptyProof = `{"accountProof":[],"storageProof":[{"key":"0x14","value":"0x0","proof":[]}]}`

// stateNode serves blocks; it proves state unless it refuses with an error, or is to answer with emptyProof.
func stateNode(t *testing.T, list []*types.Header, refuses string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var calls []struct {
			ID     int               `json:"id"`
			Method string            `json:"method"`
			Params []json.RawMessage `json:"params"`
		}
		var body json.RawMessage
		err := json.NewDecoder(r.Body).Decode(&body)
		batch := err == nil && body[0] == '['
		if !batch {
			body = append(append([]byte("["), body...), ']')
		}
		if err := json.Unmarshal(body, &calls); err != nil {
			t.Error(err)
		}
		var replies []string
		for _, c := range calls {
			answer := `"result":null`
			var number uint64
			switch c.Method {
			case "eth_chainId":
				answer = `"result":"0x2105"`
			case "eth_getBlockByNumber":
				tag := strings.Trim(string(c.Params[0]), `"`)
				if _, err := fmt.Sscanf(tag, "0x%x", &number); err != nil {
					number = uint64(len(list) - 1)
				}
				if number < uint64(len(list)) {
					text, err := json.Marshal(list[number])
					if err != nil {
						t.Error(err)
					}
					answer = `"result":` + string(text)
				}
			case "eth_getProof":
				answer = `"result":{"accountProof":["0x01","0x02"],"storageProof":[{"key":"0x14","value":"0x1","proof":["0x03"]}]}`
				switch refuses {
				case "":
				case emptyProof:
					answer = `"result":` + emptyProof
				default:
					answer = `"error":{"code":-32000,"message":"` + refuses + `"}`
				}
			}
			replies = append(replies, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, c.ID, answer))
		}
		text := strings.Join(replies, ",")
		if batch {
			text = "[" + text + "]"
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func openState(t *testing.T, urls ...string) *rpc.Reader {
	t.Helper()
	r, err := rpc.Open(t.Context(), rpc.Options{Chain: chain.Config{Name: "base", ID: 8453, RPCURLs: urls, Quorum: 1, RPCTimeout: 30 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestState_HeadersLeadFromABlockToItsAncestor(t *testing.T) {
	list := headers(40)
	forked := headers(40)
	forked[20].Extra = []byte("another") // and its children do not name it
	r := openState(t, stateNode(t, forked, ""), stateNode(t, list, ""))
	got, err := r.Headers(t.Context(), 11, 35, chain.Hash(list[35].Hash()))
	if err != nil || len(got) != 25 {
		t.Fatalf("%d headers, %v", len(got), err)
	}
	for i, raw := range got {
		if crypto.Keccak256Hash(raw) != list[35-i].Hash() {
			t.Errorf("header %d is another block's", i)
		}
	}
	if _, err := openState(t, stateNode(t, forked, "")).Headers(t.Context(), 11, 35, chain.Hash(list[35].Hash())); err == nil {
		t.Error("headers that do not lead from one to the next are returned")
	}
	if got, err := r.Headers(t.Context(), 0, 0, chain.Hash(list[0].Hash())); err != nil || len(got) != 1 {
		t.Errorf("the first block: %d headers, %v", len(got), err)
	}
}

func TestState_AProofComesFromTheFirstNodeThatHasIt(t *testing.T) {
	list := headers(40)
	r := openState(t, stateNode(t, list, "missing trie node"), stateNode(t, list, emptyProof),
		stateNode(t, list, "distance to target block exceeds maximum: limit exceeded"), stateNode(t, list, ""))
	contract, slot := chain.Address(common.HexToAddress("0x0000F90827F1C53a10cb7A02335B175320002935")), chain.Hash{31: 20}
	for range 2 { // also after a refusal that reads as a rate limit
		header, account, storage, err := r.StorageProof(t.Context(), 30, chain.Hash(list[30].Hash()), contract, slot)
		if err != nil || crypto.Keccak256Hash(header) != list[30].Hash() || len(account) != 2 || len(storage) != 1 || storage[0][0] != 3 {
			t.Errorf("%x, %x, %x, %v", header, account, storage, err)
		}
	}
	if _, _, _, err := r.StorageProof(t.Context(), 30, chain.Hash{1}, contract, slot); err == nil {
		t.Error("a proof in another block's state is returned")
	}
}
