package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// ErrPasskeyName is returned for a name of a passkey that is too long, has control characters or is not UTF-8.
var ErrPasskeyName = errors.New("passkey's name is too long or has control characters")

// What a ceremony's answer may be used for.
const (
	toLogin    = "login"    // instead of a password
	toFinish   = "second"   // as the second step of a login
	toRegister = "register" // as a new passkey
	toReauth   = "reauth"   // by a user with a session
	toJoin     = "join"     // as the passkey of a new user
)

// PasskeyCeremony is a WebAuthn ceremony that was begun.
type PasskeyCeremony struct {
	Options json.RawMessage // {"publicKey": …} for the browser
	ID      string          // for the ceremony cookie
}

// PasskeyAnswer is a browser's answer to a ceremony.
type PasskeyAnswer struct {
	CeremonyID string          // of the cookie; empty: it had none
	Credential json.RawMessage // the PublicKeyCredential
}

// PasskeyInfo is a passkey as its user sees it. Synced and Foreign are false while passkeys are off.
type PasskeyInfo struct {
	factor.Passkey
	// Synced reports that copies of it are, or may be, on other devices.
	Synced bool
	// Foreign reports that it belongs to another RP ID, so that no browser finds it here.
	Foreign bool
}

// Passkeys are the rules of passkeys, over the state of a Service.
type Passkeys struct{ s *Service }

// Off returns why this server has no passkeys: an error that wraps factor.ErrPasskeysUnavailable, such as
// factor.ErrNoPublicURL; nil: it has them.
func (k *Passkeys) Off() error { return k.s.passkeysOff }

// LoginOptions begins a login by passkey. factor.ErrPasskeysUnavailable.
func (k *Passkeys) LoginOptions(ctx context.Context) (PasskeyCeremony, error) {
	if k.s.passkeysOff != nil {
		return PasskeyCeremony{}, k.s.passkeysOff
	}
	options, state, err := k.s.party.BeginLogin()
	return k.begin(ctx, session.Ceremony{Purpose: toLogin, Data: state}, options, err)
}

// Login creates a session for the user of the passkey that answered, which is both factors at once. Username and
// Password of the credentials are not read. factor.ErrPasskeyFailed, whatever is wrong with the answer, with the
// user's ID and Username where they are known; ErrClosed; factor.ErrPasskeysUnavailable.
//
// The ceremony is taken and the counter stored before the session is created, so that an
// answer counts once. A passkey that was removed meanwhile is refused.
func (k *Passkeys) Login(ctx context.Context, answer PasskeyAnswer, c Credentials) (LoggedIn, error) {
	in, err := k.login(ctx, answer, c)
	switch {
	case err == nil:
		k.s.finished(ctx, in, c.Browser)
	case errors.Is(err, ErrClosed):
		k.s.recordLogin(ctx, in, err)
	default:
		k.recordFailed(ctx, in.User, err)
	}
	return in, err
}

func (k *Passkeys) login(ctx context.Context, answer PasskeyAnswer, c Credentials) (LoggedIn, error) {
	begun, err := k.take(ctx, answer, session.Ceremony{Purpose: toLogin})
	if err != nil {
		return LoggedIn{}, err
	}
	var u user.User
	used, err := k.s.party.FinishLogin(func(handle []byte) (factor.PasskeyUser, error) {
		id, err := k.s.passkeys.HandleOwner(ctx, handle)
		if err != nil {
			return factor.PasskeyUser{}, err
		}
		if u, err = k.s.users.ByID(ctx, id); errors.Is(err, user.ErrNotFound) {
			return factor.PasskeyUser{}, factor.ErrNoPasskey
		} else if err != nil {
			return factor.PasskeyUser{}, err
		}
		return k.user(ctx, u, handle)
	}, begun.Data, answer.Credential)
	if err == nil {
		err = k.use(ctx, used)
	}
	if err != nil {
		return failedLogin(u), err
	}
	for range loginTries {
		in, err := k.s.createSession(ctx, u, c, session.Passkey, func(ctx context.Context, _ user.User) error {
			// A reset of the factor may have moved the fence before it was taken.
			return k.checkExists(ctx, used.Passkey)
		})
		switch {
		case err == nil:
			return in, nil
		case errors.Is(err, ErrInvalidCredentials): // the user was deleted
			return failedLogin(u), factor.ErrPasskeyFailed
		case !errors.Is(err, session.ErrFenced):
			return failedLogin(u), err
		}
	}
	return failedLogin(u), factor.ErrPasskeyFailed
}

// SecondOptions begins the second step of a login by passkey. ErrNoPendingLogin; factor.ErrPasskeysUnavailable,
// factor.ErrNoPasskey; session.ErrNotFound when the user was deleted.
func (k *Passkeys) SecondOptions(ctx context.Context, ref session.Ref) (PasskeyCeremony, error) {
	if _, err := k.s.pendings.PeekPending(ctx, ref); err != nil {
		return PasskeyCeremony{}, noPending(err)
	}
	return k.beginVerify(ctx, session.Ceremony{Purpose: toFinish, UserID: ref.UserID, Owner: ref.Key})
}

// Second finishes a pending login by a passkey of its user. Of the credentials it reads Browser and Replaces.
// ErrNoPendingLogin, factor.ErrPasskeyFailed, factor.ErrPasskeysUnavailable; session.ErrNotFound when the user is
// deleted meanwhile.
func (k *Passkeys) Second(
	ctx context.Context, ref session.Ref, c Credentials, answer PasskeyAnswer,
) (LoggedIn, error) {
	var u user.User
	in, err := k.s.finishLogin(ctx, ref, c, func(ctx context.Context, of user.User) (session.Factor, error) {
		u = of
		return session.PasswordWithPasskey,
			k.verify(ctx, answer, session.Ceremony{Purpose: toFinish, UserID: ref.UserID, Owner: ref.Key})
	})
	if err != nil {
		k.recordFailed(ctx, u, err)
	}
	return in, err
}

// ReauthOptions begins a ceremony in which a session's user proves again who they are. factor.ErrPasskeysUnavailable,
// factor.ErrNoPasskey, session.ErrNotFound.
func (k *Passkeys) ReauthOptions(ctx context.Context, of session.Session) (PasskeyCeremony, error) {
	return k.beginVerify(ctx, session.Ceremony{Purpose: toReauth, UserID: of.UserID, Owner: of.Key})
}

// Reauth replaces a session by a fresh one with another id, once its user has answered by a passkey.
// factor.ErrPasskeyFailed, factor.ErrPasskeysUnavailable; session.ErrNotFound when it has ended meanwhile.
func (k *Passkeys) Reauth(ctx context.Context, of session.Session, answer PasskeyAnswer) (LoggedIn, error) {
	var u user.User
	key := of.Key
	in, err := k.s.reauthenticate(ctx, of, func(ctx context.Context, of user.User) (session.Factor, error) {
		u = of
		return session.Passkey, k.verify(ctx, answer, session.Ceremony{Purpose: toReauth, UserID: of.ID, Owner: key})
	})
	if err != nil {
		k.recordFailed(ctx, u, err)
	}
	return in, err
}

// RegisterOptions begins the registration of a passkey for a session's user.
// factor.ErrPasskeysUnavailable, factor.ErrTooManyPasskeys, session.ErrNotFound.
func (k *Passkeys) RegisterOptions(ctx context.Context, of session.Session) (PasskeyCeremony, error) {
	if k.s.passkeysOff != nil {
		return PasskeyCeremony{}, k.s.passkeysOff
	}
	known, err := k.with(ctx, of.UserID)
	if err != nil {
		return PasskeyCeremony{}, ended(err)
	}
	if len(known.Passkeys) >= factor.MaxPasskeys {
		return PasskeyCeremony{}, factor.ErrTooManyPasskeys
	}
	household, err := k.s.Household(ctx)
	if err != nil {
		return PasskeyCeremony{}, err
	}
	options, state, err := k.s.party.BeginRegister(household.Name, known)
	return k.begin(ctx, session.Ceremony{Purpose: toRegister, UserID: of.UserID, Owner: of.Key, Data: state}, options,
		err)
}

// Register stores a new passkey of a session's user. ErrMissing, ErrPasskeyName; factor.ErrPasskeyFailed,
// factor.ErrPasskeysUnavailable, factor.ErrPasskeyExists, factor.ErrTooManyPasskeys; session.ErrNotFound when the
// session has ended meanwhile.
func (k *Passkeys) Register(
	ctx context.Context, of session.Session, name string, answer PasskeyAnswer,
) (PasskeyInfo, error) {
	name, err := cleanPasskeyName(name)
	if err != nil {
		return PasskeyInfo{}, err
	}
	begun, err := k.take(ctx, answer, session.Ceremony{Purpose: toRegister, UserID: of.UserID, Owner: of.Key})
	if err != nil {
		return PasskeyInfo{}, err
	}
	known, err := k.with(ctx, of.UserID)
	if err != nil {
		return PasskeyInfo{}, ended(err)
	}
	created, err := k.s.party.FinishRegister(known, begun.Data, answer.Credential)
	if err != nil {
		return PasskeyInfo{}, err
	}
	if _, err := k.s.sessions.Load(ctx, of.Ref, session.Lifetimes{}); err != nil {
		return PasskeyInfo{}, err
	}
	added, err := k.s.passkeys.AddPasskey(ctx, of.UserID, name, created, of.Stamp, of.Key)
	if err != nil {
		return PasskeyInfo{}, ended(err)
	}
	return k.info(added), nil
}

// Newcomer is a person who has a link and no user yet.
type Newcomer struct {
	Link                  string // hash of its token
	Household             string // its name, where they set it up; empty: the stored one
	Username, DisplayName string
}

// newcomer is what a ceremony keeps of a Newcomer.
type newcomer struct {
	Newcomer
	Handle, State []byte
}

func (n newcomer) user() factor.PasskeyUser {
	return factor.PasskeyUser{Handle: n.Handle, Name: n.Username, DisplayName: n.DisplayName}
}

// NewcomerOptions begins the registration of the passkey of a person without a user. factor.ErrPasskeysUnavailable.
func (k *Passkeys) NewcomerOptions(ctx context.Context, who Newcomer) (PasskeyCeremony, error) {
	if k.s.passkeysOff != nil {
		return PasskeyCeremony{}, k.s.passkeysOff
	}
	household, err := k.s.Household(ctx)
	if err != nil {
		return PasskeyCeremony{}, err
	}
	n := newcomer{Newcomer: who, Handle: make([]byte, factor.HandleBytes)}
	_, _ = rand.Read(n.Handle)
	options, state, err := k.s.party.BeginRegister(cmp.Or(who.Household, household.Name), n.user())
	if err != nil {
		return PasskeyCeremony{}, err
	}
	n.State = state
	kept, err := json.Marshal(n)
	return k.begin(ctx, session.Ceremony{Purpose: toJoin, Owner: who.Link, Data: kept}, options, err)
}

// Newcomer returns the person whose ceremony was begun for a link, by the hash of its token, and the passkey that
// answered, which is named after the browser of the User-Agent, if that is known. factor.ErrPasskeyFailed,
// factor.ErrPasskeysUnavailable.
func (k *Passkeys) Newcomer(
	ctx context.Context, link string, answer PasskeyAnswer, userAgent string,
) (Newcomer, factor.FirstPasskey, error) {
	begun, err := k.take(ctx, answer, session.Ceremony{Purpose: toJoin, Owner: link})
	if err != nil {
		return Newcomer{}, factor.FirstPasskey{}, err
	}
	var n newcomer
	if err := json.Unmarshal(begun.Data, &n); err != nil {
		return Newcomer{}, factor.FirstPasskey{}, fmt.Errorf("decode state of ceremony: %w", err)
	}
	created, err := k.s.party.FinishRegister(n.user(), n.State, answer.Credential)
	return n.Newcomer, factor.FirstPasskey{
		Credential: created, Handle: n.Handle, Name: cmp.Or(session.AgentOf(userAgent), "Passkey"),
	}, err
}

// LoginNewcomer creates the session of a user who has just been created with a passkey. ErrInvalidCredentials when they
// are deleted already; ErrClosed; session.ErrFenced.
func (k *Passkeys) LoginNewcomer(ctx context.Context, u user.User, c Credentials) (LoggedIn, error) {
	in, err := k.s.createSession(ctx, u, c, session.Passkey, func(context.Context, user.User) error { return nil })
	if err == nil {
		k.s.finished(ctx, in, c.Browser)
	}
	return in, err
}

// ended maps user.ErrNotFound to session.ErrNotFound: a user who was deleted has no session any more.
func ended(err error) error {
	if errors.Is(err, user.ErrNotFound) {
		return session.ErrNotFound
	}
	return err
}

// List returns the passkeys of a user, the oldest first.
func (k *Passkeys) List(ctx context.Context, userID int64) ([]PasskeyInfo, error) {
	list, err := k.s.passkeys.Passkeys(ctx, userID)
	if err != nil {
		return nil, err
	}
	infos := make([]PasskeyInfo, len(list))
	for i, p := range list {
		infos[i] = k.info(p)
	}
	return infos, nil
}

// Rename names a passkey of a session's user. ErrMissing, ErrPasskeyName;
// factor.ErrNoPasskey.
func (k *Passkeys) Rename(ctx context.Context, of session.Session, id int64, name string) (PasskeyInfo, error) {
	name, err := cleanPasskeyName(name)
	if err != nil {
		return PasskeyInfo{}, err
	}
	renamed, err := k.s.passkeys.RenamePasskey(ctx, of.UserID, id, name)
	if err != nil {
		return PasskeyInfo{}, err
	}
	return k.info(renamed), nil
}

// Remove deletes a passkey of a session's user. Sessions that it began stay. factor.ErrNoPasskey; factor.ErrRequired
// when it is the last second factor that works here and the household requires one; factor.ErrLastPasskey when they
// have no password and no other passkey of its RP ID; session.ErrNotFound when the session has ended meanwhile.
func (k *Passkeys) Remove(ctx context.Context, of session.Session, id int64) error {
	here := ""
	if k.s.passkeysOff == nil {
		here = k.s.party.ID()
	}
	return ended(k.s.passkeys.RemovePasskey(ctx, of.UserID, id, here, of.Stamp, of.Key))
}

// Foreign counts the passkeys of each of at most 20 other RP IDs, which do not work here. It is empty while passkeys
// are off.
func (k *Passkeys) Foreign(ctx context.Context) (map[string]int, error) {
	if k.s.passkeysOff != nil {
		return nil, nil
	}
	return k.s.passkeys.ForeignPasskeys(ctx, k.s.party.ID())
}

// passkeyWorks reports whether a user has a passkey that can be used here: this server has
// passkeys, and one of theirs belongs to its address.
func (s *Service) passkeyWorks(ctx context.Context, userID int64, state factor.State) (bool, error) {
	if s.passkeysOff != nil || state.Passkeys == 0 {
		return false, nil
	}
	list, err := s.passkeys.Passkeys(ctx, userID)
	return slices.ContainsFunc(list, func(p factor.Passkey) bool { return p.RPID == s.party.ID() }), err
}

func (k *Passkeys) info(p factor.Passkey) PasskeyInfo {
	if k.s.passkeysOff != nil {
		return PasskeyInfo{Passkey: p}
	}
	return PasskeyInfo{Passkey: p, Synced: k.s.party.Synced(p), Foreign: p.RPID != k.s.party.ID()}
}

func cleanPasskeyName(name string) (string, error) {
	name = strings.TrimSpace(name)
	switch {
	case name == "":
		return "", ErrMissing
	case utf8.RuneCountInString(name) > factor.MaxPasskeyName, strings.ContainsFunc(name, unicode.IsControl),
		!utf8.ValidString(name):
		return "", ErrPasskeyName
	}
	return name, nil
}

// with returns a user with their passkeys. user.ErrNotFound.
func (k *Passkeys) with(ctx context.Context, id int64) (factor.PasskeyUser, error) {
	u, err := k.s.users.ByID(ctx, id)
	if err != nil {
		return factor.PasskeyUser{}, err
	}
	handle, err := k.s.passkeys.PasskeyHandle(ctx, id)
	if err != nil {
		return factor.PasskeyUser{}, err
	}
	return k.user(ctx, u, handle)
}

func (k *Passkeys) user(ctx context.Context, u user.User, handle []byte) (factor.PasskeyUser, error) {
	list, err := k.s.passkeys.Passkeys(ctx, u.ID)
	return factor.PasskeyUser{Handle: handle, Name: u.Username, DisplayName: u.DisplayName, Passkeys: list}, err
}

// beginVerify begins a ceremony for a passkey of one user.
func (k *Passkeys) beginVerify(ctx context.Context, c session.Ceremony) (PasskeyCeremony, error) {
	if k.s.passkeysOff != nil {
		return PasskeyCeremony{}, k.s.passkeysOff
	}
	known, err := k.with(ctx, c.UserID)
	if err != nil {
		return PasskeyCeremony{}, ended(err)
	}
	options, state, err := k.s.party.BeginVerify(known)
	c.Data = state
	return k.begin(ctx, c, options, err)
}

// verify uses up the ceremony and the answer of a passkey of one user. factor.ErrPasskeyFailed unless the answer
// counts; factor.ErrPasskeysUnavailable; session.ErrNotFound when the user was deleted.
func (k *Passkeys) verify(ctx context.Context, answer PasskeyAnswer, want session.Ceremony) error {
	begun, err := k.take(ctx, answer, want)
	if err != nil {
		return err
	}
	known, err := k.with(ctx, want.UserID)
	if err != nil {
		return ended(err)
	}
	used, err := k.s.party.FinishVerify(known, begun.Data, answer.Credential)
	if err != nil {
		return err
	}
	return k.use(ctx, used)
}

func (k *Passkeys) use(ctx context.Context, used factor.Assertion) error {
	err := k.s.passkeys.UsePasskey(ctx, used)
	if errors.Is(err, factor.ErrNoPasskey) {
		return factor.ErrPasskeyFailed
	}
	return err
}

// checkExists returns factor.ErrPasskeyFailed when a passkey was removed.
func (k *Passkeys) checkExists(ctx context.Context, p factor.Passkey) error {
	list, err := k.s.passkeys.Passkeys(ctx, p.UserID)
	if err == nil && !slices.ContainsFunc(list, func(other factor.Passkey) bool { return other.ID == p.ID }) {
		err = factor.ErrPasskeyFailed
	}
	return err
}

func (k *Passkeys) begin(
	ctx context.Context, c session.Ceremony, options json.RawMessage, err error,
) (PasskeyCeremony, error) {
	if err != nil {
		return PasskeyCeremony{}, err
	}
	id, err := k.s.ceremonies.PutCeremony(ctx, c)
	if err != nil {
		return PasskeyCeremony{}, fmt.Errorf("keep ceremony: %w", err)
	}
	return PasskeyCeremony{Options: options, ID: id}, nil
}

// take forgets the ceremony of an answer, which therefore counts once, right or
// wrong, and returns it if it was begun for want, whose Data is not read.
// factor.ErrPasskeyFailed, factor.ErrPasskeysUnavailable.
func (k *Passkeys) take(ctx context.Context, answer PasskeyAnswer, want session.Ceremony) (session.Ceremony, error) {
	if k.s.passkeysOff != nil {
		return session.Ceremony{}, k.s.passkeysOff
	}
	if answer.CeremonyID == "" {
		return session.Ceremony{}, fmt.Errorf("%w: no ceremony", factor.ErrPasskeyFailed)
	}
	begun, err := k.s.ceremonies.TakeCeremony(ctx, answer.CeremonyID)
	if errors.Is(err, session.ErrNotFound) {
		return session.Ceremony{}, fmt.Errorf("%w: unknown ceremony", factor.ErrPasskeyFailed)
	}
	if err != nil {
		return session.Ceremony{}, fmt.Errorf("take ceremony: %w", err)
	}
	if begun.Purpose != want.Purpose || begun.UserID != want.UserID || begun.Owner != want.Owner {
		return session.Ceremony{}, fmt.Errorf("%w: ceremony of another purpose", factor.ErrPasskeyFailed)
	}
	return begun, nil
}

// recordFailed records an answer that was refused. A counter that did not advance
// has a row of its own already.
func (k *Passkeys) recordFailed(ctx context.Context, u user.User, err error) {
	if errors.Is(err, factor.ErrPasskeyFailed) && !errors.Is(err, factor.ErrPasskeyCloned) {
		k.s.log.InfoContext(ctx, "passkey refused", "user_id", u.ID, "error", err)
		k.s.audit.RecordCounted(ctx, about("passkey_failed", u))
	}
}
