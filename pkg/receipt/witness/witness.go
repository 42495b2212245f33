package witness

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// SizeType is the media type of the size that a 409 answers with.
const SizeType = "text/x.tlog.size"

// maxState bounds the file in bytes. It is enough for 64 logs with the largest checkpoints.
const maxState = 64 * (receiptlog.MaxNote + 4<<10)

// again is how long a repeated request for a checkpoint that was just cosigned is answered from
// memory, without a new signature or a write to the disk, because any client may repeat it.
const again = 5 * time.Second

// Options configure a Witness. All but Begin are required.
type Options struct {
	Signer *receiptlog.Signer // receiptlog.NewWitnessSigner
	Logs   []receiptlog.Key   // the logs that are cosigned, once they have begun
	State  string             // the path of the file; Create makes it
	// Begin names those of Logs that begin now. Of a log of which no generation has begun, the
	// first one in Logs begins by itself. Another generation or another key does not, because it is
	// a second log of the same verifier, and the operator must decide whether it is genuine.
	Begin []receiptlog.Key
}

// Witness cosigns the checkpoints of some logs. It is an http.Handler with the routes
// POST /add-checkpoint and GET /<ID of the origin>/checkpoint.
type Witness struct {
	Options
	mu   sync.Mutex
	logs map[string]cosigned // by verifier key, of all that have begun
	// former holds, by origin, the last checkpoints of logs whose keys are not known, because
	// earlier versions kept no keys.
	former map[string]string
	mux    http.ServeMux
	lock   *os.File
}

// cosigned is what a witness has cosigned last of a log: the empty tree, without a note, for a log
// that has only begun.
type cosigned struct {
	receiptlog.Checkpoint
	note string
	// line is the cosignature; at is when it was made, zero when it was read from the file.
	line []byte
	at   time.Time
}

type file struct {
	Logs   map[string]string `json:"logs"`             // verifier key to note
	Former map[string]string `json:"former,omitempty"` // origin to note
}

// Create makes the file of a new witness, whole or not at all. Where a file is there already, it stays as it
// is: fs.ErrExist.
func Create(state string) error {
	return place(state, []byte("{}\n"), 0o600, func(written, path string) error {
		err := os.Link(written, path) // os.Rename would replace what is there
		switch {
		case err == nil:
			return os.Remove(written)
		case errors.Is(err, fs.ErrExist):
			return err
		}
		// The file system has no hard links: the name is taken first, by one of several, and then gets the file.
		taken, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator's file
		if err != nil {
			return err
		}
		return errors.Join(taken.Close(), os.Rename(written, path))
	})
}

// Open reads the file and returns the witness, which has the file for itself until Close: of
// two witnesses neither would see what the other one cosigns. Every checkpoint in the file
// whose log's key is known must be one that the witness itself has cosigned.
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
	if err := w.read(); err != nil {
		return nil, err
	}
	if w.begin() {
		if err := w.write(w.logs); err != nil {
			return nil, err
		}
	}
	w.mux.HandleFunc("POST /add-checkpoint", w.addCheckpoint)
	w.mux.HandleFunc("GET /{origin}/checkpoint", w.serveLatest)
	return w, nil
}

// read reads the file, also as earlier versions wrote it: one object from origin to note.
func (w *Witness) read() error {
	info, err := os.Stat(w.State)
	if err == nil && info.Size() > maxState {
		err = fmt.Errorf("%s is larger than %d bytes", w.State, maxState)
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(w.State)
	if err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err = json.Unmarshal(text, &members); err == nil && members == nil {
		err = errors.New("null")
	}
	var kept file
	if _, keyed := members["logs"]; err == nil && keyed {
		err = json.Unmarshal(text, &kept)
	} else if err == nil {
		err = json.Unmarshal(text, &kept.Former)
	}
	if err != nil {
		return fmt.Errorf("%s is not the file of a witness", w.State)
	}
	w.logs, w.former = map[string]cosigned{}, map[string]string{}
	for vkey, note := range kept.Logs {
		key, err := receiptlog.ParseLogKey(vkey)
		if err != nil {
			return fmt.Errorf("%s: %w", w.State, err)
		}
		if err := w.keep(key, note); err != nil {
			return err
		}
	}
	for origin, note := range kept.Former {
		if err := w.readFormer(origin, note); err != nil {
			return err
		}
	}
	return nil
}

// readFormer reads what the witness has cosigned last of a log of which the file has only the
// origin. Where none of Logs has signed it, it stays in former.
func (w *Witness) readFormer(origin, note string) error {
	for _, log := range w.Logs {
		if log.Name() != origin {
			continue
		}
		if err := w.keep(log, note); !errors.Is(err, receiptlog.ErrUnknownLog) {
			return err
		}
	}
	w.former[origin] = note
	return nil
}

// keep keeps the note that the witness has cosigned last of a log, after checking the signatures
// of the log and the witness. The note is "" for a log that has only begun.
func (w *Witness) keep(log receiptlog.Key, note string) error {
	if note == "" {
		w.logs[log.String()] = cosigned{Checkpoint: empty(log)}
		return nil
	}
	c, err := receiptlog.OpenCheckpoint([]byte(note), log)
	line, signed := c.Cosignature(signatures([]byte(note)), w.Signer.Key)
	if err == nil && !signed {
		err = receiptlog.ErrSignature
	}
	if err != nil {
		return fmt.Errorf("%s: the checkpoint of %s was not cosigned by this witness: %w", w.State, log.Name(), err)
	}
	w.logs[log.String()] = cosigned{Checkpoint: c, note: note, line: line}
	return nil
}

// begin begins those of Logs that have not begun and may (Options.Begin), and reports whether
// there were any.
func (w *Witness) begin() (begun bool) {
	for _, log := range w.Logs {
		if _, known := w.logs[log.String()]; known {
			continue
		}
		asked := slices.ContainsFunc(w.Begin, func(k receiptlog.Key) bool { return k.String() == log.String() })
		if !asked && w.knowsGeneration(log.Name()) {
			continue
		}
		w.logs[log.String()], begun = cosigned{Checkpoint: empty(log)}, true
	}
	return begun
}

// knowsGeneration reports whether any generation of the log with an origin has begun, by whatever
// key.
func (w *Witness) knowsGeneration(origin string) bool {
	for _, last := range w.logs {
		if receiptlog.SameLog(last.Origin, origin) {
			return true
		}
	}
	for former := range w.former {
		if receiptlog.SameLog(former, origin) {
			return true
		}
	}
	return false
}

// Waiting returns those of Logs that have not begun, because they need [Options.Begin].
func (w *Witness) Waiting() (waiting []receiptlog.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, log := range w.Logs {
		if _, begun := w.logs[log.String()]; !begun {
			waiting = append(waiting, log)
		}
	}
	return waiting
}

// empty returns the checkpoint of a log without entries.
func empty(log receiptlog.Key) receiptlog.Checkpoint {
	return receiptlog.Checkpoint{Origin: log.Name(), Root: sha256.Sum256(nil)}
}

// Close frees the file for another process. The witness must not be used afterwards.
func (w *Witness) Close() error { return w.lock.Close() }

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

// add cosigns what is asked for and returns the answer of HTTP. It checks in the order of C2SP
// tlog-witness.
func (w *Witness) add(body []byte) (status int, answer []byte) {
	asked, err := receiptlog.ParseAddCheckpoint(body)
	if err != nil {
		return http.StatusBadRequest, []byte("malformed request\n")
	}
	log, c, status, text := w.open(asked.Checkpoint)
	if status != 0 {
		return status, text
	}
	if asked.Old > c.Size {
		return http.StatusBadRequest, []byte("malformed checkpoint\n")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.logs[log.String()]
	switch {
	case asked.Old != last.Size, c.Size == last.Size && c.Root != last.Root:
		return http.StatusConflict, fmt.Appendf(nil, "%d\n", last.Size)
	case c.CheckConsistency(last.Checkpoint, asked.Hashes) != nil:
		return http.StatusUnprocessableEntity, []byte("the checkpoint does not continue the last one\n")
	}
	now := w.Signer.Now()
	if since := now.Sub(last.at); c.Size == last.Size && !last.at.IsZero() && since >= 0 && since < again {
		return http.StatusOK, last.line
	}
	line, err := c.Cosign(w.Signer)
	if err == nil {
		// The log's own line, and no other that came with it.
		signed, found := c.Cosignature(signatures(asked.Checkpoint), log)
		if !found {
			return http.StatusForbidden, []byte("not signed by the log\n")
		}
		err = w.remember(log, cosigned{c, c.Text() + "\n" + string(signed) + string(line), line, now})
	}
	if err != nil {
		return http.StatusInternalServerError, []byte("the checkpoint cannot be kept\n")
	}
	return http.StatusOK, line
}

// open reads a checkpoint, which one of the logs that have begun must have signed, and returns
// that log. A status other than 0 refuses the checkpoint: it is the answer of HTTP, with text.
func (w *Witness) open(note []byte) (log receiptlog.Key, c receiptlog.Checkpoint, status int, text []byte) {
	origin, _, _ := strings.Cut(string(note), "\n")
	status, text = http.StatusNotFound, []byte("unknown log\n")
	for _, log := range w.Logs {
		if log.Name() != origin || !w.begun(log) {
			continue
		}
		c, err := receiptlog.OpenCheckpoint(note, log)
		switch {
		case errors.Is(err, receiptlog.ErrUnknownLog), errors.Is(err, receiptlog.ErrSignature):
			status, text = http.StatusForbidden, []byte("not signed by the log\n")
		case err != nil:
			return log, c, http.StatusBadRequest, []byte("malformed checkpoint\n")
		default:
			return log, c, 0, nil
		}
	}
	return log, c, status, text
}

func (w *Witness) begun(log receiptlog.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, begun := w.logs[log.String()]
	return begun
}

// remember keeps what was cosigned last of a log. Without an error, it is on disk.
func (w *Witness) remember(log receiptlog.Key, last cosigned) error {
	next := maps.Clone(w.logs)
	next[log.String()] = last
	err := w.write(next)
	if err == nil {
		w.logs = next
	}
	return err
}

func (w *Witness) write(logs map[string]cosigned) error {
	kept := file{map[string]string{}, w.former}
	for vkey, last := range logs {
		kept.Logs[vkey] = last.note
	}
	text, err := json.MarshalIndent(kept, "", "  ")
	if err == nil {
		err = Replace(w.State, text)
	}
	return err
}

// Replace writes a file whole or not at all, readable by its owner alone. When it returns no
// error, the file is on disk.
func Replace(path string, data []byte) error { return ReplaceAs(path, data, 0o600) }

// ReplaceAs does what Replace does, for a file with other permissions.
func ReplaceAs(path string, data []byte, permissions os.FileMode) error {
	return place(path, data, permissions, os.Rename)
}

// place writes a new file in the folder of path and, when its bytes are on disk, calls move to bring it to path.
func place(path string, data []byte, permissions os.FileMode, move func(written, path string) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	err = file.Chmod(permissions)
	if err == nil {
		_, err = file.Write(data)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = move(file.Name(), path)
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

// ID returns the name of an origin in the paths of a witness: its SHA-256, hexadecimal.
func ID(origin string) string {
	digest := sha256.Sum256([]byte(origin))
	return hex.EncodeToString(digest[:])
}

func (w *Witness) serveLatest(out http.ResponseWriter, r *http.Request) {
	note := w.latest(r.PathValue("origin"))
	if note == "" {
		http.NotFound(out, r)
		return
	}
	out.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(out, note)
}

// latest returns what was cosigned last of the origin with an id; "" when there is nothing. Of
// several keys, those of Logs come first. A log that is not in Logs any more is found too,
// because those who watch logs ask for it.
func (w *Witness) latest(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, log := range w.Logs {
		if last := w.logs[log.String()]; last.note != "" && ID(log.Name()) == id {
			return last.note
		}
	}
	for _, vkey := range slices.Sorted(maps.Keys(w.logs)) {
		if last := w.logs[vkey]; last.note != "" && ID(last.Origin) == id {
			return last.note
		}
	}
	for origin, note := range w.former {
		if ID(origin) == id {
			return note
		}
	}
	return ""
}
