package sqlstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

func imported(s *suite) {
	root := s.create("root", user.Admin)
	created := time.Date(2019, 5, 4, 3, 2, 1, 0, time.UTC)
	given := []user.User{
		{New: person("zoe", user.Member)},
		{ID: 7, New: person("anna", user.Admin), CreatedAt: created.In(time.FixedZone("CET", 3600))},
		{ID: 3, New: person("ben", user.Member)},
	}
	before := s.now().Add(-time.Second)
	revocations, err := s.store.Users.Import(s.Context(), given)
	s.ok(err)
	now := s.now().UTC().Truncate(time.Second)
	s.same(s.get(root.ID), root)
	s.same(unstamped(s.get(7)), user.User{ID: 7, New: given[1].New, CreatedAt: created})
	s.same(unstamped(s.get(3)), user.User{ID: 3, New: given[2].New, CreatedAt: now})
	zoe, err := s.store.Users.ByUsername(s.Context(), "zoe")
	s.ok(err)
	s.same(unstamped(zoe), user.User{ID: 8, New: given[0].New, CreatedAt: now})

	s.same(len(s.pending(before)), 0)
	s.same(s.pending(s.now().Add(time.Hour)), revocations)
	var ids []int64
	for _, r := range revocations {
		s.same(r, user.Revocation{ID: r.ID, UserID: r.UserID, RecordedAt: now})
		ids = append(ids, r.UserID)
	}
	slices.Sort(ids)
	s.same(ids, []int64{3, 7})
	revocations, err = s.store.Users.Import(s.Context(), nil)
	s.ok(err)
	s.same(len(revocations), 0)
}

func idsAfterImport(s *suite) {
	_, err := s.store.Users.Import(s.Context(), []user.User{{ID: 41, New: person("anna", user.Admin)}})
	s.ok(err)
	if next := s.create("ben", user.Member); next.ID <= 41 {
		s.Fatalf("id %d was given after 41", next.ID)
	}
	last := s.create("zoe", user.Member)
	_, err = s.store.Users.Import(s.Context(), []user.User{{ID: 12, New: person("carl", user.Member)}})
	s.ok(err)
	if next := s.create("dora", user.Member); next.ID <= last.ID {
		s.Fatalf("id %d was given after %d", next.ID, last.ID)
	}
	_, err = s.store.Users.Import(s.Context(), []user.User{{ID: user.MaxID, New: person("max", user.Member)}})
	s.ok(err)
	s.same(s.get(user.MaxID).Username, "max")
}

func importConflict(s *suite) {
	anna := s.create("Anna", user.Admin)
	all, err := s.store.Users.List(s.Context())
	s.ok(err)
	for want, conflicting := range map[error]user.User{
		user.ErrIDTaken:       {ID: anna.ID, New: person("otto", user.Member)},
		user.ErrUsernameTaken: {ID: 90, New: person("aNNa", user.Member)},
	} {
		for _, other := range []user.User{{ID: 80, New: person("ben", user.Member)}, {New: person("ben", user.Member)}} {
			_, err := s.store.Users.Import(s.Context(), []user.User{other, conflicting})
			s.refused(err, want)
			if !strings.Contains(err.Error(), conflicting.Username) {
				s.Fatalf("%v does not name %s", err, conflicting.Username)
			}
		}
	}
	for _, twice := range []user.User{{ID: 80, New: person("cleo", user.Member)}, {New: person("BEN", user.Member)}} {
		_, err := s.store.Users.Import(s.Context(), []user.User{{ID: 80, New: person("ben", user.Member)}, twice})
		if err == nil {
			s.Fatal("two with the same id or name are imported")
		}
	}
	left, err := s.store.Users.List(s.Context())
	s.ok(err)
	s.same(left, all)
	s.same(len(s.pending(s.now().Add(time.Hour))), 0)
}

// imports races imports of the same users against creations: one import wins,
// and no id is given twice.
func imports(s *suite) {
	errs := s.together(func(ctx context.Context, store *sqlstore.Stores, i int) error {
		if i%2 == 0 {
			_, err := store.Users.Create(ctx, person(fmt.Sprintf("new-%d", i), user.Member), session.Session{})
			return err
		}
		_, err := store.Users.Import(ctx, []user.User{{ID: 1000, New: person("anna", user.Admin)}, {ID: 1001, New: person("ben", user.Member)}})
		return err
	})
	s.same(s.count(errs, user.ErrIDTaken, user.ErrUsernameTaken), atOnce/2+1)
	users, err := s.store.Users.List(s.Context())
	s.ok(err)
	s.same(len(users), atOnce/2+2)
}
