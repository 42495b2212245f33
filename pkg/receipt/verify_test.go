package receipt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
)

func TestVerify_AReceiptThatAToolRewroteHolds(t *testing.T) {
	v := readVectors(t)[0]
	want, err := receipt.Verify(v.files["response.json"], v.keys)
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, v.files["response.json"], "  ", "\t"); err != nil {
		t.Fatal(err)
	}
	var loose any // a map: members in another order
	if err := json.Unmarshal(v.files["response.json"], &loose); err != nil {
		t.Fatal(err)
	}
	escaped := bytes.Replace(v.files["response.json"], []byte(`"verified"`), []byte(`"\u0076erified"`), 1)
	for name, data := range map[string][]byte{
		"indented": indented.Bytes(), "sorted": mustIndent(t, loose), "escaped": escaped,
	} {
		judgeAlike(data, v.files["key.json"], "")
		got, err := receipt.Verify(data, v.keys)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-as sent +rewritten):\n%s", name, diff)
		}
	}
}

func TestVerify_WhatSignWouldNotWriteIsMalformed(t *testing.T) {
	v := readVectors(t)[0]
	answer, envelope := string(v.files["response.json"]), string(v.files["dsse.json"])
	var spaced receipt.Envelope
	if err := json.Unmarshal(v.files["dsse.json"], &spaced); err != nil {
		t.Fatal(err)
	}
	spaced.Payload = append(spaced.Payload, ' ')
	edit := func(text, old, replacement string) string {
		t.Helper()
		if !strings.Contains(text, old) {
			t.Fatalf("nothing to replace: %s", old)
		}
		return strings.Replace(text, old, replacement, 1)
	}
	for name, data := range map[string]string{
		"nothing":                          "",
		"not JSON":                         "receipt",
		"an array":                         "[]",
		"an empty object":                  "{}",
		"cut short":                        answer[:len(answer)/2],
		"something after it":               answer + "{}",
		"an unknown member at the top":     edit(answer, `{"receipt"`, `{"note":"","receipt"`),
		"an unknown member in the receipt": edit(answer, `"verdict"`, `"note":"","verdict"`),
		"a member in another case":         edit(answer, `"verdict"`, `"Verdict"`),
		"a member twice":                   edit(answer, `"verdict":"verified"`, `"verdict":"verified","verdict":"verified"`),
		"a member twice in the signature":  edit(answer, `"algorithm":"Ed25519"`, `"algorithm":"Ed25519","algorithm":"Ed25519"`),
		"a missing member":                 edit(answer, `"contractAddress":null,`, ``),
		"null for a text":                  edit(answer, `"name":"base"`, `"name":null`),
		"null for the proof":               edit(answer, `"proof":{`, `"proof":null,"x":{`),
		"a float":                          edit(answer, `"minConfirmations":12`, `"minConfirmations":12.0`),
		"an exponent":                      edit(answer, `"version":1`, `"version":1e0`),
		"a negative zero":                  edit(answer, `"version":1`, `"version":-0`),
		"text beyond ASCII":                edit(answer, `"name":"base"`, `"name":"bäse"`),
		"text with a control character":    edit(answer, `"name":"base"`, `"name":"base\u0000"`),
		"upper-case digits":                edit(answer, `"0xf7c65086eb`, `"0xF7C65086EB`),
		"a leading zero":                   edit(answer, `"nonce":"18"`, `"nonce":"018"`),
		"another version":                  edit(answer, `"version":1`, `"version":2`),
		"another verdict":                  edit(answer, `"verdict":"verified"`, `"verdict":"unverified"`),
		"a check that fails":               edit(answer, `"result":"pass"`, `"result":"fail"`),
		"a check less":                     edit(answer, `{"method":"block","name":"canonicalBlock","result":"pass"},`, ``),
		"an expectation that does not hold": edit(answer, `"expectations":{"from":"0xf9868b39`,
			`"expectations":{"from":"0xf9868b38`),
		"another algorithm":          edit(answer, `"algorithm":"Ed25519"`, `"algorithm":"none"`),
		"another payload type":       edit(answer, `"payloadType":"application/`, `"payloadType":"text/`),
		"a key id that is none":      edit(answer, `"keyId":"sha256:`, `"keyId":"sha1:`),
		"a signature without end":    edit(answer, `8Aw=="`, `8Aw"`),
		"a signature in other bits":  edit(answer, `8Aw=="`, `8Ax=="`),
		"a proof in upper case":      edit(answer, `"headerRlp":"0xf9`, `"headerRlp":"0xF9`),
		"a proof with a member more": edit(answer, `"proof":{"headerRlp"`, `"proof":{"x":1,"headerRlp"`),
		"both presentations":         edit(answer, `{"receipt"`, `{"payload":"","receipt"`),
		"an envelope with two":       edit(envelope, `}]`, `},{"keyid":"","sig":""}]`),
		"an envelope with none":      `{"payloadType":"","payload":"","signatures":[]}`,
		"an envelope of other bytes": string(mustMarshal(t, spaced)),
	} {
		judgeAlike([]byte(data), v.files["key.json"], "")
		if _, err := receipt.Verify([]byte(data), v.keys); !errors.Is(err, receipt.ErrMalformed) {
			t.Errorf("%s: error %v, want ErrMalformed", name, err)
		}
	}
}

func TestVerify_AboveMaxSizeIsMalformed(t *testing.T) {
	answer := readVectors(t)[0].files["response.json"]
	for size, want := range map[int]error{receipt.MaxSize: nil, receipt.MaxSize + 1: receipt.ErrMalformed} {
		data := append(bytes.Repeat([]byte(" "), size-len(answer)), answer...)
		if _, err := receipt.Parse(data); !errors.Is(err, want) {
			t.Errorf("%d bytes: error %v, want %v", size, err, want)
		}
	}
}

func TestVerify_AChangedReceiptFailsItsSignature(t *testing.T) {
	v := readVectors(t)[0]
	for _, change := range []struct{ old, replacement string }{
		{`"gasUsed":"243964"`, `"gasUsed":"243963"`},
		{`"minConfirmations":12`, `"minConfirmations":13`},
		{`"name":"base"`, `"name":"bass"`},
	} {
		data := bytes.Replace(v.files["response.json"], []byte(change.old), []byte(change.replacement), 1)
		judgeAlike(data, v.files["key.json"], "")
		if _, err := receipt.Verify(data, v.keys); !errors.Is(err, receipt.ErrSignature) {
			t.Errorf("%s: error %v, want ErrSignature", change.replacement, err)
		}
	}
}

func TestVerify_ASignatureIsForOneKindOfDocument(t *testing.T) {
	got := string(receipt.PAE("http://example.com/HelloWorld", []byte("hello world")))
	// The example of the DSSE specification.
	if want := "DSSEv1 29 http://example.com/HelloWorld 11 hello world"; got != want {
		t.Errorf("PAE = %q, want %q", got, want)
	}
}

func TestVerify_WithoutAProofAllIsAttested(t *testing.T) {
	v := readVectors(t)[0]
	result, err := receipt.Verify(v.files["dsse.json"], v.keys)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]bool{}
	for _, fact := range result.Attested {
		fields[fact.Field] = true
	}
	for _, field := range []string{"transaction.from", "outcome.status", "block.hash", "finality.tag", "checks.sender"} {
		if !fields[field] {
			t.Errorf("%s is not listed as attested", field)
		}
	}
}
