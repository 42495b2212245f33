package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// firstTransaction is the first one on the development chain, for buyers to ask about: 1 wei from the account
// of [layout.PayerKey] to [layout.Payee], signed with nonce 0. The chain is in memory and each start begins it
// anew, so that it is taken each time, and has the same hash.
const firstTransaction = "0x02f86e83014a3480843b9aca0085174876e800825208943c44cdddb6a900fa2b585dd299e03d12fa4293bc" +
	"0180c001a098772e9c08cf5629cd9c0d08710316bd51d38a2202496469fbfa305a45f78761a0" +
	"0e4be712cec6e5be4d9bbfe63f9cb1f24379c32a8840639e3784a6a2793a0e2b"

const sendWithin = 5 * time.Second

func sendFirst(ctx context.Context, node string) (hash string, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	var answer struct {
		Result string
		Error  json.RawMessage
	}
	status, err := call(ctx, http.MethodPost, node,
		`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["`+firstTransaction+`"]}`, &answer)
	if err == nil && answer.Result == "" {
		err = fmt.Errorf("it answers %d %s", status, answer.Error)
	}
	if err != nil {
		return "", fmt.Errorf("send the first transaction to the chain: %w", err)
	}
	return answer.Result, nil
}

// call sends a request, with a body of JSON unless it is empty, and decodes the JSON of the answer, whatever its
// status is.
func call(ctx context.Context, method, url, body string, answer any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode, json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(answer)
}
