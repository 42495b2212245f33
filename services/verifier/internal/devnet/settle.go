package devnet

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/eip3009"
)

const (
	// confirmTimeout is how long a settlement waits for its block.
	confirmTimeout = 20 * time.Second
	// pollTime is the pause between checks whether a settlement is in a block.
	pollTime = 100 * time.Millisecond
	// transferGas is more than a transfer by authorization costs, with a margin for
	// a contract wallet's own check.
	transferGas = 300_000
)

func (f *Facilitator) settle(ctx context.Context, p payment, err error) any {
	tx := common.Hash{}
	if err == nil {
		tx, err = f.carryOut(ctx, p)
	}
	success := err == nil
	s := x402.SettleResponse{
		Success: &success, ErrorReason: f.reason(err, x402.ReasonUnexpectedSettle), Network: p.network, Payer: p.payer,
	}
	if tx != (common.Hash{}) {
		s.Transaction = tx.Hex()
	}
	return s
}

// carryOut judges and broadcasts a payment once and waits for its block. A retried
// request waits for the transaction of the first one, unless that failed, even if the
// authorization has expired since or is used, by this very transaction.
func (f *Facilitator) carryOut(ctx context.Context, p payment) (common.Hash, error) {
	domain := eip3009.Domain{Name: TokenName, Version: TokenVersion, ChainID: f.chainID, Token: TokenAddress}
	id := crypto.Keccak256Hash(p.authorization.Digest(domain).Bytes(), p.signature)
	f.mu.Lock()
	send := f.sent[id]
	if send == nil {
		send = sync.OnceValues(func() (common.Hash, error) {
			tx, err := f.broadcast(ctx, p)
			if err != nil {
				f.forget(id)
			}
			return tx, err
		})
		f.sent[id] = send
	}
	f.mu.Unlock()
	tx, err := send()
	if err != nil {
		return common.Hash{}, err
	}
	if err = f.confirm(ctx, tx); errors.Is(err, refusal(reasonTransaction)) {
		f.forget(id)
	}
	return tx, err
}

func (f *Facilitator) forget(id common.Hash) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sent, id)
}

func (f *Facilitator) broadcast(ctx context.Context, p payment) (common.Hash, error) {
	if err := f.judge(ctx, p); err != nil {
		return common.Hash{}, err
	}
	call, err := f.token.transfer(p.authorization, p.signature)
	if err != nil {
		return common.Hash{}, err
	}
	return f.sender.send(ctx, call)
}

// confirm waits, up to confirmTimeout, until the transfer is in a block.
func (f *Facilitator) confirm(ctx context.Context, tx common.Hash) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	for {
		receipt, err := f.chain.TransactionReceipt(ctx, tx)
		switch {
		case err == nil && receipt.Status == types.ReceiptStatusSuccessful:
			return nil
		case err == nil:
			return refusal(reasonTransaction)
		case !errors.Is(err, ethereum.NotFound) && ctx.Err() == nil && !isIndexing(err):
			return fmt.Errorf("read the settlement: %w", err)
		}
		select {
		case <-ctx.Done():
			return refusal(x402.ReasonSettlementPending)
		case <-time.After(pollTime):
		}
	}
}

// isIndexing reports whether err is geth's answer while it has not yet looked for a transaction
// everywhere.
func isIndexing(err error) bool { return err.Error() == "transaction indexing is in progress" }

// sender sends the facilitator's transactions to the token, one after the other, each
// with the next nonce. It counts by itself: the pool's own count lags behind while a
// block is being added.
type sender struct {
	chain   *ethclient.Client
	key     *ecdsa.PrivateKey
	chainID *big.Int

	mu      sync.Mutex
	started bool
	nonce   uint64 // the next one
}

func (s *sender) send(ctx context.Context, data []byte) (common.Hash, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		nonce, err := s.chain.PendingNonceAt(ctx, facilitatorAddress)
		if err != nil {
			return common.Hash{}, fmt.Errorf("read the account's nonce: %w", err)
		}
		s.started, s.nonce = true, nonce
	}
	signed, err := types.SignNewTx(s.key, types.LatestSignerForChainID(s.chainID), &types.DynamicFeeTx{
		ChainID: s.chainID, Nonce: s.nonce, To: &TokenAddress, Data: data, Gas: transferGas, GasTipCap: big.NewInt(1e9),
		GasFeeCap: big.NewInt(100e9),
	})
	if err != nil {
		return common.Hash{}, fmt.Errorf("sign the transaction: %w", err)
	}
	if err := s.chain.SendTransaction(ctx, signed); err != nil {
		s.started = false // read it again
		return common.Hash{}, fmt.Errorf("send the transaction: %w", err)
	}
	s.nonce++
	return signed.Hash(), nil
}
