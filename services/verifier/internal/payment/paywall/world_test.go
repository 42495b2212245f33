package paywall_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const network = "eip155:84532"

func offer() payment.Offer {
	return payment.Offer{
		Terms:      paymenttest.Terms(network),
		Resource:   x402.Resource{URL: "https://seller.example/v1/thing", Description: "A thing", MimeType: "application/json"},
		Extensions: payment.Extensions{"bazaar": json.RawMessage(`{"info":"ours"}`), payment.ExtensionIdentifier: payment.IdentifierExtension()},
	}
}

// clock is the time of a test.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// fixture is a paywall with everything around it.
type fixture struct {
	*testing.T
	clock   *clock
	ledger  *ledger.Ledger
	sim     *paymenttest.Simulator
	paywall *paywall.Paywall
	works   atomic.Int32
	events  sync.Map
}

// open makes a fixture; change may alter the paywall's options.
func open(t *testing.T, change func(*paywall.Options)) *fixture {
	t.Helper()
	s := &fixture{T: t, clock: &clock{t: start}}
	s.sim = paymenttest.NewSimulator(network, s.clock.now)
	s.ledger = paymenttest.Ledger(t, s.clock.now)
	s.paywall = s.replica(change)
	return s
}

// replica makes one more replica on the same ledger.
func (s *fixture) replica(change func(*paywall.Options)) *paywall.Paywall {
	s.Helper()
	o := paywall.Options{
		Ledger: s.ledger, Facilitator: s.sim, ChainLog: s.sim, FreeSettlements: 1000,
		VerifyTimeout: 5 * time.Second, SettleTimeout: 5 * time.Second, WorkTimeout: 5 * time.Second,
		AttemptsPerPayer: 1000, AttemptsPerAddress: 1000,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: s.clock.now, Heartbeat: time.Hour, Pause: time.Millisecond,
		Ended: func(end paywall.End) {
			n, _ := s.events.LoadOrStore(end.Outcome, new(atomic.Int32))
			n.(*atomic.Int32).Add(1)
		},
	}
	if change != nil {
		change(&o)
	}
	replica, err := paywall.Open(context.Background(), o)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = replica.Close(context.Background()) })
	return replica
}

// reconciler makes a reconciler on the same ledger; change may alter its options.
func (s *fixture) reconciler(change func(*paywall.ReconcilerOptions)) *paywall.Reconciler {
	o := paywall.ReconcilerOptions{
		Ledger: s.ledger, ChainLog: s.sim, Confirm: true, KeepAnswers: time.Hour, Log: slog.New(slog.DiscardHandler), Now: s.clock.now,
	}
	if change != nil {
		change(&o)
	}
	return paywall.NewReconciler(o)
}

// order is a call for the thing with a payment.
func (s *fixture) order(p payment.Payment, thing string) paywall.Order {
	var request payment.Digest
	copy(request[:], thing)
	return paywall.Order{
		Operation: "thing", Transport: payment.TransportHTTP, Offer: offer(), Payment: p, Request: request, Address: "192.0.2.1",
		Work: func(context.Context) ([]byte, error) {
			s.works.Add(1)
			return []byte("the " + thing), nil
		},
	}
}

func (s *fixture) buy(p payment.Payment) (paywall.Sale, error) {
	return s.paywall.Buy(context.Background(), s.order(p, "thing"))
}

// must buy.
func (s *fixture) mustBuy(p payment.Payment) paywall.Sale {
	s.Helper()
	sale, err := s.buy(p)
	if err != nil {
		s.Fatal(err)
	}
	if sale.Answer.String() != "the thing" {
		s.Fatalf("bought %q", sale.Answer)
	}
	return sale
}

func (s *fixture) wantErr(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("got error %v, want %v", err, want)
	}
}

func (s *fixture) wantTransfers(n int) {
	s.Helper()
	if got := s.sim.Transfers(); got != n {
		s.Errorf("%d transfers were made, want %d", got, n)
	}
}

func (s *fixture) wantReserved(n int) {
	s.Helper()
	status, err := s.ledger.QuotaStatus(context.Background(), payment.Month(s.clock.now()))
	if err != nil || status.Reserved != n {
		s.Errorf("%d settlements are reserved (%v), want %d", status.Reserved, err, n)
	}
}

func (s *fixture) wantState(want payment.State) payment.Record {
	s.Helper()
	list, err := s.ledger.List(context.Background(), payment.Filter{})
	if err != nil || len(list) != 1 || list[0].State != want {
		s.Fatalf("the ledger has %+v (%v), want one record that is %s", list, err, want)
	}
	return list[0]
}

func payloadV2(a x402.Authorization) x402.Payload {
	p := paymenttest.PayloadV2(offer(), a)
	p.Extensions = nil
	return p
}

func payloadV1(a x402.Authorization) x402.PayloadV1 { return paymenttest.PayloadV1(offer(), a) }

func withIdentifier(a x402.Authorization, id string) x402.Payload {
	return paymenttest.WithIdentifier(payloadV2(a), id)
}

// pay makes a payment of version 2.
func (s *fixture) pay(nonce string) payment.Payment {
	return s.read(2, payloadV2(paymenttest.Authorization(nonce, s.clock.now())))
}

func (s *fixture) read(version int, payload any) payment.Payment {
	s.Helper()
	return readPayment(s.T, version, payload)
}

func readPayment(t *testing.T, version int, payload any) payment.Payment {
	t.Helper()
	header, err := x402.Encode(payload)
	if err != nil {
		t.Fatal(err)
	}
	p, err := payment.Read(version, header)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// forged makes a payment whose signature is invalid.
func (s *fixture) forged(nonce string) payment.Payment {
	p := payloadV2(paymenttest.Authorization(nonce, s.clock.now()))
	p.Payload.Signature = paymenttest.Forged
	return s.read(2, p)
}
