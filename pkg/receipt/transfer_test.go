package receipt_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
)

// transferVectors are the recorded transfers that the golden vectors of the second
// kind are made of.
var transferVectors = []struct {
	name, block, transaction string
	asked                    receipt.ExpectedTransfer
}{
	{"transfer-usdc", "ethereum-18000000", "0x513a4abc759c2d30fd7f5a7e5239e72fccc1b24491b1ed99fa9f24b96e36fc88", receipt.ExpectedTransfer{
		Token: "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48", From: "0x7b60e46eba142b7e95e967c1e34cfb862385ee53",
		To: "0x91a559d248a216d1dd17c4d39f51bda9bd1de7e2", Amount: "1800000000",
	}},
	{"transfer-native", "ethereum-18000000", "0x5119dcc6bb07181742fd0366196021b120cc1c022c62ce3d3e272a7584fe4e2f", receipt.ExpectedTransfer{
		Token: receipt.Native, To: "0x846f480e35ef9c99f0160783850f01ba2c2bc907", MinAmount: "69970000000000014",
	}},
	{"transfer-second-of-two", "ethereum-22119617", "0x72be400313ec1f8e3f6f83907cc06a790c5117cee3ff525ce92dd6e02b220a4a", receipt.ExpectedTransfer{
		Token: "0x85bd3f256bc7913608a22d6e7b63dab2f761877f", To: "0xed4fce0dc7c618c39956f82eacd96bc1cde54cec",
		Amount: "40000000000000000000000", LogPosition: new(4),
	}},
	{"transfer-passed-on", "polygon-38102393", "0xefdff620754e2394ecafec90deaa5f23482bbbe1b3d9ffeb95b00e17b318212c", receipt.ExpectedTransfer{
		Token: "0x2791bca1f2de4661ed88a30c99a7a9449aa84174", From: "0xba12222222228d8ba445958a75a0704d566bf2c8",
		To: "0xdadaa2bc64e80b23ae46dc57d2afc766eac555d5", Amount: "333000000",
	}},
	{"transfer-arbitrum", "arbitrum-one-150000000", "0x02df6da97872f8a3e9760212bd548fc74663bd7f844f73969c81082ce7d3d632", receipt.ExpectedTransfer{
		Token: "0xaf88d065e77c8cc2239327c5edb3a432268e5831", From: "0x5e236e21631efed73420b6ed9275a30ca5aa82df",
		To: "0x769d6a494aef318b175b76ec19dcbef3ac6f4a05", Amount: "13045941762",
	}},
	{"transfer-authorization", "eip3009-devnet", "0x42817edbca3b0456092d306c67a7e281f0baab2d987f79b95d7aac26064b6694", receipt.ExpectedTransfer{
		Token: usdcOnDevnet, From: payerOnDevnet, To: payeeOnDevnet, Amount: "10000",
		Authorization: &receipt.Authorization{Authorizer: payerOnDevnet, Nonce: nonceOnDevnet},
	}},
	{"transfer-base", "base-mainnet-2000000", "0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb", receipt.ExpectedTransfer{
		Token: "0x4200000000000000000000000000000000000006", To: "0xc7b006f084ca79334db41fe216d3195870fac026",
		Amount: "1218414017899128",
	}},
}

const (
	usdcOnDevnet  = "0x036cbd53842c5426634e7929541ec2318f3dcf7e"
	payerOnDevnet = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
	payeeOnDevnet = "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc"
	nonceOnDevnet = "0x5be8e543063152124a76988173c8dfe5b3ab21bcf752713794a036f9bf288ba3"
)

// Transfer returns the receipt for a question about a transfer, from what the recording
// node returned.
func (b *recordedBlock) Transfer(t testing.TB, i int, asked receipt.ExpectedTransfer) receipt.Receipt {
	t.Helper()
	e := receipt.Expectations{MinConfirmations: 12}
	r := b.Receipt(i, e)
	found, ok := receipt.FindTransfer(asked, r.Transaction, b.Logs(i))
	if !ok {
		t.Fatalf("%s: transaction %d has no such transfer", b.Name, i)
	}
	r.Type, r.Version, r.Request.Transfer, r.Transfer = receipt.TransferType, receipt.TransferVersion, &asked, &found
	r.Checks = receipt.ChecksForTransfer(r.Checks[2].Method, asked, e)
	return r
}

// Logs returns a transaction's logs as the recording node returned them.
func (b *recordedBlock) Logs(i int) (logs []receipt.Log) {
	text, err := json.Marshal(b.receipts[i]["logs"])
	if err == nil {
		err = json.Unmarshal(text, &logs)
	}
	if err != nil {
		panic(err) // recordings are well formed
	}
	return logs
}

// readTransfers reads the golden vectors of transfers.
func readTransfers(t testing.TB) (out []vector) {
	t.Helper()
	for _, known := range transferVectors {
		out = append(out, readVector(t, known.name))
	}
	return out
}

func makeTransfers(t testing.TB) (out []vector) {
	t.Helper()
	for _, v := range transferVectors {
		block := loadBlocks(t, v.block)[0]
		i := block.Find(t, v.transaction)
		out = append(out, makeVector(t, v.name, block.Transfer(t, i, v.asked), block.Proof(i)))
	}
	return out
}

func TestTransfer_VerifiesInBothPresentations(t *testing.T) {
	for _, v := range readTransfers(t) {
		plain, err := receipt.VerifyTransfer(v.files["response.json"], v.keys)
		if err != nil {
			t.Fatalf("%s: %v", v.folder, err)
		}
		var proven []string
		for _, fact := range plain.Proven {
			proven = append(proven, fact.Field)
		}
		for _, field := range []string{"transfer.from", "transfer.amount", "transfer.logPosition", "transfer.matches", "checks.status", "checks.transfer"} {
			if !slices.Contains(proven, field) {
				t.Errorf("%s: %s is not proven", v.folder, field)
			}
		}
		for _, fact := range plain.Attested {
			if strings.HasPrefix(fact.Field, "transfer.") {
				t.Errorf("%s: %s is only attested", v.folder, fact.Field)
			}
		}
		envelope, err := receipt.VerifyTransfer(v.files["dsse.json"], v.keys)
		if diff := cmp.Diff(plain.Receipt, envelope.Receipt); err != nil || diff != "" {
			t.Errorf("%s as DSSE: %v (-plain +DSSE):\n%s", v.folder, err, diff)
		}
	}
}

func TestTransfer_IsNotTakenForTheOtherKind(t *testing.T) {
	first, second := readVectors(t)[0], readTransfers(t)[0]
	for _, name := range []string{"response.json", "dsse.json"} {
		if _, err := receipt.Verify(second.files[name], second.keys); !errors.Is(err, receipt.ErrMalformed) {
			t.Errorf("a transfer receipt as one about a transaction: %v", err)
		}
		if _, err := receipt.VerifyTransfer(first.files[name], first.keys); !errors.Is(err, receipt.ErrMalformed) {
			t.Errorf("a receipt about a transaction as a transfer receipt: %v", err)
		}
		for _, v := range []vector{first, second} {
			own, other := "chain-evidence.receipt.v1", "chain-evidence.transfer.v1"
			if v.folder == second.folder {
				own, other = other, own
			}
			text := []byte(strings.Replace(string(v.files[name]), own, other, 1))
			judgeAlike(text, v.files["key.json"], "")
			if _, err := receipt.Parse(text); !errors.Is(err, receipt.ErrMalformed) {
				t.Errorf("%s of %s with the other payload type: %v", name, v.folder, err)
			}
		}
	}
	// A signer that mixes the members of both.
	r := func(v vector) (r receipt.Receipt) {
		unmarshal(t, v.response.Receipt, &r)
		return r
	}
	for name, mixed := range map[string]func() receipt.Receipt{
		"the type alone":            func() receipt.Receipt { m := r(first); m.Type = receipt.TransferType; return m },
		"a version that is not one": func() receipt.Receipt { m := r(second); m.Version = 2; return m },
		"a transfer in the first":   func() receipt.Receipt { m := r(first); m.Transfer = r(second).Transfer; return m },
		"a question in the first":   func() receipt.Receipt { m := r(first); m.Request.Transfer = r(second).Request.Transfer; return m },
		"no transfer":               func() receipt.Receipt { m := r(second); m.Transfer = nil; return m },
		"no question":               func() receipt.Receipt { m := r(second); m.Request.Transfer = nil; return m },
		"an expectation of the first kind": func() receipt.Receipt {
			m := r(second)
			m.Request.Expectations.Status = receipt.StatusSuccess
			return m
		},
		"a transaction that reverted": func() receipt.Receipt {
			m := r(second)
			m.Outcome.Status = new(receipt.StatusReverted)
			return m
		},
		"no check of the transfer": func() receipt.Receipt {
			m := r(second)
			m.Checks = slices.DeleteFunc(m.Checks, func(c receipt.Check) bool { return c.Name == receipt.CheckTransfer })
			return m
		},
	} {
		judgeSigned(t, mixed(), nil)
		if _, err := receipt.Sign(testKey(t), mixed(), nil); !errors.Is(err, receipt.ErrMalformed) {
			t.Errorf("%s is signed: %v", name, err)
		}
	}
}

// A signer that lies about the transfer is refuted by the proof.
func TestTransfer_AnyChangedMemberFailsTheProof(t *testing.T) {
	for _, v := range transferVectors {
		block := loadBlocks(t, v.block)[0]
		i := block.Find(t, v.transaction)
		r, proof := block.Transfer(t, i, v.asked), block.Proof(i)
		if _, _, err := receipt.VerifyProof(r, proof); err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		for field, lie := range transferLies(t, r) {
			judgeSigned(t, lie, &proof)
			if _, _, err := receipt.VerifyProof(lie, proof); !errors.Is(err, receipt.ErrProof) {
				t.Errorf("%s: a lie about %s: error %v", v.name, field, err)
			}
		}
	}
}

// transferLies returns the receipt with each member of its transfer changed in turn, in
// the question too where it has the same.
func transferLies(t *testing.T, r receipt.Receipt) map[string]receipt.Receipt {
	t.Helper()
	out := map[string]receipt.Receipt{}
	var change func(path string, members map[string]any, whole map[string]any)
	change = func(path string, members map[string]any, whole map[string]any) {
		for name, value := range members {
			var lie any
			switch value := value.(type) {
			case map[string]any:
				change(path+name+".", value, whole)
				lie = nil
			case float64:
				lie = value + 1
			case string:
				lie = value[:len(value)-1] + string(otherDigit(value[len(value)-1]))
			case nil:
				if lie = "0x1234567890123456789012345678901234567890"; name == "logPosition" {
					lie = 1
				}
				if name == "authorization" {
					lie = map[string]any{"authorizer": payerOnDevnet, "nonce": nonceOnDevnet, "logPosition": 0}
				}
			}
			members[name] = lie
			changed := r
			changed.Transfer = new(receipt.ProvenTransfer)
			unmarshal(t, mustMarshal(t, whole), changed.Transfer)
			out[path+name] = changed
			members[name] = value
		}
	}
	var whole map[string]any
	unmarshal(t, mustMarshal(t, r.Transfer), &whole)
	change("", whole, whole)
	if len(out) < 10 {
		t.Fatalf("only %d members", len(out))
	}
	return out
}

// The logs of an authorized payment as the development chain recorded it, in the
// arrangements that a transaction may have.
func TestTransfer_AnAuthorizationBelongsToOne(t *testing.T) {
	block := loadBlocks(t, "eip3009-devnet")[0]
	logs := block.Logs(0)
	used, moved := logs[0], logs[1]
	with := func(log receipt.Log, topic int, value string) receipt.Log {
		log.Topics = slices.Clone(log.Topics)
		log.Topics[topic] = value
		return log
	}
	other := with(used, 2, "0x"+strings.Repeat("22", 32))
	elsewhere := with(moved, 2, moved.Topics[1][:64]+"ff")
	stranger := with(elsewhere, 1, moved.Topics[1][:64]+"aa")
	canceled := with(used, 0, "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81")
	foreign, foreignMoved, data := used, moved, used
	foreign.Address = "0x" + strings.Repeat("ee", 20)
	foreignMoved.Address, data.Data = foreign.Address, moved.Data
	at := func(transfer, mark int) []int { return []int{transfer, mark} }
	for name, c := range map[string]struct {
		logs []receipt.Log
		want []int
	}{
		"as USDC does it":                          {[]receipt.Log{used, moved}, at(1, 0)},
		"the mark after, one mark":                 {[]receipt.Log{moved, used}, at(0, 1)},
		"another nonce":                            {[]receipt.Log{other, moved}, nil},
		"a batch, ours second":                     {[]receipt.Log{other, elsewhere, used, moved}, at(3, 2)},
		"our mark paid elsewhere, other paid here": {[]receipt.Log{used, elsewhere, other, moved}, nil},
		"two marks, the transfer before both":      {[]receipt.Log{moved, used, other}, nil},
		"cancelled beside a plain transfer":        {[]receipt.Log{canceled, moved}, nil},
		"a mark of another contract":               {[]receipt.Log{foreign, moved}, nil},
		"logs of others between":                   {[]receipt.Log{used, foreignMoved, moved}, at(2, 0)},
		"a mark with data":                         {[]receipt.Log{data, moved}, nil},
		"paid elsewhere, a plain transfer before":  {[]receipt.Log{moved, used, elsewhere}, nil},
		"the mark after, then a stranger's":        {[]receipt.Log{moved, used, stranger}, at(0, 1)},
		"a stranger's between":                     {[]receipt.Log{used, stranger, moved}, nil},
		"used twice, as no token does":             {[]receipt.Log{used, moved, used}, at(1, 0)},
		"two that fit, one mark between":           {[]receipt.Log{moved, used, moved}, at(2, 1)},
	} {
		for _, from := range []string{payerOnDevnet, ""} {
			asked := receipt.ExpectedTransfer{
				Token: usdcOnDevnet, From: from, To: payeeOnDevnet, Amount: "10000",
				Authorization: &receipt.Authorization{Authorizer: payerOnDevnet, Nonce: nonceOnDevnet},
			}
			found, ok := receipt.FindTransfer(asked, receipt.Transaction{}, c.logs)
			var got []int
			if ok {
				got = at(*found.LogPosition, found.Authorization.LogPosition)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: got %v, want %v", name, got, c.want)
			}
		}
	}
}

func TestTransfer_OnlyMeaningfulOnesCount(t *testing.T) {
	const token, payee, payer = "0x" + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "0x" + "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "0x" + "cccccccccccccccccccccccccccccccccccccccc"
	padded := func(address string) string { return "0x" + strings.Repeat("0", 24) + address[2:] }
	transfer := func(from, to string, units byte) receipt.Log {
		return receipt.Log{Address: token, Topics: []string{
			"0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", padded(from), padded(to),
		}, Data: append(make(receipt.Hex, 31), units)}
	}
	good := transfer(payer, payee, 5)
	change := func(change func(*receipt.Log)) []receipt.Log {
		log := good
		log.Topics = slices.Clone(log.Topics)
		change(&log)
		return []receipt.Log{log}
	}
	asked := receipt.ExpectedTransfer{Token: token, To: payee, MinAmount: "5"}
	for name, c := range map[string]struct {
		logs []receipt.Log
		want bool
	}{
		"a transfer":           {[]receipt.Log{good}, true},
		"to itself":            {[]receipt.Log{transfer(payee, payee, 5)}, false},
		"of zero":              {[]receipt.Log{transfer(payer, payee, 0)}, false},
		"a sum of two":         {[]receipt.Log{transfer(payer, payee, 3), transfer(payer, payee, 3)}, false},
		"a mint":               {[]receipt.Log{transfer("0x"+strings.Repeat("0", 40), payee, 5)}, false},
		"a fourth topic":       {change(func(l *receipt.Log) { l.Topics = append(l.Topics, padded(payer)) }), false},
		"two topics":           {change(func(l *receipt.Log) { l.Topics = l.Topics[:2] }), false},
		"a badly padded payee": {change(func(l *receipt.Log) { l.Topics[2] = "0x01" + l.Topics[2][4:] }), false},
		"longer data":          {change(func(l *receipt.Log) { l.Data = append(slices.Clone(l.Data), 0) }), false},
		"no data":              {change(func(l *receipt.Log) { l.Data = nil }), false},
		"another event":        {change(func(l *receipt.Log) { l.Topics[0] = padded(payer) }), false},
		"another token's":      {change(func(l *receipt.Log) { l.Address = payer }), false},
	} {
		if _, ok := receipt.FindTransfer(asked, receipt.Transaction{}, c.logs); ok != c.want {
			t.Errorf("%s: found is %v", name, ok)
		}
	}
	found, _ := receipt.FindTransfer(asked, receipt.Transaction{}, []receipt.Log{transfer(payee, payer, 9), good, transfer(payer, payee, 7), transfer(payee, token, 1)})
	if *found.LogPosition != 1 || found.Matches != "2" || found.ToIn != "12" || found.ToOut != "10" {
		t.Errorf("found %+v", found)
	}
}

func TestTransferSentence_SaysThatThePayeePassedAllOn(t *testing.T) {
	for sums, want := range map[[2]string]bool{
		{"7", "0"}: false, {"7", "6"}: false, {"7", "7"}: true, {"9", "10"}: true, {"", "x"}: false, {"0", "0"}: false,
	} {
		text := receipt.ProvenTransfer{LogPosition: new(int), Matches: "1", Amount: "7", ToIn: sums[0], ToOut: sums[1]}.SentenceOn("")
		if got := strings.HasSuffix(text, "; in the same transaction the recipient passed on all of this token that came in"); got != want {
			t.Errorf("%s came in, %s went out: %s", sums[0], sums[1], text)
		}
	}
}

func TestTransfer_AForbiddenQuestionFindsNothing(t *testing.T) {
	good := transferVectors[5].asked
	block := loadBlocks(t, "eip3009-devnet")[0]
	for name, change := range map[string]func(*receipt.ExpectedTransfer){
		"":                   func(*receipt.ExpectedTransfer) {},
		"no token":           func(x *receipt.ExpectedTransfer) { x.Token = "" },
		"upper case":         func(x *receipt.ExpectedTransfer) { x.Token = strings.ToUpper(x.Token) },
		"the zero address":   func(x *receipt.ExpectedTransfer) { x.To = "0x" + strings.Repeat("0", 40) },
		"EIP-7708's emitter": func(x *receipt.ExpectedTransfer) { x.Token = "0x" + strings.Repeat("f", 39) + "e" },
		"from the payee":     func(x *receipt.ExpectedTransfer) { x.From = x.To },
		"no amount":          func(x *receipt.ExpectedTransfer) { x.Amount = "" },
		"both amounts":       func(x *receipt.ExpectedTransfer) { x.MinAmount = "1" },
		"zero":               func(x *receipt.ExpectedTransfer) { x.Amount = "0" },
		"a leading zero":     func(x *receipt.ExpectedTransfer) { x.Amount = "010000" },
		"a negative place":   func(x *receipt.ExpectedTransfer) { x.LogPosition = new(-1) },
		"a place beyond all": func(x *receipt.ExpectedTransfer) { x.LogPosition = new(receipt.MaxLogPosition + 1) },
		"a place of native": func(x *receipt.ExpectedTransfer) {
			x.Token, x.LogPosition, x.Authorization = receipt.Native, new(0), nil
		},
		"authorized native":       func(x *receipt.ExpectedTransfer) { x.Token = receipt.Native },
		"another's authorization": func(x *receipt.ExpectedTransfer) { x.From = usdcOnDevnet },
		"a short nonce": func(x *receipt.ExpectedTransfer) {
			x.Authorization = &receipt.Authorization{Authorizer: payerOnDevnet, Nonce: "0x00"}
		},
		"an empty authorizer": func(x *receipt.ExpectedTransfer) {
			x.From, x.Authorization = "", &receipt.Authorization{Nonce: nonceOnDevnet}
		},
	} {
		asked := good
		change(&asked)
		if _, ok := receipt.FindTransfer(asked, receipt.Transaction{}, block.Logs(0)); ok != (name == "") {
			t.Errorf("%q: found is %v", name, ok)
		}
	}
}

func TestTransfer_FormatIsPinned(t *testing.T) {
	var body map[string]any
	unmarshal(t, readFile(t, filepath.Join(vectorsFolder, "transfer-authorization", "payload.jcs")), &body)
	text, err := json.Marshal(body["transfer"])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"amount":"10000","authorization":{"authorizer":"` + payerOnDevnet + `","logPosition":0,"nonce":"` + nonceOnDevnet + `"},` +
		`"from":"` + payerOnDevnet + `","logPosition":1,"matches":"1","standard":"erc20","to":"` + payeeOnDevnet + `","toIn":"10000","toOut":"0","token":"` + usdcOnDevnet + `"}`
	if diff := cmp.Diff(want, string(text)); diff != "" || body["type"] != "chain-evidence-transfer" || body["version"] != 1.0 {
		t.Errorf("%v %v: %s", body["type"], body["version"], diff)
	}
}

// FuzzFindTransfer checks that arbitrary logs never end the program, and that what is
// found is what was asked for.
func FuzzFindTransfer(f *testing.F) {
	for _, v := range transferVectors {
		block := loadBlocks(f, v.block)[0]
		i := block.Find(f, v.transaction)
		f.Add(mustMarshal(f, v.asked), mustMarshal(f, block.Logs(i)))
	}
	f.Fuzz(func(t *testing.T, question, events []byte) {
		var asked receipt.ExpectedTransfer
		var logs []receipt.Log
		if json.Unmarshal(question, &asked) != nil || json.Unmarshal(events, &logs) != nil {
			return
		}
		found, ok := receipt.FindTransfer(asked, receipt.Transaction{}, logs)
		if !ok {
			return
		}
		matches, err := strconv.Atoi(found.Matches)
		at := *found.LogPosition
		transfer, counts := logs[at].Transfer()
		if err != nil || matches < 1 || matches > len(logs) || !counts || transfer.To != asked.To || transfer.Token != asked.Token || transfer.Value != found.Amount {
			t.Errorf("%s in %s: %+v", question, events, found)
		}
	})
}
