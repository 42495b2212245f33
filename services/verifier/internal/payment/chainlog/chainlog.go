package chainlog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Reader implements payment.Truth.
type Reader struct {
	nodes []node
	chain uint64
}

var _ payment.Truth = (*Reader)(nil)

// New makes a reader of the CAIP-2 network that asks the nodes in their order
// until one answers.
func New(network string, urls []string) (*Reader, error) {
	id, ok := x402.ChainID(network)
	if !ok || !id.IsUint64() || len(urls) == 0 {
		return nil, errors.New("reading the payment network needs a chain id and a node")
	}
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
			TLSHandshakeTimeout: 3 * time.Second,
			MaxIdleConnsPerHost: 4,
			IdleConnTimeout:     time.Minute,
		},
	}
	r := &Reader{chain: id.Uint64()}
	for _, url := range urls {
		r.nodes = append(r.nodes, node{url: url, http: client})
	}
	return r, nil
}

// Fate implements payment.Truth.
func (r *Reader) Fate(ctx context.Context, q payment.Question) (payment.Fate, error) {
	var faults []error
	for _, n := range r.nodes {
		fate, err := r.ask(ctx, n, q)
		if err == nil {
			return fate, nil
		}
		faults = append(faults, err)
		if ctx.Err() != nil {
			break
		}
	}
	return payment.Fate{}, fmt.Errorf("read the payment network: %w", errors.Join(faults...))
}

// slack is how far the chain's clock and ours may differ.
const slack = 15 * time.Minute

func (r *Reader) ask(ctx context.Context, n node, q payment.Question) (payment.Fate, error) {
	var id quantity
	if err := n.call(ctx, &id, "eth_chainId"); err != nil {
		return payment.Fate{}, err
	}
	if uint64(id) != r.chain {
		return payment.Fate{}, fmt.Errorf("the node serves chain %d, not %d", id, r.chain)
	}
	latest, err := n.block(ctx, "latest")
	if err != nil {
		return payment.Fate{}, err
	}
	from, to, err := n.between(ctx, latest, q.Since.Add(-slack), q.ValidBefore)
	if err != nil {
		return payment.Fate{}, err
	}
	event, err := n.spending(ctx, q, from, to)
	switch {
	case err != nil:
		return payment.Fate{}, err
	case event == nil:
		return n.unspent(ctx, q, latest)
	case event.Topics[0] == topicCanceled:
		return payment.Fate{Is: payment.Elsewhere}, nil
	}
	return n.paid(ctx, q, *event)
}

// unspent tells apart what may still be spent from what never can be: a final
// block is past the end of the authorization, and it is not marked as used. The
// mark only ever goes up, so that the latest state speaks for the final one,
// which ordinary nodes no longer have.
func (n node) unspent(ctx context.Context, q payment.Question, latest block) (payment.Fate, error) {
	if int64(latest.Timestamp) < q.ValidBefore.Unix() {
		return payment.Fate{Is: payment.Unspent}, nil
	}
	final, err := n.block(ctx, "finalized")
	if err != nil || int64(final.Timestamp) < q.ValidBefore.Unix() {
		return payment.Fate{Is: payment.Unspent}, nil //nolint:nilerr // finality that is not known is not reached
	}
	var used string
	err = n.call(ctx, &used, "eth_call", map[string]string{
		"to": q.Key.Asset, "data": selectorState + word(q.Key.Payer) + strings.TrimPrefix(q.Key.Nonce, "0x"),
	}, "latest")
	switch {
	case err != nil:
		return payment.Fate{}, err
	case len(used) != 66:
		return payment.Fate{}, errors.New("authorizationState gave no word")
	case strings.Trim(used, "0x") != "":
		return payment.Fate{}, errors.New("the authorization is used, but its log was not found")
	}
	return payment.Fate{Is: payment.Expired}, nil
}
