package audit

import (
	"context"
	"time"
)

// Kind says what acted.
type Kind string

// The kinds of actors.
const (
	User      Kind = "user"      // a person with a session
	Operator  Kind = "operator"  // a command on the machine itself
	Token     Kind = "token"     // a device with an app token
	System    Kind = "system"    // the service, for example a sweep
	Anonymous Kind = "anonymous" // a request without a session
)

// Actor is who acts, and from where. Names are kept as they were, because users may be
// renamed or deleted.
type Actor struct {
	Kind Kind
	ID   int64  // of a user; else 0
	Name string // username, or the operating system's user
	IP   string
	// Network is what the address counts as: events that a client can cause without bounds are counted by it. It is
	// stored as a part of the bucket only.
	Network string
	// Agent is the browser and system, in words, of the request.
	Agent      string
	RequestID  string
	SessionKey string // of session.Ref; not a credential
}

type actorKey struct{}

// With returns a context in which the actor acts. Stores write the rows of acts under
// this context, in the transaction of the act.
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
	// Subject is the user whom it concerns; zero where there is none.
	SubjectID   int64
	SubjectName string
	// Detail is encoded as a JSON object; nil: none.
	Detail map[string]any
	// Bucket is for events that a client can cause without bounds: those of an actor with the same
	// bucket are one row with a count. Empty: a row of its own, or the bucket that the store
	// has for what users do to their own account.
	Bucket string
}

// Entry is a stored event.
type Entry struct {
	ID int64
	At time.Time // UTC, whole seconds; of a counted event, the last one's, as the other fields
	Actor
	Event
	Count int64
}

// Cursor is the place of an entry in the order of Entries, which is newest first; zero: before the newest.
type Cursor struct {
	ID int64
	// At is the entry's time as the client has read it. A client that knows the ID alone leaves it zero: then it is
	// the entry's time now, which is later if the event was counted again since.
	At time.Time
}

// Query selects entries. Zero fields select all.
type Query struct {
	Before Cursor // only older entries
	Limit  int    // at most so many; 0: DefaultPage of Recorder.Entries
	Event  string // of this name
	UserID int64  // done by this user, or concerning them
	From   time.Time
	To     time.Time // exclusive
}

// Store keeps entries. The actor of an event is the context's (From).
type Store interface {
	// Record writes an event that is no part of a change.
	Record(ctx context.Context, e Event) error
	// Entries returns entries, newest first, which is by At and then by ID.
	Entries(ctx context.Context, q Query) ([]Entry, error)
	// Notices returns the entries of these names that concern a user, newest first, at most 50: those that are
	// later than NoticesSeen, or all.
	Notices(ctx context.Context, userID int64, names []string, all bool) ([]Entry, error)
	// AdminNotices returns the entries of these names, newest first, at most 50, that another user or the operator
	// has caused, and that are no earlier than an instant and the admin's account and later than NoticesSeen; none
	// for a member.
	AdminNotices(ctx context.Context, userID int64, names []string, since time.Time) ([]Entry, error)
	// NoticesSeen records that a user has seen their notices up to an instant.
	NoticesSeen(ctx context.Context, userID int64, upTo time.Time) error
	// Sweep deletes the entries from before an instant and returns how many. When there are any, it
	// records an event about that.
	Sweep(ctx context.Context, before time.Time) (int64, error)
}
