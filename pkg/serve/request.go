package serve

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
)

// RequestIDHeader names a request, in what was asked, in the answer, and in the
// log.
const RequestIDHeader = "X-Request-Id"

// maxRequestID bounds a name that is taken over, in characters.
const maxRequestID = 64

// RequestID is the name that a request brings in RequestIDHeader, if it has 1 to
// 64 characters of A-Z a-z 0-9 . _ -, or a new one.
func RequestID(r *http.Request) string {
	if id := r.Header.Get(RequestIDHeader); isRequestID(id) {
		return id
	}
	return rand.Text()
}

func isRequestID(id string) bool {
	for _, c := range []byte(id) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return id != "" && len(id) <= maxRequestID
}

// Recover is deferred, and turns a panic into an error that holds its stack:
// the request is answered and logged as failed. What http.ErrAbortHandler asks
// for goes on.
func Recover(err *error) {
	r := recover()
	if r == nil {
		return
	}
	if fault, ok := r.(error); ok && errors.Is(fault, http.ErrAbortHandler) {
		panic(r)
	}
	*err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
}
