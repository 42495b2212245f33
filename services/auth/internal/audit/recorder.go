package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// RecorderOptions are the parts of a Recorder. All fields are required unless noted.
type RecorderOptions struct {
	Store Store
	// Retention is how long entries are kept; zero: for ever.
	Retention time.Duration
	Log       *slog.Logger
	Now       func() time.Time
}

// Recorder records events that are no part of a change, and returns what is recorded. It is safe for concurrent use.
type Recorder struct {
	RecorderOptions
	later
	notes later
}

// NewRecorder checks the options and returns a Recorder.
func NewRecorder(o RecorderOptions) (*Recorder, error) {
	if o.Store == nil || o.Log == nil || o.Now == nil {
		return nil, errors.New("audit: Store, Log or Now is not set")
	}
	return &Recorder{
		RecorderOptions: o,
		later:           later{queue: make(chan func(), laterQueue)},
		notes:           later{queue: make(chan func(), laterQueue)},
	}, nil
}

// Note is Later for work that strangers can cause without bounds. It has a queue and a worker of its own, so that it
// neither crowds out nor delays the rest, and Dropped does not count it.
func (r *Recorder) Note(ctx context.Context, work func(context.Context)) { r.notes.Later(ctx, work) }

// Work does the queued work until ctx ends. Drain does the rest.
func (r *Recorder) Work(ctx context.Context) {
	var notes sync.WaitGroup
	notes.Go(func() { r.notes.work(ctx) })
	r.work(ctx)
	notes.Wait()
}

// Drain does what is queued now, at the end of the process, the notes last. It begins nothing more after laterDrain.
func (r *Recorder) Drain() {
	begin := r.Now()
	more := func() bool { return r.Now().Sub(begin) < laterDrain }
	r.drain(more)
	r.notes.drain(more)
}

// Record queues an event, so that the request does not wait until it is stored. A failure is only
// logged. When the queue is full, the event is dropped and counted.
func (r *Recorder) Record(ctx context.Context, e Event) {
	r.Later(ctx, r.store(e))
}

func (r *Recorder) store(e Event) func(context.Context) {
	return func(ctx context.Context) {
		if err := r.Store.Record(ctx, e); err != nil {
			r.Log.WarnContext(ctx, "record audit event failed", "event", e.Name, "error", err)
		}
	}
}

// RecordCounted is Record for an event that a client can cause without bounds: those with the
// same name, hour, network, actor and subject are one row with a count. One that concerns no user is
// a Note, because strangers can cause it.
func (r *Recorder) RecordCounted(ctx context.Context, e Event) {
	e.Bucket = fmt.Sprintf("%s %d %s %d", e.Name, r.Now().Truncate(time.Hour).Unix(), From(ctx).Network, e.SubjectID)
	queue := r.Later
	if e.SubjectID == 0 {
		queue = r.Note
	}
	queue(ctx, r.store(e))
}

// DefaultPage is the Limit of Entries where a query has none, and MaxPage the highest.
const (
	DefaultPage = 50
	MaxPage     = 200
)

// Entries returns the entries that a query selects, newest first, and the cursor of the older
// ones: the Before of the next query, or zero when there are none.
func (r *Recorder) Entries(ctx context.Context, q Query) (entries []Entry, next Cursor, err error) {
	if q.Limit <= 0 {
		q.Limit = DefaultPage
	}
	limit := min(q.Limit, MaxPage)
	q.Limit = limit + 1
	if entries, err = r.Store.Entries(ctx, q); err != nil {
		return nil, Cursor{}, err
	}
	if len(entries) > limit {
		entries = entries[:limit]
		next = Cursor{entries[limit-1].ID, entries[limit-1].At}
	}
	return entries, next, nil
}

// adminNotices is how old the entries are at most that Notices takes from Store.AdminNotices.
const adminNotices = 30 * 24 * time.Hour

// Notices returns the entries that a user should know and has not marked as read, newest first: what concerns them and,
// for an admin, what admins are told of the last 30 days (Store.AdminNotices); at most 50 of each.
func (r *Recorder) Notices(ctx context.Context, userID int64) ([]Entry, error) {
	own, err := r.Store.Notices(ctx, userID, noticed(), false)
	if err != nil {
		return nil, err
	}
	others, err := r.Store.AdminNotices(ctx, userID, forAdmins(), r.Now().Add(-adminNotices))
	entries := slices.Concat(own, others)
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) })
	return entries, err
}

// LastNotices returns the last 50 entries that concern a user and that they should know, read or not, newest first.
func (r *Recorder) LastNotices(ctx context.Context, userID int64) ([]Entry, error) {
	return r.Store.Notices(ctx, userID, noticed(), true)
}

// NoticesSeen marks the notices of a user as read, up to and including upTo, the time of the newest that was shown. An
// upTo in the future counts as now: otherwise a stolen session could hide what is done with it later.
func (r *Recorder) NoticesSeen(ctx context.Context, userID int64, upTo time.Time) error {
	if now := r.Now(); upTo.After(now) {
		upTo = now
	}
	return r.Store.NoticesSeen(ctx, userID, upTo)
}

// Sweep deletes the entries that are older than Retention; none if that is zero.
func (r *Recorder) Sweep(ctx context.Context) error {
	if r.Retention <= 0 {
		return nil
	}
	_, err := r.Store.Sweep(ctx, r.Now().Add(-r.Retention))
	return err
}
