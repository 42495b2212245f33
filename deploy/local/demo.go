package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
)

// demo becomes the agent, configured to pay at the stack that `make up` runs, and then
// for the evidence of that payment.
func demo(l layout.Layout, args []string) error {
	agent := filepath.Join(l.Bin, "agent")
	if err := stack.Check(agent); err != nil {
		return err
	}
	if lock, err := stack.Lock(l.State); err == nil {
		_ = lock.Close()
		return errors.New("no stack runs here: run make up in another terminal first")
	}
	text, err := os.ReadFile(l.Path(runningFile))
	if err != nil {
		return fmt.Errorf("the stack is not up yet: %w", err)
	}
	var r running
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("read %s: %w", l.Path(runningFile), err)
	}
	command := append([]string{agent, "-url", r.URL, "-rpc", r.Chain, "-prove-payment"}, args...)
	return syscall.Exec(agent, command, l.AgentEnv()) //nolint:gosec // a program of ours
}

// runningFile of the state describes the stack that runs. A start removes the one of
// the run before.
const runningFile = "running.json"

type running struct {
	URL   string `json:"url"`
	Chain string `json:"chain"`
}

func writeRunning(l layout.Layout) error {
	text, err := json.Marshal(running{URL: l.PublicURL, Chain: "http://" + l.Chain})
	if err != nil {
		return err
	}
	return os.WriteFile(l.Path(runningFile), text, 0o600)
}
