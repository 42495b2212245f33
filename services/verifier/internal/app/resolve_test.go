package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
)

// Without a node, an honest facilitator whose answer was cut off leaves a payment
// open that only a person can decide.
func TestPayments_TheOperatorDecidesAnOpenOne(t *testing.T) {
	for backend, url := range sqldbtest.URLs(t) {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, url)
			network := w.env["PAYMENT_RPC_URL"]
			w.env["PAYMENT_RPC_URL"], w.env["PAYMENT_CONFIRM"] = "", "facilitator"
			w.sim.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
				honest()
				return x402.SettleResponse{}, paymenttest.ErrCut
			}
			r, paid := w.run(), w.pay("1")
			if status, body := w.post(r.url, paid); status != http.StatusServiceUnavailable {
				t.Fatalf("got %d %s", status, body)
			}
			resolve := func(args ...string) (string, error) {
				var log bytes.Buffer
				args = append([]string{"payments", "resolve", "--payer", paymenttest.Buyer, "--reason", "seen on the explorer"}, args...)
				code := Run(context.Background(), Process{Process: service.Process{Args: args, Getenv: w.getenv, Stdout: io.Discard, Stderr: &log}})
				var err error
				if code != 0 {
					err = errors.New(log.String())
				}
				return log.String(), err
			}
			nonce, right := paymenttest.Nonce("1"), paymenttest.Hash(1)
			w.env["PAYMENT_RPC_URL"] = network // a node after all
			for _, args := range [][]string{
				{"--nonce", paymenttest.Nonce("2"), "settled", "--transaction", right},
				{"--nonce", nonce, "settled", "--transaction", paymenttest.Hash(9)},
				{"--nonce", nonce, "dead"},
				{"--nonce", nonce, "--network", "eip155:1", "dead"},
			} {
				if _, err := resolve(args...); err == nil {
					t.Errorf("%v was taken", args)
				}
			}
			log, err := resolve("--nonce", nonce, "settled", "--transaction", right)
			w.must(err)
			for _, want := range []string{"decided by hand", service.Operator(), "unknown", "settled", "seen on the explorer", right, "agrees"} {
				if !strings.Contains(log, want) {
					t.Errorf("%q is not in %s", want, log)
				}
			}
			w.wantReceipt(w.post(r.url, paid))
			w.wantTransfers(1)
			if _, err := resolve("--nonce", nonce, "settled", "--transaction", right); err == nil {
				t.Error("a settled payment was resolved again")
			}
		})
	}
}
