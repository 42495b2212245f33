package paywall_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// trick is what a stranger does.
type trick int

const (
	flips    trick = iota // EIP-7702: signs plainly, and the account's code reverts the transfer
	reverts               // a contract whose transfers revert
	unfunded              // a key without money
	bogus                 // a signature that is none, in the name of a known payer
	neighbor              // as flips, from one /48
	vain                  // has money, and asks what cannot be answered
	leftOpen              // leaves the outcome open for ever
	honest                // pays
	tricks
)

// stranger is one of them.
type stranger struct {
	trick
	payer   int
	address string
}

// crowdOf is the world of the property: known payers, strangers, and what all of it cost.
type crowdOf struct {
	*fixture
	gates []*paywall.Paywall
	// tricks are the strangers' by their address in lower case.
	tricks map[string]trick
	nonce  atomic.Int64
	// sold counts the answers of strangers, refused the refusals of known payers.
	sold, refused atomic.Int32
	bought        atomic.Int32
}

const (
	knownPayers = 10
	strangers   = 1000
	hosted      = "198.51.100.7" // an address that known payers and strangers share
)

func newCrowd(t *testing.T) *crowdOf {
	w := &crowdOf{tricks: map[string]trick{}}
	var facilitator *limited
	var other *paywall.Paywall
	w.fixture, other = openSQL(t, func(o *paywall.Options) {
		if facilitator == nil {
			facilitator = &limited{Facilitator: o.Facilitator, most: 20, every: 50 * time.Millisecond}
		}
		o.Facilitator, o.Accounts = facilitator, o.Facilitator.(*paymenttest.Simulator)
		o.AttemptsPerAddress, o.AttemptsPerPayer, o.Answer = 5, 300, 5*time.Second
	})
	w.gates = []*paywall.Paywall{w.paywall, other}
	var away atomic.Int32
	w.sim.Set(func(b *paymenttest.Simulator) {
		b.OnAccount = func(payer string) (payment.Account, error) {
			if away.Add(1)%20 == 0 {
				return payment.Account{}, errors.New("the node is away")
			}
			switch is, ok := w.tricks[payer]; {
			case ok && is == unfunded:
				return payment.Account{}, nil
			case ok && (is == flips || is == neighbor || is == reverts):
				return payment.Account{Funded: true, Code: true}, nil
			}
			return payment.Account{Funded: true}, nil
		}
		b.OnSettleOf = func(p x402.ExactPayload, transfer func() x402.SettleResponse) (x402.SettleResponse, error) {
			is, ok := w.tricks[strings.ToLower(p.Authorization.From)]
			switch {
			case p.Signature == paymenttest.Forged, ok && (is == flips || is == neighbor || is == reverts):
				b.Cancel(p.Authorization.Nonce[2:])
				r := refusal("invalid_exact_evm_transaction_failed")
				r.Transaction = b.Revert(p.Authorization.Nonce[2:])
				return r, nil
			case ok && is == leftOpen:
				return x402.SettleResponse{}, paymenttest.ErrCut
			}
			return transfer(), nil
		}
	})
	return w
}

// try makes one purchase, and returns how it ended.
func (w *crowdOf) try(p payment.Payment, address string, fails bool) error {
	o := w.order(p, fmt.Sprint("thing ", w.nonce.Add(1)))
	o.Address = address
	if fails {
		o.Work = func(context.Context) ([]byte, error) {
			w.works.Add(1)
			return nil, errNotFound
		}
	}
	_, err := w.gates[int(w.nonce.Load())%len(w.gates)].Buy(context.Background(), o)
	return err
}

// attack is one attempt of a stranger.
func (w *crowdOf) attack(s stranger) {
	p := w.payOf(s.payer, fmt.Sprintf("%x", 0x1000000+w.nonce.Add(1)))
	if s.trick == reverts || s.trick == bogus {
		a := paymenttest.Authorization(fmt.Sprintf("%x", 0x2000000+w.nonce.Add(1)), w.clock.now())
		a.From = paymenttest.Address(paymenttest.Payer(s.payer))
		payload := payloadV2(a)
		payload.Payload.Signature = paymenttest.Forged
		p = w.read(2, payload)
	}
	if err := w.try(p, s.address, s.trick == vain); err == nil {
		w.sold.Add(1)
	}
}

// known is one purchase of a known payer; half of them are behind the hosted address.
func (w *crowdOf) known(payer int) {
	address := hosted
	if payer%2 == 0 {
		address = fmt.Sprintf("203.0.113.%d", payer)
	}
	if err := w.try(w.payOf(payer, fmt.Sprintf("%x", 0x3000000+w.nonce.Add(1))), address, false); err != nil {
		w.refused.Add(1)
		w.Errorf("known payer %d: %v", payer, err)
		return
	}
	w.bought.Add(1)
}

// Whatever a thousand strangers do in a day, no known payer is refused, and what it costs the
// operator is bounded.
func TestPaywall_StrangersKeepNoKnownPayerOut(t *testing.T) {
	random := rand.New(rand.NewPCG(2026, 11))
	w := newCrowd(t)
	for payer := range knownPayers {
		w.known(payer)
	}
	w.sim.Verifies, w.sim.Accounts = 0, 0
	w.works.Store(0)
	w.bought.Store(0)
	crowd := make([]stranger, strangers)
	for i := range crowd {
		s := stranger{trick: trick(i % int(tricks)), payer: 100 + i, address: fmt.Sprintf("192.0.%d.%d", i%20, i%200)}
		switch s.trick {
		case bogus:
			s.payer = i % knownPayers // a victim
		case neighbor:
			s.address = fmt.Sprintf("2001:db8:0:%x00::/64", i)
		case vain:
			s.address = hosted
		case flips:
			if i%3 == 0 {
				s.address = hosted
			}
		}
		if s.trick != bogus {
			w.tricks[strings.ToLower(paymenttest.Address(paymenttest.Payer(s.payer)))] = s.trick
		}
		crowd[i] = s
	}
	days := 1
	for round := range 3 {
		random.Shuffle(len(crowd), func(i, j int) { crowd[i], crowd[j] = crowd[j], crowd[i] })
		for i := 0; i < len(crowd); {
			if i%200 == 0 { // many at once
				var all sync.WaitGroup
				for range 40 {
					s := crowd[i]
					all.Go(func() { w.attack(s) })
					i++
				}
				for payer := range knownPayers {
					all.Go(func() { w.known(payer) })
				}
				all.Wait()
				continue
			}
			w.attack(crowd[i])
			if i++; i%20 == 0 {
				w.known(random.IntN(knownPayers))
			}
			before := payment.Day(w.clock.now())
			w.clock.advance(25 * time.Second)
			if payment.Day(w.clock.now()) != before {
				days++
			}
		}
		t.Logf("after round %d: %d of the known payers' purchases are sold", round+1, w.bought.Load())
	}
	status, err := w.ledger.QuotaStatus(context.Background(), payment.Month(w.clock.now()))
	if err != nil {
		t.Fatal(err)
	}
	// 20 of a thousand a day by strangers, and 3 in the name of each victim by a facilitator that lies.
	if most := 20*days + 3*knownPayers; status.Failed > most {
		t.Errorf("%d settlements failed in %d days, want at most %d", status.Failed, days, most)
	}
	if w.refused.Load() != 0 || w.sold.Load() == 0 {
		t.Errorf("known payers were refused %d times, strangers were sold %d", w.refused.Load(), w.sold.Load())
	}
	t.Logf("%d strangers tried %d times in %d days; known payers bought %d times and were refused %d times; strangers bought %d times",
		strangers, 3*strangers, days, w.bought.Load(), w.refused.Load(), w.sold.Load())
	t.Logf("cost of the operator: %d settlements failed, %d open, %d of 1000 used; %d checks of the facilitator, %d lookups at the payment node (4 calls each), %d works",
		status.Failed, status.Unknown, status.Reserved, w.sim.Verifies, w.sim.Accounts, w.works.Load())
	if most := int(w.bought.Load()+w.sold.Load()) + 600 + strangers; w.sim.Verifies > most {
		t.Errorf("%d checks, want at most %d", w.sim.Verifies, most)
	}
}
