package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
)

// postJSON sends a question to a URL, past every fault, and reads the answer,
// whatever its status.
func postJSON(ctx context.Context, url string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	return json.NewDecoder(response.Body).Decode(answer)
}
