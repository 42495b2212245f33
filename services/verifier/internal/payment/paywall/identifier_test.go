package paywall_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// One paid answer gave checks by the facilitator, claims and writes without end.
func TestIdentifier_AnAnswerThatWasBoughtIsFreeAgain(t *testing.T) {
	s := open(t, func(o *paywall.Options) { o.AttemptsPerPayer, o.AttemptsPerAddress = 10, 10 })
	const id = "identifier-0123456789"
	s.mustBuy(s.read(2, withIdentifier(paymenttest.Authorization("1", s.clock.now()), id)))
	checks, works := s.sim.Verifies, s.works.Load()
	for i := range 500 {
		s.mustBuy(s.read(2, withIdentifier(paymenttest.Authorization(fmt.Sprintf("%x", i+2), s.clock.now()), id)))
	}
	if s.sim.Verifies != checks || s.works.Load() != works {
		t.Errorf("500 replays cost %d checks and %d works, want none", s.sim.Verifies-checks, s.works.Load()-works)
	}
	s.wantTransfers(1)
	s.wantState(payment.Settled) // there is one record: nothing was claimed
	t.Logf("attacker: 500 signatures; we: 500 reads, %d checks, %d works, 0 writes", s.sim.Verifies-checks, s.works.Load()-works)

	// What cannot be judged here costs a check each, which counts.
	verified := s.sim.Verifies
	refused := 0
	for i := range 50 {
		p := withIdentifier(paymenttest.Authorization(fmt.Sprintf("a%x", i), s.clock.now()), id)
		p.Payload.Signature = paymenttest.Forged
		if _, err := s.buy(s.read(2, p)); err != nil {
			s.wantErr(err, payment.ErrTooMany)
			refused++
		}
	}
	if got := s.sim.Verifies - verified; got != 10 || refused != 40 {
		t.Errorf("50 replays cost %d checks and %d were refused, want 10 and 40", got, refused)
	}
	s.wantTransfers(1)
	s.clock.advance(time.Minute)
	s.mustBuy(s.read(2, withIdentifier(paymenttest.Authorization("ffff", s.clock.now()), id)))
}
