//go:build js && wasm

// Command wasm is package checker for a browser: it defines the function checkReceipt,
// which takes a list of texts and returns the report as JSON, or {"error": text}.
package main

import (
	"encoding/json"
	"fmt"
	"syscall/js"

	"github.com/pforte/pforte/pkg/receipt/checker"
)

func main() {
	js.Global().Set("checkReceipt", js.FuncOf(func(_ js.Value, args []js.Value) any { return check(args) }))
	select {} // the function is called for as long as the page lasts
}

// check judges the texts of args[0]. It answers a panic as an error, because a panic would
// end the program and leave the page without an answer.
func check(args []js.Value) (answer string) {
	defer func() {
		if fault := recover(); fault != nil {
			answer = encode(map[string]string{"error": fmt.Sprint(fault)})
		}
	}()
	texts := make([]string, args[0].Length())
	for i := range texts {
		texts[i] = args[0].Index(i).String()
	}
	return encode(checker.Check(texts))
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return `{"error":"the report cannot be written"}`
	}
	return string(text)
}
