package verification_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// testKey is the key of RFC 8032 section 7.1, test 1.
func testKey(t testing.TB) *receipt.SigningKey {
	t.Helper()
	seed, _ := hex.DecodeString("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
	key, err := receipt.NewKeyFromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// read opens a real reader over nodes that serve a recording.
func read(t testing.TB, c chain.Config) verification.Reader {
	t.Helper()
	c.RPCTimeout = time.Minute // a busy machine may keep the recorded node waiting
	reader, err := rpc.Open(t.Context(), rpc.Options{Chain: c})
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

// answer is the whole paid way but the payment: parse, verify, sign.
func answer(t testing.TB, reader verification.Reader, body string) []byte {
	t.Helper()
	verifier := verification.Verifier{Reader: reader}
	var evidence verification.Evidence
	if strings.Contains(body, `"transfer"`) {
		request, err := verification.ParseTransferRequest([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if evidence, err = verifier.VerifyTransfer(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	} else {
		request, err := verification.ParseRequest([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if evidence, err = verifier.Verify(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	response, err := receipt.Sign(testKey(t), evidence.Receipt, &evidence.Proof)
	if err != nil {
		t.Fatal(err)
	}
	text, err := response.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// recordingOf finds the recording that holds a block.
func recordingOf(t *testing.T, block string) recorded.Recording {
	t.Helper()
	for _, name := range chaintest.Names(t) {
		recording := chaintest.Load(t, name)
		for _, b := range recording.Blocks {
			if b.Hash() == block {
				return recording
			}
		}
	}
	t.Fatalf("no recording of block %s", block)
	return recorded.Recording{}
}

// TestReceipt_GoldenVectorsComeOutByteForByte: what pkg/receipt pins as the format is
// what the service makes of the same blocks, proof and signature included.
func TestReceipt_GoldenVectorsComeOutByteForByte(t *testing.T) {
	files, err := filepath.Glob("../../../../pkg/receipt/testdata/vectors/*/response.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d vectors, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			golden, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			document, err := receipt.Parse(golden)
			if err != nil {
				t.Fatal(err)
			}
			recording := recordingOf(t, document.Receipt.Block.Hash)
			node := chaintest.NewNode(t, recording)
			highest := recording.Blocks[len(recording.Blocks)-1].Number()
			node.SetHeads(highest+200, highest+100)
			reader := read(t, chain.Config{Name: document.Receipt.Chain.Name, ID: recording.ChainID, RPCURLs: []string{node.URL}})
			body := `{"transactionHash":"` + document.Receipt.Transaction.Hash + `","expectations":` + expectationsOf(t, document.Receipt)
			if asked := document.Receipt.Request.Transfer; asked != nil {
				text, err := json.Marshal(asked)
				if err != nil {
					t.Fatal(err)
				}
				body += `,"transfer":` + string(text)
			}
			body += `}`
			got := answer(t, reader, body)
			if diff := cmp.Diff(strings.TrimSpace(string(golden)), string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// expectationsOf writes a receipt's expectations as JSON.
func expectationsOf(t *testing.T, r receipt.Receipt) string {
	t.Helper()
	var members []string
	for name, value := range map[string]string{
		"status": r.Request.Expectations.Status, "from": r.Request.Expectations.From,
		"to": r.Request.Expectations.To, "selector": r.Request.Expectations.Selector,
	} {
		if value != "" {
			members = append(members, fmt.Sprintf("%q:%q", name, value))
		}
	}
	if n := r.Request.Expectations.MinConfirmations; n > 0 {
		members = append(members, fmt.Sprintf(`"minConfirmations":%d`, n))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// TestReceipt_OfEveryRecordedTransactionIsAccepted signs the evidence
// of every recorded transaction and checks it with nothing but pkg/receipt, which
// reads proofs with code of its own.
func TestReceipt_OfEveryRecordedTransactionIsAccepted(t *testing.T) {
	keys, err := receipt.NewKeyDocument(testKey(t), "eip155:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range chaintest.Names(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recording := chaintest.Load(t, name)
			node := chaintest.NewNode(t, recording)
			reader := read(t, chain.Config{Name: "some", ID: recording.ChainID, RPCURLs: []string{node.URL}})
			for _, block := range recording.Blocks {
				if block.Receipts == nil {
					continue
				}
				for _, raw := range block.Transactions() {
					hash := recorded.Member(raw, "hash")
					got := answer(t, reader, `{"transactionHash":"`+hash+`"}`)
					if result, err := receipt.Verify(got, keys); err != nil {
						t.Errorf("%s: %v", hash, err)
					} else if len(result.Proven) < 15 {
						t.Errorf("%s: only %d facts are proven", hash, len(result.Proven))
					}
				}
			}
		})
	}
}

// TestReceipt_OfTheSameQuestionHasTheSameBytes for ever: on every replica, after a restart,
// from whatever nodes, however spelt, however far the chain has come.
func TestReceipt_OfTheSameQuestionHasTheSameBytes(t *testing.T) {
	recording := chaintest.Load(t, chaintest.BaseBlock)
	question := expecting(`"status":"success","from":"` + someAddress + `","selector":"` + someSelector + `","minConfirmations":12`)
	replica := func(quorum int, heads ...uint64) verification.Reader {
		c := chain.Config{Name: "base", ID: 8453, Quorum: quorum}
		for _, above := range heads {
			node := chaintest.NewNode(t, recording)
			node.SetHeads(2_000_000+above, 2_000_000+above/2)
			c.RPCURLs = append(c.RPCURLs, node.URL)
		}
		return read(t, c)
	}
	first := replica(1, 11)
	want := string(answer(t, first, question))
	same := func(name string, reader verification.Reader, body string) {
		t.Helper()
		if diff := cmp.Diff(want, string(answer(t, reader, body))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	same("again, from what is kept", first, question)
	same("after a restart", replica(1, 11), question)
	same("later", replica(1, 5_000_000), question)
	same("by a quorum", replica(2, 500, 900, 40), question)
	same("in upper case", first, strings.NewReplacer(someHash[2:], strings.ToUpper(someHash[2:]), someSelector[2:], strings.ToUpper(someSelector[2:])).Replace(question))
	same("in another order", first, `{"expectations":{"minConfirmations":12,"selector":"`+someSelector+`","from":"`+someAddress+
		`","status":"success"},  "transactionHash":"`+someHash+`"}`)
	_ = answer(t, first, expecting(`"status":"success"`))
	same("after another question about it", first, question)
}
