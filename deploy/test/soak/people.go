package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
)

// memberPassword is the password of every member of this household.
const memberPassword = "soaking for hours"

// visitor is a browser: it keeps its cookies and sends its CSRF token.
type visitor struct {
	base, name, password string
	cookies, csrf        string
}

// login logs in anew and keeps the session.
func (v *visitor) login(ctx context.Context) error {
	credentials, err := json.Marshal(map[string]string{"username": v.name, "password": v.password})
	if err != nil {
		return err
	}
	var answer struct {
		CSRFToken string `json:"csrfToken"`
	}
	request, err := v.request(ctx, http.MethodPost, "/login", string(credentials))
	if err != nil {
		return err
	}
	if err := v.send(request, http.StatusOK, &answer); err != nil {
		return err
	}
	v.csrf = answer.CSRFToken
	return nil
}

// create makes a member and gives his id.
func (v *visitor) create(ctx context.Context, name string) (int64, error) {
	body := fmt.Sprintf(`{"username":%q,"display_name":%q,"password":%q}`, name, name, memberPassword)
	var answer struct {
		User struct {
			ID int64 `json:"id"`
		} `json:"user"`
	}
	request, err := v.request(ctx, http.MethodPost, "/users", body)
	if err != nil {
		return 0, err
	}
	err = v.send(request, http.StatusCreated, &answer)
	return answer.User.ID, err
}

// want asks auth and insists on a status.
func (v *visitor) want(ctx context.Context, status int, method, path, body string) error {
	request, err := v.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	return v.send(request, status, nil)
}

func (v *visitor) request(ctx context.Context, method, path, body string) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, v.base+"/api/v1/auth"+path, strings.NewReader(body))
	if err == nil && body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, err
}

// send sends the request with the cookies, takes over new ones, and reads the
// answer into it unless it is nil.
func (v *visitor) send(request *http.Request, status int, into any) error {
	if v.cookies != "" {
		request.Header.Set("Cookie", v.cookies)
		request.Header.Set("X-CSRF-Token", v.csrf)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	if response.StatusCode != status {
		return fmt.Errorf("%s %s: %d in place of %d: %.200s", request.Method, request.URL.Path, response.StatusCode, status, body)
	}
	if v.cookies == "" && into != nil {
		for _, cookie := range response.Cookies() {
			v.cookies += cookie.Name + "=" + cookie.Value + "; "
		}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// paid buys a verification of a transaction that is known to be final.
func (l *load) paid(ctx context.Context) error {
	_, err := l.buy(ctx, "-tx", *l.tx.Load())
	return err
}

// fresh sends a transaction, waits until it is final, and buys its verification.
func (l *load) fresh(ctx context.Context) error {
	tx, err := l.buy(ctx)
	if err == nil {
		l.tx.Store(&tx)
	}
	return err
}

// buy lets the agent pay once. It checks the receipt and gives the transaction.
func (l *load) buy(ctx context.Context, args ...string) (tx string, err error) {
	args = append([]string{"-url", l.PublicURL, "-rpc", "http://" + l.Chain, "-json"}, args...)
	agent := exec.CommandContext(ctx, filepath.Join(l.Bin, "agent"), args...) //nolint:gosec // a program of ours
	agent.Env = l.AgentEnv()
	var out, faults bytes.Buffer
	agent.Stdout, agent.Stderr = &out, &faults
	if err := agent.Run(); err != nil {
		return "", fmt.Errorf("agent: %w: %.300s %.300s", err, out.String(), faults.String())
	}
	var bought struct {
		Verified    bool   `json:"verified"`
		Transaction string `json:"transaction"`
	}
	if err := json.Unmarshal(out.Bytes(), &bought); err != nil {
		return "", err
	}
	if !bought.Verified {
		return "", fmt.Errorf("agent: the receipt does not hold: %.300s", out.String())
	}
	return bought.Transaction, nil
}
