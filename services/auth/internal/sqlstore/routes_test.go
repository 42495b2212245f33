package sqlstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// setRoute sets the route of the application notes.
func (h *household) setRoute(ctx context.Context, r application.Route) error {
	return h.Applications.ChangeApplication(ctx, "notes", func(a *application.Application) error {
		a.Route = r
		return nil
	}, h.byAnna())
}

func (h *household) lastDetail() map[string]any {
	h.Helper()
	return must(h.Audit.Entries(h.Context(), everything))(h.T)[0].Event.Detail
}

func TestRoute_IsStoredAndRecordedWithWhatWasBefore(t *testing.T) {
	inHouseholds(t, func(h *household) {
		first := application.Route{Upstream: "http://notes:80", Strip: true, UserHeader: "Remote-User", Recipe: "radicale"}
		notes := app("notes")
		notes.Route = first
		h.ok(h.Applications.CreateApplication(h.Context(), notes, application.Icon{}, h.byAnna()))
		if got := h.apps()[0]; got != notes {
			h.Errorf("got %+v, want %+v", got, notes)
		}
		second := application.Route{Upstream: "https://nas:5001", Pin: strings.Repeat("a1", 32)}
		h.ok(h.setRoute(h.Context(), second))
		want := map[string]any{"app": "notes", "before": map[string]any{"upstream": "http://notes:80", "strip": true, "user_header": "Remote-User"}, "after": map[string]any{"upstream": "https://nas:5001", "strip": false, "pin": second.Pin}}
		if diff := cmp.Diff(want, h.lastDetail()); diff != "" || h.apps()[0].Route != second {
			h.Errorf("%+v %s", h.apps()[0].Route, diff)
		}
		h.ok(h.setRoute(h.Context(), second))
		h.ok(h.setRoute(h.Context(), application.Route{}))
		if want := []string{"app_made", "app_route_set", "app_route_set", "app_route_set"}; !slices.Equal(h.events()[2:], want) || h.apps()[0].Route != (application.Route{}) {
			h.Errorf("%v, %+v", h.events(), h.apps()[0])
		}
		h.refused("of a member", h.Applications.ChangeApplication(h.Context(), "notes", func(a *application.Application) error {
			a.Route = first
			return nil
		}, h.byOtto()), user.ErrNotAdmin)
	})
}

func TestRoute_EndsWithItsApplication(t *testing.T) {
	inHouseholds(t, func(h *household) {
		notes := app("notes")
		notes.Route = application.Route{Upstream: "http://notes:80"}
		h.ok(h.Applications.CreateApplication(h.Context(), notes, application.Icon{}, h.byAnna()))
		h.ok(h.Applications.RemoveApplication(h.Context(), "notes", h.byAnna()))
		h.ok(h.Applications.CreateApplication(h.Context(), app("notes"), application.Icon{}, h.byAnna()))
		if got := h.apps()[0]; got.Route != (application.Route{}) || got.Reached {
			h.Errorf("got %+v", got)
		}
	})
}

// TestRoute_TakesOnePin has a hundred proxies tell different ones at once.
func TestRoute_TakesOnePin(t *testing.T) {
	inHouseholds(t, func(h *household) {
		notes := app("notes")
		notes.Route = application.Route{Upstream: "https://notes:443"}
		h.ok(h.Applications.CreateApplication(h.Context(), notes, application.Icon{}, h.byAnna()))
		var all sync.WaitGroup
		for i := range atOnce {
			all.Go(func() {
				pin := strings.Repeat(string("0123456789abcdef"[i%16]), 64)
				if err := h.Applications.PinRoute(h.Context(), "notes", "https://notes:443", pin); err != nil {
					h.Error(err)
				}
			})
		}
		all.Wait()
		pinned := h.apps()[0].Route
		if pinned.Pin == "" || len(h.events()) != 5 {
			h.Errorf("%+v, %v", pinned, h.events())
		}
		h.ok(h.Applications.PinRoute(h.Context(), "notes", "https://other:443", strings.Repeat("0", 64)))
		if got := h.apps()[0].Route; got != pinned {
			h.Errorf("the pin of another address: %+v", got)
		}
		if err := h.Applications.PinRoute(h.Context(), "none", "https://notes:443", "x"); !errors.Is(err, application.ErrNotFound) {
			h.Error(err)
		}
	})
}

func TestIcon_IsStoredServedAndRemoved(t *testing.T) {
	inHouseholds(t, func(h *household) {
		icon := application.Icon{Hash: strings.Repeat("a1", 32), PNG: []byte("\x89PNG\x00")}
		photos := app("photos")
		photos.Icon = icon.Hash
		h.ok(h.Applications.CreateApplication(h.Context(), photos, icon, h.byAnna()))
		h.ok(h.Applications.CreateApplication(h.Context(), app("notes"), application.Icon{}, h.byAnna()))
		h.ok(h.Applications.SetIcon(h.Context(), "notes", icon, h.byAnna())) // both have the same
		h.ok(h.Applications.SetIcon(h.Context(), "photos", icon, h.byAnna()))
		h.ok(h.Applications.SetIcon(h.Context(), "photos", application.Icon{}, h.byAnna()))
		if png := must(h.Applications.Icon(h.Context(), icon.Hash))(h.T); string(png) != string(icon.PNG) || h.apps()[1].Icon != "" {
			h.Errorf("%q, %+v", png, h.apps())
		}
		h.refused("a member's", h.Applications.SetIcon(h.Context(), "notes", application.Icon{}, h.byOtto()),
			user.ErrNotAdmin)
		h.refused("of none", h.Applications.SetIcon(h.Context(), "none", icon, h.byAnna()), application.ErrNotFound)
		h.ok(h.Applications.RemoveApplication(h.Context(), "notes", h.byAnna()))
		if _, err := h.Applications.Icon(h.Context(), icon.Hash); !errors.Is(err, application.ErrNotFound) {
			h.Errorf("of a removed application: %v", err)
		}
		if want := []string{"app_made", "app_icon_set", "app_made", "app_icon_set", "app_icon_set", "app_removed"}; !slices.Equal(h.events()[2:], want) {
			h.Errorf("got %v", h.events())
		}
	})
}

func TestApplication_IsReachedOnceAndForAll(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.ok(h.Applications.CreateApplication(h.Context(), app("notes"), application.Icon{}, h.byAnna()))
		all := must(h.Applications.Applications(h.Context()))(h.T)
		h.ok(h.Applications.SetReached(h.Context(), all[0].ID))
		h.ok(h.Applications.ChangeApplication(h.Context(), "notes", func(a *application.Application) error {
			a.Name, a.Reached = "Notizen", false
			return nil
		}, h.byAnna()))
		if got := h.apps()[0]; !got.Reached || got.Name != "Notizen" {
			h.Errorf("got %+v", got)
		}
		h.exec(`INSERT INTO applications (slug, name, url, rule, color) VALUES ('old', 'Old', '/old/', 'login', '#123456')`)
		if old := h.apps()[1]; !old.Reached {
			h.Errorf("an application of the release before: %+v", old)
		}
	})
}
