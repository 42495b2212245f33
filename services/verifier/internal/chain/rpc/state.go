package rpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/evm"
)

// Headers returns the headers of the blocks from last down to first, in RLP: block last has
// this hash, and each further one the hash that the one before names as its parent's. The nodes
// that may be used are asked in turn until one has them. Every error holds a *chain.Fault.
func (r *Reader) Headers(ctx context.Context, first, last uint64, hash chain.Hash) (headers [][]byte, err error) {
	err = r.inTurn(ctx, func(ctx context.Context, e *endpoint, memory *reservation) error {
		headers = nil
		next := common.Hash(hash)
		for at := last; at >= first && at <= last; {
			var calls []*call
			for n := at; n >= first && n <= at && len(calls) < maxBatch; n-- {
				calls = append(calls, newCall("eth_getBlockByNumber", hexNumber(n), false))
			}
			if err := e.do(ctx, memory, calls...); err != nil {
				return err
			}
			for _, c := range calls {
				header, parent, err := readHeader(c, at, next)
				if err != nil {
					return err
				}
				headers, next, at = append(headers, header), parent, at-1
			}
		}
		return nil
	})
	return headers, err
}

// StorageProof returns the proof of a slot of a contract in the state of a block (EIP-1186):
// the block's header in RLP, and the trie nodes from its stateRoot and from the account's
// storageRoot down. The nodes that may be used are asked in turn until one has that state: a
// proof without nodes, as of a contract that stores nothing, does not count. Nothing else but
// the header is checked. Every error holds a *chain.Fault.
func (r *Reader) StorageProof(
	ctx context.Context, number uint64, hash chain.Hash, contract chain.Address, slot chain.Hash,
) (header []byte, account, storage [][]byte, err error) {
	err = r.inTurn(ctx, func(ctx context.Context, e *endpoint, memory *reservation) error {
		block := newCall("eth_getBlockByNumber", hexNumber(number), false)
		proof := newCall("eth_getProof", common.Address(contract), []common.Hash{common.Hash(slot)}, hexNumber(number))
		if err := e.do(ctx, memory, block, proof); err != nil {
			return err
		}
		found, _, err := readHeader(block, number, common.Hash(hash))
		if err != nil {
			return err
		}
		var read struct {
			AccountProof []evm.Data `json:"accountProof"`
			StorageProof []struct {
				Proof []evm.Data `json:"proof"`
			} `json:"storageProof"`
		}
		switch isThere, err := proof.decode(&read); {
		case err != nil:
			return err
		case !isThere || len(read.StorageProof) != 1 || len(read.StorageProof[0].Proof) == 0:
			return fmt.Errorf("eth_getProof: no proof: %w", chain.ErrUnavailable)
		}
		header, account, storage = found, nodes(read.AccountProof), nodes(read.StorageProof[0].Proof)
		return nil
	})
	return header, account, storage, err
}

// BlockNumber returns the number of a block by its hash, as the first node that has it
// reports it; the header that it reports has the hash. chain.ErrInconsistent where no node has it, and the errors of
// the nodes.
func (r *Reader) BlockNumber(ctx context.Context, hash chain.Hash) (number uint64, err error) {
	err = r.inTurn(ctx, func(ctx context.Context, e *endpoint, memory *reservation) error {
		block := newCall("eth_getBlockByHash", common.Hash(hash), false)
		if err := e.do(ctx, memory, block); err != nil {
			return err
		}
		var h evm.Header
		isThere, err := block.decode(&h)
		if err != nil {
			return err
		}
		n, isNumber := h.Number.Uint64()
		if !isThere || !isNumber {
			return fmt.Errorf("no block %v: %w", common.Hash(hash), chain.ErrInconsistent)
		}
		number = n
		_, err = h.ProveHeader(n, common.Hash(hash))
		return err
	})
	return number, err
}

func nodes(list []evm.Data) [][]byte {
	out := make([][]byte, len(list))
	for i, node := range list {
		out[i] = node
	}
	return out
}

// readHeader returns a node's header in RLP, checked against number and hash, and its parent's hash.
// chain.ErrInconsistent: the node has no such block. Errors of the call and of ProveHeader pass.
func readHeader(c *call, number uint64, hash common.Hash) (header []byte, parent common.Hash, err error) {
	var h evm.Header
	found, err := c.decode(&h)
	if err != nil {
		return nil, parent, err
	}
	if !found {
		return nil, parent, fmt.Errorf("no block %d: %w", number, chain.ErrInconsistent)
	}
	if header, err = h.ProveHeader(number, hash); err != nil {
		return nil, parent, err
	}
	return header, *h.ParentHash, nil
}

// inTurn reads from one endpoint after the other, best first, until one succeeds. Those with an
// open circuit or of another chain are left out.
func (r *Reader) inTurn(ctx context.Context, read func(context.Context, *endpoint, *reservation) error) error {
	var faults []error
	for _, e := range r.available() {
		if !e.circuit.admit(r.now(), r.timeout) {
			continue
		}
		memory, err := reserve(ctx, r.memory.budget, lookupBytes)
		if err != nil {
			return err
		}
		err = guarded(r.log, func() error {
			ctx, cancel := context.WithTimeout(ctx, 2*attempts*r.timeout)
			defer cancel()
			return read(ctx, e, memory)
		})
		memory.release()
		if err == nil {
			return nil
		}
		faults = append(faults, fmt.Errorf("%s: %w", e.name, err))
		if ctx.Err() != nil {
			break
		}
	}
	if len(faults) == 0 {
		return r.noneAvailable()
	}
	return errors.Join(faults...)
}
