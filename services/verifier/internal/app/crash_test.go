package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// comeBack sends the same payment again, as long as it is told to.
func (w *world) comeBack(url, paid string) {
	w.Helper()
	until := time.Now().Add(30 * time.Second)
	for {
		status, body := w.post(url, paid)
		if status == http.StatusServiceUnavailable && time.Now().Before(until) {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		w.wantReceipt(status, body)
		return
	}
}

func TestCrash_ABuyerGetsTheReceiptWhereverItHappens(t *testing.T) {
	for backend, url := range sqldbtest.URLs(t) {
		for i, point := range []paywall.Point{paywall.Claimed, paywall.Worked, paywall.Begun, paywall.Asked, paywall.Finished} {
			t.Run(fmt.Sprintf("%s, %s", backend, point), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, sqldbtest.Another(t, url))
				paid := w.pay(fmt.Sprint(i + 1))
				first, process := w.spawn(point)
				if status, body := w.post(first, paid); status != 0 {
					t.Fatalf("answered %d %s, though killed before", status, body)
				}
				_ = process.Wait()
				if moved := point == paywall.Asked || point == paywall.Finished; moved != (w.sim.Transfers() == 1) {
					t.Errorf("%d transfers were made before the end", w.sim.Transfers())
				}
				second, _ := w.spawn("never")
				w.comeBack(second, paid)
				w.comeBack(second, paid)
				w.wantTransfers(1)
			})
		}
	}
}

func TestCrash_ABatchIsChargedOnceAndAnsweredWhole(t *testing.T) {
	const questions = `{"questions":[` + goodBody + `,{"transactionHash":"` + recordedTx + `"},{"chain":"base","transactionHash":"` + recordedTx + `","expectations":{"minConfirmations":1}}]}`
	for backend, url := range sqldbtest.URLs(t) {
		for i, point := range []paywall.Point{paywall.Claimed, paywall.Worked, paywall.Begun, paywall.Asked, paywall.Finished} {
			t.Run(fmt.Sprintf("%s, %s", backend, point), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, sqldbtest.Another(t, url))
				offer := payment.Offer{Terms: paymenttest.Terms("eip155:84532"), Resource: x402.Resource{URL: "https://seller.example/v1/verify/batch"}}
				offer.Terms.Amount = "30000"
				a := paymenttest.Authorization(fmt.Sprint(i+1), w.began)
				a.Value = offer.Terms.Amount
				paid, err := x402.Encode(paymenttest.PayloadV2(offer, a))
				w.must(err)
				first, process := w.spawn(point)
				if status, body := w.ask(first+"/v1/verify/batch", questions, paid); status != 0 {
					t.Fatalf("answered %d %s, though killed before", status, body)
				}
				_ = process.Wait()
				second, _ := w.spawn("never")
				until := time.Now().Add(30 * time.Second)
				for {
					status, body := w.ask(second+"/v1/verify/batch", questions, paid)
					if status == http.StatusServiceUnavailable && time.Now().Before(until) {
						time.Sleep(50 * time.Millisecond)
						continue
					}
					answers, err := receipt.SplitAnswers([]byte(body))
					if err != nil || len(answers) != 3 {
						t.Fatalf("%d answers, %v: %d %s", len(answers), err, status, body)
					}
					for _, answer := range answers {
						w.wantReceipt(status, string(answer))
					}
					break
				}
				w.wantTransfers(1)
				// The books have its price, and a refund may be as much.
				var records []struct{ Nonce, Amount, Operation string }
				w.command(&records, "payments", "list", "--json")
				if len(records) != 1 || records[0].Amount != "30000" || records[0].Operation != "batch" {
					t.Fatalf("%+v", records)
				}
				nonce := records[0].Nonce
				w.wantCode(1, "too large", "refund", nonce, "--transaction", w.sim.Refund(40000), "--amount", "30001", "--note", "n")
				w.wantCode(0, "proven", "refund", nonce, "--transaction", w.sim.Refund(40000), "--amount", "30000", "--note", "n")
				var sums []payment.Total
				w.command(&sums, "payments", "sum", "--json")
				if len(sums) != 1 || sums[0].Payments != 1 || sums[0].Amount != "30000" || sums[0].Net != "0" {
					t.Errorf("%+v", sums)
				}
			})
		}
	}
}

func TestCrash_WhileTheFacilitatorWorksLosesNoReceipt(t *testing.T) {
	for _, moves := range []string{"before the transfer", "after the transfer"} {
		t.Run(moves, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, sqldbtest.SQLite(t))
			paid := w.pay("1")
			first, process := w.spawn("never")
			w.sim.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
				if moves == "after the transfer" {
					honest()
				}
				_ = process.Process.Kill()
				return x402.SettleResponse{}, paymenttest.ErrCut
			}
			if status, body := w.post(first, paid); status != 0 {
				t.Fatalf("answered %d %s, though killed before", status, body)
			}
			_ = process.Wait()
			w.sim.Set(func(b *paymenttest.Simulator) { b.OnSettle = nil })
			second, _ := w.spawn("never")
			w.comeBack(second, paid)
			w.wantTransfers(1)
		})
	}
}

func TestCrash_TwoProcessesSettleExactlyTheLimit(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		t.Parallel()
		w := newWorld(t, url)
		w.env["FACILITATOR_FREE_SETTLEMENTS"] = "50"
		for _, name := range []string{"CHAIN_RPC_TIMEOUT", "FACILITATOR_VERIFY_TIMEOUT", "FACILITATOR_SETTLE_TIMEOUT"} {
			w.env[name] = "1m" // 500 at once wait for each other on a slow machine
		}
		one, _ := w.spawn("never")
		two, process := w.spawn("never")
		// A part of the month is kept for payers who are known: how many of 500 at once would be
		// for one who is not depends on when the first of them is settled.
		if status, body := w.post(one, w.pay("1")); status != http.StatusOK {
			t.Fatalf("the first: got %d: %s", status, body)
		}
		var sold, refused atomic.Int32
		var all sync.WaitGroup
		for i := range 500 {
			paid := w.pay(fmt.Sprintf("%x", i+2))
			all.Go(func() {
				switch status, body := w.post([]string{one, two}[i%2], paid); status {
				case http.StatusOK:
					sold.Add(1)
				case http.StatusServiceUnavailable:
					refused.Add(1)
				default:
					t.Errorf("got %d: %s", status, body)
				}
			})
		}
		all.Wait()
		if sold.Load() != 49 || refused.Load() != 451 {
			t.Errorf("%d were sold, %d refused", sold.Load(), refused.Load())
		}
		w.wantTransfers(50)
		_ = process.Process.Kill()
		_ = process.Wait()
		again, _ := w.spawn("never")
		if status, body := w.post(again, ""); status != http.StatusServiceUnavailable {
			t.Errorf("after a restart: %d %s", status, body)
		}
	})
}

// callTool calls verify_transaction with a payment; status 0 means no answer. An
// error of the tool has its code as the status.
func (w *world) callTool(url, nonce string) (status int, body string) {
	w.Helper()
	offer := payment.Offer{Terms: paymenttest.Terms("eip155:84532"), Resource: x402.Resource{URL: "https://seller.example/mcp"}}
	call, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": "verify_transaction", "arguments": json.RawMessage(strings.Replace(goodBody, "{", `{"proof":"inline",`, 1)),
		"_meta": map[string]any{"x402/payment": paymenttest.PayloadV2(offer, paymenttest.Authorization(nonce, w.began))},
	}})
	w.must(err)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url+"/mcp", bytes.NewReader(call))
	w.must(err)
	request.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Result struct {
			IsError           bool
			StructuredContent struct{ Code int }
			Content           []struct{ Text string }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Result.Content) == 0 {
		return 0, fmt.Sprint(err)
	}
	if answer.Result.IsError {
		return answer.Result.StructuredContent.Code, answer.Result.Content[0].Text
	}
	return response.StatusCode, answer.Result.Content[1].Text
}

func TestCrash_AToolsCallIsFinishedOverHTTP(t *testing.T) {
	for i, point := range []paywall.Point{paywall.Claimed, paywall.Worked, paywall.Begun, paywall.Asked, paywall.Finished} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, sqldbtest.SQLite(t))
			nonce := fmt.Sprint(i + 1)
			paid := w.pay(nonce)
			first, process := w.spawn(point)
			if status, body := w.callTool(first, nonce); status != 0 {
				t.Fatalf("answered %d %s, though killed before", status, body)
			}
			_ = process.Wait()
			second, _ := w.spawn("never")
			w.comeBack(second, paid)
			_, overHTTP := w.post(second, paid)
			if status, asTool := w.callTool(second, nonce); status != http.StatusOK || asTool != overHTTP {
				t.Errorf("%d: got %s, want %s", status, asTool, overHTTP)
			}
			w.wantTransfers(1)
		})
	}
}
