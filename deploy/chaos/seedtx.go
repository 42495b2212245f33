package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/pforte/pforte/deploy/internal/buyer"
	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/pkg/x402"
)

// bystander is an account of the development chain that sells nothing.
const bystander = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"

// someTransfer moves a little money between two accounts that no run looks at,
// so that the chain has a transaction.
func (w *world) someTransfer(ctx context.Context) error {
	b, err := buyer.New(layout.PayerKey)
	if err != nil {
		return err
	}
	offer := x402.Requirements{
		Scheme: x402.SchemeExact, Network: layout.Network, Amount: "1", Asset: layout.Token, PayTo: bystander, MaxTimeoutSeconds: 60,
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
	question, err := json.Marshal(x402.Request{X402Version: x402.V2, PaymentPayload: payload, PaymentRequirements: terms})
	if err != nil {
		return err
	}
	return settleAt(ctx, "http://"+w.Facilitator+"/settle", question)
}

func settleAt(ctx context.Context, url string, question []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(question))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	var settled x402.SettleResponse
	if err := json.NewDecoder(response.Body).Decode(&settled); err != nil {
		return err
	}
	if settled.Success == nil || !*settled.Success {
		return fmt.Errorf("a first transfer: %w", errors.New(settled.ErrorReason))
	}
	return nil
}
