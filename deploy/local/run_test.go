package main

import (
	"bytes"
	"strings"
	"testing"
)

func none(string) string { return "" }

func TestVersion_IsPrinted(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--version"}, none, &out); err != nil || !strings.HasPrefix(out.String(), "local ") {
		t.Errorf("got %v, %s", err, &out)
	}
}

func TestCommands_ThatAreUnknownAreFaults(t *testing.T) {
	if err := run(t.Context(), []string{"dmo"}, none, &bytes.Buffer{}); err == nil {
		t.Error("no fault")
	}
}

func TestAnswers_FileIsTheLastNamed(t *testing.T) {
	for want, args := range map[string][]string{
		"": {"-tx", "out"}, "a": {"-out", "a"}, "b": {"--out=a", "-json", "-out=b"}, "c": {"-out", "a", "--out", "c"},
	} {
		if got := saved(args); got != want {
			t.Errorf("%v: %q, want %q", args, got, want)
		}
	}
}
