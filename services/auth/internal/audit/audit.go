package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Kind says what acted.
type Kind string

// The kinds of actors.
const (
	User      Kind = "user"      // a user of the household
	Operator  Kind = "operator"  // a command on the machine itself
	System    Kind = "system"    // the service, for example a sweep
	Anonymous Kind = "anonymous" // a request that is taken for no user's
)

// Actor is who acts, and from where. An entry keeps the name as it was, because users may be
// renamed or deleted.
type Actor struct {
	Kind Kind
	ID   int64  // of a user; else 0
	Name string // username, or for Operator the operating system's user; else empty
	IP   string
	// Network is the network of the address, by which events are counted that a client can cause without bounds. It
	// is stored as a part of the bucket only.
	Network string
	// Agent is the browser and system, in words, of the request.
	Agent      string
	RequestID  string
	SessionKey string // Key of the session's session.Ref; not a credential
}

type actorKey struct{}

// With returns a context with an actor: stores take the actor of an event from the context
// of the call that writes it.
func With(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// From returns the actor of a context, or the System.
func From(ctx context.Context) Actor {
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		return a
	}
	return Actor{Kind: System}
}

// Event is what happened. It never holds a password, token, code, cookie, or a name that was typed at a failed login
// and is no user's.
type Event struct {
	Name string // for example "user_created"
	// SubjectID and SubjectName are of the user whom it concerns; zero where there is none. An event about an open
	// invite has the name alone.
	SubjectID   int64
	SubjectName string
	// Detail is encoded as a JSON object; nil: none.
	Detail map[string]any
	// Bucket is for events that a client can cause without bounds: those of an actor with the same bucket are one row
	// with a count. Empty: the store decides whether the event has a bucket.
	Bucket string
}

// EncodedDetail returns Detail as JSON; "" where there is none.
func (e Event) EncodedDetail() (string, error) {
	if e.Detail == nil {
		return "", nil
	}
	encoded, err := json.Marshal(e.Detail)
	if err != nil {
		return "", fmt.Errorf("encode detail of %s: %w", e.Name, err)
	}
	return string(encoded), nil
}

// Entry is a stored event, or one that is given to an observer, which has no ID.
type Entry struct {
	ID int64
	At time.Time // of several that are counted the last one's; UTC and whole seconds where a Store returns it
	Actor
	Event
	Count int64
}

// Cursor is the place of an entry in the order of Entries, which is newest first; zero: before the newest.
type Cursor struct {
	ID int64
	// At is the entry's time as the client has read it. A client that knows the ID alone leaves it zero: then it is
	// the entry's time now, which is later if the event was counted again since; where the entry is gone, the latest
	// time of the entries with lower IDs.
	At time.Time
}

// Query selects entries. A zero field but Limit selects all.
type Query struct {
	Before Cursor // only older entries
	Limit  int    // at most so many; 0: DefaultPage, where Recorder.Entries is called
	Event  string // of this name
	UserID int64  // done by this user, or concerning them
	From   time.Time
	To     time.Time // exclusive
}

// Store keeps entries. The actor of an event is the context's (From).
type Store interface {
	// Record writes an event that is no part of a change.
	Record(ctx context.Context, e Event) error
	// Entries returns the entries that a query selects, newest first, which is by At and then by ID.
	Entries(ctx context.Context, q Query) ([]Entry, error)
	// Notices returns the entries of these names that concern a user, newest first, at most 50: those after the
	// instant of NoticesSeen, or with all also the earlier ones.
	Notices(ctx context.Context, userID int64, names []string, all bool) ([]Entry, error)
	// AdminNotices returns the entries of these names, newest first, at most 50, that another user or the operator
	// has caused, or that say that an application could not be told of a logout. They are no earlier than since and
	// the admin's account, and after the instant of NoticesSeen. Who is no admin gets none.
	AdminNotices(ctx context.Context, userID int64, names []string, since time.Time) ([]Entry, error)
	// NoticesSeen records that a user has seen their notices up to an instant, unless a later one is recorded.
	NoticesSeen(ctx context.Context, userID int64, upTo time.Time) error
	// Sweep deletes the entries from before an instant and returns how many. When there are any, it
	// records an event about that.
	Sweep(ctx context.Context, before time.Time) (int64, error)
}
