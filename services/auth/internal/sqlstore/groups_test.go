package sqlstore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// groups returns "slug name members" of all groups.
func (h *household) groups() (all []string) {
	h.Helper()
	for _, g := range must(h.Groups.Groups(h.Context()))(h.T) {
		all = append(all, fmt.Sprint(g.Slug, " ", g.Name, " ", g.MemberIDs, g.Members))
	}
	return all
}

// inviteTo creates an invite to groups.
func (h *household) inviteTo(groups ...string) string {
	return h.link(link.Link{Kind: link.Invite, Role: "member", Groups: groups}, h.anna.ID)
}

// invitedTo returns the groups of all open invites.
func (h *household) invitedTo() (all []string) {
	h.Helper()
	for _, l := range must(h.Links.Invites(h.Context()))(h.T) {
		all = append(all, l.Groups...)
	}
	return all
}

func TestGroup_IsChangedWholeOrNotAtAll(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		name, none, both := "Küche", []int64{}, []int64{h.otto.ID, h.anna.ID, h.otto.ID}
		h.ok(h.Groups.CreateGroup(ctx, "cooks", "x", both, h.byAnna()))
		h.ok(h.Groups.ChangeGroup(ctx, "cooks", &name, nil, h.byAnna()))
		if got := h.groups(); !slices.Equal(got, []string{"cooks Küche [1 2] [anna otto]"}) {
			h.Errorf("got %q", got)
		}
		events, other, some := h.events(), "y", []int64{h.otto.ID, 1 << 40}
		h.ok(h.Groups.ChangeGroup(ctx, "cooks", &name, &both, h.byAnna())) // changes nothing
		h.refused("an unknown member", h.Groups.ChangeGroup(ctx, "cooks", &other, &some, h.byAnna()), user.ErrNotFound)
		h.refused("a new group's unknown member", h.Groups.CreateGroup(ctx, "new", "x", some, h.byAnna()), user.ErrNotFound)
		h.refused("no group", h.Groups.ChangeGroup(ctx, "x", &other, nil, h.byAnna()), application.ErrGroupNotFound)
		h.refused("by a member", h.Groups.ChangeGroup(ctx, "cooks", &other, &none, h.byOtto()), user.ErrNotAdmin)
		if got := h.groups(); !slices.Equal(got, []string{"cooks Küche [1 2] [anna otto]"}) {
			h.Errorf("after refusals: %q", got)
		}
		if got := h.events(); !slices.Equal(got, events) {
			h.Errorf("recorded %q", got[len(events):])
		}
		h.ok(h.Groups.ChangeGroup(ctx, "cooks", nil, &none, h.byAnna()))
		if got := h.groups(); !slices.Equal(got, []string{"cooks Küche [] []"}) {
			h.Errorf("got %q", got)
		}
	})
}

func TestGroup_ThoseOfAUserAreChangedByAdmins(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		for _, slug := range []string{"cooks", "drivers", "kids"} {
			h.ok(h.Groups.CreateGroup(ctx, slug, slug, nil, h.byAnna()))
		}
		change := func(by int64, groups ...string) error {
			return h.Users.Change(ctx, h.otto.ID, user.Change{Groups: &groups}, h.session(by))
		}
		h.ok(change(h.anna.ID, "kids", "cooks"))
		events := h.events()
		h.ok(change(h.anna.ID, "cooks", "kids")) // changes nothing
		h.refused("by themselves", change(h.otto.ID, "drivers"), user.ErrNotAdmin)
		h.refused("to an unknown group", change(h.anna.ID, "drivers", "nobody"), application.ErrGroupNotFound)
		if got := h.events(); !slices.Equal(got, events) {
			h.Errorf("recorded %q", got[len(events):])
		}
		if got := must(h.Details(h.otto.ID))(h.T).Groups; !slices.Equal(got, []string{"cooks", "kids"}) {
			h.Errorf("in %q", got)
		}
		h.ok(change(h.anna.ID, "drivers", "kids"))
		for _, m := range must(h.Users.Members(ctx))(h.T) {
			if want := map[int64][]string{h.otto.ID: {"drivers", "kids"}}[m.ID]; !slices.Equal(m.Groups, want) {
				h.Errorf("%s is in %q", m.Username, m.Groups)
			}
		}
		if changes := must(h.Audit.Entries(ctx, audit.Query{Event: "groups_changed", Limit: 100}))(h.T); len(changes) != 4 || changes[0].Detail["added"] != "drivers" || changes[1].Detail["removed"] != "cooks" {
			h.Errorf("recorded %+v", changes)
		}
	})
}

func TestInvite_HasGroupsThatExist(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		for _, slug := range []string{"a", "a-b", "b", "kids"} {
			h.ok(h.Groups.CreateGroup(ctx, slug, slug, nil, h.byAnna()))
		}
		_, err := h.Links.CreateLink(ctx, link.Link{Kind: link.Invite, Role: "member", Groups: []string{"a", "x"}}, "hash", h.byAnna())
		h.refused("an unknown group", err, application.ErrGroupNotFound)
		hash := h.inviteTo("a", "a-b", "b", "kids")
		for _, slug := range []string{"a", "b"} {
			h.ok(h.Groups.RemoveGroup(ctx, slug, h.byAnna()))
			h.ok(h.Groups.CreateGroup(ctx, slug, "another", nil, h.byAnna()))
		}
		if got := h.invitedTo(); !slices.Equal(got, []string{"a-b", "kids"}) {
			h.Errorf("invited to %q", got)
		}
		paul := must(h.Links.Join(ctx, hash, person("paul", user.Member), nil))(h.T)
		if got := h.groupsOf(paul.ID); !slices.Equal(got, []string{"a-b", "kids"}) {
			h.Errorf("in %q", got)
		}
		accepted := must(h.Audit.Entries(ctx, audit.Query{Event: "invite_accepted", Limit: 1}))(h.T)
		if len(accepted) != 1 || fmt.Sprint(accepted[0].Detail["groups"]) != "[a-b kids]" {
			h.Errorf("recorded %+v", accepted)
		}
	})
}

// TestGroup_IsRemovedFromEveryPlace removes groups while they are used.
func TestGroup_IsRemovedFromEveryPlace(t *testing.T) {
	inHouseholds(t, func(h *household) {
		for i := range atOnce / 4 {
			h.ok(h.Groups.CreateGroup(h.Context(), fmt.Sprint("g", i), "x", nil, h.byAnna()))
		}
		invites := make([]string, atOnce)
		for i := range invites {
			invites[i] = h.inviteTo(fmt.Sprint("g", i/4))
		}
		h.atOnce(func(s *sqlstore.Stores, i int) error {
			slug := fmt.Sprint("g", i/4)
			switch i % 4 {
			case 0:
				return s.Groups.RemoveGroup(h.Context(), slug, h.byAnna())
			case 1:
				_, err := s.Links.Join(h.Context(), invites[i], person(fmt.Sprint("paul", i), user.Member), nil)
				return err
			case 2:
				return s.Users.Change(h.Context(), h.otto.ID, user.Change{Groups: &[]string{slug}}, h.byAnna())
			default:
				_, err := s.Links.CreateLink(h.Context(), link.Link{Kind: link.Invite, Role: "member", Groups: []string{slug}}, secrets.Hash(slug), h.byAnna())
				return err
			}
		}, application.ErrGroupNotFound)
		if got := h.groups(); len(got) > 0 {
			h.Errorf("left are %q", got)
		}
		if got := h.invitedTo(); len(got) > 0 {
			h.Errorf("invited to %q", got)
		}
		members := must(h.Users.Members(h.Context()))(h.T)
		if len(members) != 2+atOnce/4 || slices.ContainsFunc(members, func(m user.Details) bool { return len(m.Groups) > 0 }) {
			h.Errorf("%d members: %+v", len(members), members)
		}
	})
}

// TestAudit_AdminsWhoAddThemselvesAreInItEachTime, because an admin's own acts are
// otherwise counted in one row.
func TestAudit_AdminsWhoAddThemselvesAreInItEachTime(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := audit.With(h.Context(), audit.Actor{Kind: audit.User, ID: h.anna.ID, Name: "anna"})
		for _, slug := range []string{"cooks", "kids"} {
			h.ok(h.Groups.CreateGroup(ctx, slug, "x", nil, h.byAnna()))
		}
		for _, groups := range [][]string{{"kids"}, {"cooks"}, {}} {
			h.ok(h.Users.Change(ctx, h.anna.ID, user.Change{Groups: &groups}, h.byAnna()))
		}
		var details []string
		for _, e := range slices.Backward(must(h.Audit.Entries(ctx, audit.Query{Event: "groups_changed", Limit: 100}))(h.T)) {
			details = append(details, fmt.Sprint(e.Detail))
		}
		if want := []string{"map[added:kids]", "map[added:cooks]", "map[removed:kids]", "map[removed:cooks]"}; !slices.Equal(details, want) {
			h.Errorf("recorded %q, want %q", details, want)
		}
	})
}
