package translog

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pforte/pforte/pkg/periodic"
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// Options configure a Log. All members are required unless noted otherwise.
type Options struct {
	Store Store
	Key   ed25519.PrivateKey
	// Host is that of the public address. It begins every origin.
	Host string
	// Policy is the text of a tlog-policy file: the witnesses and the quorum. It need not list the log.
	Policy string
	// Keys are those whose states the log has entries of, by Store.ListKeys. There may be none.
	Keys []receipt.Key
	// Mark is the file of the greatest tree that was signed; "" means none.
	Mark string
	// Interval is the time between two steps of Run. Timeout bounds what is asked of a witness at one time.
	Interval, Timeout time.Duration
	Client            *http.Client
	Log               *slog.Logger
	Now               func() time.Time
	// At may be nil. It is called at each Point but Placing.
	At func(Point)
}

// Point is a moment at which a crash must not lead to two histories.
type Point string

// The points, in their order.
const (
	Placing   Point = "placing"   // in the transaction that gives places (Options of the store)
	Sequenced Point = "sequenced" // the places are on disk, nothing is signed
	Signed    Point = "signed"    // the checkpoint is signed and the mark is kept, witnesses are asked next
	Cosigned  Point = "cosigned"  // one more witness has cosigned it
	Witnessed Point = "witnessed" // the policy is met, it is stored next
	Published Point = "published" // it is served
)

// Log is the open generation of a log of receipts, and those before it.
type Log struct {
	Options
	policy    receiptlog.Policy
	witnesses []*witnessClient

	mu sync.Mutex // held by Step, Resume and Close
	// confirmed is the generation whose tree was confirmed since the start or the last freeze; 0 for none.
	confirmed int64
	// doubted is true when the store, or a confirmation, has failed since confirmed was set, and no mark shows whether
	// the store came back as it was.
	doubted atomic.Bool // set without mu too
	// listed is the generation in which Keys were listed since the start or the last freeze; 0 for none.
	listed  int64
	signed  receiptlog.Checkpoint // what writeMark remembered last
	read    receiptlog.Checkpoint // what passed checkMark last, since the start or the last freeze
	asking  sync.WaitGroup        // requests to witnesses under way
	audited lastAudit
}

// New returns a log. It does nothing by itself before Run.
func New(o Options) (*Log, error) {
	if o.Store == nil || len(o.Key) != ed25519.PrivateKeySize || o.Host == "" || o.Interval <= 0 || o.Timeout <= 0 ||
		o.Client == nil || o.Log == nil || o.Now == nil {
		return nil, errors.New("open the log of receipts: an option is missing")
	}
	if o.At == nil {
		o.At = func(Point) {}
	}
	l := &Log{Options: o}
	origin, vkey, err := Name(o.Host, o.Key, 1)
	if err != nil {
		return nil, err
	}
	if l.policy, err = receiptlog.ParsePolicy(
		[]byte(PolicyFor(o.Policy, []Head{{Origin: origin, VKey: vkey}}))); err != nil {
		return nil, err
	}
	for _, w := range l.policy.Witnesses {
		if w.URL == "" {
			return nil, fmt.Errorf("policy: the witness %s has no address", w.Name)
		}
		l.witnesses = append(l.witnesses, &witnessClient{Witness: w, log: l})
	}
	return l, nil
}

// Prefix returns the path of a generation.
func Prefix(log int64) string { return fmt.Sprintf("/v1/log/%d", log) }

// Name returns origin and verifier key of a generation of the log of a host.
func Name(host string, key ed25519.PrivateKey, log int64) (origin, vkey string, err error) {
	s, err := receiptlog.NewLogSigner(host+Prefix(log), key)
	if err != nil {
		return "", "", err
	}
	return s.Name(), s.Key.String(), nil
}

// republish is how old a checkpoint may be before it is cosigned and published again, so
// that monitors see fresh times.
const republish = time.Hour

// Run makes a step each interval, and audits at once, soon after and each day, until ctx
// ends. After an audit with faults the next one comes sooner.
func (l *Log) Run(ctx context.Context) {
	defer l.asking.Wait()
	var auditing sync.WaitGroup
	defer auditing.Wait()
	var logged time.Time
	step := func() {
		err, now := l.Step(ctx), l.Now()
		if err != nil && ctx.Err() == nil && now.Sub(logged) >= time.Minute { // not each second
			l.Log.Error("the log of receipts waits", "error", err)
			logged = now
		}
		if l.audited.begin(now) {
			auditing.Go(func() { l.auditAndLog(ctx) })
		}
	}
	step()
	periodic.Run(ctx, l.Interval, step)
}

// Step gives queued entries their places, and publishes the tree when it has grown or its
// checkpoint is old. ErrFrozen: the log is frozen, or the step has frozen it.
func (l *Log) Step(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	head, err := l.head(ctx)
	if err != nil {
		return l.doubt(err)
	}
	if head.Frozen != "" {
		l.confirmed, l.listed, l.read = 0, 0, receiptlog.Checkpoint{} // what resumes it is asked about again
		return fmt.Errorf("%w: %s", ErrFrozen, head.Frozen)
	}
	if err := l.requireMark(ctx, head); err != nil {
		return err
	}
	if l.doubted.Swap(false) || l.confirmed != head.Log {
		if err := l.confirm(ctx, head); err != nil {
			return l.doubt(err)
		}
		if l.confirmed != head.Log {
			l.audited.auditSoon()
		}
		l.confirmed = head.Log
	}
	if err := l.checkMark(ctx, head); err != nil {
		return l.doubt(err)
	}
	if l.listed != head.Log { // a state that came back with a copy may be newer than what was queued
		if _, err := l.Store.ListKeys(ctx, l.Keys); err != nil {
			return l.doubt(err)
		}
		l.listed = head.Log
	}
	portion := l.Store.Portion()
	for taken := portion; taken == portion; {
		if head, taken, err = l.Store.Sequence(ctx, portion); err != nil {
			return l.doubt(err)
		}
	}
	if head.Log != l.confirmed {
		return nil // another process has begun a generation
	}
	published, err := l.Store.Published(ctx, head.Log)
	if err != nil || published.Size == head.Size && l.Now().Sub(published.At) < republish {
		return l.doubt(err)
	}
	l.At(Sequenced)
	return l.publish(ctx, head)
}

// doubt returns err. Where that is a failure of the store, or of a confirmation, and there is no mark, the witnesses
// must confirm the tree again before the next entry gets its place: a database that failed over may be an older one,
// and another process may have signed what it lost.
func (l *Log) doubt(err error) error {
	if err != nil && l.Mark == "" {
		l.doubted.Store(true)
	}
	return err
}

// head returns the open generation, or ErrNotFound.
func (l *Log) head(ctx context.Context) (Head, error) {
	heads, err := l.Store.Heads(ctx)
	if err == nil && len(heads) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Head{}, fmt.Errorf("read the log's head: %w", err)
	}
	return heads[0], nil
}

// confirm checks, before the first entry gets its place after a start, a freeze or a doubt, that the
// tree is the one that was signed before, and not an older one: by the mark, and by the
// witnesses, which cosign it. As many as the policy asks for must do so and, unless it asks for
// none, so many that the others alone could not meet the policy. ErrOtherLog; ErrFrozen, as of
// checkMark and freezeFor.
func (l *Log) confirm(ctx context.Context, head Head) error {
	if err := l.checkMark(ctx, head); err != nil {
		return err
	}
	c, note, err := l.sign(head)
	if err != nil {
		return err
	}
	if len(l.witnesses) > 0 { // they get the signature
		if err := l.writeMark(c); err != nil {
			return err
		}
	}
	faults := make([]error, len(l.witnesses))
	var all sync.WaitGroup
	for i, w := range l.witnesses {
		if !w.take() {
			faults[i] = w.whyNotAsked()
			continue
		}
		all.Go(func() { _, faults[i] = w.cosign(ctx, head, c, note) })
	}
	all.Wait()
	for _, fault := range faults {
		if err := l.freezeFor(ctx, head, fault); err != nil {
			return err
		}
	}
	if !l.policy.Met(func(i int) bool { return faults[i] == nil }) ||
		!l.policy.Unwitnessed() && l.policy.Met(func(i int) bool { return faults[i] != nil }) {
		return fmt.Errorf("too few witnesses confirm the tree of %d entries: %w", head.Size, errors.Join(faults...))
	}
	return nil
}

// frozenError is a fault for which the log is to be frozen: what a witness or the mark has shown.
type frozenError struct {
	why string
	err error
}

func (e *frozenError) Error() string { return e.err.Error() }

func (e *frozenError) Unwrap() error { return e.err }

// freezeFor freezes the log when a fault demands it, and returns ErrFrozen; for any other fault nil.
func (l *Log) freezeFor(ctx context.Context, head Head, fault error) error {
	var frozen *frozenError
	if !errors.As(fault, &frozen) {
		return nil
	}
	l.Log.Error("the log of receipts is frozen: nothing is signed until an operator has decided; sales go on",
		"why", frozen.why, "size", head.Size, "error", fault)
	err := l.Store.Freeze(context.WithoutCancel(ctx), head.Log, frozen.why)
	return errors.Join(fmt.Errorf("%w: %s: %w", ErrFrozen, frozen.why, fault), err)
}

func checkpointOf(head Head) receiptlog.Checkpoint {
	return receiptlog.Checkpoint{Origin: head.Origin, Size: head.Size, Root: head.Root}
}

// sign signs a head that was read from the store, which has it on disk. ErrOtherLog.
func (l *Log) sign(head Head) (receiptlog.Checkpoint, []byte, error) {
	c := checkpointOf(head)
	s, err := receiptlog.NewLogSigner(l.Host+Prefix(head.Log), l.Key)
	if err != nil {
		return c, nil, err
	}
	if s.Name() != head.Origin || s.Key.String() != head.VKey {
		return c, nil, fmt.Errorf("%w: it is %s", ErrOtherLog, head.VKey)
	}
	note, err := c.Sign(s)
	return c, note, err
}

// publish signs the head as the store has it now, has the witnesses cosign it, all at once, and
// stores the checkpoint as soon as they meet the policy, and again with each further cosignature. It
// returns when the policy is met, all have answered, the log is frozen or ctx ends. A witness that
// still works on an older checkpoint, or has failed lately, is left out.
func (l *Log) publish(ctx context.Context, head Head) error {
	// Read anew: what is signed must be what the store holds.
	current, err := l.head(ctx)
	if err != nil || current.Frozen != "" || current.Log != head.Log {
		return l.doubt(err)
	}
	head = current
	if err := l.checkMark(ctx, head); err != nil {
		return l.doubt(err)
	}
	c, note, err := l.sign(head)
	if err != nil {
		return err
	}
	if err := l.writeMark(c); err != nil {
		return err
	}
	l.At(Signed)
	policy, err := receiptlog.ParsePolicy([]byte(PolicyFor(l.Policy, []Head{head})))
	if err != nil {
		return err
	}
	type result struct {
		line []byte
		err  error
	}
	results := make(chan result, len(l.witnesses))
	asked := 0
	var faults []error
	for _, w := range l.witnesses {
		if !w.take() {
			faults = append(faults, w.whyNotAsked())
			continue
		}
		asked++
		l.asking.Go(func() {
			line, err := w.cosign(context.WithoutCancel(ctx), head, c, note)
			results <- result{line, err}
		})
	}
	content := make(chan error, 1)
	l.asking.Go(func() {
		met, left, witnessed := false, asked, bytes.Clone(note) // the requests go on with note
		var refused error
		store := func() {
			if _, refused = policy.Open(witnessed); refused != nil {
				return
			}
			l.At(Witnessed)
			err := l.Store.Publish(context.WithoutCancel(ctx), head.Log, head.Size,
				func(replaced []byte) []byte { return l.keep(c, witnessed, replaced) })
			if l.doubt(err) == nil {
				l.At(Published)
			}
			if !met {
				met = true
				content <- err
			}
		}
		store() // where the policy asks for none
		for ; left > 0; left-- {
			r := <-results
			if r.err != nil {
				if err := l.freezeFor(ctx, head, r.err); err != nil {
					if !met {
						met = true
						content <- err
					}
					return
				}
				faults = append(faults, r.err)
				continue
			}
			l.At(Cosigned)
			witnessed = append(witnessed, r.line...)
			store()
		}
		if !met {
			content <- fmt.Errorf("publish %d entries: %w", head.Size, errors.Join(append(faults, refused)...))
		}
	})
	select {
	case err = <-content:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keep returns note, which is c with its signatures, and adds those cosignatures of the checkpoint that it replaces
// that are of the same tree and by a witness without one in note: a witness may be away now, or another process has
// asked it, and a reader may want its cosignature. Those that are kept count for no quorum here, so that the times stay
// fresh.
// Where the policy asks for no witness none is kept: to its readers a checkpoint is as old as its oldest cosignature.
func (l *Log) keep(c receiptlog.Checkpoint, note, replaced []byte) []byte {
	if l.policy.Unwitnessed() {
		return note
	}
	kept := bytes.Clone(note)
	for _, w := range l.witnesses {
		if _, anew := c.Cosignature(note, w.Key); !anew {
			line, _ := c.Cosignature(replaced, w.Key)
			kept = append(kept, line...)
		}
	}
	return kept
}

// PolicyFor returns the policy file text, with a line added for each of our logs that text does not list.
func PolicyFor(text string, heads []Head) string {
	var lines strings.Builder
	policy, _ := receiptlog.ParsePolicy([]byte(text)) // an error is found when the result is parsed
	for i := len(heads) - 1; i >= 0; i-- {
		if !slices.ContainsFunc(policy.Logs, func(l receiptlog.PolicyLog) bool {
			return l.Key.String() == heads[i].VKey
		}) {
			fmt.Fprintf(&lines, "log %s\n", heads[i].VKey)
		}
	}
	return lines.String() + text
}
