package sqlstore_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

var (
	sealed  = []byte("a sealed secret")
	pending = []byte("the secret before it is confirmed")
	hashes  = []string{"first", "second", "third"}
)

// enable gives otto a second factor, confirmed with the code of step 100.
func (h *household) enable() {
	h.Helper()
	if err := h.Factors.SetupTOTP(h.Context(), h.otto.ID, pending); err != nil {
		h.Fatal(err)
	}
	must(h.Factors.EnableTOTP(h.Context(), h.kept(), pending, sealed, 100, hashes))(h.T)
}

// kept is a session of otto as he is now; it stays when the others end.
func (h *household) kept() session.Session {
	h.Helper()
	return sessionOf(h.present(), "kept")
}

func sessionOf(u user.User, key string) session.Session {
	return session.Session{Ref: session.Ref{UserID: u.ID, Key: key}, Stamp: u.SessionStamp}
}

func (h *household) state() factor.State {
	h.Helper()
	return must(h.Factors.Factors(h.Context(), h.otto.ID))(h.T)
}

func (h *household) present() user.User {
	h.Helper()
	return must(h.Users.ByID(h.Context(), h.otto.ID))(h.T)
}

func TestTOTP_Of100ConfirmationsAtOnceOneEnablesIt(t *testing.T) {
	inHouseholds(t, func(h *household) {
		kept := h.kept()
		before := kept.Stamp
		if err := h.Factors.SetupTOTP(h.Context(), h.otto.ID, sealed); err != nil {
			h.Fatal(err)
		}
		n := h.atOnce(func(s *sqlstore.Stores, i int) error {
			_, err := s.Factors.EnableTOTP(h.Context(), kept, sealed, sealed, 100, []string{fmt.Sprint(i), "x"})
			return err
		}, factor.ErrAlreadyEnabled)
		state, otto := h.state(), h.present()
		if n != 1 || !state.Enabled || !state.Confirmed || state.LastStep != 100 || state.Recovery != 2 || h.recorded("second_factor_on") != 1 {
			h.Errorf("%d succeeded: %+v", n, state)
		}
		if !otto.SecondFactor || otto.SessionStamp == before || !otto.Admits(before, "kept", h.now) || otto.Admits(before, "other", h.now) || otto.PasswordHash != h.otto.PasswordHash {
			h.Errorf("got %+v", otto)
		}
		if pending := must(h.Users.PendingRevocations(h.Context(), h.now.Add(time.Hour), 0))(h.T); len(pending) != 1 || pending[0].KeepSession != "kept" {
			h.Errorf("pending: %+v", pending)
		}
	})
}

func TestTOTP_Of100SetUpsAtOnceTheLastIsConfirmed(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.atOnce(func(s *sqlstore.Stores, i int) error {
			return s.Factors.SetupTOTP(h.Context(), h.otto.ID, fmt.Append(nil, "secret ", i))
		})
		last := h.state()
		if !last.Pending() || last.Enabled {
			h.Fatalf("got %+v", last)
		}
		if _, err := h.Factors.EnableTOTP(h.Context(), h.kept(), sealed, sealed, 100, hashes); !errors.Is(err, factor.ErrNoPendingSetup) {
			h.Errorf("another secret than the one that waits: %v", err)
		}
		must(h.Factors.EnableTOTP(h.Context(), h.kept(), last.Sealed, last.Sealed, 100, hashes))(h.T)
		if err := h.Factors.SetupTOTP(h.Context(), h.otto.ID, sealed); !errors.Is(err, factor.ErrAlreadyEnabled) || string(h.state().Sealed) != string(last.Sealed) {
			h.Errorf("a set-up over a confirmed one: %v", err)
		}
		if err := h.Factors.SetupTOTP(h.Context(), 1<<40, sealed); !errors.Is(err, user.ErrNotFound) {
			h.Errorf("an unknown user: %v", err)
		}
	})
}

// TestTOTP_AStepIsUsedOnce also has no earlier step be used afterwards, nor the one of the set-up.
func TestTOTP_AStepIsUsedOnce(t *testing.T) {
	inHouseholds(t, func(h *household) {
		use := func(s *sqlstore.Stores, step int64) error {
			return s.Factors.UseTOTP(h.Context(), h.otto.ID, sealed, step)
		}
		if err := use(h.Stores, 100); !errors.Is(err, factor.ErrInvalidCode) {
			h.Errorf("without a factor: %v", err)
		}
		h.enable()
		if err := use(h.Stores, 100); !errors.Is(err, factor.ErrInvalidCode) {
			h.Errorf("the step of the set-up: %v", err)
		}
		if n := h.atOnce(func(s *sqlstore.Stores, _ int) error { return use(s, 101) }, factor.ErrInvalidCode); n != 1 {
			h.Errorf("used %d times", n)
		}
		if n := h.atOnce(func(s *sqlstore.Stores, i int) error { return use(s, int64(102+i%2)) }, factor.ErrInvalidCode); n < 1 || n > 2 || h.state().LastStep != 103 {
			h.Errorf("of two steps %d were used, the last was %d", n, h.state().LastStep)
		}
		for step := range int64(104) {
			if err := use(h.Stores, step); !errors.Is(err, factor.ErrInvalidCode) {
				h.Fatalf("step %d: %v", step, err)
			}
		}
		if err := h.Factors.UseTOTP(h.Context(), h.otto.ID, []byte("another secret"), 200); !errors.Is(err, factor.ErrInvalidCode) {
			h.Errorf("another secret: %v", err)
		}
		if err := h.Factors.UseTOTP(h.Context(), h.anna.ID, sealed, 200); !errors.Is(err, factor.ErrInvalidCode) {
			h.Errorf("another user: %v", err)
		}
	})
}

func TestRecoveryCode_IsUsedOnceByItsUser(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.enable()
		if _, err := h.Factors.UseRecovery(h.Context(), h.anna.ID, hashes[0]); !errors.Is(err, factor.ErrInvalidCode) {
			h.Errorf("by another user: %v", err)
		}
		n := h.atOnce(func(s *sqlstore.Stores, _ int) error {
			left, err := s.Factors.UseRecovery(h.Context(), h.otto.ID, hashes[0])
			if err == nil && left != 2 {
				return fmt.Errorf("left: %d", left)
			}
			return err
		}, factor.ErrInvalidCode)
		if n != 1 || h.recorded("recovery_used") != 1 || h.state().Recovery != 2 {
			h.Errorf("used %d times, recorded %d times", n, h.recorded("recovery_used"))
		}
		kept := h.kept()
		h.atOnce(func(s *sqlstore.Stores, i int) error {
			return s.Factors.ReplaceRecovery(h.Context(), kept, []string{fmt.Sprint("a", i), fmt.Sprint("b", i)})
		})
		if h.state().Recovery != 2 {
			h.Errorf("100 new sets at once are %d codes", h.state().Recovery)
		}
		if _, err := h.Factors.UseRecovery(h.Context(), h.otto.ID, hashes[1]); !errors.Is(err, factor.ErrInvalidCode) {
			h.Errorf("a code of a former set: %v", err)
		}
		if err := h.Factors.ReplaceRecovery(h.Context(), sessionOf(h.anna, ""), hashes); !errors.Is(err, factor.ErrNotEnabled) {
			h.Errorf("a user without a factor: %v", err)
		}
	})
}

func TestSecondFactor_AnEndedSessionChangesNothing(t *testing.T) {
	inHouseholds(t, func(h *household) {
		p := h.passkey(h.otto, "a", 0)
		h.passkey(h.otto, "b", 0)
		if err := h.Factors.SetupTOTP(h.Context(), h.otto.ID, pending); err != nil {
			h.Fatal(err)
		}
		ended := sessionOf(h.otto, "ended")
		acts := []func(of session.Session) error{
			func(of session.Session) error {
				_, err := h.Factors.EnableTOTP(h.Context(), of, pending, sealed, 100, hashes)
				return err
			},
			func(of session.Session) error { return h.Factors.ReplaceRecovery(h.Context(), of, []string{"new"}) },
			func(of session.Session) error { return h.Factors.DisableFactor(h.Context(), of) },
			func(of session.Session) error {
				_, err := h.Factors.EnableByPasskey(h.Context(), of, hashes)
				return err
			},
			func(of session.Session) error {
				return h.Passkeys.RemovePasskey(h.Context(), of.UserID, p.ID, rpID, of.Stamp, of.Key)
			},
		}
		for i, act := range acts {
			must(h.Users.SetPasswordHash(h.Context(), h.kept(), h.present().PasswordHash, fmt.Sprint("hash ", i)))(h.T)
			if err := act(ended); !errors.Is(err, session.ErrNotFound) {
				h.Errorf("act %d of an ended session: %v", i, err)
			}
			if err := act(h.kept()); err != nil {
				h.Errorf("act %d of the session that stays: %v", i, err)
			}
		}
		ended = h.byAnna()
		must(h.Users.EndSessions(h.Context(), h.anna.ID, session.Session{}))(h.T)
		_, err := h.Factors.ResetFactor(h.Context(), h.otto.ID, ended)
		h.refused("a reset", err, session.ErrNotFound)
		h.refused("a rule", h.Factors.RequireFactor(h.Context(), true, ended), session.ErrNotFound)
	})
}

func TestSecondFactor_PasskeysBecomeOneOnce(t *testing.T) {
	inHouseholds(t, func(h *household) {
		kept := h.kept()
		enable := func(s *sqlstore.Stores) error {
			_, err := s.Factors.EnableByPasskey(h.Context(), kept, hashes)
			return err
		}
		if err := enable(h.Stores); !errors.Is(err, factor.ErrNoPasskey) {
			h.Errorf("without a passkey: %v", err)
		}
		h.passkey(h.otto, "a", 0)
		if n := h.atOnce(func(s *sqlstore.Stores, _ int) error { return enable(s) }, factor.ErrAlreadyEnabled); n != 1 || h.state().Recovery != len(hashes) {
			h.Errorf("%d succeeded: %+v", n, h.state())
		}
	})
}

// TestSecondFactor_DutyKeepsIt has the household require second factors while all turn theirs
// off: none is turned off after the duty holds.
func TestSecondFactor_DutyKeepsIt(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.enable()
		if err := h.Factors.RequireFactor(h.Context(), true, h.byOtto()); !errors.Is(err, user.ErrNotAdmin) {
			h.Errorf("by a member: %v", err)
		}
		h.atOnce(func(s *sqlstore.Stores, _ int) error { return s.Factors.RequireFactor(h.Context(), true, h.byAnna()) })
		kept := h.kept()
		if n := h.atOnce(func(s *sqlstore.Stores, _ int) error { return s.Factors.DisableFactor(h.Context(), kept) }, factor.ErrRequired); n != 0 || !h.state().Enabled {
			h.Errorf("turned off %d times", n)
		}
		if err := h.Factors.RequireFactor(h.Context(), false, session.Session{}); err != nil {
			h.Fatal(err)
		}
		if n := h.atOnce(func(s *sqlstore.Stores, _ int) error { return s.Factors.DisableFactor(h.Context(), kept) }, factor.ErrNotEnabled); n != 1 || h.state().Enabled || h.state().Recovery != 0 {
			h.Errorf("turned off %d times: %+v", n, h.state())
		}
		if h.present().SecondFactor {
			h.Error("the user still has one")
		}
	})
}

func TestHousehold_FirstStepsAreHiddenByAnAdmin(t *testing.T) {
	inHouseholds(t, func(h *household) {
		if err := h.Users.HideFirstSteps(h.Context(), h.otto.ID); !errors.Is(err, user.ErrNotAdmin) {
			h.Errorf("by a member: %v", err)
		}
		if got := must(h.Users.Household(h.Context()))(h.T); got != (user.Household{}) {
			h.Errorf("before: %+v", got)
		}
		for range 2 {
			if err := h.Users.HideFirstSteps(h.Context(), h.anna.ID); err != nil {
				h.Fatal(err)
			}
		}
		h.exec(`INSERT INTO household (key, value) VALUES ('last_backup', '2026-03-01T03:00:00Z')`)
		want := user.Household{FirstStepsDone: true, LastBackup: time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)}
		if got := must(h.Users.Household(h.Context()))(h.T); got != want {
			h.Errorf("got %+v, want %+v", got, want)
		}
		h.exec(`UPDATE household SET value = 'soon' WHERE key = 'last_backup'`)
		if got := must(h.Users.Household(h.Context()))(h.T); !got.LastBackup.IsZero() {
			h.Errorf("got %v of what is no time", got.LastBackup)
		}
	})
}

func TestSecondFactor_AResetLeavesNothing(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.enable()
		h.passkey(h.present(), "a", 0)
		if err := h.Browsers.SeeBrowser(h.Context(), h.otto.ID, "phone", "Firefox", true); err != nil {
			h.Fatal(err)
		}
		if _, err := h.Factors.ResetFactor(h.Context(), h.anna.ID, h.byOtto()); !errors.Is(err, user.ErrNotAdmin) {
			h.Errorf("by a member: %v", err)
		}
		kept := h.kept()
		before := kept.Stamp
		must(h.Factors.ResetFactor(h.Context(), h.otto.ID, h.byAnna()))(h.T)
		state, otto := h.state(), h.present()
		if state.Enabled || state.Sealed != nil || state.LastStep != 0 || state.Recovery != 0 || state.Passkeys != 0 || otto.SecondFactor || otto.Admits(before, "kept", h.now) {
			h.Errorf("got %+v, %+v", state, otto)
		}
		if must(h.Browsers.KnowsBrowser(h.Context(), h.otto.ID, "phone"))(h.T) || h.recorded("second_factor_reset") != 1 {
			h.Error("a browser is still trusted, or nothing is recorded")
		}
		for what, id := range map[string]int64{"an unknown user": 1 << 40} {
			if _, err := h.Factors.ResetFactor(h.Context(), id, session.Session{}); !errors.Is(err, user.ErrNotFound) {
				h.Errorf("%s: %v", what, err)
			}
		}
	})
}

func TestTOTP_ASecretIsSealedAgainUnlessItChanged(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.enable()
		all := must(h.Factors.SealedSecrets(h.Context()))(h.T)
		if len(all) != 1 || all[0].UserID != h.otto.ID || string(all[0].Secret) != string(sealed) {
			h.Fatalf("got %+v", all)
		}
		for _, change := range [][2]string{{"not it", "a"}, {string(sealed), "b"}, {string(sealed), "c"}} {
			if err := h.Factors.Reseal(h.Context(), h.otto.ID, []byte(change[0]), []byte(change[1])); err != nil {
				h.Error(err)
			}
		}
		if got := string(h.state().Sealed); got != "b" {
			h.Errorf("got %q", got)
		}
	})
}

func TestBrowser_IsKnownOnce(t *testing.T) {
	inHouseholds(t, func(h *household) {
		see := func(s *sqlstore.Stores, hash string, second bool) error {
			return s.Browsers.SeeBrowser(h.Context(), h.otto.ID, hash, "Firefox, Linux", second)
		}
		knows := func(hash string) bool { return must(h.Browsers.KnowsBrowser(h.Context(), h.otto.ID, hash))(h.T) }
		h.atOnce(func(s *sqlstore.Stores, _ int) error { return see(s, "laptop", false) })
		if h.recorded("device_new") != 0 {
			h.Error("the first browser is an event")
		}
		if knows("laptop") {
			h.Error("a password alone made the browser one whose wrong codes count for themselves")
		}
		h.atOnce(func(s *sqlstore.Stores, _ int) error { return see(s, "phone", true) })
		if h.recorded("device_new") != 1 || !knows("phone") || must(h.Browsers.KnowsBrowser(h.Context(), h.anna.ID, "phone"))(h.T) {
			h.Errorf("recorded %d times", h.recorded("device_new"))
		}
		if err := see(h.Stores, "phone", false); err != nil || !knows("phone") {
			h.Errorf("a login without the factor took the trust away: %v", err)
		}
		if list := must(h.Browsers.Browsers(h.Context(), h.otto.ID))(h.T); len(list) != 2 {
			h.Errorf("got %+v", list)
		}
		h.atOnce(func(s *sqlstore.Stores, i int) error { return see(s, fmt.Sprint("browser ", i), true) })
		if list := must(h.Browsers.Browsers(h.Context(), h.otto.ID))(h.T); len(list) != factor.MaxBrowsers {
			h.Errorf("%d browsers are known", len(list))
		}
		last := must(h.Browsers.Browsers(h.Context(), h.otto.ID))(h.T)[0].Hash
		if err := h.Browsers.ForgetBrowser(h.Context(), h.anna.ID, last); err != nil || !knows(last) {
			h.Errorf("forgotten by another user: %v", err)
		}
		if err := h.Browsers.ForgetBrowser(h.Context(), h.otto.ID, last); err != nil || knows(last) {
			h.Errorf("not forgotten: %v", err)
		}
		if err := h.Browsers.SeeBrowser(h.Context(), 1<<40, "x", "x", true); !errors.Is(err, user.ErrNotFound) {
			h.Errorf("an unknown user: %v", err)
		}
	})
}

// firstRelease compares a password with a stored hash as the first release did, which knows
// no second factors. It is kept as it was: such a version may run beside this one.
func firstRelease(text, password string) bool {
	form := regexp.MustCompile(`\A\$2[a-z]\$\d\d\$[./A-Za-z0-9]{53}\z`)
	hash, long := strings.CutPrefix(text, "sha256:")
	if _, err := bcrypt.Cost([]byte(hash)); err != nil || !form.MatchString(hash) {
		return false
	}
	input := []byte(password[:min(len(password), 72)])
	if long {
		sum := sha256.Sum256([]byte(password))
		input = []byte(base64.StdEncoding.EncodeToString(sum[:]))
	}
	exact := len(password) <= 72 && !strings.Contains(password, "\x00")
	return bcrypt.CompareHashAndPassword([]byte(hash), input) == nil && (exact || long || hash[:4] != "$2a$")
}

// stored returns the column as every version reads it.
func (h *household) stored() string {
	h.Helper()
	var hash string
	if err := h.db.Reader.QueryRowContext(h.Context(), h.db.Rebind(`SELECT password_hash FROM users WHERE id = ?`), h.otto.ID).Scan(&hash); err != nil {
		h.Fatal(err)
	}
	return hash
}

func bcrypted(t *testing.T, password string) string {
	t.Helper()
	if len(password) > 72 {
		sum := sha256.Sum256([]byte(password))
		return "sha256:" + string(must(bcrypt.GenerateFromPassword([]byte(base64.StdEncoding.EncodeToString(sum[:])), 4))(t))
	}
	return string(must(bcrypt.GenerateFromPassword([]byte(password), 4))(t))
}

// TestSecondFactor_HoldsAgainstTheFirstRelease has every way to store a hash, of a short
// and a long password, keep the mark that the first release does not understand.
func TestSecondFactor_HoldsAgainstTheFirstRelease(t *testing.T) {
	for _, password := range []string{"battery staple", strings.Repeat("long ", 20)} {
		inHouseholds(t, func(h *household) {
			ctx := h.Context()
			hash := bcrypted(h.T, password)
			must(h.Users.ResetPassword(ctx, h.otto.ID, hash))(h.T)
			if !firstRelease(h.stored(), password) || firstRelease(h.stored(), password+"x") {
				h.Fatal("the first release does not know its own hashes")
			}
			h.enable()
			check := func(what string) {
				h.Helper()
				if firstRelease(h.stored(), password) {
					h.Errorf("%s: the first release accepts the password of %q", what, h.stored())
				}
				if otto := h.present(); !otto.SecondFactor || !firstRelease(otto.PasswordHash, password) {
					h.Errorf("%s: this version reads %q", what, otto.PasswordHash)
				}
			}
			check("enabled")
			next := bcrypted(h.T, password)
			must(h.Users.SetPasswordHash(ctx, h.kept(), hash, next))(h.T)
			check("a changed password")
			again := bcrypted(h.T, password)
			if err := h.Users.Rehash(ctx, h.otto.ID, next, again); err != nil {
				h.Fatal(err)
			}
			check("a new hash")
			must(h.Users.ResetPassword(ctx, h.otto.ID, hash))(h.T)
			check("set by the operator")
			token := h.reset()
			must(h.Links.ResetByLink(ctx, token, hash))(h.T)
			check("set by a link")
			if err := h.Users.SetRole(ctx, h.otto.ID, user.Admin); err != nil {
				h.Fatal(err)
			}
			must(h.Users.EndSessions(ctx, h.otto.ID, session.Session{}))(h.T)
			check("another role")

			if err := h.Factors.DisableFactor(ctx, h.kept()); err != nil {
				h.Fatal(err)
			}
			if h.stored() != hash {
				h.Errorf("without a factor: %q", h.stored())
			}
			h.passkey(h.present(), "a", 0)
			must(h.Factors.EnableByPasskey(ctx, h.kept(), hashes))(h.T)
			check("enabled by a passkey")
			must(h.Factors.ResetFactor(ctx, h.otto.ID, session.Session{}))(h.T)
			if h.stored() != hash {
				h.Errorf("after a reset of the factor: %q", h.stored())
			}
		})
	}
}

// TestPassword_StoredWithAFactorIsMarked changes the password, rehashes it and
// enables and resets the factor, all at once.
func TestPassword_StoredWithAFactorIsMarked(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		for range 5 {
			h.atOnce(func(s *sqlstore.Stores, i int) error {
				switch i % 4 {
				case 0:
					_, err := s.Users.ResetPassword(ctx, h.otto.ID, fmt.Sprint("hash ", i))
					return err
				case 1:
					otto, err := s.Users.ByID(ctx, h.otto.ID)
					if err != nil {
						return err
					}
					return s.Users.Rehash(ctx, h.otto.ID, otto.PasswordHash, otto.PasswordHash+"+")
				case 2:
					if err := s.Factors.SetupTOTP(ctx, h.otto.ID, sealed); err != nil {
						return err
					}
					otto, err := s.Users.ByID(ctx, h.otto.ID)
					if err != nil {
						return err
					}
					_, err = s.Factors.EnableTOTP(ctx, sessionOf(otto, ""), sealed, sealed, 100, hashes)
					return err
				default:
					_, err := s.Factors.ResetFactor(ctx, h.otto.ID, session.Session{})
					return err
				}
			}, session.ErrNotFound, user.ErrChanged, factor.ErrAlreadyEnabled, factor.ErrNoPendingSetup)
			if marked, has := strings.HasPrefix(h.stored(), "2f:"), h.present().SecondFactor; marked != has || strings.HasPrefix(h.present().PasswordHash, "2f:") {
				h.Errorf("%q is stored; there is a second factor: %t", h.stored(), has)
			}
		}
	})
}

// TestAudit_OwnActsAreOneRowAnHour counts those that a member can repeat.
func TestAudit_OwnActsAreOneRowAnHour(t *testing.T) {
	inHouseholds(t, func(h *household) {
		at := func(network string) context.Context {
			return audit.With(h.Context(), audit.Actor{Kind: audit.User, ID: h.otto.ID, Name: "otto", IP: network + "1", Network: network, Agent: "Firefox, Linux", SessionKey: "key"})
		}
		p := h.passkey(h.otto, "a", 0)
		rows := func() map[string]int {
			n := map[string]int{}
			for _, e := range must(h.Audit.Entries(h.Context(), everything))(h.T) {
				if e.Kind == audit.User {
					n[e.Event.Name]++
				}
			}
			return n
		}
		act := func(ctx context.Context, s *sqlstore.Stores, i int) error {
			name := fmt.Sprint("name ", i)
			_, renamed := s.Passkeys.RenamePasskey(ctx, h.otto.ID, p.ID, name)
			_, ended := s.Users.EndOthers(ctx, sessionOf(h.present(), "key"))
			return errors.Join(renamed, ended, s.Users.Change(ctx, h.otto.ID, user.Change{DisplayName: &name}, h.byOtto()),
				s.Audit.Record(ctx, audit.Event{Name: "login", SubjectID: h.otto.ID, SubjectName: "otto"}))
		}
		h.atOnce(func(s *sqlstore.Stores, i int) error { return act(at("192.0.2."), s, i) })
		for _, event := range []string{"passkey_renamed", "sessions_ended", "profile_changed", "login"} {
			if h.recorded(event) != atOnce || rows()[event] != 1 {
				h.Errorf("%s: %d in %d rows", event, h.recorded(event), rows()[event])
			}
		}
		if err := act(at("198.51.100."), h.Stores, atOnce); err != nil {
			h.Fatal(err)
		}
		if rows()["login"] != 2 {
			h.Error("a login from another network is in the same row")
		}
		h.now = h.now.Add(time.Hour)
		if err := act(at("192.0.2."), h.Stores, atOnce+1); err != nil {
			h.Fatal(err)
		}
		if rows()["login"] != 3 {
			h.Error("a login of another hour is in the same row")
		}
		// What an admin does to others is a row each.
		byAnna := audit.With(h.Context(), audit.Actor{Kind: audit.User, ID: h.anna.ID, Name: "anna"})
		for _, name := range []string{"Otto", "Otto B."} {
			if err := h.Users.Change(byAnna, h.otto.ID, user.Change{DisplayName: &name}, h.byAnna()); err != nil {
				h.Fatal(err)
			}
		}
		if n := rows()["profile_changed"]; n != 5 {
			h.Errorf("%d rows of changed profiles", n)
		}
	})
}

func TestAudit_OfACountedEventTheLastIsTold(t *testing.T) {
	inHouseholds(t, func(h *household) {
		for i := range 3 {
			ctx := audit.With(h.Context(), audit.Actor{Kind: audit.User, ID: h.otto.ID, Name: "otto", IP: fmt.Sprint("2001:db8::", i), Network: "2001:db8::/48", RequestID: fmt.Sprint(i), SessionKey: fmt.Sprint("key ", i)})
			if err := h.Audit.Record(ctx, audit.Event{Name: "login", SubjectID: h.otto.ID, Detail: map[string]any{"n": i}}); err != nil {
				h.Fatal(err)
			}
		}
		e := must(h.Audit.Entries(h.Context(), audit.Query{Limit: 10, Event: "login"}))(h.T)
		if len(e) != 1 || e[0].Count != 3 || e[0].IP != "2001:db8::2" || e[0].RequestID != "2" || e[0].SessionKey != "key 2" || e[0].Detail["n"] != 2.0 {
			h.Errorf("got %+v", e)
		}
	})
}

// TestAudit_LastLoginIsFoundByAnIndex reads the plan of the members' query, where the audit is
// long.
func TestAudit_LastLoginIsFoundByAnIndex(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.exec(`INSERT INTO audit (at, event, actor_kind, subject_id)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i, CASE WHEN i % 5 = 0 THEN 'login' ELSE 'reauth' END, 'user', i % 7 FROM n`)
		h.exec(`ANALYZE`)
		explain := "EXPLAIN QUERY PLAN "
		if h.db.Dialect == "postgres" {
			explain = "EXPLAIN "
		}
		rows, err := h.db.Reader.QueryContext(h.Context(), explain+`SELECT (`+sqlstore.LastLogin+`) FROM users`)
		if err != nil {
			h.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		var plan []string
		for rows.Next() {
			columns := must(rows.Columns())(h.T)
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				h.Fatal(err)
			}
			plan = append(plan, fmt.Sprint(*values[len(values)-1].(*any)))
		}
		if err := rows.Err(); err != nil {
			h.Fatal(err)
		}
		if !slices.ContainsFunc(plan, func(line string) bool { return strings.Contains(line, "audit_subject_event") }) {
			h.Errorf("carried out by\n%s", strings.Join(plan, "\n"))
		}
	})
}

// TestAudit_TextThatNoDatabaseHoldsSelectsNothing: Postgres refuses it, even to compare.
func TestAudit_TextThatNoDatabaseHoldsSelectsNothing(t *testing.T) {
	inHouseholds(t, func(h *household) {
		for _, name := range []string{"a\x00b", "\xff"} {
			if entries := must(h.Audit.Entries(h.Context(), audit.Query{Limit: 10, Event: name}))(h.T); len(entries) != 0 {
				h.Errorf("%q: %+v", name, entries)
			}
			if _, err := h.Links.Link(h.Context(), link.Kind(name), "x"); err == nil {
				h.Errorf("%q is a link", name)
			}
		}
	})
}
