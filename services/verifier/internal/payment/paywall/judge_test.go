package paywall_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/x402"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
)

// reasonOf returns the protocol's reason of a refusal, or the error's text.
func reasonOf(err error) string {
	var refusal *payment.Refusal
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &refusal) && errors.Is(err, payment.ErrInvalid):
		return refusal.Reason
	}
	return err.Error()
}

func TestJudge_APaymentIsReadExactly(t *testing.T) {
	good, err := json.Marshal(payloadV2(paymenttest.Authorization("1", start)))
	if err != nil {
		t.Fatal(err)
	}
	swap := func(old, replacement string) string {
		text := strings.Replace(string(good), old, replacement, 1)
		if text == string(good) {
			t.Fatalf("%s is not in the payment", old)
		}
		return text
	}
	end := paymenttest.Authorization("1", start).ValidBefore
	signature := paymenttest.Sign(paymenttest.Terms(network), paymenttest.Authorization("1", start))
	for name, c := range map[string]struct{ text, want string }{
		"good":                              {string(good), "none"},
		"members that are not known":        {swap(`"payload":{`, `"payload":{"more":1,`), "none"},
		"a name twice":                      {swap(`"value":"10000"`, `"value":"1","value":"10000"`), x402.ReasonInvalidPayload},
		"a name in another case":            {swap(`"value"`, `"Value"`), x402.ReasonInvalidPayload},
		"a number for a string":             {swap(`"value":"10000"`, `"value":10000`), x402.ReasonInvalidPayload},
		"an amount with an exponent":        {swap(`"value":"10000"`, `"value":"1e4"`), x402.ReasonInvalidPayload},
		"an amount in hexadecimal":          {swap(`"value":"10000"`, `"value":"0x2710"`), x402.ReasonInvalidPayload},
		"an amount with a leading zero":     {swap(`"value":"10000"`, `"value":"010000"`), x402.ReasonInvalidPayload},
		"an amount with a sign":             {swap(`"value":"10000"`, `"value":"+10000"`), x402.ReasonInvalidPayload},
		"an amount of 300 bits":             {swap(`"value":"10000"`, `"value":"`+strings.Repeat("9", 91)+`"`), x402.ReasonInvalidPayload},
		"another version inside":            {swap(`"x402Version":2`, `"x402Version":1`), x402.ReasonInvalidVersion},
		"a short nonce":                     {swap(`"nonce":"0x00`, `"nonce":"0x`), x402.ReasonInvalidPayload},
		"a nonce that is no hexadecimal":    {swap(`"nonce":"0x00`, `"nonce":"0xzz`), x402.ReasonInvalidPayload},
		"a payer that is no address":        {swap(`"from":"0x00`, `"from":"0x`), x402.ReasonInvalidPayload},
		"the zero payer":                    {swap(paymenttest.Buyer, "0x"+strings.Repeat("0", 40)), x402.ReasonInvalidPayload},
		"a signature that is too short":     {swap(signature, signature[:130]), x402.ReasonInvalidSignature},
		"a signature of half a byte more":   {swap(signature, signature+"a"), x402.ReasonInvalidSignature},
		"a wallet's long signature":         {swap(signature, "0x"+strings.Repeat("ab", 2000)), "none"},
		"an end that is no number":          {swap(end, "soon"), x402.ReasonInvalidPayload},
		"an end that is negative":           {swap(end, "-1"), x402.ReasonInvalidPayload},
		"something after it":                {string(good) + "{}", x402.ReasonInvalidPayload},
		"an array":                          {"[" + string(good) + "]", x402.ReasonInvalidPayload},
		"a network with a NUL":              {swap(`"network":"`+network, `"network":"`+network+`\u0000`), x402.ReasonInvalidPayload},
		"deep nesting":                      {swap(`"payload":{`, `"payload":{"x":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`,`), x402.ReasonInvalidPayload},
		"an identifier that is too short":   {swap(`"payload":{`, `"extensions":{"payment-identifier":{"info":{"id":"short"}}},"payload":{`), "invalid_payment_identifier"},
		"an identifier of other characters": {swap(`"payload":{`, `"extensions":{"payment-identifier":{"info":{"id":"order 0123456789!"}}},"payload":{`), "invalid_payment_identifier"},
		"an identifier that is no string":   {swap(`"payload":{`, `"extensions":{"payment-identifier":{"info":{"id":7}}},"payload":{`), "invalid_payment_identifier"},
		"an identifier twice":               {swap(`"payload":{`, `"extensions":{"payment-identifier":{"info":{"id":"order_0123456789","id":"order_9999999999"}}},"payload":{`), x402.ReasonInvalidPayload},
		"an extension without an id":        {swap(`"payload":{`, `"extensions":{"payment-identifier":{"info":{"required":false}}},"payload":{`), "none"},
	} {
		_, err := payment.Read(2, base64.StdEncoding.EncodeToString([]byte(c.text)))
		if got := reasonOf(err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for name, header := range map[string]string{
		"no base64": "{}", "the URL alphabet": "_-_-", "nothing": "", "without padding": "e30", "too large": strings.Repeat("A", 16<<10+4),
	} {
		if _, err := payment.Read(2, header); reasonOf(err) != x402.ReasonInvalidPayload {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJudge_APaymentIsHeldAgainstOurTerms(t *testing.T) {
	for name, c := range map[string]struct {
		v2   func(*x402.Payload)
		v1   func(*x402.PayloadV1)
		want string
	}{
		"another letter case": {v2: func(p *x402.Payload) {
			p.Accepted.PayTo, p.Accepted.Asset = strings.ToLower(paymenttest.Seller), strings.ToLower(paymenttest.Token)
			p.Payload.Authorization.To = strings.ToLower(paymenttest.Seller)
		}, want: "none"},
		"members added to extra": {v2: func(p *x402.Payload) { p.Accepted.Extra["more"] = 1 }, want: "none"},
		"another scheme":         {v2: func(p *x402.Payload) { p.Accepted.Scheme = "upto" }, v1: func(p *x402.PayloadV1) { p.Scheme = "upto" }, want: x402.ReasonUnsupportedScheme},
		"another network":        {v2: func(p *x402.Payload) { p.Accepted.Network = "eip155:1" }, v1: func(p *x402.PayloadV1) { p.Network = "base" }, want: x402.ReasonInvalidNetwork},
		"version 2's name in 1":  {v1: func(p *x402.PayloadV1) { p.Network = network }, want: x402.ReasonInvalidNetwork},
		"another asset":          {v2: func(p *x402.Payload) { p.Accepted.Asset = paymenttest.Seller }, want: x402.ReasonInvalidRequirement},
		"another price":          {v2: func(p *x402.Payload) { p.Accepted.Amount = "1" }, want: x402.ReasonInvalidRequirement},
		"another token name":     {v2: func(p *x402.Payload) { p.Accepted.Extra["name"] = "Fake" }, want: x402.ReasonInvalidRequirement},
		"another payee accepted": {v2: func(p *x402.Payload) { p.Accepted.PayTo = paymenttest.Buyer }, want: x402.ReasonRecipientMismatch},
		"another payee signed":   {v2: func(p *x402.Payload) { p.Payload.Authorization.To = paymenttest.Buyer }, v1: func(p *x402.PayloadV1) { p.Payload.Authorization.To = paymenttest.Buyer }, want: x402.ReasonRecipientMismatch},
		"too little signed":      {v2: func(p *x402.Payload) { p.Payload.Authorization.Value = "9999" }, v1: func(p *x402.PayloadV1) { p.Payload.Authorization.Value = "9999" }, want: x402.ReasonValueMismatch},
		"too much signed":        {v2: func(p *x402.Payload) { p.Payload.Authorization.Value = "10001" }, want: x402.ReasonValueMismatch},
		"paying oneself":         {v2: func(p *x402.Payload) { p.Payload.Authorization.From = paymenttest.Seller }, want: "self_send_not_allowed"},
		"not valid yet":          {v2: func(p *x402.Payload) { p.Payload.Authorization.ValidAfter = paymenttest.Unix(start.Add(time.Second)) }, want: x402.ReasonValidAfter},
		"over":                   {v2: func(p *x402.Payload) { p.Payload.Authorization.ValidBefore = paymenttest.Unix(start) }, want: x402.ReasonValidBefore},
		"too nearly over": {v2: func(p *x402.Payload) {
			p.Payload.Authorization.ValidBefore = paymenttest.Unix(start.Add(9 * time.Second))
		}, want: x402.ReasonValidBefore},
		"just long enough": {v2: func(p *x402.Payload) {
			p.Payload.Authorization.ValidBefore = paymenttest.Unix(start.Add(10 * time.Second))
		}, want: "none"},
		"too far away": {v2: func(p *x402.Payload) {
			p.Payload.Authorization.ValidBefore = paymenttest.Unix(start.Add(121 * time.Second))
		}, want: "invalid_exact_evm_payload_authorization_valid_before_too_far"},
		"endless":                       {v2: func(p *x402.Payload) { p.Payload.Authorization.ValidBefore = strings.Repeat("9", 77) }, want: "invalid_exact_evm_payload_authorization_valid_before_too_far"},
		"valid from a time without end": {v2: func(p *x402.Payload) { p.Payload.Authorization.ValidAfter = strings.Repeat("9", 77) }, want: x402.ReasonValidAfter},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, nil)
			s.sim.OnVerify = func() (x402.VerifyResponse, error) {
				if c.want != "none" {
					t.Error("the facilitator was called")
				}
				yes := true
				return x402.VerifyResponse{IsValid: &yes}, nil
			}
			if c.v2 != nil {
				p := payloadV2(paymenttest.Authorization("1", start))
				c.v2(&p)
				if _, err := s.buy(s.read(2, p)); reasonOf(err) != c.want {
					t.Errorf("version 2: %v, want %s", err, c.want)
				}
			}
			if c.v1 != nil {
				p := payloadV1(paymenttest.Authorization("2", start))
				c.v1(&p)
				if _, err := s.buy(s.read(1, p)); reasonOf(err) != c.want {
					t.Errorf("version 1: %v, want %s", err, c.want)
				}
			}
		})
	}
}

func TestJudge_Version1CanBeSwitchedOff(t *testing.T) {
	s := open(t, nil)
	o := s.order(s.read(1, payloadV1(paymenttest.Authorization("1", start))), "thing")
	o.Offer.Terms.V1 = false
	_, err := s.paywall.Buy(context.Background(), o)
	if reasonOf(err) != x402.ReasonInvalidVersion {
		t.Errorf("got %v", err)
	}
	if _, ok := o.Offer.ChallengeV1(""); ok {
		t.Error("version 1 is offered")
	}
}

func TestJudge_AllVersionsAndSpellingsAreOnePayment(t *testing.T) {
	a := paymenttest.Authorization("ab", start)
	loud := a
	loud.Nonce, loud.From, loud.To = "0x"+strings.ToUpper(a.Nonce[2:]), strings.ToLower(a.From), strings.ToLower(a.To)
	s := open(t, nil)
	first := s.read(2, payloadV2(a))
	for _, other := range []payment.Payment{s.read(1, payloadV1(a)), s.read(2, payloadV2(loud)), s.read(1, payloadV1(loud))} {
		one, err1 := offer().Judge(first)
		two, err2 := offer().Judge(other)
		if err1 != nil || err2 != nil || one.Key != two.Key || one.Digest != two.Digest {
			t.Errorf("%+v %v and %+v %v differ", one.Key, err1, two.Key, err2)
		}
	}
}

func TestTerms_FaultsAreAllReported(t *testing.T) {
	if err := paymenttest.Terms(network).Validate(); err != nil {
		t.Error(err)
	}
	bad := payment.Terms{Network: "base", Asset: "0x0", PayTo: "0x" + strings.Repeat("0", 40), Amount: "0.01", MaxTimeout: time.Second}
	err := bad.Validate()
	if err == nil {
		t.Fatal("no fault was found")
	}
	for _, word := range []string{"network", "asset", "payee", "EIP-712", "amount", "timeout"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in %q", word, err)
		}
	}
}

func TestTerms_EveryKnownTokenIsWhole(t *testing.T) {
	for _, network := range []string{"eip155:1", "eip155:10", "eip155:137", "eip155:8453", "eip155:42161", "eip155:43113", "eip155:43114", "eip155:80002", "eip155:84532", "eip155:421614"} {
		token, ok := payment.KnownToken(network)
		good := paymenttest.Terms(network)
		good.Network, good.Asset, good.AssetName, good.AssetVersion = network, token.Address, token.Name, token.Version
		if err := good.Validate(); !ok || err != nil {
			t.Errorf("%s: %v", network, err)
		}
	}
	if base, _ := payment.KnownToken("eip155:8453"); base.Name != "USD Coin" {
		t.Errorf("Base: %+v", base)
	}
	if sepolia, _ := payment.KnownToken("eip155:84532"); sepolia.Name != "USDC" {
		t.Errorf("Base Sepolia: %+v", sepolia)
	}
}

func FuzzPaymentHeader(f *testing.F) {
	for _, payload := range []any{payloadV2(paymenttest.Authorization("1", start)), withIdentifier(paymenttest.Authorization("2", start), "order_0123456789")} {
		header, err := x402.Encode(payload)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(2, header)
	}
	v1, err := x402.Encode(payloadV1(paymenttest.Authorization("1", start)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(1, v1)
	f.Add(2, "bnVsbA==")
	f.Fuzz(func(t *testing.T, version int, header string) {
		p, err := payment.Read(1+version&1, header)
		if err != nil {
			if !errors.Is(err, payment.ErrInvalid) {
				t.Errorf("%q: %v", header, err)
			}
			return
		}
		judged, err := offer().Judge(p)
		if err != nil {
			return
		}
		// What is judged good goes on with our terms, in our words.
		if k := judged.Key; k.Network != network || k.Asset != strings.ToLower(paymenttest.Token) || len(k.Nonce) != 66 || k.Payer != strings.ToLower(p.Payer) {
			t.Errorf("%q became %+v", header, k)
		}
	})
}
