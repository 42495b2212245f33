package paywall_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
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

// openSQL is open with a ledger in a file, whose handles two gates do not share.
func openSQL(t *testing.T, change func(*paywall.Options)) (s *fixture, other *paywall.Paywall) {
	t.Helper()
	s = open(t, nil)
	file := "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
	gates := make([]*paywall.Paywall, 2)
	for i := range gates {
		ledger, err := ledger.Open(context.Background(), file, ledger.Options{Now: s.clock.now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ledger.Close() })
		s.ledger = ledger
		gates[i] = s.replica(change)
	}
	s.paywall = gates[0]
	return s, gates[1]
}

// plain reports whether the buyer's own key signed, as the token's contract does.
func plain(p x402.ExactPayload) bool {
	return p.Signature == strings.ToLower(paymenttest.Sign(paymenttest.Terms(network), p.Authorization))
}

// broken makes the i-th of many broken signatures of a payment.
func broken(good string, i int) string {
	switch i % 5 {
	case 0:
		return paymenttest.Forged
	case 1: // another v
		return good[:len(good)-2] + map[string]string{"1b": "1c", "1c": "1b"}[good[len(good)-2:]]
	case 2: // v as libraries have it, which the token does not accept
		return good[:len(good)-2] + map[string]string{"1b": "00", "1c": "01"}[good[len(good)-2:]]
	case 3: // longer, as a contract's
		return good + fmt.Sprintf("%04x", i)
	default: // another s
		last, _ := strconv.ParseUint(good[len(good)-4:len(good)-2], 16, 8)
		return good[:len(good)-4] + fmt.Sprintf("%02x", last^uint64(i)) + good[len(good)-2:]
	}
}

// The client that holds the payment is served: a copy with a broken signature neither keeps the
// valid ones out nor uses up the nonce, in whatever order they come.
func TestSale_BrokenCopiesDoNotKeepTheValidOnesOut(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 5
	}
	s, other := openSQL(t, nil)
	s.sim.Set(func(b *paymenttest.Simulator) { b.Signed = plain })
	for seed := range seeds {
		a := paymenttest.Authorization(fmt.Sprintf("%x", seed+1), s.clock.now())
		good := s.read(2, payloadV2(a))
		copies := make([]payment.Payment, 100)
		valid := map[int]bool{}
		for i := range copies {
			copies[i] = good
			if valid[i] = i < 10; !valid[i] {
				p := payloadV2(a)
				p.Payload.Signature = broken(p.Payload.Signature, i)
				copies[i] = s.read(2, p)
			}
		}
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		order := random.Perm(len(copies))
		var answers sync.Map
		var all sync.WaitGroup
		for at, i := range order {
			all.Go(func() {
				o := s.order(copies[i], "thing")
				o.Address = fmt.Sprintf("192.0.2.%d", i)
				sale, err := []*paywall.Paywall{s.paywall, other}[at%2].Buy(context.Background(), o)
				switch {
				case valid[i] && err != nil:
					t.Errorf("seed %d: a valid copy got %v", seed, err)
				case valid[i]:
					answers.Store(sale.Answer.String()+sale.Transaction, true)
				case !errors.Is(err, payment.ErrRefused) && !errors.Is(err, payment.ErrUsed):
					t.Errorf("seed %d: a broken copy got %v", seed, err)
				}
			})
		}
		all.Wait()
		s.clock.advance(time.Minute)
		distinct := 0
		answers.Range(func(any, any) bool { distinct++; return true })
		if distinct != 1 {
			t.Errorf("seed %d: %d different answers", seed, distinct)
		}
		s.wantTransfers(seed + 1)
		if n := int(s.works.Load()); n != seed+1 {
			t.Errorf("seed %d: worked %d times in all", seed, n)
		}
	}
}

// What cannot be judged here is worked for only after the facilitator's yes, and
// nothing is written before it.
func TestCopies_UnknownSignaturesCostNoWorkBeforeTheYes(t *testing.T) {
	s := open(t, nil)
	s.sim.Set(func(b *paymenttest.Simulator) { b.Signed = plain })
	for i := range 500 {
		o := s.order(s.forged(fmt.Sprintf("%x", i+1)), "thing")
		o.Address = fmt.Sprintf("2001:db8:0:%x::/64", i)
		_, err := s.paywall.Buy(context.Background(), o)
		want := payment.ErrRefused
		if i >= 250 { // half of what strangers have in a minute is for one network
			want = payment.ErrTooMany
		}
		s.wantErr(err, want)
	}
	list, _ := s.ledger.List(context.Background(), payment.Filter{})
	if s.works.Load() != 0 || len(list) != 0 {
		t.Errorf("500 forged payments from 500 networks cost %d works and %d claims, want none", s.works.Load(), len(list))
	}
	t.Logf("attacker: 500 requests; we: %d checks by the facilitator, 0 works, 0 writes", s.sim.Verifies)

	// A contract's signature is bought with all the same, checked once.
	s.sim.Set(func(b *paymenttest.Simulator) {
		b.Signed = func(x402.ExactPayload) bool { return true }
		b.Verifies = 0
	})
	s.mustBuy(s.forged("ffff"))
	if s.works.Load() != 1 || s.sim.Verifies != 1 {
		t.Errorf("a sale took %d works and %d checks", s.works.Load(), s.sim.Verifies)
	}
}

func TestCopies_OfAContractsPaymentAreOneSale(t *testing.T) {
	s, other := openSQL(t, nil)
	var sold atomic.Int32
	var all sync.WaitGroup
	p := s.forged("1")
	for i := range 100 {
		all.Go(func() {
			if _, err := []*paywall.Paywall{s.paywall, other}[i%2].Buy(context.Background(), s.order(p, "thing")); err != nil {
				t.Error(err)
				return
			}
			sold.Add(1)
		})
	}
	all.Wait()
	s.wantTransfers(1)
	if s.works.Load() != 1 {
		t.Errorf("worked %d times", s.works.Load())
	}
}

// soldMeanwhile calls sell before it verifies a payment.
type soldMeanwhile struct {
	payment.Facilitator
	sell func()
}

func (f soldMeanwhile) Verify(ctx context.Context, body []byte) (x402.VerifyResponse, error) {
	f.sell()
	return f.Facilitator.Verify(ctx, body)
}

func TestCopies_ALateOneGetsTheAnswer(t *testing.T) {
	s := open(t, nil)
	p := s.forged("1") // as a contract's
	other := s.replica(func(o *paywall.Options) { o.Facilitator = soldMeanwhile{s.sim, func() { s.mustBuy(p) }} })
	sale, err := other.Buy(t.Context(), s.order(p, "thing"))
	if err != nil || sale.Answer.String() != "the thing" {
		t.Errorf("bought %q, %v", sale.Answer, err)
	}
	s.wantTransfers(1)
}
