package strictjson

import (
	"testing"

	"github.com/go-json-experiment/json"
)

// FuzzAPlainDocumentIsReadOnce: what isPlain calls plain and json reads has no
// fault that a scan would find.
func FuzzAPlainDocumentIsReadOnce(f *testing.F) {
	for _, seed := range []string{`{"a":"nul"}`, `{"a":1,"a":2}`, `{"x":[1,{"b":2,"b":3}]}`, `[[]] `, `{"a":"\ud800"}`, "{\"\xff\":1}", `1 2`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !isPlain(data) {
			return
		}
		var typed struct {
			A string `json:"a"`
		}
		for _, v := range []any{&typed, new(any)} {
			if json.Unmarshal(data, v) != nil {
				continue
			}
			if err := scan(data, Rules{}); err != nil {
				t.Fatalf("%T is read: %v", v, err)
			}
		}
	})
}
