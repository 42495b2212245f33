package sqlstore_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

func TestUser_IsChangedByThemselvesAndByAdmins(t *testing.T) {
	name, color, admin, member := "Otto B.", "#123456", user.Admin, user.Member
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		if err := h.Users.Change(ctx, h.otto.ID, user.Change{DisplayName: &name}, h.byOtto()); err != nil {
			h.Errorf("by himself: %v", err)
		}
		if err := h.Users.Change(ctx, h.otto.ID, user.Change{AvatarColor: &color}, h.byAnna()); err != nil {
			h.Errorf("by an admin: %v", err)
		}
		for what, err := range map[string]error{
			"a member changes their role":   h.Users.Change(ctx, h.otto.ID, user.Change{Role: &admin}, h.byOtto()),
			"a member demotes an admin":     h.Users.Change(ctx, h.anna.ID, user.Change{Role: &member}, h.byOtto()),
			"a member changes another user": h.Users.Change(ctx, h.anna.ID, user.Change{DisplayName: &name}, h.byOtto()),
		} {
			if !errors.Is(err, user.ErrNotAdmin) {
				h.Errorf("%s: %v", what, err)
			}
		}
		if err := h.Users.Change(ctx, h.anna.ID, user.Change{DisplayName: &name, Role: &member}, h.byAnna()); !errors.Is(err, user.ErrLastAdmin) {
			h.Errorf("the last admin: %v", err)
		}
		if err := h.Users.Change(ctx, 1<<40, user.Change{DisplayName: &name}, h.byAnna()); !errors.Is(err, user.ErrNotFound) {
			h.Errorf("an unknown user: %v", err)
		}
		if anna := must(h.Users.ByID(ctx, h.anna.ID))(h.T); anna.DisplayName == name {
			h.Error("a refused change was made in part")
		}
		before := len(must(h.Audit.Entries(ctx, everything))(h.T))
		otto := must(h.Users.ByID(ctx, h.otto.ID))(h.T)
		if otto.DisplayName != name || otto.AvatarColor != color || otto.Role != member {
			h.Errorf("got %+v", otto)
		}
		if err := h.Users.Change(ctx, h.otto.ID, user.Change{DisplayName: &name, AvatarColor: &color, Role: &member}, h.byAnna()); err != nil {
			h.Error(err)
		}
		if after := len(must(h.Audit.Entries(ctx, everything))(h.T)); after != before {
			h.Errorf("a change of nothing recorded %d entries", after-before)
		}
		if err := h.Users.Change(ctx, h.otto.ID, user.Change{Role: &admin}, h.byAnna()); err != nil || must(h.Users.ByID(ctx, h.otto.ID))(h.T).Role != user.Admin {
			h.Errorf("promotion: %v", err)
		}
	})
}

func TestUser_AdminsWhoDemoteEachOtherLeaveOne(t *testing.T) {
	member := user.Member
	inHouseholds(t, func(h *household) {
		admins := []user.User{h.anna}
		for i := range atOnce - 1 {
			admins = append(admins, must(h.Users.Create(h.Context(), person("admin"+string(rune('a'+i%26))+string(rune('a'+i/26)), user.Admin), session.Session{}))(h.T))
		}
		h.atOnce(func(s *sqlstore.Stores, i int) error {
			return s.Users.Change(h.Context(), admins[(i+1)%atOnce].ID, user.Change{Role: &member}, h.session(admins[i].ID))
		}, user.ErrNotAdmin, user.ErrLastAdmin)
		left := 0
		for _, m := range must(h.Users.Members(h.Context()))(h.T) {
			if m.Role == user.Admin {
				left++
			}
		}
		if left == 0 {
			h.Error("no admin is left")
		}
	})
}

func TestUser_LastLoginIsSeenByAdmins(t *testing.T) {
	inHouseholds(t, func(h *household) {
		if d := must(h.Users.Member(h.Context(), h.otto.ID))(h.T); !d.LastLoginAt.IsZero() || d.SecondFactor || d.Passkeys != 0 || d.Username != "otto" {
			h.Errorf("got %+v", d)
		}
		h.now = start.Add(time.Hour)
		if err := h.Audit.Record(h.Context(), audit.Event{Name: "login", SubjectID: h.otto.ID}); err != nil {
			h.Fatal(err)
		}
		members := must(h.Users.Members(h.Context()))(h.T)
		if len(members) != 2 || members[1].LastLoginAt.Unix() != h.now.Unix() {
			h.Errorf("got %+v", members)
		}
		if _, err := h.Users.Member(h.Context(), 1<<40); !errors.Is(err, user.ErrNotFound) {
			h.Errorf("an unknown user: %v", err)
		}
	})
}

// TestUser_AChangeOfRoleIsRecordedForTheReleaseBefore reads the table as that release does.
func TestUser_AChangeOfRoleIsRecordedForTheReleaseBefore(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx, admin, member := h.Context(), user.Admin, user.Member
		h.ok(h.Users.Change(ctx, h.otto.ID, user.Change{Role: &admin}, h.byAnna()))
		h.ok(h.Users.Change(ctx, h.otto.ID, user.Change{Role: &member}, h.byAnna()))
		h.ok(h.Users.SetRole(ctx, h.otto.ID, user.Member))
		rows, err := h.db.Reader.QueryContext(ctx, `SELECT user_id, kind, keep_session FROM pending_revocations WHERE recorded_at < `+strconv.FormatInt(h.now.Unix()+1, 10)+` ORDER BY id LIMIT 100`)
		type record struct {
			user       int64
			kind, keep string
		}
		records := must(sqldb.All(rows, err, func(row sqldb.Scanner) (r record, err error) {
			err = row.Scan(&r.user, &r.kind, &r.keep)
			return r, err
		}))(h.T)
		if !slices.Equal(records, []record{{h.otto.ID, "role", ""}}) {
			h.Errorf("got %+v", records)
		}
		if pending := must(h.Users.PendingRevocations(ctx, h.now.Add(time.Hour), 0))(h.T); len(pending) != 0 {
			h.Errorf("this release follows %+v", pending)
		}
	})
}
