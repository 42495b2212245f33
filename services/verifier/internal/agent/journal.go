package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pforte/pforte/pkg/x402"
)

// entry is a payment that was signed for one request and may have been sent.
type entry struct {
	URL         string            `json:"url"`
	Body        string            `json:"body"`
	Offer       x402.Requirements `json:"offer"`
	Payer       string            `json:"payer"`
	Nonce       string            `json:"nonce"`
	Header      string            `json:"header"`
	ValidBefore time.Time         `json:"validBefore"`
}

// journal keeps signed payments, one file a request, until their answer is in
// the buyer's hands.
type journal struct{ dir string }

func (j journal) path(payer, url string, body []byte) string {
	sum := sha256.Sum256([]byte(payer + "\n" + url + "\n" + string(body)))
	return filepath.Join(j.dir, hex.EncodeToString(sum[:])+".json")
}

// find gives the payment that was signed for a request, or nil.
func (j journal) find(payer, url string, body []byte) (*entry, error) {
	text, err := os.ReadFile(j.path(payer, url, body))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal of payments: %w", err)
	}
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("read the journal of payments: %s: %w", j.path(payer, url, body), err)
	}
	return &e, nil
}

// keep writes a payment down, on the disk when it returns: the file is complete
// or not there.
func (j journal) keep(e entry) error {
	text, err := json.MarshalIndent(e, "", " ")
	if err == nil {
		err = os.MkdirAll(j.dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("keep the payment in the journal: %w", err)
	}
	path := j.path(e.Payer, e.URL, []byte(e.Body))
	if err := writeSynced(path+".new", text); err != nil {
		return fmt.Errorf("keep the payment in the journal: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("keep the payment in the journal: %w", err)
	}
	dir, err := os.Open(j.dir)
	if err != nil {
		return fmt.Errorf("keep the payment in the journal: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600) //nolint:gosec // a name of our own making
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// drop forgets the payment of a request.
func (j journal) drop(e entry) error {
	err := os.Remove(j.path(e.Payer, e.URL, []byte(e.Body)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop the payment from the journal: %w", err)
	}
	return nil
}
