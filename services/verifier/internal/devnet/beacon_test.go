package devnet_test

import (
	"bytes"
	"context"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/devnet"
)

// ask returns the body that the beacon node answers.
func ask(t *testing.T, url string) []byte {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", url, resp.StatusCode, body, err)
	}
	return body
}

// latestUpdate returns the first update that calls a block final from a number on.
func latestUpdate(t *testing.T, url string, from uint64) *lightclient.Update {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		u, err := lightclient.ParseFinalityUpdate(ask(t, url+"/eth/v1/beacon/light_client/finality_update"))
		if err != nil {
			t.Fatal(err)
		}
		if uint64(u.FinalizedHeader.Execution.BlockNumber) >= from {
			return u
		}
		select {
		case <-ctx.Done():
			t.Fatalf("block %d is not final", from)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// The chain's own headers and its record of block hashes (EIP-2935) lead from what the
// beacon node calls final to a block before.
func TestBeacon_ProvesTheChainsBlocksFinal(t *testing.T) {
	n := start(t)
	server := httptest.NewServer(n.Beacon.Handler())
	defer server.Close()
	// The first blocks call nothing final.
	for latest := uint64(0); latest < 4; time.Sleep(50 * time.Millisecond) {
		var err error
		if latest, err = n.client.BlockNumber(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	root, boot, u := begin(t, n, server.URL)
	// A committee signs in its own period alone, and one may end between the two.
	for n.Beacon.Network().Period(uint64(u.SignatureSlot)) != n.Beacon.Network().Period(uint64(boot.Header.Beacon.Slot)) {
		root, boot, u = begin(t, n, server.URL)
	}
	anchor := u.FinalizedHeader.Execution
	header, err := n.client.HeaderByNumber(t.Context(), new(big.Int).SetUint64(uint64(anchor.BlockNumber)))
	if err != nil || finality.Root(header.Hash()) != anchor.BlockHash {
		t.Fatalf("block %d is not the node's: %v", anchor.BlockNumber, err)
	}
	execution, err := lightclient.NewExecution(u.FinalizedHeader)
	if err != nil {
		t.Fatal(err)
	}
	step, err := lightclient.NewStep(&boot.CurrentSyncCommittee, u)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := rlp.EncodeToBytes(header)
	if err != nil {
		t.Fatal(err)
	}
	before := finality.Block{Number: anchor.BlockNumber - 1, Hash: finality.Root(header.ParentHash)}
	for _, c := range []struct {
		block finality.Block
		link  finality.Link
	}{
		{finality.Block{Number: anchor.BlockNumber, Hash: anchor.BlockHash}, finality.Link{Kind: finality.LinkSame}},
		{before, finality.Link{Kind: finality.LinkHeaders, Headers: []receipt.Hex{raw}}},
		{before, history(t, n, header, raw, uint64(before.Number))},
	} {
		d := &finality.Document{
			Type: finality.Type, Version: finality.Version, Chain: n.Beacon.Network().ChainID, Network: n.Beacon.Network().Name, Block: c.block, Link: c.link,
			Anchor: finality.Anchor{Kind: finality.AnchorSyncCommittee, Checkpoint: lightclient.NewCheckpoint(boot), Steps: []finality.Step{step}, Execution: execution},
		}
		if _, err := finality.VerifyBlock(d, finality.Trust{Checkpoint: root, Network: n.Beacon.Network()}); err != nil {
			t.Errorf("%s: %v", c.link.Kind, err)
		}
	}
}

// begin returns what is final, the committee of its period, and the first update after it.
func begin(t *testing.T, n *network, url string) (finality.Root, *lightclient.Bootstrap, *lightclient.Update) {
	t.Helper()
	checkpoint, err := n.Beacon.Finalized(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	root := checkpoint.HashTreeRoot()
	boot, err := lightclient.ParseBootstrap(ask(t, url+"/eth/v1/beacon/light_client/bootstrap/"+root.String()))
	if err != nil {
		t.Fatal(err)
	}
	return root, boot, latestUpdate(t, url, uint64(boot.Header.Execution.BlockNumber)+1)
}

// history returns the link that the node's eth_getProof makes.
func history(t *testing.T, n *network, anchor *types.Header, raw []byte, number uint64) finality.Link {
	t.Helper()
	var proof struct {
		AccountProof []hexutil.Bytes
		StorageProof []struct{ Proof []hexutil.Bytes }
	}
	err := n.client.Client().CallContext(t.Context(), &proof, "eth_getProof", finality.HistoryContract,
		[]string{finality.HistorySlot(number).String()}, hexutil.EncodeBig(anchor.Number))
	if err != nil || len(proof.StorageProof) != 1 {
		t.Fatalf("%+v, %v", proof, err)
	}
	nodes := func(of []hexutil.Bytes) (all []receipt.Hex) {
		for _, node := range of {
			all = append(all, receipt.Hex(node))
		}
		return all
	}
	return finality.Link{Kind: finality.LinkHistory, Header: raw, Account: nodes(proof.AccountProof), Storage: nodes(proof.StorageProof[0].Proof)}
}

func TestProgram_PrintsTheNetworkItServes(t *testing.T) {
	n := start(t)
	var printed bytes.Buffer
	none := func(string) string { return "" }
	p := service.Process{Args: []string{"network"}, Getenv: none, Stdout: &printed, Stderr: io.Discard}
	if code := devnet.Run(t.Context(), p); code != 0 {
		t.Fatal(code)
	}
	network, err := finality.ParseNetwork(printed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(n.Beacon.Network(), network); diff != "" {
		t.Errorf("served (-), printed (+):\n%s", diff)
	}
	const kept = "../../../../deploy/internal/layout/devnet-network.json"
	if text, err := os.ReadFile(kept); err != nil || !bytes.Equal(text, printed.Bytes()) {
		t.Errorf("%s is not what is printed: %v", kept, err)
	}
}
