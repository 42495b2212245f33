package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

func (h *household) rename(id int64, name string) error {
	return h.Users.Change(h.Context(), id, user.Change{Username: &name}, h.byAnna())
}

// TestRename_NoNamePassesToAnotherPerson: applications know people by their names.
func TestRename_NoNamePassesToAnotherPerson(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		invite := h.link(link.Link{Kind: link.Invite, Role: "member", Username: "olaf"}, h.anna.ID)
		h.ok(h.rename(h.otto.ID, "ottilie"))
		for _, name := range []string{"otto", "OTTO"} {
			_, err := h.Users.Create(ctx, person(name, user.Member), h.byAnna())
			h.refused("another user", err, user.ErrUsernameTaken)
			_, err = h.Links.CreateLink(ctx, link.Link{Kind: link.Invite, Role: "member", Username: name, Former: true}, "x", h.byAnna())
			h.refused("an invite that permits former names", err, user.ErrUsernameTaken)
			_, err = h.Users.Import(ctx, []user.User{{New: person(name, user.Member)}})
			h.refused("an import", err, user.ErrUsernameTaken)
			h.refused("the admin", h.rename(h.anna.ID, name), user.ErrUsernameFormer)
		}
		_, err := h.Links.Join(ctx, h.invite(), person("otto", user.Member), nil)
		h.refused("who chooses it", err, user.ErrUsernameTaken)
		h.refused("a name that is taken", h.rename(h.otto.ID, "ANNA"), user.ErrUsernameTaken)

		h.ok(h.rename(h.otto.ID, "OTTO")) // their own of before
		h.refused("the name between", h.rename(h.anna.ID, "ottilie"), user.ErrUsernameFormer)
		h.ok(h.rename(h.otto.ID, "otto")) // the letter case
		h.ok(h.rename(h.otto.ID, "olaf"))
		_, err = h.Links.Join(ctx, invite, person("x", user.Member), nil)
		h.refused("the invite for a name that is taken meanwhile", err, user.ErrUsernameTaken)

		must(h.Users.Delete(ctx, h.otto.ID, h.byAnna()))(h.T)
		for _, name := range []string{"otto", "ottilie", "olaf"} {
			h.refused("a name of a deleted user", h.Users.CheckFormer(ctx, name), user.ErrUsernameFormer)
			_, err := h.Links.CreateLink(ctx, link.Link{Kind: link.Invite, Role: "member", Username: name, Former: true}, name, h.byAnna())
			h.ok(err) // as an admin says so
		}
		if h.recorded("username_changed") != 4 {
			h.Errorf("%d renamings recorded", h.recorded("username_changed"))
		}
	})
}

func TestRename_OneOfManyGetsAName(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ids := make([]int64, atOnce)
		for i := range ids {
			ids[i] = must(h.Users.Create(h.Context(), person(fmt.Sprintf("user%d", i), user.Member), session.Session{}))(h.T).ID
		}
		name := "wanted"
		n := h.atOnce(func(s *sqlstore.Stores, i int) error {
			return s.Users.Change(h.Context(), ids[i%len(ids)], user.Change{Username: &name}, session.Session{})
		}, user.ErrUsernameTaken)
		if n != 1 {
			h.Errorf("%d got the name", n)
		}
	})
}

// TestRename_ANameGivenUpIsNotTakenMeanwhile has half of the callers give a name up, and half take it.
func TestRename_ANameGivenUpIsNotTakenMeanwhile(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.atOnce(func(s *sqlstore.Stores, i int) error {
			name := "ottilie"
			if i%2 == 0 {
				_, err := s.Users.Create(h.Context(), person("otto", user.Member), session.Session{})
				return err
			}
			return s.Users.Change(h.Context(), h.otto.ID, user.Change{Username: &name}, session.Session{})
		}, user.ErrUsernameTaken)
		if _, err := h.Users.ByUsername(h.Context(), "otto"); !errors.Is(err, user.ErrNotFound) {
			h.Errorf("another person has the name: %v", err)
		}
	})
}

func TestDisabled_AccountOpensNothing(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Applications.CreateApplication(ctx, app("dav"), application.Icon{}, h.byAnna()))
		_, hash := h.newToken(h.otto.ID, "dav")
		reset := h.reset()
		r := must(h.Users.Disable(ctx, h.otto.ID, h.byAnna()))(h.T)
		otto := h.present()
		if r.UserID != h.otto.ID || !otto.Closed(h.now) || otto.Admits(otto.SessionStamp, "", h.now) {
			h.Errorf("got %+v, %+v", r, otto)
		}
		h.invalid("a token of a disabled user", hash)
		if _, err := h.Links.Link(ctx, link.Reset, reset); !errors.Is(err, link.ErrInvalid) {
			h.Errorf("the reset link is %v", err)
		}
		must(h.Users.Disable(ctx, h.otto.ID, h.byAnna()))(h.T)
		_, err := h.Users.Disable(ctx, h.anna.ID, session.Session{})
		h.refused("the last admin", err, user.ErrLastAdmin)
		_, err = h.Users.Disable(ctx, h.anna.ID, h.byOtto())
		h.refused("by a member", err, user.ErrNotAdmin)
		h.refused("enabled by a member", h.Users.Enable(ctx, h.otto.ID, h.byOtto()), user.ErrNotAdmin)
		_, err = h.Users.Disable(ctx, 1<<40, h.byAnna())
		h.refused("nobody", err, user.ErrNotFound)
		for range 2 {
			h.ok(h.Users.Enable(ctx, h.otto.ID, h.byAnna()))
		}
		if h.present().Closed(h.now) || h.recorded("user_disabled") != 1 || h.recorded("user_enabled") != 1 {
			h.Errorf("events: %v", h.events())
		}
		if _, _, _, err := h.Tokens.TokenVisitor(ctx, hash); err != nil {
			h.Errorf("the token of an enabled user: %v", err)
		}
	})
}

// TestDisabled_AdminIsNoneMeanwhile: they neither act nor count.
func TestDisabled_AdminIsNoneMeanwhile(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Users.SetRole(ctx, h.otto.ID, user.Admin))
		invite := h.link(link.Link{Kind: link.Invite, Role: "member"}, h.otto.ID)
		must(h.Users.Disable(ctx, h.otto.ID, h.byAnna()))(h.T)
		_, err := h.Users.Create(ctx, person("ben", user.Member), h.byOtto())
		h.refused("a disabled admin", err, user.ErrNotAdmin)
		_, err = h.Users.Delete(ctx, h.anna.ID, h.byAnna())
		h.refused("the only admin who is not disabled", err, user.ErrLastAdmin)
		h.refused("their demotion", h.Users.SetRole(ctx, h.anna.ID, user.Member), user.ErrLastAdmin)
		if _, err := h.Links.Link(ctx, link.Invite, invite); !errors.Is(err, link.ErrInvalid) {
			h.Errorf("their invite is %v", err)
		}
	})
}

// disableAdmins has 100 admins, each of whom disables the next.
func disableAdmins(s *suite) {
	admins := s.createAdmins()
	errs := s.together(func(ctx context.Context, store *sqlstore.Stores, i int) error {
		_, err := store.Users.Disable(ctx, admins[(i+1)%atOnce].ID, sessionOf(admins[i], "key"))
		return err
	})
	disabled := s.count(errs, user.ErrNotAdmin, user.ErrLastAdmin)
	users, err := s.store.Users.List(s.Context())
	s.ok(err)
	open := len(slices.DeleteFunc(users, func(u user.User) bool { return u.Closed(s.now()) }))
	if open != atOnce-disabled || disabled == 0 || open == 0 {
		s.Fatalf("%d of %d admins disabled, %d open", disabled, atOnce, open)
	}
}

// leaveOrDisable has half of 100 admins delete their own account, and the operator disable the others.
func leaveOrDisable(s *suite) {
	admins := s.createAdmins()
	errs := s.together(func(ctx context.Context, store *sqlstore.Stores, i int) (err error) {
		if i%2 == 0 {
			_, err = store.Users.Delete(ctx, admins[i].ID, sessionOf(admins[i], "key"))
		} else {
			_, err = store.Users.Disable(ctx, admins[i].ID, session.Session{})
		}
		return err
	})
	s.same(s.count(errs, user.ErrLastAdmin), atOnce-1)
}

func TestGuest_EndsWithTheirLastDay(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Applications.CreateApplication(ctx, app("dav"), application.Icon{}, h.byAnna()))
		_, hash := h.newToken(h.otto.ID, "dav")
		ends, never, admin, member := h.now.Add(time.Hour).Truncate(time.Second).UTC(), time.Time{}, user.Admin, user.Member
		h.ok(h.Users.Change(ctx, h.otto.ID, user.Change{EndsAt: &ends}, h.byAnna()))
		h.refused("by themselves", h.Users.Change(ctx, h.otto.ID, user.Change{EndsAt: &never}, h.byOtto()), user.ErrNotAdmin)
		h.refused("a guest who becomes an admin", h.Users.Change(ctx, h.otto.ID, user.Change{Role: &admin}, h.byAnna()), user.ErrGuestAdmin)
		h.refused("by command", h.Users.SetRole(ctx, h.otto.ID, admin), user.ErrGuestAdmin)
		h.refused("an admin who becomes a guest", h.Users.Change(ctx, h.anna.ID, user.Change{EndsAt: &ends}, h.byAnna()), user.ErrGuestAdmin)
		if otto := h.present(); !otto.EndsAt.Equal(ends) || otto.Closed(h.now) || must(h.Details(h.otto.ID))(h.T).EndsAt != otto.EndsAt {
			h.Errorf("got %+v", otto)
		}
		h.now = ends
		gone := h.present()
		if !gone.Closed(h.now) {
			h.Error("the guest is still there")
		}
		h.invalid("a token of a guest who has gone", hash)
		h.ok(h.Users.Change(ctx, h.otto.ID, user.Change{EndsAt: &never, Role: &admin}, h.byAnna()))
		if h.present().Admits(gone.SessionStamp, "", h.now) {
			h.Error("a session of before the end is admitted again")
		}
		h.ok(h.Users.Change(ctx, h.otto.ID, user.Change{EndsAt: &ends, Role: &member}, h.byAnna()))
		if h.recorded("guest_changed") != 3 {
			h.Errorf("events: %v", h.events())
		}
	})
}

func TestPicture_IsItsUsersAndGoesWithThem(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Users.SetPicture(ctx, h.otto.ID, []byte("one"), h.otto.ID))
		first := h.present().Picture
		h.ok(h.Users.SetPicture(ctx, h.otto.ID, []byte("two"), h.otto.ID))
		second := h.present().Picture
		if got, err := h.Users.Picture(ctx, h.otto.ID, second); err != nil || string(got) != "two" {
			h.Errorf("got %q, %v", got, err)
		}
		for what, wrong := range map[string]struct {
			id   int64
			hash string
		}{"an earlier one": {h.otto.ID, first}, "another user's": {h.anna.ID, second}, "none": {h.anna.ID, ""}} {
			_, err := h.Users.Picture(ctx, wrong.id, wrong.hash)
			h.refused(what, err, user.ErrNotFound)
		}
		h.refused("by another member", h.Users.SetPicture(ctx, h.anna.ID, nil, h.otto.ID), user.ErrNotAdmin)
		h.ok(h.Users.SetPicture(ctx, h.otto.ID, nil, h.anna.ID))
		_, err := h.Users.Picture(ctx, h.otto.ID, second)
		h.refused("a removed one", err, user.ErrNotFound)
		h.ok(h.Users.SetPicture(ctx, h.otto.ID, []byte("two"), h.otto.ID))
		must(h.Users.Delete(ctx, h.otto.ID, h.byOtto()))(h.T)
		var left int
		h.ok(h.db.Reader.QueryRowContext(ctx, `SELECT count(*) FROM user_pictures`).Scan(&left))
		h.same(left, 0)
	})
}

func TestHousehold_IsRenamedByAdmins(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.refused("by a member", h.Users.NameHousehold(ctx, "Kern", h.otto.ID), user.ErrNotAdmin)
		for _, name := range []string{"Kern", "Kern", "Familie Kern", ""} {
			h.ok(h.Users.NameHousehold(ctx, name, h.anna.ID))
			h.same(must(h.Users.Household(ctx))(h.T).Name, name)
		}
		if h.recorded("household_renamed") != 3 {
			h.Errorf("events: %v", h.events())
		}
	})
}

// TestUsers_AnEndedSessionChangesNone: the guard may have let it in before it was revoked.
func TestUsers_AnEndedSessionChangesNone(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		anna, otto := h.byAnna(), h.byOtto()
		must(h.Users.EndSessions(ctx, h.anna.ID, session.Session{}))(h.T)
		must(h.Users.EndSessions(ctx, h.otto.ID, session.Session{}))(h.T)
		before := h.events()
		name, admin, member := "x", user.Admin, user.Member
		_, err := h.Users.Create(ctx, person("ben", user.Admin), anna)
		h.refused("a new user", err, session.ErrNotFound)
		for what, c := range map[string]user.Change{
			"a role": {Role: &admin}, "a role taken": {Role: &member}, "groups": {Groups: &[]string{}},
			"a name": {Username: &name},
		} {
			h.refused(what, h.Users.Change(ctx, h.otto.ID, c, anna), session.ErrNotFound)
		}
		h.refused("an own name", h.Users.Change(ctx, h.otto.ID, user.Change{DisplayName: &name}, otto), session.ErrNotFound)
		_, err = h.Users.Disable(ctx, h.otto.ID, anna)
		h.refused("an account closed", err, session.ErrNotFound)
		h.refused("and opened", h.Users.Enable(ctx, h.otto.ID, anna), session.ErrNotFound)
		_, err = h.Users.EndSessions(ctx, h.otto.ID, anna)
		h.refused("all sessions ended", err, session.ErrNotFound)
		for what, by := range map[string]session.Session{"another account": anna, "the own account": otto} {
			_, err = h.Users.Delete(ctx, h.otto.ID, by)
			h.refused(what, err, session.ErrNotFound)
		}
		h.same(h.events(), before)
	})
}

// TestUsers_AnEndedSessionCreatesNone has many users under way while the sessions of their admin end.
func TestUsers_AnEndedSessionCreatesNone(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ended, kept := h.byAnna(), h.byAnna()
		kept.Key = "kept"
		h.atOnce(func(s *sqlstore.Stores, i int) error {
			if i == 0 {
				_, err := s.Users.EndOthers(h.Context(), kept)
				return err
			}
			_, err := s.Users.Create(h.Context(), person(fmt.Sprintf("user%d", i), user.Admin), ended)
			return err
		}, session.ErrNotFound)
		events := h.events()
		if after := events[slices.Index(events, "sessions_ended")+1:]; len(after) > 0 {
			h.Errorf("%d users were created afterwards", len(after))
		}
	})
}
