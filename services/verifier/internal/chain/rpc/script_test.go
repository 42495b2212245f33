package rpc_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
)

// Building blocks of scripts.

type answer = func(recorded.Request, any, *recorded.Error) (any, *recorded.Error)

// onCall changes the answers to one method.
func onCall(method string, change answer) chaintest.Script {
	return chaintest.Script{Answer: func(c recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
		if c.Method == method {
			return change(c, result, err)
		}
		return result, err
	}}
}

// edited changes members of the object that a method answers with.
func edited(method string, changes map[string]any) chaintest.Script {
	return onCall(method, func(_ recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
		return chaintest.Edit(result, changes), err
	})
}

// refusing answers a method with an error.
func refusing(method string, code int, message string) chaintest.Script {
	return onCall(method, func(recorded.Request, any, *recorded.Error) (any, *recorded.Error) {
		return nil, &recorded.Error{Code: code, Message: message}
	})
}

// nothing answers a method with null.
func nothing(method string) chaintest.Script {
	return onCall(method, func(recorded.Request, any, *recorded.Error) (any, *recorded.Error) { return nil, nil })
}

// once plays a change for the first call of a method only.
func once(method string, change answer) chaintest.Script {
	var played atomic.Bool
	return onCall(method, func(c recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
		if played.Swap(true) {
			return result, err
		}
		return change(c, result, err)
	})
}

// inBlock changes members of one transaction in the full block.
func inBlock(index int, changes map[string]any) chaintest.Script {
	return onCall("eth_getBlockByNumber", func(c recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
		if strings.Contains(string(c.Params[1]), "false") {
			return result, err
		}
		block := chaintest.Edit(result, nil).(map[string]any)
		list := block["transactions"].([]any)
		list[index] = chaintest.Edit(list[index], changes)
		return block, err
	})
}

// inReceipts changes the list of the block's receipts.
func inReceipts(change func(list []any) []any) chaintest.Script {
	return onCall("eth_getBlockReceipts", func(_ recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
		text, _ := json.Marshal(result)
		var list []any
		if json.Unmarshal(text, &list) != nil {
			return result, err
		}
		return change(list), err
	})
}

// both plays two scripts' answers, one after the other.
func both(a, b chaintest.Script) chaintest.Script {
	return chaintest.Script{Answer: func(c recorded.Request, result any, err *recorded.Error) (any, *recorded.Error) {
		result, err = a.Answer(c, result, err)
		return b.Answer(c, result, err)
	}}
}

// status answers every exchange with an HTTP status.
func status(code int, header ...string) chaintest.Script {
	return chaintest.Script{HTTP: func(w http.ResponseWriter, _ *http.Request, _ []recorded.Request) bool {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		return true
	}}
}

// saying answers every exchange with a text.
func saying(text string) chaintest.Script {
	return chaintest.Script{HTTP: func(w http.ResponseWriter, _ *http.Request, _ []recorded.Request) bool {
		_, _ = io.WriteString(w, text)
		return true
	}}
}

// cut breaks the connection in the middle of every answer.
func cut() chaintest.Script {
	return chaintest.Script{HTTP: func(w http.ResponseWriter, _ *http.Request, _ []recorded.Request) bool {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `[{"jsonrpc":"2.0","id":1,"result":"0x`)
		return true
	}}
}

// endless answers with more than any answer may have.
func endless() chaintest.Script {
	return chaintest.Script{HTTP: func(w http.ResponseWriter, _ *http.Request, _ []recorded.Request) bool {
		spaces := []byte(strings.Repeat(" ", 1<<20))
		for range 70 {
			if _, err := w.Write(spaces); err != nil {
				return true
			}
		}
		return true
	}}
}

// bomb answers with a few kilobytes that decompress to more than any answer may have.
func bomb() chaintest.Script {
	return chaintest.Script{HTTP: func(w http.ResponseWriter, r *http.Request, _ []recorded.Request) bool {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			return false // not requested
		}
		w.Header().Set("Content-Encoding", "gzip")
		zipped := gzip.NewWriter(w)
		spaces := []byte(strings.Repeat(" ", 1<<20))
		for range 70 {
			if _, err := zipped.Write(spaces); err != nil {
				return true
			}
		}
		_ = zipped.Close()
		return true
	}}
}

// without refuses a kind of exchange: batches, or single calls.
func without(batches bool, code int) chaintest.Script {
	return chaintest.Script{HTTP: func(w http.ResponseWriter, _ *http.Request, calls []recorded.Request) bool {
		if batches != (len(calls) > 1) {
			return false
		}
		w.WriteHeader(code)
		return true
	}}
}
