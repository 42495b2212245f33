package suite

import (
	"bytes"
	"fmt"
	"strings"
)

// request makes the bytes of a request. headers are "Name: value" lines.
func request(method, path, body string, headers ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path)
	for _, header := range headers {
		b.WriteString(header + "\r\n")
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

// always asks the same.
func always(request []byte) func() []byte { return func() []byte { return request } }

// inTurn asks one after the other, and then the first again.
func inTurn(requests [][]byte) func() []byte {
	next := 0
	return func() []byte {
		next++
		return requests[(next-1)%len(requests)]
	}
}

// cookies gives the Cookie header that a browser sends after an answer with
// these Set-Cookie headers.
func cookies(set []string) string {
	pairs := make([]string, 0, len(set))
	for _, cookie := range set {
		pair, _, _ := strings.Cut(cookie, ";")
		pairs = append(pairs, pair)
	}
	return "Cookie: " + strings.Join(pairs, "; ")
}
