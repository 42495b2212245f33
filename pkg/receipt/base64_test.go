package receipt_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
)

// spelledOtherwise returns base64 texts that a lenient decoder reads as the same
// bytes.
func spelledOtherwise(text string) map[string]string {
	return map[string]string{
		"a line end":        text[:10] + "\n" + text[10:],
		"a carriage return": text[:10] + "\r" + text[10:],
		"lines":             text[:4] + "\r\n" + text[4:] + "\r\n",
		"a line end first":  "\n" + text,
		"no padding":        strings.TrimRight(text, "=") + "\n",
		"a space":           text + " ",
		"the URL alphabet":  strings.NewReplacer("+", "-", "/", "_").Replace(text) + "\n",
	}
}

// TestBase64_HasOneSpelling: what Sign would not have written is malformed, in the
// answer, the envelope and the key document.
func TestBase64_HasOneSpelling(t *testing.T) {
	v := readVectors(t)[0]
	document, err := receipt.Parse(v.files["response.json"])
	if err != nil {
		t.Fatal(err)
	}
	var envelope struct {
		Payload    string `json:"payload"`
		Signatures []struct {
			Sig string `json:"sig"`
		} `json:"signatures"`
	}
	if err := json.Unmarshal(v.files["dsse.json"], &envelope); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, text string }{
		{"response.json", document.Signature.Value}, {"dsse.json", envelope.Payload}, {"dsse.json", envelope.Signatures[0].Sig},
	} {
		for name, other := range spelledOtherwise(c.text) {
			if _, err := receipt.Verify(respelled(t, v.files[c.file], c.text, other), v.keys); !errors.Is(err, receipt.ErrMalformed) {
				t.Errorf("%s with %s: %v", c.file, name, err)
			}
		}
	}
	for name, other := range spelledOtherwise(v.keys.Keys[0].PublicKey) {
		if _, err := receipt.ParseKeyDocument(respelled(t, v.files["key.json"], v.keys.Keys[0].PublicKey, other)); !errors.Is(err, receipt.ErrMalformed) {
			t.Errorf("key document with %s: %v", name, err)
		}
	}
}

// respelled puts another text in the place of a JSON string.
func respelled(t testing.TB, file []byte, text, other string) []byte {
	t.Helper()
	changed := strings.ReplaceAll(string(file), fmt.Sprintf("%q", text), fmt.Sprintf("%q", other))
	if changed == string(file) {
		t.Fatal("the text is not in the file")
	}
	return []byte(changed)
}
