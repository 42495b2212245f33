package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestSendFirst_ReturnsTheHashOrTheChainsReason(t *testing.T) {
	const hash = "0xbdff9e135193bcb577c97cc5deef122c50b13f1aa3881ff6bde883f622075687"
	answer := `{"jsonrpc":"2.0","id":1,"result":"` + hash + `"}`
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(asked), `"eth_sendRawTransaction","params":["0x02f8`) || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v, %s", err, asked)
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer node.Close()
	if got, err := sendFirst(t.Context(), node.URL); got != hash || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	answer = `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"nonce too low"}}`
	if got, err := sendFirst(t.Context(), node.URL); got != "" || err == nil || !strings.Contains(err.Error(), "nonce too low") {
		t.Errorf("got %q, %v", got, err)
	}
	answer = "no JSON"
	if got, err := sendFirst(t.Context(), node.URL); got != "" || err == nil {
		t.Errorf("got %q, %v", got, err)
	}
}
