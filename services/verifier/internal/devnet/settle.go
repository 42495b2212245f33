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
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/pforte/pforte/pkg/x402"
)

const (
	// confirmTimeout is how long a settlement waits for its block.
	confirmTimeout = 20 * time.Second
	// pollTime is the pause between looks for it.
	pollTime = 100 * time.Millisecond
	// transferGas is more than a transfer by authorization costs, with room for
	// a contract wallet's own check.
	transferGas = 300_000
)

// paymentKey names a payment: an authorization is spent by payer and nonce.
type paymentKey struct {
	payer common.Address
	nonce common.Hash
}

// settlement is one broadcast transfer.
type settlement struct {
	digest common.Hash
	tx     common.Hash
	err    error
	sent   chan struct{} // closed once tx or err is known
}

// settlements remembers what was broadcast, so that a repeated request finds
// the first one's transaction instead of sending another.
type settlements struct {
	mu      sync.Mutex
	entries map[paymentKey]*settlement
}

// begin gives the settlement of a payment, and whether the caller is the first
// and must broadcast it.
func (s *settlements) begin(k paymentKey, digest common.Hash) (*settlement, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entries[k]; ok {
		return e, false
	}
	e := &settlement{digest: digest, sent: make(chan struct{})}
	s.entries[k] = e
	return e, true
}

func (s *settlements) find(k paymentKey) *settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[k]
}

func (s *settlements) forget(k paymentKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, k)
}

func (f *Facilitator) settle(ctx context.Context, o offer, fault error) any {
	j, err := f.judge(ctx, o, fault)
	network := o.required.network
	tx := common.Hash{}
	if err == nil || errors.Is(err, refusal(x402.ReasonNonceAlreadyUsed)) {
		tx, err = f.carryOut(ctx, j, err)
	}
	success := err == nil
	s := x402.SettleResponse{Success: &success, ErrorReason: f.reason(err, x402.ReasonUnexpectedSettle), Network: network, Payer: j.payer()}
	if tx != (common.Hash{}) {
		s.Transaction = tx.Hex()
	}
	return s
}

// carryOut broadcasts a judged payment once and waits for its block. A payment
// whose nonce is used is a success when this facilitator used it, for the very
// same authorization.
func (f *Facilitator) carryOut(ctx context.Context, j judged, verdict error) (common.Hash, error) {
	k := paymentKey{j.authorization.From, j.authorization.Nonce}
	digest := j.authorization.Digest(f.domain())
	e, first := f.settled.find(k), false
	if e == nil && verdict == nil {
		e, first = f.settled.begin(k, digest)
	}
	if e == nil || e.digest != digest {
		return common.Hash{}, refusal(x402.ReasonNonceAlreadyUsed)
	}
	if first {
		e.tx, e.err = f.broadcast(ctx, j)
		close(e.sent)
	}
	select {
	case <-e.sent:
	case <-ctx.Done():
		return common.Hash{}, refusal(x402.ReasonSettlementPending)
	}
	if e.err != nil {
		f.settled.forget(k)
		return common.Hash{}, e.err
	}
	return e.tx, f.confirm(ctx, k, e.tx)
}

func (f *Facilitator) broadcast(ctx context.Context, j judged) (common.Hash, error) {
	call, err := f.transfer(j)
	if err != nil {
		return common.Hash{}, err
	}
	return f.sender.send(ctx, TokenAddress, call)
}

// confirm waits until the transfer is in a block.
func (f *Facilitator) confirm(ctx context.Context, k paymentKey, tx common.Hash) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	for {
		receipt, err := f.chain.TransactionReceipt(ctx, tx)
		switch {
		case err == nil && receipt.Status == types.ReceiptStatusSuccessful:
			return nil
		case err == nil:
			f.settled.forget(k)
			return refusal("invalid_transaction_state")
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

// isIndexing tells geth's answer while it has not yet looked for a transaction
// everywhere.
func isIndexing(err error) bool { return err.Error() == "transaction indexing is in progress" }

// sender sends transactions of one account, one after the other, each with the
// next nonce. It counts by itself: the pool's own count lags behind while a
// block is being added.
type sender struct {
	chain   *ethclient.Client
	key     *ecdsa.PrivateKey
	chainID *big.Int

	mu      sync.Mutex
	started bool
	nonce   uint64 // the next one
}

func (s *sender) send(ctx context.Context, to common.Address, data []byte) (common.Hash, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		nonce, err := s.chain.PendingNonceAt(ctx, facilitatorAddress)
		if err != nil {
			return common.Hash{}, fmt.Errorf("read the account's nonce: %w", err)
		}
		s.started, s.nonce = true, nonce
	}
	tip := big.NewInt(1e9)
	signed, err := types.SignNewTx(s.key, types.LatestSignerForChainID(s.chainID), &types.DynamicFeeTx{
		ChainID: s.chainID, Nonce: s.nonce, To: &to, Data: data, Gas: transferGas, GasTipCap: tip, GasFeeCap: big.NewInt(100e9),
	})
	if err != nil {
		return common.Hash{}, fmt.Errorf("sign the transaction: %w", err)
	}
	if err := s.chain.SendTransaction(ctx, signed); err != nil {
		s.started = false // ask again
		return common.Hash{}, fmt.Errorf("send the transaction: %w", err)
	}
	s.nonce++
	return signed.Hash(), nil
}
