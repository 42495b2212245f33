package rpc_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
)

// baseTransaction is the fourth transaction of the recorded Base block.
var baseTransaction = hash("0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb")

const baseBlock = 2_000_000

func hash(text string) chain.Hash {
	h, err := chain.ParseHash(text)
	if err != nil {
		panic(err)
	}
	return h
}

// baseNode serves the recorded Base block, finalized, on a chain that goes on.
func baseNode(t testing.TB) *chaintest.Node {
	t.Helper()
	node := chaintest.NewNode(t, chaintest.Load(t, chaintest.BaseBlock))
	node.SetHeads(baseBlock+700, baseBlock+100)
	return node
}

// config is for Base with these nodes, of which the word of one is enough. Busy machines make no test fail: only tests
// of lateness have short timeouts.
func config(nodes ...*chaintest.Node) chain.Config {
	c := chain.Config{Name: "base", ID: 8453, RPCTimeout: 30 * time.Second, Quorum: 1}
	for _, node := range nodes {
		c.RPCURLs = append(c.RPCURLs, node.URL)
	}
	return c
}

func open(t testing.TB, o rpc.Options) *rpc.Reader {
	t.Helper()
	r, err := rpc.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantFault checks which reason an error has.
func wantFault(t testing.TB, err error, want *chain.Fault) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %s", err, want.Code)
	}
}

func TestBlock_AColdReadTakesTwoRoundTripsARepeatNone(t *testing.T) {
	node := baseNode(t)
	r := open(t, rpc.Options{Chain: config(node)})
	node.Play(chaintest.Script{Delay: 150 * time.Millisecond})
	node.Forget()
	s, err := r.Read(t.Context(), baseTransaction)
	if err != nil {
		t.Fatal(err)
	}
	if s.Transaction.Hash != baseTransaction || s.Block.Number != baseBlock || s.Heads.Latest != baseBlock+700 {
		t.Errorf("got %+v", s)
	}
	if got := chaintest.Sequential(node); got != 2 || len(node.Exchanges()) != 2 {
		t.Errorf("%d round trips, %d exchanges", got, len(node.Exchanges()))
	}
	node.Forget()
	for _, again := range []chain.Hash{baseTransaction, hash("0x95374df26fa87351a3fd3dea9691c761e63db98e03ec960d4b4f59c231eecce7")} {
		if _, err := r.Read(t.Context(), again); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(node.Exchanges()); got != 0 {
		t.Errorf("%d exchanges for transactions of a proven block", got)
	}
}
