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
	// Demo means that the request is the agent's own, and that its next run without
	// a request of the user resumes it.
	Demo bool `json:"demo,omitempty"`
}

// journal keeps signed payments, one file a request, until their answer is
// received.
type journal struct{ dir string }

func (j journal) path(payer, url string, body []byte) string {
	sum := sha256.Sum256([]byte(payer + "\n" + url + "\n" + string(body)))
	return filepath.Join(j.dir, hex.EncodeToString(sum[:])+".json")
}

// find returns the payment that was signed for a request, or nil.
func (j journal) find(payer, url string, body []byte) (*entry, error) {
	return read(j.path(payer, url, body))
}

// findDemo returns the youngest payment for a request of the agent's own, or nil.
func (j journal) findDemo(payer, url string) (*entry, error) {
	paths, err := filepath.Glob(filepath.Join(j.dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("read the journal of payments: %w", err)
	}
	var youngest *entry
	for _, path := range paths {
		e, err := read(path)
		if err != nil {
			return nil, err
		}
		if e != nil && e.Demo && e.Payer == payer && e.URL == url && (youngest == nil || e.ValidBefore.After(youngest.ValidBefore)) {
			youngest = e
		}
	}
	return youngest, nil
}

func read(path string) (*entry, error) {
	text, err := os.ReadFile(path) //nolint:gosec // a name of our own making
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal of payments: %w", err)
	}
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("read the journal of payments: %s: %w", path, err)
	}
	return &e, nil
}

// keep writes a payment down, on the disk when it returns, unless the journal
// has one for this request by now. It returns the one that is kept: two runs at
// the same time send the same payment.
func (j journal) keep(e entry) (entry, error) {
	kept, err := j.add(e)
	if err != nil {
		return entry{}, fmt.Errorf("keep the payment in the journal: %w", err)
	}
	return kept, nil
}

func (j journal) add(e entry) (entry, error) {
	text, err := json.MarshalIndent(e, "", " ")
	if err != nil {
		return entry{}, err
	}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return entry{}, err
	}
	whole, err := writeSynced(j.dir, text)
	if err != nil {
		return entry{}, err
	}
	defer func() { _ = os.Remove(whole) }() // the entry is another name of it
	err = os.Link(whole, j.path(e.Payer, e.URL, []byte(e.Body)))
	if errors.Is(err, fs.ErrExist) {
		earlier, err := j.find(e.Payer, e.URL, []byte(e.Body))
		if err != nil || earlier == nil {
			return entry{}, errors.Join(errors.New("another run has just paid for this request"), err)
		}
		return *earlier, nil
	}
	if err != nil {
		return entry{}, err
	}
	dir, err := os.Open(j.dir)
	if err != nil {
		return entry{}, err
	}
	return e, errors.Join(dir.Sync(), dir.Close())
}

// writeSynced writes a file that is on the disk when it returns, and returns its
// name.
func writeSynced(dir string, text []byte) (string, error) {
	f, err := os.CreateTemp(dir, "*.new") // readable by its owner only
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// drop forgets the payment of a request.
func (j journal) drop(e entry) error {
	err := os.Remove(j.path(e.Payer, e.URL, []byte(e.Body)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop the payment from the journal: %w", err)
	}
	return nil
}
