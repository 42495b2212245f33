package ethrpc

import (
	"net/http"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
)

// FuzzLocate reads what a node says of a transaction and its receipt alone, and
// holds it against a proven block.
func FuzzLocate(f *testing.F) {
	recording := chaintest.Load(f, chaintest.BaseBlock)
	block := recording.Blocks[0]
	m := materialOf(f, block)
	proven, err := prove(m, block.Number(), *m.block.Hash, recording.ChainID)
	if err != nil {
		f.Fatal(err)
	}
	for i, tx := range block.Transactions() {
		if len(tx) < 2000 {
			f.Add([]byte(tx), []byte(block.Receipts[i]))
		}
	}
	f.Add([]byte(`{"hash":null}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, tx, receipt []byte) {
		for hash := range proven.index {
			at := new(location)
			err := at.readTransaction(&call{done: true, result: tx}, hash)
			if err == nil {
				err = at.readReceipt(&call{done: true, result: receipt}, hash)
			}
			if err == nil {
				err = at.agrees(proven)
			}
			if err != nil && !isFault(err) {
				t.Errorf("no reason in %v", err)
			}
		}
	})
}

// FuzzHead reads what a node says of a head, in a batch.
func FuzzHead(f *testing.F) {
	for _, seed := range []string{
		`{"number":"0x1e8480","timestamp":"0x64c76a83"}`, `{"number":"0xffffffffffffffffff","timestamp":"0x0"}`, `null`, `[]`, `{"number":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, result []byte) {
		if number, timestamp, _, err := height(&call{done: true, result: result}); err != nil && (!isFault(err) || number != 0 || timestamp != 0) {
			t.Errorf("%d, %d, %v", number, timestamp, err)
		}
	})
}

// FuzzBlob reads hexadecimal data.
func FuzzBlob(f *testing.F) {
	for _, seed := range []string{`"0x"`, `"0x00"`, `"0xabc"`, `null`, `""`, `"0X0f"`, `7`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var b blob
		if b.UnmarshalJSON(text) == nil && b != nil && 2*len(b)+4 != len(text) {
			t.Errorf("%q became %d bytes", text, len(b))
		}
	})
}

// FuzzRetryAfter reads the header of a refusal: nobody makes us wait for ever.
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

// sameAsGoEthereum compares a transaction of Ethereum's own types with what
// go-ethereum reads out of its encoding: a second opinion.
func sameAsGoEthereum(t *testing.T, encoded []byte, kind byte, facts chain.Transaction, signed *signing) {
	t.Helper()
	var tx types.Transaction
	if kind > setCodeType || tx.UnmarshalBinary(encoded) != nil {
		return
	}
	if to := tx.To(); (to == nil) != (facts.To == nil) || to != nil && chain.Address(*to) != *facts.To {
		t.Errorf("to %v, go-ethereum says %v", facts.To, to)
	}
	if facts.Nonce == nil || *facts.Nonce != tx.Nonce() || facts.Value.Cmp(tx.Value()) != 0 {
		t.Errorf("nonce %v, value %v, go-ethereum says %d, %v", facts.Nonce, facts.Value, tx.Nonce(), tx.Value())
	}
	if tx.Protected() && tx.ChainId().Sign() == 0 {
		return // go-ethereum panics
	}
	signer := types.Signer(types.FrontierSigner{})
	if tx.Protected() {
		signer = types.LatestSignerForChainID(tx.ChainId())
	}
	want, err := types.Sender(signer, &tx)
	if err != nil {
		return // signatures that only old blocks may have
	}
	if got, err := signed.sender(); err != nil || common.Address(got) != want {
		t.Errorf("sender %v, %v; go-ethereum says %v", got, err, want)
	}
}
