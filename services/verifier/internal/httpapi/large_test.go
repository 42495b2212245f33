package httpapi_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// sellLarge writes that a payment has bought so large an answer to the good body, and returns the answer.
func (w *world) sellLarge(nonce string, bytes int) []byte {
	w.Helper()
	answer, err := json.Marshal(map[string]string{"receipt": strings.Repeat("a", bytes)})
	w.must(err)
	_, header := w.v2(nonce)
	p, err := payment.Read(2, header)
	w.must(err)
	p, err = w.offer().Judge(p)
	w.must(err)
	ctx, later := context.Background(), w.clock().Add(time.Hour)
	request := payment.Digest(sha256.Sum256([]byte("POST " + base + "\n" + goodBody)))
	w.must(w.ledger.Register(ctx, "owner", later))
	_, _, err = w.ledger.Claim(ctx, payment.Record{
		Key: p.Key, Owner: "owner", Deadline: later, Plain: true, Payment: p.Digest, Request: request, Amount: "10000",
		PayTo: w.offer().Terms.PayTo, ValidBefore: p.ValidBefore(),
	})
	w.must(err)
	_, _, err = w.ledger.Begin(ctx, p.Key, "owner", payment.Settlement{
		Request: request, Answer: answer, Month: payment.Month(w.clock()), Limit: 10, Deadline: later,
	})
	w.must(err)
	_, err = w.ledger.Apply(ctx, p.Key, payment.Verdict(payment.Outcome{State: payment.Settled, Transaction: "0xaa"}))
	w.must(err)
	return answer
}

// slow sends a request, and returns the status of its answer, of which it reads no more.
func (w *world) slow(method, path, body string, header ...string) (status int, leave func()) {
	w.Helper()
	connection, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	w.must(err)
	tcp, _ := connection.(*net.TCPConn)
	w.must(tcp.SetReadBuffer(4096))
	request, err := http.NewRequestWithContext(context.Background(), method, w.url+path, strings.NewReader(body))
	w.must(err)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	w.must(request.Write(connection))
	response, err := http.ReadResponse(bufio.NewReaderSize(connection, 1024), request)
	w.must(err)
	w.must(tcp.CloseWrite()) // the request's context ends
	return response.StatusCode, func() { _ = connection.Close() }
}

func TestAnswer_SlowClientsHoldFewLargeOnesInMemory(t *testing.T) {
	w := open(t, nil)
	answer := w.sellLarge("1", 15<<20)
	sum := sha256.Sum256(answer)
	link := "/v1/receipts/" + hex.EncodeToString(sum[:])
	name, value := w.v2("1")
	tool := message("verify_transaction", `{"proof":"inline",`+goodBody[1:], w.toolPayment("1"))
	resource := `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"` + publicURL + link + `"}}`
	accept := []string{"Accept", "application/json, text/event-stream", protocolHeader, "2025-11-25"}
	for _, c := range []struct {
		what        string
		ask         func() (int, func())
		refused     func() reply
		most, tries int
		reason      string
		nonce       string // of a payment for a small answer
	}{
		{
			"the free link", func() (int, func()) { return w.slow(http.MethodGet, link, "") },
			func() reply { return w.do(http.MethodGet, link, "") }, 2, 4, "ledger_unavailable", "2",
		},
		{
			"the same payment", func() (int, func()) { return w.slow(http.MethodPost, base, goodBody, name, value) },
			func() reply { return w.post(goodBody, name, value) }, 4, 6, "payment_in_progress", "3",
		},
	} {
		served, leave := 0, []func(){}
		for range c.tries {
			status, left := c.ask()
			if leave = append(leave, left); status == http.StatusOK {
				served++
			}
		}
		reads := 0
		w.beforeSold = func() { reads++ }
		if c.reason == "payment_in_progress" {
			c.refused()
		}
		if w.beforeSold = nil; reads > 0 {
			t.Errorf("%s: an answer is read for which there is no place", c.what)
		}
		if served != c.most {
			t.Errorf("%s: %d clients are served at once, want %d", c.what, served, c.most)
		}
		if f := c.refused().wantFailure(http.StatusServiceUnavailable, c.reason); f.Retryable == nil || !*f.Retryable {
			t.Errorf("%s: %+v", c.what, f)
		}
		if c.reason == "payment_in_progress" { // of the tool too
			w.rpc(tool).wantTool(http.StatusServiceUnavailable, c.reason)
		} else if r := w.rpc(resource, accept...); !strings.Contains(string(r.body), `"error"`) {
			t.Errorf("%s: the resource is read: %.200s", c.what, r.body)
		}
		if got := w.buy(c.nonce); got.status != http.StatusOK {
			t.Errorf("%s: a small answer is not sold meanwhile: %d %.200s", c.what, got.status, got.body)
		}
		for _, left := range leave {
			left()
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if got := c.refused(); got.status == http.StatusOK && len(got.body) == len(answer) {
				break
			} else if time.Now().After(end) {
				t.Fatalf("%s: after the slow clients have left: %d %.200s", c.what, got.status, got.body)
			}
		}
	}
	w.wantTransfers(2)
}

// A tool reads an answer as JSON, and writes it into JSON.
func TestAnswer_CountsTwiceForATool(t *testing.T) {
	w := open(t, nil)
	sum := sha256.Sum256(w.sellLarge("1", 15<<20))
	link := "/v1/receipts/" + hex.EncodeToString(sum[:])
	_, leave := w.slow(http.MethodGet, link, "")
	if got := w.do(http.MethodGet, link, ""); got.status != http.StatusOK {
		t.Errorf("beside one slow client: %d", got.status)
	}
	w.call("check_receipt", `{"link":"`+publicURL+link+`"}`).wantTool(http.StatusServiceUnavailable, "ledger_unavailable")
	read := `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"` + publicURL + link + `"}}`
	if r := w.rpc(read); !strings.Contains(string(r.body), `"error"`) {
		t.Errorf("the resource is read: %.200s", r.body)
	}
	leave()
	name, value := w.v2("1")
	inline := message("verify_transaction", `{"proof":"inline",`+goodBody[1:], w.toolPayment("1"))
	var left []func()
	for range 3 { // 45 of 64 MB
		_, leave := w.slow(http.MethodPost, base, goodBody, name, value)
		left = append(left, leave)
	}
	w.rpc(inline).wantTool(http.StatusServiceUnavailable, "payment_in_progress")
	for _, leave := range left {
		leave()
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		checked := string(w.call("check_receipt", `{"link":"`+publicURL+link+`"}`).body)
		if r := w.rpc(inline); !strings.Contains(string(r.body), "payment_in_progress") && strings.Contains(checked, `"valid"`) {
			break
		} else if time.Now().After(end) {
			t.Fatalf("after the slow clients have left: %s, %.200s", checked, r.body)
		}
	}
}
