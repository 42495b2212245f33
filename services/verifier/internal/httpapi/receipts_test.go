package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
	"github.com/pforte/pforte/services/verifier/internal/httpapi"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// tokensAtMost is a bound of how many tokens of o200k a text is, made of runs of like characters.
// Of the results below it is at least 1.31 times what gpt-tokenizer 3 counts, 1,400 at most, and of
// their verdicts at least 1.19 times, 118 at most.
func tokensAtMost(text string) int {
	perToken := map[rune]int{'0': 3, 'a': 4, '.': 2, 'A': 1}
	tokens, run, kind := 0, 0, '.'
	for _, r := range text + "A" {
		now := '.'
		switch {
		case unicode.IsDigit(r):
			now = '0'
		case unicode.IsLower(r):
			now = 'a'
		case unicode.IsUpper(r):
			now = 'A'
		}
		if now != kind {
			tokens += (run + perToken[kind] - 1) / perToken[kind]
			kind, run = now, 0
		}
		run++
	}
	return tokens
}

// TOKENS names a folder that the results are written to, for a tokenizer.
func TestMCP_ASoldResultIsSmall(t *testing.T) {
	key, err := receipt.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := receipt.NewKeyDocument(key, "eip155:1")
	if err != nil {
		t.Fatal(err)
	}
	largest := 0
	for _, recordingName := range chaintest.Names(t) {
		recording := chaintest.Load(t, recordingName)
		name, _, _ := strings.Cut(recordingName, "-")
		reader, err := rpc.Open(t.Context(), rpc.Options{
			Chain: chain.Config{
				Name: name, ID: recording.ChainID, RPCURLs: []string{chaintest.NewNode(t, recording).URL},
				RPCTimeout: slowNode,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		receipts := verification.NewReceipts(key, 1, func(bool) {}, func(int) {})
		sell := func(q verification.Question, err error) (receipt.Result, bool) {
			if err != nil {
				t.Fatal(err)
			}
			answer, err := receipts.Signed(t.Context(), name, verification.Verifier{Reader: reader}, q)
			if err != nil {
				return receipt.Result{}, false // a transfer that is none, or has another twin before it
			}
			largest = max(largest, len(answer))
			result, err := httpapi.SoldTool("https://verifier.example.org", answer)
			if err != nil {
				t.Fatal(err)
			}
			var sold mcp.CallToolResult
			if err := json.Unmarshal(result, &sold); err != nil {
				t.Fatal(err)
			}
			verdict, _ := sold.Content[0].(*mcp.TextContent)
			if n := tokensAtMost(string(result)); n > 2000 {
				t.Errorf("%d tokens: %s", n, result)
			}
			if n := tokensAtMost(verdict.Text); n > 146 {
				t.Errorf("%d tokens: %s", n, verdict.Text)
			}
			if folder := os.Getenv("TOKENS"); folder != "" {
				file, err := os.OpenFile(folder+"/results.jsonl", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = fmt.Fprintf(file, "%s\n", result)
				_ = file.Close()
			}
			document, err := receipt.Parse(answer)
			if err != nil {
				t.Fatal(err)
			}
			checked, err := document.Verify(keys)
			if err != nil {
				t.Fatal(err)
			}
			return checked, true
		}
		for _, block := range recording.Blocks {
			if block.Receipts == nil {
				continue
			}
			for _, raw := range block.Transactions() {
				hash := recorded.Member(raw, "hash")
				sold, _ := sell(verification.ParseRequest([]byte(`{"transactionHash":"` + hash + `"}`)))
				for _, log := range sold.Logs {
					if len(log.Topics) == 3 && strings.HasPrefix(log.Topics[0], "0xddf252ad") && len(log.Data) == 32 && len(bytes.Trim(log.Data, "\x00")) > 0 {
						sell(verification.ParseTransferRequest(fmt.Appendf(nil, `{"transactionHash":"%s","transfer":{"token":"%s","from":"0x%s","to":"0x%s","minAmount":"1"}}`,
							hash, log.Address, log.Topics[1][26:], log.Topics[2][26:])))
						break
					}
				}
			}
		}
	}
	if largest < 50_000 { // what a result must not grow with
		t.Errorf("the largest answer has only %d bytes", largest)
	}
}

// longInput is a recording of one block with one transaction, whose input has a number of bytes.
func longInput(t *testing.T, size int) (recorded.Recording, string) {
	t.Helper()
	key, err := crypto.ToECDSA(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	input := make([]byte, size)
	for i := range input {
		input[i] = byte(i % 251)
	}
	sent := types.MustSignNewTx(key, types.LatestSignerForChainID(big.NewInt(1)), &types.DynamicFeeTx{
		ChainID: big.NewInt(1), GasTipCap: big.NewInt(1), GasFeeCap: big.NewInt(2), Gas: 5_000_000, To: &common.Address{7}, Value: new(big.Int), Data: input,
	})
	outcome := &types.Receipt{
		Type: types.DynamicFeeTxType, Status: 1, CumulativeGasUsed: 4_000_000, GasUsed: 4_000_000, TxHash: sent.Hash(), Logs: []*types.Log{},
	}
	block := types.NewBlock(&types.Header{
		Number: big.NewInt(18_000_000), Difficulty: new(big.Int), GasLimit: 30_000_000, GasUsed: 4_000_000, Time: 1_693_066_895, BaseFee: big.NewInt(1),
	}, &types.Body{Transactions: types.Transactions{sent}}, types.Receipts{outcome}, trie.NewStackTrie(nil))
	outcome.BlockHash, outcome.BlockNumber = block.Hash(), block.Number()
	place := map[string]any{
		"blockHash": block.Hash(), "blockNumber": "0x112a880", "transactionIndex": "0x0", "from": crypto.PubkeyToAddress(key.PublicKey), "to": sent.To(),
	}
	with := func(of any, more map[string]any) map[string]json.RawMessage {
		members := map[string]json.RawMessage{}
		for _, part := range []any{of, more} {
			text, err := json.Marshal(part)
			if err == nil {
				err = json.Unmarshal(text, &members)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return members
	}
	found := recorded.Block{
		Block: with(block.Header(), map[string]any{"transactions": []any{with(sent, place)}, "uncles": []any{}, "size": "0x1"}),
	}
	text, err := json.Marshal(with(outcome, place))
	if err != nil {
		t.Fatal(err)
	}
	found.Receipts = []json.RawMessage{text}
	return recorded.Recording{ChainID: 1, Blocks: []recorded.Block{found}}, sent.Hash().Hex()
}

// The longest answer that was bought had 236,806 bytes. Its block is not among the recordings.
func TestMCP_ASoldResultIsSmallForALongInput(t *testing.T) {
	recording, hash := longInput(t, 115_000)
	key, err := receipt.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := rpc.Open(t.Context(), rpc.Options{
		Chain: chain.Config{
			Name: "ethereum", ID: recording.ChainID, RPCURLs: []string{chaintest.NewNode(t, recording).URL},
			RPCTimeout: slowNode,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	question, err := verification.ParseRequest([]byte(`{"transactionHash":"` + hash + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	receipts := verification.NewReceipts(key, 1, func(bool) {}, func(int) {})
	answer, err := receipts.Signed(t.Context(), "ethereum", verification.Verifier{Reader: reader}, question)
	if err != nil || len(answer) < 230_000 {
		t.Fatalf("%d bytes, %v", len(answer), err)
	}
	result, err := httpapi.SoldTool("https://verifier.example.org", answer)
	if err != nil {
		t.Fatal(err)
	}
	if n := tokensAtMost(string(result)); n > 2000 {
		t.Errorf("%d tokens: %s", n, result)
	}
}

func TestMCP_TheProofComesAsTheCallWants(t *testing.T) {
	w := open(t, nil)
	meta := w.toolPayment("1")
	ask := func(proof string) result {
		arguments := strings.Replace(goodBody, "{", `{"proof":"`+proof+`",`, 1)
		return w.rpc(message("verify_transaction", arguments, meta)).result()
	}
	whole := w.linked(ask("link"))
	if got := ask("inline"); got.Content[1].Text != string(whole) || strings.Contains(string(got.StructuredContent), "link\":") || len(got.Content) != 2 {
		t.Errorf("inline: %+v", got)
	}
	if got := ask("none"); strings.Contains(got.Content[1].Text, `"proof"`) || strings.Contains(string(got.StructuredContent), "link\":") || len(got.Content) != 2 {
		t.Errorf("none: %+v", got)
	}
	if got := ask("link"); len(got.Content) != 3 || got.Content[2].Type != "resource_link" || !strings.HasPrefix(got.Content[2].URI, publicURL+"/v1/receipts/") {
		t.Errorf("link: %+v", got)
	}
	if f := w.rpc(message("verify_transaction", strings.Replace(goodBody, "{", `{"proof":"all",`, 1), meta)).wantTool(http.StatusBadRequest, "invalid_request"); f.Field != "proof" {
		t.Errorf("the field is %q", f.Field)
	}
	old := w.rpc(message("verify_transaction", goodBody, meta), protocolHeader, "2025-03-26").result()
	if len(old.Content) != 2 { // that version has no links to resources
		t.Errorf("an old client gets %+v", old)
	}
	w.wantTransfers(1)
}

func TestReceipts_AreReadByTheirHashAlone(t *testing.T) {
	w := open(t, nil)
	sold := w.buyTool("1").wantSold(w)
	var object struct{ Link, Hash string }
	w.must(json.Unmarshal(sold.StructuredContent, &object))
	for _, path := range []string{strings.Repeat("ab", 32), strings.ToUpper(object.Hash), object.Hash[:62], "x"} {
		w.do(http.MethodGet, "/v1/receipts/"+path, "").wantFailure(http.StatusNotFound, "unknown_receipt")
	}
	whole := w.linked(sold)
	cache := w.do(http.MethodGet, "/v1/receipts/"+object.Hash, "").header.Get("Cache-Control")
	if cache != "public, max-age=86400, immutable" {
		t.Errorf("the answer at its link has Cache-Control %q", cache)
	}
	for _, named := range []string{object.Link, object.Hash} {
		if got := w.call("check_receipt", `{"link":"`+named+`"}`).result(); !strings.Contains(string(got.StructuredContent), `"valid":true`) {
			t.Errorf("%s: %s", named, got.StructuredContent)
		}
	}
	w.call("check_receipt", `{"link":"https://other.example/v1/receipts/`+object.Hash+`"}`).wantTool(http.StatusNotFound, "unknown_receipt")
	w.call("check_receipt", `{"link":"`+object.Hash+`","answer":{}}`).wantTool(http.StatusBadRequest, "invalid_request")

	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: w.url + toolsPath}, nil)
	w.must(err)
	defer func() { _ = session.Close() }()
	read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: object.Link})
	w.must(err)
	if len(read.Contents) != 1 || read.Contents[0].Text != string(whole) || read.Contents[0].MIMEType != "application/json" {
		t.Errorf("as a resource: %+v", read)
	}
	if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: publicURL + "/v1/receipts/" + strings.Repeat("ab", 32)}); err == nil {
		t.Error("a resource that is none is read")
	}
}

// Official clients hold whatever a tool answers against its output schema.
func TestMCP_AnswersAreOfTheirOutputSchema(t *testing.T) {
	w := open(t, nil)
	schemas := map[string]*jsonschema.Resolved{}
	for _, tool := range w.listed() {
		text, err := json.Marshal(tool["outputSchema"])
		w.must(err)
		var schema jsonschema.Schema
		w.must(json.Unmarshal(text, &schema))
		if schema.Type != "object" {
			t.Fatalf("%s has the output schema %s", tool["name"], text)
		}
		name, _ := tool["name"].(string)
		schemas[name], err = schema.Resolve(nil)
		w.must(err)
	}
	check := func(tool string, r reply) {
		t.Helper()
		var object any
		w.must(json.Unmarshal(r.result().StructuredContent, &object))
		if err := schemas[tool].Validate(object); err != nil {
			t.Errorf("%s: %v: %s", tool, err, r.body)
		}
	}
	check("verify_transaction", w.call("verify_transaction", goodBody))
	sold := w.buyTool("1")
	check("verify_transaction", sold)
	check("verify_transaction", w.call("verify_transaction", `{"chain":"mars"}`))
	check("verify_transaction", w.rpc(message("verify_transaction", `{"transactionHash":"`+recordedTx+`"}`, w.toolPayment("1")))) // used
	check("verify_token_transfer", w.rpc(message("verify_token_transfer", transferBody, w.toolPayment("2"))))
	check("check_receipt", w.call("check_receipt", `{"answer":`+string(w.linked(sold.result()))+`}`))
	check("check_receipt", w.call("check_receipt", `{"answer":{}}`))
	check("transaction_status", w.call("transaction_status", `{"transactionHash":"`+recordedTx+`"}`))
	for _, tool := range []string{"quote", "list_chains"} {
		check(tool, w.call(tool, `{}`))
		check(tool, w.call(tool, `{"more":1}`))
	}
	if err := schemas["verify_transaction"].Validate(map[string]any{"other": 1}); err == nil {
		t.Error("the schema allows anything")
	}
}

func TestAnswer_IsCompressedWhereThatSavesTime(t *testing.T) {
	w := openRecorded(t)
	get := func(path, encoding string) reply {
		return w.do(http.MethodGet, path, "", "Accept-Encoding", encoding)
	}
	plain := func(r reply) []byte {
		t.Helper()
		unpacked, err := gzip.NewReader(bytes.NewReader(r.body))
		w.must(err)
		text, err := io.ReadAll(unpacked)
		w.must(err)
		return text
	}
	document := get("/openapi.json", "gzip")
	if whole := get("/openapi.json", "identity"); !bytes.Equal(plain(document), whole.body) || len(document.body) > len(whole.body)/3 || document.header.Get("Etag") == whole.header.Get("Etag") {
		t.Errorf("the document has %d bytes of %d", len(document.body), len(whole.body))
	}
	for path, c := range map[string]struct {
		nonce, transaction string
		compressed         bool
	}{
		"/v1/verify/base-transaction": {"1", recordedTx, false}, "/v1/verify/ethereum-22119617-transaction": {"2", largest(t, "ethereum-22119617"), true},
	} {
		name, value := w.v2(c.nonce)
		body := `{"transactionHash":"` + c.transaction + `"}`
		packed := w.do(http.MethodPost, path, body, name, value, "Accept-Encoding", "gzip")
		whole := w.do(http.MethodPost, path, body, name, value, "Accept-Encoding", "identity")
		if isCompressed := packed.header.Get("Content-Encoding") == "gzip"; isCompressed != c.compressed || packed.status != http.StatusOK {
			t.Fatalf("%s: %d, compressed %v, %d bytes", path, packed.status, isCompressed, len(packed.body))
		}
		if c.compressed && (!bytes.Equal(plain(packed), whole.body) || len(packed.body) > len(whole.body)/2 || !strings.Contains(strings.Join(whole.header.Values("Vary"), ","), "Accept-Encoding")) {
			t.Errorf("%s: %d bytes of %d, %v", path, len(packed.body), len(whole.body), whole.header)
		}
	}
}

// largest returns the recorded transaction with the most input.
func largest(t *testing.T, name string) (hash string) {
	t.Helper()
	most := 0
	for _, block := range chaintest.Load(t, name).Blocks {
		if block.Receipts == nil {
			continue
		}
		for _, raw := range block.Transactions() {
			if len(raw) > most {
				hash, most = recorded.Member(raw, "hash"), len(raw)
			}
		}
	}
	return hash
}

func TestSample_IsAnAnswerThatAnybodyCanCheck(t *testing.T) {
	w := open(t, nil)
	var sample struct {
		Note    string
		Request json.RawMessage
		Answer  json.RawMessage
		Keys    receipt.KeyDocument
	}
	w.must(json.Unmarshal(w.do(http.MethodGet, "/v1/sample", "").body, &sample))
	result, err := receipt.Verify(sample.Answer, sample.Keys)
	w.must(err)
	if result.Receipt.Transaction.Hash != recordedTx || len(result.Proven) < 15 || !strings.Contains(sample.Note, "test key") {
		t.Errorf("the sample is about %s", result.Receipt.Transaction.Hash)
	}
	if sample.Keys.Keys[0].KeyID == w.key.ID() {
		t.Error("it is signed with the key of the verifier")
	}
	// It is the answer to its request.
	w.node.SetHeads(2_000_600, 2_000_500)
	w.reopen()
	name, value := w.v2("1")
	sold := w.post(string(sample.Request), name, value)
	sold.wantReceipt(w)
	receiptOf := func(answer []byte) string {
		var signed receipt.Response
		w.must(json.Unmarshal(answer, &signed))
		return string(signed.Receipt)
	}
	if receiptOf(sold.body) != receiptOf(sample.Answer) {
		t.Errorf("its request is answered %s", sold.body)
	}
}
