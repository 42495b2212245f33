package rpc_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
)

// otherBlock makes a node stand for another block at every height.
func otherBlock() chaintest.Script {
	return edited("eth_getBlockByNumber", map[string]any{"hash": otherHash})
}

// openQuorum opens a reader over n nodes of which k must agree.
func openQuorum(t *testing.T, k, n int) (*rpc.Reader, []*chaintest.Node) {
	t.Helper()
	var nodes []*chaintest.Node
	for range n {
		nodes = append(nodes, baseNode(t))
	}
	c := config(nodes...)
	c.Quorum = k
	return open(t, rpc.Options{Chain: c}), nodes
}

func TestQuorum_CostsNoFurtherRoundTrip(t *testing.T) {
	r, nodes := openQuorum(t, 3, 3)
	for _, node := range nodes {
		node.Play(chaintest.Script{Delay: 150 * time.Millisecond})
		node.Forget()
	}
	if _, err := r.Read(t.Context(), baseTransaction); err != nil {
		t.Fatal(err)
	}
	if got := chaintest.Sequential(nodes...); got != 2 {
		t.Errorf("%d round trips", got)
	}
	for i, want := range []int{2, 1, 1} {
		if got := len(nodes[i].Exchanges()); got != want {
			t.Errorf("node %d: %d exchanges, want %d", i, got, want)
		}
	}
}

func TestQuorum_OfTwoInThree(t *testing.T) {
	down := status(http.StatusBadGateway)
	for name, c := range map[string]struct {
		scripts [3]chaintest.Script
		want    *chain.Fault
	}{
		"all agree":                    {},
		"one dissents":                 {scripts: [3]chaintest.Script{{}, {}, otherBlock()}},
		"one is down":                  {scripts: [3]chaintest.Script{{}, down, {}}},
		"the first dissents":           {scripts: [3]chaintest.Script{otherBlock(), {}, {}}},
		"two dissent":                  {[3]chaintest.Script{{}, otherBlock(), otherBlock()}, chain.ErrQuorum},
		"two are down":                 {[3]chaintest.Script{{}, down, down}, chain.ErrUnavailable},
		"one dissents and one is down": {[3]chaintest.Script{{}, otherBlock(), down}, chain.ErrQuorum},
		"two do not have the block":    {[3]chaintest.Script{{}, nothing("eth_getBlockByNumber"), nothing("eth_getBlockByNumber")}, chain.ErrQuorum},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, nodes := openQuorum(t, 2, 3)
			for i, node := range nodes {
				node.Play(c.scripts[i])
			}
			_, err := r.Read(t.Context(), baseTransaction)
			if c.want == nil && err != nil {
				t.Fatal(err)
			}
			if c.want != nil {
				wantFault(t, err, c.want)
			}
		})
	}
}

// Whoever pays gets an answer while a quorum of the nodes is well.
func TestQuorum_NodesThatAreDownDoNotUseUpTheAttempts(t *testing.T) {
	for name, down := range map[string]chaintest.Script{
		"they answer 502":         status(http.StatusBadGateway),
		"they have a rate limit":  status(http.StatusTooManyRequests),
		"their connections break": cut(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, nodes := openQuorum(t, 3, 5)
			nodes[0].Play(down)
			nodes[1].Play(down)
			if _, err := r.Read(t.Context(), baseTransaction); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestQuorum_NodesThatDoNotHaveTheTransactionDoNotUseUpTheAttempts: their index may be shorter than that of others.
func TestQuorum_NodesThatDoNotHaveTheTransactionDoNotUseUpTheAttempts(t *testing.T) {
	for name, lacks := range map[string]chaintest.Script{
		"the transaction": nothing("eth_getTransactionByHash"),
		"its receipt":     nothing("eth_getTransactionReceipt"),
		"its history":     refusing("eth_getTransactionByHash", 4444, "pruned history unavailable"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, nodes := openQuorum(t, 2, 3)
			nodes[0].Play(lacks)
			nodes[1].Play(lacks)
			if _, err := r.Read(t.Context(), baseTransaction); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestQuorum_OnlyNodesThatHaveSeenItFinalVote(t *testing.T) {
	t.Parallel()
	nodes := []*chaintest.Node{baseNode(t), baseNode(t), baseNode(t)}
	nodes[1].SetHeads(baseBlock+700, baseBlock-1)
	nodes[2].SetHeads(baseBlock+700, baseBlock-1)
	c := config(nodes...)
	c.Quorum = 2
	r := open(t, rpc.Options{Chain: c})
	_, err := r.Read(t.Context(), baseTransaction)
	wantFault(t, err, chain.ErrNotFinalized)
}

// TestHeads_AreTheKthHighest of what the nodes report, or the first node's report
// where one is enough.
func TestHeads_AreTheKthHighest(t *testing.T) {
	t.Parallel()
	for k, want := range map[int]uint64{1: baseBlock + 20, 2: baseBlock + 20, 3: baseBlock + 10} {
		var nodes []*chaintest.Node
		for _, above := range []uint64{20, 30, 10} {
			node := baseNode(t)
			node.SetHeads(baseBlock+above+100, baseBlock+above)
			nodes = append(nodes, node)
		}
		c := config(nodes...)
		c.Quorum = k
		heads, err := open(t, rpc.Options{Chain: c}).Heads(t.Context())
		if err != nil || heads.Finalized != want || heads.Latest != want+100 {
			t.Errorf("quorum %d: %+v, %v", k, heads, err)
		}
	}
}

func TestQuorum_TooFewNodesMeanNoFinality(t *testing.T) {
	t.Parallel()
	nodes := []*chaintest.Node{baseNode(t), baseNode(t)}
	nodes[1].Play(status(http.StatusBadGateway))
	c := config(nodes...)
	c.Quorum = 2
	r := open(t, rpc.Options{Chain: c})
	_, err := r.Read(t.Context(), baseTransaction)
	wantFault(t, err, chain.ErrFinalityUnavailable)
}

func TestNode_ThatFailsOpensItsCircuit(t *testing.T) {
	failing, good, time := baseNode(t), baseNode(t), newClock()
	memory := rpc.NewMemory(1, 0)
	r := open(t, rpc.Options{Chain: config(failing, good), Memory: memory, Now: time.Now})
	failing.Play(status(http.StatusInternalServerError))
	failing.Forget()
	read := func() {
		t.Helper()
		if _, err := r.Read(t.Context(), baseTransaction); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		read()
	}
	if got := len(failing.Exchanges()); got != 3 {
		t.Errorf("called %d times, want 3", got)
	}
	time.Advance(3e9) // the pause is over: one trial
	failing.Forget()
	for range 5 {
		read()
	}
	if got := len(failing.Exchanges()); got != 1 {
		t.Errorf("called %d times after the pause, want 1", got)
	}
	time.Advance(10e9)
	failing.Play(chaintest.Script{})
	failing.Forget()
	for range 3 {
		read()
	}
	if got := len(failing.Exchanges()); got != 6 {
		t.Errorf("%d exchanges when it is well again, want 6", got)
	}
}

func TestNode_ThatAnsweredWronglyIsUsedLast(t *testing.T) {
	liar, good := baseNode(t), baseNode(t)
	r := open(t, rpc.Options{Chain: config(liar, good), Memory: rpc.NewMemory(1, 0)})
	liar.Play(inBlock(3, map[string]any{"to": ourAddress}))
	for range 3 {
		if _, err := r.Read(t.Context(), baseTransaction); err != nil {
			t.Fatal(err)
		}
	}
	if got := liar.Calls("eth_getTransactionByHash"); got != 1 {
		t.Errorf("the faulty node was called %d times", got)
	}
}
