package devnet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/beacontest"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
)

// beaconName is the name of the beacon network, from which its genesis validators root
// and keys follow: they are the same on every start.
const beaconName = "pforte-devnet"

func newBeacon(c *Chain, cfg Config) (*beacontest.Beacon, error) {
	return beacontest.New(beacontest.Config{
		Name: beaconName, ChainID: caip2(cfg), Execution: execution{c},
		Depth: max(cfg.FinalityDepth, 1), // a state cannot call its own block final
	})
}

// printNetwork writes the constants that proofs of finality are checked with.
func printNetwork(w io.Writer, cfg Config) error {
	network, err := beacontest.NewNetwork(beaconName, caip2(cfg), "")
	if err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(network)
}

func caip2(cfg Config) string { return fmt.Sprintf("eip155:%d", cfg.ChainID) }

// execution is the chain as its beacon node reads it.
type execution struct{ *Chain }

// Latest implements beacontest.Execution.
func (e execution) Latest(context.Context) (uint64, error) {
	return e.backend.BlockChain().CurrentBlock().Number.Uint64(), nil
}

// Header implements beacontest.Execution. The roots of transactions and withdrawals are
// those of the execution header, where a beacon block has SSZ roots: no light client
// reads them.
func (e execution) Header(_ context.Context, number uint64) (*lightclient.ExecutionPayloadHeader, error) {
	h := e.backend.BlockChain().GetHeaderByNumber(number)
	if h == nil {
		return nil, fmt.Errorf("the chain has no block %d", number)
	}
	return payloadHeader(h), nil
}

func payloadHeader(h *types.Header) *lightclient.ExecutionPayloadHeader {
	p := &lightclient.ExecutionPayloadHeader{
		ParentHash: finality.Root(h.ParentHash), FeeRecipient: h.Coinbase[:], StateRoot: finality.Root(h.Root),
		ReceiptsRoot: finality.Root(h.ReceiptHash),
		LogsBloom:    h.Bloom[:], PrevRandao: finality.Root(h.MixDigest),
		BlockNumber: finality.Uint64(h.Number.Uint64()),
		GasLimit:    finality.Uint64(h.GasLimit), GasUsed: finality.Uint64(h.GasUsed),
		Timestamp: finality.Uint64(h.Time), ExtraData: h.Extra,
		BlockHash: finality.Root(h.Hash()), TransactionsRoot: finality.Root(h.TxHash),
		WithdrawalsRoot: finality.Root(*h.WithdrawalsHash),
		BlobGasUsed:     (*finality.Uint64)(h.BlobGasUsed), ExcessBlobGas: (*finality.Uint64)(h.ExcessBlobGas),
	}
	h.BaseFee.FillBytes(p.BaseFeePerGas[:])
	slices.Reverse(p.BaseFeePerGas[:])
	return p
}
