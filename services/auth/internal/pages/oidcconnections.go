package pages

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/web"
)

const connectionsPath = root + "account/connections"

// connections has the page of the applications that a user has signed in to.
type connections struct{ *Pages }

// connection is an application to which a user is signed in, by one or several logins.
type connection struct {
	App         application.Application
	Since, Used time.Time
	Stays       bool   // its access outlives the login here
	Learns      string // in words
	Keeps       bool   // it is not told of a logout, and keeps its own login
}

// page lists the applications, the one used last first.
func (p connections) page(r *request) error {
	all, err := p.OIDC.Connections(r.ctx(), r.UserID, 0)
	if err != nil {
		return err
	}
	apps, err := p.Policy.Applications(r.ctx())
	if err != nil {
		return err
	}
	clients, err := p.OIDC.Clients(r.ctx())
	if err != nil {
		return err
	}
	var shown []connection
	for _, one := range all {
		i := slices.IndexFunc(shown, func(c connection) bool { return c.App.Slug == one.Slug })
		if i < 0 {
			app := slices.IndexFunc(apps, func(a application.Application) bool { return a.Slug == one.Slug })
			client := slices.IndexFunc(clients, func(c oidc.Client) bool { return c.Slug == one.Slug })
			if app < 0 || client < 0 { // removed since
				continue
			}
			shown = append(shown, connection{
				App: apps[app], Since: one.CreatedAt, Keeps: clients[client].LogoutURI == "",
				Learns: r.text.learns(one.Scopes, clients[client].TellsGroups(one.Scopes)),
			})
			i = len(shown) - 1
		}
		c := &shown[i]
		c.Stays = c.Stays || one.Offline
		if one.CreatedAt.Before(c.Since) {
			c.Since = one.CreatedAt
		}
		if one.LastUsedAt.After(c.Used) {
			c.Used = one.LastUsedAt
		}
	}
	slices.SortStableFunc(shown, func(a, b connection) int { return b.Used.Compare(a.Used) })
	return p.render(r, "connections", r.text["Connections"], shown)
}

// learns returns in words what an application learns with scopes; groups: it learns the groups too.
func (t texts) learns(scopes []string, groups bool) string {
	var what []string
	if slices.Contains(scopes, "profile") {
		what = append(what, t["LearnsName"])
	}
	if slices.Contains(scopes, "email") {
		what = append(what, t["LearnsEmail"])
	}
	if groups {
		what = append(what, t["LearnsGroups"])
	}
	if len(what) == 0 {
		return t["LearnsLittle"]
	}
	return strings.Join(what, ", ")
}

// change ends all of the user's connections with an application.
func (p connections) change(r *request) error {
	if r.form.get("do") != "disconnect" {
		return web.ErrMalformed
	}
	all, err := p.OIDC.Connections(r.ctx(), r.UserID, 0)
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.Slug != r.form.get("app") {
			continue
		}
		if err := p.OIDC.Disconnect(r.ctx(), r.UserID, one.ID); err != nil && !errors.Is(err, oidc.ErrNoConnection) {
			return err
		}
	}
	return r.seeOther(connectionsPath + "?done=disconnected")
}
