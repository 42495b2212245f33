package verification_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

const (
	payerOnDevnet = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
	nonceOnDevnet = "0x5be8e543063152124a76988173c8dfe5b3ab21bcf752713794a036f9bf288ba3"

	authorized = `{"transactionHash":"0x42817edbca3b0456092d306c67a7e281f0baab2d987f79b95d7aac26064b6694","transfer":{` +
		`"token":"0x036cbd53842c5426634e7929541ec2318f3dcf7e","to":"0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc","amount":"10000",` +
		`"authorization":{"authorizer":"` + payerOnDevnet + `","nonce":"` + nonceOnDevnet + `"}}}`
)

func transferRequest(t testing.TB, body string) verification.TransferRequest {
	t.Helper()
	r, err := verification.ParseTransferRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// recordedSnapshot reads the transaction of a request from a recording.
func recordedSnapshot(t testing.TB, name string, r verification.TransferRequest) chain.Snapshot {
	t.Helper()
	recording := chaintest.Load(t, name)
	node := chaintest.NewNode(t, recording)
	hash, err := chain.ParseHash(r.TransactionHash)
	if err != nil {
		t.Fatal(err)
	}
	s, err := read(t, chain.Config{Name: "some", ID: recording.ChainID, RPCURLs: []string{node.URL}}).Read(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func hintsOf(err error) (hints []string) {
	var mismatch *verification.MismatchError
	if errors.As(err, &mismatch) {
		for _, check := range mismatch.Checks {
			if check.Result == verification.Fail {
				hints = append(hints, check.Name+" "+check.Hint)
			}
		}
	}
	return hints
}

// The logs of an authorized payment as the development chain recorded it, in the
// arrangements that a transaction may have; pkg/receipt judges the same ones.
func TestTransfer_AnAuthorizationBelongsToOne(t *testing.T) {
	r := transferRequest(t, authorized)
	s := recordedSnapshot(t, "eip3009-devnet", r)
	logs, err := s.Outcome.Events()
	if err != nil || len(logs) != 2 {
		t.Fatalf("%d logs, %v", len(logs), err)
	}
	used, moved := logs[0], logs[1]
	with := func(e chain.Event, topic int, change func(*chain.Hash)) chain.Event {
		e.Topics = slices.Clone(e.Topics)
		change(&e.Topics[topic])
		return e
	}
	other := with(used, 2, func(h *chain.Hash) { h[0]++ })
	elsewhere := with(moved, 2, func(h *chain.Hash) { h[31]++ })
	stranger := with(elsewhere, 1, func(h *chain.Hash) { h[31]++ })
	canceled := with(used, 0, func(h *chain.Hash) {
		*h, _ = chain.ParseHash("0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81")
	})
	foreign, foreignMoved := used, moved
	foreign.Address[0]++
	foreignMoved.Address[0]++
	for name, c := range map[string]struct {
		logs           []chain.Event
		transfer, mark int
		hint           string
	}{
		"as USDC does it":                          {[]chain.Event{used, moved}, 1, 0, ""},
		"the mark after, one mark":                 {[]chain.Event{moved, used}, 0, 1, ""},
		"another nonce":                            {[]chain.Event{other, moved}, 0, 0, verification.HintNotUsed},
		"a batch, ours second":                     {[]chain.Event{other, elsewhere, used, moved}, 3, 2, ""},
		"our mark paid elsewhere, other paid here": {[]chain.Event{used, elsewhere, other, moved}, 0, 0, verification.HintNotUsed},
		"two marks, the transfer before both":      {[]chain.Event{moved, used, other}, 0, 0, verification.HintNotUsed},
		"cancelled beside a plain transfer":        {[]chain.Event{canceled, moved}, 0, 0, verification.HintAuthorizationDead},
		"a mark of another contract":               {[]chain.Event{foreign, moved}, 0, 0, verification.HintNotUsed},
		"logs of others between":                   {[]chain.Event{used, foreignMoved, moved}, 2, 0, ""},
		"paid elsewhere, a plain transfer before":  {[]chain.Event{moved, used, elsewhere}, 0, 0, verification.HintNotUsed},
		"the mark after, then a stranger's":        {[]chain.Event{moved, used, stranger}, 0, 1, ""},
		"a stranger's between":                     {[]chain.Event{used, stranger, moved}, 0, 0, verification.HintNotUsed},
	} {
		got, err := verification.JudgedTransfer(r, s, c.logs)
		switch {
		case c.hint != "":
			if hints := hintsOf(err); !slices.Equal(hints, []string{"authorization " + c.hint}) {
				t.Errorf("%s: %v, %v", name, hints, err)
			}
		case err != nil || *got.LogPosition != c.transfer || got.Authorization.LogPosition != c.mark:
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Should the service's own judgement ever differ from what the proof shows, nothing of
// it is signed.
func TestTransfer_WithoutAProofIsNoEvidence(t *testing.T) {
	r := transferRequest(t, authorized)
	honest := recordedSnapshot(t, "eip3009-devnet", r)
	for name, lie := range map[string]func([]chain.Event) []chain.Event{
		"":                    func(logs []chain.Event) []chain.Event { return logs },
		"a transfer twice":    func(logs []chain.Event) []chain.Event { return append(logs, logs[1]) },
		"a log before it":     func(logs []chain.Event) []chain.Event { return append([]chain.Event{{}}, logs...) },
		"the mark afterwards": func(logs []chain.Event) []chain.Event { slices.Reverse(logs); return logs },
	} {
		s := honest
		s.Outcome.Events = func() ([]chain.Event, error) {
			logs, err := honest.Outcome.Events()
			return lie(logs), err
		}
		reader := newReader(s.Chain, chain.Heads{Latest: 100, Finalized: 100})
		reader.Add(s)
		_, err := verification.Verifier{Reader: reader}.VerifyTransfer(t.Context(), r)
		if name == "" && err != nil || name != "" && !errors.Is(err, chain.ErrIntegrity) {
			t.Errorf("%q: %v", name, err)
		}
	}
	broken := honest
	broken.Outcome.Events = func() ([]chain.Event, error) { return nil, errors.New("not decoded") }
	reader := newReader(broken.Chain, chain.Heads{Latest: 100, Finalized: 100})
	reader.Add(broken)
	if _, err := (verification.Verifier{Reader: reader}).VerifyTransfer(t.Context(), r); !errors.Is(err, chain.ErrIntegrity) {
		t.Errorf("logs that cannot be decoded: %v", err)
	}
}

func TestTransfer_ToOneselfAndABurnHaveTheirHints(t *testing.T) {
	const token, payer, payee = "0xaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "0xcccccccccccccccccccccccccccccccccccccccc", "0xbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	body := func(members string) string {
		return `{"transactionHash":"0x` + strings.Repeat("11", 32) + `","transfer":{"token":"` + token + `","to":"` + payee + `","amount":"5"` + members + `}}`
	}
	zero := "0x" + strings.Repeat("0", 40)
	for name, c := range map[string]struct {
		members, from, to, hint string
		value                   int64
	}{
		"to oneself":       {``, payee, payee, verification.HintSelfTransfer, 5},
		"a burn":           {`,"from":"` + payer + `"`, payer, zero, verification.HintMintOrBurn, 5},
		"a mint":           {``, zero, payee, verification.HintMintOrBurn, 5},
		"of zero":          {``, payer, payee, verification.HintAmountDiffers, 0},
		"by someone else":  {`,"from":"` + payer + `"`, token, payee, verification.HintOtherParties, 5},
		"at another place": {`,"logPosition":1`, payer, payee, verification.HintPositionDiffers, 5},
		"as asked":         {``, payer, payee, "", 5},
	} {
		r := transferRequest(t, body(c.members))
		s := chain.Snapshot{Outcome: chain.Outcome{Status: chain.StatusSuccess}}
		_, err := verification.JudgedTransfer(r, s, []chain.Event{transferEvent(token, c.from, c.to, big.NewInt(c.value))})
		var want []string
		if c.hint != "" {
			want = []string{"transfer " + c.hint}
		}
		if hints := hintsOf(err); !slices.Equal(hints, want) {
			t.Errorf("%s: %v, want %v (%v)", name, hints, want, err)
		}
	}
}

func transferEvent(token, from, to string, value *big.Int) chain.Event {
	e := chain.Event{Topics: make([]chain.Hash, 3), Data: value.FillBytes(make([]byte, 32))}
	e.Address, _ = chain.ParseAddress(token)
	e.Topics[0], _ = chain.ParseHash("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")
	for i, address := range []string{from, to} {
		a, _ := chain.ParseAddress(address)
		copy(e.Topics[i+1][12:], a[:])
	}
	return e
}

// logsFrom makes logs of a small world out of bytes: two tokens, three accounts, the
// events that matter, and now and then a broken form.
func logsFrom(data []byte) (events []chain.Event) {
	next := func() (b byte) {
		if len(data) > 0 {
			b, data = data[0], data[1:]
		}
		return b
	}
	for len(data) > 0 && len(events) < 40 {
		kind, form := topics[next()%byte(len(topics))], next()
		e := chain.Event{Address: account(1 + next()/220), Topics: []chain.Hash{kind}}
		for place := 1; place < 3+int(form%16/14)-2*int(form%16/15); place++ {
			var topic chain.Hash
			switch b := next(); {
			case b >= 250: // badly padded
				topic[0], topic[31] = b, 1
			case place == 2 && kind != topics[0] && b < 220:
				topic = mustHash(nonceOnDevnet)
			default:
				a := account(b % 3)
				copy(topic[12:], a[:])
			}
			e.Topics = append(e.Topics, topic)
		}
		switch broken := form >> 4; {
		case broken == 15:
			e.Data = make([]byte, 31)
		case broken == 14:
			e.Data = slices.Repeat([]byte{0xff}, 32)
		case kind == topics[0] && broken < 13:
			e.Data = append(make([]byte, 31), next()%4)
		}
		events = append(events, e)
	}
	return events
}

// topics are the events of that world: transfers, authorizations used and canceled.
var topics = slices.Concat(
	slices.Repeat([]chain.Hash{mustHash("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")}, 4),
	slices.Repeat([]chain.Hash{mustHash("0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5")}, 3),
	[]chain.Hash{mustHash("0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81")},
)

func mustHash(text string) chain.Hash {
	hash, err := chain.ParseHash(text)
	if err != nil {
		panic(err)
	}
	return hash
}

// account is the zero address, or one of the others.
func account(n byte) (a chain.Address) {
	if n > 0 {
		a[0], a[19] = 0xa0, n
	}
	return a
}

// questionFrom makes a request about that world.
func questionFrom(data []byte) string {
	at := func(i int) byte {
		if i < len(data) {
			return data[i]
		}
		return 0
	}
	members := []string{fmt.Sprintf(`"token":%q,"to":%q`, account(1+at(0)/220), account(1+at(1)%2))}
	if at(2)%4 == 1 {
		members = append(members, fmt.Sprintf(`"from":%q`, account(at(2)/4%3)))
	}
	members = append(members, fmt.Sprintf(`"%s":"%d"`, []string{"amount", "minAmount"}[at(3)%2], 1+at(3)/2%3))
	if at(4)%4 == 3 {
		members = append(members, fmt.Sprintf(`"logPosition":%d`, at(4)/4%6))
	}
	if at(5)%2 == 1 {
		members = append(members, fmt.Sprintf(`"authorization":{"authorizer":%q,"nonce":%q}`, account(at(5)/2%3), nonceOnDevnet))
	}
	return `{"transactionHash":"0x` + strings.Repeat("11", 32) + `","transfer":{` + strings.Join(members, ",") + `}}`
}

// agree runs both judges, and fails when they differ; it reports whether they found a
// transfer.
func agree(t *testing.T, question string, events []chain.Event) bool {
	t.Helper()
	r, err := verification.ParseTransferRequest([]byte(question))
	if err != nil {
		return false
	}
	logs := make([]receipt.Log, len(events))
	for i, e := range events {
		logs[i] = receipt.Log{Address: e.Address.String(), Data: e.Data}
		for _, topic := range e.Topics {
			logs[i].Topics = append(logs[i].Topics, topic.String())
		}
	}
	ours, err := verification.JudgedTransfer(r, chain.Snapshot{Outcome: chain.Outcome{Status: chain.StatusSuccess}}, events)
	theirs, found := receipt.FindTransfer(*r.Transfer, receipt.Transaction{}, logs)
	if found != (err == nil) {
		t.Fatalf("%s: the service has %v, pkg/receipt found %v in\n%+v", question, err, found, logs)
	}
	if diff := cmp.Diff(theirs, ours); found && diff != "" {
		t.Fatalf("%s (-pkg/receipt +service):\n%s%+v", question, diff, logs)
	}
	return found
}

func TestTransfer_BothJudgesAgreeOnInventedLogs(t *testing.T) {
	random := rand.New(rand.NewPCG(17, 1))
	found, paired := 0, 0
	for range 30_000 {
		question, data := make([]byte, 6), make([]byte, 10+random.IntN(60))
		for _, part := range [][]byte{question, data} {
			for i := range part {
				part[i] = byte(random.Uint32())
			}
		}
		if asked := questionFrom(question); agree(t, asked, logsFrom(data)) {
			found++
			if strings.Contains(asked, "authorization") {
				paired++
			}
		}
	}
	if found < 500 || paired < 30 {
		t.Errorf("only %d of the questions have an answer, %d with an authorization", found, paired)
	}
}

// FuzzBothJudgesAgree checks that arbitrary logs never end the program and that both
// judges find the same transfer in them, or none.
func FuzzBothJudgesAgree(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0, 0}, []byte{1, 0x50, 0, 3, 2, 1})
	f.Add([]byte{0, 1, 0, 0, 0, 7}, []byte{1, 0, 1, 3, 220, 1, 0x50, 0, 3, 2, 1})
	f.Fuzz(func(t *testing.T, question, data []byte) { agree(t, questionFrom(question), logsFrom(data)) })
}

func TestTransfer_AFaultyTokenMayBeNative(t *testing.T) {
	_, err := verification.ParseTransferRequest([]byte(strings.Replace(authorized,
		"0x036cbd53842c5426634e7929541ec2318f3dcf7e", "USDC", 1)))
	if err == nil || !strings.HasSuffix(err.Error(), "or native for the chain's own coin") {
		t.Errorf("got %v", err)
	}
}

// FuzzParseTransferRequest checks that a request is refused with a place or has one
// canonical form, which pkg/receipt may be asked.
func FuzzParseTransferRequest(f *testing.F) {
	f.Add([]byte(authorized))
	f.Add([]byte(questionFrom([]byte{1, 2, 3, 4, 7, 0})))
	f.Add([]byte(`{"transactionHash":"0x` + strings.Repeat("Ab", 32) + `","transfer":{"token":"native","to":"0x` + strings.Repeat("Cd", 20) + `","minAmount":"1"},"expectations":{"minConfirmations":3}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := verification.ParseTransferRequest(body)
		if err != nil {
			var fault *strictjson.Error
			if !errors.As(err, &fault) {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		again, err := verification.ParseTransferRequest(r.Canonical())
		if err != nil || string(again.Canonical()) != string(r.Canonical()) {
			t.Errorf("%q: %s, then %s, %v", body, r.Canonical(), again.Canonical(), err)
		}
		var whole map[string]json.RawMessage
		if err := json.Unmarshal(r.Canonical(), &whole); err != nil || whole["transfer"] == nil {
			t.Errorf("%q: %s", body, r.Canonical())
		}
	})
}
