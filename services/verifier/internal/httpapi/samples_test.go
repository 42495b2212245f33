package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
)

// schema is a JSON Schema of the keywords that our documents use to describe a
// request. Any other keyword is a fault: the samples would not follow it.
type schema struct {
	Type                 string            `json:"type"`
	Properties           map[string]schema `json:"properties"`
	Required             []string          `json:"required"`
	AdditionalProperties *bool             `json:"additionalProperties"`
	Enum                 []string          `json:"enum"`
	Const                *string           `json:"const"`
	Pattern              string            `json:"pattern"`
	Minimum              *int64            `json:"minimum"`
	Maximum              *int64            `json:"maximum"`

	Dialect     string `json:"$schema"`
	Ref         string `json:"$ref"`
	Description string `json:"description"`
	Example     any    `json:"example"`
}

func (w *world) schema(text []byte) (s schema) {
	w.Helper()
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	w.must(d.Decode(&s))
	return s
}

// sampler makes values that a schema allows.
type sampler struct {
	*rand.Rand
	// defined are the schemas that a $ref may name.
	defined map[string]schema
}

// sample returns any value that the schema allows. Where the schema is silent
// about a text or a number, it returns what registries fill in.
func (g sampler) sample(s schema) (any, error) {
	switch {
	case s.Ref != "":
		target, ok := g.defined[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
		if !ok {
			return nil, fmt.Errorf("nothing is defined as %s", s.Ref)
		}
		return g.sample(target)
	case s.Const != nil:
		return *s.Const, nil
	case s.Enum != nil:
		return s.Enum[g.IntN(len(s.Enum))], nil
	}
	switch s.Type {
	case "object":
		return g.object(s)
	case "integer":
		least, most := int64(-1<<40), int64(1<<40)
		if s.Minimum != nil {
			least = *s.Minimum
		}
		if s.Maximum != nil {
			most = *s.Maximum
		}
		return [...]int64{least, most, least + g.Int64N(most-least+1)}[g.IntN(3)], nil
	case "string":
		if s.Pattern == "" {
			return "string", nil
		}
		expression, err := syntax.Parse(s.Pattern, syntax.Perl)
		if err != nil {
			return nil, err
		}
		var text strings.Builder
		err = g.match(&text, expression)
		return text.String(), err
	}
	return nil, fmt.Errorf("no sample can be made of the type %q", s.Type)
}

// object returns the required members, some of the others, and a member that the
// schema does not name unless it states that there is none.
func (g sampler) object(s schema) (any, error) {
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(s.Required, name) && g.IntN(2) == 0 {
			continue
		}
		value, err := g.sample(s.Properties[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		object[name] = value
	}
	if (s.AdditionalProperties == nil || *s.AdditionalProperties) && g.IntN(2) == 0 {
		object["additionalProp1"] = "string"
	}
	return object, nil
}

// match writes a text that matches the expression as a whole.
func (g sampler) match(text *strings.Builder, e *syntax.Regexp) error {
	parts := e.Sub
	switch e.Op {
	case syntax.OpBeginText, syntax.OpEndText, syntax.OpConcat:
	case syntax.OpLiteral:
		text.WriteString(string(e.Rune))
	case syntax.OpCharClass:
		i := 2 * g.IntN(len(e.Rune)/2)
		text.WriteRune(e.Rune[i] + g.Int32N(e.Rune[i+1]-e.Rune[i]+1))
	case syntax.OpRepeat:
		if e.Max < e.Min {
			return fmt.Errorf("%s has no end", e)
		}
		parts = slices.Repeat(e.Sub, e.Min+g.IntN(e.Max-e.Min+1))
	default:
		return fmt.Errorf("%s: %s is not supported", e, e.Op)
	}
	for _, part := range parts {
		if err := g.match(text, part); err != nil {
			return err
		}
	}
	return nil
}

// wantAll402 posts samples of a request's schema to a path without a payment.
func (w *world) wantAll402(g sampler, path string, request schema) {
	w.Helper()
	distinct := map[string]bool{}
	for range 300 {
		value, err := g.sample(request)
		w.must(err)
		body, err := json.Marshal(value)
		w.must(err)
		distinct[string(body)] = true
		if r := w.do(http.MethodPost, path, string(body)); r.status != http.StatusPaymentRequired {
			w.Fatalf("%s is answered %d: %s", body, r.status, r.body)
		}
	}
	if len(distinct) < 200 {
		w.Errorf("only %d of the samples differ", len(distinct))
	}
}

// advertised is the extension bazaar of a challenge.
type advertised struct {
	Info struct {
		Input  map[string]json.RawMessage `json:"input"`
		Output struct {
			Example json.RawMessage `json:"example"`
		} `json:"output"`
	} `json:"info"`
	Schema struct {
		Properties struct {
			Input json.RawMessage `json:"input"`
		} `json:"properties"`
	} `json:"schema"`
}

func TestChallenge_SamplesOfTheSchemaReach402(t *testing.T) {
	w := open(t, nil)
	for _, path := range []string{base, transfers} {
		w.everySampleReaches402(t, path)
	}
}

func (w *world) everySampleReaches402(t *testing.T, path string) {
	t.Helper()
	var bazaar advertised
	w.must(json.Unmarshal(w.do(http.MethodPost, path, "").challenge().Extensions["bazaar"], &bazaar))
	input := w.schema(bazaar.Schema.Properties.Input)
	g := sampler{Rand: rand.New(rand.NewPCG(13, 1))}
	w.wantAll402(g, path, input.Properties["body"])

	// A registry may also make the whole input, with the method and the media type.
	for range 20 {
		value, err := g.sample(input)
		w.must(err)
		made, ok := value.(map[string]any)
		if !ok || len(made) != 4 || made["type"] != "http" || made["method"] != "POST" || made["bodyType"] != "json" {
			t.Fatalf("the schema allows the input %v", value)
		}
	}
	if members := slices.Sorted(maps.Keys(bazaar.Info.Input)); !slices.Equal(members, slices.Sorted(maps.Keys(input.Properties))) {
		t.Errorf("the example has the members %v", members)
	}
}

// A registry shows the example answer: what it says, with payer and amount, is what the example request is sold.
func TestChallenge_TheExampleAnswerIsOfTheSoldOne(t *testing.T) {
	w := open(t, nil)
	type answer struct {
		Receipt receipt.Receipt `json:"receipt"`
	}
	for nonce, path := range []string{base, transfers} {
		var bazaar advertised
		w.must(json.Unmarshal(w.do(http.MethodPost, path, "").challenge().Extensions["bazaar"], &bazaar))
		name, value := w.v2(fmt.Sprint(nonce + 1))
		bought := w.do(http.MethodPost, path, string(bazaar.Info.Input["body"]), name, value)
		var sold, shown, both answer
		example := json.NewDecoder(bytes.NewReader(bazaar.Info.Output.Example))
		example.DisallowUnknownFields()
		w.must(example.Decode(&shown))
		w.must(json.Unmarshal(bought.body, &sold))
		w.must(json.Unmarshal(bought.body, &both))
		w.must(json.Unmarshal(bazaar.Info.Output.Example, &both)) // over the sold one, which it changes in nothing
		if diff := cmp.Diff(sold, both); diff != "" || bought.status != http.StatusOK {
			t.Errorf("%s: %d, %s", path, bought.status, diff)
		}
		payer, amount := shown.Receipt.Transaction.From, shown.Receipt.Transaction.ValueWei
		if moved := shown.Receipt.Transfer; moved != nil {
			payer, amount = moved.From, moved.Amount
		}
		if payer == "" || amount == "" {
			t.Errorf("%s: the example is %s", path, bazaar.Info.Output.Example)
		}
	}
}

func TestChallenge_SamplesOfTheOpenAPIReach402(t *testing.T) {
	w := open(t, nil)
	var doc struct {
		Components struct{ Schemas map[string]json.RawMessage }
	}
	w.must(json.Unmarshal(w.do(http.MethodGet, "/openapi.json", "").body, &doc))
	g := sampler{Rand: rand.New(rand.NewPCG(13, 2)), defined: map[string]schema{}}
	for _, name := range []string{"VerificationRequest", "Expectations"} {
		g.defined[name] = w.schema(doc.Components.Schemas[name])
	}
	w.wantAll402(g, base, schema{Ref: "#/components/schemas/VerificationRequest"})
}
