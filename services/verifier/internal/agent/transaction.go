package agent

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/pforte/pforte/pkg/receipt"
)

// demoCall is the input of the agent's own transaction: a selector without arguments, which an ordinary account
// takes without doing anything.
var demoCall = []byte{0xfe, 0xed, 0xbe, 0xef}

// makeTransaction sends 1 wei from the payer to itself and waits for at most maxWait until that is final. It
// sets r.want and r.chain to ask about it.
func (r *run) makeTransaction(ctx context.Context) error {
	node, chainID, err := r.dial(ctx)
	if err != nil {
		return err
	}
	defer node.Close()
	chain := fmt.Sprintf("eip155:%d", chainID)
	if r.chain != "" && r.chain != chain {
		return fmt.Errorf("the node of --rpc is one of the chain %s, not of %s", chain, r.chain)
	}
	r.chain = chain
	within, cancel := context.WithTimeout(ctx, r.options.maxWait)
	defer cancel()
	tx, err := send(within, node, r.key, chainID)
	if err != nil {
		return err
	}
	r.print("Sent transaction %s", tx.Hash())
	number, err := waitFinal(ctx, node, tx.Hash(), r.options.maxWait)
	if err != nil {
		return err
	}
	r.print("Final in block %s", number)
	r.want = receipt.Request{TransactionHash: tx.Hash().Hex(), Expectations: receipt.Expectations{
		Status: receipt.StatusSuccess, From: r.payer, To: r.payer, Selector: hexutil.Encode(demoCall),
		MinConfirmations: 1,
	}}
	return nil
}

// dial connects to the node of --rpc, and returns it with the id of its chain, within maxWait.
func (r *run) dial(ctx context.Context) (*ethclient.Client, *big.Int, error) {
	node, err := ethclient.DialContext(ctx, r.rpc)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the chain: %w", err)
	}
	within, cancel := context.WithTimeout(ctx, r.options.maxWait)
	defer cancel()
	chainID, err := node.ChainID(within)
	if err != nil {
		node.Close()
		return nil, nil, fmt.Errorf("read the chain id: %w", err)
	}
	return node, chainID, nil
}

// send sends 1 wei from the account of key to itself, with demoCall as input.
func send(
	ctx context.Context, node *ethclient.Client, key *ecdsa.PrivateKey, chainID *big.Int,
) (*types.Transaction, error) {
	account := crypto.PubkeyToAddress(key.PublicKey)
	nonce, err := node.PendingNonceAt(ctx, account)
	if err != nil {
		return nil, fmt.Errorf("read the account's nonce: %w", err)
	}
	tip, tipErr := node.SuggestGasTipCap(ctx)
	head, headErr := node.HeaderByNumber(ctx, nil)
	if err := errors.Join(tipErr, headErr); err != nil {
		return nil, fmt.Errorf("read the gas price: %w", err)
	}
	if head.BaseFee == nil {
		return nil, errors.New("read the gas price: the chain has no base fee (EIP-1559)")
	}
	feeCap := new(big.Int).Add(tip, new(big.Int).Mul(head.BaseFee, big.NewInt(2)))
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(chainID), &types.DynamicFeeTx{
		ChainID: chainID, Nonce: nonce, To: &account, Value: big.NewInt(1), Data: demoCall, Gas: 30_000, GasTipCap: tip,
		GasFeeCap: feeCap,
	})
	if err != nil {
		return nil, fmt.Errorf("sign the transaction: %w", err)
	}
	if err := node.SendTransaction(ctx, tx); err != nil {
		return nil, fmt.Errorf("send the transaction: %w", err)
	}
	return tx, nil
}

// waitFinal waits until the block after that of the transaction is finalized, so that other nodes are likely to see
// the transaction's as finalized too. It returns the number of the transaction's block; after maxWait, an error.
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
			return nil, fmt.Errorf("the transaction is not final yet: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// finalIn returns the number of a transaction's block, or an error if the block after it is not finalized.
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
		return nil, fmt.Errorf("it is in block %s, and block %s is the last final one", receipt.BlockNumber,
			finalized.Number)
	}
	return receipt.BlockNumber, nil
}
