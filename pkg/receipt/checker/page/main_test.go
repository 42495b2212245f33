package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestPage_ExampleIsAGoldenVector(t *testing.T) {
	for name, path := range map[string]string{
		"answer.json": "../../testdata/vectors/base/response.json", "receipt-signing-key.json": "../../testdata/vectors/base/key.json",
		"answer.tlog-proof": "../../receiptlog/testdata/receipt.tlog-proof", "policy": "../../receiptlog/testdata/policy",
	} {
		ours, err := example.ReadFile("example/" + name)
		if err != nil {
			t.Fatal(err)
		}
		golden, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(ours, golden) {
			t.Errorf("%s is not %s", name, path)
		}
	}
}

func TestPage_PolicyAllowsNoConnection(t *testing.T) {
	html, err := compose("the worker", []byte("the program"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(html)
	between := func(from, to string) string {
		t.Helper()
		_, rest, found := strings.Cut(text, from)
		inside, _, closed := strings.Cut(rest, to)
		if !found || !closed {
			t.Fatalf("there is nothing between %s and %s", from, to)
		}
		return inside
	}
	policy := between(`http-equiv="Content-Security-Policy" content="`, `"`)
	for _, want := range []string{"default-src 'none'", source(between("\n<script>", "</script>")), source(between("<style>", "</style>")), "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy has no %s: %s", want, policy)
		}
	}
	for _, forbidden := range []string{"connect-src", "unsafe-inline", "'unsafe-eval'", "http:", "https:", "'self'"} {
		if strings.Contains(policy, forbidden) {
			t.Errorf("the policy has %s: %s", forbidden, policy)
		}
	}
	if strings.Contains(text, "{{") || strings.Count(text, "<script>") != 1 || strings.Contains(text, " src=") || strings.Contains(text, `style="`) {
		t.Error("the page has something that is not in it, or more than one script")
	}
}

func TestPage_RefusesAPartThatEndsItsElement(t *testing.T) {
	if _, err := compose("</script>", nil); err == nil {
		t.Error("it is not refused")
	}
}
