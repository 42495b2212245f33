package agent

import (
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
)

// purse counts payments of one payer, at a time that the test sets.
type purse struct {
	limits
	at time.Time
}

func newPurse(folder string, most int64) *purse {
	p := &purse{at: time.Date(2026, 11, 22, 23, 59, 0, 0, time.UTC)}
	p.limits = limits{folder: folder, day: big.NewInt(most), now: func() time.Time { return p.at }}
	return p
}

func (p *purse) sign(question, nonce string, amount int64) error {
	return p.locked(func() error {
		return p.count(signed{Payer: "me", Question: question, Nonce: nonce, ValidBefore: p.at.Add(time.Minute)}, big.NewInt(amount))
	})
}

func TestCap_AHundredAtOnceSignForNoMore(t *testing.T) {
	folder := t.TempDir()
	var all sync.WaitGroup
	var let atomic.Int64
	for i := range 100 {
		all.Go(func() {
			err := newPurse(folder, 100_000).sign(fmt.Sprint("question ", i), fmt.Sprint(i), 10_000)
			if err == nil {
				let.Add(1)
			} else if !errors.Is(err, ErrDayCap) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if let.Load() != 10 {
		t.Errorf("%d of 100 were let through, 10 are allowed", let.Load())
	}
}

func TestCap_AnUnsignedPaymentCountsOnce(t *testing.T) {
	p := newPurse(t.TempDir(), 100_000)
	for nonce := range 5 { // each time a crash before the journal has it
		if err := p.sign("same", fmt.Sprint(nonce), 90_000); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.sign("other", "9", 20_000); !errors.Is(err, ErrDayCap) {
		t.Error(err)
	}
	// The seller may ask more than before the crash.
	if err := p.sign("same", "5", 100_001); !errors.Is(err, ErrDayCap) {
		t.Error(err)
	}
}

func TestCap_AClosedPaymentCountsBesideTheNext(t *testing.T) {
	p := newPurse(t.TempDir(), 100_000)
	if err := p.sign("same", "0", 60_000); err != nil {
		t.Fatal(err)
	}
	if err := p.locked(func() error { return p.close(entry{Payer: "me", Nonce: "0"}) }); err != nil {
		t.Fatal(err)
	}
	if err := p.sign("same", "1", 60_000); !errors.Is(err, ErrDayCap) {
		t.Error(err)
	}
}

func TestJournal_ALatePaymentDoesNotDropItsSuccessor(t *testing.T) {
	folder := t.TempDir()
	b := buyer{journal: journal(folder), limits: newPurse(folder+"/limits", 100_000).limits}
	expired := entry{URL: "u", Body: "b", Payer: "me", Nonce: "0"}
	replaced := expired
	replaced.Nonce = "1"
	if err := b.journal.keep(replaced); err != nil {
		t.Fatal(err)
	}
	if err := b.forget(expired); err != nil {
		t.Fatal(err)
	}
	if kept, err := b.journal.find(replaced); err != nil || kept == nil {
		t.Fatalf("%+v, %v", kept, err)
	}
	if err := b.forget(replaced); err != nil {
		t.Fatal(err)
	}
	if kept, err := b.journal.find(replaced); err != nil || kept != nil {
		t.Errorf("%+v, %v", kept, err)
	}
}

func TestJournal_WhatAnotherProcessAnsweredIsNotPaid(t *testing.T) {
	folder := t.TempDir()
	seller := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(x402.HeaderPaymentSignature) != "" {
			t.Error("it was paid")
		}
		header, err := x402.Encode(x402.PaymentRequired{X402Version: x402.V2, Accepts: []x402.Requirements{{
			Scheme: x402.SchemeExact, Network: "eip155:84532", Amount: "10000", Asset: knownTokens["eip155:84532"], PayTo: knownTokens["eip155:84532"],
			MaxTimeoutSeconds: 60, Extra: map[string]any{"name": "USDC", "version": "2"},
		}}})
		if err != nil {
			t.Error(err)
		}
		w.Header().Set(x402.HeaderPaymentRequired, header)
		w.WriteHeader(http.StatusPaymentRequired)
	}))
	defer seller.Close()
	o := options{url: seller.URL, state: folder, most: big.NewInt(10_000), maxWait: time.Second, privateKey: devKey}
	b, err := o.newBuyer(func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	b.answered = func() (bool, error) { return true, nil }
	if _, err := b.buy(t.Context(), b.entryOf(question{path: "/v1/verify/base-transaction", body: "{}"})); !errors.Is(err, errAnswered) {
		t.Error(err)
	}
	if spent, err := b.limits.spent(b.payer); err != nil || spent.Sign() != 0 {
		t.Errorf("%s, %v", spent, err)
	}
}

func TestCap_The24HoursSlide(t *testing.T) {
	p := newPurse(t.TempDir(), 100_000)
	if err := p.sign("first", "0", 90_000); err != nil {
		t.Fatal(err)
	}
	start := p.at
	for name, later := range map[string]time.Duration{
		"past midnight": 2 * time.Minute, "with a clock that was set back": -48 * time.Hour, "while it could be settled a day ago": day + 59*time.Second,
	} {
		p.at = start.Add(later)
		if err := p.sign("next", "1", 20_000); !errors.Is(err, ErrDayCap) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.at = start.Add(day + time.Minute)
	if err := p.sign("next", "1", 20_000); err != nil {
		t.Error(err)
	}
}

func TestCap_IsOfOnePayer(t *testing.T) {
	p := newPurse(t.TempDir(), 100_000)
	if err := p.sign("q", "0", 100_000); err != nil {
		t.Fatal(err)
	}
	other := signed{Payer: "another", Question: "q", Nonce: "1", ValidBefore: p.at}
	if err := p.locked(func() error { return p.count(other, big.NewInt(100_000)) }); err != nil {
		t.Error(err)
	}
}

// A count that breaks while an answer is bought does not make a paid answer one that was not.
func TestCap_ABrokenCountHidesNoPayment(t *testing.T) {
	p := newPurse(t.TempDir(), 100_000)
	if err := os.WriteFile(filepath.Join(p.folder, "spent.json"), []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	tools := toolbox{buyer: &buyer{limits: p.limits}}
	for stored, paid := range map[bool]string{true: "no", false: "unknown"} {
		got, err := tools.sold(t.Context(), bought{isStored: stored})
		if err != nil || !got.IsError || got.StructuredContent.(callFailure).Paid != paid {
			t.Errorf("stored %v: %+v, %v", stored, got, err)
		}
	}
}

// A file with the JSON null names no payee, as an empty one does; the first payment pins one.
func TestPin_AFileOfNullNamesNoPayee(t *testing.T) {
	p := newPurse(t.TempDir(), 100_000)
	p.pinned = true
	file := filepath.Join(p.folder, "payees.json")
	if err := os.WriteFile(file, []byte("null\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pin := func(payee string) error {
		return p.locked(func() error { return p.pin("https://verifier.example", "eip155:8453", payee) })
	}
	if err := pin("0x01"); err != nil {
		t.Error(err)
	}
	if err := pin("0x02"); !errors.Is(err, ErrPayee) {
		t.Errorf("another payee: %v", err)
	}
}
