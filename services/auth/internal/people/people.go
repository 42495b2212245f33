package people

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/picture"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Errors of the rules, beside those of account and user.
var (
	// ErrOwnAccount is returned to admins who delete themselves by Delete.
	ErrOwnAccount = errors.New("own account")
	// ErrResetLinkOnly is returned to admins who would set a user's password.
	ErrResetLinkOnly = errors.New("only the user sets their password")
)

// Users keeps users. Every method is safe for concurrent use, also by several processes, and makes its changes in one
// atomic step. Methods that name a user return user.ErrNotFound. Delete, Disable and Import record revocations, as
// account.Users describes.
type Users interface {
	// Create adds a user and returns it with id and creation time. by is a session of the acting user, who must at
	// that instant be an admin, not be disabled (user.ErrNotAdmin), and admit the session (session.ErrNotFound); the
	// zero Session is user.Operator's. Where by is an id, it is the acting user's. user.ErrUsernameTaken.
	Create(ctx context.Context, n user.New, by session.Session) (user.User, error)
	// CreateFirst is Create, without an acting user, while there is no user at all, else user.ErrNotEmpty. Of any
	// number of concurrent calls one succeeds.
	CreateFirst(ctx context.Context, n user.New) (user.User, error)
	// Import adds users of another application, all of them or none. An ID that is 0 and
	// a CreatedAt that is zero are set as by Create; later ids are higher than every
	// imported one. Sessions under an imported id belonged to an earlier user and are
	// revoked. user.ErrUsernameTaken and user.ErrIDTaken, with the name of the user.
	Import(ctx context.Context, users []user.User) ([]user.Revocation, error)
	// Delete removes a user and keeps the name, which is a former one from now on; by as in Create, or the user
	// themselves. All sessions are revoked, and invites for that name are void. user.ErrLastAdmin.
	Delete(ctx context.Context, id int64, by session.Session) (user.Revocation, error)

	ByID(ctx context.Context, id int64) (user.User, error)
	// ByUsername returns the user of exactly this name (case matters), which may be
	// any string.
	ByUsername(ctx context.Context, username string) (user.User, error)
	// List returns all users, by id.
	List(ctx context.Context) ([]user.User, error)
	// Member returns a user as admins see them, Members all of them by id.
	Member(ctx context.Context, id int64) (user.Details, error)
	Members(ctx context.Context) ([]user.Details, error)
	// CheckTaken returns user.ErrUsernameTaken for the name of a user, in whatever case.
	CheckTaken(ctx context.Context, username string) error
	// CheckFormer returns user.ErrUsernameFormer for a former name of a user, of one who was deleted too.
	CheckFormer(ctx context.Context, username string) error

	// Change changes fields; by as in Create, or the user themselves, who without being an admin can change the
	// display name, the colour and, without confirming it, the e-mail address. Nobody else gets a user's previous
	// username while they are here. user.ErrNotAdmin, user.ErrLastAdmin, user.ErrGuestAdmin; user.ErrUsernameTaken,
	// user.ErrUsernameFormer; user.ErrEmailTaken, where it is confirmed for another user, or another one has it and
	// the change does not confirm it; application.ErrGroupNotFound.
	Change(ctx context.Context, id int64, c user.Change, by session.Session) error
	// Disable closes an account until Enable; by as in Create. All sessions are revoked. user.ErrLastAdmin.
	Disable(ctx context.Context, id int64, by session.Session) (user.Revocation, error)
	Enable(ctx context.Context, id int64, by session.Session) error
	// SetPicture sets a user's picture, or removes it where jpeg is nil; by as in Create, or the user themselves.
	SetPicture(ctx context.Context, id int64, jpeg []byte, by int64) error
	// Picture returns a user's picture if its SHA-256, hexadecimal, is hash; else user.ErrNotFound.
	Picture(ctx context.Context, id int64, hash string) ([]byte, error)
	// NameHousehold sets the household's name; "" removes it. by as in Create.
	NameHousehold(ctx context.Context, name string, by int64) error
	// SetRole changes the role, also to the current one. user.ErrLastAdmin, user.ErrGuestAdmin.
	SetRole(ctx context.Context, id int64, role user.Role) error
	// AskForReset opens a request for a new password of the user of exactly this name, unless one is open or the
	// account is closed. It ends when a reset link is created, the password changes, the account is disabled, or by
	// DismissReset.
	AskForReset(ctx context.Context, username string) error
	// HideFirstSteps sets user.Household.FirstStepsDone; by as in Create.
	HideFirstSteps(ctx context.Context, by int64) error
	// DismissReset ends the request of a user for a new password, if one is open; by as in Create.
	DismissReset(ctx context.Context, id, by int64) error
}

// Links keeps links and carries out what they are for. Every method that changes something is one transaction, with
// its audit rows. A method that uses a link up returns link.ErrUsed or link.ErrInvalid unless the link is open at that
// instant; of any number of concurrent uses one succeeds.
//
// A link stops being open when it is used, expires or becomes void, and when the admin who created it is no longer
// one or their sessions are revoked. The hash is secrets.Hash of the token.
type Links interface {
	// CreateLink adds a link with the fields Kind, UserID, Username, DisplayName, Role, Groups and EndsAt of l. It is
	// open until EndsAt at the latest. by is as in Users.Create. A set-up makes all earlier ones void, a reset
	// those of its user. user.ErrNotFound for a reset; user.ErrUsernameTaken, user.ErrUsernameFormer and
	// application.ErrGroupNotFound for an invite; user.ErrNotEmpty for a set-up.
	CreateLink(ctx context.Context, l link.Link, hash string, by session.Session) (link.Link, error)
	// Link returns an open link. In this order: link.ErrUsed, with the link; user.ErrNotEmpty for a set-up while
	// there is a user; link.ErrInvalid.
	Link(ctx context.Context, kind link.Kind, hash string) (link.Link, error)
	// Invite returns an invite that is open, or was used: link.ErrUsed, with the user whom it created.
	// link.ErrNotFound.
	Invite(ctx context.Context, id int64) (link.Link, error)
	// Invites returns the open invites, newest first.
	Invites(ctx context.Context) ([]link.Link, error)
	// RevokeInvite makes an open invite void; by as in Users.Create. link.ErrNotFound.
	RevokeInvite(ctx context.Context, id, by int64) error

	// Setup uses a set-up link up, creates the first user, with a passkey unless key is nil, and sets the household's
	// name unless it is empty. user.ErrNotEmpty; factor.ErrPasskeyExists.
	Setup(
		ctx context.Context, hash string, n user.New, key *factor.FirstPasskey, household string,
	) (user.User, error)
	// Join uses an invite up and creates its user. The role and groups, and the username
	// where the invite has one, are the invite's; a group that was removed meanwhile is
	// none. The passkey is as in Setup. user.ErrUsernameTaken; user.ErrUsernameFormer for a name that the
	// person chose; factor.ErrPasskeyExists.
	Join(ctx context.Context, hash string, n user.New, key *factor.FirstPasskey) (user.User, error)
	// ResetByLink uses a reset up, sets the password and revokes all sessions.
	ResetByLink(ctx context.Context, hash, newHash string) (user.Revocation, error)
}

// Options are the parts of a Service. All fields are required unless noted.
type Options struct {
	Users     Users
	Links     Links
	Accounts  *account.Service
	Passwords *password.Hasher
	Audit     *audit.Recorder
	Log       *slog.Logger
	// Location is the household's time zone, in which the days of guests end; nil: the machine's, or that of TZ.
	Location *time.Location
	Now      func() time.Time // nil: time.Now
}

// Service carries out the rules. It is safe for concurrent use.
type Service struct {
	users     Users
	links     Links
	accounts  *account.Service
	passwords *password.Hasher
	audit     *audit.Recorder
	log       *slog.Logger
	location  *time.Location
	now       func() time.Time
	pictures  *picture.Encoder
}

// New checks the options and returns a Service.
func New(o Options) (*Service, error) {
	if o.Users == nil || o.Links == nil || o.Accounts == nil || o.Passwords == nil || o.Audit == nil || o.Log == nil {
		return nil, errors.New("people: Users, Links, Accounts, Passwords, Audit or Log is not set")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{
		users: o.Users, links: o.Links, accounts: o.Accounts, passwords: o.Passwords, audit: o.Audit, log: o.Log,
		location: cmp.Or(o.Location, time.Local), now: o.Now, pictures: picture.New(pictures),
	}, nil
}
