package chainlog_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/chainlog"
)

func reader(t *testing.T, urls ...string) *chainlog.Reader {
	t.Helper()
	r, err := chainlog.New("eip155:84532", urls, 1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// query is the query about authorization k, claimed when the block was made.
func query(k, block int) payment.Record {
	return payment.Record{
		Key:   payment.Key{Network: "eip155:84532", Asset: token, Payer: payer, Nonce: nonce(k)},
		PayTo: "0x00000000000000000000000000000000000050A5", Amount: "10000",
		Claimed: timeOf(block), ValidBefore: timeOf(block).Add(time.Minute),
	}
}

const paying = "0x00000000000000000000000000000000000000000000000000000000000000aa"

func TestAuthorization_Status(t *testing.T) {
	const recent, old = 99_990, 40_000
	for name, c := range map[string]struct {
		chain func(*node)
		block int
		want  payment.AuthorizationStatus
	}{
		"nothing happened yet":             {block: recent, want: payment.Unused},
		"nothing happened, and it is over": {block: old, want: payment.Expired},
		"over, but not final":              {chain: func(n *node) { n.final = 39_000 }, block: old, want: payment.Unused},
		"over, and finality is not known":  {chain: func(n *node) { n.noFinality = true }, block: old, want: payment.Unused},
		"it paid us":                       {chain: func(n *node) { n.spend(recent+2, paying, mark(used, 1), move(seller, 10000)) }, block: recent, want: payment.PaidToUs},
		"it paid us long ago":              {chain: func(n *node) { n.spend(old+2, paying, mark(used, 1), move(seller, 10000)) }, block: old, want: payment.PaidToUs},
		"it paid us just before the end":   {chain: func(n *node) { n.spend(old+29, paying, mark(used, 1), move(seller, 10000)) }, block: old, want: payment.PaidToUs},
		"a transfer before the mark":       {chain: func(n *node) { n.spend(recent+2, paying, move(seller, 10000), mark(used, 1)) }, block: recent, want: payment.PaidToUs},
		"cancelled":                        {chain: func(n *node) { n.spend(recent+2, paying, mark(canceled, 1)) }, block: recent, want: payment.UsedElsewhere},
		"it paid a third party":            {chain: func(n *node) { n.spend(recent+2, paying, mark(used, 1), move(other, 10000)) }, block: recent, want: payment.UsedElsewhere},
		"it paid too little":               {chain: func(n *node) { n.spend(recent+2, paying, mark(used, 1), move(seller, 9999)) }, block: recent, want: payment.UsedElsewhere},
		"it paid in another token": {chain: func(n *node) {
			e := move(seller, 10000)
			e.Address = other
			n.spend(recent+2, paying, mark(used, 1), e)
		}, block: recent, want: payment.UsedElsewhere},
		"another one's transfer": {chain: func(n *node) {
			n.spend(recent+2, paying, mark(used, 1), move(other, 10000), mark(used, 2), move(seller, 10000))
		}, block: recent, want: payment.UsedElsewhere},
		"several in one transaction": {chain: func(n *node) {
			n.spend(recent+2, paying, mark(used, 2), move(other, 10000), mark(used, 1), move(seller, 10000))
		}, block: recent, want: payment.PaidToUs},
		"another's mark between":              {chain: func(n *node) { n.spend(recent+2, paying, mark(used, 1), mark(used, 2), move(seller, 10000)) }, block: recent, want: payment.UsedElsewhere},
		"a transfer before one of many marks": {chain: func(n *node) { n.spend(recent+2, paying, move(seller, 10000), mark(used, 2), mark(used, 1)) }, block: recent, want: payment.UsedElsewhere},
		"a transfer before, and the authorization pays another": {chain: func(n *node) {
			n.spend(recent+2, paying, move(seller, 10000), mark(used, 1), move(other, 10000))
		}, block: recent, want: payment.UsedElsewhere},
		"an event of a removed block": {chain: func(n *node) {
			e := mark(used, 1)
			e.Removed = true
			n.spend(recent+2, paying, e, move(seller, 10000))
			delete(n.states, nonce(1))
		}, block: recent, want: payment.Unused},
		"a young chain": {chain: func(n *node) {
			n.latest, n.final = 40, 38
			n.spend(35, paying, mark(used, 1), move(seller, 10000))
		}, block: 30, want: payment.PaidToUs},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if c.chain != nil {
				c.chain(n)
			}
			found, err := reader(t, n.url).Authorization(context.Background(), query(1, c.block))
			if err != nil || found.Status != c.want {
				t.Fatalf("got %+v, %v; want %d", found, err, c.want)
			}
			if (found.Transaction == paying) != (c.want == payment.PaidToUs) {
				t.Errorf("transaction is %q", found.Transaction)
			}
			if n.widest > 1000 {
				t.Errorf("requested the logs of %d blocks at once", n.widest)
			}
			if len(n.calls) > 14 {
				t.Errorf("took %d calls", len(n.calls))
			}
		})
	}
}

// However old a payment is, and however unevenly blocks have come, a look at it
// takes few calls.
func TestLook_TakesFewCalls(t *testing.T) {
	for name, c := range map[string]struct {
		block, calls int
		uneven       func(*node)
	}{
		"two minutes":                {block: 19_999_940, calls: 8},
		"a day":                      {block: 19_956_800, calls: 11},
		"a year":                     {block: 4_231_800, calls: 11},
		"a year, and the pace moved": {block: 4_231_800, calls: 24, uneven: func(n *node) { n.slow = 12_000_000 }},
	} {
		n := newNode(t)
		n.latest, n.final = 20_000_000, 19_999_900
		if c.uneven != nil {
			c.uneven(n)
		}
		q := query(1, c.block)
		q.Claimed, q.ValidBefore = n.timeOf(c.block), n.timeOf(c.block).Add(time.Minute)
		n.spend(c.block+2, paying, mark(used, 1), move(seller, 10000))
		if found, err := reader(t, n.url).Authorization(context.Background(), q); err != nil || found.Status != payment.PaidToUs {
			t.Errorf("%s: got %+v, %v", name, found, err)
		}
		if len(n.calls) > c.calls {
			t.Errorf("%s: took %d calls, want at most %d", name, len(n.calls), c.calls)
		}
	}
}

// The transaction that the facilitator named counts only when it was to spend
// this authorization, and the authorization is not spent.
func TestLook_ATransactionThatFailed(t *testing.T) {
	const block = 99_990
	named := nonce(0xfa)
	input := "0xe3ee160e" + word(payer)[2:] + strings.ToUpper(nonce(1)[2:])
	for name, c := range map[string]struct {
		chain func(*node)
		block int
		want  payment.AuthorizationStatus
	}{
		"it was this one's":           {chain: func(n *node) { n.reverted = map[string]string{named: input} }, want: payment.Reverted},
		"it paid":                     {chain: func(n *node) { n.spend(block+1, named, mark(used, 1), move(seller, 10000)) }, want: payment.PaidToUs},
		"it was another one's":        {chain: func(n *node) { n.reverted = map[string]string{named: "0xe3ee160e" + nonce(2)[2:]} }, want: payment.Unused},
		"it is not on the chain":      {chain: func(*node) {}, want: payment.Unused},
		"it succeeded, with no event": {chain: func(n *node) { n.spend(block, named, mark(used, 2)) }, want: payment.Unused},
		"another one paid": {chain: func(n *node) {
			n.reverted = map[string]string{named: input}
			n.spend(block+1, paying, mark(used, 1), move(seller, 10000))
		}, want: payment.PaidToUs},
		"it is over": {chain: func(n *node) { n.reverted = map[string]string{named: input} }, block: 40_000, want: payment.Expired},
		"it is over, and a backend lacks the newest block": {chain: func(n *node) { n.lacks = n.latest }, block: 40_000, want: payment.Expired},
	} {
		n := newNode(t)
		c.chain(n)
		q := query(1, cmp.Or(c.block, block))
		q.Transaction = named
		if found, err := reader(t, n.url).Authorization(context.Background(), q); err != nil || found.Status != c.want {
			t.Errorf("%s: got %+v, %v; want %d", name, found, err, c.want)
		}
	}
	for name, change := range map[string]func(*node){
		"used without a log": func(n *node) { n.states[nonce(1)] = true },
		"a backend that is behind": func(n *node) {
			n.spend(block+1, paying, mark(used, 1), move(seller, 10000))
			n.behind = true
		},
		"a latest block before the transaction's": func(n *node) { n.latest = block + 2 },
	} {
		n := newNode(t)
		n.reverted = map[string]string{named: input}
		change(n)
		q := query(1, block)
		q.Transaction = named
		if found, err := reader(t, n.url).Authorization(context.Background(), q); err == nil {
			t.Errorf("%s: got %+v", name, found)
		}
	}
}

func TestLook_WhatTheNodeContradictsIsNotKnown(t *testing.T) {
	for name, change := range map[string]func(*node){
		"another chain":                   func(n *node) { n.chain = 1 },
		"used, but no log":                func(n *node) { n.states[nonce(1)] = true },
		"a failed transaction with a log": func(n *node) { n.spend(40_002, paying, mark(used, 1), move(seller, 10000)); n.contradicts = true },
		"a backend that is behind": func(n *node) {
			n.spend(40_002, paying, mark(used, 1), move(seller, 10000))
			n.behind = true
		},
		"a receipt without its logs": func(n *node) {
			n.spend(40_002, paying, mark(used, 1), move(seller, 10000))
			failing("eth_getTransactionReceipt", `{"result":{"status":"0x1","transactionHash":"`+paying+`","logs":[]}}`)(n)
		},
		"a node error":                     failing("eth_getLogs", `{"error":{"code":-32000,"message":"pruned"}}`),
		"no JSON":                          failing("eth_getLogs", `<html>`),
		"no result":                        failing("eth_getLogs", `{"result":null}`),
		"another form":                     failing("eth_getLogs", `{"result":{"x":1}}`),
		"a state of another form":          failing("eth_call", `{"result":"0x"}`),
		"a block without a time":           failing("eth_getBlockByNumber", `{"result":{"number":"0x1","timestamp":"soon"}}`),
		"a block that is not there at all": failing("eth_getBlockByNumber", `{"result":null}`),
	} {
		n := newNode(t)
		change(n)
		if found, err := reader(t, n.url).Authorization(context.Background(), query(1, 40_000)); err == nil {
			t.Errorf("%s: got %+v", name, found)
		}
	}
}

func failing(method, answer string) func(*node) {
	return func(n *node) {
		n.fault = func(called string) (string, bool) { return answer, called == method }
	}
}

func TestLook_TheNextNodeIsCalledWhenOneFails(t *testing.T) {
	broken, good := newNode(t), newNode(t)
	failing("eth_getLogs", "")(broken)
	good.spend(99_992, paying, mark(used, 1), move(seller, 10000))
	found, err := reader(t, broken.url, good.url).Authorization(context.Background(), query(1, 99_990))
	if err != nil || found.Status != payment.PaidToUs {
		t.Errorf("got %+v, %v", found, err)
	}
}

// TestLook_ANodeThatRedirectsIsNotFollowed: its own address was allowed, and no other.
func TestLook_ANodeThatRedirectsIsNotFollowed(t *testing.T) {
	other := newNode(t)
	other.spend(99_992, paying, mark(used, 1), move(seller, 10000))
	redirects := httptest.NewServer(http.RedirectHandler(other.url, http.StatusTemporaryRedirect))
	t.Cleanup(redirects.Close)
	found, err := reader(t, redirects.URL).Authorization(t.Context(), query(1, 99_990))
	if err == nil || other.exchanges != 0 {
		t.Errorf("got %+v, and called the other address %d times", found, other.exchanges)
	}
}

func TestLook_ANodeThatHangsLeavesTimeForTheNext(t *testing.T) {
	hangs, good := newNode(t), newNode(t)
	hangs.fault = func(string) (string, bool) {
		time.Sleep(2 * time.Second)
		return "", true
	}
	good.spend(99_992, paying, mark(used, 1), move(seller, 10000))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	found, err := reader(t, hangs.url, good.url).Authorization(ctx, query(1, 99_990))
	if err != nil || found.Status != payment.PaidToUs {
		t.Errorf("got %+v, %v", found, err)
	}
}

// TestLook_ANodeThatHangsAtFinalityIsNotTheLastWord: the next one is asked.
func TestLook_ANodeThatHangsAtFinalityIsNotTheLastWord(t *testing.T) {
	hangs, good := newNode(t), newNode(t)
	hangs.finalAfter = 2 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	found, err := reader(t, hangs.url, good.url).Authorization(ctx, query(1, 40_000))
	if err != nil || found.Status != payment.Expired {
		t.Errorf("got %+v, %v", found, err)
	}
}

// TestLook_ANodeThatIsSlowIsNotGivenUp while each of its answers comes in time.
func TestLook_ANodeThatIsSlowIsNotGivenUp(t *testing.T) {
	slow := func() *node {
		n := newNode(t)
		n.fault = func(string) (string, bool) {
			time.Sleep(150 * time.Millisecond)
			return "", false
		}
		n.spend(99_992, paying, mark(used, 1), move(seller, 10000))
		return n
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	found, err := reader(t, slow().url, slow().url, slow().url, slow().url).Authorization(ctx, query(1, 99_990))
	if err != nil || found.Status != payment.PaidToUs {
		t.Errorf("got %+v, %v", found, err)
	}
}

// TestLook_FindsAPaymentThatWasMadeLongBeforeItsClaim: who has seen the authorization may carry it out at once, and its
// buyer may send it at its end.
func TestLook_FindsAPaymentThatWasMadeLongBeforeItsClaim(t *testing.T) {
	n := newNode(t)
	n.spend(99_000, paying, mark(used, 1), move(seller, 10000)) // 33 minutes earlier
	found, err := reader(t, n.url).Authorization(t.Context(), query(1, 99_990))
	if err != nil || found.Status != payment.PaidToUs {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestLook_APaymentOfAnotherNetworkIsNotKnown(t *testing.T) {
	p := query(1, 40_000)
	p.Key.Network = "eip155:8453"
	if found, err := reader(t, newNode(t).url).Authorization(t.Context(), p); !errors.Is(err, payment.ErrOtherNetwork) {
		t.Errorf("got %+v, %v", found, err)
	}
}

// With a quorum of two, the word of one node alone decides nothing.
func TestLook_AQuorumOfNodesMustAgree(t *testing.T) {
	pays := func(n *node) { n.spend(40_002, paying, mark(used, 1), move(seller, 10000)) }
	quiet := func(*node) {}
	away := failing("eth_getBlockByNumber", "")
	for name, c := range map[string]struct {
		nodes []func(*node)
		want  payment.AuthorizationStatus
		fails bool
	}{
		"both are paid":                {nodes: []func(*node){pays, pays}, want: payment.PaidToUs},
		"one invents a payment":        {nodes: []func(*node){pays, quiet}, fails: true},
		"one of three invents one":     {nodes: []func(*node){pays, quiet, quiet}, want: payment.Expired},
		"one of three withholds one":   {nodes: []func(*node){quiet, pays, pays}, want: payment.PaidToUs},
		"one is away":                  {nodes: []func(*node){pays, away}, fails: true},
		"one of three is away":         {nodes: []func(*node){pays, away, pays}, want: payment.PaidToUs},
		"one calls it final too early": {nodes: []func(*node){quiet, func(n *node) { n.final = 39_000 }}, fails: true},
	} {
		var urls []string
		for _, change := range c.nodes {
			n := newNode(t)
			change(n)
			urls = append(urls, n.url)
		}
		r, err := chainlog.New("eip155:84532", urls, 2)
		if err != nil {
			t.Fatal(err)
		}
		found, err := r.Authorization(context.Background(), query(1, 40_000))
		if (err != nil) != c.fails || err == nil && found.Status != c.want {
			t.Errorf("%s: got %+v, %v", name, found, err)
		}
	}
	if _, err := chainlog.New("eip155:1", []string{"http://127.0.0.1:1"}, 2); err == nil {
		t.Error("a quorum of more nodes than there are was taken")
	}
}

func TestError_NeverHoldsANodesKey(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	for _, url := range []string{server.URL + "/v2/hunter2", "http://127.0.0.1:1/hunter2", "http://%zz/hunter2"} {
		_, err := reader(t, url).Authorization(context.Background(), query(1, 99_990))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestReader_NeedsANetworkAndANode(t *testing.T) {
	if _, err := chainlog.New("base", []string{"http://127.0.0.1:1"}, 1); err == nil {
		t.Error("a network of another form was taken")
	}
	if _, err := chainlog.New("eip155:1", nil, 1); err == nil {
		t.Error("no node was taken")
	}
}

// Nothing may be called unused, so that the buyer is told to pay anew, by the log alone.
func TestAuthorization_IsNotKnownWhereTheLogAndTheStateDiffer(t *testing.T) {
	n := newNode(t)
	e := mark(used, 1)
	e.Removed = true
	n.spend(99_992, paying, e, move(seller, 10000))
	if found, err := reader(t, n.url).Authorization(context.Background(), query(1, 99_990)); err == nil {
		t.Errorf("got %+v", found)
	}
}
