package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
)

// finalityPath is followed by a chain's name and a block's hash. Proofs of finality need no payment.
const finalityPath = "/v1/finality/"

// cacheFinality is the Cache-Control of a proof of finality: it stays valid, and a later one may begin
// at another checkpoint.
const cacheFinality = "public, max-age=300"

// namedWait is how long a request waits until nodes may be asked for the checkpoint that it names.
const namedWait = 5 * time.Second

// finality answers with the proof that a block is final (package finality).
func (a *api) finality(c echo.Context) error {
	i := slices.IndexFunc(a.Chains, func(chain Chain) bool { return chain.Name == c.Param("chain") })
	if i < 0 || a.Chains[i].Finality == nil {
		return errNoFinality
	}
	var block finality.Root
	if block.UnmarshalText([]byte(c.Param("block"))) != nil {
		return beaconchain.ErrUnknownBlock
	}
	var checkpoint *finality.Root
	if query := c.Request().URL.Query(); query.Has("checkpoint") {
		checkpoint = new(finality.Root)
		if named := query["checkpoint"]; len(named) != 1 || checkpoint.UnmarshalText([]byte(named[0])) != nil {
			return beaconchain.ErrCheckpointUnknown
		}
	}
	ctx := c.Request().Context()
	document, err := a.finalityReads.read(ctx, func(ctx context.Context) ([]byte, error) {
		return a.Chains[i].Finality.Document(ctx, "", block, checkpoint)
	})
	if errors.Is(err, beaconchain.ErrNotKept) {
		// What has to wait for nodes, which may hang, holds no place of what is kept.
		waiting, cancel := context.WithTimeout(ctx, namedWait)
		defer cancel()
		asked := false
		document, err = a.namedReads.read(waiting, func(context.Context) ([]byte, error) {
			asked = true
			client := clientaddr.Neighborhood(a.Proxies.Of(c.Request()))
			return a.Chains[i].Finality.Document(ctx, client, block, checkpoint)
		})
		if !asked && ctx.Err() == nil {
			err = beaconchain.ErrUnavailable
		}
	}
	if err != nil {
		return err
	}
	return tagged(cacheFinality, finality.MediaType, document)(c)
}

// offersFinality reports whether proofs of finality are made for any chain.
func (a *api) offersFinality() bool {
	return slices.ContainsFunc(a.Chains, func(chain Chain) bool { return chain.Finality != nil })
}

// finalityLink returns a link (RFC 8288) to the proof that the block of a single answer is final, or ""
// where its chain has no such proofs. The chain is that of the answer: a request about an x402 payment
// may be about another one than its path.
func (a *api) finalityLink(answer []byte) string {
	if !a.offersFinality() {
		return ""
	}
	var about struct {
		Receipt struct {
			Chain struct {
				ID string `json:"id"`
			} `json:"chain"`
			Block struct {
				Hash finality.Root `json:"hash"`
			} `json:"block"`
		} `json:"receipt"`
	}
	if json.Unmarshal(answer, &about) != nil {
		return ""
	}
	for _, chain := range a.Chains {
		if chain.Finality != nil && chain.named().ID == about.Receipt.Chain.ID {
			return fmt.Sprintf(`<%s%s/%s>; rel="describedby"; type="%s"`, finalityPath, chain.Name,
				about.Receipt.Block.Hash, finality.MediaType)
		}
	}
	return ""
}
