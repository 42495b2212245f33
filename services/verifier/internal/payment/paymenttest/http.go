package paymenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

// Facilitator returns a handler that serves the simulator as an x402 facilitator.
func (b *Simulator) Facilitator() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /verify", serve(b.Verify))
	mux.HandleFunc("POST /settle", serve(b.Settle))
	mux.HandleFunc("GET /supported", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"kinds":[{"x402Version":2,"scheme":"exact","network":%q}]}`, b.Network)
	})
	return mux
}

func serve[T any](call func(context.Context, []byte) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer, err := call(r.Context(), body)
		if err != nil {
			panic(http.ErrAbortHandler) // the connection is cut
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// Node returns a handler that serves the simulator as a JSON-RPC node of its chain: as little of
// one as tests need. Each block that is asked for is the 100th, of now and final.
func (b *Simulator) Node(chainID int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded.Serve(w, r, func(method string, params []json.RawMessage) (any, *recorded.Error) {
			return b.answer(chainID, method, params), nil
		})
	})
}

func (b *Simulator) answer(chainID int, method string, params []json.RawMessage) any {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch method {
	case "eth_chainId":
		return fmt.Sprintf("0x%x", chainID)
	case "eth_getBlockByNumber":
		return map[string]string{"number": "0x64", "timestamp": fmt.Sprintf("0x%x", b.Now().Unix())}
	case "eth_getCode":
		if bytes.Contains(bytes.ToLower(params[0]), []byte("dead")) {
			return "0x"
		}
		return "0x60"
	case "eth_call":
		if bytes.Contains(params[0], []byte(`"0x70a08231`)) { // balanceOf: everybody has a thousand times the price
			return fmt.Sprintf("0x%064x", 10_000_000)
		}
		if bytes.Contains(params[0], []byte(`"0x3644e515"`)) { // DOMAIN_SEPARATOR
			id := big.NewInt(int64(chainID))
			return eip3009.Domain{
				Name: "USDC", Version: "2", ChainID: id, Token: common.HexToAddress(Token),
			}.Separator().Hex()
		}
		return "0x" + strings.Repeat("0", 64)
	case "eth_getLogs":
		var filter struct{ Topics [3]any }
		_ = json.Unmarshal(params[0], &filter)
		nonce, _ := filter.Topics[2].(string)
		if transaction, used := b.spent[nonce]; used {
			return []any{mark(nonce, transaction)}
		}
		return []any{}
	case "eth_getTransactionReceipt":
		var transaction string
		_ = json.Unmarshal(params[0], &transaction)
		return b.receipt(transaction)
	case "eth_getTransactionByHash":
		var transaction string
		_ = json.Unmarshal(params[0], &transaction)
		if nonce, ok := b.reverted[transaction]; ok {
			return map[string]any{"hash": transaction, "input": nonce}
		}
	}
	return nil
}

const (
	topicUsed     = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
	topicTransfer = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
)

func word(address string) string {
	return "0x" + strings.Repeat("0", 24) + strings.ToLower(address[2:])
}

func mark(nonce, transaction string) map[string]any {
	return map[string]any{
		"address": Token, "topics": []string{topicUsed, word(Buyer), nonce}, "data": "0x",
		"transactionHash": transaction, "logIndex": "0x0",
	}
}

func (b *Simulator) receipt(transaction string) any {
	if units, ok := b.refunds[transaction]; ok {
		return map[string]any{"status": "0x1", "transactionHash": transaction, "logs": []any{map[string]any{
			"address": Token, "topics": []string{topicTransfer, word(Seller), word(Buyer)},
			"data": fmt.Sprintf("0x%064x", units), "transactionHash": transaction, "logIndex": "0x0",
		}}}
	}
	if _, ok := b.reverted[transaction]; ok {
		return map[string]any{"status": "0x0", "transactionHash": transaction, "logs": []any{}}
	}
	for nonce, by := range b.spent {
		if by == transaction {
			moved, ok := new(big.Int).SetString(b.values[nonce], 10)
			if !ok { // carried out by another
				moved = big.NewInt(10000)
			}
			return map[string]any{
				"status": "0x1", "transactionHash": transaction,
				"logs": []any{mark(nonce, transaction), map[string]any{
					"address": Token, "topics": []string{topicTransfer, word(Buyer), word(Seller)},
					"data": fmt.Sprintf("0x%064x", moved), "transactionHash": transaction, "logIndex": "0x1",
				}},
			}
		}
	}
	return nil
}
