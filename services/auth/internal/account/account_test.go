package account_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/app/apptest"
	"github.com/pforte/pforte/services/auth/internal/factor/passkey"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

const (
	oldPass = "the old password"
	newPass = "the new password"
)

// rules is a Service whose stores call hooks of the tests.
type rules struct {
	*account.Service
	t        *testing.T
	people   *people.Service
	policy   *policy.Service
	tokens   *hookedTokens
	users    *hookedUsers
	sessions *hookedSessions
	pendings *hookedPendings
	hasher   *password.Hasher
}

type hookedUsers struct {
	*sqlstore.Users
	// beforeByID is called once, before the next ByID.
	beforeByID func()
	// beforeSet is called once, before the next SetPasswordHash.
	beforeSet func()
	// full makes RevocationDone fail, as a full disk does. tried counts its calls.
	full  atomic.Bool
	tried atomic.Int64
}

func (h *hookedUsers) RevocationDone(ctx context.Context, id int64) error {
	h.tried.Add(1)
	if h.full.Load() {
		return errors.New("disk is full")
	}
	return h.Users.RevocationDone(ctx, id)
}

func (h *hookedUsers) ByID(ctx context.Context, id int64) (user.User, error) {
	if hook := h.beforeByID; hook != nil {
		h.beforeByID = nil
		hook()
	}
	return h.Users.ByID(ctx, id)
}

func (h *hookedUsers) SetPasswordHash(
	ctx context.Context, of session.Session, old, replacement string,
) (user.Revocation, error) {
	if hook := h.beforeSet; hook != nil {
		h.beforeSet = nil
		hook()
	}
	return h.Users.SetPasswordHash(ctx, of, old, replacement)
}

// ByUsername reads also when the client's time is up: what is tested is the password.
func (h *hookedUsers) ByUsername(ctx context.Context, name string) (user.User, error) {
	return h.Users.ByUsername(context.WithoutCancel(ctx), name)
}

type hookedSessions struct {
	session.Store
	// beforeFence is called once, before the next Fence.
	beforeFence func()
	// create and remove make Create and Delete fail with what they return.
	create func() error
	remove func(session.Ref) error
	// away makes Revoke fail, for all users or for one.
	away    atomic.Bool
	awayFor atomic.Int64
}

func (h *hookedSessions) Fence(ctx context.Context, userID int64) (string, error) {
	if hook := h.beforeFence; hook != nil {
		h.beforeFence = nil
		hook()
	}
	return h.Store.Fence(ctx, userID)
}

func (h *hookedSessions) Create(ctx context.Context, s session.Session, fence string, lifetimes session.Lifetimes) error {
	if h.create != nil {
		return h.create()
	}
	return h.Store.Create(ctx, s, fence, lifetimes)
}

func (h *hookedSessions) Delete(ctx context.Context, ref session.Ref) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if h.remove != nil {
		if err := h.remove(ref); err != nil {
			return err
		}
	}
	return h.Store.Delete(ctx, ref)
}

func (h *hookedSessions) Revoke(ctx context.Context, userID int64, keep string) (int, error) {
	if h.away.Load() || h.awayFor.Load() == userID {
		return 0, errors.New("away")
	}
	return h.Store.Revoke(ctx, userID, keep)
}

func newRules(t *testing.T) *rules {
	t.Helper()
	stores := apptest.Open(t, apptest.Memory, time.Now)
	r := &rules{
		t: t, hasher: apptest.Must(password.New(password.Options{Cost: 5}))(t),
		tokens: &hookedTokens{tokenStore: stores.SQL.Tokens}, users: &hookedUsers{Users: stores.SQL.Users},
		sessions: &hookedSessions{Store: stores.Kept}, pendings: &hookedPendings{Pendings: stores.Kept},
	}
	parts := stores.Build(t, func(o *apptest.Options) {
		o.Accounts.Users, o.Accounts.Sessions, o.Accounts.Pendings, o.Accounts.Passwords = r.users, r.sessions, r.pendings, r.hasher
		o.Accounts.Party = apptest.Must(passkey.New(passkey.Options{PublicURL: origin}))(t)
		o.People.Users, o.Policy.Tokens = r.users, r.tokens
	})
	r.Service, r.people, r.policy = parts.Accounts, parts.People, parts.Policy
	return r
}

func (r *rules) add(username string) user.User {
	r.t.Helper()
	u, err := r.people.Add(r.t.Context(), people.NewUser{Username: username, DisplayName: username, Password: oldPass})
	if err != nil {
		r.t.Fatal(err)
	}
	return u
}

// remove deletes a user as the operator does.
func (r *rules) remove(username string) error {
	return apptest.Remove(r.t.Context(), r.people, username)
}

// login logs in and returns the session.
func (r *rules) login(username, pass string) (session.Session, error) {
	in, err := r.Login(r.t.Context(), account.Credentials{Username: username, Password: pass})
	return in.Session, err
}

func (r *rules) alive(s session.Session) bool {
	r.t.Helper()
	_, err := r.sessions.Load(r.t.Context(), s.Ref, session.NewLifetimes(0, 0))
	return err == nil
}

// TestLogin_APasswordChangedMeanwhileCounts changes it while the old one
// is being compared, and when the login has its fence.
func TestLogin_APasswordChangedMeanwhileCounts(t *testing.T) {
	for name, when := range map[string]func(r *rules, change func()){
		"before the fence": func(r *rules, change func()) { r.sessions.beforeFence = change },
		"after the fence":  func(r *rules, change func()) { r.users.beforeByID = change },
	} {
		r := newRules(t)
		r.add("anna")
		when(r, func() {
			if err := r.ResetPassword(t.Context(), "anna", newPass); err != nil {
				t.Error(err)
			}
		})
		if s, err := r.login("anna", oldPass); !errors.Is(err, account.ErrInvalidCredentials) || r.alive(s) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestPassword_OfASessionThatEndsMeanwhileIsNotSet: to compute a hash may take seconds, in which the user may end the
// session of a thief.
func TestPassword_OfASessionThatEndsMeanwhileIsNotSet(t *testing.T) {
	for name, c := range map[string]struct {
		hash string // empty: that of oldPass
		set  func(*rules, session.Session) error
	}{
		"another": {"", func(r *rules, of session.Session) error {
			return r.ChangePassword(t.Context(), of, oldPass, newPass)
		}},
		"a first one": {user.NoPassword, func(r *rules, of session.Session) error {
			return r.SetFirstPassword(t.Context(), of, newPass)
		}},
	} {
		for how, end := range map[string]func(r *rules, own, stolen session.Session){
			"with the others": func(r *rules, own, _ session.Session) {
				r.users.beforeSet = func() { apptest.Must(r.EndOthers(t.Context(), own))(t) }
			},
			"alone": func(r *rules, own, stolen session.Session) {
				r.users.beforeByID = func() {
					if err := r.EndSession(t.Context(), own, stolen.Key); err != nil {
						t.Error(err)
					}
				}
			},
		} {
			t.Run(name+", ended "+how, func(t *testing.T) {
				r := newRules(t)
				u := r.add("anna")
				stolen := apptest.Must(r.login("anna", oldPass))(t)
				own := apptest.Must(r.login("anna", oldPass))(t)
				if c.hash != "" {
					if err := r.users.Rehash(t.Context(), u.ID, u.PasswordHash, c.hash); err != nil {
						t.Fatal(err)
					}
				}
				before := apptest.Must(r.users.ByID(t.Context(), u.ID))(t)
				end(r, own, stolen)
				if err := c.set(r, stolen); !errors.Is(err, session.ErrNotFound) {
					t.Errorf("got %v", err)
				}
				after := apptest.Must(r.users.ByID(t.Context(), u.ID))(t)
				if after.PasswordHash != before.PasswordHash || !r.alive(own) {
					t.Errorf("the session that has ended set it; the one that stays is alive: %t", r.alive(own))
				}
				if err := c.set(r, own); err != nil {
					t.Errorf("the session that stays: %v", err)
				}
			})
		}
	}
}

// TestEndOthers_ByASessionThatHasEndedEndsNone: of two sessions that end each other, the guard may have let both in.
func TestEndOthers_ByASessionThatHasEndedEndsNone(t *testing.T) {
	r := newRules(t)
	u := r.add("anna")
	stolen := apptest.Must(r.login("anna", oldPass))(t)
	own := apptest.Must(r.login("anna", oldPass))(t)
	apptest.Must(r.EndOthers(t.Context(), own))(t)
	if _, err := r.EndOthers(t.Context(), stolen); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := r.Holder(t.Context(), stolen); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("the user's row admits the session that has ended: %v", err)
	}
	if kept := apptest.Must(r.users.ByID(t.Context(), u.ID))(t).KeptSession; kept != own.Key || !r.alive(own) {
		t.Errorf("the session that stays is alive: %t, admitted: %t", r.alive(own), kept == own.Key)
	}
	apptest.Must(r.EndOthers(t.Context(), own))(t)
}

func TestLogin_ARehashMeanwhileDoesNotRefuseIt(t *testing.T) {
	r := newRules(t)
	u := r.add("anna")
	r.users.beforeByID = func() {
		hash, err := r.hasher.Hash(t.Context(), oldPass)
		if err == nil {
			err = r.users.Rehash(t.Context(), u.ID, u.PasswordHash, hash)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if s, err := r.login("anna", oldPass); err != nil || !r.alive(s) {
		t.Errorf("got %v", err)
	}
}

func TestLogin_ThatIsFencedLooksAgain(t *testing.T) {
	r := newRules(t)
	u := r.add("anna")
	r.users.beforeByID = func() { // all sessions were ended, but the password is still the right one
		if _, err := r.sessions.Revoke(t.Context(), u.ID, ""); err != nil {
			t.Error(err)
		}
	}
	if s, err := r.login("anna", oldPass); err != nil || !r.alive(s) {
		t.Errorf("got %v", err)
	}
}

func TestLogin_RevokedAtEveryTryFailsAndChangesNothing(t *testing.T) {
	r := newRules(t)
	r.add("anna")
	before, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	r.sessions.create = func() error { tries++; return session.ErrFenced }
	_, err = r.Login(t.Context(), account.Credentials{Username: "anna", Password: oldPass, Replaces: before.Ref})
	if !errors.Is(err, account.ErrInvalidCredentials) || tries != 3 || !r.alive(before) {
		t.Errorf("got %v after %d tries; the session before lives: %t", err, tries, r.alive(before))
	}
}

func TestLogin_EndsOnlyTheSessionItReplaces(t *testing.T) {
	r := newRules(t)
	u := r.add("anna")
	r.add("ben")
	replaced, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	other, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	in, err := r.Login(t.Context(), account.Credentials{Username: "ben", Password: oldPass, UserAgent: "Firefox", Replaces: replaced.Ref})
	if err != nil {
		t.Fatal(err)
	}
	if s := in.Session; s.Key == replaced.Key || s.CSRFToken == replaced.CSRFToken || s.Username != "ben" || s.Role != "member" || s.UserAgent != "Firefox" || in.SessionID == "" {
		t.Errorf("got %+v", in)
	}
	if r.alive(replaced) || !r.alive(other) || !r.alive(in.Session) {
		t.Errorf("alive: the replaced session %t, the other %t, the new one %t", r.alive(replaced), r.alive(other), r.alive(in.Session))
	}
	if infos, err := r.sessions.List(t.Context(), u.ID); err != nil || len(infos) != 1 {
		t.Errorf("got %v, %v", infos, err)
	}
}

func TestLogin_FailsWhereTheReplacedSessionStays(t *testing.T) {
	r := newRules(t)
	u := r.add("anna")
	before, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("connection refused")
	r.sessions.remove = func(ref session.Ref) error {
		if ref == before.Ref {
			return refused
		}
		return nil
	}
	_, err = r.Login(t.Context(), account.Credentials{Username: "anna", Password: oldPass, Replaces: before.Ref})
	if !errors.Is(err, refused) || !r.alive(before) {
		t.Errorf("got %v; the session before lives: %t", err, r.alive(before))
	}
	if infos, err := r.sessions.List(t.Context(), u.ID); err != nil || len(infos) != 1 {
		t.Errorf("sessions left: %v, %v", infos, err)
	}
}

func TestLogout_GoesOnWhenTheClientHangsUp(t *testing.T) {
	r := newRules(t)
	r.add("anna")
	s, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	if err := r.Logout(ctx, s); err != nil || r.alive(s) {
		t.Errorf("got %v, alive: %t", err, r.alive(s))
	}
}

func TestSession_WithoutACSRFTokenGetsOne(t *testing.T) {
	r := newRules(t)
	u := r.add("anna")
	fence, err := r.sessions.Fence(t.Context(), u.ID)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := session.New(u.ID, "", time.Now())
	s.CSRFToken = ""
	if err := r.sessions.Create(t.Context(), s, fence, session.NewLifetimes(0, 0)); err != nil {
		t.Fatal(err)
	}
	if s.ValidCSRFToken("") {
		t.Error("an empty token is valid")
	}
	for range 2 {
		got, err := r.EnsureCSRFToken(t.Context(), s)
		now, _ := r.sessions.Load(t.Context(), s.Ref, session.NewLifetimes(0, 0))
		if err != nil || len(got.CSRFToken) != 64 || now.CSRFToken != got.CSRFToken {
			t.Errorf("got %+v, %v; the store holds %+v", got, err, now)
		}
	}
}

func TestLogout_Against100Requests(t *testing.T) {
	r := newRules(t)
	u := r.add("anna")
	s, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			<-gate
			if i == 50 {
				if err := r.Logout(t.Context(), s); err != nil {
					t.Error(err)
				}
				return
			}
			if _, err := r.sessions.Load(t.Context(), s.Ref, session.NewLifetimes(0, 0)); err != nil && !errors.Is(err, session.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	close(gate)
	all.Wait()
	if infos, err := r.sessions.List(t.Context(), u.ID); err != nil || len(infos) > 0 || r.alive(s) {
		t.Errorf("sessions left: %v, %v", infos, err)
	}
}

func TestLogin_OfAUserDeletedMeanwhileGetsNoSession(t *testing.T) {
	r := newRules(t)
	r.add("anna")
	r.users.beforeByID = func() {
		if err := r.remove("anna"); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.login("anna", oldPass); !errors.Is(err, account.ErrInvalidCredentials) {
		t.Errorf("got %v", err)
	}
}

func TestLogin_RehashesAWeakHash(t *testing.T) {
	r := newRules(t)
	weak, err := password.New(password.Options{Cost: 4})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := weak.Hash(t.Context(), oldPass)
	if err != nil {
		t.Fatal(err)
	}
	imported := "$2b$" + strings.TrimPrefix(hash, "$2a$")
	if _, err := r.users.Create(t.Context(), user.New{Username: "anna", DisplayName: "Anna", PasswordHash: imported, Role: user.Member}, session.Session{}); err != nil {
		t.Fatal(err)
	}
	first, err := r.login("anna", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	u, err := r.users.ByUsername(t.Context(), "anna")
	if err != nil || !strings.HasPrefix(u.PasswordHash, "$2a$05$") {
		t.Errorf("got %q, %v", u.PasswordHash, err)
	}
	if _, err := r.login("anna", oldPass); err != nil || !r.alive(first) {
		t.Errorf("the next login: %v; the first session lives: %t", err, r.alive(first))
	}
}

// TestLogin_RehashesAnNFDHashToNFCOnce logs in with NFC, and then with both.
func TestLogin_RehashesAnNFDHashToNFCOnce(t *testing.T) {
	const nfc, nfd = "\u00fcberr\u00e4tig", "u\u0308berra\u0308tig"
	r := newRules(t)
	hash, err := bcrypt.GenerateFromPassword([]byte(nfd), 5) // the configured cost
	if err != nil {
		t.Fatal(err)
	}
	record := user.Record{ID: "7", Username: "petra", DisplayName: "Petra", PasswordHash: "$2b$" + string(hash[4:]), Where: "row 1"}
	users, faults, err := r.people.CheckImport(t.Context(), []user.Record{record})
	if err != nil || len(faults) > 0 {
		t.Fatal(faults, err)
	}
	if err := r.people.Import(t.Context(), users); err != nil {
		t.Fatal(err)
	}
	stored := func() string {
		u, err := r.users.ByUsername(t.Context(), "petra")
		if err != nil {
			t.Fatal(err)
		}
		return u.PasswordHash
	}
	if _, err := r.login("petra", nfc+"x"); !errors.Is(err, account.ErrInvalidCredentials) || stored() != record.PasswordHash {
		t.Errorf("a wrong password: %v, the hash is %s", err, stored())
	}
	first, err := r.login("petra", nfc)
	if err != nil {
		t.Fatal(err)
	}
	after := stored()
	if bcrypt.CompareHashAndPassword([]byte(after), []byte(nfc)) != nil || !strings.HasPrefix(after, "$2a$05$") {
		t.Errorf("the hash %s is not of NFC", after)
	}
	for _, form := range []string{nfc, nfd} {
		if _, err := r.login("petra", form); err != nil || stored() != after {
			t.Errorf("%+q: %v, the hash is %s", form, err, stored())
		}
	}
	if !r.alive(first) {
		t.Error("the session of the first login has ended")
	}
}

// TestLogin_ManyAtOnceRehashToNFC has each compare with the hash of NFD, and some find the
// new one when they create their session.
func TestLogin_ManyAtOnceRehashToNFC(t *testing.T) {
	const nfc, nfd = "\u00fcberr\u00e4tig", "u\u0308berra\u0308tig"
	r := newRules(t)
	hash, err := bcrypt.GenerateFromPassword([]byte(nfd), 5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.users.Create(t.Context(), user.New{Username: "petra", DisplayName: "Petra", PasswordHash: string(hash), Role: user.Member}, session.Session{}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			s, err := r.login("petra", []string{nfc, nfd}[i%2])
			for errors.Is(err, password.ErrBusy) { // each login compares up to twice and hashes
				s, err = r.login("petra", []string{nfc, nfd}[i%2])
			}
			if err != nil || !r.alive(s) {
				t.Errorf("login %d: %v", i, err)
			}
		})
	}
	all.Wait()
	u, err := r.users.ByUsername(t.Context(), "petra")
	if err != nil || bcrypt.CompareHashAndPassword([]byte(u.PasswordHash), []byte(nfc)) != nil {
		t.Errorf("%v, the hash %s is not of NFC", err, u.PasswordHash)
	}
}

func TestLogin_WrongPasswordIsNotRehashed(t *testing.T) {
	r := newRules(t)
	before := r.add("anna")
	if _, err := r.login("anna", newPass); !errors.Is(err, account.ErrInvalidCredentials) {
		t.Fatal(err)
	}
	after, err := r.users.ByUsername(t.Context(), "anna")
	if err != nil || after.PasswordHash != before.PasswordHash {
		t.Errorf("the hash changed, %v", err)
	}
}

func TestLogin_ThatWaitsTooLongIsErrBusy(t *testing.T) {
	r := newRules(t)
	r.add("anna")
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := r.Login(ctx, account.Credentials{Username: "anna", Password: oldPass}); !errors.Is(err, password.ErrBusy) {
		t.Errorf("got %v", err)
	}
}

func TestAdmin_TheFirstIsMadeOnce(t *testing.T) {
	r := newRules(t)
	for _, want := range []bool{true, false} {
		if created, err := r.people.Bootstrap(t.Context(), "anna", oldPass); err != nil || created != want {
			t.Errorf("got %t, %v", created, err)
		}
	}
	u, err := r.users.ByUsername(t.Context(), "anna")
	if err != nil || u.Role != user.Admin || u.DisplayName != "anna" {
		t.Errorf("got %+v, %v", u, err)
	}
	if created, err := r.people.Bootstrap(t.Context(), "x", "y"); err != nil || created {
		t.Errorf("settings that do not matter any more: got %t, %v", created, err)
	}
	if _, err := newRules(t).people.Bootstrap(t.Context(), "anna", "short"); !errors.Is(err, password.ErrTooShort) {
		t.Errorf("got %v", err)
	}
}
