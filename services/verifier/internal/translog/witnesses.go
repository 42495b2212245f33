package translog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/receipt/witness"
)

// maxBackoff is the longest time for which a witness that has failed is not asked to cosign.
const maxBackoff = 10 * time.Minute

// witnessClient asks one witness (C2SP tlog-witness).
type witnessClient struct {
	receiptlog.Witness
	log *Log

	mu      sync.Mutex
	busy    bool
	after   time.Time     // not asked to cosign before then
	backoff time.Duration // zero after a success
	seen    time.Time     // of its last cosignature
	errors  int
}

// take reports whether the witness may be asked now, and reserves it.
func (w *witnessClient) take() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	// A longer wait than was set is from a clock that was ahead.
	if wait := w.after.Sub(w.log.Now()); w.busy || wait > 0 && wait <= w.backoff {
		return false
	}
	w.busy = true
	return true
}

func (w *witnessClient) whyNotAsked() error {
	return fmt.Errorf("witness %s has failed and is asked again later, or works on an earlier checkpoint", w.Name)
}

// release ends a request. After an error, except a frozenError, the witness is not asked for a while.
func (w *witnessClient) release(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	now := w.log.Now()
	if err == nil {
		w.backoff, w.after, w.seen = 0, time.Time{}, now
		return
	}
	w.errors++
	if frozen := (*frozenError)(nil); errors.As(err, &frozen) {
		return
	}
	w.backoff = min(max(2*w.backoff, w.log.Interval), maxBackoff)
	w.after = now.Add(w.backoff)
}

// fault returns an error that names the witness.
func (w *witnessClient) fault(format string, args ...any) error {
	return fmt.Errorf("witness %s: "+format, append([]any{w.Name}, args...)...)
}

// reply is a witness's response. Its body is cut after receiptlog.MaxNote+1 bytes.
type reply struct {
	status int
	kind   string // its media type
	body   []byte
}

// exchange sends a request, with text as its body unless that is nil, and returns the response.
func (w *witnessClient) exchange(ctx context.Context, method, path string, text io.Reader) (reply, error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(w.URL, "/")+path, text)
	if err != nil {
		return reply{}, w.fault("%w", err)
	}
	if text != nil {
		request.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	response, err := w.log.Client.Do(request)
	if err != nil {
		return reply{}, w.fault("%w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, receiptlog.MaxNote+1))
	if err != nil {
		return reply{}, w.fault("%w", err)
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return reply{response.StatusCode, kind, body}, nil
}

// answer is what a witness answered: its cosignature, or the size that it has.
type answer struct {
	line []byte
	size int64
}

// add posts one add-checkpoint. The error is a frozenError where the witness knows
// another tree.
func (w *witnessClient) add(
	ctx context.Context, c receiptlog.Checkpoint, body receiptlog.AddCheckpoint,
) (answer, error) {
	response, err := w.exchange(ctx, http.MethodPost, "/add-checkpoint", bytes.NewReader(body.Bytes()))
	if err != nil {
		return answer{}, err
	}
	switch response.status {
	case http.StatusOK:
		line, ok := c.Cosignature(response.body, w.Key)
		if !ok {
			return answer{}, w.fault("its answer has no cosignature of the checkpoint by its key")
		}
		return answer{line: line}, nil
	case http.StatusConflict:
		size, err := strconv.ParseInt(strings.TrimSuffix(string(response.body), "\n"), 10, 64)
		if response.kind == witness.SizeType && err == nil && size >= 0 && size != body.Old {
			return answer{size: size}, nil
		}
		if body.Old == c.Size { // as some witnesses answer where the roots of one size differ
			return answer{}, &frozenError{FrozenFork, w.fault("it knows another tree of %d entries", c.Size)}
		}
		return answer{}, w.fault("it answers 409 without another size")
	case http.StatusUnprocessableEntity:
		return answer{}, &frozenError{
			FrozenFork, w.fault("the tree of %d entries does not continue the one of %d that it knows", c.Size,
				body.Old),
		}
	default:
		return answer{}, w.fault("it answers %d", response.status)
	}
}

// behind returns the error for a witness that has a larger tree than the head: a frozenError, unless
// another process has made the ledger's tree as large, or begun a generation, meanwhile.
func (w *witnessClient) behind(ctx context.Context, head Head, size int64) error {
	now, err := w.log.head(ctx)
	if err != nil {
		return w.log.doubt(err)
	}
	err = fmt.Errorf("witness %s has cosigned %d entries, the ledger has %d", w.Name, size, now.Size)
	if now.Log == head.Log && now.Size < size {
		return &frozenError{FrozenBehind, err}
	}
	return err
}

// cosign returns the witness's signature line of a checkpoint, and remembers that it has cosigned it. The
// witness was taken, and is released.
func (w *witnessClient) cosign(
	ctx context.Context, head Head, c receiptlog.Checkpoint, note []byte,
) (line []byte, err error) {
	defer func() { w.release(err) }()
	ctx, done := context.WithTimeout(ctx, w.log.Timeout)
	defer done()
	old, err := w.log.Store.WitnessSize(ctx, head.Log, w.Key.String())
	if err != nil {
		return nil, w.log.doubt(err)
	}
	for range 2 {
		old = min(old, c.Size)
		body := receiptlog.AddCheckpoint{Old: old, Checkpoint: note}
		if old > 0 && old < c.Size {
			if body.Hashes, err = tlog.ProveTree(c.Size, old, w.log.hashes(ctx, head.Log)); err != nil {
				return nil, fmt.Errorf("prove that %d entries continue %d: %w", c.Size, old, w.log.doubt(err))
			}
		}
		got, err := w.add(ctx, c, body)
		if err != nil {
			return nil, err
		}
		if got.line != nil {
			return got.line, w.log.doubt(w.log.Store.SetWitness(ctx, head.Log, w.Key.String(), c.Size))
		}
		if got.size > c.Size {
			return nil, w.behind(ctx, head, got.size)
		}
		old = got.size
	}
	return nil, fmt.Errorf("witness %s names another size each time", w.Name)
}

// WitnessStatus is what is known of a witness.
type WitnessStatus struct {
	Name   string    `json:"name"`
	Size   int64     `json:"size"` // that it has cosigned last, as the ledger knows
	Seen   time.Time `json:"-"`    // when, by this process; zero if never
	Errors int       `json:"-"`    // of this process
}

func (l *Log) witnessStatus(ctx context.Context, head Head) ([]WitnessStatus, error) {
	var all []WitnessStatus
	for _, w := range l.witnesses {
		size, err := l.Store.WitnessSize(ctx, head.Log, w.Key.String())
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		all = append(all, WitnessStatus{Name: w.Name, Size: size, Seen: w.seen, Errors: w.errors})
		w.mu.Unlock()
	}
	return all, nil
}
