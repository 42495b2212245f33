package account_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// record is one that may be imported.
func (r *rules) record(where, id, username string) user.Record {
	r.t.Helper()
	hash, err := r.hasher.Hash(r.t.Context(), oldPass)
	if err != nil {
		r.t.Fatal(err)
	}
	return user.Record{Where: where, ID: id, Username: username, DisplayName: "The " + username, PasswordHash: "$2b$" + hash[4:]}
}

func (r *rules) check(records ...user.Record) ([]user.User, []string) {
	r.t.Helper()
	users, faults, err := r.people.CheckImport(r.t.Context(), records)
	if err != nil {
		r.t.Fatal(err)
	}
	var lines []string
	for _, fault := range faults {
		lines = append(lines, fault.String())
	}
	if (len(lines) > 0) == (len(users) > 0) {
		r.t.Errorf("%d users and %d faults", len(users), len(lines))
	}
	return users, lines
}

func TestImport_UsersLogInWithTheirOldPasswords(t *testing.T) {
	r := newRules(t)
	ben := r.record("line 3", "", "ben")
	anna := r.record("line 2", "7", "anna")
	anna.DisplayName, anna.AvatarColor, anna.Role, anna.CreatedAt = " Anna ", "#ABC", "admin", "2020-01-02 03:04:05"
	users, _ := r.check(ben, anna)
	want := []user.User{
		{New: user.New{Username: "ben", DisplayName: "The ben", PasswordHash: ben.PasswordHash, AvatarColor: user.DefaultAvatarColor, Role: user.Member}},
		{ID: 7, CreatedAt: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC), New: user.New{Username: "anna", DisplayName: "Anna", PasswordHash: anna.PasswordHash, AvatarColor: "#ABC", Role: user.Admin}},
	}
	if diff := cmp.Diff(want, users); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
	if err := r.people.Import(t.Context(), users); err != nil {
		t.Fatal(err)
	}
	for name, id := range map[string]int64{"anna": 7, "ben": 8} {
		s, err := r.login(name, oldPass)
		if err != nil || s.UserID != id {
			t.Errorf("%s is %d, %v", name, s.UserID, err)
		}
		if _, err := r.login(name, newPass); !errors.Is(err, account.ErrInvalidCredentials) {
			t.Errorf("%s with a wrong password: %v", name, err)
		}
	}
	if _, faults := r.check(ben, anna); len(faults) != 3 {
		t.Errorf("a second time: %q", faults)
	}
}

func TestImport_ReportsEveryFaultByPlaceWithoutFields(t *testing.T) {
	r := newRules(t)
	there := r.add("Otto")
	good := r.record("line 2", "40", "anna")
	sameID, sameName, taken := r.record("line 3", "40", "ben"), r.record("line 4", "", "ANNA"), r.record("line 5", fmt.Sprint(there.ID), "otto")
	wrong := user.Record{Where: "line 6", ID: "x", Username: "$2b$", DisplayName: "\x00", PasswordHash: "secret", AvatarColor: "red", Role: "owner", CreatedAt: "then"}
	_, faults := r.check(good, sameID, sameName, taken, wrong, user.Record{Where: "line 7"})
	want := []string{
		"line 3: id is taken by line 2",
		"line 4: username is taken by line 2",
		"line 5: id is taken by an existing user",
		"line 5: username is taken by an existing user",
		"line 6: " + user.ErrID.Error(),
		"line 6: " + user.ErrUsername.Error(),
		"line 6: " + user.ErrDisplayName.Error(),
		"line 6: " + password.ErrHash.Error(),
		"line 6: " + user.ErrRole.Error(),
		"line 6: " + user.ErrAvatarColor.Error(),
		"line 6: " + user.ErrCreatedAt.Error(),
		"line 7: " + user.ErrUsername.Error(),
		"line 7: " + user.ErrDisplayName.Error(),
		"line 7: " + password.ErrHash.Error(),
	}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}

func TestImport_RefusesAHashThatTakesTooLong(t *testing.T) {
	r := newRules(t)
	rest := "$" + strings.Repeat("a", 53)
	record := func(cost string) user.Record {
		return user.Record{Where: "cost " + cost, Username: "user" + cost, DisplayName: "x", PasswordHash: "$2b$" + cost + rest}
	}
	_, faults := r.check(record("04"), record("14"), record("15"), record("31"))
	if diff := cmp.Diff([]string{"cost 15: " + password.ErrHashCost.Error(), "cost 31: " + password.ErrHashCost.Error()}, faults); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}

func TestImport_TakesEveryBcryptHashAndNoOther(t *testing.T) {
	r := newRules(t)
	record := r.record("line 2", "", "anna")
	good := record.PasswordHash[4:]
	for hash, ok := range map[string]bool{
		"$2a$" + good: true, "$2b$" + good: true, "$2y$" + good: true, "$2b$14$" + good[3:]: true, "$2b$04$" + good[3:]: true,
		"": false, "$2x$" + good: false, "$1$" + good: false, "$2b$" + good[1:]: false, "$2b$" + good[:len(good)-1] + "!": false,
		"$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$aGFzaA": false, strings.Repeat("a", 60): false,
	} {
		record.PasswordHash = hash
		if _, faults := r.check(record); (len(faults) == 0) != ok {
			t.Errorf("%q: %q", hash, faults)
		}
	}
}

func TestImport_EndsTheSessionsUnderItsIDs(t *testing.T) {
	r := newRules(t)
	gone := r.add("gone")
	s, err := r.login("gone", oldPass)
	if err != nil {
		t.Fatal(err)
	}
	users, _ := r.check(r.record("line 2", fmt.Sprint(gone.ID+1), "anna"))
	if err := r.people.Import(t.Context(), users); err != nil || !r.alive(s) {
		t.Fatalf("a session of another user ended, or %v", err)
	}
	r.sessions.away.Store(true)
	if err := r.remove("anna"); !errors.Is(err, account.ErrPending) && !errors.Is(err, user.ErrLastAdmin) {
		t.Fatalf("got %v", err)
	}
	if err := r.remove("gone"); !errors.Is(err, account.ErrPending) {
		t.Fatalf("got %v", err)
	}
	r.sessions.away.Store(false)
	users, _ = r.check(r.record("line 2", fmt.Sprint(gone.ID), "new"))
	if err := r.people.Import(t.Context(), users); err != nil || r.alive(s) {
		t.Errorf("the session of the id's last user lives: %v", err)
	}
}
