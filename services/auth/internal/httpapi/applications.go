package httpapi

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// apps has the handlers of applications and groups.
type apps struct{ *api }

// list returns a copy of values, never nil, which would be null in JSON.
func list[T any](values []T) []T { return append([]T{}, values...) }

// appBody is an application as admins see it.
type appBody struct {
	Slug         string           `json:"slug"`
	Name         string           `json:"name"`
	Description  string           `json:"description"`
	URL          string           `json:"url"`
	Rule         application.Rule `json:"rule"`
	Group        string           `json:"group"` // empty unless the rule is group
	SecondFactor bool             `json:"second_factor"`
	Tokens       bool             `json:"tokens"`
	Color        string           `json:"color"`
	Position     int              `json:"position"`
}

func appOf(a application.Application) appBody {
	return appBody{a.Slug, a.Name, a.Description, a.URL, a.Rule, a.Group, a.SecondFactor, a.Tokens, a.Color, a.Position}
}

// listApps is GET /apps.
func (a apps) listApps(c echo.Context, _ web.Caller) (answer, error) {
	apps, err := a.Policy.Applications(c.Request().Context())
	return dataOf(apps, err, appOf)
}

// appAnswer returns the answer with an application as stored now.
func (a apps) appAnswer(ctx context.Context, status int, slug string) (answer, error) {
	app, err := a.Policy.Application(ctx, slug)
	if err != nil {
		return answer{}, err
	}
	return dataAnswer(status, appOf(app)), nil
}

// myApps is GET /apps/mine.
func (a apps) myApps(c echo.Context, s web.Caller) (answer, error) {
	apps, err := a.Policy.Openable(c.Request().Context(), s.Session)
	type body struct {
		Slug        string `json:"slug"`
		Name        string `json:"name"`
		Description string `json:"description"`
		URL         string `json:"url"`
		Color       string `json:"color"`
	}
	return dataOf(apps, err, func(app application.Application) body {
		return body{app.Slug, app.Name, app.Description, app.URL, app.Color}
	})
}

// createApp is POST /apps.
func (a apps) createApp(c echo.Context, s web.Caller, body struct {
	Slug         string `json:"slug"`
	Name         string `json:"name"`
	Description  string `json:"description"`
	URL          string `json:"url"`
	Rule         string `json:"rule"`
	Group        string `json:"group"`
	SecondFactor bool   `json:"second_factor"`
	Tokens       bool   `json:"tokens"`
	Color        string `json:"color"`
	Position     int    `json:"position"`
},
) (answer, error) {
	if err := a.Policy.CreateApplication(c.Request().Context(), s.Session, policy.NewApplication(body)); err != nil {
		return answer{}, err
	}
	return a.appAnswer(c.Request().Context(), http.StatusCreated, body.Slug)
}

// changeApp is PATCH /apps/:slug.
func (a apps) changeApp(c echo.Context, s web.Caller, body struct {
	Name         *string `json:"name"`
	Description  *string `json:"description"`
	URL          *string `json:"url"`
	Rule         *string `json:"rule"`
	Group        *string `json:"group"`
	SecondFactor *bool   `json:"second_factor"`
	Tokens       *bool   `json:"tokens"`
	Color        *string `json:"color"`
	Position     *int    `json:"position"`
},
) (answer, error) {
	slug := c.Param("slug")
	if err := a.Policy.ChangeApplication(c.Request().Context(), s.Session, slug,
		policy.ApplicationChange(body)); err != nil {
		return answer{}, err
	}
	return a.appAnswer(c.Request().Context(), http.StatusOK, slug)
}

// removeApp is DELETE /apps/:slug.
func (a apps) removeApp(c echo.Context, s web.Caller) (answer, error) {
	return done, a.Policy.RemoveApplication(c.Request().Context(), s.Session, c.Param("slug"))
}

// routeOfBody is the route of an application as admins see it.
type routeOfBody struct {
	Upstream   string `json:"upstream"`
	Strip      bool   `json:"strip"`
	UserHeader string `json:"user_header"`
	Pin        string `json:"pin"`
	Recipe     string `json:"recipe"`
}

// route is GET /apps/:slug/route.
func (a apps) route(c echo.Context, _ web.Caller) (answer, error) {
	return a.routeAnswer(c.Request().Context(), c.Param("slug"))
}

func (a apps) routeAnswer(ctx context.Context, slug string) (answer, error) {
	app, err := a.Policy.Application(ctx, slug)
	if err != nil {
		return answer{}, err
	}
	if app.Route == (application.Route{}) {
		return answer{}, application.ErrNoRoute
	}
	return data(routeOfBody(app.Route)), nil
}

// setRoute is PUT /apps/:slug/route. A body without a pin leaves the route's pin if the address stays
// the same.
func (a apps) setRoute(c echo.Context, s web.Caller, body struct {
	Upstream   string  `json:"upstream"`
	Strip      bool    `json:"strip"`
	UserHeader string  `json:"user_header"`
	Recipe     string  `json:"recipe"`
	Pin        *string `json:"pin"`
},
) (answer, error) {
	ctx, slug := c.Request().Context(), c.Param("slug")
	if err := a.Policy.SetRoute(ctx, s.Session, slug, policy.RouteChange(body)); err != nil {
		return answer{}, err
	}
	return a.routeAnswer(ctx, slug)
}

// removeRoute is DELETE /apps/:slug/route.
func (a apps) removeRoute(c echo.Context, s web.Caller) (answer, error) {
	return done, a.Policy.RemoveRoute(c.Request().Context(), s.Session, c.Param("slug"))
}

// groupBody is a group as admins see it.
type groupBody struct {
	Slug    string  `json:"slug"`
	Name    string  `json:"name"`
	Members []int64 `json:"members"`
}

func groupOf(g application.UserGroup) groupBody {
	return groupBody{g.Slug, g.Name, list(g.MemberIDs)}
}

// listGroups is GET /groups.
func (a apps) listGroups(c echo.Context, _ web.Caller) (answer, error) {
	groups, err := a.Policy.Groups(c.Request().Context())
	return dataOf(groups, err, groupOf)
}

// groupAnswer returns the answer with a group as stored now.
func (a apps) groupAnswer(ctx context.Context, status int, slug string) (answer, error) {
	groups, err := a.Policy.Groups(ctx)
	if err != nil {
		return answer{}, err
	}
	for _, g := range groups {
		if g.Slug == slug {
			return dataAnswer(status, groupOf(g)), nil
		}
	}
	return answer{}, web.ErrUnknownGroup
}

// createGroup is POST /groups.
func (a apps) createGroup(c echo.Context, s web.Caller, body struct {
	Slug    string  `json:"slug"`
	Name    string  `json:"name"`
	Members []int64 `json:"members"`
},
) (answer, error) {
	ctx := c.Request().Context()
	if err := a.Policy.CreateGroup(ctx, s.Session, body.Slug, body.Name, body.Members...); err != nil {
		return answer{}, web.OfGroup(err)
	}
	return a.groupAnswer(ctx, http.StatusCreated, body.Slug)
}

// changeGroup is PATCH /groups/:slug.
func (a apps) changeGroup(c echo.Context, s web.Caller, body struct {
	Name    *string  `json:"name"`
	Members *[]int64 `json:"members"`
},
) (answer, error) {
	slug := c.Param("slug")
	if err := a.Policy.ChangeGroup(c.Request().Context(), s.Session, slug, policy.GroupChange(body)); err != nil {
		return answer{}, web.OfGroup(err)
	}
	if body.Name == nil { // a new name is an event of the audit, which is logged
		a.audit(c, "group_changed", "group", slug, "by", s.UserID)
	}
	return a.groupAnswer(c.Request().Context(), http.StatusOK, slug)
}

// removeGroup is DELETE /groups/:slug.
func (a apps) removeGroup(c echo.Context, s web.Caller) (answer, error) {
	return done, web.OfGroup(a.Policy.RemoveGroup(c.Request().Context(), s.Session, c.Param("slug")))
}
