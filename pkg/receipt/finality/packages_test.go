package finality_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/internal/verdict"
)

// judged are the documents that these tests judge, by their text and the trust.
var judged struct {
	sync.Mutex
	lines map[string]verdict.Question
}

// note keeps a document for the npm module, which must find what Go finds.
func note(d *finality.Document, trust finality.Trust) {
	text, err := json.Marshal(d)
	if err != nil {
		return // it has no text
	}
	q := verdict.Question{
		Finality: text, Checkpoint: trust.Checkpoint.String(), MaxCheckpointAge: int64(trust.MaxAge / time.Second),
	}
	if trust.Network != nil {
		if q.Network, err = json.Marshal(trust.Network); err != nil {
			return
		}
	}
	judged.Lock()
	defer judged.Unlock()
	if judged.lines == nil {
		judged.lines = map[string]verdict.Question{}
	}
	judged.lines[string(text)+string(q.Network)+q.Checkpoint+fmt.Sprint(q.MaxCheckpointAge)] = q
}

// TestMain lets the npm module judge, at the end, every document that was judged.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 && len(judged.lines) > 0 {
		if err := judgeAgain(); err != nil {
			fmt.Println("FAIL: the npm module:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func judgeAgain() error {
	const script = "../npm/test/agree.mjs"
	_, noNode := exec.LookPath("node")
	if _, err := os.Stat("../npm/node_modules/esbuild"); err != nil || noNode != nil {
		if os.Getenv("CI") != "" {
			return fmt.Errorf("node, or the npm module, is missing: make packages")
		}
		return nil
	}
	folder, err := os.MkdirTemp("", "finality")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	var text bytes.Buffer
	for _, q := range judged.lines {
		inline := map[string][]byte{"finality": q.Finality}
		if q.Network != nil {
			inline["network"] = q.Network
		}
		v := verdict.Judge(q)
		if v.Finality != nil {
			v.Finality.Proven = nil
		}
		if err := json.NewEncoder(&text).Encode(map[string]any{
			"name": "finality", "inline": inline, "checkpoint": q.Checkpoint, "maxCheckpointAge": q.MaxCheckpointAge, "verdict": v,
		}); err != nil {
			return err
		}
	}
	path := filepath.Join(folder, "lines.jsonl")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "node", script, path).CombinedOutput()
	fmt.Printf("node: %s", out)
	return err
}
