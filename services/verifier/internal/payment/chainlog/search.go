package chainlog

import (
	"context"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

const (
	// window is how many blocks one eth_getLogs asks for; public nodes allow
	// little more.
	window = 1000
	// closeEnough ends the search for a moment's block.
	closeEnough = 128
)

// between gives a range of blocks that holds every block with a time from
// since to until: the only ones that can hold the spending.
func (n node) between(ctx context.Context, latest block, since, until time.Time) (from, to quantity, err error) {
	if from, err = n.before(ctx, latest, since); err != nil {
		return 0, 0, err
	}
	to = latest.Number
	if int64(latest.Timestamp) > until.Unix() {
		if to, err = n.after(ctx, from, latest.Number, until); err != nil {
			return 0, 0, err
		}
	}
	return from, to, nil
}

// before gives a block that is older than t, or the first, and not much older
// than need be: steps that double find one, halving comes closer.
func (n node) before(ctx context.Context, latest block, t time.Time) (quantity, error) {
	low, high := quantity(0), latest.Number
	for step := quantity(closeEnough); step < latest.Number; step *= 2 {
		older, err := n.isOlder(ctx, latest.Number-step, t)
		if err != nil {
			return 0, err
		}
		if older {
			low = latest.Number - step
			break
		}
		high = latest.Number - step
	}
	low, _, err := n.halve(ctx, low, high, t)
	return low, err
}

// after gives a block from low to high that is not older than t, and not much
// younger than need be. high is not older than t.
func (n node) after(ctx context.Context, low, high quantity, t time.Time) (quantity, error) {
	_, high, err := n.halve(ctx, low, high, t)
	return high, err
}

// halve brings low, whose block is older than t or the first, and high, whose
// block is not older, close to each other.
func (n node) halve(ctx context.Context, low, high quantity, t time.Time) (quantity, quantity, error) {
	for high-low > closeEnough {
		middle := low + (high-low)/2
		older, err := n.isOlder(ctx, middle, t)
		if err != nil {
			return 0, 0, err
		}
		if older {
			low = middle
		} else {
			high = middle
		}
	}
	return low, high, nil
}

func (n node) isOlder(ctx context.Context, number quantity, t time.Time) (bool, error) {
	b, err := n.block(ctx, number.String())
	return int64(b.Timestamp) < t.Unix(), err
}

// spending gives the event that used or cancelled the authorization, or nil.
func (n node) spending(ctx context.Context, q payment.Question, from, to quantity) (*entry, error) {
	for low := from; low <= to; low += window {
		var events []entry
		err := n.call(ctx, &events, "eth_getLogs", map[string]any{
			"address": q.Key.Asset, "fromBlock": low.String(), "toBlock": min(low+window-1, to).String(),
			"topics": []any{[]string{topicUsed, topicCanceled}, "0x" + word(q.Key.Payer), q.Key.Nonce},
		})
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if isSpending(e, q) {
				return &e, nil
			}
		}
	}
	return nil, nil
}
