package account

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Errors of the rules, beside those of user, session and password.
var (
	ErrMissing = errors.New("a required field is missing")
	ErrTooLong = errors.New("name or password is too long")
	// ErrInvalidCredentials does not reveal whether the user exists.
	ErrInvalidCredentials = errors.New("invalid credentials")
	ErrWrongPassword      = errors.New("wrong current password")
	// ErrPending is returned for a change that is saved while the session store
	// does not answer; Replay revokes the sessions when it does.
	ErrPending = errors.New("change saved; session revocation pending until the session store answers and auth runs")
	// ErrOwnAccount is returned to admins who delete themselves.
	ErrOwnAccount = errors.New("own account")
	// ErrUseOwnPage is returned to admins who act on themselves where their own page is
	// the way.
	ErrUseOwnPage = errors.New("own account: use its page")
	// ErrResetLinkOnly is returned to admins who set another user's password.
	ErrResetLinkOnly = errors.New("only the user sets their password")
	// ErrHouseholdName is returned for a name of more than 64 characters, or with
	// control characters.
	ErrHouseholdName = errors.New("household name is too long or has control characters")
)

// Options are the parts of a Service. Users, Links, Factors, Limits, Audit, Sessions, Pendings, Ceremonies,
// Passwords, Log and Now are required.
type Options struct {
	Users   user.Store
	Links   Links
	Factors Factors
	// Sealer seals TOTP secrets; nil: there is no key, and TOTP cannot be set up.
	Sealer *factor.Sealer
	// Limits are required.
	Limits   Limits
	Audit    *audit.Recorder
	Sessions session.Store
	Pendings session.Pendings
	// Ceremonies are those of passkeys.
	Ceremonies session.Ceremonies
	Passkeys   factor.PasskeyStore
	// Party carries out the ceremonies; nil: passkeys are off, because of PasskeysOff,
	// which wraps factor.ErrPasskeysUnavailable.
	Party       factor.RelyingParty
	PasskeysOff error
	Passwords   *password.Hasher
	// SessionLifetime is how long a session lasts without activity; zero is
	// session.Lifetime.
	SessionLifetime time.Duration
	// HouseholdName is the household's name until it is set on a page; empty: Zuhause.
	HouseholdName string
	// RefuseCommon refuses well-known passwords also where the contract does not.
	RefuseCommon bool
	Log          *slog.Logger
	Now          func() time.Time
}

// Service carries out the rules. It is safe for concurrent use.
type Service struct {
	users        user.Store
	links        Links
	factors      Factors
	sealer       *factor.Sealer
	limits       Limits
	audit        *audit.Recorder
	sessions     session.Store
	pendings     session.Pendings
	ceremonies   session.Ceremonies
	passkeys     factor.PasskeyStore
	party        factor.RelyingParty // nil unless passkeysOff is
	passkeysOff  error
	passwords    *password.Hasher
	lifetime     time.Duration // of sessions
	household    string        // default of its name
	refuseCommon bool
	log          *slog.Logger
	now          func() time.Time
}

// New checks the options and returns a Service.
func New(o Options) (*Service, error) {
	if o.Users == nil || o.Links == nil || o.Factors == nil || o.Limits.Code == nil || o.Audit == nil || o.Sessions == nil || o.Pendings == nil || o.Ceremonies == nil || o.Passkeys == nil || o.Passwords == nil || o.Log == nil || o.Now == nil {
		return nil, errors.New("account: Users, Links, Factors, Limits, Audit, Sessions, Pendings, Ceremonies, Passkeys, Passwords, Log or Now is not set")
	}
	if o.Party != nil {
		o.PasskeysOff = nil
	} else {
		o.PasskeysOff = cmp.Or(o.PasskeysOff, factor.ErrPasskeysUnavailable)
	}
	return &Service{
		passkeys: o.Passkeys, party: o.Party, passkeysOff: o.PasskeysOff,
		users: o.Users, links: o.Links, factors: o.Factors, sealer: o.Sealer, limits: o.Limits, audit: o.Audit, sessions: o.Sessions, pendings: o.Pendings, ceremonies: o.Ceremonies, passwords: o.Passwords,
		lifetime: cmp.Or(o.SessionLifetime, session.Lifetime), household: cmp.Or(o.HouseholdName, DefaultHouseholdName),
		refuseCommon: o.RefuseCommon, log: o.Log, now: o.Now,
	}, nil
}
