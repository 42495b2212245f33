package receipt_test

import (
	"errors"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
)

func TestCanonicalize_ReturnsTheFormOfRFC8785(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"white space goes", " { \"a\" : [ 1 , true ] }\n", `{"a":[1,true]}`},
		{"members are sorted", `{"b":1,"a":2,"B":3,"aa":4,"":5}`, `{"":5,"B":3,"a":2,"aa":4,"b":1}`},
		{"nested members too", `{"z":{"b":null,"a":[{"d":1,"c":2}]}}`, `{"z":{"a":[{"c":2,"d":1}],"b":null}}`},
		{"escapes that are not needed go", `"\u0041\/\u003c"`, `"A/<"`},
		{"escapes that are needed stay", `"\"\\"`, `"\"\\"`},
		{"the largest integer", `9007199254740991`, `9007199254740991`},
	} {
		got, err := receipt.Canonicalize([]byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}
}

func TestCanonicalize_RefusesWhatToolsReadDifferently(t *testing.T) {
	for _, in := range []string{
		``, `{`, `{}{}`, `{"a":1,"a":1}`, `{"a":1,"\u0061":1}`, `1.0`, `1e2`, `-1`, `-0`, `01`, `9007199254740992`,
		`18446744073709551616`, `"é"`, `"\u00e9"`, `"\ud83d\ude00"`, `"\ud83d"`, "\"\xff\"", `"\n"`, `"\u007f"`, `NaN`, `'a'`,
		`{"a":1,}`, `// note`, `[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]`,
	} {
		if got, err := receipt.Canonicalize([]byte(in)); !errors.Is(err, receipt.ErrMalformed) {
			t.Errorf("%q: %s, error %v; want ErrMalformed", in, got, err)
		}
	}
}

func TestSign_RefusesWhatTheFormatDoesNotAllow(t *testing.T) {
	block := baseBlock(t)
	good := block.Receipt(3, receipt.Expectations{})
	text := func(s string) *string { return &s }
	for name, change := range map[string]func(*receipt.Receipt){
		"empty":                          func(r *receipt.Receipt) { *r = receipt.Receipt{} },
		"no verdict":                     func(r *receipt.Receipt) { r.Verdict = "" },
		"not final":                      func(r *receipt.Receipt) { r.Finality.Met = false },
		"another finality":               func(r *receipt.Receipt) { r.Finality.Tag = "safe" },
		"a chain without CAIP-2":         func(r *receipt.Receipt) { r.Chain.ID = "8453" },
		"chain number zero":              func(r *receipt.Receipt) { r.Chain.ID = "eip155:0" },
		"a chain without a name":         func(r *receipt.Receipt) { r.Chain.Name = "" },
		"a chain name that needs quotes": func(r *receipt.Receipt) { r.Chain.Name = `ba"se` },
		"EIP-55 spelling":                func(r *receipt.Receipt) { r.Transaction.From = "0xF9868b3960348194371b8ca4fe87ca7de95e40b6" },
		"a short hash":                   func(r *receipt.Receipt) { r.Block.Hash = "0x00" },
		"a hexadecimal quantity":         func(r *receipt.Receipt) { r.Block.Number = "0x10" },
		"an empty quantity":              func(r *receipt.Receipt) { r.Transaction.ValueWei = "" },
		"a number above 64 bits":         func(r *receipt.Receipt) { r.Block.Number = "18446744073709551616" },
		"a type with a zero in front":    func(r *receipt.Receipt) { r.Transaction.Type = "0x02" },
		"a type above 0x7f":              func(r *receipt.Receipt) { r.Transaction.Type = "0x80" },
		"an unknown status":              func(r *receipt.Receipt) { r.Outcome.Status = text("ok") },
		"no checks":                      func(r *receipt.Receipt) { r.Checks = nil },
		"checks in another order":        func(r *receipt.Receipt) { r.Checks[0], r.Checks[1] = r.Checks[1], r.Checks[0] },
		"another transaction requested":  func(r *receipt.Receipt) { r.Request.TransactionHash = r.Block.Hash },
		"a creation with a selector":     func(r *receipt.Receipt) { r.Transaction.To, r.Transaction.Selector = nil, text("0x00000000") },
		"a call that made a contract": func(r *receipt.Receipt) {
			r.Transaction.ContractAddress = text("0xf9868b3960348194371b8ca4fe87ca7de95e40b6")
		},
		"more gas than the block so far": func(r *receipt.Receipt) { r.Outcome.GasUsed = "349978" },
		"a first transaction with a sum": func(r *receipt.Receipt) { r.Transaction.Index = "0" },
	} {
		r := good
		r.Checks = append([]receipt.Check(nil), good.Checks...)
		change(&r)
		judgeSigned(t, r, nil)
		if _, err := receipt.Sign(testKey(t), r, nil); !errors.Is(err, receipt.ErrMalformed) {
			t.Errorf("%s: error %v, want ErrMalformed", name, err)
		}
	}
	if _, err := receipt.Sign(testKey(t), good, nil); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}

func TestSign_RefusesExpectationsThatDoNotHold(t *testing.T) {
	block := baseBlock(t)
	const other = "0x1234567890123456789012345678901234567890"
	for _, e := range []receipt.Expectations{
		{Status: receipt.StatusReverted},
		{Status: "ok"},
		{From: other},
		{To: other},
		{Selector: "0x00000000"},
		{MinConfirmations: receipt.MaxConfirmations + 1},
		{MinConfirmations: -1},
	} {
		judgeSigned(t, block.Receipt(3, e), nil)
		if _, err := receipt.Sign(testKey(t), block.Receipt(3, e), nil); !errors.Is(err, receipt.ErrMalformed) {
			t.Errorf("%+v: error %v, want ErrMalformed", e, err)
		}
	}
}
