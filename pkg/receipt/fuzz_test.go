package receipt_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
)

// FuzzVerify checks that a document which verifies has the content of a golden
// vector: no other content carries these signatures.
func FuzzVerify(f *testing.F) {
	known := map[string]bool{}
	for _, v := range append(readVectors(f), readTransfers(f)...) {
		known[string(v.response.Receipt)] = true
		f.Add(v.files["response.json"])
		f.Add(v.files["dsse.json"])
		for _, other := range spelledOtherwise(v.response.Signature.Value) {
			f.Add(respelled(f, v.files["response.json"], v.response.Signature.Value, other))
			f.Add(respelled(f, v.files["dsse.json"], v.response.Signature.Value, other))
		}
	}
	keys := readVectors(f)[0].keys
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := receipt.Parse(data)
		if err != nil {
			return
		}
		again, err := receipt.Canonical(doc.Receipt)
		if err != nil || !bytes.Equal(again, doc.Body) {
			t.Errorf("read as %s, written as %s, %v", doc.Body, again, err)
		}
		if doc.Proof != nil {
			_, _, _ = receipt.VerifyProof(doc.Receipt, *doc.Proof)
		}
		if _, err := doc.Verify(keys); err == nil && !known[string(doc.Body)] {
			t.Errorf("a receipt that was not signed verifies: %s", doc.Body)
		}
	})
}

// FuzzCanonicalize checks that the canonical form is one, and means the same.
func FuzzCanonicalize(f *testing.F) {
	for _, seed := range []string{`{"b":1,"a":[null,true,"x\u0041"]}`, ` [ ] `, `{"a":{"a":{}}}`, `9007199254740991`, `"\"\\"`} {
		f.Add([]byte(seed))
	}
	for _, v := range readVectors(f) {
		f.Add(v.files["response.json"])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := receipt.Canonicalize(data)
		if err != nil {
			return
		}
		again, err := receipt.Canonicalize(got)
		if err != nil || !bytes.Equal(got, again) {
			t.Errorf("%s becomes %s, %v", got, again, err)
		}
		// Go's own encoder writes this part of JSON as RFC 8785 does, apart from
		// escapes for HTML.
		var value any
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&value); err != nil {
			t.Fatalf("%q is accepted, but is not JSON: %v", data, err)
		}
		var plain bytes.Buffer
		e := json.NewEncoder(&plain)
		e.SetEscapeHTML(false)
		if err := e.Encode(value); err != nil {
			t.Fatal(err)
		}
		if want := bytes.TrimSuffix(plain.Bytes(), []byte("\n")); !bytes.Equal(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// FuzzParseKeys checks that whatever is given is read or refused, and that what
// is read is accepted again.
func FuzzParseKeys(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add(v.files["key.json"])
		for _, other := range spelledOtherwise(v.keys.Keys[0].PublicKey) {
			f.Add(respelled(f, v.files["key.json"], v.keys.Keys[0].PublicKey, other))
		}
		f.Add(mustMarshal(f, v.keys.Keys))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if doc, err := receipt.ParseKeyDocument(data); err == nil {
			if _, err := receipt.ParseKeyDocument(mustMarshal(t, doc)); err != nil {
				t.Errorf("%s: %v", data, err)
			}
		}
		keys, err := receipt.ParseKeys(data)
		if err != nil {
			return
		}
		if _, err := receipt.NewKeyDocument(testKey(t), "eip155:1", keys...); err != nil && len(keys) == 0 {
			t.Errorf("%s: %v", data, err)
		}
	})
}
