package chainlog_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/chainlog"
)

func TestAccount_IsReadInOneExchange(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*node)
		want payment.Account
	}{
		"with the amount":           {func(n *node) { n.balance = 10_000 }, payment.Account{Funded: true}},
		"with less":                 {func(n *node) { n.balance = 9_999 }, payment.Account{}},
		"that is a contract":        {func(n *node) { n.balance, n.code = 10_000, "0x6000" }, payment.Account{Funded: true, Code: true}},
		"that delegates (EIP-7702)": {func(n *node) { n.code = "0xef0100" + payer[2:] }, payment.Account{Code: true}},
		"that used the nonce":       {func(n *node) { n.states[nonce(1)] = true }, payment.Account{Used: true}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			c.set(n)
			got, err := reader(t, n.url).Account(context.Background(), query(1, 1).Key, "10000")
			if err != nil || got != c.want || n.exchanges != 1 {
				t.Errorf("got %+v, %v in %d exchanges, want %+v", got, err, n.exchanges, c.want)
			}
		})
	}
}

// That an authorization is not spent is not said on the word of one node, as nothing of money is.
func TestSpent_AQuorumOfNodesMustAgree(t *testing.T) {
	spent, behind := newNode(t), newNode(t)
	spent.states[nonce(1)] = true
	key := query(1, 1).Key
	for name, c := range map[string]struct {
		urls        []string
		want, fails bool
	}{
		"both have seen it":    {[]string{spent.url, spent.url}, true, false},
		"neither has":          {[]string{behind.url, behind.url}, false, false},
		"one has":              {[]string{behind.url, spent.url}, false, true},
		"one of three has not": {[]string{behind.url, spent.url, spent.url}, true, false},
	} {
		r, err := chainlog.New("eip155:84532", c.urls, 2)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Spent(t.Context(), key); got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestAccount_IsNotKnownFromANodeThatDoesNotKnow(t *testing.T) {
	for name, fault := range map[string]struct{ method, answer string }{
		"another chain":      {"eth_chainId", `{"id":0,"result":"0x1"}`},
		"no token":           {"eth_call", `{"id":1,"result":"0x"}`},
		"an error":           {"eth_getCode", `{"id":3,"error":{"code":-32005,"message":"too many"}}`},
		"an answer too few":  {"eth_getCode", `{"id":7,"result":"0x"}`},
		"code of no form":    {"eth_getCode", `{"id":3,"result":"00"}`},
		"a negative balance": {"eth_call", `{"id":1,"result":"0x-` + strings.Repeat("0", 62) + `1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			bad, good := newNode(t), newNode(t)
			bad.fault = func(method string) (string, bool) { return fault.answer, method == fault.method }
			if got, err := reader(t, bad.url).Account(context.Background(), query(1, 1).Key, "10000"); err == nil {
				t.Errorf("got %+v", got)
			}
			good.balance = 10_000
			if got, err := reader(t, bad.url, good.url).Account(context.Background(), query(1, 1).Key, "10000"); err != nil || !got.Funded {
				t.Errorf("the next node was not asked: %+v, %v", got, err)
			}
		})
	}
}
