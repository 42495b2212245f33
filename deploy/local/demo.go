package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
)

const (
	// loggedWithin bounds the wait for the receipt in the log, and loggedEvery is how
	// often it is looked for.
	loggedWithin = 10 * time.Second
	loggedEvery  = 250 * time.Millisecond
)

// demo runs the agent, configured to pay at the stack that `make up` runs, and then for
// the evidence of that payment. At last it finds the receipt of it in the log.
func demo(ctx context.Context, l layout.Layout, args []string, out io.Writer) error {
	for _, program := range []string{"agent", "receipt"} {
		if err := stack.Check(filepath.Join(l.Bin, program)); err != nil {
			return err
		}
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
	answer := saved(args)
	if answer == "" && r.Log {
		answer = l.Path("demo.json")
		args = append([]string{"-out", answer}, args...)
	}
	agent := exec.CommandContext(ctx, filepath.Join(l.Bin, "agent"), append([]string{"-url", r.URL, "-rpc", r.Chain, "-prove-payment"}, args...)...) //nolint:gosec // a program of ours
	agent.Env, agent.Stdin, agent.Stdout, agent.Stderr = l.AgentEnv(), os.Stdin, out, os.Stderr
	agent.Cancel = func() error { return agent.Process.Signal(syscall.SIGTERM) }
	checkpoint := finalized(ctx, r.Beacon)
	begin := time.Now()
	if err := agent.Run(); err != nil {
		return err
	}
	info, err := os.Stat(answer)
	if !r.Log || err != nil || info.ModTime().Before(begin.Add(-time.Second)) || slices.Contains(args, "-json") || slices.Contains(args, "--json") {
		return nil // nothing was bought, or a program reads the output
	}
	if err := logged(ctx, l, r.URL, answer, out); err != nil {
		return err
	}
	return proven(ctx, l, r.URL, answer, checkpoint, out)
}

// finalized returns the root of the block that the beacon node calls final: the
// checkpoint of a reader who trusts that node. It waits for the chain's first one, and
// returns "" where there is none.
func finalized(ctx context.Context, beacon string) string {
	ctx, done := context.WithTimeout(ctx, loggedWithin)
	defer done()
	tick := time.NewTicker(loggedEvery)
	defer tick.Stop()
	for {
		if root := readFinalized(ctx, beacon); root != "" {
			return root
		}
		select {
		case <-ctx.Done():
			return ""
		case <-tick.C:
		}
	}
}

func readFinalized(ctx context.Context, beacon string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, beacon+"/eth/v1/beacon/headers/finalized", http.NoBody)
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	var header struct{ Data struct{ Root string } }
	_ = json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&header) // without a root there is no checkpoint
	return header.Data.Root
}

// proven waits until the receipt's block is proven final from a checkpoint, and prints
// what `receipt verify` finds. A proof that is late is no fault of the purchase.
func proven(ctx context.Context, l layout.Layout, site, answer, checkpoint string, out io.Writer) error {
	if checkpoint == "" {
		return nil
	}
	ctx, done := context.WithTimeout(ctx, loggedWithin)
	defer done()
	tick := time.NewTicker(loggedEvery)
	defer tick.Stop()
	for {
		verify := exec.CommandContext(ctx, filepath.Join(l.Bin, "receipt"), //nolint:gosec // a program of ours
			"verify", answer, "--key", site, "--finality", site, "--checkpoint", checkpoint, "--network", l.BeaconNetwork(), "--require-finality")
		if report, err := verify.Output(); err == nil {
			_, found, _ := bytes.Cut(report, []byte("\nFinal:"))
			final, _, _ := bytes.Cut(found, []byte("\n\n"))
			_, err = fmt.Fprintf(out, "Final:%s\n", final)
			return err
		}
		select {
		case <-ctx.Done():
			_, err := fmt.Fprintf(out, "Final:     not proven within %s; look later:\n  receipt verify %s --key %s --finality %s --checkpoint %s --network %s\n",
				loggedWithin, answer, site, site, checkpoint, l.BeaconNetwork())
			return err
		case <-tick.C:
		}
	}
}

// saved returns the file that the agent's arguments name for its answer, "" where they
// name none.
func saved(args []string) (file string) {
	for i, arg := range args {
		name, value, attached := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		switch {
		case name != "out" || !strings.HasPrefix(arg, "-"):
		case attached:
			file = value
		case i+1 < len(args):
			file = args[i+1]
		}
	}
	return file
}

// logged waits until the log has a receipt, and prints what `receipt verify` finds there.
// A log that is late is no fault of the purchase.
func logged(ctx context.Context, l layout.Layout, site, answer string, out io.Writer) error {
	ctx, done := context.WithTimeout(ctx, loggedWithin)
	defer done()
	tick := time.NewTicker(loggedEvery)
	defer tick.Stop()
	for {
		verify := exec.CommandContext(ctx, filepath.Join(l.Bin, "receipt"), //nolint:gosec // a program of ours
			"verify", answer, "--key", site, "--log", site, "--log-policy", l.LogPolicy())
		if report, err := verify.Output(); err == nil {
			for line := range bytes.Lines(report) {
				if bytes.HasPrefix(line, []byte("Logged:")) {
					_, err = out.Write(line)
				}
			}
			return err
		}
		select {
		case <-ctx.Done():
			_, err := fmt.Fprintf(out, "Logged:  not within %s; look later:\n  receipt verify %s --key %s --log %s --log-policy %s\n", loggedWithin, answer, site, site, l.LogPolicy())
			return err
		case <-tick.C:
		}
	}
}

// runningFile of the state describes the stack that runs. A start removes the one of
// the run before.
const runningFile = "running.json"

type running struct {
	URL   string `json:"url"`
	Chain string `json:"chain"`
	Log   bool   `json:"log"`
	// Beacon is the address of the chain's beacon node.
	Beacon string `json:"beacon"`
}

func writeRunning(l layout.Layout) error {
	text, err := json.Marshal(running{URL: l.PublicURL, Chain: "http://" + l.Chain, Log: l.Log, Beacon: "http://" + l.Beacon})
	if err != nil {
		return err
	}
	return os.WriteFile(l.Path(runningFile), text, 0o600)
}
