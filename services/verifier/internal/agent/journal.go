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

// entry is a request, which is a POST of Body to URL, with the payment that was signed for it and may have been
// sent. entryOf returns entries that have no payment yet.
type entry struct {
	URL string `json:"url"`
	// Body is the body of the request: canonical, unless an earlier release kept it.
	Body        string            `json:"body"`
	Offer       x402.Requirements `json:"offer"`
	Payer       string            `json:"payer"`
	Nonce       string            `json:"nonce"`
	Header      string            `json:"header"`
	ValidBefore time.Time         `json:"validBefore"`
	// Demo means that the request is about a transaction of the agent's own. A later run that names no
	// transaction resumes it.
	Demo bool `json:"demo,omitempty"`
	// Proof is the payment that bought evidence of this one (--prove-payment), once its answer came. It has an entry
	// of its own, which is dropped first: after a kill before this one is dropped too, the next run sends both again.
	Proof *entry `json:"proof,omitempty"`
}

// lastMoment returns when the payment can last be settled, also by a chain whose clock is clockSkew behind ours.
func (e entry) lastMoment() time.Time { return e.ValidBefore.Add(clockSkew) }

// name returns the name of the entry, which follows from payer, URL and body. How a request was spelled does not
// matter to it where the body is canonical.
func (e entry) name() string {
	sum := sha256.Sum256([]byte(e.Payer + "\n" + e.URL + "\n" + e.Body))
	return hex.EncodeToString(sum[:])
}

// journal is the folder of signed payments that may have to be sent again, one file for each request.
type journal string

func (j journal) path(e entry) string { return filepath.Join(string(j), e.name()+".json") }

// find returns the payment that the journal has for the request of e, or nil. Earlier releases kept requests as
// the user spelled them, and named files accordingly: find compares the canonical form of these.
func (j journal) find(e entry) (*entry, error) {
	found, err := read(j.path(e))
	if found != nil || err != nil {
		return found, err
	}
	all, err := j.all(e.Payer)
	for i, other := range all {
		if other.URL == e.URL && canonical(other.Body) == e.Body {
			return &all[i], err
		}
	}
	return nil, err
}

// findDemo returns, of the payments at url for a transaction of the agent's own, the one that expires last, or
// nil.
func (j journal) findDemo(payer, url string) (*entry, error) {
	all, err := j.all(payer)
	var youngest *entry
	for i, e := range all {
		if e.Demo && e.URL == url && (youngest == nil || e.ValidBefore.After(youngest.ValidBefore)) {
			youngest = &all[i]
		}
	}
	return youngest, err
}

// all returns the payments of a payer that the journal has.
func (j journal) all(payer string) ([]entry, error) {
	paths, err := filepath.Glob(filepath.Join(string(j), "*.json"))
	if err != nil {
		return nil, fmt.Errorf("read the journal of payments: %w", err)
	}
	var all []entry
	for _, path := range paths {
		e, err := read(path)
		if err != nil {
			return nil, err
		}
		if e != nil && e.Payer == payer {
			all = append(all, *e)
		}
	}
	return all, nil
}

func read(path string) (*entry, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the journal of payments: %w", err)
	}
	if text == nil {
		return nil, nil
	}
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("read the journal of payments: %s: %w", path, err)
	}
	return &e, nil
}

// keep writes a payment into the journal; it is on the disk when keep returns no error. It returns errFaster when the
// journal has one for the request by now: two runs at the same time send the same payment.
func (j journal) keep(e entry) error {
	err := j.write(e, os.Link)
	if errors.Is(err, fs.ErrExist) {
		return errFaster
	}
	return err
}

// attach writes the payment of proof into the entry of e, if that is in the journal.
func (j journal) attach(e, proof entry) error {
	kept, err := j.find(e)
	if err != nil || kept == nil || kept.Nonce != e.Nonce {
		return err
	}
	kept.Proof = &proof
	return j.write(*kept, os.Rename)
}

// write writes a payment's file; name is as of writeFile.
func (j journal) write(e entry, name func(from, to string) error) error {
	text, err := json.MarshalIndent(e, "", " ")
	if err == nil {
		err = writeFile(j.path(e), text, name)
	}
	if err != nil {
		return fmt.Errorf("keep the payment in the journal: %w", err)
	}
	return nil
}

// drop removes the payment for the request of e, if there is one.
func (j journal) drop(e entry) error {
	err := os.Remove(j.path(e))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop the payment from the journal: %w", err)
	}
	return nil
}

// readFile returns the content of a file, nil when there is none.
func readFile(path string) ([]byte, error) {
	text, err := os.ReadFile(path) //nolint:gosec // a name of our own making, in the user's folder
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// replaceFile writes a file as writeFile does, in place of the one that may be there.
func replaceFile(path string, text []byte) error { return writeFile(path, text, os.Rename) }

// writeFile writes a file that only its owner can read, and makes its folder if there is none. name, which is
// os.Rename or os.Link, puts the complete file at path; os.Link fails if there is one already. The file is whole
// and on the disk, with its name, when writeFile returns no error.
func writeFile(path string, text []byte, name func(from, to string) error) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, "*.new") // readable by its owner only
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // after os.Link a second name; after os.Rename there is none
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := name(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(folder) //nolint:gosec // the user's own folder
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
