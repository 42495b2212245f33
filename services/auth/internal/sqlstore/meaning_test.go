package sqlstore_test

import (
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// testMeaning checks the meaning of every method on stores that open returns.
func testMeaning(t *testing.T, open opener) {
	tests := map[string]func(*suite){
		"a created user is found by id and by name as it was given":    found,
		"any text is kept as it is":                                    verbatim,
		"any string may be looked up as a name":                        anyName,
		"a username is unique in any letter case":                      unique,
		"an id is never given again":                                   idsGrow,
		"only the first user is created as the first":                  first,
		"the list is complete and by id":                               list,
		"a password is set only over the hash that was verified":       setPassword,
		"a password is reset over any hash":                            resetPassword,
		"what ends sessions sets another stamp, and nothing else does": stamps,
		"a rehash leaves sessions alone and needs the old hash":        rehash,
		"a role changes, and the last admin keeps it":                  setRole,
		"a user is deleted once, and never the last admin":             remove,
		"only the user, an admin or the operator deletes":              removeBy,
		"only an admin or the operator creates":                        createBy,
		"revocations are pending until done, the oldest first":         revocations,
		"a change that is refused leaves no revocation":                refusedChange,
		"what is unknown is not found":                                 unknown,
		"pending revocations come in portions and all of them come":    portions,
		"a cancelled deletion is either done or reported as failed":    cancelled,
		"imported users keep what they had":                            imported,
		"ids go on above the imported ones":                            idsAfterImport,
		"an import is all or nothing":                                  importConflict,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(newSuite(t, open)) })
	}
}

func found(s *suite) {
	u := s.create("anna", user.Admin)
	want := user.User{ID: u.ID, New: person("anna", user.Admin), CreatedAt: time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)}
	s.same(unstamped(u), want)
	s.same(s.get(u.ID), u)
	byName, err := s.store.Users.ByUsername(s.Context(), "anna")
	s.ok(err)
	s.same(byName, u)
	if u.CreatedAt.Location() != time.UTC || byName.CreatedAt.Location() != time.UTC {
		s.Fatal("created_at is not in UTC")
	}
}

func createBy(s *suite) {
	admin, member := s.create("root", user.Admin), s.create("anna", user.Member)
	_, err := s.store.Users.Create(s.Context(), person("ben", user.Member), sessionOf(admin, "key"))
	s.ok(err)
	for _, by := range []int64{member.ID, 4711, -1} {
		of := session.Session{Ref: session.Ref{UserID: by}}
		_, err := s.store.Users.Create(s.Context(), person("carl", user.Member), of)
		s.refused(err, user.ErrNotAdmin)
	}
	_, err = s.store.Users.ByUsername(s.Context(), "carl")
	s.refused(err, user.ErrNotFound)
}

func verbatim(s *suite) {
	for i, name := range []string{"Zo\u00eb", "Zoe\u0308", "👩‍👩‍👧 Familie", "O'Brien; DROP TABLE users;--", `"quoted" \ %_?$1`, "مرحبا"} {
		n := person("user"+string(rune('a'+i)), user.Member)
		n.DisplayName, n.PasswordHash, n.AvatarColor = name, "$2a$12$"+name, "#aBc"
		u, err := s.store.Users.Create(s.Context(), n, session.Session{})
		s.ok(err)
		s.same(s.get(u.ID).New, n)
	}
}

func anyName(s *suite) {
	s.create("anna", user.Member)
	for _, name := range []string{"", "Anna", "ANNA", "ann", "anna ", "ann%", "anna\x00", "\x00", "\xff\xfe", "' OR 1=1 --", "a?na", "\u0430nna", "ann\u212a"} {
		_, err := s.store.Users.ByUsername(s.Context(), name)
		s.refused(err, user.ErrNotFound)
	}
}

func unique(s *suite) {
	s.create("Anna.B", user.Member)
	for _, name := range []string{"Anna.B", "anna.b", "ANNA.B"} {
		_, err := s.store.Users.Create(s.Context(), person(name, user.Member), session.Session{})
		s.refused(err, user.ErrUsernameTaken)
	}
	s.create("anna_b", user.Member)
}

func idsGrow(s *suite) {
	s.create("root", user.Admin)
	last := s.create("anna", user.Member)
	_, err := s.store.Users.Delete(s.Context(), last.ID, session.Session{})
	s.ok(err)
	if again := s.create("anna", user.Member); again.ID <= last.ID {
		s.Fatalf("id %d was given after %d", again.ID, last.ID)
	}
}

func first(s *suite) {
	u, err := s.store.Users.CreateFirst(s.Context(), person("root", user.Admin))
	s.ok(err)
	s.same(s.get(u.ID), u)
	_, err = s.store.Users.CreateFirst(s.Context(), person("other", user.Admin))
	s.refused(err, user.ErrNotEmpty)
}

func list(s *suite) {
	users, err := s.store.Users.List(s.Context())
	s.ok(err)
	s.same(len(users), 0)
	want := []user.User{s.create("zoe", user.Admin), s.create("anna", user.Member), s.create("mia", user.Member)}
	users, err = s.store.Users.List(s.Context())
	s.ok(err)
	s.same(users, want)
}

func setPassword(s *suite) {
	u, other := s.create("anna", user.Member), s.create("ben", user.Member)
	r, err := s.store.Users.SetPasswordHash(s.Context(), sessionOf(u, "key"), u.PasswordHash, "new")
	s.ok(err)
	s.same(r, user.Revocation{ID: r.ID, UserID: u.ID, KeepSession: "key", RecordedAt: s.now().UTC().Truncate(time.Second)})
	s.same(s.get(u.ID).PasswordHash, "new")
	s.same(s.get(other.ID), other)
	_, err = s.store.Users.SetPasswordHash(s.Context(), sessionOf(u, "key"), u.PasswordHash, "newer")
	s.refused(err, user.ErrChanged)
	s.same(s.get(u.ID).PasswordHash, "new")
}

func resetPassword(s *suite) {
	u, other := s.create("anna", user.Member), s.create("ben", user.Member)
	r, err := s.store.Users.ResetPassword(s.Context(), u.ID, "reset")
	s.ok(err)
	s.same(r, user.Revocation{ID: r.ID, UserID: u.ID, RecordedAt: r.RecordedAt})
	s.same(s.get(u.ID).PasswordHash, "reset")
	s.same(s.get(other.ID), other)
}

func rehash(s *suite) {
	u := s.create("anna", user.Member)
	s.ok(s.store.Users.Rehash(s.Context(), u.ID, u.PasswordHash, "better"))
	s.same(s.get(u.ID).PasswordHash, "better")
	s.refused(s.store.Users.Rehash(s.Context(), u.ID, u.PasswordHash, "lost"), user.ErrChanged)
	s.same(s.get(u.ID).PasswordHash, "better")
	s.same(len(s.pending(s.now().Add(time.Hour))), 0)
}

func setRole(s *suite) {
	root, anna := s.create("root", user.Admin), s.create("anna", user.Member)
	s.refused(s.store.Users.SetRole(s.Context(), root.ID, user.Member), user.ErrLastAdmin)
	s.ok(s.store.Users.SetRole(s.Context(), anna.ID, user.Admin))
	s.ok(s.store.Users.SetRole(s.Context(), root.ID, user.Member))
	s.same([]user.Role{s.get(root.ID).Role, s.get(anna.ID).Role}, []user.Role{user.Member, user.Admin})
	for range 2 { // the present role again
		s.ok(s.store.Users.SetRole(s.Context(), anna.ID, user.Admin))
		s.ok(s.store.Users.SetRole(s.Context(), root.ID, user.Member))
	}
}

func remove(s *suite) {
	root, anna := s.create("root", user.Admin), s.create("anna", user.Member)
	_, err := s.store.Users.Delete(s.Context(), root.ID, session.Session{})
	s.refused(err, user.ErrLastAdmin)
	r, err := s.store.Users.Delete(s.Context(), anna.ID, sessionOf(root, "key"))
	s.ok(err)
	s.same(r, user.Revocation{ID: r.ID, UserID: anna.ID, RecordedAt: r.RecordedAt})
	_, err = s.store.Users.ByUsername(s.Context(), "anna")
	s.refused(err, user.ErrNotFound)
	_, err = s.store.Users.Delete(s.Context(), anna.ID, sessionOf(root, "key"))
	s.refused(err, user.ErrNotFound)
	second := s.create("second", user.Admin)
	_, err = s.store.Users.Delete(s.Context(), root.ID, sessionOf(second, "key"))
	s.ok(err)
	s.same(s.admins(), 1)
}

func removeBy(s *suite) {
	root, gone := s.create("root", user.Admin), s.create("gone", user.Admin)
	anna, ben := s.create("anna", user.Member), s.create("ben", user.Member)
	_, err := s.store.Users.Delete(s.Context(), gone.ID, sessionOf(root, "key"))
	s.ok(err)
	for _, by := range []int64{ben.ID, gone.ID, 1 << 40, -1} {
		_, err := s.store.Users.Delete(s.Context(), anna.ID, session.Session{Ref: session.Ref{UserID: by}})
		s.refused(err, user.ErrNotAdmin)
	}
	_, err = s.store.Users.Delete(s.Context(), anna.ID, session.Session{})
	s.ok(err)
	_, err = s.store.Users.Delete(s.Context(), ben.ID, sessionOf(ben, "key")) // one's own account
	s.ok(err)
}

func unknown(s *suite) {
	s.create("root", user.Admin)
	for _, id := range []int64{0, -1, 1 << 40, 1<<63 - 1} {
		_, err := s.store.Users.ByID(s.Context(), id)
		s.refused(err, user.ErrNotFound)
		_, err = s.store.Users.SetPasswordHash(s.Context(), sessionOf(user.User{ID: id}, ""), "old", "new")
		s.refused(err, user.ErrNotFound)
		_, err = s.store.Users.ResetPassword(s.Context(), id, "new")
		s.refused(err, user.ErrNotFound)
		s.refused(s.store.Users.Rehash(s.Context(), id, "old", "new"), user.ErrNotFound)
		for _, role := range []user.Role{user.Admin, user.Member} {
			s.refused(s.store.Users.SetRole(s.Context(), id, role), user.ErrNotFound)
		}
		_, err = s.store.Users.Delete(s.Context(), id, session.Session{})
		s.refused(err, user.ErrNotFound)
		s.ok(s.store.Users.RevocationDone(s.Context(), id))
	}
}
