package strictjson

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzReadInOnePassAcceptsNothingThatScanRefuses holds what is read without scan against it: names that come
// twice in what is skipped, kept as it is or read as anything, nulls, and depth.
func FuzzReadInOnePassAcceptsNothingThatScanRefuses(f *testing.F) {
	for _, member := range []string{"raw", "any", "map", "inner", "unknown"} {
		for _, value := range []string{
			`{"x":1,"x":2}`, `{"x":{"y":1,"\u0079":2}}`, `[{"x":1,"x":2}]`, `{"x":null}`, `null`, `"null"`, `"\ud800"`,
			strings.Repeat("[", 70) + strings.Repeat("]", 70), `{"x":1},"` + member + `":{}`,
		} {
			f.Add([]byte(`{"`+member+`":`+value+`}`), true)
			f.Add([]byte(`{"`+member+`":`+value+`}`), false)
		}
	}
	f.Add([]byte(" \tnull"), true)
	f.Fuzz(func(t *testing.T, data []byte, loose bool) {
		var v struct {
			Raw   json.RawMessage            `json:"raw"`
			Any   any                        `json:"any"`
			Map   map[string]json.RawMessage `json:"map"`
			Inner *struct {
				X any `json:"x"`
			} `json:"inner"`
		}
		rules := Rules{AllowUnknown: loose, AllowNull: loose}
		if Unmarshal(data, &v, rules) == nil {
			if err := scan(data, rules); err != nil {
				t.Errorf("accepts what scan refuses: %v", err)
			}
		}
	})
}
