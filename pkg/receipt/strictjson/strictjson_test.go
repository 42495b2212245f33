package strictjson_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
)

type document struct {
	Name  string `json:"name"`
	Inner struct {
		Count *int   `json:"count"`
		A     string `json:"a/b"`
	} `json:"inner"`
}

func TestRead_Faults(t *testing.T) {
	deep := strings.Repeat(`{"name":`, 70) + `1` + strings.Repeat(`}`, 70)
	for name, c := range map[string]struct {
		text, field string
		rules       strictjson.Rules
	}{
		"nothing":                 {text: ""},
		"white space":             {text: " \n"},
		"not JSON":                {text: `{"name":"a",}`},
		"half":                    {text: `{"name":"a"`},
		"trailing value":          {text: `{"name":"a"} {}`},
		"trailing byte":           {text: `{"name":"a"}]`},
		"array":                   {text: `[]`},
		"null":                    {text: `null`, rules: strictjson.Rules{AllowNull: true}},
		"name twice":              {text: `{"name":"a","name":"b"}`, field: "name"},
		"name twice, escaped":     {text: `{"name":"a","na\u006de":"b"}`, field: "name"},
		"unknown name twice":      {text: `{"x":1,"x":2}`, field: "x", rules: strictjson.Rules{AllowUnknown: true}},
		"name in another case":    {text: `{"Name":"a"}`, field: "Name"},
		"unknown name":            {text: `{"inner":{"no":1}}`, field: "inner.no"},
		"null member":             {text: `{"inner":{"count":null}}`, field: "inner.count"},
		"null in a list":          {text: `{"x":[null]}`, field: "x.0", rules: strictjson.Rules{AllowUnknown: true}},
		"wrong type":              {text: `{"inner":{"count":"1"}}`, field: "inner.count"},
		"number that is no int":   {text: `{"inner":{"count":1.5}}`, field: "inner.count"},
		"number with an exponent": {text: `{"inner":{"count":1e400}}`, field: "inner.count"},
		"slash in a name":         {text: `{"inner":{"a/b":1}}`, field: "inner.a/b"},
		"invalid UTF-8":           {text: "{\"name\":\"\xff\"}"},
		"lone surrogate":          {text: `{"name":"\ud800"}`},
		"too deep":                {text: deep, rules: strictjson.Rules{AllowUnknown: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var got document
			err := strictjson.Unmarshal([]byte(c.text), &got, c.rules)
			var fault *strictjson.Error
			if !errors.As(err, &fault) {
				t.Fatalf("got %v", err)
			}
			if fault.Field() != c.field {
				t.Errorf("field %q, want %q (%v)", fault.Field(), c.field, err)
			}
		})
	}
}

// A reader who is told what a member must be corrects it; "the wrong type" leaves them to guess.
func TestRead_FaultsNameTheTypeThatIsWanted(t *testing.T) {
	type named struct {
		Text   string    `json:"text"`
		Number *int64    `json:"number"`
		Truth  bool      `json:"truth"`
		List   []string  `json:"list"`
		Object *document `json:"object"`
		Time   time.Time `json:"time"`
	}
	for text, want := range map[string]string{
		`[]`:                             "must be an object",
		`{"text":10000}`:                 "/text: must be a string",
		`{"number":"1"}`:                 "/number: must be an integer",
		`{"number":1.5}`:                 "/number: must be an integer",
		`{"number":9223372036854775808}`: "/number: is out of range",
		`{"truth":"yes"}`:                "/truth: must be true or false",
		`{"list":{}}`:                    "/list: must be an array",
		`{"list":[1]}`:                   "/list/0: must be a string",
		`{"object":[]}`:                  "/object: must be an object",
		`{"time":"now"}`:                 "/time: has the wrong type", // its own reading decides what it may be
	} {
		if err := strictjson.Unmarshal([]byte(text), new(named), strictjson.Rules{}); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// What an error says is logged, and names come from anyone.
func TestError_OfALongNameIsShort(t *testing.T) {
	long := strings.Repeat("ä", 100_000)
	err := strictjson.Unmarshal([]byte(`{"inner":{"`+long+`":1}}`), new(document), strictjson.Rules{})
	var fault *strictjson.Error
	if !errors.As(err, &fault) || fault.Field() != "inner."+long {
		t.Fatalf("got %.100v", err)
	}
	if text := err.Error(); len(text) > 1000 || !utf8.ValidString(text) || !strings.HasPrefix(text, "/inner/ä") ||
		!strings.HasSuffix(text, ": is not known") {
		t.Errorf("%d bytes: %.100s", len(text), text)
	}
}

func TestRead_GoodDocuments(t *testing.T) {
	var got, want document
	one := 1
	want.Name, want.Inner.Count = "a", &one
	if err := strictjson.Unmarshal([]byte(` {"inner":{"count":1},"name":"a"} `), &got, strictjson.Rules{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	loose := strictjson.Rules{AllowUnknown: true, AllowNull: true}
	if err := strictjson.Unmarshal([]byte(`{"x":{"y":[1,null]},"inner":{"count":null}}`), &document{}, loose); err != nil {
		t.Error(err)
	}
}

func FuzzReadMeansTheSameToEncodingJSON(f *testing.F) {
	for _, seed := range []string{`{"name":"a","inner":{"count":3}}`, `{"name":"a","name":"b"}`, `{"Name":"a"}`, `{}`, `null`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var strict, loose document
		if strictjson.Unmarshal(data, &strict, strictjson.Rules{}) != nil {
			return
		}
		if err := json.Unmarshal(data, &loose); err != nil {
			t.Fatalf("read what encoding/json refuses: %v", err)
		}
		if diff := cmp.Diff(loose, strict); diff != "" {
			t.Error(diff)
		}
	})
}
