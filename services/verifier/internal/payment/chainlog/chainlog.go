package chainlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// Reader implements payment.ChainLog, and reads accounts, transfers and contracts of tokens.
type Reader struct {
	nodes   []node
	network string
	chain   uint64
	quorum  int
}

var _ payment.ChainLog = (*Reader)(nil)

// New returns a reader of the CAIP-2 network. Its answers, but those of Account, are those on which
// quorum nodes agree. With a quorum of one the nodes are called in their order until one answers;
// with more all are called at once.
func New(network string, urls []string, quorum int) (*Reader, error) {
	id, ok := x402.ChainID(network)
	if !ok || !id.IsUint64() || quorum < 1 || quorum > len(urls) {
		return nil, errors.New("reading the payment network needs a chain id, a node and a quorum of the nodes")
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
	r := &Reader{network: network, chain: id.Uint64(), quorum: quorum}
	for _, url := range urls {
		r.nodes = append(r.nodes, node{url: url, http: client})
	}
	return r, nil
}

// Authorization implements payment.ChainLog.
func (r *Reader) Authorization(ctx context.Context, p payment.Record) (payment.Authorization, error) {
	if p.Key.Network != r.network {
		return payment.Authorization{}, payment.ErrOtherNetwork
	}
	return ask(ctx, r, func(ctx context.Context, n node) (payment.Authorization, error) { return r.query(ctx, n, p) })
}

// Moved returns how many atomic units of a token a transaction has moved from an address to
// another, by the sum of its Transfer events; 0 when it failed.
func (r *Reader) Moved(ctx context.Context, transaction, token, from, to string) (*big.Int, error) {
	moved, err := ask(ctx, r, func(ctx context.Context, n node) (string, error) {
		if err := r.checkChain(ctx, n); err != nil {
			return "", err
		}
		t, err := n.receipt(ctx, transaction)
		if err != nil || t.Status != "0x1" {
			return "0", err
		}
		return moved(t.Logs, token, from, to).String(), nil
	})
	if err != nil {
		return nil, err
	}
	sum, _ := new(big.Int).SetString(moved, 10)
	return sum, nil
}

// ask returns the answer on which as many nodes as the quorum agree. Where nodes are called one after the other, no
// call takes more than its node's part of the time until ctx ends: one that hangs leaves some for the others.
func ask[T comparable](ctx context.Context, r *Reader, query func(context.Context, node) (T, error)) (T, error) {
	if r.quorum > 1 {
		return agreed(ctx, r, query)
	}
	var none T
	var faults []error
	for i, n := range r.nodes {
		if end, bounded := ctx.Deadline(); bounded {
			n.patience = time.Until(end) / time.Duration(len(r.nodes)-i)
		}
		found, err := query(ctx, n)
		if err == nil {
			return found, nil
		}
		faults = append(faults, err)
		if ctx.Err() != nil {
			break
		}
	}
	return none, fmt.Errorf("read the payment network: %w", errors.Join(faults...))
}

// agreed queries all nodes until a quorum of them agrees.
func agreed[T comparable](ctx context.Context, r *Reader, query func(context.Context, node) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		found T
		err   error
	}
	answers := make(chan answer, len(r.nodes))
	for _, n := range r.nodes {
		go func() {
			found, err := query(ctx, n)
			answers <- answer{found, err}
		}()
	}
	votes := map[T]int{}
	faults := []error{fmt.Errorf("no %d nodes agree", r.quorum)}
	for range r.nodes {
		a := <-answers
		if a.err != nil {
			faults = append(faults, a.err)
			continue
		}
		if votes[a.found]++; votes[a.found] == r.quorum {
			return a.found, nil
		}
	}
	var none T
	return none, fmt.Errorf("read the payment network: %w", errors.Join(faults...))
}

// slack is how far the chain's clock and ours may differ.
const slack = 15 * time.Minute

func (r *Reader) checkChain(ctx context.Context, n node) error {
	var id quantity
	if err := n.call(ctx, &id, "eth_chainId"); err != nil {
		return err
	}
	if uint64(id) != r.chain {
		return fmt.Errorf("the node serves chain %d, not %d", id, r.chain)
	}
	return nil
}

func (r *Reader) query(ctx context.Context, n node, p payment.Record) (payment.Authorization, error) {
	if err := r.checkChain(ctx, n); err != nil {
		return payment.Authorization{}, err
	}
	if n.named(ctx, p) {
		return payment.Authorization{Status: payment.PaidToUs, Transaction: strings.ToLower(p.Transaction)}, nil
	}
	latest, err := n.block(ctx, "latest")
	if err != nil {
		return payment.Authorization{}, err
	}
	from, to, err := n.between(ctx, latest, p.Claimed.Add(-slack), p.ValidBefore)
	if err != nil {
		return payment.Authorization{}, err
	}
	event, err := n.spending(ctx, p, from, to)
	if err == nil && event == nil {
		found, err := n.unspent(ctx, p, latest)
		if !errors.Is(err, errUnseen) {
			return found, err
		}
		// Another has carried it out, long before its buyer sent it.
		if event, err = n.earlier(ctx, p, latest, from); event == nil {
			return payment.Authorization{}, cmp.Or(err, errUnseen)
		}
	}
	switch {
	case err != nil:
		return payment.Authorization{}, err
	case event.Topics[0] == topicCanceled:
		return payment.Authorization{Status: payment.UsedElsewhere}, nil
	}
	return n.paid(ctx, p, *event)
}

// errUnseen is the error for an authorization that the token calls used, and of which no log was found.
var errUnseen = errors.New("the authorization is used, but its log was not found")

// earlier is spending for the blocks before those that are usually searched, back to when the authorization can have
// been signed; nil where it was not spent there.
func (n node) earlier(ctx context.Context, p payment.Record, latest block, before quantity) (*entry, error) {
	from, _, err := n.between(ctx, latest, p.ValidBefore.Add(-payment.LongestWindow-slack), p.ValidBefore)
	if err != nil || from >= before {
		return nil, err
	}
	return n.spending(ctx, p, from, before)
}

// behind is how many blocks a backend of a node may be behind another one that has shown the latest block, and still
// say whether an authorization was spent before it expired.
const behind = 16

// unspent returns the status of an authorization that no event has spent: Expired when a final
// block is not before its end; else Reverted when the transaction that was named for it has
// failed, or Unused. errUnseen when the token's state says that it is used. That state never
// goes back, so that the latest one stands for the final one, which ordinary nodes no longer have.
// The state of Expired is that after a block which is not before the end either, and that of Reverted
// after one which is not before the failed transaction's, because another backend of the node may be
// far behind: Expired is for good, and a transaction fails, too, where another has spent the authorization.
func (n node) unspent(ctx context.Context, p payment.Record, latest block) (payment.Authorization, error) {
	final, over, err := n.isOver(ctx, p, latest)
	if err != nil {
		return payment.Authorization{}, err
	}
	// Not the newest, if an older one shows as much: another backend may not have that yet.
	is, after := payment.Expired, max(final, latest.Number-min(latest.Number, behind)).String()
	if !over {
		failed, err := n.failed(ctx, p, latest)
		if err != nil {
			return payment.Authorization{}, err
		}
		if is, after = payment.Reverted, latest.Number.String(); !failed {
			is, after = payment.Unused, "latest"
		}
	}
	var used string
	err = n.call(ctx, &used, "eth_call", map[string]string{
		"to": p.Key.Asset, "data": selectorState + word(p.Key.Payer) + strings.TrimPrefix(p.Key.Bare().Nonce, "0x"),
	}, after)
	switch {
	case err != nil:
		return payment.Authorization{}, err
	case len(used) != 66:
		return payment.Authorization{}, errors.New("authorizationState gave no word")
	case strings.Trim(used, "0x") != "":
		return payment.Authorization{}, errUnseen
	}
	return payment.Authorization{Status: is}, nil
}

// isOver returns the number of the final block, and whether that is not before the end of the authorization. Finality
// that is not known is not reached; it is an error where the node does not answer in time.
func (n node) isOver(ctx context.Context, p payment.Record, latest block) (final quantity, over bool, err error) {
	if int64(latest.Timestamp) < p.ValidBefore.Unix() {
		return 0, false, nil
	}
	b, err := n.block(ctx, "finalized")
	if errors.Is(err, context.DeadlineExceeded) {
		return 0, false, err
	}
	return b.Number, err == nil && int64(b.Timestamp) >= p.ValidBefore.Unix(), nil
}

// failed reports whether the transaction that was named is on the chain up to the latest block, was to
// spend this authorization, whose nonce it then carries, and has failed.
func (n node) failed(ctx context.Context, p payment.Record, latest block) (bool, error) {
	if p.Transaction == "" {
		return false, nil
	}
	t, err := n.receipt(ctx, p.Transaction)
	if errors.Is(err, errNull) || err == nil && t.Status != "0x0" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var sent struct {
		Hash  string `json:"hash"`
		Input string `json:"input"`
	}
	if err := n.call(ctx, &sent, "eth_getTransactionByHash", p.Transaction); err != nil {
		return false, err
	}
	switch {
	case !strings.EqualFold(sent.Hash, p.Transaction):
		return false, errors.New("the node answers for another transaction")
	case t.BlockNumber > latest.Number:
		return false, errors.New("the node's latest block is before the transaction's")
	}
	return strings.Contains(strings.ToLower(sent.Input), strings.TrimPrefix(p.Key.Bare().Nonce, "0x")), nil
}
