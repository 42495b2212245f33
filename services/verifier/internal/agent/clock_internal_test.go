package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pforte/pforte/pkg/x402"
)

// lateSeller sells one recorded answer, about a transaction that is final at a moment.
type lateSeller struct {
	final    time.Time
	answer   []byte
	keys     []byte
	payments map[string]int
	early    int // payments that came before
	// refuses means that payments whose time is over are refused.
	refuses bool
}

// RoundTrip implements http.RoundTripper, without a network: its clock is that of the test.
func (s *lateSeller) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	left := time.Until(s.final)
	payment := r.Header.Get(x402.HeaderPaymentSignature)
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1/status/") && left > 0:
		_, _ = fmt.Fprintf(w, `{"status":"included","block":"2000000","finalInSeconds":%d}`, 1+int(left/time.Second))
	case strings.HasPrefix(r.URL.Path, "/v1/status/"):
		_, _ = io.WriteString(w, `{"status":"final","block":"2000000"}`)
	case r.URL.Path == "/.well-known/x402":
		_, _ = io.WriteString(w, `{"version":1,"resources":["https://verifier.example/v1/verify/base-transaction"]}`)
	case r.Method == http.MethodGet:
		_, _ = w.Write(s.keys)
	case payment == "":
		challenge, err := x402.Encode(x402.PaymentRequired{X402Version: x402.V2, Accepts: []x402.Requirements{{
			Scheme: "exact", Network: "eip155:84532", Amount: "10000", Asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
			PayTo: "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC", MaxTimeoutSeconds: 60, Extra: map[string]any{"name": "USD Coin", "version": "2"},
		}}})
		if err != nil {
			return nil, err
		}
		w.Header().Set(x402.HeaderPaymentRequired, challenge)
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = io.WriteString(w, `{"error":"Payment required","code":402,"reason":"payment_required","retryable":false}`)
	default:
		s.payments[payment]++
		if left > 0 {
			s.early++
		}
		var sent x402.Payload
		if err := x402.Decode(payment, &sent); err != nil {
			return nil, err
		}
		end, err := strconv.ParseInt(sent.Payload.Authorization.ValidBefore, 10, 64)
		if err != nil {
			return nil, err
		}
		if s.refuses && time.Now().After(time.Unix(end, 0)) {
			w.WriteHeader(http.StatusPaymentRequired)
			_, _ = io.WriteString(w, `{"error":"refused","code":402,"reason":"payment_refused","retryable":false}`)
			break
		}
		settled := true
		paid, err := x402.Encode(x402.SettleResponse{Success: &settled, Transaction: "0x" + strings.Repeat("ab", 32), Network: "eip155:84532"})
		if err != nil {
			return nil, err
		}
		w.Header().Set(x402.HeaderPaymentResponse, paid)
		_, _ = w.Write(s.answer)
	}
	return w.Result(), nil
}

// The clock is driven: the transaction is final after 20 minutes, and who asks does so as often as
// they are told to.
func TestMCP_OverTwentyMinutesOneAuthorizationIsSigned(t *testing.T) {
	const vector = "../../../../pkg/receipt/testdata/vectors/base"
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(vector, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, wait := range map[string]bool{"asked again and again": false, "by a question that waits": true} {
		t.Run(name, func(t *testing.T) {
			state, answer, keys := t.TempDir(), read("response.json"), read("key.json")
			synctest.Test(t, func(t *testing.T) {
				s := &lateSeller{final: time.Now().Add(20 * time.Minute), answer: answer, keys: keys, payments: map[string]int{}}
				o := options{
					url: "https://verifier.example", privateKey: devKey, state: state, most: big.NewInt(50_000), day: big.NewInt(1_000_000), maxWait: 2 * time.Minute,
				}
				var log bytes.Buffer
				box, err := newToolbox(o, &log)
				if err != nil {
					t.Fatal(err)
				}
				box.client.Transport = s
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if wait {
					go box.buyWaiting(ctx)
				}
				arguments := fmt.Appendf(nil, `{"chain":"base","wait":%v,"transactionHash":"0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb","expectations":{`+
					`"status":"success","from":"0xf9868b3960348194371b8ca4fe87ca7de95e40b6","to":"0xc7b006f084ca79334db41fe216d3195870fac026","selector":"0x18cbafe5","minConfirmations":12}}`, wait)
				began, asked := time.Now(), 0
				for {
					asked++
					got, err := box.verifyTransaction(ctx, &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: "verify_transaction", Arguments: arguments}})
					if err != nil {
						t.Fatal(err)
					}
					said, err := json.Marshal(got)
					if err != nil || bytes.Contains(said, []byte("perhaps")) {
						t.Fatalf("%v: %s", err, said)
					}
					if bytes.Contains(said, []byte(`"signature"`)) {
						break
					}
					var object struct {
						StructuredContent struct {
							AskAgainAfterSeconds, FinalInSeconds int
							Paid                                 string
						}
					}
					if err := json.Unmarshal(said, &object); err != nil || object.StructuredContent.Paid != "no" || asked > 100 {
						t.Fatalf("%v: %s", err, said)
					}
					after := max(object.StructuredContent.AskAgainAfterSeconds, object.StructuredContent.FinalInSeconds)
					if wait {
						after = 60 // sooner than it says: it does not matter
					}
					time.Sleep(time.Duration(after) * time.Second)
				}
				if took := time.Since(began); took < 20*time.Minute || took > 22*time.Minute {
					t.Errorf("it was bought after %v", took)
				}
				spent, err := box.limits.spent(box.payer)
				if err != nil || spent.String() != "10000" || len(s.payments) != 1 || s.early != 0 {
					t.Errorf("%v of the cap, %d authorizations, %d of them early, %v; %s", spent, len(s.payments), s.early, err, &log)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

// TestMCP_AQuestionThatWaitsIsNotPaidAgainForAnAnswerThatDoesNotHold: nobody is there who would see it.
func TestMCP_AQuestionThatWaitsIsNotPaidAgainForAnAnswerThatDoesNotHold(t *testing.T) {
	const vector = "../../../../pkg/receipt/testdata/vectors/base"
	keys, err := os.ReadFile(filepath.Join(vector, "key.json"))
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &lateSeller{final: time.Now(), answer: []byte("{}"), keys: keys, payments: map[string]int{}, refuses: true}
		var log bytes.Buffer
		box, err := newToolbox(options{
			url: "https://verifier.example", privateKey: devKey, state: state, most: big.NewInt(50_000), day: big.NewInt(1_000_000), maxWait: 2 * time.Minute,
		}, &log)
		if err != nil {
			t.Fatal(err)
		}
		box.client.Transport = s
		q := question{path: "/v1/verify/base-transaction", body: `{"transactionHash":"0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb"}`}
		if err := box.waiting.add(box.entryOf(q).name(), q); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go box.buyWaiting(ctx)
		time.Sleep(time.Hour)
		cancel()
		synctest.Wait()
		if len(s.payments) != 1 {
			t.Errorf("%d authorizations were signed: %s", len(s.payments), &log)
		}
	})
}
