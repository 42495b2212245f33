package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
)

const baseBlock = 2_000_000

// openBase opens a reader over so many nodes that serve the recorded Base block.
func openBase(t *testing.T, count int) (*Reader, []*chaintest.Node) {
	t.Helper()
	return openOver(t, chaintest.Load(t, chaintest.BaseBlock), count)
}

// openOver is openBase for a recording that was made of the Base block.
func openOver(t *testing.T, recording recorded.Recording, count int) (*Reader, []*chaintest.Node) {
	t.Helper()
	c := chain.Config{Name: "base", ID: 8453, RPCTimeout: 30 * time.Second, Quorum: 1}
	var nodes []*chaintest.Node
	for range count {
		node := chaintest.NewNode(t, recording)
		node.SetHeads(baseBlock+700, baseBlock+100)
		nodes, c.RPCURLs = append(nodes, node), append(c.RPCURLs, node.URL)
	}
	r, err := Open(t.Context(), Options{Chain: c})
	if err != nil {
		t.Fatal(err)
	}
	return r, nodes
}

// whole plays a change on whole blocks only.
func whole(delay time.Duration, changes map[string]any) chaintest.Script {
	return chaintest.Script{Delay: delay, Answer: func(c recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
		if c.Method == "eth_getBlockByNumber" && strings.Contains(string(c.Params[1]), "true") {
			return chaintest.Edit(result, changes), err
		}
		return result, err
	}}
}

// TestBlock_OneNodesWrongAnswerIsNotShared, though both are for one
// block at one time.
func TestBlock_OneNodesWrongAnswerIsNotShared(t *testing.T) {
	r, nodes := openBase(t, 2)
	at := &location{number: baseBlock, block: provenBlock(t, chaintest.Load(t, chaintest.BaseBlock)).Hash()}
	nodes[0].Play(whole(300*time.Millisecond, map[string]any{"timestamp": "0x1"}))
	lied := make(chan error, 1)
	go func() {
		_, err := r.block(context.WithoutCancel(t.Context()), r.endpoints[0], at)
		lied <- err
	}()
	time.Sleep(100 * time.Millisecond)
	if _, err := r.block(t.Context(), r.endpoints[1], at); err != nil {
		t.Errorf("from the honest node: %v", err)
	}
	if err := <-lied; !errors.Is(err, chain.ErrIntegrity) {
		t.Errorf("from the liar: %v", err)
	}
}

// TestBlock_AFalseUnknownTypeIsNotShared: the node that tells it has the block's true bytes otherwise,
// and was asked first, for another transaction.
func TestBlock_AFalseUnknownTypeIsNotShared(t *testing.T) {
	w := newRawWorld(t)
	r, nodes := openBase(t, 2)
	nodes[0].Play(w.script("eth_getRawTransactionByHash", "debug_getRawReceipts"))
	for _, i := range []int{opaqueAt + 1, opaqueAt} {
		hash, err := chain.ParseHash(recorded.Member(w.block.Transactions()[i], "hash"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(t.Context(), hash); err != nil {
			t.Errorf("transaction %d: %v", i, err)
		}
	}
}

// TestHeads_AreReadThoughBlocksAreLarge: nodes list the hashes of a block's
// transactions with its header.
func TestHeads_AreReadThoughBlocksAreLarge(t *testing.T) {
	r, nodes := openBase(t, 2)
	r.quorum = 2
	hashes := make([]string, 20_000)
	for i := range hashes {
		hashes[i] = fmt.Sprintf("0x%064x", i)
	}
	for _, node := range nodes {
		node.Play(chaintest.Script{Answer: func(c recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
			if c.Method == "eth_getBlockByNumber" && string(c.Params[1]) == "false" {
				return chaintest.Edit(result, map[string]any{"transactions": hashes}), err
			}
			return result, err
		}})
	}
	if _, err := r.Reached(t.Context()); err != nil {
		t.Errorf("heads: %v", err)
	}
	for _, e := range r.endpoints {
		if err := r.pollEndpoint(t.Context(), e); err != nil {
			t.Errorf("heads: %v", err)
		}
	}
	hash := provenBlock(t, chaintest.Load(t, chaintest.BaseBlock)).Hash()
	if err := r.confirm(t.Context(), r.endpoints[0], baseBlock, hash); err != nil {
		t.Errorf("vote: %v", err)
	}
}
