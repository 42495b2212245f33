package account

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Errors of the rules, beside those of user, session, password and factor.
var (
	ErrMissing = errors.New("a required field is missing")
	ErrTooLong = errors.New("name or password is too long")
	// ErrInvalidCredentials does not reveal whether the user exists.
	ErrInvalidCredentials = errors.New("invalid credentials")
	ErrWrongPassword      = errors.New("wrong current password")
	// ErrClosed is returned only to those who have proved that the account is theirs.
	ErrClosed = errors.New("account is closed")
	// ErrPending is returned for a change that is saved, but whose revocation is not finished. Replay carries it out.
	ErrPending = errors.New("change saved; session revocation pending until the session store answers and auth runs")
	// ErrUseOwnPage is returned to admins who do to themselves what is for other users only.
	ErrUseOwnPage = errors.New("own account: use its page")
)

// Options are the parts of a Service. All fields are required unless noted.
type Options struct {
	Users    Users
	Factors  Factors
	Browsers Browsers
	// Sealer seals TOTP secrets; nil: there is no key, and TOTP can be neither set up nor used.
	Sealer *factor.Sealer
	// Limits are those of NewLimits.
	Limits   Limits
	Audit    *audit.Recorder
	Sessions session.Store
	Pendings session.Pendings
	// Ceremonies are those of passkeys.
	Ceremonies session.Ceremonies
	Passkeys   factor.PasskeyStore
	// Party carries out the ceremonies; nil: passkeys are off. PasskeysOff then is why: an error that wraps
	// factor.ErrPasskeysUnavailable, or by default that error.
	Party       factor.RelyingParty
	PasskeysOff error
	Passwords   *password.Hasher
	// SessionLifetimes are how long sessions last without activity; zero are those of session.NewLifetimes(0, 0).
	SessionLifetimes session.Lifetimes
	// HouseholdName is the household's name until one is set; empty: DefaultHouseholdName.
	HouseholdName string
	// RefuseCommon has CheckSetPassword refuse well-known passwords (AUTH-8.8).
	RefuseCommon bool
	Log          *slog.Logger
	Now          func() time.Time
}

// Users keeps the passwords of users and the revocations of their sessions. Every method is one atomic step and safe
// for concurrent use, also by several processes. Methods that name a user, but EndLogin, return user.ErrNotFound.
//
// Sessions are in another store, so the transaction of a change that they must follow also writes a user.Revocation,
// which is returned. The caller carries it out and then calls RevocationDone; a record that a process leaves behind is
// returned by PendingRevocations. Changes that revoke sessions also end the user's logins at applications and the links
// that the user created, and set a new SessionStamp, by which the sessions end at once even if their store never
// follows.
type Users interface {
	ByID(ctx context.Context, id int64) (user.User, error)
	// Since returns a context in which ByID may return the user as stored at any moment since this call.
	Since(ctx context.Context) context.Context
	// ByUsername returns the user of exactly this name (case matters), which may be
	// any string.
	ByUsername(ctx context.Context, username string) (user.User, error)
	// List returns all users, by id.
	List(ctx context.Context) ([]user.User, error)
	// Household returns the household's settings.
	Household(ctx context.Context) (user.Household, error)

	// SetPasswordHash replaces the hash of a session's user if it is still oldHash, else user.ErrChanged: of
	// two changes that verified the same old password one succeeds. All their other sessions are revoked.
	// session.ErrNotFound where the session has been revoked, or the account is closed: the hash stays.
	SetPasswordHash(ctx context.Context, of session.Session, oldHash, newHash string) (user.Revocation, error)
	// ResetPassword replaces any hash. All sessions are revoked.
	ResetPassword(ctx context.Context, id int64, newHash string) (user.Revocation, error)
	// EndSessions revokes all sessions of a user on behalf of the admin of a session, or user.Operator for the zero
	// Session. user.ErrNotAdmin; session.ErrNotFound where the admin's session has been revoked.
	EndSessions(ctx context.Context, id int64, by session.Session) (user.Revocation, error)
	// EndOthers revokes all sessions of a session's user but this one. session.ErrNotFound where it has been
	// revoked (user.User.Admits).
	EndOthers(ctx context.Context, of session.Session) (user.Revocation, error)
	// EndLogin ends what a login (session.Session.Login) opened at applications and does not outlive it, and its
	// authorization codes under way. A user who is gone is no error.
	EndLogin(ctx context.Context, id int64, login string) error
	// Rehash replaces the hash by another one of the same password if it is still
	// oldHash, else user.ErrChanged. Sessions stay.
	Rehash(ctx context.Context, id int64, oldHash, newHash string) error

	// PendingRevocations returns at most user.MaxPending that were recorded before the
	// instant, are not done, and have an id over after, by id.
	PendingRevocations(ctx context.Context, before time.Time, after int64) ([]user.Revocation, error)
	// RevocationDone deletes a revocation. An unknown one is not an error.
	RevocationDone(ctx context.Context, id int64) error
}

// Service carries out the rules. It is safe for concurrent use.
type Service struct {
	Passkeys     *Passkeys
	SecondFactor *SecondFactor

	users        Users
	factors      Factors
	browsers     Browsers
	sealer       *factor.Sealer
	limits       Limits
	audit        *audit.Recorder
	sessions     session.Store
	pendings     session.Pendings
	ceremonies   session.Ceremonies
	passkeys     factor.PasskeyStore
	party        factor.RelyingParty // nil where passkeysOff is set
	passkeysOff  error
	passwords    *password.Hasher
	lifetimes    session.Lifetimes
	household    string // default of its name
	refuseCommon bool
	log          *slog.Logger
	now          func() time.Time
	// carriedOut has the ids of revocations that were carried out and whose records could not be deleted.
	carriedOut sync.Map
}

// New checks the options and returns a Service.
func New(o Options) (*Service, error) {
	if o.Users == nil || o.Factors == nil || o.Browsers == nil || o.Limits.Code == nil || o.Audit == nil ||
		o.Sessions == nil || o.Pendings == nil || o.Ceremonies == nil || o.Passkeys == nil || o.Passwords == nil ||
		o.Log == nil || o.Now == nil {
		return nil, errors.New("account: Users, Factors, Browsers, Limits, Audit, Sessions, Pendings, Ceremonies, " +
			"Passkeys, Passwords, Log or Now is not set")
	}
	if o.Party != nil {
		o.PasskeysOff = nil
	} else {
		o.PasskeysOff = cmp.Or(o.PasskeysOff, factor.ErrPasskeysUnavailable)
	}
	s := &Service{
		passkeys: o.Passkeys, party: o.Party, passkeysOff: o.PasskeysOff,
		users: o.Users, factors: o.Factors, browsers: o.Browsers, sealer: o.Sealer, limits: o.Limits, audit: o.Audit,
		sessions: o.Sessions, pendings: o.Pendings, ceremonies: o.Ceremonies, passwords: o.Passwords,
		lifetimes:    cmp.Or(o.SessionLifetimes, session.NewLifetimes(0, 0)),
		household:    cmp.Or(o.HouseholdName, DefaultHouseholdName),
		refuseCommon: o.RefuseCommon, log: o.Log, now: o.Now,
	}
	s.Passkeys, s.SecondFactor = &Passkeys{s}, &SecondFactor{s}
	return s, nil
}
