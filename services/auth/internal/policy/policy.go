package policy

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/picture"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/snapshot"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Applications keeps applications. Every method that changes something is one transaction, with its audit rows but for
// SetReached. by is a session of an admin (user.ErrNotAdmin) that their row admits at that instant
// (session.ErrNotFound), or user.Operator's, the zero Session. Sessions hold no copy of rules or groups.
type Applications interface {
	// Applications returns all applications, by position and name.
	Applications(ctx context.Context) ([]application.Application, error)
	// CreateApplication adds an application with its route, its picture and its Reached. application.ErrSlugTaken,
	// ErrURLTaken, ErrGroupNotFound, ErrTooMany.
	CreateApplication(ctx context.Context, a application.Application, icon application.Icon, by session.Session) error
	// ChangeApplication stores an application, with its route, as change leaves it, but for ID, Reached and Icon.
	// change is called in the transaction and possibly several times; its error is returned. application.ErrNotFound,
	// ErrSlugTaken, ErrURLTaken, ErrGroupNotFound.
	ChangeApplication(
		ctx context.Context, slug string, change func(*application.Application) error, by session.Session,
	) error
	// RemoveApplication removes an application, from tokens too. application.ErrNotFound.
	RemoveApplication(ctx context.Context, slug string, by session.Session) error
	// PinRoute sets the pin of a route that has this upstream and no pin; of another one nothing changes.
	// application.ErrNotFound.
	PinRoute(ctx context.Context, slug, upstream, pin string) error
	// SetReached stores that an application has been reached.
	SetReached(ctx context.Context, id int64) error
	// SetIcon sets the picture of an application; the zero value removes it. application.ErrNotFound.
	SetIcon(ctx context.Context, slug string, icon application.Icon, by session.Session) error
	// Icon returns the picture of a hash. application.ErrNotFound.
	Icon(ctx context.Context, hash string) ([]byte, error)
}

// Groups keeps groups of users. Its transactions and by are as those of Applications.
type Groups interface {
	// Groups returns all groups, by slug.
	Groups(ctx context.Context) ([]application.UserGroup, error)
	// CreateGroup adds a group with members. application.ErrSlugTaken, ErrTooMany;
	// user.ErrNotFound.
	CreateGroup(ctx context.Context, slug, name string, members []int64, by session.Session) error
	// ChangeGroup sets the name and members of a group; nil leaves them as they are.
	// application.ErrGroupNotFound, user.ErrNotFound.
	ChangeGroup(ctx context.Context, slug string, name *string, members *[]int64, by session.Session) error
	// RemoveGroup removes a group that no rule names, from open invites too. application.ErrGroupNotFound,
	// ErrGroupUsed.
	RemoveGroup(ctx context.Context, slug string, by session.Session) error
	// ChangeMembers makes users members (true) or not (false), all of them or none.
	// application.ErrGroupNotFound, user.ErrNotFound.
	ChangeMembers(ctx context.Context, slug string, users map[int64]bool, by session.Session) error

	// Visitor returns a user and the slugs of their groups, sorted, in one read. The caller must
	// not change them. user.ErrNotFound.
	Visitor(ctx context.Context, id int64) (user.User, []string, error)
}

// Users finds users.
type Users interface {
	// ByUsername returns the user of exactly this name. user.ErrNotFound.
	ByUsername(ctx context.Context, username string) (user.User, error)
}

// Options are the parts of a Service. All fields are required unless noted.
type Options struct {
	Applications Applications
	Groups       Groups
	Tokens       Tokens
	Users        Users
	Proxies      application.Proxies
	// Own returns the addresses host:port of auth and its stores, to which no route leads; may be nil.
	Own func(context.Context) []string
	// HandOvers keeps the hand-overs of sessions to the hosts of applications.
	HandOvers session.HandOvers
	// TokenLimit counts wrong app tokens of an address: WrongTokens in a minute.
	TokenLimit *ratelimit.Limiter
	// ProbeLimit counts the internal addresses that a user has tried: Probes in a minute.
	ProbeLimit *ratelimit.Limiter
	Audit      *audit.Recorder
	PlainHTTP  bool   // permits applications whose origin is of http
	PublicURL  string // the portal's origin; may be empty
	Log        *slog.Logger
	Now        func() time.Time
}

// Service carries out the rules. It is safe for concurrent use.
type Service struct {
	o           Options
	snapshot    *snapshot.Snapshot[map[string]application.Application] // by slug
	reached     tries
	icons       *picture.Encoder
	unknown     unknownApps
	wrongTokens wrongTokens
}

// New checks the options and returns a Service.
func New(o Options) (*Service, error) {
	if o.Applications == nil || o.Groups == nil || o.Tokens == nil || o.Users == nil || o.Proxies == nil ||
		o.HandOvers == nil || o.TokenLimit == nil || o.ProbeLimit == nil || o.Audit == nil || o.Log == nil ||
		o.Now == nil {
		return nil, errors.New("policy: Applications, Groups, Tokens, Users, Proxies, HandOvers, TokenLimit, " +
			"ProbeLimit, Audit, Log or Now is not set")
	}
	if o.Own == nil {
		o.Own = func(context.Context) []string { return nil }
	}
	s := &Service{o: o, icons: picture.New(picture.Options{
		MaxBytes: MaxIcon, MaxSide: 1024, Side: 192, MaxEncoded: 64 << 10,
	})}
	s.snapshot = snapshot.New(snapshot.Options[map[string]application.Application]{
		What: "applications", Age: snapshotAge, Read: s.bySlug, Now: o.Now,
	})
	return s, nil
}

// Visitor is the user of a session or an app token, as stored now.
type Visitor struct {
	User   user.User
	Groups []string // slugs, sorted
}

// Visitor returns the user of a session with their groups, as stored now, in one read: another role
// or group holds from the next request on. user.ErrNotFound: the user was deleted;
// session.ErrNotFound: the session was revoked, or the account is closed.
func (s *Service) Visitor(ctx context.Context, of session.Session) (Visitor, error) {
	u, groups, err := s.o.Groups.Visitor(ctx, of.UserID)
	if err != nil {
		return Visitor{}, err
	}
	if !u.Admits(of.Stamp, of.Key, s.o.Now()) {
		return Visitor{}, session.ErrNotFound
	}
	return Visitor{User: u, Groups: groups}, nil
}
