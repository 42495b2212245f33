package witness

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// SizeType is the media type of the size that a 409 answers with.
const SizeType = "text/x.tlog.size"

// maxState bounds the file in bytes: a checkpoint for each log.
const maxState = 64 * (receiptlog.MaxNote + 4<<10)

// Options configure a Witness. All are required.
type Options struct {
	Signer *receiptlog.Signer // receiptlog.NewWitnessSigner
	Logs   []receiptlog.Key   // that are cosigned
	State  string             // the file; Create makes it
}

// Witness cosigns the checkpoints of some logs. It is an http.Handler with the routes
// POST /add-checkpoint and GET /<SHA-256 of the origin>/checkpoint.
type Witness struct {
	Options
	mu     sync.Mutex
	latest map[string]string // origin to the checkpoint that was cosigned last
	mux    http.ServeMux
	lock   *os.File
}

// Create makes the file of a new witness. It does not overwrite one.
func Create(state string) error {
	file, err := os.OpenFile(state, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names it
	if err != nil {
		return err
	}
	_, err = file.WriteString("{}\n")
	return errors.Join(err, file.Sync(), file.Close())
}

// Open reads the file and returns the witness, which has it for itself until Close: two
// would not see what the other one cosigns. Every checkpoint in it must be one that the
// witness itself has cosigned.
func Open(o Options) (_ *Witness, err error) {
	if o.Signer == nil || len(o.Logs) == 0 {
		return nil, errors.New("a witness needs a key, and a log to cosign")
	}
	w := &Witness{Options: o}
	if w.lock, err = lock(o.State + ".lock"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	info, err := os.Stat(o.State)
	if err == nil && info.Size() > maxState {
		err = fmt.Errorf("%s is larger than %d bytes", o.State, maxState)
	}
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(o.State)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &w.latest); err != nil || w.latest == nil {
		return nil, fmt.Errorf("%s is not the file of a witness", o.State)
	}
	for origin, note := range w.latest {
		c, signed := receiptlog.Checkpoint{}, false
		for _, log := range o.Logs {
			if log.Name() == origin {
				c, err = receiptlog.OpenCheckpoint([]byte(note), log)
				_, signed = c.Cosignature(signatures([]byte(note)), o.Signer.Key)
			}
		}
		if err != nil || !signed && w.knows(origin) {
			return nil, fmt.Errorf("%s: the checkpoint of %s was not cosigned by this witness", o.State, origin)
		}
	}
	w.mux.HandleFunc("POST /add-checkpoint", w.addCheckpoint)
	w.mux.HandleFunc("GET /{origin}/checkpoint", w.serveLatest)
	return w, nil
}

// Close frees the file for another process. Nothing may be asked of the witness after it.
func (w *Witness) Close() error { return w.lock.Close() }

func (w *Witness) knows(origin string) bool {
	_, found := w.log(origin)
	return found
}

func (w *Witness) log(origin string) (receiptlog.Key, bool) {
	for _, log := range w.Logs {
		if log.Name() == origin {
			return log, true
		}
	}
	return receiptlog.Key{}, false
}

// signatures are the signature lines of a note.
func signatures(note []byte) []byte {
	_, lines, _ := bytes.Cut(note, []byte("\n\n"))
	return lines
}

// ServeHTTP implements http.Handler.
func (w *Witness) ServeHTTP(out http.ResponseWriter, r *http.Request) { w.mux.ServeHTTP(out, r) }

func (w *Witness) addCheckpoint(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(out, r.Body, receiptlog.MaxProof))
	if err != nil {
		http.Error(out, "the request cannot be read", http.StatusBadRequest)
		return
	}
	status, answer := w.add(body)
	if status == http.StatusConflict {
		out.Header().Set("Content-Type", SizeType)
	} else {
		out.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	out.WriteHeader(status)
	_, _ = out.Write(answer) // the log asks again
}

// add cosigns what is asked for, or returns why not, in the order of C2SP tlog-witness.
func (w *Witness) add(body []byte) (status int, answer []byte) {
	asked, err := receiptlog.ParseAddCheckpoint(body)
	if err != nil {
		return http.StatusBadRequest, []byte("malformed request\n")
	}
	origin, _, _ := strings.Cut(string(asked.Checkpoint), "\n")
	log, known := w.log(origin)
	if !known {
		return http.StatusNotFound, []byte("unknown log\n")
	}
	c, err := receiptlog.OpenCheckpoint(asked.Checkpoint, log)
	switch {
	case errors.Is(err, receiptlog.ErrUnknownLog), errors.Is(err, receiptlog.ErrSignature):
		return http.StatusForbidden, []byte("not signed by the log\n")
	case err != nil, asked.Old > c.Size:
		return http.StatusBadRequest, []byte("malformed checkpoint\n")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last := receiptlog.Checkpoint{Origin: origin, Root: sha256.Sum256(nil)} // the empty tree
	if note, cosigned := w.latest[origin]; cosigned {
		if last, err = receiptlog.OpenCheckpoint([]byte(note), log); err != nil {
			return http.StatusInternalServerError, []byte("the state is not readable\n")
		}
	}
	switch {
	case asked.Old != last.Size, c.Size == last.Size && c.Root != last.Root:
		return http.StatusConflict, fmt.Appendf(nil, "%d\n", last.Size)
	case c.CheckConsistency(last, asked.Hashes) != nil:
		return http.StatusUnprocessableEntity, []byte("the checkpoint does not continue the last one\n")
	}
	line, err := c.Cosign(w.Signer)
	if err == nil {
		// The log's own line, and no other that came with it.
		signed, found := c.Cosignature(signatures(asked.Checkpoint), log)
		if !found {
			return http.StatusForbidden, []byte("not signed by the log\n")
		}
		err = w.remember(origin, c.Text()+"\n"+string(signed)+string(line))
	}
	if err != nil {
		return http.StatusInternalServerError, []byte("the checkpoint cannot be kept\n")
	}
	return http.StatusOK, line
}

// remember writes the file, and is on disk when it returns.
func (w *Witness) remember(origin, note string) error {
	next := map[string]string{origin: note}
	for other, note := range w.latest {
		if other != origin {
			next[other] = note
		}
	}
	text, err := json.MarshalIndent(next, "", "  ")
	if err == nil {
		err = Replace(w.State, text)
	}
	if err == nil {
		w.latest = next
	}
	return err
}

// Replace writes a file whole or not at all, for its owner alone, and is on disk when it
// returns.
func Replace(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// ID returns the word for an origin in the path where a witness serves what it cosigned.
func ID(origin string) string {
	digest := sha256.Sum256([]byte(origin))
	return hex.EncodeToString(digest[:])
}

func (w *Witness) serveLatest(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for origin, note := range w.latest {
		if ID(origin) == r.PathValue("origin") {
			out.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = io.WriteString(out, note)
			return
		}
	}
	http.NotFound(out, r)
}
