package app

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
)

// books runs "verifier payments" and returns the exit code and what it printed.
func (w *world) books(args ...string) (code int, out string) {
	code, out, _ = w.said(args...)
	return code, out
}

// said is books with what the command writes to standard error.
func (w *world) said(args ...string) (code int, out, said string) {
	var stdout, stderr lockedBuffer
	code = Run(context.Background(), Process{Process: service.Process{
		Args: append([]string{"payments"}, args...), Getenv: w.getenv, Stdout: &stdout, Stderr: &stderr,
	}, now: func() time.Time { return time.Now().Add(w.later) }})
	return code, stdout.String(), stderr.String()
}

// wantCode runs a command that must end with a code and write some words.
func (w *world) wantCode(want int, words string, args ...string) {
	w.Helper()
	if code, out, said := w.said(args...); code != want || !strings.Contains(out+said, words) {
		w.Errorf("%v ends with %d: %s%s\nwant %d and %q", args, code, out, said, want, words)
	}
}

// leaveOpen makes a payment whose outcome is open; the money has moved when honest is called.
func (w *world) leaveOpen(url, nonce string, moves bool) {
	w.Helper()
	w.sim.Set(func(b *paymenttest.Simulator) {
		b.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
			if moves {
				honest()
			}
			return x402.SettleResponse{}, paymenttest.ErrCut
		}
	})
	if status, body := w.post(url, w.pay(nonce)); status != http.StatusServiceUnavailable {
		w.Fatalf("got %d %s", status, body)
	}
}

func TestBooks_AreReadByTheOperator(t *testing.T) {
	for backend, database := range sqldbtest.URLs(t) {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, database)
			node := w.env["PAYMENT_RPC_URL"]
			w.env["PAYMENT_RPC_URL"], w.env["PAYMENT_CONFIRM"] = "", "facilitator" // so that nothing is reconciled
			url := w.run().url
			w.wantReceipt(w.post(url, w.pay("1")))
			w.leaveOpen(url, "2", true)
			w.leaveOpen(url, "3", false)
			w.leaveOpen(url, "4", true)
			paid, open, never, last := paymenttest.Nonce("1"), paymenttest.Nonce("2"), paymenttest.Nonce("3"), paymenttest.Nonce("4")

			for _, args := range [][]string{
				{"show"},
				{"show", paid, "more"},
				{"look"},
				{"decide", open, "lost", "--note", "n"},
				{"decide", open, "dead"},
				{"decide", open, "settled", "--note", "n"},
				{"decide", open, "settled", "--note", "n", "--transaction", "0x1"},
				{"decide", open, "dead", "--note", "n", "--transaction", paymenttest.Hash(2)},
				{"decide", open, "dead", "--note", "n", "--unchecked"},
				{"refund", paid, "--amount", "1", "--note", "n"},
				{"refund", paid, "--transaction", paymenttest.Hash(9), "--amount", "0", "--note", "n"},
				{"refund", paid, "--transaction", paymenttest.Hash(9), "--amount", "1"},
				{"look", "--fast", open},
			} {
				w.wantCode(2, `Run "verifier --help"`, args...)
			}
			w.wantCode(1, "no payment", "show", paymenttest.Nonce("9"))
			w.wantCode(1, "no payment", "decide", paymenttest.Nonce("9"), "dead", "--note", "n")
			w.wantCode(0, paymenttest.Hash(1), "show", paid)
			w.wantCode(0, "state         settled", "show", paymenttest.Hash(1))
			w.wantCode(0, "wait until", "show", open)
			w.wantCode(0, "wait until", "list", "--open")
			w.wantCode(1, "PAYMENT_RPC_URL", "look", open)
			w.wantCode(1, "no node", "decide", open, "settled", "--transaction", paymenttest.Hash(2), "--note", "n")

			w.env["PAYMENT_RPC_URL"] = node
			calls := len(w.sim.Bodies)
			w.wantCode(0, "--write makes it settled", "look", open)
			w.wantCode(1, "cannot be known to be dead before", "decide", never, "dead", "--note", "n")
			w.wantCode(1, "unchecked", "decide", open, "settled", "--transaction", paymenttest.Hash(2), "--note", "n", "--unchecked")
			w.wantCode(1, "not "+paymenttest.Hash(9), "decide", open, "settled", "--transaction", paymenttest.Hash(9), "--note", "n")
			w.wantCode(1, "no payment", "decide", never, "settled", "--transaction", paymenttest.Hash(9), "--note", "n")
			w.wantCode(1, "is settled", "decide", paid, "dead", "--note", "n")
			w.wantCode(0, service.Operator(), "decide", open, "settled", "--transaction", paymenttest.Hash(2), "--note", "seen in an explorer")
			w.wantCode(1, "is settled", "decide", open, "settled", "--transaction", paymenttest.Hash(2), "--note", "again")
			w.wantCode(0, "seen in an explorer", "show", open)
			w.later = time.Hour
			w.wantCode(1, "it was paid by", "decide", last, "dead", "--note", "n")
			w.env["PAYMENT_RPC_URL"], w.env["CHAINS_FILE"] = "", "missing.json"
			w.wantCode(1, "missing.json", "decide", last, "dead", "--note", "the file would name a node")
			w.env["PAYMENT_RPC_URL"], w.env["CHAINS_FILE"] = node, ""
			w.wantCode(0, `"to":"dead"`, "decide", never, "dead", "--note", "never came")
			w.wantCode(0, "never came", "show", never)
			w.wantCode(0, "written: it is settled", "look", last, "--write")
			if len(w.sim.Bodies) != calls {
				t.Error("the facilitator was called to settle")
			}
			w.sim.Set(func(b *paymenttest.Simulator) { b.OnSettle = nil })

			refund := w.sim.Refund(5000)
			w.wantCode(1, "is dead", "refund", never, "--transaction", refund, "--amount", "1", "--note", "n")
			w.wantCode(1, "moves nothing", "refund", paid, "--transaction", paymenttest.Hash(1), "--amount", "1", "--note", "n")
			w.wantCode(1, "too large", "refund", paid, "--transaction", refund, "--amount", "5001", "--note", "n")
			w.wantCode(0, "proven", "refund", paid, "--transaction", refund, "--amount", "4000", "--note", "sold by mistake")
			w.wantCode(1, "booked already", "refund", paid, "--transaction", refund, "--amount", "1", "--note", "n")
			w.env["PAYMENT_RPC_URL"] = ""
			w.wantCode(0, "", "refund", paid, "--transaction", paymenttest.Hash(8), "--amount", "6000", "--note", "in cash")
			w.wantCode(0, "not proven", "show", paid)
			w.wantCode(0, "state         settled", "show", paid)

			var sums []payment.Total
			w.command(&sums, "payments", "sum", "--json")
			i := slices.IndexFunc(sums, func(t payment.Total) bool { return t.State == payment.Settled })
			if len(sums) != 2 || i < 0 || sums[i].Amount != "30000" || sums[i].Refunded != "10000" || sums[i].Net != "20000" {
				t.Errorf("summed %+v", sums)
			}
			// Only what is settled is income.
			w.wantCode(0, "20000\n", "sum")
			for _, state := range []string{"dead", "settled"} {
				_, table := w.books("sum", "--state", state)
				last := strings.Fields(table[strings.LastIndex(strings.TrimSpace(table), "\n")+1:])
				if isIncome := last[len(last)-1] != "-"; isIncome != (state == "settled") {
					t.Errorf("the sum of %s payments is shown as %v", state, last)
				}
			}
			for by, want := range map[string]string{"operation": "base-transaction", "transport": "http", "day": time.Now().UTC().Format("2006-01-")} {
				w.wantCode(0, want, "sum", "--by", by)
				w.wantCode(0, "REFUNDED", "sum", "--by", by)
			}
			w.wantCode(1, "--by", "sum", "--by", "year")
			w.wantCode(0, time.Now().UTC().Format("2006-01"), "sum", "--by", "month")
			w.wantCode(0, strings.ToLower(paymenttest.Buyer), "sum", "--by", "payer")
			var shown map[string]any
			_, out := w.books("show", paid, "--json")
			w.must(json.Unmarshal([]byte(out), &shown))
			if shown["operation"] != "base-transaction" || len(shown["refunds"].([]any)) != 2 || bytes.Contains([]byte(out), []byte("receipt")) {
				t.Errorf("shown is %s", out)
			}
		})
	}
}

func TestBooks_WhatIsUnderWayIsNotTouched(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	url := w.run().url
	settling, enough := make(chan struct{}), make(chan struct{})
	w.sim.OnSettle = func(_ context.Context, honest func() x402.SettleResponse) (x402.SettleResponse, error) {
		close(settling)
		<-enough
		return honest(), nil
	}
	answered := make(chan struct{})
	go func() { defer close(answered); w.post(url, w.pay("1")) }()
	<-settling
	nonce := paymenttest.Nonce("1")
	w.wantCode(3, "under way", "decide", nonce, "dead", "--note", "n")
	w.wantCode(3, "under way", "look", nonce, "--write")
	w.wantCode(3, "under way", "refund", nonce, "--transaction", paymenttest.Hash(1), "--amount", "1", "--note", "n")
	w.wantCode(0, "state settling, chain unspent", "look", nonce)
	close(enough)
	<-answered
	w.wantCode(0, "state settled, chain paid", "look", nonce)
}

func TestStatement_IsClosedAndCorrected(t *testing.T) {
	for backend, database := range sqldbtest.URLs(t) {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, database)
			node := w.env["PAYMENT_RPC_URL"]
			w.env["PAYMENT_RPC_URL"], w.env["PAYMENT_CONFIRM"] = "", "facilitator" // so that nothing is reconciled
			url := w.run().url
			w.wantReceipt(w.post(url, w.pay("1")))
			w.leaveOpen(url, "2", true)
			month := time.Now().UTC().Format("2006-01")

			w.wantCode(1, "no month", "statement", "10/2026")
			w.wantCode(1, "has not ended", "statement", month, "--close")
			w.wantCode(0, "not closed", "statement", month)
			table := func(args ...string) [][]string {
				t.Helper()
				_, out := w.books(args...)
				rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
				w.must(err)
				return rows
			}
			if rows := table("list", "--csv", "--state", "settled"); len(rows) != 2 || rows[1][3] != "0.01" || rows[1][9] != paymenttest.Hash(1) {
				t.Errorf("listed %v", rows)
			}
			if rows := table("sum", "--csv", "--by", "payer", "--state", "settled"); len(rows) != 2 || rows[1][4] != "0.01" || rows[1][1] != strings.ToLower(paymenttest.Buyer) {
				t.Errorf("summed %v", rows)
			}
			w.later = 32 * 24 * time.Hour
			w.wantCode(0, "closed 2", "statement", month, "--close")
			w.wantCode(1, "closed already", "statement", month, "--close")
			before := table("statement", month, "--csv")
			w.env["PAYMENT_RPC_URL"] = node
			w.wantCode(0, service.Operator(), "decide", paymenttest.Nonce("2"), "settled", "--transaction", paymenttest.Hash(2), "--note", "=seen")
			after := table("statement", month, "--csv")
			if diff := cmp.Diff(before, after[:len(before)]); diff != "" || len(before) != 2 || before[1][6] != "0.01" {
				t.Errorf("the closed lines: %v %s", before, diff)
			}
			if len(after) != 3 || after[2][1] != "correction: decided" || after[2][6] != "0.01" || after[2][12] != "'=seen" {
				t.Errorf("corrected by %v", after)
			}
		})
	}
}
