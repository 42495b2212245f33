package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Factors keeps the second factors of users but for passkeys. Every method is one transaction. All that change
// something but SetupTOTP, UseTOTP and Reseal write an audit row in it. Methods that name a user or a session
// return user.ErrNotFound, but for UseTOTP, UseRecovery, RequireFactor and Reseal; those that name a session
// session.ErrNotFound where it has been revoked (user.User.Admits). Hashes of recovery codes are factor.RecoveryHash.
type Factors interface {
	Factors(ctx context.Context, id int64) (factor.State, error)
	// SetupTOTP stores a sealed secret that is not confirmed yet, instead of an earlier
	// one. factor.ErrAlreadyEnabled when one is confirmed.
	SetupTOTP(ctx context.Context, id int64, sealed []byte) error
	// EnableTOTP confirms the secret whose sealed form is pending, which a code of step has fitted: it stores the
	// form sealed in its place, uses the step up, makes the secret a second factor with new recovery codes, and
	// revokes the user's other sessions. factor.ErrNoPendingSetup, factor.ErrAlreadyEnabled.
	EnableTOTP(ctx context.Context, of session.Session, pending, sealed []byte, step int64, recovery []string,
	) (user.Revocation, error)
	// EnableByPasskey makes the user's passkeys their second factor, with new recovery codes, and
	// revokes the user's other sessions. factor.ErrNoPasskey, factor.ErrAlreadyEnabled.
	EnableByPasskey(ctx context.Context, of session.Session, recovery []string) (user.Revocation, error)
	// UseTOTP uses up the code of a step that was checked with the stored secret sealed; of any number of
	// concurrent calls one succeeds, and afterwards none for that step or an earlier one. factor.ErrInvalidCode.
	UseTOTP(ctx context.Context, id int64, sealed []byte, step int64) error
	// UseRecovery uses a recovery code up, once, and returns how many are left.
	// factor.ErrInvalidCode.
	UseRecovery(ctx context.Context, id int64, hash string) (left int, err error)
	// ReplaceRecovery voids all recovery codes for new ones. factor.ErrNotEnabled.
	ReplaceRecovery(ctx context.Context, of session.Session, hashes []string) error
	// DisableFactor removes TOTP and recovery codes; a password alone logs in again.
	// factor.ErrNotEnabled, factor.ErrRequired.
	DisableFactor(ctx context.Context, of session.Session) error
	// ResetFactor removes TOTP, recovery codes and passkeys and revokes all sessions. by
	// is a session of an admin (user.ErrNotAdmin), or user.Operator's, the zero Session.
	ResetFactor(ctx context.Context, id int64, by session.Session) (user.Revocation, error)
	// RequireFactor sets whether the household requires a second factor; by as in ResetFactor.
	RequireFactor(ctx context.Context, required bool, by session.Session) error

	// SealedSecrets returns all TOTP secrets, sealed. Reseal replaces one that is still old by
	// sealed.
	SealedSecrets(ctx context.Context) ([]factor.Sealed, error)
	Reseal(ctx context.Context, id int64, old, sealed []byte) error
}

// Browsers keeps the browsers that users have logged in with. Every method is one transaction.
type Browsers interface {
	// SeeBrowser records that a user has logged in with a browser, and whether by a second factor. A new one is
	// recorded in the audit if others are known. At most factor.MaxBrowsers are known. user.ErrNotFound.
	SeeBrowser(ctx context.Context, id int64, hash, label string, second bool) error
	// KnowsBrowser reports whether a user has logged in with a browser by more than a password, since their
	// second factor was last turned off. A password alone makes no browser known here, so that whoever knows it cannot
	// have many known browsers.
	KnowsBrowser(ctx context.Context, id int64, hash string) (bool, error)
	// Browsers returns the known browsers, the one used last first.
	Browsers(ctx context.Context, id int64) ([]factor.Browser, error)
	// ForgetBrowser removes a known browser. An unknown one is not an error.
	ForgetBrowser(ctx context.Context, id int64, hash string) error
}

// FactorState is the state of a user's second factor, for themselves.
type FactorState struct {
	factor.State
	// Required: the household requires a second factor.
	Required bool
	// Configured: TOTP is possible on this server.
	Configured bool
	// PasskeyWorks: a passkey of the user can be used here.
	PasskeyWorks bool
	// Password: the user has one.
	Password bool
}

// SecondFactor are the rules by which a second factor is set up and ended, over the state of a Service.
type SecondFactor struct{ s *Service }

// State returns the state of the second factor of a session's user.
func (f *SecondFactor) State(ctx context.Context, of session.Session) (FactorState, error) {
	state, err := f.s.factors.Factors(ctx, of.UserID)
	if err != nil {
		return FactorState{}, err
	}
	works, err := f.s.passkeyWorks(ctx, of.UserID, state)
	if err != nil {
		return FactorState{}, err
	}
	household, err := f.s.users.Household(ctx)
	if err != nil {
		return FactorState{}, err
	}
	u, err := f.s.users.ByID(ctx, of.UserID)
	return FactorState{
		State: state, Required: household.RequireSecondFactor, Configured: f.s.sealer != nil, PasskeyWorks: works,
		Password: u.HasPassword(),
	}, err
}

// TOTPSetup is a TOTP secret to show.
type TOTPSetup struct {
	Secret string // base32
	URI    string // for a QR code
}

// SetupTOTP begins the set-up of TOTP for a session's user: a new secret, which counts once EnableTOTP has confirmed it
// in the same session. Otherwise a thief of a session could have the user confirm a secret that the thief knows, long
// after the session has ended. factor.ErrAlreadyEnabled, factor.ErrNotConfigured, user.ErrNotFound.
func (f *SecondFactor) SetupTOTP(ctx context.Context, of session.Session) (TOTPSetup, error) {
	household, err := f.s.Household(ctx)
	if err != nil {
		return TOTPSetup{}, err
	}
	secret := factor.NewSecret()
	pending, err := f.s.sealer.Seal(of.UserID, slices.Concat(secret, []byte(of.Key)))
	if err != nil {
		return TOTPSetup{}, err
	}
	if err := f.s.factors.SetupTOTP(ctx, of.UserID, pending); err != nil {
		return TOTPSetup{}, err
	}
	return TOTPSetup{Secret: factor.SecretText(secret), URI: factor.URI(household.Name, of.Username, secret)}, nil
}

// PendingTOTP returns the set-up that SetupTOTP began in this session, to show it again. factor.ErrNoPendingSetup,
// factor.ErrAlreadyEnabled, factor.ErrNotConfigured, user.ErrNotFound.
func (f *SecondFactor) PendingTOTP(ctx context.Context, of session.Session) (TOTPSetup, error) {
	_, secret, err := f.pendingSecret(ctx, of)
	if err != nil {
		return TOTPSetup{}, err
	}
	household, err := f.s.Household(ctx)
	return TOTPSetup{Secret: factor.SecretText(secret), URI: factor.URI(household.Name, of.Username, secret)}, err
}

// pendingSecret returns the secret that SetupTOTP stored for this session.
func (f *SecondFactor) pendingSecret(ctx context.Context, of session.Session) (factor.State, []byte, error) {
	state, err := f.s.factors.Factors(ctx, of.UserID)
	switch {
	case err != nil:
		return factor.State{}, nil, err
	case state.Confirmed:
		return factor.State{}, nil, factor.ErrAlreadyEnabled
	case !state.Pending():
		return factor.State{}, nil, factor.ErrNoPendingSetup
	}
	opened, _, err := f.s.sealer.Open(of.UserID, state.Sealed)
	if err != nil && !errors.Is(err, factor.ErrSealed) { // another DATA_KEY: the set-up begins again
		return factor.State{}, nil, fmt.Errorf("open TOTP secret: %w", err)
	}
	secret, own := bytes.CutSuffix(opened, []byte(of.Key))
	if !own {
		return factor.State{}, nil, factor.ErrNoPendingSetup
	}
	return state, secret, nil
}

// EnableTOTP confirms the set-up with a code and returns new recovery codes, of which only hashes are stored.
// From now on the password alone does not log in; the user's other sessions end.
// factor.ErrNoPendingSetup, factor.ErrAlreadyEnabled, factor.ErrNotConfigured; ErrWrongCode,
// perhaps in a SkewError; ratelimit.LimitedError with ErrTooManyCodes; ErrPending, with the codes;
// session.ErrNotFound when the session has ended, user.ErrNotFound when the user was deleted.
func (f *SecondFactor) EnableTOTP(ctx context.Context, of session.Session, typed string) (codes []string, err error) {
	state, secret, err := f.pendingSecret(ctx, of)
	if err != nil {
		return nil, err
	}
	err = f.s.limitedCode(ctx, user.User{ID: of.UserID}, bucket(of.UserID, "session"), "totp", func() error {
		code := factor.CleanCode(typed)
		step, err := factor.MatchTOTP(secret, code, state.LastStep, f.s.now())
		if err != nil {
			if ahead, ok := factor.SkewOf(secret, code, f.s.now()); ok {
				return &SkewError{Ahead: ahead}
			}
			return ErrWrongCode
		}
		sealed, err := f.s.sealer.Seal(of.UserID, secret)
		if err != nil {
			return err
		}
		codes, err = f.enable(ctx, func(hashes []string) (user.Revocation, error) {
			return f.s.factors.EnableTOTP(ctx, of, state.Sealed, sealed, step, hashes)
		})
		return err
	})
	return codes, err
}

// EnableByPasskey makes the passkeys of a session's user their second factor. As EnableTOTP, it
// returns new recovery codes and ends the user's other sessions.
// factor.ErrPasskeysUnavailable; factor.ErrNoPasskey, also where theirs belong to another
// address; factor.ErrAlreadyEnabled; ErrPending, with the codes; session.ErrNotFound when the session
// has ended, user.ErrNotFound when the user was deleted.
func (f *SecondFactor) EnableByPasskey(ctx context.Context, of session.Session) (codes []string, err error) {
	state, err := f.State(ctx, of)
	switch {
	case err != nil:
		return nil, err
	case f.s.passkeysOff != nil:
		return nil, f.s.passkeysOff
	case !state.PasskeyWorks && !state.Enabled:
		return nil, factor.ErrNoPasskey
	}
	return f.enable(ctx, func(hashes []string) (user.Revocation, error) {
		return f.s.factors.EnableByPasskey(ctx, of, hashes)
	})
}

func (f *SecondFactor) enable(
	ctx context.Context, do func(hashes []string) (user.Revocation, error),
) ([]string, error) {
	codes, hashes := factor.NewRecoveryCodes()
	r, err := do(hashes)
	if err != nil {
		return nil, ended(err)
	}
	_, err = f.s.Follow(ctx, r, nil)
	return codes, err
}

// Disable removes the second factor of a session's user, who proves to have it by a code, or without a code by a
// passkey that they used within FreshFor. Passkeys stay. factor.ErrNotEnabled, factor.ErrRequired; ErrWrongCode,
// ratelimit.LimitedError with ErrTooManyCodes; factor.ErrNotConfigured, factor.ErrSealed; session.ErrNotFound when the
// session has ended, user.ErrNotFound when the user was deleted.
func (f *SecondFactor) Disable(ctx context.Context, of session.Session, typed string) error {
	state, err := f.State(ctx, of)
	switch {
	case err != nil:
		return err
	case !state.Enabled:
		return factor.ErrNotEnabled
	case state.Required:
		return factor.ErrRequired
	}
	if err := f.prove(ctx, of, typed); err != nil {
		return err
	}
	return ended(f.s.factors.DisableFactor(ctx, of))
}

// NewRecoveryCodes returns a new set of recovery codes for a session's user, who proves as for Disable to have the
// second factor; the old ones are void. Errors are those of Disable but factor.ErrRequired.
func (f *SecondFactor) NewRecoveryCodes(ctx context.Context, of session.Session, typed string) ([]string, error) {
	state, err := f.s.factors.Factors(ctx, of.UserID)
	if err != nil {
		return nil, err
	}
	if !state.Enabled {
		return nil, factor.ErrNotEnabled
	}
	if err := f.prove(ctx, of, typed); err != nil {
		return nil, err
	}
	codes, hashes := factor.NewRecoveryCodes()
	return codes, ended(f.s.factors.ReplaceRecovery(ctx, of, hashes))
}

// prove uses a code of a session's user up, or takes the passkey that they used within FreshFor. ErrWrongCode,
// ratelimit.LimitedError with ErrTooManyCodes, factor.ErrNotConfigured, factor.ErrSealed, user.ErrNotFound.
func (f *SecondFactor) prove(ctx context.Context, of session.Session, typed string) error {
	byPasskey := of.Factor == session.Passkey || of.Factor == session.PasswordWithPasskey
	if typed == "" && byPasskey && f.s.provedWithin(of, FreshFor) {
		return nil
	}
	return f.s.limitedCode(ctx, user.User{ID: of.UserID}, bucket(of.UserID, "session"), methodOf(typed), func() error {
		_, _, err := f.s.useCode(ctx, user.User{ID: of.UserID}, typed)
		if errors.Is(err, factor.ErrInvalidCode) {
			return ErrWrongCode
		}
		return err
	})
}

// Reset removes all second factors and passkeys of a user on behalf of the admin of a
// session, and ends all their sessions. ErrUseOwnPage, user.ErrNotFound, user.ErrNotAdmin,
// ErrPending; session.ErrNotFound when the admin's session has ended meanwhile.
func (f *SecondFactor) Reset(ctx context.Context, by session.Session, id int64) error {
	if by.UserID == id {
		return ErrUseOwnPage
	}
	r, err := f.s.factors.ResetFactor(ctx, id, by)
	_, err = f.s.Follow(ctx, r, err)
	return err
}

// ResetOf is Reset for the operator, who names users by username.
func (f *SecondFactor) ResetOf(ctx context.Context, username string) error {
	_, err := f.s.change(ctx, username, func(id int64) (user.Revocation, error) {
		return f.s.factors.ResetFactor(ctx, id, session.Session{})
	})
	return err
}

// Require sets, on behalf of the admin of a session, whether the household requires a
// second factor. It ends no session and refuses no login. user.ErrNotAdmin,
// session.ErrNotFound.
func (f *SecondFactor) Require(ctx context.Context, by session.Session, required bool) error {
	return f.s.factors.RequireFactor(ctx, required, by)
}

// Reseal seals the TOTP secrets that were sealed with the previous key with the current
// one, and logs those that no key opens. Without a key it logs how many there are.
func (f *SecondFactor) Reseal(ctx context.Context) error {
	all, err := f.s.factors.SealedSecrets(ctx)
	if err != nil {
		return err
	}
	if f.s.sealer == nil && len(all) > 0 {
		f.s.log.WarnContext(ctx, "DATA_KEY is not set: users with TOTP need a recovery code or a passkey to log in",
			"users", len(all))
		return nil
	}
	for _, sealed := range all {
		secret, old, err := f.s.sealer.Open(sealed.UserID, sealed.Secret)
		if err != nil {
			f.s.log.WarnContext(ctx, "TOTP secret cannot be opened", "user_id", sealed.UserID, "error", err)
			continue
		}
		if !old {
			continue
		}
		renewed, err := f.s.sealer.Seal(sealed.UserID, secret)
		if err == nil {
			err = f.s.factors.Reseal(ctx, sealed.UserID, sealed.Secret, renewed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
