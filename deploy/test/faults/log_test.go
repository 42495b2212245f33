package faults

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/receipt/witness"
)

// receiptLog is the log of receipts of a world's verifier: its key, and two witnesses, both
// of which must cosign. They are programs of others, and never wrong; what is between
// them and the verifier fails.
type receiptLog struct {
	key, policy string // files
	witnesses   [2]*logWitness
}

// newReceiptLog makes the keys of a log and its witnesses, which serve until the test ends.
func newReceiptLog(t *testing.T, w *world) *receiptLog {
	t.Helper()
	l := &receiptLog{key: w.Path("log.pem"), policy: w.Path("log-policy")}
	key := newLogKey(t, l.key)
	signer, err := receiptlog.NewLogSigner(strings.TrimPrefix(w.PublicURL, "http://")+"/v1/log/1", key)
	if err != nil {
		t.Fatal(err)
	}
	text := "log " + signer.Key.String() + "\n"
	for i := range l.witnesses {
		name := fmt.Sprintf("witness%d", i)
		own, err := receiptlog.NewWitnessSigner(name, newLogKey(t, w.Path(name+".pem")), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		each := &logWitness{Options: witness.Options{Signer: own, Logs: []receiptlog.Key{signer.Key}, State: w.Path(name)}}
		served := httptest.NewServer(each)
		t.Cleanup(served.Close)
		each.link = newHTTPProxy(t, served.Listener.Addr().String())
		l.witnesses[i] = each
		text += fmt.Sprintf("witness %s %s %s\n", name, own.Key, each.link.URL)
	}
	if err := os.WriteFile(l.policy, []byte(text+"group both all witness0 witness1\nquorum both\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

// newLogKey writes a new key to a file.
func newLogKey(t *testing.T, path string) ed25519.PrivateKey {
	t.Helper()
	key, err := receipt.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	pem, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	private, err := receiptlog.ParsePrivateKey(pem)
	if err != nil {
		t.Fatal(err)
	}
	return private
}

// settings are those of the verifier. The mark is on its disk, which each run begins anew.
func (l *receiptLog) settings(disk disk) map[string]string {
	return map[string]string{
		"RECEIPT_LOG_KEY_FILE": l.key, "LOG_POLICY_FILE": l.policy, "LOG_MARK_FILE": filepath.Join(string(disk), "log-mark"),
		"LOG_INTERVAL": "200ms", "LOG_WITNESS_TIMEOUT": "1s",
	}
}

// forget makes the witnesses new ones, for a log that begins with nothing.
func (l *receiptLog) forget() error {
	for _, each := range l.witnesses {
		if err := each.forget(); err != nil {
			return err
		}
	}
	return nil
}

// logWitness is a witness that begins each run with nothing.
type logWitness struct {
	witness.Options
	link *httpProxy

	mu      sync.RWMutex // held for reading while a request is answered
	current *witness.Witness
}

func (w *logWitness) forget() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != nil {
		if err := w.current.Close(); err != nil {
			return err
		}
	}
	if err := os.Remove(w.State); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := witness.Create(w.State)
	if err == nil {
		w.current, err = witness.Open(w.Options)
	}
	return err
}

// ServeHTTP implements http.Handler.
func (w *logWitness) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	w.current.ServeHTTP(out, r)
}

// proofWithin is how long the receipts that were sold may wait for their proofs when nothing
// fails any more: a witness that failed is asked again after some seconds.
const proofWithin = 30 * time.Second

// fewReceipts is how many receipts are given to the program receipt, which starts for each;
// the others are checked by the same code here.
const fewReceipts = 10

// judgeLog finds receipts that were sold and that a reader who asks for the log would
// refuse, and whatever the log's own audit finds.
func (a audit) judgeLog(ctx context.Context) error {
	text, err := os.ReadFile(a.log.policy)
	if err != nil {
		return err
	}
	policy, err := receiptlog.ParsePolicy(text)
	if err != nil {
		return err
	}
	checked, deadline := map[string]bool{}, time.Now().Add(proofWithin)
	for _, p := range a.of(honest) {
		for _, pay := range p.payments {
			answer, sold := pay.delivered()
			if !sold || checked[string(answer.Body)] {
				continue
			}
			checked[string(answer.Body)] = true
			if err := a.checkLogged(ctx, deadline, answer.Body, policy); err != nil {
				a.violated("sold and not in the log: payment %s: %v", pay.Nonce, err)
			} else if len(checked) <= fewReceipts {
				a.verifyLogged(ctx, answer.Body)
			}
		}
	}
	a.count("receipts found in the log", len(checked))
	return a.auditLog(ctx)
}

// checkLogged waits for the proof of a receipt until a moment, and checks it.
func (a audit) checkLogged(ctx context.Context, deadline time.Time, body []byte, policy receiptlog.Policy) error {
	doc, err := receipt.Parse(body)
	if err != nil {
		return err
	}
	entry, err := receiptlog.EntryOf(doc)
	if err != nil {
		return err
	}
	url := fmt.Sprintf("%s/v1/log/1/proof/%x", a.PublicURL, [32]byte(entry.Leaf()))
	var proof client.Answer
	err = until(ctx, time.Until(deadline), func(ctx context.Context) error {
		proof = client.Get(ctx, url)
		return proof.Want(http.StatusOK, nil)
	})
	if err == nil {
		_, err = receiptlog.Verify(doc, a.keys, proof.Body, policy)
	}
	return err
}

// verifyLogged has the program of strangers check a receipt.
func (a audit) verifyLogged(ctx context.Context, body []byte) {
	file := a.Path("answer.json")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		a.violated("%v", err)
		return
	}
	out, err := exec.CommandContext(ctx, filepath.Join(a.Bin, "receipt"), "verify", file, "--key", a.PublicURL, "--log", a.PublicURL, "--log-policy", a.log.policy).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "that 2 of 2 witnesses saw") {
		a.violated("receipt verify --log refuses a receipt that was sold: %v: %s", err, out)
	}
}

// auditLog runs the audit of the log, as an operator does.
func (a audit) auditLog(ctx context.Context) error {
	verifier := a.program("verifier")
	command := exec.CommandContext(ctx, verifier.Path, "log", "audit", "--json")
	command.Env = verifier.Env
	out, err := command.Output()
	var found struct {
		Entries         int
		Faults, Notes   []string
		Foreign, Copied int
	}
	if jsonErr := json.Unmarshal(out, &found); jsonErr != nil {
		return fmt.Errorf("audit the log: %w: %s", errors.Join(err, jsonErr), out)
	}
	if err != nil || len(found.Faults) > 0 || len(found.Notes) > 0 || found.Foreign > 0 || found.Copied > 0 {
		a.violated("the audit of the log is not clean: %v, %+v", err, found)
	}
	a.count("entries of the log", found.Entries)
	return nil
}
