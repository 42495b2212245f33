package agent

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
)

// sent is a transaction that the agent made itself, to have one to verify.
type sent struct {
	Chain    string
	Hash     common.Hash
	From, To common.Address
	Selector string
}

// demoCall is the input of the transaction: a selector and nothing behind it,
// which an ordinary account takes without doing anything.
var demoCall = []byte{0xfe, 0xed, 0xbe, 0xef}

// sendTransaction sends 1 wei from the key's account to itself.
func sendTransaction(ctx context.Context, node *ethclient.Client, key *ecdsa.PrivateKey) (sent, error) {
	from := crypto.PubkeyToAddress(key.PublicKey)
	chainID, err := node.ChainID(ctx)
	if err != nil {
		return sent{}, fmt.Errorf("read the chain id: %w", err)
	}
	nonce, err := node.PendingNonceAt(ctx, from)
	if err != nil {
		return sent{}, fmt.Errorf("read the account's nonce: %w", err)
	}
	tip, err := node.SuggestGasTipCap(ctx)
	if err != nil {
		return sent{}, fmt.Errorf("read the gas price: %w", err)
	}
	head, err := node.HeaderByNumber(ctx, nil)
	if err != nil {
		return sent{}, fmt.Errorf("read the gas price: %w", err)
	}
	feeCap := new(big.Int).Add(tip, new(big.Int).Mul(head.BaseFee, big.NewInt(2)))
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(chainID), &types.DynamicFeeTx{
		ChainID: chainID, Nonce: nonce, To: &from, Value: big.NewInt(1), Data: demoCall, Gas: 30_000, GasTipCap: tip, GasFeeCap: feeCap,
	})
	if err != nil {
		return sent{}, fmt.Errorf("sign the transaction: %w", err)
	}
	if err := node.SendTransaction(ctx, tx); err != nil {
		return sent{}, fmt.Errorf("send the transaction: %w", err)
	}
	return sent{Chain: fmt.Sprintf("eip155:%d", chainID), Hash: tx.Hash(), From: from, To: from, Selector: fmt.Sprintf("0x%x", demoCall)}, nil
}

// errNotFinal means that a transaction did not become final in time.
var errNotFinal = errors.New("the transaction is not final yet")

// waitFinal waits until the transaction's block is finalized, and one more, so
// that others have seen it too, and returns the block's number.
func waitFinal(ctx context.Context, node *ethclient.Client, hash common.Hash, maxWait time.Duration) (*big.Int, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for {
		number, err := finalIn(ctx, node, hash)
		if err == nil {
			return number, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errNotFinal, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// finalIn returns the block of a transaction when the one after it is finalized.
func finalIn(ctx context.Context, node *ethclient.Client, hash common.Hash) (*big.Int, error) {
	receipt, err := node.TransactionReceipt(ctx, hash)
	if err != nil {
		return nil, err
	}
	finalized, err := node.HeaderByNumber(ctx, big.NewInt(rpc.FinalizedBlockNumber.Int64()))
	if err != nil {
		return nil, err
	}
	if finalized.Number.Cmp(receipt.BlockNumber) <= 0 {
		return nil, fmt.Errorf("it is in block %s, and block %s is the last final one", receipt.BlockNumber, finalized.Number)
	}
	return receipt.BlockNumber, nil
}
