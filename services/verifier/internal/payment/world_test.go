package payment_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const (
	shopAddress  = "0x00000000000000000000000000000000000050A5"
	buyerAddress = "0x000000000000000000000000000000000000B0b5"
	tokenAddress = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
	network      = "eip155:84532"
)

func terms() payment.Terms {
	return payment.Terms{
		Network: network, Asset: tokenAddress, AssetName: "USDC", AssetVersion: "2",
		PayTo: shopAddress, Amount: "10000", MaxTimeout: time.Minute, V1: true,
	}
}

func offer() payment.Offer {
	return payment.Offer{
		Terms:      terms(),
		Resource:   x402.Resource{URL: "https://shop.example/v1/thing", Description: "A thing", MimeType: "application/json"},
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

// shop is a gate with everything around it.
type shop struct {
	*testing.T
	clock  *clock
	ledger payment.Ledger
	bank   *bank
	gate   *payment.Gate
	works  atomic.Int32
	events sync.Map
}

// open makes a shop; change may alter the gate's options.
func open(t *testing.T, change func(*payment.Options)) *shop {
	t.Helper()
	s := &shop{T: t, clock: &clock{t: start}}
	s.bank = &bank{clock: s.clock, spent: map[string]string{}}
	s.ledger = payment.NewMemory(s.clock.now)
	s.gate = s.replica(change)
	return s
}

// replica makes one more gate on the same ledger.
func (s *shop) replica(change func(*payment.Options)) *payment.Gate {
	s.Helper()
	o := payment.Options{
		Ledger: s.ledger, Facilitator: s.bank, Truth: s.bank, FreeSettlements: 1000,
		VerifyTimeout: 5 * time.Second, SettleTimeout: 5 * time.Second, WorkTimeout: 5 * time.Second,
		AttemptsPerPayer: 1000, AttemptsPerAddress: 1000, KeepAnswers: time.Hour,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: s.clock.now, Beat: time.Hour, Pause: time.Millisecond,
		Ended: func(outcome string) {
			n, _ := s.events.LoadOrStore(outcome, new(atomic.Int32))
			n.(*atomic.Int32).Add(1)
		},
	}
	if change != nil {
		change(&o)
	}
	gate, err := payment.Open(context.Background(), o)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = gate.Close(context.Background()) })
	return gate
}

// order is a call for the thing with a payment.
func (s *shop) order(p payment.Payment, thing string) payment.Order {
	var request payment.Digest
	copy(request[:], thing)
	return payment.Order{
		Offer: offer(), Payment: p, Request: request, Address: "192.0.2.1",
		Work: func(context.Context) ([]byte, error) {
			s.works.Add(1)
			return []byte("the " + thing), nil
		},
	}
}

func (s *shop) buy(p payment.Payment) (payment.Sale, error) {
	return s.gate.Buy(context.Background(), s.order(p, "thing"))
}

// must buy.
func (s *shop) mustBuy(p payment.Payment) payment.Sale {
	s.Helper()
	sale, err := s.buy(p)
	if err != nil {
		s.Fatal(err)
	}
	if string(sale.Answer) != "the thing" {
		s.Fatalf("bought %q", sale.Answer)
	}
	return sale
}

func (s *shop) wantErr(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("got error %v, want %v", err, want)
	}
}

func (s *shop) wantTransfers(n int) {
	s.Helper()
	if got := s.bank.transfers(); got != n {
		s.Errorf("%d transfers were made, want %d", got, n)
	}
}

func (s *shop) wantReserved(n int) {
	s.Helper()
	standing, err := s.ledger.Standing(context.Background(), payment.Month(s.clock.now()))
	if err != nil || standing.Reserved != n {
		s.Errorf("%d settlements are reserved (%v), want %d", standing.Reserved, err, n)
	}
}

func (s *shop) wantState(want payment.State) payment.Record {
	s.Helper()
	list, err := s.ledger.List(context.Background(), payment.Filter{})
	if err != nil || len(list) != 1 || list[0].State != want {
		s.Fatalf("the ledger has %+v (%v), want one record that is %s", list, err, want)
	}
	return list[0]
}

func unix(t time.Time) string { return fmt.Sprint(t.Unix()) }

// authorization is what the buyer signs for the nonce.
func authorization(nonce string, now time.Time) x402.Authorization {
	return x402.Authorization{
		From: buyerAddress, To: shopAddress, Value: "10000", ValidAfter: "0",
		ValidBefore: unix(now.Add(time.Minute)), Nonce: "0x" + strings.Repeat("0", 64-len(nonce)) + nonce,
	}
}

var signature = "0x" + strings.Repeat("ab", 65)

func payloadV2(a x402.Authorization) x402.Payload {
	o := offer()
	return x402.Payload{
		X402Version: 2, Resource: &o.Resource, Accepted: o.Requirements(),
		Payload: x402.ExactPayload{Signature: signature, Authorization: a},
	}
}

func payloadV1(a x402.Authorization) x402.PayloadV1 {
	return x402.PayloadV1{X402Version: 1, Scheme: "exact", Network: "base-sepolia", Payload: x402.ExactPayload{Signature: signature, Authorization: a}}
}

// pay makes a payment of version 2.
func (s *shop) pay(nonce string) payment.Payment {
	return s.read(2, payloadV2(authorization(nonce, s.clock.now())))
}

func (s *shop) read(version int, payload any) payment.Payment {
	s.Helper()
	header, err := x402.Encode(payload)
	if err != nil {
		s.Fatal(err)
	}
	p, err := payment.Read(version, header)
	if err != nil {
		s.Fatal(err)
	}
	return p
}
