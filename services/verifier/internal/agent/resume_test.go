package agent_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/services/verifier/internal/agent"
	"github.com/pforte/pforte/services/verifier/internal/devnet"
)

const pendingBody = `{"error":"wait","code":503,"reason":"settlement_pending","retryable":true}`

func TestResume_AfterACrashTheSamePaymentIsSent(t *testing.T) {
	for name, lost := range map[string]func(http.ResponseWriter){
		"connection cut": hangUp,
		"a proxy's 502":  refuse(502, "<html>"),
		"a 500":          refuse(500, `{"error":"no","code":500,"reason":"internal_error"}`),
		"pending":        refuse(503, pendingBody, "Retry-After", "60"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, state := open(t, lost), t.TempDir()
			if got := s.run(state); got.code != 3 || kept(t, state) != 1 {
				t.Fatalf("%+v, %d kept", got, kept(t, state))
			}
			s.script(deliver(t))
			got := s.run(state, "--json")
			if got.code != 0 || kept(t, state) != 0 || !strings.Contains(got.stdout, `"resumed":true`) {
				t.Errorf("%+v", got)
			}
			s.wantOnePayment()
		})
	}
}

func TestResume_AnEarlierRunsPaymentIsUnderTheCap(t *testing.T) {
	s, state := open(t, hangUp), t.TempDir()
	path := []string{"--path", "/v1/verify/base-transaction"} // as an assistant asks
	if got := s.run(state, path...); got.code != 3 {
		t.Fatalf("%+v", got)
	}
	sent := len(s.sent())
	got := s.run(state, append(path, "--max-usd", "0.001", "--json")...) // which may have been settled
	if got.code != 3 || len(s.sent()) != sent || kept(t, state) != 1 || !strings.Contains(got.stdout, `"paid":"unknown"`) {
		t.Errorf("%+v, %d payments", got, len(s.sent()))
	}
	told := s.assistant(state, nil, "--max-usd", "0.001").call("verify_transaction", asked())
	if told.Reason != "price_above_cap" || told.Paid != "unknown" || strings.Contains(told.text, "Nothing was paid") {
		t.Errorf("%+v", told)
	}
}

func TestResume_APendingPaymentIsRepeated(t *testing.T) {
	pending := refuse(503, pendingBody, "Retry-After", "1")
	s := open(t, pending, hangUp, deliver(t))
	if got := s.run(t.TempDir(), "--patience", "10s"); got.code != 0 || len(s.sent()) != 3 || s.sent()[0] != s.sent()[2] {
		t.Errorf("%+v, %d payments", got, len(s.sent()))
	}
}

func TestResume_ARefusedPaymentMayStillBeTaken(t *testing.T) {
	s, state := open(t, hangUp), t.TempDir()
	if got := s.run(state); got.code != 3 {
		t.Fatalf("%+v", got)
	}
	s.script(refuse(402, `{"error":"no","code":402,"reason":"payment_required"}`))
	got := s.run(state)
	if got.code != 3 || kept(t, state) != 1 {
		t.Errorf("%+v", got)
	}
	s.wantOnePayment()
}

// The seller has the signed payment: that nothing was charged is its word until the
// payment can no longer be settled.
func TestBuy_IsUndecidedWhileASellerThatRefusedCouldStillSettle(t *testing.T) {
	no := refuse(402, `{"error":"no","code":402,"reason":"payment_refused"}`)
	for name, answers := range map[string][]func(http.ResponseWriter){
		"refused":                     {no},
		"refused after a cut":         {hangUp, no},
		"another fault after a cut":   {hangUp, refuse(422, `{"error":"no","code":422,"reason":"expectation_mismatch"}`)},
		"a 402 that calls for a wait": {refuse(402, `{"error":"no","code":402,"reason":"payment_refused","retryable":true}`, "Retry-After", "600")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, state := open(t, answers...), t.TempDir()
			got := s.run(state, "--json", "--patience", "5s")
			var printed struct{ Paid, Error string }
			if err := json.Unmarshal([]byte(got.stdout), &printed); err != nil || got.code != 3 || printed.Paid != "unknown" || !strings.Contains(printed.Error, "no") {
				t.Fatalf("%v, %+v", err, got)
			}
			if got := s.run(state); got.code != 3 || kept(t, state) != 1 {
				t.Errorf("again: %+v", got)
			}
			s.wantOnePayment()
		})
	}
}

// A proxy before a verifier answers so, or another server: it does not know what became of the payment.
func TestBuy_IsUndecidedWhereNoVerifierRefuses(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"a proxy's 404": refuse(404, "<html>"),
		"a proxy's 403": refuse(403, `{"message":"no"}`),
		"a redirect":    refuse(302, "", "Location", "/"),
		"no content":    refuse(204, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, state := open(t, answer), t.TempDir()
			got := s.run(state, "--json")
			var printed struct{ Paid string }
			if err := json.Unmarshal([]byte(got.stdout), &printed); err != nil || got.code != 3 || printed.Paid != "unknown" {
				t.Fatalf("%v, %+v", err, got)
			}
			expire(t, keptFiles(t, state)[0])
			if got := s.run(state); got.code != 3 || kept(t, state) != 1 {
				t.Errorf("after its end: %+v", got)
			}
			s.script(deliver(t))
			if got := s.run(state); got.code != 0 || kept(t, state) != 0 {
				t.Errorf("the verifier is back: %+v", got)
			}
			s.wantOnePayment()
		})
	}
}

// expire has the payment in a file of the journal end a minute ago.
func expire(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var entry map[string]any
	if err := json.Unmarshal(text, &entry); err != nil {
		t.Fatal(err)
	}
	entry["validBefore"] = time.Now().Add(-time.Minute)
	if text, err = json.Marshal(entry); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A journal or an answer that cannot be read may hold a payment for the question: that nothing was paid is not known.
func TestResume_WhatCannotBeReadIsNotUnpaid(t *testing.T) {
	s, state := open(t, hangUp, deliver(t)), t.TempDir()
	if got := s.run(state); got.code != 3 {
		t.Fatalf("%+v", got)
	}
	payments := keptFiles(t, state)
	kept, err := os.ReadFile(payments[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(payments[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{append([]string{"--json"}, question...), {"--json"}} {
		got := s.runWith(state, args...)
		if got.code != 3 || !strings.Contains(got.stdout, `"paid":"unknown"`) {
			t.Errorf("%v: %+v", args, got)
		}
	}
	assistant := s.assistant(state, nil)
	if told := assistant.call("verify_transaction", asked()); told.Paid != "unknown" {
		t.Errorf("a broken journal: %+v", told)
	}
	if err := os.WriteFile(payments[0], kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.run(state); got.code != 0 {
		t.Errorf("%+v", got)
	}
	s.wantOnePayment()

	s, state = open(t, deliver(t)), t.TempDir()
	assistant = s.assistant(state, nil)
	if told := assistant.call("verify_transaction", asked()); told.isError {
		t.Fatalf("%+v", told)
	}
	answers, err := filepath.Glob(filepath.Join(state, "answers", "*.json"))
	if err != nil || len(answers) != 1 {
		t.Fatal(answers, err)
	}
	if err := errors.Join(os.Remove(answers[0]), os.Mkdir(answers[0], 0o700)); err != nil {
		t.Fatal(err)
	}
	if told := assistant.call("verify_transaction", asked()); told.Paid != "unknown" {
		t.Errorf("an answer that cannot be read: %+v", told)
	}
	s.wantOnePayment()
}

func TestResume_OnlyAnExpiredPaymentIsReplaced(t *testing.T) {
	s, state := open(t, hangUp), t.TempDir()
	if got := s.run(state); got.code != 3 {
		t.Fatalf("%+v", got)
	}
	expire(t, keptFiles(t, state)[0])
	s.script(refuse(402, `{"error":"no","code":402,"reason":"payment_invalid"}`), deliver(t))
	got := s.run(state)
	if got.code != 0 || len(s.sent()) != 3 || s.sent()[1] != s.sent()[0] || s.sent()[2] == s.sent()[0] || kept(t, state) != 0 {
		t.Errorf("%+v, %d payments", got, len(s.sent()))
	}
}

// An answer whose payment the journal cannot drop is there all the same: nothing says that it was not paid, and
// the same command ends it.
func TestResume_APaymentThatCannotBeDroppedIsNoFailure(t *testing.T) {
	single := read(t, "response.json")
	for name, sold := range map[string][]byte{"one": single, "batch": receipt.JoinAnswers([][]byte{single})} {
		state, args := t.TempDir(), append([]string{"--json"}, question...)
		if name == "batch" {
			args = []string{"--json", "--batch", fileOf(t, `{"questions":[`+recordedQuestion+`]}`)}
		}
		count := filepath.Join(state, "limits", "spent.json")
		s := open(t, func(w http.ResponseWriter) {
			if err := os.WriteFile(count, []byte("[{"), 0o600); err != nil {
				t.Error(err)
			}
			_, _ = w.Write(sold)
		}, func(w http.ResponseWriter) { _, _ = w.Write(sold) })
		got := s.runWith(state, args...)
		var told struct{ Verified bool }
		err := json.Unmarshal([]byte(got.stdout), &told)
		if err != nil || !told.Verified || got.code != 3 || kept(t, state) != 1 {
			t.Errorf("%s: %v, %+v, %d kept", name, err, got, kept(t, state))
		}
		if err := os.Remove(count); err != nil {
			t.Fatal(err)
		}
		if got := s.runWith(state, args...); got.code != 0 || kept(t, state) != 0 {
			t.Errorf("%s: %+v, %d kept", name, got, kept(t, state))
		}
		s.wantOnePayment()
	}
}

func TestResume_WhatCostsNothingIsNotUndecided(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		most   int // payments sent
	}{
		"no free settlement until next month": {refuse(503, `{"error":"no","code":503,"reason":"facilitator_limit","retryable":true}`, "Retry-After", "86400"), 1},
		"the facilitator is away":             {refuse(503, `{"error":"no","code":503,"reason":"facilitator_unavailable","retryable":true}`, "Retry-After", "1"), 2},
		"not final yet":                       {refuse(422, `{"error":"no","code":422,"reason":"not_finalized","retryable":true}`), 1},
		"a wait without end":                  {refuse(422, `{"error":"no","code":422,"reason":"not_finalized","retryable":true}`, "Retry-After", "9223372036854775807"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, state := open(t, c.answer), t.TempDir()
			if got := s.run(state); got.code != 1 || len(s.sent()) == 0 || len(s.sent()) > c.most {
				t.Errorf("%+v, %d payments", got, len(s.sent()))
			}
			s.wantOnePayment()
		})
	}
}

func TestResume_AnUnsentPaymentIsNotUndecided(t *testing.T) {
	s, state := open(t, deliver(t)), t.TempDir()
	s.leave = true
	if got := s.run(state); got.code != 1 || !strings.Contains(got.stderr, "refused") || kept(t, state) != 1 {
		t.Errorf("%+v, %d kept", got, kept(t, state))
	}
}

// The other run signs and sends while this one waits for the price.
func TestResume_AnUnsentPaymentOfAnotherRunIsUndecided(t *testing.T) {
	s, state := open(t, hangUp), t.TempDir()
	notReady := refuse(503, `{"error":"no","code":503,"reason":"not_ready","retryable":true}`, "Retry-After", "2")
	other := make(chan result, 1)
	s.unpaid = []func(http.ResponseWriter){func(w http.ResponseWriter) {
		notReady(w)
		go func() {
			got := s.run(state)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.leave = true
			other <- got
		}()
	}}
	if got := s.run(state, "--patience", "10s"); got.code != 3 || !strings.Contains(got.stderr, "refused") {
		t.Errorf("%+v", got)
	}
	if got := <-other; got.code != 3 || len(s.sent()) == 0 {
		t.Errorf("the other one: %+v", got)
	}
	s.wantOnePayment()
}

func TestBuy_WaitsForASellerThatIsNotReadyAndSignsOnce(t *testing.T) {
	notReady := refuse(503, `{"error":"no","code":503,"reason":"not_ready","retryable":true}`, "Retry-After", "1")
	s, state := open(t, notReady, deliver(t)), t.TempDir()
	s.unpaid = []func(http.ResponseWriter){notReady, notReady}
	if got := s.run(state, "--patience", "10s"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	s.wantOnePayment()
	s.unpaid = []func(http.ResponseWriter){refuse(503, `{"error":"no","code":503,"reason":"not_ready","retryable":true}`, "Retry-After", "60")}
	begin := time.Now()
	if got := s.run(t.TempDir(), "--patience", "10s"); got.code != 1 || time.Since(begin) > 5*time.Second {
		t.Errorf("%+v after %s", got, time.Since(begin))
	}
}

func TestResume_ASilentSellerIsLeftAfterTheTimeout(t *testing.T) {
	s, state := open(t, func(http.ResponseWriter) { time.Sleep(3 * time.Second) }), t.TempDir()
	begin := time.Now()
	if got := s.run(state, "--patience", "1s"); got.code != 3 || time.Since(begin) > 2500*time.Millisecond {
		t.Errorf("%+v after %s", got, time.Since(begin))
	}
}

func TestResume_RunsAtOnceSendTheSamePayment(t *testing.T) {
	s, state := open(t, hangUp), t.TempDir()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got := s.run(state); got.code != 3 {
				t.Errorf("%+v", got)
			}
		})
	}
	all.Wait()
	s.wantOnePayment()
	if n := kept(t, state); n != 1 {
		t.Errorf("%d kept", n)
	}
}

func TestResume_AnUnfinishedDemoGoesOn(t *testing.T) {
	chain, err := devnet.Start(t.Context(), devnet.Config{ChainID: 84532, RPCAddr: "127.0.0.1:0", BlockTime: time.Second, FinalityDepth: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = chain.Close() })
	s, state := open(t, hangUp), t.TempDir()
	demo := func() (int, string) {
		var stdout, stderr strings.Builder
		args := []string{"--url", s.server.URL, "--state", state, "--rpc", chain.RPCURL(), "--patience", "20s"}
		if len(s.sent()) > 0 {
			args[5] = "http://127.0.0.1:1" // no second transaction
		}
		code := agent.Run(t.Context(), "v0", args, func(string) string { return "" }, strings.NewReader(""), &stdout, &stderr)
		return code, stdout.String() + stderr.String()
	}
	s.script(refuse(503, pendingBody, "Retry-After", "60"))
	if code, printed := demo(); code != 3 || kept(t, state) != 1 {
		t.Fatalf("code %d: %s", code, printed)
	}
	s.script(deliver(t)) // the recorded answer, which is to another question
	if code, printed := demo(); code != 4 || !strings.Contains(printed, "another question") || !strings.Contains(printed, "Going on with transaction") {
		t.Errorf("code %d: %s", code, printed)
	}
	s.wantOnePayment()
}

func TestBuy_SaysWhereTheSellerGaveNoProof(t *testing.T) {
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(read(t, "response.json"), &answer); err != nil {
		t.Fatal(err)
	}
	delete(answer, "proof")
	bare, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	for want, answer := range map[string]func(http.ResponseWriter){
		"the signature and the proof hold":           deliver(t),
		"the signature holds, and there is no proof": func(w http.ResponseWriter) { _, _ = w.Write(bare) },
	} {
		if got := open(t, answer).run(t.TempDir()); got.code != 0 || !strings.Contains(got.stdout, "Checked offline: "+want+". Paid") {
			t.Errorf("%q: %+v", want, got)
		}
	}
}
