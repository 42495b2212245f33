package chainlog

import (
	"context"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
)

const (
	// window is how many blocks one eth_getLogs covers at most: nodes bound it, some at
	// a few thousand.
	window = 1000
	// closeEnough is how many blocks the search for a moment's block may leave between its bounds.
	closeEnough = 128
)

// between returns a range of blocks that holds every block with a time not before since
// and before until: the only ones that can hold the spending.
func (n node) between(ctx context.Context, latest block, since, until time.Time) (from, to quantity, err error) {
	low, err := n.before(ctx, latest, since)
	if err != nil {
		return 0, 0, err
	}
	if int64(latest.Timestamp) <= until.Unix() {
		return low.Number, latest.Number, nil
	}
	_, high, err := n.narrow(ctx, low, latest, until)
	return low.Number, high.Number, err
}

// before returns a block that is older than t, or the first, and not much older
// than need be. The pace of the last blocks determines where to begin.
func (n node) before(ctx context.Context, latest block, t time.Time) (block, error) {
	const sample = 1024
	if latest.Number <= closeEnough {
		return block{}, nil
	}
	recent, err := n.block(ctx, (latest.Number - min(sample, latest.Number)).String())
	if err != nil {
		return block{}, err
	}
	if isOlder(recent, t) {
		low, _, err := n.narrow(ctx, recent, latest, t)
		return low, err
	}
	// As if the chain had always had this pace; the first block need not be fetched.
	first := block{}
	pace := float64(latest.Timestamp-recent.Timestamp) / float64(latest.Number-recent.Number)
	if recent.Timestamp <= latest.Timestamp {
		first.Timestamp = quantity(max(0, float64(recent.Timestamp)-pace*float64(recent.Number)))
	}
	low, _, err := n.narrow(ctx, first, recent, t)
	return low, err
}

func isOlder(b block, t time.Time) bool { return int64(b.Timestamp) < t.Unix() }

// narrow fetches blocks until low, which is older than t or the first, and high, which is not
// older, are at most closeEnough apart, and returns both. Blocks come at a nearly even pace, so it
// fetches those just before and just after where t should be; every third time it halves, whatever
// the pace.
func (n node) narrow(ctx context.Context, low, high block, t time.Time) (block, block, error) {
	for round := 0; high.Number-low.Number > closeEnough; round++ {
		number := low.Number + (high.Number-low.Number)/2
		if span := float64(high.Timestamp) - float64(low.Timestamp); round%3 < 2 && span > 0 {
			part := (float64(t.Unix()) - float64(low.Timestamp)) / span
			guess := float64(low.Number) + min(max(part, 0), 1)*float64(high.Number-low.Number)
			guess += float64(closeEnough/2-1) * float64(2*(round%3)-1)
			number = quantity(min(max(guess, float64(low.Number+1)), float64(high.Number-1)))
		}
		middle, err := n.block(ctx, number.String())
		if err != nil {
			return block{}, block{}, err
		}
		if middle.Number = number; isOlder(middle, t) {
			low = middle
		} else {
			high = middle
		}
	}
	return low, high, nil
}

// spending returns the event of a range of blocks that used or cancelled the authorization, or nil.
func (n node) spending(ctx context.Context, p payment.Record, from, to quantity) (*entry, error) {
	for low := from; low <= to; low += window {
		var events []entry
		err := n.call(ctx, &events, "eth_getLogs", map[string]any{
			"address": p.Key.Asset, "fromBlock": low.String(), "toBlock": min(low+window-1, to).String(),
			"topics": []any{[]string{topicUsed, topicCanceled}, "0x" + word(p.Key.Payer), p.Key.Bare().Nonce},
		})
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if isSpending(e, p) {
				return &e, nil
			}
		}
	}
	return nil, nil
}
