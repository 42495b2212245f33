package pages

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

const (
	appsPath   = root + "admin/apps"
	groupsPath = root + "admin/groups"
)

// appPages has the pages of applications and groups.
type appPages struct{ *Pages }

type appsPage struct {
	Apps   []application.Application
	Groups groupList
}

type appPage struct {
	App     application.Application
	Groups  groupList // to choose from
	Route   routeForm
	Routing policy.Routing
	Lines   []proxyLines
	// New: it has just been added. Leads: it was reached, the proxies serve its route, or it asks who signs in and
	// Pages.missing is false.
	New, Leads bool
	Empty      string // the group that the rule names, where nobody is in it
	// NoAddress: the application has a host, and the portal's address is not known.
	NoAddress bool
	// SignIn and IsClient are as signInState returns them.
	SignIn   string
	IsClient bool
}

// groupList are the groups of the household.
type groupList []application.UserGroup

// Name returns the name of a group, or the slug where there is no such group.
func (l groupList) Name(slug string) string {
	for _, g := range l {
		if g.Slug == slug {
			return g.Name
		}
	}
	return slug
}

// groupPrefix begins the name of the box of a group, which ends with its slug.
const groupPrefix = "group."

type groupChoice struct {
	T     texts
	Boxes []groupBox
	Shown string // the slugs that were checked when the form was shown, as shownGroups returns them
}

type groupBox struct {
	Name, Label string
	Checked     bool
}

// GroupChoice returns a box for each group, those of the slugs checked, or, when the form
// was sent by the button with the value do, as it was sent.
func (v view) GroupChoice(do string, groups groupList, slugs []string) groupChoice {
	c := groupChoice{T: v.T, Shown: v.Value("groups", shownGroups(slugs))}
	for _, g := range groups {
		name := groupPrefix + g.Slug
		c.Boxes = append(c.Boxes, groupBox{name, g.Name, v.Checked(do, name, slices.Contains(slugs, g.Slug))})
	}
	return c
}

// shownGroups returns slugs sorted and with spaces between them, as a form with a groupChoice sends them again.
func shownGroups(slugs []string) string {
	return strings.Join(slices.Sorted(slices.Values(slugs)), " ")
}

// groups returns the slugs of the groups that a form with a groupChoice chooses.
func (f form) groups() (slugs []string) { return f.chosen(groupPrefix) }

// joins returns which groups a form with a groupChoice adds (true) and takes away (false),
// compared with those that the page showed: what another admin changed since then stays.
func (f form) joins() map[string]bool {
	changes := map[string]bool{}
	for _, slug := range f.groups() {
		changes[slug] = true
	}
	for slug := range strings.FieldsSeq(f.get("groups")) {
		if changes[slug] {
			delete(changes, slug)
		} else {
			changes[slug] = false
		}
	}
	return changes
}

func (p appPages) apps(r *request) (err error) {
	page := appsPage{}
	if page.Apps, err = p.Policy.Applications(r.ctx()); err != nil {
		return err
	}
	if page.Groups, err = p.Policy.Groups(r.ctx()); err != nil {
		return err
	}
	return p.render(r, "apps", r.text["Applications"], page)
}

// app shows an application. After a change the page is loaded again, at most maxAgain times, until the proxies have
// taken the route over and, where they get certificates, one has that of its host; not where there is no route, no
// proxy asks for routes, or one skips this one.
func (p appPages) app(r *request) error {
	a, err := p.Policy.Application(r.ctx(), r.Param("id"))
	if err != nil {
		return err
	}
	page := appPage{
		App: a, Lines: linesOf(a, p.AppName), NoAddress: a.HasHost() && p.PublicURL == "",
		New: r.QueryParam("done") == "app-new",
		Route: routeForm{
			Route: a.Route, Headers: application.UserHeaders, HasPath: !a.HasHost(), Trial: r.trial,
			Tries: true,
		},
	}
	if page.Route.Trial.Text == "" {
		page.Route.Trial = r.text.readTrial(r.QueryParam("probe"))
	}
	if a.Route != (application.Route{}) {
		household, err := p.Accounts.Household(r.ctx())
		if err != nil {
			return err
		}
		if page.Routing, err = p.Policy.RoutingOf(r.ctx(), household.Name, a); err != nil {
			return err
		}
		if state := page.Routing; state.Proxies > 0 && state.Skipped == "" &&
			(!state.Taken || a.HasHost() && state.Certifies && !state.Certified) {
			loadAgain(r)
		}
	}
	if page.SignIn, page.IsClient, err = p.signInState(r, a); err != nil {
		return err
	}
	page.Leads = a.Reached || page.Routing.Taken || page.IsClient && !p.missing(r, a)
	if page.Groups, err = p.Policy.Groups(r.ctx()); err != nil {
		return err
	}
	if slices.ContainsFunc(page.Groups, func(g application.UserGroup) bool {
		return g.Slug == a.Group && len(g.Members) == 0
	}) {
		page.Empty = a.Group
	}
	return p.render(r, "app", a.Name, page)
}

// maxAgain is how often the page of an application is loaded again at most: a certificate may fail for ever, and the
// admin may begin to type.
const maxAgain = 30

// loadAgain has the browser load the page again in two seconds, if its query says that something has just been done
// and it was not loaded again maxAgain times.
func loadAgain(r *request) {
	query := r.QueryParams()
	n, err := strconv.Atoi(cmp.Or(query.Get("again"), "0"))
	if query.Get("done") == "" || err != nil || n >= maxAgain {
		return
	}
	query.Set("again", strconv.Itoa(n+1))
	r.Response().Header().Set("Refresh", "2; url="+r.Request().URL.Path+"?"+query.Encode())
}

// changeApp carries out what the button of a form on an application's page says.
func (p appPages) changeApp(r *request) error {
	slug, f := r.Param("id"), r.form
	at := appsPath + "/" + url.PathEscape(slug)
	switch f.get("do") {
	case "change":
		change, err := f.application()
		if err != nil {
			return err
		}
		if change.URL != nil {
			*change.URL = p.addressOf(r, *change.URL, false)
		}
		return r.done(at, "profile", p.Policy.ChangeApplication(r.ctx(), r.Session, slug, change))
	case "probe":
		r.trial = p.try(r)
		return p.app(r)
	case "route":
		return p.changeRoute(r, slug, at)
	case "unroute":
		return r.done(at, "app-unrouted", p.Policy.RemoveRoute(r.ctx(), r.Session, slug), application.ErrNoRoute)
	case "remove":
		return r.done(appsPath, "app-removed", p.Policy.RemoveApplication(r.ctx(), r.Session, slug))
	}
	return web.ErrMalformed
}

// changeRoute sets where the proxy finds an application, and has the proxies try it.
func (p appPages) changeRoute(r *request, slug, at string) error {
	f := r.form
	change := policy.RouteChange{
		Upstream: strings.TrimSpace(f.get("upstream")), Strip: !f.sent("keep"), UserHeader: f.get("user_header"),
		Recipe: f.get("recipe"),
	}
	if f.sent("repin") {
		change.Pin = new(string)
	}
	if err := p.Policy.SetRoute(r.ctx(), r.Session, slug, change); err != nil {
		return err
	}
	to := url.Values{"done": {"app-routed"}}
	if found := p.foundAt(r, slug, change.Upstream); found != "" {
		to.Set("probe", found)
	}
	return r.seeOther(at + "?" + to.Encode())
}

// application returns what the form of an application changes. What the admin left as it was is not changed, as
// another admin may have done so since. application.ErrPosition.
func (f form) application() (policy.ApplicationChange, error) {
	change := policy.ApplicationChange{
		Name: f.changed("name", f.get("name")), Description: f.changed("description", f.get("description")),
		URL:          f.changed("url", strings.TrimSpace(f.get("url"))),
		SecondFactor: f.changedBox("second_factor"), Tokens: f.changedBox("tokens"),
		Color: f.changed("color", f.color()),
	}
	if chosen := f.changed("rule", f.get("rule")); chosen != nil {
		rule, group, _ := strings.Cut(*chosen, ":")
		change.Rule, change.Group = &rule, &group
	}
	if text := f.changed("position", strings.TrimSpace(f.get("position"))); text != nil {
		position, err := strconv.Atoi(*text)
		if err != nil {
			return policy.ApplicationChange{}, application.ErrPosition
		}
		change.Position = &position
	}
	return change, nil
}

// ruleOf returns an application's rule as the value of the form's choice.
func ruleOf(a application.Application) string {
	switch a.Rule {
	case "":
		return string(application.Login)
	case application.Group:
		return string(a.Rule) + ":" + a.Group
	}
	return string(a.Rule)
}

// groups lists the groups and offers a new one.
func (p appPages) groups(r *request) error {
	groups, err := p.Policy.Groups(r.ctx())
	if err != nil {
		return err
	}
	return p.render(r, "groups", r.text["Groups"], listed(r, groups, func(g application.UserGroup) string {
		return g.Name + " " + g.Slug
	}))
}

func (p appPages) addGroup(r *request) error {
	slug := r.form.get("slug")
	err := p.Policy.CreateGroup(r.ctx(), r.Session, slug, r.form.get("name"))
	return r.done(groupsPath+"/"+slug, "group-added", err)
}

type groupPage struct {
	application.UserGroup
	Users listing[groupUser]
	Apps  []application.Application // whose rule names the group
}

// groupUser is a user who may be a member of a group.
type groupUser struct {
	user.User
	Member bool
}

// group shows a group and the users to choose its members from, a page of them at a time.
func (p appPages) group(r *request) error {
	all, err := p.Policy.Groups(r.ctx())
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(g application.UserGroup) bool { return g.Slug == r.Param("id") })
	if at < 0 {
		return web.ErrUnknownGroup
	}
	page := groupPage{UserGroup: all[at]}
	members, err := p.People.Members(r.ctx())
	if err != nil {
		return err
	}
	users := make([]groupUser, 0, len(members))
	for _, m := range members {
		users = append(users, groupUser{m.User, slices.Contains(page.Members, m.Username)})
	}
	page.Users = listed(r, users, func(u groupUser) string { return u.DisplayName + " " + u.Username })
	if page.Apps, err = p.Policy.Applications(r.ctx()); err != nil {
		return err
	}
	page.Apps = slices.DeleteFunc(page.Apps, func(a application.Application) bool { return a.Group != page.Slug })
	return p.render(r, "group", page.Name, page)
}

// changeGroup changes the members or the name of a group, or removes it.
func (p appPages) changeGroup(r *request) error {
	slug := r.Param("id")
	switch r.form.get("do") {
	case "change":
		changes, err := r.form.members()
		if err != nil {
			return err
		}
		if err := p.Policy.ChangeMembers(r.ctx(), r.Session, slug, changes); err != nil {
			return web.OfGroup(err)
		}
		return r.seeOther(withQuery(groupsPath+"/"+url.PathEscape(slug), r.inList("profile")))
	case "rename":
		err := p.Policy.ChangeGroup(r.ctx(), r.Session, slug, policy.GroupChange{Name: new(r.form.get("name"))})
		return r.done(groupsPath+"/"+url.PathEscape(slug), "profile", web.OfGroup(err))
	case "remove":
		return r.done(groupsPath, "group-removed", web.OfGroup(p.Policy.RemoveGroup(r.ctx(), r.Session, slug)))
	}
	return web.ErrMalformed
}

// members returns which users a form of a group adds (true) and removes (false), compared with the members that the
// page showed: what another admin changed since then stays. web.ErrMalformed.
func (f form) members() (map[int64]bool, error) {
	changes := map[int64]bool{}
	for name := range f.values {
		for prefix, member := range map[string]bool{"member.": true, "was.": false} {
			digits, ok := strings.CutPrefix(name, prefix)
			if !ok || f.sent("member."+digits) && f.sent("was."+digits) {
				continue
			}
			id, err := strconv.ParseInt(digits, 10, 64)
			if err != nil {
				return nil, web.ErrMalformed
			}
			changes[id] = member
		}
	}
	return changes, nil
}
