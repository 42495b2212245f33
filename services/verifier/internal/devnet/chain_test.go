package devnet_test

import (
	"context"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
)

func TestChain_FinalizedHeadFollowsTheLatest(t *testing.T) {
	n := start(t)
	latest, err := n.client.HeaderByNumber(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		finalized, err := n.client.HeaderByNumber(ctx, big.NewInt(int64(rpc.FinalizedBlockNumber)))
		if err == nil && finalized.Number.Cmp(latest.Number) >= 0 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("block %s is not final: %v", latest.Number, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if ahead := int64(latest.Time) - time.Now().Unix(); ahead > 3 {
		t.Errorf("the chain's clock is %d s ahead", ahead)
	}
}
