package agent_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMCP_NothingIsSignedBeforeATransactionIsFinal(t *testing.T) {
	s := open(t, deliver(t))
	s.reports("base", `{"status":"included","block":"2000000","finalInSeconds":1200}`)
	a := s.assistant(t.TempDir(), nil)
	for range 4 {
		got := a.call("verify_transaction", asked())
		if !got.isError || got.Reason != "not_finalized" || got.Paid != "no" || !got.Retryable || got.AskAgainAfterSeconds != 1200 {
			t.Fatalf("%+v", got)
		}
		if strings.Contains(got.text, "perhaps") || !strings.Contains(got.text, "Ask again in 1200 s") {
			t.Error(got.text)
		}
	}
	if len(s.questions()) != 0 {
		t.Errorf("the seller was asked for a price: %q", s.questions())
	}
	s.reports("base", `{"status":"final","block":"2000000"}`)
	if got := a.call("verify_transaction", asked()); got.isError || got.Payment.DayUSD != "0.01" {
		t.Errorf("%+v", got)
	}
	s.wantOnePayment()
}

func TestMCP_AWrongChainIsNamedAtOnceAndCostsNothing(t *testing.T) {
	s := open(t, deliver(t))
	s.reports("ethereum", `{"status":"unknown","knownOn":"base"}`)
	wrong := asked()
	wrong["chain"] = "ethereum"
	began := time.Now()
	got := s.assistant(t.TempDir(), nil).call("verify_transaction", wrong)
	if !got.isError || got.Reason != "transaction_not_found" || got.Paid != "no" || got.Retryable || !strings.Contains(got.text, "base has it") {
		t.Errorf("%+v", got)
	}
	if took := time.Since(began); took > 10*time.Second || len(s.sent()) != 0 {
		t.Errorf("took %v, %d payments", took, len(s.sent()))
	}
}

// TestMCP_ARefusalThatCostsNothingSaysSo, also of a seller that does not tell how far transactions are.
func TestMCP_ARefusalThatCostsNothingSaysSo(t *testing.T) {
	s := open(t, refuse(http.StatusUnprocessableEntity, `{"error":"the transaction's block is not finalized yet","code":422,`+
		`"reason":"not_finalized","retryable":true,"retryAfterSeconds":1800}`, "Retry-After", "1800"))
	began := time.Now()
	got := s.assistant(t.TempDir(), nil).call("verify_transaction", asked())
	if !got.isError || got.Reason != "not_finalized" || got.Paid != "no" || got.AskAgainAfterSeconds != 1800 {
		t.Errorf("%+v", got)
	}
	if took := time.Since(began); took > 10*time.Second || strings.Contains(got.text, "perhaps") || len(s.sent()) != 1 {
		t.Errorf("took %v, %d payments: %s", took, len(s.sent()), got.text)
	}
}

// A seller that is busy refuses without a charge: the model is told so, and when to ask again.
func TestMCP_WhatTheSellerPutsOffIsNotCalledPaid(t *testing.T) {
	s := open(t, refuse(http.StatusServiceUnavailable, `{"error":"busy","code":503,"reason":"facilitator_unavailable","retryable":true,"retryAfterSeconds":30}`,
		"Retry-After", "30"), deliver(t))
	a := s.assistant(t.TempDir(), nil, "--patience", "2m")
	began := time.Now()
	got := a.call("verify_transaction", asked())
	if !got.isError || got.Reason != "facilitator_unavailable" || got.Paid != "no" || !got.Retryable || got.AskAgainAfterSeconds != 30 ||
		strings.Contains(got.text, "perhaps") || time.Since(began) > 5*time.Second {
		t.Errorf("after %v: %+v", time.Since(began), got)
	}
	if got := a.call("verify_transaction", asked()); got.isError || got.Payment.DayUSD != "0.01" {
		t.Errorf("%+v", got)
	}
	s.wantOnePayment()
}

// A seller that is silent before anything is signed has not been paid, and a free tool never pays.
func TestMCP_ASilentSellerIsNotCalledPaid(t *testing.T) {
	leave := make(chan struct{})
	defer close(leave)
	silent := func(http.ResponseWriter) { <-leave }
	s := open(t, deliver(t))
	s.unpaid = []func(http.ResponseWriter){silent}
	a, _ := s.impatient(t.TempDir())
	if got := a.call("verify_transaction", asked()); got.Reason != "no_answer" || got.Paid != "no" || !got.Retryable || !strings.Contains(got.text, "signed nothing") {
		t.Errorf("%+v", got)
	}
	if got := a.call("quote", nil); got.Reason != "no_answer" || got.Paid != "no" {
		t.Errorf("%+v", got)
	}
}

func TestMCP_WhatWaitsIsBoughtOnceThoughTheProcessIsKilled(t *testing.T) {
	s, state := open(t, deliver(t)), t.TempDir()
	s.reports("base", `{"status":"included","block":"2000000","finalInSeconds":60}`)
	question := asked()
	question["chain"], question["wait"] = "base", true
	first := s.assistant(state, nil)
	for range 3 {
		got := first.call("verify_transaction", question)
		if got.isError || !got.Waiting || got.Paid != "no" || len(s.sent()) != 0 {
			t.Fatalf("%+v, %d payments", got, len(s.sent()))
		}
	}
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.reports("base", `{"status":"final","block":"2000000"}`)
	second := s.assistant(state, nil)
	for end := time.Now().Add(20 * time.Second); ; {
		files, err := filepath.Glob(filepath.Join(state, "waiting", "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it was not bought")
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.wantOnePayment()
	if got := second.call("verify_transaction", question); got.isError || got.Payment.USD != "0.00" || got.Receipt.Verdict != "verified" {
		t.Errorf("%+v", got)
	}
	s.wantOnePayment()
}

func TestMCP_WaitingIsForWhatWillBeFinal(t *testing.T) {
	s := open(t, deliver(t))
	s.reports("base", `{"status":"unknown"}`)
	question := asked()
	question["chain"], question["wait"] = "base", true
	if got := s.assistant(t.TempDir(), nil).call("verify_transaction", question); !got.isError || got.Reason != "transaction_not_found" {
		t.Errorf("%+v", got)
	}
	if got := s.assistant(t.TempDir(), nil, "--confirm").call("verify_transaction", question); !got.isError || got.Field != "wait" {
		t.Errorf("%+v", got)
	}
	question["wait"] = "yes"
	if got := s.assistant(t.TempDir(), nil).call("verify_transaction", question); !got.isError || got.Field != "wait" {
		t.Errorf("%+v", got)
	}
}

func TestBuy_WaitsUntilATransactionIsFinal(t *testing.T) {
	s := open(t, deliver(t))
	s.reports("chain", `{"status":"included","block":"2000000","finalInSeconds":1}`)
	time.AfterFunc(time.Second, func() { s.reports("chain", `{"status":"final","block":"2000000"}`) })
	if got := s.run(t.TempDir(), append(question, "--patience", "30s")...); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	s.wantOnePayment()
	s = open(t, deliver(t))
	s.reports("chain", `{"status":"included","block":"2000000","finalInSeconds":1200}`)
	got := s.run(t.TempDir(), append(question, "--patience", "1s")...)
	if got.code == 0 || !strings.Contains(got.stderr, "final in about 1200 s") || len(s.sent()) != 0 {
		t.Errorf("%+v", got)
	}
}
