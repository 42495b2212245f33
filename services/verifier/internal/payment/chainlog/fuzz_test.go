package chainlog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/chainlog"
)

// FuzzNodeAnswers holds that only a log and a receipt with both events are a
// payment, and that no other words of a node are one.
func FuzzNodeAnswers(f *testing.F) {
	f.Add(answersOf(mark(used, 1)), receiptOf(mark(used, 1), move(seller, 10000)), "0x1")
	f.Add(answersOf(mark(canceled, 1)), `null`, "0x1")
	f.Add(answersOf(mark(used, 1)), receiptOf(mark(used, 1), move(other, 10000)), "0x1")
	f.Add(`{"result":[]}`, `{"result":null}`, "0x")
	f.Add(`{"error":{"code":-32000,"message":"no"}}`, `[]`, "0xffffffffffffffff")
	var logs, receipt, number string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for method, answer := range map[string]string{
			"eth_chainId": `{"result":"0x14a34"}`, "eth_getLogs": logs, "eth_getTransactionReceipt": receipt,
			"eth_getBlockByNumber": fmt.Sprintf(`{"result":{"number":%q,"timestamp":"0x7fffffff"}}`, number),
			"eth_call":             `{"result":"0x` + strings.Repeat("0", 64) + `"}`,
		} {
			if strings.Contains(string(body), method) {
				_, _ = io.WriteString(w, answer)
			}
		}
	}))
	f.Cleanup(server.Close)
	reader, err := chainlog.New("eip155:84532", []string{server.URL}, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, l, r, n string) {
		logs, receipt, number = l, r, n
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		found, err := reader.Authorization(ctx, payment.Record{
			Key:   payment.Key{Network: "eip155:84532", Asset: token, Payer: payer, Nonce: nonce(1)},
			PayTo: seller, Amount: "10000", Claimed: genesis, ValidBefore: genesis.Add(time.Minute),
		})
		if err != nil || found.Status != payment.PaidToUs {
			return
		}
		for _, word := range []string{used, transfer, word(seller)} {
			if !strings.Contains(strings.ToLower(r), word) && !strings.Contains(r, `\u`) {
				t.Errorf("%q with %q is taken for a payment", l, r)
			}
		}
	})
}

func answersOf(events ...event) string {
	for i := range events {
		events[i].Address, events[i].TransactionHash, events[i].LogIndex = token, nonce(9), "0x0"
	}
	return jsonOf(map[string]any{"result": events})
}

func receiptOf(events ...event) string {
	for i := range events {
		events[i].Address, events[i].TransactionHash, events[i].LogIndex = token, nonce(9), fmt.Sprintf("0x%x", i)
	}
	return jsonOf(map[string]any{"result": map[string]any{"status": "0x1", "transactionHash": nonce(9), "logs": events}})
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
