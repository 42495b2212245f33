package paywall_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/facilitator"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// An address alone is enough to send copies in a payer's name, which a facilitator may call valid.
func TestBuy_CopiesThatAreNotPlainUseUpNoAttemptsOfThePayer(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.AttemptsPerPayer = 5 })
	s.mustBuy(s.pay("aaaa"))
	for i := range 20 {
		o := s.order(s.forged(fmt.Sprintf("%x", i+1)), "other")
		o.Address = fmt.Sprintf("2001:db8:%x::/64", i)
		o.Work = func(context.Context) ([]byte, error) { return nil, errNotFound }
		if _, err := s.paywall.Buy(context.Background(), o); err == nil {
			t.Fatal("work that failed was sold")
		}
	}
	s.mustBuy(s.pay("bbbb"))
}

// slowFor is a facilitator that answers for other payers than one only when it is released.
type slowFor struct {
	payment.Facilitator
	quick    string
	released chan struct{}
	began    chan struct{}
}

func (f *slowFor) Verify(ctx context.Context, body []byte) (x402.VerifyResponse, error) {
	answer, err := f.Facilitator.Verify(ctx, body)
	if answer.Payer != f.quick {
		f.began <- struct{}{}
		select {
		case <-f.released:
		case <-ctx.Done():
		}
	}
	return answer, err
}

// Contracts may take as long over a signature as the facilitator waits.
func TestBuy_SlowChecksOfStrangersDelayNoKnownPayer(t *testing.T) {
	s := open(t, nil)
	known := s.pay("aaaa")
	f := &slowFor{quick: known.Payer, released: make(chan struct{}), began: make(chan struct{}, 1000)}
	s.paywall = s.replica(func(o *paywall.Options) {
		asked(o)
		f.Facilitator, o.Facilitator = o.Facilitator, f
		o.VerifyTimeout = time.Second
	})
	s.mustBuy(known)
	var strangers sync.WaitGroup
	for i := range 200 {
		p := s.contractOf(i+1, fmt.Sprintf("%x", i+1))
		strangers.Go(func() {
			o := s.order(p, "thing")
			o.Address = fmt.Sprintf("2001:%x::/64", i+1)
			_, _ = s.paywall.Buy(context.Background(), o)
		})
	}
	for range 32 {
		<-f.began
	}
	for _, p := range []payment.Payment{s.pay("bbbb"), s.forged("cccc")} { // of the same question again, and a contract's
		if sale, err := s.buy(p); err != nil || !sale.Reused {
			t.Errorf("the known payer got %v, %v", sale, err)
		}
	}
	close(f.released)
	strangers.Wait()
}

// Anyone may deploy a contract over which a facilitator takes longer than the gateway before it waits.
func TestPaywall_ContractsThatCannotBeCheckedKeepNoPlainPayerOut(t *testing.T) {
	s := open(t, nil)
	for name, slow := range map[string]func(payer int, nonce string) payment.Payment{
		"a contract's signature": s.contractOf, "a key whose account has code": s.payOf,
	} {
		t.Run(name, func(t *testing.T) {
			attacker := slow(1, "a").Payer
			called := s.silentFor(attacker, func() bool { return true })
			s.sim.OnAccount = func(payer string) (payment.Account, error) {
				return payment.Account{Funded: true, Code: strings.EqualFold(payer, attacker)}, nil
			}
			w := s.replica(func(o *paywall.Options) {
				o.Accounts, o.Facilitator, o.StrangersFacilitator = s.sim, called, called.ForStrangers()
				o.ContractsFacilitator = called.ForStrangers()
			})
			for i := range 10 {
				o := s.order(slow(1, fmt.Sprintf("a%x", i)), "other")
				o.Address = "198.51.100.1"
				if _, err := w.Buy(t.Context(), o); err == nil {
					t.Error("sold without a check")
				}
			}
			p := s.payOf(len(name), fmt.Sprintf("b%x", len(name))) // not known from the other case
			if _, err := w.Buy(t.Context(), s.order(p, name)); err != nil {
				t.Errorf("a new payer: %v", err)
			}
		})
	}
}

// A buyer's wallet may be a contract too.
func TestPaywall_ContractsThatCannotBeCheckedKeepNoContractOutThatHasPaid(t *testing.T) {
	s := open(t, nil)
	attacker := s.contractOf(1, "a").Payer
	called := s.silentFor(attacker, func() bool { return true })
	w := s.replica(func(o *paywall.Options) {
		o.Facilitator, o.StrangersFacilitator = called, called.ForStrangers()
		o.ContractsFacilitator, o.NamedFacilitator = called.ForStrangers(), called.Uncounted()
	})
	if _, err := w.Buy(t.Context(), s.order(s.contractOf(2, "b"), "first")); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		o := s.order(s.contractOf(1, fmt.Sprintf("a%x", i)), "other")
		o.Address = "198.51.100.1"
		if _, err := w.Buy(t.Context(), o); err == nil {
			t.Error("sold without a check")
		}
	}
	if _, err := w.Buy(t.Context(), s.order(s.contractOf(2, "c"), "second")); err != nil {
		t.Errorf("a contract that has paid: %v", err)
	}
}

// Anyone may name a contract that has paid, and the facilitator may want a pause after it.
func TestPaywall_WhoNamesAContractThatHasPaidPausesNoKnownPayer(t *testing.T) {
	s := open(t, nil)
	known, contract := s.payOf(1, "a"), s.contractOf(2, "b")
	var silent, busy atomic.Bool
	called := s.faulty(func(w http.ResponseWriter, body []byte) bool {
		switch {
		case silent.Load() && bytes.Contains(body, []byte(known.Payer)):
			w.WriteHeader(http.StatusGatewayTimeout)
		case busy.Load() && bytes.Contains(body, []byte(contract.Payer)):
			w.Header().Set("Retry-After", "10")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			return false
		}
		return true
	})
	w := s.replica(func(o *paywall.Options) {
		o.VerifyTimeout = time.Second
		o.Facilitator, o.StrangersFacilitator = called, called.ForStrangers()
		o.ContractsFacilitator, o.NamedFacilitator = called.ForStrangers(), called.Uncounted()
		o.UncountedFacilitator = called.Uncounted()
	})
	for _, p := range []payment.Payment{known, contract} {
		if _, err := w.Buy(t.Context(), s.order(p, "first")); err != nil {
			t.Fatal(err)
		}
	}
	fails := func(fault *atomic.Bool, p payment.Payment) {
		fault.Store(true)
		if _, err := w.Buy(t.Context(), s.order(p, p.Key.Nonce)); err == nil {
			t.Error("sold without a check")
		}
		fault.Store(false)
	}
	fails(&silent, s.payOf(1, "c")) // so that the known payer's next checks do not count
	fails(&busy, s.contractOf(2, "d"))
	if _, err := w.Buy(t.Context(), s.order(s.payOf(1, "e"), "second")); err != nil {
		t.Errorf("the known payer: %v", err)
	}
}

// A known payer's account may be given code, over which the facilitator waits in vain from then on.
func TestPaywall_AKnownPayerWhoCannotBeCheckedKeepsNoOtherOut(t *testing.T) {
	s := open(t, nil)
	attacker, other := s.payOf(1, "a"), s.payOf(2, "b")
	var slow atomic.Bool
	called := s.silentFor(attacker.Payer, func() bool {
		if slow.Load() {
			time.Sleep(50 * time.Millisecond) // so that others come meanwhile
		}
		return slow.Load()
	})
	w := s.replica(func(o *paywall.Options) {
		o.Facilitator, o.StrangersFacilitator = called, called.ForStrangers()
		o.ContractsFacilitator, o.UncountedFacilitator = called.ForStrangers(), called.Uncounted()
	})
	for _, p := range []payment.Payment{attacker, other} {
		if _, err := w.Buy(t.Context(), s.order(p, "first")); err != nil {
			t.Fatal(err)
		}
	}
	slow.Store(true)
	var attacks sync.WaitGroup
	for round := range 2 { // all at once, and when it is known that there is no answer
		for i := range 10 {
			p := s.payOf(1, fmt.Sprintf("c%x%x", round, i))
			attacks.Go(func() {
				if _, err := w.Buy(t.Context(), s.order(p, p.Key.Nonce)); err == nil {
					t.Error("sold without a check")
				}
			})
		}
		attacks.Wait()
	}
	for name, p := range map[string]payment.Payment{
		"another known payer": s.payOf(2, "d"), "a new one": s.payOf(3, "e"),
	} {
		if _, err := w.Buy(t.Context(), s.order(p, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	slow.Store(false)
	for _, nonce := range []string{"f0", "f1"} {
		if _, err := w.Buy(t.Context(), s.order(s.payOf(1, nonce), nonce)); err != nil {
			t.Errorf("the same payer, once there is an answer: %v", err)
		}
	}
}

// silentFor returns a client of a facilitator whose gateway gives up on what is of a payer, when now is true.
func (s *fixture) silentFor(payer string, now func() bool) *facilitator.Client {
	s.Helper()
	return s.faulty(func(w http.ResponseWriter, body []byte) bool {
		if !bytes.Contains(body, []byte(payer)) || !now() {
			return false
		}
		w.WriteHeader(http.StatusGatewayTimeout)
		return true
	})
}

// faulty returns a client of a facilitator in whose place fail answers, where that returns true.
func (s *fixture) faulty(fail func(w http.ResponseWriter, body []byte) bool) *facilitator.Client {
	s.Helper()
	honest := s.sim.Facilitator()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusGatewayTimeout)
			return
		}
		if fail(w, body) {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		honest.ServeHTTP(w, r)
	}))
	s.Cleanup(server.Close)
	called, err := facilitator.New(facilitator.Options{URL: server.URL, Now: s.clock.now})
	if err != nil {
		s.Fatal(err)
	}
	return called
}

// contractOf makes a payment of the i-th payer that is signed as a contract's.
func (s *fixture) contractOf(payer int, nonce string) payment.Payment {
	a := paymenttest.Authorization(nonce, s.clock.now())
	a.From = paymenttest.Address(paymenttest.Payer(payer))
	p := payloadV2(a)
	p.Payload.Signature = paymenttest.Forged
	return s.read(2, p)
}

// A payment that another has carried out may come when its window is over.
func TestBuy_FindsThePaymentOfAKnownPayerWhateverStrangersHaveUsedUp(t *testing.T) {
	s := open(t, nil)
	s.paywall = s.replica(func(o *paywall.Options) { o.Accounts = s.sim })
	s.mustBuy(s.pay("aaaa"))
	p := s.pay("bbbb")
	s.sim.CarryOut("bbbb")
	s.clock.advance(5 * time.Minute)
	for i := range 1000 {
		nonce := fmt.Sprintf("%x", i+1)
		s.sim.Cancel(nonce)
		o := s.order(s.payOf(i+1, nonce), "thing")
		o.Address = fmt.Sprintf("2001:%x::/64", i+1)
		_, _ = s.paywall.Buy(context.Background(), o)
	}
	s.mustBuy(p)
}

func TestBuy_CopiesThatAreNotPlainUseUpNoRepeatsOfThePayer(t *testing.T) {
	s := open(t, asked)
	s.mustBuy(s.pay("aaaa"))
	for i := range 5 {
		_, err := s.buyThing(s.forged(fmt.Sprintf("%x", i+1)), "thing")
		if i >= 3 {
			s.wantErr(err, payment.ErrTooMany)
		}
	}
	s.mustBuy(s.pay("bbbb"))
	s.wantTransfers(1)
}
