package sqlstore_test

import (
	"regexp"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// TestSubject_IsOneOfEachUser has 100 ask at once for the first time.
func TestSubject_IsOneOfEachUser(t *testing.T) {
	inHouseholds(t, func(h *household) {
		if d := must(h.Users.Member(h.Context(), h.otto.ID))(h.T); d.Subject != "" {
			h.Errorf("before any application asked: %q", d.Subject)
		}
		told := make([]string, atOnce)
		h.atOnce(func(s *sqlstore.Stores, i int) (err error) {
			told[i], err = s.Users.Subject(h.Context(), h.otto.ID)
			return err
		})
		for _, subject := range told {
			if subject != told[0] {
				h.Fatalf("%s and %s", subject, told[0])
			}
		}
		if !regexp.MustCompile(`\A[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\z`).MatchString(told[0]) {
			h.Errorf("%q is no random UUID", told[0])
		}
		if d := must(h.Users.Member(h.Context(), h.otto.ID))(h.T); d.Subject != told[0] {
			h.Errorf("admins see %q", d.Subject)
		}
		if other := must(h.Users.Subject(h.Context(), h.anna.ID))(h.T); other == told[0] {
			h.Error("two users have one subject")
		}
		_, err := h.Users.Subject(h.Context(), 1<<40)
		h.refused("an unknown user", err, user.ErrNotFound)
	})
}

func TestEmail_OneOfManyGetsAnAddress(t *testing.T) {
	inHouseholds(t, func(h *household) {
		address := "wanted@example.org"
		users := []user.User{h.otto}
		for range atOnce - 1 {
			users = append(users, must(h.Users.Create(h.Context(), person("user"+user.NewSessionStamp()[:8], user.Member), session.Session{}))(h.T))
		}
		n := h.atOnce(func(s *sqlstore.Stores, i int) error {
			return s.Users.Change(h.Context(), users[i].ID, user.Change{Email: &address}, h.session(users[i].ID))
		}, user.ErrEmailTaken)
		if n != 1 {
			h.Errorf("%d have the address", n)
		}
		h.refused("a member who confirms", h.Users.Change(h.Context(), h.otto.ID, user.Change{Email: &address, ConfirmsEmail: true}, h.byOtto()), user.ErrNotAdmin)
	})
}
