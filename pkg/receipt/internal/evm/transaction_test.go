package evm_test

import (
	"encoding/hex"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt/internal/evm"
	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// encode writes a transaction or a receipt out of Go values; its type comes first.
func encode(kind byte, members ...any) []byte {
	payload := rlp.AppendList(nil, encodeAll(members))
	if kind == 0 {
		return payload
	}
	return append([]byte{kind}, payload...)
}

func encodeAll(members []any) (out []byte) {
	for _, member := range members {
		switch member := member.(type) {
		case int:
			out = rlp.AppendUint(out, uint64(member))
		case []byte:
			out = rlp.AppendString(out, member)
		case evm.Address:
			out = rlp.AppendString(out, member[:])
		case evm.Hash:
			out = rlp.AppendString(out, member[:])
		case []any:
			out = rlp.AppendList(out, encodeAll(member))
		}
	}
	return out
}

var (
	sender    = evm.Address{0: 0x5e, 19: 1}
	recipient = evm.Address{0: 0x7e, 19: 2}
	other     = evm.Address{0: 0x99, 19: 3}
	someHash  = evm.Hash{31: 7}
	input     = []byte{0xaa, 0xbb, 0xcc, 0xdd, 0xee}
	empty     = []byte{}
)

// No block with these types is recorded. The layouts are those of Nitro's
// core/types/arb_types.go, the OP stack's those of its specification.
func TestTransaction_TypesWithoutASignature(t *testing.T) {
	for _, c := range []struct {
		name, to, selector, nonce string
		from                      evm.Address
		value                     int64
		raw                       []byte
	}{
		{
			name: "Arbitrum deposit", from: sender, to: text(recipient), value: 5,
			raw: encode(0x64, 42161, someHash, sender, recipient, 5),
		},
		{
			name: "Arbitrum unsigned", from: sender, to: text(recipient), value: 5, selector: "aabbccdd", nonce: "9",
			raw: encode(0x65, 42161, sender, 9, 100, 21000, recipient, 5, input),
		},
		{
			name: "Arbitrum contract", from: sender, to: text(recipient), value: 5, selector: "aabbccdd",
			raw: encode(0x66, 42161, someHash, sender, 100, 21000, recipient, 5, input),
		},
		{
			name: "Arbitrum retry", from: sender, to: text(recipient), value: 5, selector: "aabbccdd", nonce: "9",
			raw: encode(0x68, 42161, 9, sender, 100, 21000, recipient, 5, input, someHash, other, 1, 2),
		},
		{
			name: "Arbitrum submit retryable", from: sender, to: "000000000000000000000000000000000000006e", selector: "c9f95d32",
			raw: encode(0x69, 42161, someHash, sender, 1, 2, 3, 4, recipient, 5, other, 6, other, input),
		},
		{
			name: "Arbitrum internal", from: evm.Address{17: 0x0a, 18: 0x4b, 19: 0x05},
			to: "00000000000000000000000000000000000a4b05", selector: "aabbccdd",
			raw: encode(0x6a, 42161, input),
		},
		{
			name: "deposit that creates", from: sender, value: 5,
			raw: encode(0x7e, someHash, sender, empty, 1, 5, 21000, 0, input),
		},
		{
			name: "retry that creates", from: sender, value: 5, nonce: "9",
			raw: encode(0x68, 42161, 9, sender, 100, 21000, empty, 5, input, someHash, other, 1, 2),
		},
	} {
		tx, err := evm.DecodeTransaction(c.raw)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := []string{text(tx.From), "", "", "", tx.Value.String()}
		if tx.To != nil {
			got[1] = text(*tx.To)
		}
		if tx.Selector != nil {
			got[2] = hex.EncodeToString(tx.Selector[:])
		}
		if tx.Nonce != nil {
			got[3] = new(big.Int).SetUint64(*tx.Nonce).String()
		}
		want := []string{text(c.from), c.to, c.selector, c.nonce, big.NewInt(c.value).String()}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
		if tx.Signed || tx.Hash != evm.Keccak256(c.raw) {
			t.Errorf("%s: signed %v, hash %x", c.name, tx.Signed, tx.Hash)
		}
	}
}

func text(a evm.Address) string { return hex.EncodeToString(a[:]) }

func TestTransaction_SelectorOfSubmitRetryable(t *testing.T) {
	const call = "submitRetryable(bytes32,uint256,uint256,uint256,uint256,uint64,uint256,address,address,address,bytes)"
	if got := evm.Keccak256([]byte(call)); hex.EncodeToString(got[:4]) != "c9f95d32" {
		t.Errorf("selector %x", got[:4])
	}
}

func TestContract_OnlyAccountNoncesMakeAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		raw  []byte
		want bool
	}{
		"unsigned": {encode(0x65, 42161, sender, 9, 100, 21000, empty, 5, input), true},
		"deposit":  {encode(0x7e, someHash, sender, empty, 1, 5, 21000, 0, input), true},
		"retry":    {encode(0x68, 42161, 9, sender, 100, 21000, empty, 5, input, someHash, other, 1, 2), false},
		"contract": {encode(0x66, 42161, someHash, sender, 100, 21000, empty, 5, input), false},
	} {
		tx, err := evm.DecodeTransaction(c.raw)
		if err != nil || tx.AccountNonce != c.want {
			t.Errorf("%s: %v, %v", name, tx.AccountNonce, err)
		}
	}
}

func TestContract_AddressOfACreatedOne(t *testing.T) {
	// The pair that go-ethereum, ethers and others test with.
	var from evm.Address
	copy(from[:], unhex(t, "6ac7ea33f8831ea9dcc53393aaa88b25a785dbf0"))
	for nonce, want := range []string{
		"cd234a471b72ba2f1ccf0a70fcaba648a5eecd8d",
		"343c43a37d37dff08ae8c4a11544c718abb4fcf8",
		"f778b86fa74e846c4f0a1fbd1335fe81c00a0c91",
	} {
		if got := evm.ContractAddress(from, uint64(nonce)); text(got) != want {
			t.Errorf("nonce %d: %x, want %s", nonce, got, want)
		}
	}
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSender_OfASignature(t *testing.T) {
	// EIP-155's own example.
	raw := unhex(t, "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025"+
		"a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276"+
		"a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83")
	tx, err := evm.DecodeTransaction(raw)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(tx.From); got != "9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f" || !tx.Signed {
		t.Errorf("sender %s", got)
	}
	if tx.ChainID.Cmp(big.NewInt(1)) != 0 {
		t.Errorf("chain id %d", tx.ChainID)
	}
}

func TestSender_SignatureThatYieldsNoneIsRefused(t *testing.T) {
	legacy := func(v, r, s any) []byte { return encode(0, 9, 1, 21000, recipient, 1, empty, v, r, s) }
	wide := make([]byte, 32)
	for i := range wide {
		wide[i] = 0xff
	}
	for name, raw := range map[string][]byte{
		"all zero":            legacy(27, 0, 0),
		"v of 29":             legacy(29, 1, 1),
		"v of 26":             legacy(26, 1, 1),
		"v of 0":              legacy(0, 1, 1),
		"r above the curve":   legacy(27, wide, 1),
		"s above the curve":   legacy(27, 1, wide),
		"r of 33 bytes":       legacy(27, append([]byte{1}, wide...), 1),
		"a parity of 2":       encode(2, 1, 9, 1, 1, 21000, recipient, 1, empty, []any{}, 2, 1, 1),
		"a parity of 2 words": encode(2, 1, 9, 1, 1, 21000, recipient, 1, empty, []any{}, wide, 1, 1),
	} {
		if tx, err := evm.DecodeTransaction(raw); err == nil {
			t.Errorf("%s: sender %x", name, tx.From)
		}
	}
}

func TestTransaction_ThatIsMisshapenIsRefused(t *testing.T) {
	good := encode(0x64, 42161, someHash, sender, recipient, 5)
	for name, raw := range map[string][]byte{
		"nothing":                     nil,
		"a type alone":                {2},
		"a member less":               encode(0x64, 42161, someHash, sender, recipient),
		"a member more":               encode(0x64, 42161, someHash, sender, recipient, 5, 5),
		"bytes after it":              append(append([]byte{}, good...), 0),
		"a short address":             encode(0x64, 42161, someHash, sender[:19], recipient, 5),
		"a value with a leading zero": encode(0x64, 42161, someHash, sender, recipient, []byte{0, 5}),
		"a list for the value":        encode(0x64, 42161, someHash, sender, recipient, []any{}),
		"a deposit to no recipient":   encode(0x64, 42161, someHash, sender, empty, 5),
		"a list for the input":        encode(0x6a, 42161, []any{}),
		"blobs for a creation":        encode(3, 1, 9, 1, 1, 21000, empty, 1, empty, []any{}, 1, []any{}, 0, 1, 1),
	} {
		if tx, err := evm.DecodeTransaction(raw); err == nil {
			t.Errorf("%s: %+v", name, tx)
		}
	}
	for _, kind := range []byte{0x05, 0x63, 0x67, 0x6b, 0x78, 0x7d, 0x7f} {
		if _, err := evm.DecodeTransaction(encode(kind, 1)); !errors.Is(err, evm.ErrUnsupportedType) {
			t.Errorf("type 0x%x: error %v, want ErrUnsupportedType", kind, err)
		}
	}
}
