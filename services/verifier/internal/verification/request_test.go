package verification_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

const (
	someHash     = "0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb"
	someAddress  = "0xf9868b3960348194371b8ca4fe87ca7de95e40b6"
	someSelector = "0x18cbafe5"
)

// expecting is a request with these members inside expectations.
func expecting(members string) string {
	return `{"transactionHash":"` + someHash + `","expectations":{` + members + `}}`
}

func TestRequest_FaultyOnesNameTheirField(t *testing.T) {
	for name, c := range map[string]struct{ body, field string }{
		"nothing":                       {``, ""},
		"not JSON":                      {`{`, ""},
		"null":                          {`null`, ""},
		"a list":                        {`[]`, ""},
		"a text":                        {`"x"`, ""},
		"something behind it":           {`{"transactionHash":"` + someHash + `"}{}`, ""},
		"no hash":                       {`{}`, "transactionHash"},
		"null hash":                     {`{"transactionHash":null}`, "transactionHash"},
		"number for a hash":             {`{"transactionHash":1}`, "transactionHash"},
		"hash too short":                {`{"transactionHash":"` + someHash[:65] + `"}`, "transactionHash"},
		"hash too long":                 {`{"transactionHash":"` + someHash + `0"}`, "transactionHash"},
		"hash without 0x":               {`{"transactionHash":"` + someHash[2:] + `00"}`, "transactionHash"},
		"hash with 0X":                  {`{"transactionHash":"0X` + someHash[2:] + `"}`, "transactionHash"},
		"hash with another letter":      {`{"transactionHash":"0xg` + someHash[3:] + `"}`, "transactionHash"},
		"hash with a space":             {`{"transactionHash":" ` + someHash + `"}`, "transactionHash"},
		"unknown member":                {`{"transactionHash":"` + someHash + `","chain":"base"}`, "chain"},
		"member in another case":        {`{"TransactionHash":"` + someHash + `"}`, "TransactionHash"},
		"hash twice":                    {`{"transactionHash":"` + someHash + `","transactionHash":"` + someHash + `"}`, "transactionHash"},
		"null expectations":             {`{"transactionHash":"` + someHash + `","expectations":null}`, "expectations"},
		"list of expectations":          {`{"transactionHash":"` + someHash + `","expectations":[]}`, "expectations"},
		"unknown expectation":           {expecting(`"value":"1"`), "expectations.value"},
		"expectation in another case":   {expecting(`"From":"` + someAddress + `"`), "expectations.From"},
		"expectation twice":             {expecting(`"status":"success","status":"reverted"`), "expectations.status"},
		"null status":                   {expecting(`"status":null`), "expectations.status"},
		"another status":                {expecting(`"status":"failed"`), "expectations.status"},
		"status in another case":        {expecting(`"status":"Success"`), "expectations.status"},
		"empty status":                  {expecting(`"status":""`), "expectations.status"},
		"sender too short":              {expecting(`"from":"` + someAddress[:41] + `"`), "expectations.from"},
		"empty recipient":               {expecting(`"to":""`), "expectations.to"},
		"null recipient":                {expecting(`"to":null`), "expectations.to"},
		"selector too long":             {expecting(`"selector":"` + someSelector + `00"`), "expectations.selector"},
		"no confirmations":              {expecting(`"minConfirmations":0`), "expectations.minConfirmations"},
		"negative confirmations":        {expecting(`"minConfirmations":-1`), "expectations.minConfirmations"},
		"too many confirmations":        {expecting(`"minConfirmations":100001`), "expectations.minConfirmations"},
		"confirmations in a text":       {expecting(`"minConfirmations":"12"`), "expectations.minConfirmations"},
		"confirmations with a fraction": {expecting(`"minConfirmations":12.5`), "expectations.minConfirmations"},
		"confirmations with a zero":     {expecting(`"minConfirmations":12.0`), "expectations.minConfirmations"},
		"confirmations with exponent":   {expecting(`"minConfirmations":1e1`), "expectations.minConfirmations"},
		"huge confirmations":            {expecting(`"minConfirmations":1e400`), "expectations.minConfirmations"},
		"confirmations beyond 64 bits":  {expecting(`"minConfirmations":18446744073709551617`), "expectations.minConfirmations"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := verification.ParseRequest([]byte(c.body))
			var fault *strictjson.Error
			if !errors.As(err, &fault) {
				t.Fatalf("got %v", err)
			}
			if fault.Field() != c.field {
				t.Errorf("field %q, want %q: %v", fault.Field(), c.field, err)
			}
		})
	}
}

func TestRequest_HasOneCanonicalSpelling(t *testing.T) {
	want := `{"transactionHash":"` + someHash + `","expectations":{"status":"success","from":"` + someAddress +
		`","to":"` + someAddress + `","selector":"` + someSelector + `","minConfirmations":100000}}`
	for name, body := range map[string]string{
		"as it is":     want,
		"upper case":   strings.NewReplacer(someHash[2:], strings.ToUpper(someHash[2:]), someAddress[2:], strings.ToUpper(someAddress[2:]), someSelector[2:], strings.ToUpper(someSelector[2:])).Replace(want),
		"EIP-55":       strings.Replace(want, someAddress, "0xF9868B3960348194371b8cA4fE87CA7DE95e40B6", 1),
		"other order":  ` { "expectations" : {"minConfirmations":100000,"selector":"` + someSelector + `","to":"` + someAddress + `","from":"` + someAddress + "\",\n\"status\":\"success\"},\t\"transactionHash\":\"" + someHash + `"} `,
		"with escapes": strings.Replace(want, "status", `st\u0061tus`, 1),
	} {
		r, err := verification.ParseRequest([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, string(r.Canonical())); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRequest_NoExpectationsAndEmptyOnesAreTheSame(t *testing.T) {
	without, err := verification.ParseRequest([]byte(`{"transactionHash":"` + someHash + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	empty, err := verification.ParseRequest([]byte(expecting("")))
	if err != nil {
		t.Fatal(err)
	}
	if string(without.Canonical()) != string(empty.Canonical()) || without != empty {
		t.Errorf("%s and %s", without.Canonical(), empty.Canonical())
	}
}

func TestRequest_BoundsOfConfirmationsAreAllowed(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "100000": 100_000} {
		r, err := verification.ParseRequest([]byte(expecting(`"minConfirmations":` + text)))
		if err != nil || r.Expectations.MinConfirmations != want {
			t.Errorf("%s: %d, %v", text, r.Expectations.MinConfirmations, err)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(expecting(`"status":"success","from":"` + someAddress + `","selector":"` + someSelector + `","minConfirmations":12`)))
	f.Add([]byte(`{"transactionHash":"` + someHash + `"}`))
	f.Add([]byte(`{"transactionHash":null,"expectations":{}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := verification.ParseRequest(body)
		if err != nil {
			var fault *strictjson.Error
			if !errors.As(err, &fault) {
				t.Fatalf("got %T", err)
			}
			return
		}
		again, err := verification.ParseRequest(r.Canonical())
		if err != nil {
			t.Fatalf("its canonical spelling is refused: %v", err)
		}
		if string(again.Canonical()) != string(r.Canonical()) {
			t.Error("its canonical spelling is not stable")
		}
	})
}
