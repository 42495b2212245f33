package x402_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/pkg/x402"
)

func example() x402.Payload {
	return x402.Payload{
		X402Version: x402.V2,
		Resource:    &x402.Resource{URL: "https://example.com/v1/x"},
		Accepted: x402.Requirements{
			Scheme: x402.SchemeExact, Network: "eip155:8453", Amount: "10000", Asset: "0xa", PayTo: "0xb",
			MaxTimeoutSeconds: 60, Extra: map[string]any{"name": "USD Coin", "version": "2"},
		},
		Payload: x402.ExactPayload{Signature: "0x1", Authorization: x402.Authorization{From: "0xc", Nonce: "0xd"}},
	}
}

func TestPayload_SurvivesItsHeader(t *testing.T) {
	header, err := x402.Encode(example())
	if err != nil {
		t.Fatal(err)
	}
	var got x402.Payload
	if err := x402.Decode(header, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(example(), got); diff != "" {
		t.Error(diff)
	}
}

func TestHeader_IsStandardBase64OfExactJSON(t *testing.T) {
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	var fault *strictjson.Error
	for header, want := range map[string]error{
		"":                                    x402.ErrHeaderSize,
		strings.Repeat("A", x402.MaxHeader+4): x402.ErrHeaderSize,
		base64.RawStdEncoding.EncodeToString([]byte(`{"x":1}`)):  x402.ErrHeaderBase64,
		base64.URLEncoding.EncodeToString([]byte(`{"x":"ÿÿ>"}`)): x402.ErrHeaderBase64,
		encode(`{"x402Version":2}`) + "\n":                       x402.ErrHeaderBase64,
	} {
		if err := x402.Decode(header, &x402.Payload{}); !errors.Is(err, want) {
			t.Errorf("%.20q: got %v, want %v", header, err, want)
		}
	}
	for _, text := range []string{`{"x402Version":2,"x402Version":1}`, `{"X402Version":2}{}`, `null`, `[]`, `{"x402Version":"2"}`} {
		if err := x402.Decode(encode(text), &x402.Payload{}); !errors.As(err, &fault) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func TestObject_IsReadByTheRulesOfAHeader(t *testing.T) {
	text, err := json.Marshal(example())
	if err != nil {
		t.Fatal(err)
	}
	var got x402.Payload
	if err := x402.DecodeObject(text, &got); err != nil || !cmp.Equal(example(), got) {
		t.Errorf("%v: %s", err, cmp.Diff(example(), got))
	}
	var fault *strictjson.Error
	if err := x402.DecodeObject([]byte(`{"x402Version":2,"x402Version":1}`), &got); !errors.As(err, &fault) {
		t.Errorf("got %v", err)
	}
	large := []byte(string(text) + strings.Repeat(" ", x402.MaxHeader))
	if err := x402.DecodeObject(large, &got); !errors.Is(err, x402.ErrHeaderSize) {
		t.Errorf("got %v", err)
	}
}

func TestAnswer_WithoutAResultIsNeitherYesNorNo(t *testing.T) {
	var settled x402.SettleResponse
	var verified x402.VerifyResponse
	if json.Unmarshal([]byte(`{}`), &settled) != nil || settled.Success != nil {
		t.Error("an empty settle answer has a result")
	}
	if json.Unmarshal([]byte(`{}`), &verified) != nil || verified.IsValid != nil {
		t.Error("an empty verify answer has a result")
	}
}

func TestNetwork_ChainIDs(t *testing.T) {
	if id, ok := x402.ChainID("eip155:8453"); !ok || id.Cmp(big.NewInt(8453)) != 0 {
		t.Errorf("got %v, %t", id, ok)
	}
	for _, bad := range []string{"", "8453", "eip155:", "eip155:08", "eip155:-1", "eip155:0x1", "solana:1", "eip155:" + strings.Repeat("9", 33)} {
		if id, ok := x402.ChainID(bad); ok {
			t.Errorf("%q returned %v", bad, id)
		}
	}
	if name, ok := x402.V1Name("eip155:84532"); !ok || name != "base-sepolia" {
		t.Errorf("got %q, %t", name, ok)
	}
	if _, ok := x402.V1Name("eip155:31337"); ok {
		t.Error("31337 has a version 1 name")
	}
}

func FuzzDecode(f *testing.F) {
	header, err := x402.Encode(example())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(header)
	f.Add("e30=")
	f.Fuzz(func(t *testing.T, header string) {
		var payload x402.Payload
		if x402.Decode(header, &payload) != nil {
			return
		}
		again, err := x402.Encode(payload)
		if err != nil {
			t.Fatal(err)
		}
		var second x402.Payload
		if len(again) > x402.MaxHeader {
			return
		}
		if err := x402.Decode(again, &second); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(payload, second); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAmount_IsWrittenAsDollars(t *testing.T) {
	for atomic, want := range map[int64]string{0: "0.00", 1: "0.000001", 10_000: "0.01", 12_500: "0.0125", 100_000: "0.10", 1_234_567_890: "1234.56789"} {
		if got := x402.Dollars(big.NewInt(atomic)); got != want {
			t.Errorf("%d: got %s, want %s", atomic, got, want)
		}
	}
}
