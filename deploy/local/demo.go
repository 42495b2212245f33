package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
)

// demo becomes the agent, configured to pay at the stack that `make up` runs.
func demo(l layout.Layout, args []string) error {
	agent := filepath.Join(l.Bin, "agent")
	if err := stack.Check(agent); err != nil {
		return err
	}
	if lock, err := stack.Lock(l.State); err == nil {
		_ = lock.Close()
		return errors.New("no stack runs here: run make up in another terminal first")
	}
	running, err := readRunning(l)
	if err != nil {
		return err
	}
	command := append([]string{agent, "-url", running.URL, "-rpc", running.Chain}, args...)
	return syscall.Exec(agent, command, l.AgentEnv()) //nolint:gosec // a program of ours
}

// running is the content of the state's file running.json: the stack that
// runs.
type running struct {
	URL   string `json:"url"`
	Chain string `json:"chain"`
}

// forgetRunning removes the file of the last run while this one starts.
func forgetRunning(l layout.Layout) error {
	if err := os.Remove(l.Path("running.json")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func writeRunning(l layout.Layout) error {
	text, err := json.Marshal(running{URL: l.PublicURL, Chain: "http://" + l.Chain})
	if err != nil {
		return err
	}
	return os.WriteFile(l.Path("running.json"), text, 0o600)
}

func readRunning(l layout.Layout) (r running, err error) {
	text, err := os.ReadFile(l.Path("running.json"))
	if err != nil {
		return r, fmt.Errorf("the stack is not up yet: %w", err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("read %s: %w", l.Path("running.json"), err)
	}
	return r, nil
}
