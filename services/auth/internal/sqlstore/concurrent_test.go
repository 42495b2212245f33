package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// testConcurrency checks what happens when 100 callers do something at once.
func testConcurrency(t *testing.T, open opener) {
	tests := map[string]func(*suite){
		"one of many creates a name, whatever its letter case": createOnce,
		"one of many is the first user":                        firstOnce,
		"one of many sets a password over the same old one":    setPasswordOnce,
		"admins who delete one another leave one":              deleteAdmins,
		"two admins delete each other: one succeeds":           deleteEachOther,
		"admins who are demoted at once leave one":             demoteAdmins,
		"deletion and demotion at once leave an admin":         deleteAndDemote,
		"a user is deleted once":                               deleteOnce,
		"admins who disable one another leave one":             disableAdmins,
		"admins who leave or are disabled at once leave one":   leaveOrDisable,
		"many users are created at once":                       createMany,
		"each of many readers gets the requested user":         readMany,
		"an admin who is deleted creates no more users":        createWhileDeleted,
		"an admin who is demoted creates no more users":        createWhileDemoted,
		"one of many imports the same users":                   imports,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(newSuite(t, open)) })
	}
}

func createOnce(s *suite) {
	names := []string{"anna", "Anna", "ANNA", "aNNa"}
	errs := s.together(func(ctx context.Context, store *sqlstore.Stores, i int) error {
		_, err := store.Users.Create(ctx, person(names[i%len(names)], user.Member), session.Session{})
		return err
	})
	s.same(s.count(errs, user.ErrUsernameTaken), 1)
}

func firstOnce(s *suite) {
	errs := s.together(func(ctx context.Context, store *sqlstore.Stores, i int) error {
		_, err := store.Users.CreateFirst(ctx, person("root"+strconv.Itoa(i), user.Admin))
		return err
	})
	s.same(s.count(errs, user.ErrNotEmpty), 1)
	s.same(s.admins(), 1)
}

func setPasswordOnce(s *suite) {
	u := s.create("anna", user.Member)
	errs := s.together(func(ctx context.Context, store *sqlstore.Stores, i int) error {
		_, err := store.Users.SetPasswordHash(ctx, sessionOf(u, "kept"), u.PasswordHash, "new"+strconv.Itoa(i))
		return err
	})
	s.same(s.count(errs, user.ErrChanged), 1)
	for i, err := range errs {
		if err == nil {
			s.same(s.get(u.ID).PasswordHash, "new"+strconv.Itoa(i))
		}
	}
}

// deleteAdmins has 100 admins, each of whom deletes the next.
func deleteAdmins(s *suite) {
	admins := s.createAdmins()
	errs := s.together(func(ctx context.Context, store *sqlstore.Stores, i int) error {
		_, err := store.Users.Delete(ctx, admins[(i+1)%atOnce].ID, sessionOf(admins[i], "key"))
		return err
	})
	deleted := s.count(errs, user.ErrNotAdmin, user.ErrLastAdmin)
	s.same(s.admins(), atOnce-deleted)
	if deleted == 0 || deleted == atOnce {
		s.Fatalf("%d of %d admins deleted", deleted, atOnce)
	}
}

func deleteEachOther(s *suite) {
	a, b := s.create("a-admin", user.Admin), s.create("b-admin", user.Admin)
	s.create("third", user.Admin)
	errs := s.together(func(ctx context.Context, store *sqlstore.Stores, i int) error {
		target, by := a, b
		if i%2 == 0 {
			target, by = b, a
		}
		_, err := store.Users.Delete(ctx, target.ID, sessionOf(by, "key"))
		return err
	})
	s.same(s.count(errs, user.ErrNotAdmin, user.ErrNotFound), 1)
	s.same(s.admins(), 2)
}

func demoteAdmins(s *suite) {
	admins := s.createAdmins()
	errs := s.together(func(ctx context.Context, store *sqlstore.Stores, i int) error {
		return store.Users.SetRole(ctx, admins[i].ID, user.Member)
	})
	s.same(s.count(errs, user.ErrLastAdmin), atOnce-1)
	s.same(s.admins(), 1)
}

func deleteAndDemote(s *suite) {
	admins := s.createAdmins()
	errs := s.together(func(ctx context.Context, store *sqlstore.Stores, i int) (err error) {
		if i%2 == 0 {
			_, err = store.Users.Delete(ctx, admins[i].ID, session.Session{})
		} else {
			err = store.Users.SetRole(ctx, admins[i].ID, user.Member)
		}
		return err
	})
	s.same(s.count(errs, user.ErrLastAdmin), atOnce-1)
	s.same(s.admins(), 1)
}

func deleteOnce(s *suite) {
	root, u := s.create("root", user.Admin), s.create("anna", user.Member)
	errs := s.together(func(ctx context.Context, store *sqlstore.Stores, _ int) error {
		_, err := store.Users.Delete(ctx, u.ID, sessionOf(root, "key"))
		return err
	})
	s.same(s.count(errs, user.ErrNotFound), 1)
}

func createMany(s *suite) {
	errs := s.together(func(ctx context.Context, store *sqlstore.Stores, i int) error {
		_, err := store.Users.Create(ctx, person("user"+strconv.Itoa(i), user.Member), session.Session{})
		return err
	})
	s.same(s.count(errs), atOnce)
	users, err := s.store.Users.List(s.Context())
	s.ok(err)
	s.same(len(users), atOnce)
}

// readMany reads few users, and one that does not exist, at once.
func readMany(s *suite) {
	people := make([]user.User, 3)
	for i := range people {
		people[i] = s.create("user"+strconv.Itoa(i), user.Member)
	}
	for range 20 {
		errs := s.together(func(ctx context.Context, store *sqlstore.Stores, i int) error {
			if i%4 == len(people) {
				_, err := store.Users.ByID(ctx, 1<<40)
				return err
			}
			want := people[i%4]
			if got, err := store.Users.ByID(ctx, want.ID); err != nil || got.Username != want.Username {
				return fmt.Errorf("looked up %s, got %q, %w", want.Username, got.Username, err)
			}
			return nil
		})
		s.same(s.count(errs, user.ErrNotFound), atOnce*3/4)
	}
}

func createWhileDeleted(s *suite) {
	root := s.create("root", user.Admin)
	createWhile(s, func(ctx context.Context, store *sqlstore.Stores, admin int64) error {
		_, err := store.Users.Delete(ctx, admin, sessionOf(root, "key"))
		return err
	})
}

func createWhileDemoted(s *suite) {
	s.create("root", user.Admin)
	createWhile(s, func(ctx context.Context, store *sqlstore.Stores, admin int64) error {
		return store.Users.SetRole(ctx, admin, user.Member)
	})
}

// createWhile has an admin create users while they cease to be one.
func createWhile(s *suite, cease func(ctx context.Context, store *sqlstore.Stores, admin int64) error) {
	admin := s.create("admin", user.Admin)
	var ceased atomic.Bool
	errs := s.together(func(ctx context.Context, store *sqlstore.Stores, i int) error {
		if i == atOnce/2 {
			err := cease(ctx, store, admin.ID)
			ceased.Store(true)
			return err
		}
		tooLate := ceased.Load()
		_, err := store.Users.Create(ctx, person("user"+strconv.Itoa(i), user.Member), sessionOf(admin, "key"))
		if err == nil && tooLate {
			return errors.New("created a user after losing the role")
		}
		return err
	})
	s.count(errs, user.ErrNotAdmin)
	_, err := s.store.Users.Create(s.Context(), person("late", user.Member), sessionOf(admin, "key"))
	s.refused(err, user.ErrNotAdmin)
}

func (s *suite) createAdmins() []user.User {
	s.Helper()
	admins := make([]user.User, atOnce)
	for i := range admins {
		admins[i] = s.create("admin"+strconv.Itoa(i), user.Admin)
	}
	return admins
}
