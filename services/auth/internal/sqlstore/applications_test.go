package sqlstore_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// app returns an application of a slug that every user may use with app tokens.
func app(slug string) application.Application {
	return application.Application{Slug: slug, Name: "The " + slug, URL: "/" + slug + "/", Rule: application.Login, Tokens: true, Color: user.DefaultAvatarColor}
}

func (h *household) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *household) same(got, want any) {
	h.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		h.Errorf("differs (-want +got):\n%s", diff)
	}
}

func (h *household) refused(what string, err, want error) {
	h.Helper()
	if !errors.Is(err, want) {
		h.Errorf("%s: %v, want %v", what, err, want)
	}
}

// apps returns all applications without their ids.
func (h *household) apps() []application.Application {
	h.Helper()
	apps := must(h.Applications.Applications(h.Context()))(h.T)
	for i := range apps {
		apps[i].ID = 0
	}
	return apps
}

// events returns the names of the audit's events, oldest first.
func (h *household) events() []string {
	h.Helper()
	var names []string
	for _, e := range slices.Backward(must(h.Audit.Entries(h.Context(), everything))(h.T)) {
		names = append(names, e.Event.Name)
	}
	return names
}

func (h *household) groupsOf(id int64) []string {
	h.Helper()
	_, groups, err := h.Groups.Visitor(h.Context(), id)
	h.ok(err)
	return groups
}

func TestApplication_IsStoredAsCreatedAndChanged(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Groups.CreateGroup(ctx, "kids", "Kinder", nil, h.byAnna()))
		photos := application.Application{
			Slug: "photos", Name: "Fotos", Description: "Alle Bilder", URL: "https://photos.example.org", Rule: application.Group, Group: "kids",
			SecondFactor: true, Tokens: true, Color: "#123456", Position: 7,
		}
		h.ok(h.Applications.CreateApplication(ctx, photos, application.Icon{}, h.byAnna()))
		h.ok(h.Applications.CreateApplication(ctx, app("notes"), application.Icon{}, session.Session{}))
		if diff := cmp.Diff([]application.Application{app("notes"), photos}, h.apps()); diff != "" {
			h.Errorf("by position and name (-want +got):\n%s", diff)
		}
		h.ok(h.Applications.ChangeApplication(ctx, "photos", func(a *application.Application) error {
			a.Rule, a.Group, a.Position, a.SecondFactor = application.Admin, "", 0, false
			return nil
		}, h.byAnna()))
		photos.Rule, photos.Group, photos.Position, photos.SecondFactor = application.Admin, "", 0, false
		if diff := cmp.Diff([]application.Application{photos, app("notes")}, h.apps()); diff != "" {
			h.Errorf("after the change (-want +got):\n%s", diff)
		}
		h.ok(h.Applications.ChangeApplication(ctx, "photos", func(*application.Application) error { return nil }, h.byAnna()))
		h.ok(h.Applications.RemoveApplication(ctx, "photos", h.byAnna()))
		if diff := cmp.Diff([]application.Application{app("notes")}, h.apps()); diff != "" {
			h.Errorf("after the removal (-want +got):\n%s", diff)
		}
		if got, want := h.events()[2:], []string{"group_made", "app_made", "app_made", "app_changed", "app_removed"}; !slices.Equal(got, want) {
			h.Errorf("recorded %q, want %q", got, want)
		}
	})
}

// TestPolicy_ARefusedChangeChangesNothing also checks that it is not in the audit.
func TestPolicy_ARefusedChangeChangesNothing(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Groups.CreateGroup(ctx, "kids", "Kinder", nil, h.byAnna()))
		ruled, other := app("ruled"), app("other")
		ruled.Rule, ruled.Group = application.Group, "kids"
		h.ok(h.Applications.CreateApplication(ctx, ruled, application.Icon{}, h.byAnna()))
		h.ok(h.Applications.CreateApplication(ctx, other, application.Icon{}, h.byAnna()))
		events, apps := h.events(), h.apps()

		sameURL, noGroup, sameSlug := app("third"), app("third"), app("ruled")
		sameURL.URL, sameSlug.URL = ruled.URL, "/third/"
		noGroup.Rule, noGroup.Group = application.Group, "nobody"
		changed := func(change func(*application.Application)) func(*application.Application) error {
			return func(a *application.Application) error { change(a); return nil }
		}
		h.refused("a taken slug", h.Applications.CreateApplication(ctx, sameSlug, application.Icon{}, h.byAnna()), application.ErrSlugTaken)
		h.refused("a taken address", h.Applications.CreateApplication(ctx, sameURL, application.Icon{}, h.byAnna()), application.ErrURLTaken)
		h.refused("an unknown group", h.Applications.CreateApplication(ctx, noGroup, application.Icon{}, h.byAnna()), application.ErrGroupNotFound)
		h.refused("by a member", h.Applications.CreateApplication(ctx, app("third"), application.Icon{}, h.byOtto()), user.ErrNotAdmin)
		h.refused("a change to a taken address", h.Applications.ChangeApplication(ctx, "other", changed(func(a *application.Application) { a.URL = ruled.URL }), h.byAnna()), application.ErrURLTaken)
		h.refused("a change to an unknown group", h.Applications.ChangeApplication(ctx, "other", changed(func(a *application.Application) { a.Rule, a.Group = application.Group, "x" }), h.byAnna()), application.ErrGroupNotFound)
		h.refused("a change that is wrong", h.Applications.ChangeApplication(ctx, "other", func(*application.Application) error { return application.ErrName }, h.byAnna()), application.ErrName)
		h.refused("a change of nothing there", h.Applications.ChangeApplication(ctx, "nobody", changed(func(*application.Application) {}), h.byAnna()), application.ErrNotFound)
		h.refused("a change by a member", h.Applications.ChangeApplication(ctx, "other", changed(func(a *application.Application) { a.Name = "x" }), h.byOtto()), user.ErrNotAdmin)
		h.refused("a removal of none", h.Applications.RemoveApplication(ctx, "nobody", h.byAnna()), application.ErrNotFound)
		h.refused("a removal by a member", h.Applications.RemoveApplication(ctx, "other", h.byOtto()), user.ErrNotAdmin)
		h.refused("a group twice", h.Groups.CreateGroup(ctx, "kids", "x", nil, h.byAnna()), application.ErrSlugTaken)
		h.refused("a group by a member", h.Groups.CreateGroup(ctx, "x", "x", nil, h.byOtto()), user.ErrNotAdmin)
		h.refused("removal of a used group", h.Groups.RemoveGroup(ctx, "kids", h.byAnna()), application.ErrGroupUsed)
		h.refused("removal of no group", h.Groups.RemoveGroup(ctx, "x", h.byAnna()), application.ErrGroupNotFound)
		h.refused("members of no group", h.Groups.ChangeMembers(ctx, "x", map[int64]bool{h.otto.ID: true}, h.byAnna()), application.ErrGroupNotFound)
		h.refused("members by a member", h.Groups.ChangeMembers(ctx, "kids", map[int64]bool{h.otto.ID: true}, h.byOtto()), user.ErrNotAdmin)
		h.refused("a member who is no user", h.Groups.ChangeMembers(ctx, "kids", map[int64]bool{h.otto.ID: true, 1 << 40: true}, h.byAnna()), user.ErrNotFound)

		if got := h.events(); !slices.Equal(got, events) {
			h.Errorf("recorded %q", got[len(events):])
		}
		if diff := cmp.Diff(apps, h.apps()); diff != "" {
			h.Errorf("differs (-before +after):\n%s", diff)
		}
		if groups := h.groupsOf(h.otto.ID); len(groups) != 0 {
			h.Errorf("in groups %q", groups)
		}
	})
}

func TestGroup_HasTheMembersItWasGiven(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Groups.CreateGroup(ctx, "kids", "Kinder", nil, h.byAnna()))
		h.ok(h.Groups.CreateGroup(ctx, "cooks", "Küche", nil, session.Session{}))
		h.ok(h.Groups.ChangeMembers(ctx, "kids", map[int64]bool{h.otto.ID: true, h.anna.ID: true}, h.byAnna()))
		h.ok(h.Groups.ChangeMembers(ctx, "cooks", map[int64]bool{h.otto.ID: true}, h.byAnna()))
		h.ok(h.Groups.ChangeMembers(ctx, "cooks", map[int64]bool{h.otto.ID: true, h.anna.ID: false}, h.byAnna())) // changes nothing
		var got []string
		for _, g := range must(h.Groups.Groups(ctx))(h.T) {
			got = append(got, fmt.Sprint(g.Slug, g.Name, g.Members))
		}
		if want := []string{"cooksKüche[otto]", "kidsKinder[anna otto]"}; !slices.Equal(got, want) {
			h.Errorf("got %q, want %q", got, want)
		}
		if groups := h.groupsOf(h.otto.ID); !slices.Equal(groups, []string{"cooks", "kids"}) {
			h.Errorf("otto is in %q", groups)
		}
		h.ok(h.Groups.ChangeMembers(ctx, "kids", map[int64]bool{h.otto.ID: false}, h.byAnna()))
		if groups := h.groupsOf(h.otto.ID); !slices.Equal(groups, []string{"cooks"}) {
			h.Errorf("after leaving one, otto is in %q", groups)
		}
		changes := must(h.Audit.Entries(ctx, audit.Query{Event: "groups_changed", Limit: 100}))(h.T)
		if len(changes) != 4 || changes[0].SubjectID != h.otto.ID || changes[0].Detail["removed"] != "kids" {
			h.Errorf("recorded %+v", changes)
		}
		must(h.Users.Delete(ctx, h.otto.ID, h.byAnna()))(h.T)
		h.ok(h.Groups.RemoveGroup(ctx, "kids", h.byAnna()))
		if groups := must(h.Groups.Groups(ctx))(h.T); len(groups) != 1 || len(groups[0].Members) != 0 {
			h.Errorf("left are %+v", groups)
		}
		if _, _, err := h.Groups.Visitor(ctx, h.otto.ID); !errors.Is(err, user.ErrNotFound) {
			h.Errorf("a deleted user: %v", err)
		}
		if groups := h.groupsOf(h.anna.ID); len(groups) != 0 {
			h.Errorf("anna is in %q", groups)
		}
	})
}

func TestVisitor_IsTheUserAsStored(t *testing.T) {
	inHouseholds(t, func(h *household) {
		u, _, err := h.Groups.Visitor(h.Context(), h.otto.ID)
		h.ok(err)
		if diff := cmp.Diff(must(h.Users.ByID(h.Context(), h.otto.ID))(h.T), u); diff != "" {
			h.Errorf("differs (-want +got):\n%s", diff)
		}
	})
}

// TestPolicy_IsBounded also checks that many at once stay within.
func TestPolicy_IsBounded(t *testing.T) {
	inHouseholds(t, func(h *household) {
		room := 3
		for i := range application.MaxGroups - room {
			h.exec(`INSERT INTO user_groups (slug, name) VALUES (?, 'x')`, fmt.Sprint("g", i))
		}
		for i := range application.MaxApplications - room {
			h.exec(`INSERT INTO applications (slug, name, url, rule, color) VALUES (?, 'x', ?, 'login', '#000')`, fmt.Sprint("a", i), fmt.Sprintf("/%d/", i))
		}
		if n := h.atOnce(func(s *sqlstore.Stores, i int) error {
			return s.Applications.CreateApplication(h.Context(), app(fmt.Sprint("new", i)), application.Icon{}, h.byAnna())
		}, application.ErrTooMany); n != room {
			h.Errorf("%d applications were created", n)
		}
		if n := h.atOnce(func(s *sqlstore.Stores, i int) error {
			return s.Groups.CreateGroup(h.Context(), fmt.Sprint("new", i), "x", nil, h.byAnna())
		}, application.ErrTooMany); n != room {
			h.Errorf("%d groups were created", n)
		}
	})
}

// TestPolicy_ARuleNeverLosesItsGroup removes a group while applications are created whose rules
// name it.
func TestPolicy_ARuleNeverLosesItsGroup(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.ok(h.Groups.CreateGroup(h.Context(), "kids", "Kinder", nil, h.byAnna()))
		h.atOnce(func(s *sqlstore.Stores, i int) error {
			if i%2 == 0 {
				return s.Groups.RemoveGroup(h.Context(), "kids", h.byAnna())
			}
			a := app(fmt.Sprint("app", i))
			a.Rule, a.Group = application.Group, "kids"
			return s.Applications.CreateApplication(h.Context(), a, application.Icon{}, h.byAnna())
		}, application.ErrGroupUsed, application.ErrGroupNotFound)
		if groups, apps := must(h.Groups.Groups(h.Context()))(h.T), h.apps(); len(apps) > 0 && len(groups) != 1 || len(apps) == 0 && len(groups) != 0 {
			h.Errorf("%d applications, groups %+v", len(apps), groups)
		}
		for _, a := range h.apps() {
			if a.Group != "kids" {
				h.Errorf("got %+v", a)
			}
		}
	})
}

// TestPolicy_AnEndedSessionChangesNothing: the guard may have let it in before it was revoked.
func TestPolicy_AnEndedSessionChangesNothing(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.withClient("photos")
		h.ok(h.Groups.CreateGroup(ctx, "kids", "Kinder", nil, session.Session{}))
		ended := h.byAnna()
		must(h.Users.EndSessions(ctx, h.anna.ID, session.Session{}))(h.T)
		before := h.events()
		everybody := func(a *application.Application) error { a.Rule, a.Group = application.Login, ""; return nil }
		elsewhere := func(c *oidc.Client) error { c.Redirects = []string{"https://x.example.org/cb"}; return nil }
		_, secret := oidc.NewSecret()
		for what, err := range map[string]error{
			"a secret":           h.Clients.AddSecret(ctx, "photos", secret, ended),
			"an address":         h.Clients.ChangeClient(ctx, "photos", elsewhere, ended),
			"a rule":             h.Applications.ChangeApplication(ctx, "photos", everybody, ended),
			"a new application":  h.Applications.CreateApplication(ctx, app("x"), application.Icon{}, ended),
			"an old application": h.Applications.RemoveApplication(ctx, "photos", ended),
			"members":            h.Groups.ChangeMembers(ctx, "kids", map[int64]bool{h.otto.ID: true}, ended),
			"a new group":        h.Groups.CreateGroup(ctx, "x", "x", []int64{h.otto.ID}, ended),
		} {
			h.refused(what, err, session.ErrNotFound)
		}
		h.same(h.events(), before)
	})
}
