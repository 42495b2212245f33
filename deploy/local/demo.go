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
	// within bounds a wait: for the first block that is final, and for the receipt's proofs.
	// every is how often they are looked for.
	within = 10 * time.Second
	every  = 250 * time.Millisecond
)

// demo runs the agent, which buys at the stack that `make up` runs, and then buys the
// evidence of that payment. Where the agent succeeds, has bought something and has no -json, and there
// is a log, demo looks for the receipt there, and proves its block final if it has got a checkpoint.
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
	answer, checkpoint := saved(args), ""
	ends := r.Log && !slices.Contains(args, "-json") && !slices.Contains(args, "--json") // a program reads that
	if ends {
		checkpoint = finalized(ctx, r.Beacon)
		if answer == "" {
			answer = l.Path("demo.json")
			args = append([]string{"-out", answer}, args...)
		}
	}
	args = append([]string{"-url", r.URL, "-rpc", r.Chain, "-prove-payment"}, args...)
	agent := exec.CommandContext(ctx, filepath.Join(l.Bin, "agent"), args...) //nolint:gosec // a program of ours
	agent.Env, agent.Stdin, agent.Stdout, agent.Stderr = l.AgentEnv(), os.Stdin, out, os.Stderr
	agent.Cancel = func() error { return agent.Process.Signal(syscall.SIGTERM) }
	begin := time.Now()
	if err := agent.Run(); err != nil || !ends {
		return err
	}
	if info, err := os.Stat(answer); err != nil || info.ModTime().Before(begin.Add(-time.Second)) {
		return nil // nothing was bought
	}
	verify := []string{"verify", answer, "--key", r.URL, "--log", r.URL, "--log-policy", l.LogPolicy()}
	if checkpoint != "" {
		verify = append(verify, "--finality", r.URL, "--checkpoint", checkpoint, "--network", l.BeaconNetwork(),
			"--require-finality")
	}
	return proven(ctx, filepath.Join(l.Bin, "receipt"), verify, out)
}

// eventually calls done until it returns true, the time within has passed or ctx ends, and reports
// whether it returned true.
func eventually(ctx context.Context, done func(context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !done(ctx) {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// proven repeats "receipt verify" until the proofs that it asks for are there, and prints what it says of
// log and finality. When the time within has passed or ctx has ended, it prints how to look later, and
// returns no error for that: proofs that are late are no fault of the purchase.
func proven(ctx context.Context, program string, verify []string, out io.Writer) error {
	var report []byte
	if !eventually(ctx, func(ctx context.Context) (done bool) {
		var err error
		report, err = exec.CommandContext(ctx, program, verify...).Output() //nolint:gosec // a program of ours
		return err == nil
	}) {
		_, err := fmt.Fprintf(out, "The proofs of log and finality were not there within %s; look later:\n  "+
			"receipt %s\n", within, strings.Join(verify, " "))
		return err
	}
	_, err := out.Write(parts(report, "Logged:", "Final:"))
	return err
}

// parts returns the lines of a report that begin with one of begin, each with the indented lines
// after it.
func parts(report []byte, begin ...string) (found []byte) {
	in := false
	for line := range bytes.Lines(report) {
		if !bytes.HasPrefix(line, []byte(" ")) {
			in = slices.ContainsFunc(begin, func(b string) bool { return bytes.HasPrefix(line, []byte(b)) })
		}
		if in {
			found = append(found, line...)
		}
	}
	return found
}

// finalized returns the root of the block that the beacon node calls final: the
// checkpoint of a reader who trusts that node. It waits for the chain's first final
// block, and returns "" when the time within has passed or ctx ends.
func finalized(ctx context.Context, beacon string) (root string) {
	eventually(ctx, func(ctx context.Context) bool {
		var header struct{ Data struct{ Root string } }
		// Without a root there is no checkpoint.
		_, _ = call(ctx, http.MethodGet, beacon+"/eth/v1/beacon/headers/finalized", "", &header)
		root = header.Data.Root
		return root != ""
	})
	return root
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

// runningFile is the file of the state that describes the stack that runs. A start removes the
// file of the run before.
const runningFile = "running.json"

type running struct {
	URL   string `json:"url"`
	Chain string `json:"chain"`
	Log   bool   `json:"log"`
	// Beacon is the URL of the chain's beacon node.
	Beacon string `json:"beacon"`
}

func writeRunning(l layout.Layout) error {
	text, err := json.Marshal(running{URL: l.PublicURL, Chain: "http://" + l.Chain, Log: l.Log, Beacon: "http://" +
		l.Beacon})
	if err != nil {
		return err
	}
	return os.WriteFile(l.Path(runningFile), text, 0o600)
}
