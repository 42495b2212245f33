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
)

const (
	// confirmTimeout is how long a settlement waits for its block.
	confirmTimeout = 20 * time.Second
	// pollTime is the pause between checks for it.
	pollTime = 100 * time.Millisecond
	// transferGas is more than a transfer by authorization costs, with a margin for
	// a contract wallet's own check.
	transferGas = 300_000
)

// settlement is one payment that was, or is being, judged and broadcast.
type settlement struct {
	sent chan struct{} // closed once tx or err is known
	tx   common.Hash
	err  error
}

// settlements remembers what was broadcast, by everything that was signed and
// the signature, so that a repeated request finds the first one's transaction
// instead of sending another.
type settlements struct {
	mu      sync.Mutex
	entries map[common.Hash]*settlement
}

// join returns the settlement of a payment, and whether the caller is the first
// and must carry it out.
func (s *settlements) join(payment common.Hash) (*settlement, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entries[payment]; ok {
		return e, false
	}
	e := &settlement{sent: make(chan struct{})}
	s.entries[payment] = e
	return e, true
}

func (s *settlements) forget(payment common.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, payment)
}

func (f *Facilitator) settle(ctx context.Context, o offer, fault error) any {
	tx := common.Hash{}
	p, err := f.read(o, fault)
	if err == nil {
		tx, err = f.carryOut(ctx, p)
	}
	success := err == nil
	s := x402.SettleResponse{
		Success: &success, ErrorReason: f.reason(err, x402.ReasonUnexpectedSettle), Network: o.required.network, Payer: p.payer(),
	}
	if tx != (common.Hash{}) {
		s.Transaction = tx.Hex()
	}
	return s
}

// carryOut judges and broadcasts a payment once and waits for its block. A
// repeated request gets what the first one got, also when the payment could not
// be made anew: it is expired or used, by this very payment.
func (f *Facilitator) carryOut(ctx context.Context, p read) (common.Hash, error) {
	payment := crypto.Keccak256Hash(p.authorization.Digest(f.domain()).Bytes(), p.signature)
	e, first := f.settled.join(payment)
	if first {
		if e.err = f.judge(ctx, p); e.err == nil {
			e.tx, e.err = f.broadcast(ctx, p)
		}
		if e.err != nil {
			f.settled.forget(payment)
		}
		close(e.sent)
	}
	select {
	case <-e.sent:
	case <-ctx.Done():
		return common.Hash{}, refusal(x402.ReasonSettlementPending)
	}
	if e.err != nil {
		return common.Hash{}, e.err
	}
	return e.tx, f.confirm(ctx, payment, e.tx)
}

func (f *Facilitator) broadcast(ctx context.Context, p read) (common.Hash, error) {
	call, err := f.transfer(p)
	if err != nil {
		return common.Hash{}, err
	}
	return f.sender.send(ctx, TokenAddress, call)
}

// confirm waits until the transfer is in a block.
func (f *Facilitator) confirm(ctx context.Context, payment, tx common.Hash) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	for {
		receipt, err := f.chain.TransactionReceipt(ctx, tx)
		switch {
		case err == nil && receipt.Status == types.ReceiptStatusSuccessful:
			return nil
		case err == nil:
			f.settled.forget(payment)
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

// isIndexing reports geth's answer while it has not yet looked for a transaction
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
		s.started = false // read it again
		return common.Hash{}, fmt.Errorf("send the transaction: %w", err)
	}
	s.nonce++
	return signed.Hash(), nil
}
