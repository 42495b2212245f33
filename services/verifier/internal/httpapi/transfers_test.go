package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// openRecorded serves every recording as a chain of its own.
func openRecorded(t *testing.T) *world {
	t.Helper()
	w := open(t, nil)
	for _, name := range chaintest.Names(t) {
		if name != "execution-apis-devnet" {
			w.more = append(w.more, name)
		}
	}
	w.reopen()
	return w
}

// buyTransfer asks a chain about a transfer, with a payment.
func (w *world) buyTransfer(chain, nonce, transaction, transfer string) reply {
	w.Helper()
	name, value := w.v2(nonce)
	return w.do(http.MethodPost, "/v1/verify/"+chain+"-token-transfer", `{"transactionHash":"`+transaction+`","transfer":`+transfer+`}`, name, value)
}

// wantTransfer checks a paid answer as a stranger does, and returns the transfer.
func (r reply) wantTransfer(w *world) receipt.ProvenTransfer {
	r.Helper()
	if r.status != http.StatusOK {
		r.Fatalf("status is %d: %s", r.status, r.body)
	}
	keys, err := receipt.NewKeyDocument(w.key, "eip155:8453")
	w.must(err)
	verified, err := receipt.VerifyTransfer(r.body, keys)
	if err != nil {
		r.Fatalf("the receipt does not verify: %v", err)
	}
	if _, err := receipt.Verify(r.body, keys); err == nil {
		r.Error("it is taken for a receipt of the other kind")
	}
	return *verified.Receipt.Transfer
}

// wantHint checks a 422 about a transfer, and returns the failed check.
func (r reply) wantHint(reason, hint string) verification.Check {
	r.Helper()
	f := r.wantFailure(http.StatusUnprocessableEntity, reason)
	if r.header.Get(x402.HeaderPaymentRequired) != "" || r.header.Get(x402.HeaderPaymentResponse) != "" {
		r.Errorf("payment headers on a 422: %v", r.header)
	}
	for _, check := range f.Checks {
		if check.Result == verification.Fail && check.Hint == hint {
			return check
		}
	}
	r.Errorf("no check fails with the hint %q: %s", hint, r.body)
	return verification.Check{}
}

// Recorded transfers of real chains, each from the node's answers to what a stranger
// verifies.
func TestTransfer_RecordedOnes(t *testing.T) {
	w := openRecorded(t)
	const (
		ethereum, later, polygon, base2M = "ethereum-18000000", "ethereum-22119617", "polygon-38102393", "base-mainnet-2000000"

		usdcPaid  = "0x513a4abc759c2d30fd7f5a7e5239e72fccc1b24491b1ed99fa9f24b96e36fc88"
		twice     = "0x72be400313ec1f8e3f6f83907cc06a790c5117cee3ff525ce92dd6e02b220a4a"
		micro     = "0xc7c90c547315172337df1efd41954071dc9ae33787c1b55537481f886afda49b"
		minted    = "0x70a4880ff0b38c0c329801ec4042acbf581f918a8bb19af067b21d295294abfe"
		router    = "0x2e1d81473d582450c1e75709902396aa65ac4fbdd2b04f2bc08d24b32a569c1c"
		withFee   = "0xc2e9b3d343ee421a51df3a881f5648e1a73636ef9e5ca47b810d33f33d7b8515"
		byzantium = "0xea1093d492a1dcb1bef708f771a99a96ff05dcab81ca76c31940300177fcf49f"

		usdc     = `"token":"0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48","to":"0x91a559d248a216d1dd17c4d39f51bda9bd1de7e2"`
		twoEqual = `"token":"0x85bd3f256bc7913608a22d6e7b63dab2f761877f","to":"0xed4fce0dc7c618c39956f82eacd96bc1cde54cec"`
		mint     = `"token":"0x1c728d93c8a46d26ac97dffb3aa6d82d73ea4400","to":"0x4219b326e7ac99c374cd6be00f301c7231dea736","amount":"100000000000000000000000000"`
		weth     = `"token":"0x4200000000000000000000000000000000000006","amount":"29102531643592471"`
	)
	type found struct {
		Position             int // -1 for the native coin
		Matches, ToIn, ToOut string
	}
	for i, c := range []struct {
		name, chain, transaction, asked string
		want                            found
		reason, hint                    string
	}{
		{name: "USDC paid", chain: ethereum, transaction: usdcPaid, asked: usdc + `,"from":"0x7b60e46eba142b7e95e967c1e34cfb862385ee53","amount":"1800000000"`, want: found{0, "1", "1800000000", "0"}},
		{name: "a unit less", chain: ethereum, transaction: usdcPaid, asked: usdc + `,"amount":"1799999999"`, hint: "amount_differs"},
		{name: "at least", chain: ethereum, transaction: usdcPaid, asked: usdc + `,"minAmount":"1"`, want: found{0, "1", "1800000000", "0"}},
		{
			name: "address poisoning", chain: ethereum, transaction: "0x6742cd57e6aefce4b96887bb3090371ac49414c6b45a21e43d9e41e0ea9ed5ab",
			asked: `"token":"0xdac17f958d2ee523a2206206994597c13d831ec7","from":"0x0865dfee215af901c0ff9e0db44b96074e434c63","to":"0x811b105d5d5d9e0b709fbf9ce0fbb11ce4b1c093","minAmount":"1"`,
			hint:  "amount_differs",
		},
		{
			name: "the native coin", chain: ethereum, transaction: "0x5119dcc6bb07181742fd0366196021b120cc1c022c62ce3d3e272a7584fe4e2f",
			asked: `"token":"native","to":"0x846F480E35ef9c99f0160783850f01ba2c2bc907","amount":"69970000000000014"`, want: found{-1, "1", "69970000000000014", "0"},
		},
		{
			name: "reverted", chain: ethereum, transaction: "0xec080b91deea33830c3e626201662243c66c1f3d10da01f32c4cb0ebf395012a",
			asked: usdc + `,"minAmount":"1"`, hint: "reverted",
		},
		{
			name: "reverted, with a log of the chain's own", chain: polygon, transaction: "0x84d54176ca9de6a4c74a3212d45692042c24e87cba854a7b177cf22851f10af1",
			asked: `"token":"0x0000000000000000000000000000000000001010","to":"0xef46d5fe753c988606e6f703260d816af53b03eb","minAmount":"1"`, hint: "reverted",
		},
		{name: "two equal transfers", chain: later, transaction: twice, asked: twoEqual + `,"amount":"40000000000000000000000"`, want: found{3, "2", "80000000000000000000000", "0"}},
		{name: "the second of them", chain: later, transaction: twice, asked: twoEqual + `,"amount":"40000000000000000000000","logPosition":4`, want: found{4, "1", "80000000000000000000000", "0"}},
		{name: "another place", chain: later, transaction: twice, asked: twoEqual + `,"amount":"40000000000000000000000","logPosition":5`, hint: "position_differs"},
		{name: "no sum of two", chain: later, transaction: twice, asked: twoEqual + `,"minAmount":"80000000000000000000000"`, hint: "amount_differs"},
		{
			name: "passed on at once", chain: polygon, transaction: "0xefdff620754e2394ecafec90deaa5f23482bbbe1b3d9ffeb95b00e17b318212c",
			asked: `"token":"0x2791bca1f2de4661ed88a30c99a7a9449aa84174","from":"0xba12222222228d8ba445958a75a0704d566bf2c8","to":"0xdadaa2bc64e80b23ae46dc57d2afc766eac555d5","amount":"333000000"`,
			want:  found{0, "1", "999182363", "999182363"},
		},
		{name: "bridged USDC", chain: polygon, transaction: micro, asked: `"token":"0x2791bca1f2de4661ed88a30c99a7a9449aa84174","to":"0xa8152c04a09c647ea002d615648b5c7d496d6337","amount":"10000"`, want: found{0, "1", "10000", "0"}},
		{name: "native USDC is another token", chain: polygon, transaction: micro, asked: `"token":"0x3c499c542cef5e3811e1192ce70d8cc03d5c3359","to":"0xa8152c04a09c647ea002d615648b5c7d496d6337","amount":"10000"`, hint: "no_log_of_this_token"},
		{
			name: "ERC-721", chain: base2M, transaction: "0xd31874dbda604f6f05625d058fafee627fe48c9ef391b934a785b9290c32424b",
			asked: `"token":"0xaa574f4aab92e153b4781a099e011441e6929b44","from":"0x0000000000000000000000000000000000000000","to":"0xde69ce9dafe32ceb1360931635771314ffa03590","amount":"270"`,
			hint:  "not_an_erc20_event",
		},
		{name: "a mint that is not asked for", chain: base2M, transaction: minted, asked: mint, hint: "mint_or_burn"},
		{name: "a mint that is", chain: base2M, transaction: minted, asked: mint + `,"from":"0x0000000000000000000000000000000000000000"`, want: found{0, "1", "100000000000000000000000000", "0"}},
		{name: "a deposit of WETH", chain: base2M, transaction: router, asked: weth + `,"to":"0xfcd3842f85ed87ba2889b4d35893403796e67ff1"`, hint: "other_parties"},
		{
			name: "what the router then paid", chain: base2M, transaction: router,
			asked: weth + `,"from":"0xfcd3842f85ed87ba2889b4d35893403796e67ff1","to":"0xebd851ce4af34113ee41e78947194dc71ff1ab03"`, want: found{1, "1", "29102531643592471", "87307594930777"},
		},
		{
			name: "a fee on transfers", chain: base2M, transaction: withFee,
			asked: `"token":"0xd75d95a39ddd27e29e5a4afaed69bd09d10616db","from":"0x0fa12a2455aaacea1e575a8aba1a054b18a539c4","to":"0x66efcb08d6da031f42e10637b06dbf890fae902b","amount":"4318052023800663423131751683"`,
			want:  found{0, "1", "4318052023800663423131751683", "12954156071401990269395255"},
		},
		{
			name: "Optimism", chain: "op-mainnet-109860869", transaction: "0x279fb42ea66a255ba7b5037e9e72b39888c882db6e7ea77803591466575c0299",
			asked: `"token":"0x7f5c764cbc14f9669b88837ca1490cca17c31607","from":"0x85149247691df622eaf1a8bd0cafd40bc45154a9","to":"0x6cfdac4a1f9df334db8dccfda2fb62b46f705582","amount":"2200070048"`,
			want:  found{0, "1", "2200070048", "0"},
		},
		{
			name: "Arbitrum", chain: "arbitrum-one-150000000", transaction: "0x02df6da97872f8a3e9760212bd548fc74663bd7f844f73969c81082ce7d3d632",
			asked: `"token":"0xaf88d065e77c8cc2239327c5edb3a432268e5831","from":"0x5e236e21631efed73420b6ed9275a30ca5aa82df","to":"0x769d6a494aef318b175b76ec19dcbef3ac6f4a05","amount":"13045941762"`,
			want:  found{10, "1", "13045941762", "0"},
		},
		{
			name: "native coin moved by a contract", chain: base2M, transaction: withFee,
			asked: `"token":"native","to":"0x0fa12a2455aaacea1e575a8aba1a054b18a539c4","minAmount":"1"`, hint: "not_in_the_transaction_itself",
		},
		{
			name: "before Byzantium", chain: "ethereum-1000000", transaction: byzantium,
			asked: `"token":"native","to":"0x0000000000000000000000000000000000000001","minAmount":"1"`, reason: "status_unavailable",
		},
		{
			name: "an x402 payment", chain: "eip3009-devnet", transaction: "0x42817edbca3b0456092d306c67a7e281f0baab2d987f79b95d7aac26064b6694",
			asked: `"token":"0x036cbd53842c5426634e7929541ec2318f3dcf7e","to":"0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc","amount":"10000",` +
				`"authorization":{"authorizer":"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266","nonce":"0x5be8e543063152124a76988173c8dfe5b3ab21bcf752713794a036f9bf288ba3"}`,
			want: found{1, "1", "10000", "0"},
		},
		{
			name: "another x402 payment", chain: "eip3009-devnet", transaction: "0x42817edbca3b0456092d306c67a7e281f0baab2d987f79b95d7aac26064b6694",
			asked: `"token":"0x036cbd53842c5426634e7929541ec2318f3dcf7e","to":"0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc","amount":"10000",` +
				`"authorization":{"authorizer":"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266","nonce":"0x6be8e543063152124a76988173c8dfe5b3ab21bcf752713794a036f9bf288ba3"}`,
			hint: "authorization_not_used_for_it",
		},
	} {
		before := w.sim.Transfers()
		r := w.buyTransfer(c.chain, fmt.Sprintf("%x", i+1), c.transaction, "{"+c.asked+"}")
		t.Run(c.name, func(t *testing.T) {
			r.TB = t
			if c.hint != "" || c.reason != "" {
				if c.reason == "" {
					c.reason = "expectation_mismatch"
				}
				r.wantHint(c.reason, c.hint)
				if charged := w.sim.Transfers() - before; charged != 0 {
					t.Error("it was charged")
				}
				return
			}
			proven := r.wantTransfer(w)
			got := found{-1, proven.Matches, proven.ToIn, proven.ToOut}
			if proven.LogPosition != nil {
				got.Position = *proven.LogPosition
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTransfer_A422LetsTheClientCorrectItself(t *testing.T) {
	w := open(t, nil)
	const router = "0x2e1d81473d582450c1e75709902396aa65ac4fbdd2b04f2bc08d24b32a569c1c"
	r := w.buyTransfer("base", "1", router, `{"token":"0x4200000000000000000000000000000000000006","to":"0xebd851ce4af34113ee41e78947194dc71ff1ab03","amount":"1"}`)
	r.wantHint("expectation_mismatch", "amount_differs")
	var answer struct {
		Checks []struct {
			Name, Result, Hint string
			Expected, Found    json.RawMessage
		}
	}
	w.must(json.Unmarshal(r.body, &answer))
	const listed = `[{"from":"0xfcd3842f85ed87ba2889b4d35893403796e67ff1","to":"0xebd851ce4af34113ee41e78947194dc71ff1ab03","amount":"29102531643592471","logPosition":1}`
	if len(answer.Checks) != 2 || answer.Checks[0].Name != "status" || answer.Checks[0].Result != "pass" || answer.Checks[1].Name != "transfer" ||
		!strings.HasPrefix(string(answer.Checks[1].Found), listed) {
		t.Errorf("%s", r.body)
	}
	var found []verification.FoundTransfer
	w.must(json.Unmarshal(answer.Checks[1].Found, &found))
	if len(found) == 0 || len(found) > 8 {
		t.Errorf("%d transfers are listed", len(found))
	}
	// The corrected request, with the same payment: nothing was taken.
	corrected := w.buyTransfer("base", "1", router, fmt.Sprintf(
		`{"token":"0x4200000000000000000000000000000000000006","to":%q,"amount":%q,"logPosition":%d}`, found[0].To, found[0].Amount, *found[0].LogPosition))
	corrected.wantTransfer(w)
	w.wantTransfers(1)
}

func TestTransfer_TooFewConfirmations(t *testing.T) {
	w := openAt(t, func(w *world) { w.node.SetHeads(2_000_010, 2_000_005) })
	name, value := w.v2("1")
	body := strings.Replace(transferBody, `"transfer"`, `"expectations":{"minConfirmations":12},"transfer"`, 1)
	r := w.do(http.MethodPost, transfers, body, name, value)
	if f := r.wantFailure(http.StatusUnprocessableEntity, "insufficient_confirmations"); !*f.Retryable || f.RetryAfterSeconds == 0 || len(f.Checks) != 3 {
		t.Errorf("%s", r.body)
	}
	w.node.SetHeads(2_000_011, 2_000_006)
	w.reopen()
	w.do(http.MethodPost, transfers, body, name, value).wantTransfer(w)
}

const transferBody = `{"transactionHash":"0x2e1d81473d582450c1e75709902396aa65ac4fbdd2b04f2bc08d24b32a569c1c",` +
	`"transfer":{"token":"0x4200000000000000000000000000000000000006","to":"0xebd851ce4af34113ee41e78947194dc71ff1ab03","amount":"29102531643592471"}}`

func TestTransfer_OneOperationsPaymentDoesNotBuyTheOther(t *testing.T) {
	w := open(t, nil)
	name, value := w.v2("1")
	paid := w.do(http.MethodPost, transfersAlias, transferBody, name, value)
	paid.wantTransfer(w)
	w.post(goodBody, name, value).wantFailure(http.StatusPaymentRequired, "payment_already_used")
	if again := w.do(http.MethodPost, transfers, transferBody, name, value); string(again.body) != string(paid.body) {
		t.Error("the chain's own path has another answer than the first path")
	}
	name, value = w.v2("2")
	w.post(goodBody, name, value).wantReceipt(w)
	w.do(http.MethodPost, transfers, transferBody, name, value).wantFailure(http.StatusPaymentRequired, "payment_already_used")
	w.wantTransfers(2)
}

func TestTransfer_HasOneCanonicalQuestion(t *testing.T) {
	w := open(t, nil)
	name, value := w.v2("1")
	want := w.do(http.MethodPost, transfers, transferBody, name, value)
	want.wantTransfer(w)
	var spelled map[string]any
	w.must(json.Unmarshal([]byte(transferBody), &spelled))
	text, err := json.MarshalIndent(spelled, " ", "  ")
	w.must(err)
	loud := strings.NewReplacer("ebd851ce", "EBD851CE", "2e1d8147", "2E1D8147").Replace(string(text))
	if got := w.do(http.MethodPost, transfers, loud, name, value); string(got.body) != string(want.body) {
		t.Errorf("another spelling has another answer: %s", got.body)
	}
	w.wantTransfers(1)
}

func TestTransfer_AMalformedOneIs400WithItsField(t *testing.T) {
	w := open(t, nil)
	name, value := w.v2("1")
	const token, payee, payer = `"token":"0x4200000000000000000000000000000000000006"`, `"to":"0xebd851ce4af34113ee41e78947194dc71ff1ab03"`, `"from":"0xfcd3842f85ed87ba2889b4d35893403796e67ff1"`
	const zero, max256 = "0x0000000000000000000000000000000000000000", "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	nonce := `"nonce":"0x` + strings.Repeat("11", 32) + `"`
	for asked, field := range map[string]string{
		`{` + payee + `,"amount":"1"}`:                                                                                                         "transfer.token",
		`{"token":"Native",` + payee + `,"amount":"1"}`:                                                                                        "transfer.token",
		`{"token":"` + zero + `",` + payee + `,"amount":"1"}`:                                                                                  "transfer.token",
		`{"token":"0xfffffffffffffffffffffffffffffffffffffffE",` + payee + `,"amount":"1"}`:                                                    "transfer.token",
		`{` + token + `,"amount":"1"}`:                                                                                                         "transfer.to",
		`{` + token + `,"to":"` + zero + `","amount":"1"}`:                                                                                     "transfer.to",
		`{` + token + `,"to":"0x12","amount":"1"}`:                                                                                             "transfer.to",
		`{` + token + `,` + payee + `,"from":"0xEBD851ce4af34113ee41e78947194dc71ff1ab03","amount":"1"}`:                                       "transfer.from",
		`{` + token + `,` + payee + `}`:                                                                                                        "transfer.amount",
		`{` + token + `,` + payee + `,"amount":"0"}`:                                                                                           "transfer.amount",
		`{` + token + `,` + payee + `,"amount":"01"}`:                                                                                          "transfer.amount",
		`{` + token + `,` + payee + `,"amount":"1.0"}`:                                                                                         "transfer.amount",
		`{` + token + `,` + payee + `,"amount":"+1"}`:                                                                                          "transfer.amount",
		`{` + token + `,` + payee + `,"amount":"1_0"}`:                                                                                         "transfer.amount",
		`{` + token + `,` + payee + `,"amount":1}`:                                                                                             "transfer.amount",
		`{` + token + `,` + payee + `,"amount":"` + max256[:77] + `6"}`:                                                                        "transfer.amount",
		`{` + token + `,` + payee + `,"minAmount":"0"}`:                                                                                        "transfer.minAmount",
		`{` + token + `,` + payee + `,"amount":"1","minAmount":"1"}`:                                                                           "transfer.minAmount",
		`{` + token + `,` + payee + `,"amount":"1","logPosition":-1}`:                                                                          "transfer.logPosition",
		`{` + token + `,` + payee + `,"amount":"1","logPosition":1000001}`:                                                                     "transfer.logPosition",
		`{` + token + `,` + payee + `,"amount":"1","logPosition":"0"}`:                                                                         "transfer.logPosition",
		`{` + token + `,` + payee + `,"amount":"1","logPosition":0.5}`:                                                                         "transfer.logPosition",
		`{` + token + `,` + payee + `,"amount":"1","logIndex":0}`:                                                                              "transfer.logIndex",
		`{` + token + `,` + payee + `,"amount":"1","amount":"2"}`:                                                                              "transfer.amount",
		`{` + token + `,` + payee + `,"amount":null}`:                                                                                          "transfer.amount",
		`{"token":"native",` + payee + `,"amount":"1","logPosition":0}`:                                                                        "transfer.logPosition",
		`{"token":"native",` + payee + `,"amount":"1","authorization":{"authorizer":"` + zero + `",` + nonce + `}}`:                            "transfer.authorization",
		`{` + token + `,` + payee + `,"amount":"1","authorization":{` + nonce + `}}`:                                                           "transfer.authorization.authorizer",
		`{` + token + `,` + payee + `,"amount":"1","authorization":{"authorizer":"0xfcd3842f85ed87ba2889b4d35893403796e67ff1"}}`:               "transfer.authorization.nonce",
		`{` + token + `,` + payee + `,"amount":"1","authorization":{"authorizer":"0xebd851ce4af34113ee41e78947194dc71ff1ab03",` + nonce + `}}`: "transfer.authorization.authorizer",
		`{` + token + `,` + payee + `,` + payer + `,"amount":"1","authorization":{"authorizer":"` + zero + `",` + nonce + `}}`:                 "transfer.from",
		`[]`: "transfer",
		`{` + token + `,` + payee + `,"amount":"1"},"expectations":{"status":"success"}`:   "expectations.status",
		`{` + token + `,` + payee + `,"amount":"1"},"expectations":{"minConfirmations":0}`: "expectations.minConfirmations",
		`{` + token + `,` + payee + `,"amount":"1"},"to":"` + zero + `"`:                   "to",
		`{` + token + `,` + payee + `,"amount":"1"},"Transfer":{}`:                         "Transfer",
	} {
		body := `{"transactionHash":"0x2e1d81473d582450c1e75709902396aa65ac4fbdd2b04f2bc08d24b32a569c1c","transfer":` + asked + `}`
		for _, header := range [][]string{nil, {name, value}} {
			if f := w.do(http.MethodPost, transfers, body, header...).wantFailure(http.StatusBadRequest, "invalid_request"); f.Field != field {
				t.Errorf("%s: the field is %q, want %q", asked, f.Field, field)
			}
		}
	}
	for body, field := range map[string]string{
		`{"transfer":{` + token + `,` + payee + `,"amount":"1"}}`: "transactionHash", `{"transactionHash":"` + recordedTx + `"}`: "transfer",
	} {
		if f := w.do(http.MethodPost, transfers, body).wantFailure(http.StatusBadRequest, "invalid_request"); f.Field != field {
			t.Errorf("%s: the field is %q, want %q", body, f.Field, field)
		}
	}
	most := `{"transactionHash":"` + recordedTx + `","transfer":{` + token + `,` + payee + `,"amount":"` + max256 + `"}}`
	w.do(http.MethodPost, transfers, most).wantFailure(http.StatusPaymentRequired, "payment_required")
	w.wantTransfers(0)
}

func TestTransfer_BoughtAsAToolIsTheOneOverHTTP(t *testing.T) {
	w := open(t, nil)
	name, value := w.v2("1")
	paid := w.do(http.MethodPost, transfers, transferBody, name, value)
	paid.wantTransfer(w)
	got := w.rpc(message("verify_token_transfer", transferBody, w.toolPayment("1"))).result()
	if got.IsError || !bytes.Equal(w.linked(got), paid.body) {
		t.Errorf("got %+v", got)
	}
	w.wantTransfers(1)
	checked := w.call("check_receipt", `{"answer":`+string(paid.body)+`}`).result().Content[0].Text
	for _, want := range []string{`"valid":true`, `"kind":"chain-evidence-transfer"`, `"transfer.amount"`} {
		if !strings.Contains(checked, want) {
			t.Errorf("no %s in %s", want, checked)
		}
	}
	// The payment is of the same question: of decimals a tool makes atomic units.
	decimal := strings.Replace(transferBody, `"amount":"29102531643592471"`, `"amountDecimal":"0.029102531643592471"`, 1)
	if same := w.rpc(message("verify_token_transfer", decimal, w.toolPayment("1"))).result(); same.IsError || !bytes.Equal(w.linked(same), paid.body) {
		t.Errorf("got %+v", same)
	}
	w.wantTransfers(1)
	unknown := strings.Replace(decimal, "0x4200000000000000000000000000000000000006", "0x4200000000000000000000000000000000000007", 1)
	if f := w.call("verify_token_transfer", unknown).wantTool(http.StatusBadRequest, "invalid_request"); f.Field != "transfer.amountDecimal" {
		t.Errorf("the field is %q", f.Field)
	}
	bad := strings.Replace(transferBody, `"amount":"2`, `"amount":"0`, 1)
	if f := w.rpc(message("verify_token_transfer", bad, w.toolPayment("2"))).wantTool(http.StatusBadRequest, "invalid_request"); f.Field != "transfer.amount" {
		t.Errorf("the field is %q", f.Field)
	}
}
