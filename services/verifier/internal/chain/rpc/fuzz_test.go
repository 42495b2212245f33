package rpc

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// provenBlock proves the block of a recording.
func provenBlock(t testing.TB, recording recorded.Recording) *evm.ProvenBlock {
	t.Helper()
	var m evm.ReportedBlock
	decoded(t, recording.Blocks[0].Block, &m.Block)
	decoded(t, recording.Blocks[0].Receipts, &m.Receipts)
	proven, err := m.Prove(recording.Blocks[0].Number(), *m.Block.Hash, recording.ChainID)
	if err != nil {
		t.Fatal(err)
	}
	return proven
}

// FuzzLocate reads what a node returns of a transaction and its receipt alone, and
// holds it against a proven block.
func FuzzLocate(f *testing.F) {
	recording := chaintest.Load(f, chaintest.BaseBlock)
	block := recording.Blocks[0]
	proven := provenBlock(f, recording)
	for i, tx := range block.Transactions() {
		if len(tx) < 2000 {
			f.Add([]byte(tx), []byte(block.Receipts[i]))
		}
	}
	f.Add([]byte(`{"hash":null}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, tx, receipt []byte) {
		for hash := range proven.Transactions() {
			at, err := locationOf(hash, &call{done: true, result: tx}, &call{done: true, result: receipt})
			if err == nil {
				err = proven.Matches(&at.transaction, &at.receipt)
			}
			if err != nil && !isFault(err) {
				t.Errorf("no reason in %v", err)
			}
		}
	})
}

// FuzzHead reads what a node returns of a head, in a batch.
func FuzzHead(f *testing.F) {
	for _, seed := range []string{
		`{"number":"0x1e8480","timestamp":"0x64c76a83"}`, `{"number":"0xffffffffffffffffff","timestamp":"0x0"}`, `null`, `[]`, `{"number":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, result []byte) {
		if number, timestamp, _, err := readHead(&call{done: true, result: result}); err != nil && (!isFault(err) || number != 0 || timestamp != 0) {
			t.Errorf("%d, %d, %v", number, timestamp, err)
		}
	})
}

// FuzzRetryAfter reads the header of a refusal: no node makes us wait for ever.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"7", "0", "-1", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "soon", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		wait := retryAfter(http.Header{"Retry-After": {text}}, time.Unix(1_700_000_000, 0))
		if wait < time.Second || wait > time.Minute {
			t.Errorf("%q: wait for %v", text, wait)
		}
	})
}

func decoded(t testing.TB, from, into any) {
	t.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := evm.Decode(text, into); err != nil {
		t.Fatal(err)
	}
}

func FuzzReplies(f *testing.F) {
	f.Add([]byte(`[{"jsonrpc":"2.0","id":1,"result":"0x1"},{"id":2,"error":{"code":-32000,"message":"x"}}]`))
	f.Add([]byte(`{"id":"1","result":null}`))
	f.Add([]byte(`{"error":"text"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		replies, _, err := decodeReplies(body)
		if err != nil {
			return
		}
		calls := []*call{newCall("a"), newCall("b")}
		for _, r := range replies {
			assign(calls, r)
		}
		for _, c := range calls {
			var tx evm.Transaction
			if _, err := c.decode(&tx); err != nil && !isFault(err) {
				t.Errorf("no reason in %v", err)
			}
		}
	})
}
