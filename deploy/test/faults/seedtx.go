package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/internal/buyer"
	"github.com/pforte/pforte/pkg/x402"
)

// bystander is an account of the development chain that sells nothing.
const bystander = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"

// give moves money of the development chain's payer to an account, not by way
// of any service.
func (w *world) give(ctx context.Context, to, amount string) error {
	b, err := buyer.New(layout.PayerKey)
	if err != nil {
		return err
	}
	offer := x402.Requirements{
		Scheme: x402.SchemeExact, Network: layout.Network, Amount: amount, Asset: layout.Token, PayTo: to, MaxTimeoutSeconds: 60,
		Extra: map[string]any{"name": layout.TokenName, "version": layout.TokenVersion},
	}
	payment, err := b.Sign(x402.PaymentRequired{Accepts: []x402.Requirements{offer}}, x402.V2, time.Now())
	if err != nil {
		return err
	}
	payload, err := base64.StdEncoding.DecodeString(payment.Value)
	if err != nil {
		return err
	}
	terms, err := json.Marshal(offer)
	if err != nil {
		return err
	}
	question := x402.Request{X402Version: x402.V2, PaymentPayload: payload, PaymentRequirements: terms}
	var settled x402.SettleResponse
	if err := postJSON(ctx, "http://"+w.Facilitator+"/settle", question, &settled); err != nil {
		return err
	}
	if settled.Success == nil || !*settled.Success {
		return fmt.Errorf("a first transfer: %w", errors.New(settled.ErrorReason))
	}
	return nil
}
