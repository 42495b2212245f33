package verdict

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Notes are questions that a package's tests ask, with the verdicts of Judge. After the tests, Check
// asks packages in other languages the same questions, and they must reach the same verdicts.
type Notes struct {
	lines map[string][]byte // of JSON, keyed by their text, so that a repeated question is noted once
}

// Add notes a question with the verdict of Judge. Tests that run at once must not share Notes.
func (n *Notes) Add(q Question) {
	v := Judge(q)
	if v.Finality != nil {
		v.Finality.Proven = nil
	}
	inline := map[string][]byte{}
	for name, text := range map[string][]byte{
		"answer": q.Answer, "keys": q.Keys, "log": q.Log, "policy": q.Policy, "list": q.List, "finality": q.Finality,
		"network": q.Network,
	} {
		if text != nil {
			inline[name] = text
		}
	}
	line, err := json.Marshal(map[string]any{
		"name": "noted", "inline": inline, "checkpoint": q.Checkpoint, "maxCheckpointAge": q.MaxCheckpointAge,
		"kind": q.Kind, "withoutProof": q.WithoutProof, "verdict": v,
	})
	if err != nil {
		return // what is no JSON cannot be asked
	}
	if n.lines == nil {
		n.lines = map[string][]byte{}
	}
	n.lines[string(line)] = line
}

// Check has programs in other languages judge what was noted, and returns an error when one
// disagrees. A program is its name and the path of its script below top, which is the path of
// pkg/receipt. A program that cannot run here is skipped, or an error where CI is set.
func (n *Notes) Check(top string, programs ...[2]string) error {
	if len(n.lines) == 0 {
		return nil
	}
	folder, err := os.MkdirTemp("", "verdicts")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path := filepath.Join(folder, "lines.jsonl")
	var text bytes.Buffer
	for _, line := range n.lines {
		text.Write(append(line, '\n'))
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for _, p := range programs {
		_, err := exec.LookPath(p[0])
		if _, built := os.Stat(filepath.Join(top, "npm/node_modules/esbuild")); p[0] == "node" {
			err = errors.Join(err, built)
		}
		if err != nil {
			if os.Getenv("CI") != "" {
				return fmt.Errorf("%w: make packages", err)
			}
			continue
		}
		cmd := exec.CommandContext(ctx, p[0], filepath.Join(top, p[1]), path) //nolint:gosec // named by the tests
		out, err := cmd.CombinedOutput()
		fmt.Printf("%s: %s", p[0], out)
		if err != nil {
			return fmt.Errorf("%s: %w", p[0], err)
		}
	}
	return nil
}

// Main is the TestMain of a package that notes: it runs the tests and, if they pass, Check. It returns the exit code.
func (n *Notes) Main(m interface{ Run() int }, top string, programs ...[2]string) int {
	code := m.Run()
	if code == 0 {
		if err := n.Check(top, programs...); err != nil {
			fmt.Println("FAIL:", err)
			code = 1
		}
	}
	return code
}

// Programs for Check.
var (
	JavaScript = [2]string{"node", "npm/test/agree.mjs"}
	Python     = [2]string{"python3", "python/tests/agree.py"}
)
