package account

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Errors of the second step of a login and of codes.
var (
	// ErrNoPendingLogin: there is no login that waits for a second factor: none was begun,
	// or it is over, has used its tries, or its user has changed.
	ErrNoPendingLogin = errors.New("no pending login")
	// ErrWrongCode is the factor.ErrInvalidCode of EnableTOTP, Disable and NewRecoveryCodes.
	ErrWrongCode = fmt.Errorf("session: %w", factor.ErrInvalidCode)
	// ErrTooManyCodes and ErrTooManyTries come in a ratelimit.LimitedError.
	ErrTooManyCodes = errors.New("too many wrong codes")
	ErrTooManyTries = errors.New("too many wrong passwords")
)

// SkewError is factor.ErrInvalidCode for a code that is right for another time: the clock of the device is ahead of
// ours by Ahead, or behind if that is negative.
type SkewError struct{ Ahead time.Duration }

func (e *SkewError) Error() string { return fmt.Sprintf("clock of the device is off by %s", e.Ahead) }
func (e *SkewError) Unwrap() error { return ErrWrongCode }

type watchedLimit struct{}

// WatchLimit returns a context and a Decision. Reauth, and what takes a code, set the Decision in that context to the
// state of their limit after any refund; of several limits, to the one with the fewest attempts left. Decision.Limit
// is 0 where no attempt was made. The context is for one goroutine.
func WatchLimit(ctx context.Context) (context.Context, *ratelimit.Decision) {
	var watched ratelimit.Decision
	return context.WithValue(ctx, watchedLimit{}, &watched), &watched
}

// watched sets the Decision of WatchLimit by the states of an attempt's limits.
func watched(ctx context.Context, states ...ratelimit.Decision) {
	into, ok := ctx.Value(watchedLimit{}).(*ratelimit.Decision)
	for _, d := range states {
		if ok && (into.Limit == 0 || d.Remaining < into.Remaining) {
			*into = d
		}
	}
}

// Limits are those of second factors and re-authentication, beside a login's.
type Limits struct {
	// Code and CodeDay count wrong TOTP codes of a user in a minute and a day, Recovery
	// wrong recovery codes in an hour. Each browser that Browsers.KnowsBrowser reports counts for
	// itself, and so do the user's sessions together, so that others cannot lock the user out.
	Code, CodeDay, Recovery *ratelimit.Limiter
	// Reauth counts wrong passwords and codes of a session's user.
	Reauth *ratelimit.Limiter
}

const (
	codesPerDay = 20
	// guessedAt is the wrong TOTP code of a day, as one limit counts them, from which on the user is told.
	guessedAt = 10
)

// NewLimits returns the Limits; create returns a limiter of a name.
func NewLimits(create ratelimit.Create) (Limits, error) {
	var l Limits
	var errs [4]error
	l.Code, errs[0] = create("second", 5, time.Minute)
	l.CodeDay, errs[1] = create("second-day", codesPerDay, 24*time.Hour)
	l.Recovery, errs[2] = create("recovery", 5, time.Hour)
	l.Reauth, errs[3] = create("reauth", 5, time.Minute)
	return l, errors.Join(errs[:]...)
}

// PendingLogin is a login whose password was right and whose second factor is missing.
type PendingLogin struct {
	session.Pending
	ID                string // for the cookie; set by Login only
	RecoveryAvailable bool
	Methods           []string // of "totp", "recovery", "passkey"
}

// createPending creates the pending login of u, whose password is verified.
func (s *Service) createPending(ctx context.Context, u user.User, c Credentials) (LoggedIn, error) {
	state, err := s.factors.Factors(ctx, u.ID)
	if err != nil {
		return LoggedIn{}, err
	}
	p, id := session.NewPending(u.ID, c.UserAgent, s.now())
	p.Fingerprint, p.Replaces, p.IP, p.Device = fingerprint(u), c.Replaces, c.IP, c.Device
	if c.Browser != "" {
		hash := session.HashOf(c.Browser)
		known, err := s.browsers.KnowsBrowser(ctx, u.ID, hash)
		if err != nil {
			return LoggedIn{}, err
		}
		if known {
			p.Browser = hash
		}
	}
	if err := s.pendings.CreatePending(ctx, p); err != nil {
		return LoggedIn{}, err
	}
	pending := &PendingLogin{Pending: p, ID: id, RecoveryAvailable: state.Recovery > 0}
	if pending.Methods, err = s.methods(ctx, u.ID, state); err != nil {
		return LoggedIn{}, err
	}
	return LoggedIn{User: u, Pending: pending}, nil
}

// methods returns the ways of a user to prove a second factor.
func (s *Service) methods(ctx context.Context, id int64, state factor.State) ([]string, error) {
	methods := []string{}
	if state.Confirmed && s.sealer != nil {
		methods = append(methods, "totp")
	}
	if state.Recovery > 0 {
		methods = append(methods, "recovery")
	}
	works, err := s.passkeyWorks(ctx, id, state)
	if works {
		methods = append(methods, "passkey")
	}
	return methods, err
}

// fingerprint changes with the password's hash and with the session stamp. Whatever revokes the user's sessions sets a
// new stamp.
func fingerprint(u user.User) string {
	return secrets.Hash(u.SessionStamp + " " + u.PasswordHash)
}

// PendingLogin returns a login that waits for a second factor and what may prove it.
// ErrNoPendingLogin.
func (s *Service) PendingLogin(ctx context.Context, ref session.Ref) (PendingLogin, error) {
	p, err := s.pendings.PeekPending(ctx, ref)
	if err != nil {
		return PendingLogin{}, noPending(err)
	}
	state, err := s.factors.Factors(ctx, ref.UserID)
	if errors.Is(err, user.ErrNotFound) {
		return PendingLogin{}, ErrNoPendingLogin
	}
	if err != nil {
		return PendingLogin{}, err
	}
	methods, err := s.methods(ctx, ref.UserID, state)
	return PendingLogin{Pending: p, RecoveryAvailable: state.Recovery > 0, Methods: methods}, err
}

// noPending maps the errors of a pending login that has ended, or whose user's sessions were
// revoked, to ErrNoPendingLogin.
func noPending(err error) error {
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrFenced) {
		return ErrNoPendingLogin
	}
	return err
}

// CancelLogin ends a pending login.
func (s *Service) CancelLogin(ctx context.Context, ref session.Ref) error {
	return s.pendings.DeletePending(context.WithoutCancel(ctx), ref)
}

// VerifyCode finishes a pending login with a TOTP code or a recovery code and returns
// which of them it was, "totp" or "recovery", and how many recovery codes are left.
// Of the credentials it reads Browser and Replaces. ErrNoPendingLogin;
// factor.ErrInvalidCode; ratelimit.LimitedError with ErrTooManyCodes; factor.ErrNotConfigured, factor.ErrSealed;
// user.ErrNotFound when the user was deleted in that moment.
//
// The code is used up before the session is created: if the process ends between the two,
// a code is lost and no session is gained.
func (s *Service) VerifyCode(
	ctx context.Context, ref session.Ref, c Credentials, typed string,
) (in LoggedIn, method string, left int, err error) {
	p, err := s.pendings.PeekPending(ctx, ref)
	if err != nil {
		return LoggedIn{}, "", 0, noPending(err)
	}
	method = methodOf(typed)
	err = s.limitedCode(ctx, user.User{ID: ref.UserID}, bucket(ref.UserID, p.Browser), method, func() error {
		in, err = s.finishLogin(ctx, ref, c, func(
			ctx context.Context, u user.User,
		) (f session.Factor, err error) {
			f, left, err = s.useCode(ctx, u, typed)
			return f, err
		})
		return err
	})
	return in, method, left, err
}

// bucket returns the key of a user's limits. browser is the hash of a known browser's cookie, "session" for a user with
// a session, or "".
func bucket(userID int64, browser string) string {
	key := strconv.FormatInt(userID, 10)
	if browser != "" {
		key += ":" + browser[:min(len(browser), 32)]
	}
	return key
}

func methodOf(typed string) string {
	if factor.IsTOTP(factor.CleanCode(typed)) {
		return "totp"
	}
	return "recovery"
}

// limitedCode counts an attempt before it is made, and refunds it unless the code was wrong. ratelimit.LimitedError
// with ErrTooManyCodes, and the errors of attempt. A wrong code is recorded; a user with a second factor is told of
// wrong TOTP codes from guessedAt on.
func (s *Service) limitedCode(ctx context.Context, u user.User, key, method string, attempt func() error) error {
	limiters := []*ratelimit.Limiter{s.limits.CodeDay, s.limits.Code}
	if method == "recovery" {
		limiters = []*ratelimit.Limiter{s.limits.Recovery}
	}
	var taken []ratelimit.Decision
	refund := func() {
		for i, d := range taken {
			taken[i] = s.refund(ctx, limiters[i], d)
		}
	}
	for _, l := range limiters {
		d, err := l.Spend(ctx, key)
		if err == nil && !d.Allowed {
			err = &ratelimit.LimitedError{Limit: d, Err: ErrTooManyCodes}
		}
		if err != nil {
			refund()
			return err
		}
		taken = append(taken, d)
	}
	err := attempt()
	defer func() { watched(ctx, taken...) }()
	if !errors.Is(err, factor.ErrInvalidCode) {
		refund()
		return err
	}
	if named, nameErr := s.users.ByID(ctx, u.ID); nameErr == nil {
		u = named
	}
	failed := about("second_factor_failed", u)
	failed.Detail = map[string]any{"method": method}
	s.audit.RecordCounted(ctx, failed)
	if method == "totp" && u.SecondFactor && codesPerDay-taken[0].Remaining >= guessedAt { // not of a set-up
		guessed := about("second_factor_guessed", u)
		guessed.Bucket = fmt.Sprintf("%s %d %d", guessed.Name, s.now().Truncate(24*time.Hour).Unix(), u.ID)
		s.audit.Record(ctx, guessed)
	}
	return err
}

// refund refunds an attempt and returns the state of its limit. Where that fails it returns d, and the attempt may
// count until its window ends.
func (s *Service) refund(ctx context.Context, limiter *ratelimit.Limiter, d ratelimit.Decision) ratelimit.Decision {
	refunded, err := limiter.Refund(ctx, d)
	if err != nil {
		s.log.ErrorContext(ctx, "refund attempt failed", "error", err)
		return d
	}
	return refunded
}

// useCode checks a code of a user and uses it up. factor.ErrInvalidCode, user.ErrNotFound,
// factor.ErrNotConfigured, factor.ErrSealed. It returns how many recovery codes are left.
func (s *Service) useCode(ctx context.Context, u user.User, typed string) (session.Factor, int, error) {
	if utf8.RuneCountInString(typed) > maxCode {
		return "", 0, factor.ErrInvalidCode
	}
	code := factor.CleanCode(typed)
	if !factor.IsTOTP(code) {
		left, err := s.factors.UseRecovery(ctx, u.ID, factor.RecoveryHash(code))
		return session.PasswordWithRecovery, left, err
	}
	state, err := s.factors.Factors(ctx, u.ID)
	if err != nil {
		return "", 0, err
	}
	if !state.Confirmed {
		return "", 0, factor.ErrInvalidCode
	}
	secret, _, err := s.sealer.Open(u.ID, state.Sealed)
	if err != nil {
		return "", 0, fmt.Errorf("open TOTP secret: %w", err)
	}
	step, err := factor.MatchTOTP(secret, code, state.LastStep, s.now())
	if err == nil {
		err = s.factors.UseTOTP(ctx, u.ID, state.Sealed, step)
	}
	return session.PasswordWithTOTP, state.Recovery, err
}

// maxCode is how long a typed code may be, in code points.
const maxCode = 64

// finishLogin turns a pending login into a session once prove has shown that the user has
// a second factor, and used up what it showed. It counts a try. It ends the sessions that the requests of both steps
// came with: a user may have logged in between, in another tab. ErrNoPendingLogin, and the errors of prove.
func (s *Service) finishLogin(
	ctx context.Context, ref session.Ref, c Credentials,
	prove func(context.Context, user.User) (session.Factor, error),
) (LoggedIn, error) {
	p, err := s.pendings.LoadPending(ctx, ref)
	if err != nil {
		return LoggedIn{}, noPending(err)
	}
	fence, err := s.sessions.Fence(ctx, ref.UserID)
	if err != nil {
		return LoggedIn{}, fmt.Errorf("fence login: %w", err)
	}
	u, err := s.users.ByID(ctx, ref.UserID)
	if err != nil && !errors.Is(err, user.ErrNotFound) {
		return LoggedIn{}, err
	}
	if err != nil || !u.SecondFactor || fingerprint(u) != p.Fingerprint || u.Closed(s.now()) {
		return LoggedIn{}, errors.Join(ErrNoPendingLogin, s.pendings.DeletePending(ctx, ref))
	}
	proved, err := prove(ctx, u)
	if err != nil {
		if p.Tries >= session.MaxTries {
			err = errors.Join(err, s.pendings.DeletePending(ctx, ref))
		}
		return LoggedIn{}, err
	}
	ctx = context.WithoutCancel(ctx) // what was proved is used up
	created, id := session.New(u.ID, p.UserAgent, s.now())
	created.Username, created.Role, created.Stamp, created.Factor, created.IP = u.Username, string(u.Role),
		u.SessionStamp, proved, p.IP
	created.Device = p.Device
	err = s.pendings.FinishPending(ctx, ref, created, fence, s.lifetimes)
	if err != nil {
		return LoggedIn{}, noPending(err)
	}
	for _, replaced := range []session.Ref{p.Replaces, c.Replaces} {
		if replaced == (session.Ref{}) {
			continue
		}
		if err := s.endReplaced(ctx, replaced); err != nil {
			return LoggedIn{}, errors.Join(fmt.Errorf("end the replaced session: %w", err),
				s.sessions.Delete(ctx, created.Ref))
		}
	}
	in := LoggedIn{User: u, Session: created, SessionID: id}
	s.finished(ctx, in, c.Browser)
	return in, nil
}

// finished does what follows from every finished login: the browser is remembered, and the login is recorded. A
// browser without a cookie is known by its label only.
func (s *Service) finished(ctx context.Context, in LoggedIn, browser string) {
	s.recordLogin(ctx, in, nil)
	id, label, second := in.User.ID, session.AgentOf(in.Session.UserAgent), in.Session.Factor.Second()
	hash := session.HashOf("label " + label)
	if browser != "" {
		hash = session.HashOf(browser)
	}
	s.audit.Later(audit.With(ctx, actorOf(ctx, in)), func(ctx context.Context) {
		if err := s.browsers.SeeBrowser(ctx, id, hash, label, second); err != nil && !errors.Is(err, user.ErrNotFound) {
			s.log.WarnContext(ctx, "remember browser failed", "user_id", id, "error", err)
		}
	})
}
