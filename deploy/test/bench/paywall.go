package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/pkg/freeport"
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/x402"
)

// verifyPath is where both servers sell.
const verifyPath = "/v1/verify/base-transaction"

// payer is the account that pays. No signature is checked here: both servers
// leave that to the facilitator, because a wallet may be a contract.
const payer = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"

// paymentsPerSecond is how many payments are made for each second of a turn,
// before it, which is more than any server sells.
const paymentsPerSecond = 10_000

// seller is a server that sells evidence.
type seller struct {
	name, addr string
	programs   []string
}

// paywall compares the verifier with the official server packages.
func (s *suite) paywall(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, stop, body, err := s.openPaywall(ctx)
	if err != nil {
		return err
	}
	defer stop()
	addrs, err := freeport.Addrs(ctx, 1)
	if err != nil {
		return err
	}
	if err := serve(ctx, addrs[0], nothing()); err != nil {
		return err
	}
	p, self := &s.page, os.Getpid()
	sellers := []seller{
		{"verifier", w.Addresses.Verifier, []string{"verifier"}},
		{"@x402/express", w.peers["Express"], []string{"Express"}},
		{"verifier behind the proxy", w.Addresses.Proxy, []string{"verifier", "proxy"}},
		{"verifier behind bare Caddy", w.peers["caddy-verifier"], []string{"verifier", "caddy-verifier"}},
		{"@x402/express behind bare Caddy", w.peers["caddy-express"], []string{"Express", "caddy-express"}},
	}
	var unpaid, paid, single []cell
	unsigned := [][]byte{request(http.MethodPost, verifyPath, body, nil)}
	for _, sl := range sellers {
		pids := w.pids(sl.programs...)
		unpaid = append(unpaid, steady(sl.name, sl.addr, clients, http.StatusPaymentRequired, unsigned, pids...))
		paid = append(paid, paying(sl, clients, body, pids))
		single = append(single, paying(sl, 1, body, pids))
	}
	unpaid = append(unpaid, steady("net/http, doing nothing", addrs[0], clients, http.StatusPaymentRequired, unsigned, self))
	single = append(slices.Clip(single[:3]), steady("the facilitator alone", w.Facilitator, 1, http.StatusOK, [][]byte{request(http.MethodPost, "/verify", body, nil)}, self))

	r, err := s.compare(ctx, unpaid...)
	if err != nil {
		return fmt.Errorf("unpaid: %w", err)
	}
	p.line("\n## Paywall\n\nThe 402 of a call without payment.")
	p.servers(unpaid, r)
	p.ratio("unpaid ÷ @x402/express", r[0], r[1], atLeast(10))
	p.ratio("behind the proxy ÷ behind bare Caddy", r[2], r[3], atLeast(.9))

	if r, err = s.compare(ctx, paid...); err != nil {
		return fmt.Errorf("paid: %w", err)
	}
	p.line("\nPaid calls: the same facilitator, which accepts every payment at once, and the same evidence, made before.")
	p.servers(paid, r)
	p.ratio("paid ÷ @x402/express", r[0], r[1], atLeast(5))

	if r, err = s.compare(ctx, single...); err != nil {
		return fmt.Errorf("paid, one at a time: %w", err)
	}
	p.line("\nPaid calls of one client; and one of the facilitator's two answers to such a call, without a server between.")
	p.servers(single, r)
	added := r[0].p50.less(r[len(r)-1].p50, 2)
	p.line("- In the median a call takes %s ms more than the facilitator's two answers. Wanted %s.", added, atMost(2).met(added))
	return nil
}

// openPaywall starts the verifier on a recorded block, the proxy and the peers,
// and returns the body of the request for evidence.
func (s *suite) openPaywall(ctx context.Context) (w *world, stop func(), body string, err error) {
	vector := filepath.Join(s.top, "pkg/receipt/testdata/vectors/base/response.json")
	text, err := os.ReadFile(vector) //nolint:gosec // a file of the project
	if err != nil {
		return nil, nil, "", err
	}
	document, err := receipt.Parse(text)
	if err != nil {
		return nil, nil, "", fmt.Errorf("evidence of the peer: %w", err)
	}
	requested, err := json.Marshal(map[string]any{"transactionHash": document.Receipt.Request.TransactionHash, "expectations": document.Receipt.Request.Expectations})
	if err != nil {
		return nil, nil, "", err
	}
	if w, stop, err = s.open(ctx); err != nil {
		return nil, nil, "", err
	}
	w.Extra["verifier"] = map[string]string{
		"CHAIN_NAME": "base", "CHAIN_ID": "8453", "PAYMENT_CONFIRM": "facilitator", // whose transfers are on no chain
		"FACILITATOR_FREE_SETTLEMENTS": "1000000000", "UNPAID_ATTEMPTS_PER_PAYER": manyAttempts, "UNPAID_ATTEMPTS_PER_ADDRESS": manyAttempts,
	}
	if err = serve(ctx, w.Facilitator, facilitator()); err == nil {
		err = w.start(ctx, w.recordedNode(), w.Verifier(), w.proxy())
	}
	if err == nil {
		err = w.node(ctx, "Express", "paid.mjs", map[string]string{
			"FACILITATOR_URL": "http://" + w.Facilitator, "NETWORK": layout.Network, "PAY_TO": layout.Payee, "ANSWER": vector,
		})
	}
	if err == nil {
		err = w.bareCaddy(ctx, "caddy-verifier", w.Addresses.Verifier)
	}
	if err == nil {
		err = w.bareCaddy(ctx, "caddy-express", w.peers["Express"])
	}
	if err != nil {
		stop()
		return nil, nil, "", err
	}
	return w, stop, string(requested), nil
}

// paying is a cell whose requests have a fresh payment each.
func paying(sl seller, clients int, body string, pids []int) cell {
	return cell{name: sl.name, pids: pids, prepare: func(ctx context.Context, d time.Duration) (job, error) {
		j := job{addr: sl.addr, clients: clients, duration: d, once: true, status: http.StatusOK}
		offer, err := offerOf(ctx, sl.addr, body)
		if err != nil {
			return j, err
		}
		j.requests = make([][]byte, int(paymentsPerSecond*d.Seconds()))
		for i := range j.requests {
			header, err := payment(offer)
			if err != nil {
				return j, err
			}
			j.requests[i] = request(http.MethodPost, verifyPath, body, header)
		}
		return j, nil
	}}
}

// offerOf returns what a call costs.
func offerOf(ctx context.Context, addr, body string) (offer x402.PaymentRequired, err error) {
	offer, err = client.Post(ctx, "http://"+addr+verifyPath, body).Challenge()
	if err != nil {
		return offer, fmt.Errorf("offer of %s: %w", addr, err)
	}
	if len(offer.Accepts) != 1 {
		return offer, fmt.Errorf("offer of %s: %d ways to pay, not one", addr, len(offer.Accepts))
	}
	return offer, nil
}

// payment returns the header that pays once for an offer.
func payment(offer x402.PaymentRequired) (http.Header, error) {
	var random [32 + 65]byte
	_, _ = rand.Read(random[:]) // never fails
	terms, now := offer.Accepts[0], time.Now()
	header, err := x402.Encode(x402.Payload{
		X402Version: x402.V2, Resource: &offer.Resource, Accepted: terms,
		Payload: x402.ExactPayload{
			Signature: fmt.Sprintf("0x%x", random[32:]),
			Authorization: x402.Authorization{
				From: payer, To: terms.PayTo, Value: terms.Amount, Nonce: fmt.Sprintf("0x%x", random[:32]),
				ValidAfter:  strconv.FormatInt(now.Add(-time.Minute).Unix(), 10),
				ValidBefore: strconv.FormatInt(now.Add(time.Duration(terms.MaxTimeoutSeconds)*time.Second).Unix(), 10),
			},
		},
	})
	return http.Header{x402.HeaderPaymentSignature: {header}}, err
}
