package sqlstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

const rpID = "home.example.org"

func credential(id string, count uint32) factor.Credential {
	return factor.Credential{CredentialID: []byte(id), RPID: rpID, Record: `{"id":"` + id + `"}`, SignCount: count}
}

func (h *household) passkey(u user.User, id string, count uint32) factor.Passkey {
	h.Helper()
	return must(h.Passkeys.AddPasskey(h.Context(), u.ID, "key "+id, credential(id, count), u.SessionStamp, ""))(h.T)
}

// recorded counts the audit rows of an event.
func (h *household) recorded(event string) int64 {
	h.Helper()
	var n int64
	for _, e := range must(h.Audit.Entries(h.Context(), audit.Query{Event: event, Limit: 1000}))(h.T) {
		n += e.Count
	}
	return n
}

func TestPasskey_IsKeptAsAdded(t *testing.T) {
	inHouseholds(t, func(h *household) {
		first, second := h.passkey(h.otto, "a", 7), h.passkey(h.otto, "b", 0)
		h.passkey(h.anna, "c", 0)
		want := factor.Passkey{ID: first.ID, UserID: h.otto.ID, Name: "key a", Credential: credential("a", 7), CreatedAt: h.now.UTC().Truncate(time.Second)}
		if diff := cmp.Diff([]factor.Passkey{want, second}, must(h.Passkeys.Passkeys(h.Context(), h.otto.ID))(h.T)); diff != "" {
			h.Errorf("differs (-want +got):\n%s", diff)
		}
		if h.recorded("passkey_added") != 3 {
			h.Error("not recorded")
		}
	})
}

func TestPasskey_ACredentialIsRegisteredOnce(t *testing.T) {
	inHouseholds(t, func(h *household) {
		people := []user.User{h.anna, h.otto}
		n := h.atOnce(func(s *sqlstore.Stores, i int) error {
			u := people[i%2]
			_, err := s.Passkeys.AddPasskey(h.Context(), u.ID, "key", credential("same", 0), u.SessionStamp, "")
			return err
		}, factor.ErrPasskeyExists)
		if n != 1 || h.recorded("passkey_added") != 1 {
			h.Errorf("registered %d times", n)
		}
	})
}

func TestPasskey_AUserHasABoundedNumber(t *testing.T) {
	inHouseholds(t, func(h *household) {
		n := h.atOnce(func(s *sqlstore.Stores, i int) error {
			_, err := s.Passkeys.AddPasskey(h.Context(), h.otto.ID, "key", credential(fmt.Sprint(i), 0), h.otto.SessionStamp, "")
			return err
		}, factor.ErrTooManyPasskeys)
		if n != factor.MaxPasskeys {
			h.Errorf("%d passkeys", n)
		}
	})
}

func TestPasskey_AnEndedSessionAddsNone(t *testing.T) {
	inHouseholds(t, func(h *household) {
		add := func(id, key string) error {
			_, err := h.Passkeys.AddPasskey(h.Context(), h.otto.ID, "key", credential(id, 0), h.otto.SessionStamp, key)
			return err
		}
		must(h.Users.SetPasswordHash(h.Context(), h.kept(), h.otto.PasswordHash, "new"))(h.T)
		if err := add("a", "other"); !errors.Is(err, session.ErrNotFound) {
			h.Errorf("another session: %v", err)
		}
		if err := add("b", "kept"); err != nil {
			h.Errorf("the session that stays: %v", err)
		}
		must(h.Users.Delete(h.Context(), h.otto.ID, session.Session{}))(h.T)
		if err := add("c", "kept"); !errors.Is(err, user.ErrNotFound) {
			h.Errorf("a deleted user: %v", err)
		}
		if keys := must(h.Passkeys.Passkeys(h.Context(), h.otto.ID))(h.T); len(keys) > 0 {
			h.Errorf("left of a deleted user: %v", keys)
		}
	})
}

func TestPasskey_AUserHandleIsMadeOnce(t *testing.T) {
	inHouseholds(t, func(h *household) {
		if err := h.Audit.NoticesSeen(h.Context(), h.otto.ID, h.now); err != nil { // which makes a row without one
			h.Fatal(err)
		}
		handles := make([][]byte, atOnce)
		h.atOnce(func(s *sqlstore.Stores, i int) (err error) {
			handles[i], err = s.Passkeys.PasskeyHandle(h.Context(), h.otto.ID)
			return err
		})
		for _, handle := range handles {
			if len(handle) != factor.HandleBytes || !bytes.Equal(handle, handles[0]) {
				h.Fatalf("got %x and %x", handles[0], handle)
			}
		}
		annas := must(h.Passkeys.PasskeyHandle(h.Context(), h.anna.ID))(h.T)
		if bytes.Equal(annas, handles[0]) {
			h.Error("two users with one handle")
		}
		for id, handle := range map[int64][]byte{h.otto.ID: handles[0], h.anna.ID: annas} {
			if owner := must(h.Passkeys.HandleOwner(h.Context(), handle))(h.T); owner != id {
				h.Errorf("the handle of %d is %d's", id, owner)
			}
		}
		if _, err := h.Passkeys.HandleOwner(h.Context(), make([]byte, factor.HandleBytes)); !errors.Is(err, factor.ErrNoPasskey) {
			h.Errorf("an unknown handle: %v", err)
		}
		if _, err := h.Passkeys.PasskeyHandle(h.Context(), 4711); !errors.Is(err, user.ErrNotFound) {
			h.Errorf("an unknown user: %v", err)
		}
	})
}

func TestPasskey_ACounterThatStaysIsRefusedAndRecorded(t *testing.T) {
	inHouseholds(t, func(h *household) {
		p := h.passkey(h.otto, "a", 5)
		use := func(count uint32) error {
			a := factor.Assertion{Passkey: p}
			a.Passkey.SignCount, a.Passkey.Record = count, fmt.Sprintf(`{"count":%d}`, count)
			return h.Passkeys.UsePasskey(h.Context(), a)
		}
		h.now = h.now.Add(time.Minute)
		for _, count := range []uint32{6, 1<<32 - 1} {
			if err := use(count); err != nil {
				h.Fatal(err)
			}
		}
		for _, count := range []uint32{1<<32 - 1, 6, 0} {
			if err := use(count); !errors.Is(err, factor.ErrPasskeyCloned) || !errors.Is(err, factor.ErrPasskeyFailed) {
				h.Errorf("%d: got %v", count, err)
			}
		}
		got := must(h.Passkeys.Passkeys(h.Context(), h.otto.ID))(h.T)[0]
		if got.SignCount != 1<<32-1 || got.Record != `{"count":4294967295}` || !got.LastUsedAt.Equal(h.now.Truncate(time.Second)) || h.recorded("passkey_clone") != 3 {
			h.Errorf("got %+v; clones recorded: %d", got, h.recorded("passkey_clone"))
		}
	})
}

func TestPasskey_WithoutACounterIsUsedAgain(t *testing.T) {
	inHouseholds(t, func(h *household) {
		a := factor.Assertion{Passkey: h.passkey(h.otto, "a", 0), FlagsChanged: true}
		for range 3 {
			if err := h.Passkeys.UsePasskey(h.Context(), a); err != nil {
				h.Fatal(err)
			}
			a.FlagsChanged = false
		}
		if h.recorded("passkey_flags_changed") != 1 {
			h.Error("the changed flag is not recorded once")
		}
		if err := h.Passkeys.RemovePasskey(h.Context(), h.otto.ID, a.Passkey.ID, rpID, h.otto.SessionStamp, ""); err != nil {
			h.Fatal(err)
		}
		if err := h.Passkeys.UsePasskey(h.Context(), a); !errors.Is(err, factor.ErrNoPasskey) {
			h.Errorf("a removed passkey: %v", err)
		}
	})
}

func TestPasskey_OneCounterIsUsedOnce(t *testing.T) {
	inHouseholds(t, func(h *household) {
		a := factor.Assertion{Passkey: h.passkey(h.otto, "a", 5)}
		a.Passkey.SignCount = 6
		if n := h.atOnce(func(s *sqlstore.Stores, _ int) error { return s.Passkeys.UsePasskey(h.Context(), a) }, factor.ErrPasskeyCloned); n != 1 {
			h.Errorf("used %d times", n)
		}
	})
}

func TestPasskey_IsItsUsersToRenameAndRemove(t *testing.T) {
	inHouseholds(t, func(h *household) {
		p := h.passkey(h.otto, "a", 5)
		if _, err := h.Passkeys.RenamePasskey(h.Context(), h.anna.ID, p.ID, "hers"); !errors.Is(err, factor.ErrNoPasskey) {
			h.Errorf("renamed by another user: %v", err)
		}
		err := h.Passkeys.RemovePasskey(h.Context(), h.anna.ID, p.ID, rpID, h.anna.SessionStamp, "")
		if !errors.Is(err, factor.ErrNoPasskey) {
			h.Errorf("removed by another user: %v", err)
		}
		p.Name = "his"
		if diff := cmp.Diff(p, must(h.Passkeys.RenamePasskey(h.Context(), h.otto.ID, p.ID, "his"))(h.T)); diff != "" {
			h.Errorf("differs (-want +got):\n%s", diff)
		}
		if n := h.atOnce(func(s *sqlstore.Stores, _ int) error {
			return s.Passkeys.RemovePasskey(h.Context(), h.otto.ID, p.ID, rpID, h.otto.SessionStamp, "")
		}, factor.ErrNoPasskey); n != 1 || h.recorded("passkey_removed") != 1 {
			h.Errorf("removed %d times", n)
		}
	})
}

// TestPasskey_TheLastTurnsTheFactorOffUnlessRequired removes two passkeys at once.
func TestPasskey_TheLastTurnsTheFactorOffUnlessRequired(t *testing.T) {
	for _, required := range []bool{true, false} {
		inHouseholds(t, func(h *household) {
			keys := []factor.Passkey{h.passkey(h.otto, "a", 0), h.passkey(h.otto, "b", 0)}
			h.exec(`INSERT INTO user_factors (user_id, enabled_at) VALUES (?, 1)`, h.otto.ID)
			h.exec(`INSERT INTO recovery_codes (user_id, code_hash) VALUES (?, 'x')`, h.otto.ID)
			h.exec(`UPDATE users SET password_hash = '2f:' || password_hash WHERE id = ?`, h.otto.ID)
			if required {
				h.exec(`INSERT INTO household (key, value) VALUES ('require_second_factor', 'true')`)
			}
			n := h.atOnce(func(s *sqlstore.Stores, i int) error {
				return s.Passkeys.RemovePasskey(h.Context(), h.otto.ID, keys[i%2].ID, rpID, h.otto.SessionStamp, "")
			}, factor.ErrNoPasskey, factor.ErrRequired)
			left, off := len(must(h.Passkeys.Passkeys(h.Context(), h.otto.ID))(h.T)), h.recorded("second_factor_off")
			if required && (n != 1 || left != 1 || off != 0) || !required && (n != 2 || left != 0 || off != 1) {
				h.Errorf("required %t: %d removed, %d left, turned off %d times", required, n, left, off)
			}
			if !required && must(h.Users.ByID(h.Context(), h.otto.ID))(h.T).PasswordHash != h.otto.PasswordHash {
				h.Error("the hash is still marked")
			}
		})
	}
}

func TestPasskey_OnesOfOtherRPIDsAreCounted(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.passkey(h.otto, "a", 0)
		for i := range 3 {
			c := credential(fmt.Sprint(i), 0)
			c.RPID = "home.lan"
			must(h.Passkeys.AddPasskey(h.Context(), h.otto.ID, "old", c, h.otto.SessionStamp, ""))(h.T)
		}
		if diff := cmp.Diff(map[string]int{"home.lan": 3}, must(h.Passkeys.ForeignPasskeys(h.Context(), "home.example.org"))(h.T)); diff != "" {
			h.Errorf("differs (-want +got):\n%s", diff)
		}
	})
}
