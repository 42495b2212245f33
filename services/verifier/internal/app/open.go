package app

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
)

// hint says in the log when what the facilitator lists is not what we want. It is
// asked once, in the background: an answer is no condition for anything.
func (s *service) hint(ctx context.Context) {
	client, err := s.facilitator()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Facilitator.VerifyTimeout)
	defer cancel()
	answer, err := client.Supported(ctx)
	if err != nil {
		s.log.Warn("the facilitator does not say what it supports", "error", err)
		return
	}
	for _, kind := range answer.Kinds {
		if kind.X402Version == x402.V2 && kind.Scheme == x402.SchemeExact && kind.Network == s.terms.Network {
			return
		}
	}
	s.log.Warn("the facilitator does not list our network", "network", s.terms.Network)
}

// ledgerPatience is how long a start waits for a database that is not there yet.
const ledgerPatience = time.Minute

// openLedger opens the ledger. A database server may come later than we do, so
// it is waited for with growing pauses; a file is there or is not.
func openLedger(ctx context.Context, url string, log *slog.Logger) (*ledger.Ledger, error) {
	until := time.Now().Add(ledgerPatience)
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		ledger, err := ledger.Open(ctx, url, time.Now)
		if err == nil || strings.HasPrefix(url, "sqlite:") || time.Now().After(until) {
			return ledger, err
		}
		log.Warn("waiting for the ledger's database", "error", err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}
