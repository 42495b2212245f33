package pages

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

const (
	signInPath    = root + "admin/sign-in"
	newClientPath = signInPath + "/new"
	trialPath     = signInPath + "/trial"
)

// clients has the pages of applications that ask Pforte who signs in.
type clients struct{ *Pages }

// firstClaims are the claims that a page shows before all others.
var firstClaims = []string{"name", "preferred_username", "email", "email_verified", "groups"}

// claimsOf returns claims as a page shows them.
func claimsOf(values map[string]any) (all []claim) {
	names := slices.DeleteFunc(slices.Clone(firstClaims), func(name string) bool { return values[name] == nil })
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		switch value := values[name].(type) {
		case []string:
			all = append(all, claim{name, strings.Join(value, ", ")})
		default:
			all = append(all, claim{name, fmt.Sprint(value)})
		}
	}
	return all
}

// newClientPage is what the page of a new client shows.
type newClientPage struct {
	App       application.Application // whose client it will be; the zero value: a new one
	Groups    groupList
	Name, URL string
	Free      bool   // the addresses are not those of a recipe
	Off       string // why there can be no client, in words; empty: there can
	Route     routeForm
}

// signInOff returns why there is no provider, in words; "": there is one.
func (p *Pages) signInOff(r *request) (string, error) {
	err := p.OIDC.Off(r.ctx())
	if oidc.IsOff(err) {
		return r.text[web.FailureOf(err).Page], nil
	}
	return "", err
}

// newClient shows the form of a new client by a recipe: with a new application, or for the one that the form
// sent, or else the query, names.
func (p clients) newClient(r *request) error {
	c, known := clientRecipeOf(r.Param("id"))
	if !known {
		return service.ErrNoRoute
	}
	off, err := p.signInOff(r)
	if err != nil {
		return err
	}
	page := newClientPage{Free: len(c.Redirects) == 0, Off: off, Name: r.text["recipe."+c.Slug]}
	title := r.text["ApplicationNew"]
	if c.Product != "" {
		title = fmt.Sprintf(r.text["ClientNewF"], c.Product)
	}
	portal, err := url.Parse(p.portalOf(r))
	if err != nil {
		return err
	}
	if page.Name != "" && namesHosts(portal) {
		page.URL = portal.Scheme + "://" + c.Slug + "." + portal.Host
	}
	if slug := cmp.Or(r.form.get("app"), r.QueryParam("app")); slug != "" {
		if page.App, err = p.Policy.Application(r.ctx(), slug); err != nil {
			return err
		}
		page.URL = strings.TrimSuffix(p.absolute(r, page.App.URL), "/")
		title = fmt.Sprintf(r.text["ClientForF"], page.App.Name)
	}
	if page.Groups, err = p.Policy.Groups(r.ctx()); err != nil {
		return err
	}
	return p.render(r, "client-new", title, page)
}

// absolute returns the whole address of an application.
func (p *Pages) absolute(r *request, at string) string {
	if strings.HasPrefix(at, "/") {
		return p.portalOf(r) + at
	}
	return at
}

// addClient makes a client, and its application unless there is one, and redirects to the page that shows what to
// enter in the application.
func (p clients) addClient(r *request) error {
	c, known := clientRecipeOf(r.Param("id"))
	if !known {
		return service.ErrNoRoute
	}
	if err := p.OIDC.Off(r.ctx()); err != nil {
		return err
	}
	f := r.form
	at, err := p.typedAddress(r, f.get("url"))
	if err != nil {
		return err
	}
	filled := c.filled(enteredClient{URL: at})
	n := oidc.Client{
		Public: c.Public || f.sent("public"), Alg: oidc.RS256, PKCE: oidc.Auto, Groups: oidc.GroupsAsked, Email: true,
		Redirects: filled.Redirects, AfterLogout: filled.AfterLogout, LogoutURI: filled.Logout,
	}
	if len(c.Redirects) == 0 {
		n.Redirects = f.lines("redirects")
	}
	n.Slug = f.get("app")
	made := n.Slug == ""
	var app policy.NewApplication
	if made {
		name := cmp.Or(f.get("name"), r.text["recipe."+c.Slug])
		if app, err = p.newApplication(r, name, p.addressOf(r, at, false)); err != nil {
			return err
		}
		n.Slug = app.Slug
	}
	n.ID = n.Slug
	if err := n.Check(); err != nil { // before the application is made
		return err
	}
	route := policy.RouteChange{Upstream: strings.TrimSpace(f.get("upstream")), Strip: true}
	if made {
		if err := p.Policy.CreateWith(r.ctx(), r.Session, app, route, application.Icon{}); err != nil {
			return err
		}
	}
	secret, err := p.OIDC.Create(r.ctx(), r.Session, n)
	if err != nil {
		if made {
			// On behalf of the operator, because the session may have ended meanwhile.
			err = errors.Join(err, p.Policy.RemoveApplication(r.ctx(), session.Session{}, n.Slug))
		}
		return err
	}
	if made {
		appPages(p).foundAt(r, n.Slug, route.Upstream)
	}
	return p.showEntered(r, c, n, at, secret)
}

// typedAddress returns the whole address of what was typed, which may be a label, a path, a host or a URL, without a
// slash at the end. application.ErrURL.
func (p clients) typedAddress(r *request, typed string) (string, error) {
	typed = strings.TrimRight(strings.TrimSpace(typed), "/")
	if typed == "" {
		return "", application.ErrURL
	}
	if !strings.Contains(typed, "://") {
		typed = strings.TrimSuffix(p.absolute(r, p.addressOf(r, typed, false)), "/")
	}
	u, err := url.Parse(typed)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", application.ErrURL
	}
	return typed, nil
}

// lines returns the entries of a field, which white space separates.
func (f form) lines(name string) []string { return strings.Fields(f.get(name)) }

// enteredPage is what the page shows with the settings, the secret among them, that an admin enters in the
// application.
type enteredPage struct {
	Slug, Name, Recipe, Issuer, Secret string
	Fields                             []setting
	Config                             string
	Rows                               int
	Guide                              string
	Missing                            bool // nothing leads to the application yet
	Here                               bool // the issuer is found on this machine alone
}

// showEntered redirects to the page that shows what to enter in the application, with the secret.
func (p clients) showEntered(r *request, c clientRecipe, n oidc.Client, at, secret string) error {
	filled := c.filled(enteredClient{URL: at, Issuer: p.OIDC.Issuer(), ID: n.ID, Secret: secret})
	app, err := p.Policy.Application(r.ctx(), n.Slug)
	if err != nil { // the secret is made, and must be shown
		app.Name = n.Slug
	}
	here := signInPath + "/" + url.PathEscape(n.Slug)
	return p.showSecret(r, secretPage{Name: "client", At: here, Back: here}, &enteredPage{
		Slug: n.Slug, Name: app.Name, Recipe: c.Slug, Issuer: p.OIDC.Issuer(), Secret: secret, Fields: filled.Fields,
		Config: filled.Config, Rows: min(strings.Count(filled.Config, "\n")+2, 20),
		Guide: c.Guide(), Missing: p.missing(r, app), Here: oidc.IsLoopback(p.OIDC.Issuer()),
	})
}

// missing reports whether nothing leads to an application that asks who signs in: it was not reached, has no route,
// and its address is at the portal's host or below it.
func (p *Pages) missing(r *request, a application.Application) bool {
	if a.Reached || a.Route.Upstream != "" {
		return false
	}
	portal := p.portalOf(r)
	_, host, _ := strings.Cut(portal, "://")
	u, err := url.Parse(p.absolute(r, a.URL))
	return err == nil && (application.IsAt(portal, u.Host) || strings.HasSuffix(u.Host, "."+host))
}

type signInPage struct {
	App       application.Application
	Client    oidc.Client // the zero value: App does not ask who signs in
	Recipes   []clientRecipe
	Issuer    string
	Guide     string
	Off       string // why there is no provider, in words; empty: there is one
	Moved     bool   // there is none because PUBLIC_URL has changed
	Refused   []refusal
	Connected []connected
	More      int // how many logins there are beside Connected, as connected counts them
	Members   []user.Details
	learned
	NoToken string // as noToken returns it
}

// learned is what an application learns about a user.
type learned struct {
	Of     string // username
	Claims []claim
	Fails  string // why the user cannot sign in there, in words
}

// claim is a claim, or a field of a form, and its value.
type claim struct{ Name, Value string }

// refusal is what was refused, in words.
type refusal struct {
	oidc.Refusal
	Text  string
	Takes bool // the address can be entered for the client
}

type connected struct {
	oidc.Connection
	Who string
}

const (
	// shownRefusals and shownConnected are how many refusals and logins the page shows at most, so that it stays small.
	shownRefusals  = 6
	shownConnected = 10
)

func (p clients) page(r *request) (err error) {
	page := signInPage{Issuer: p.OIDC.Issuer(), Recipes: clientRecipes}
	if page.Off, err = p.signInOff(r); err != nil {
		return err
	}
	page.Moved = errors.Is(p.OIDC.Off(r.ctx()), oidc.ErrIssuerChanged)
	if page.App, err = p.Policy.Application(r.ctx(), r.Param("id")); err != nil {
		return err
	}
	page.Client, err = p.OIDC.Client(r.ctx(), page.App.Slug)
	if errors.Is(err, oidc.ErrNoClient) {
		return p.render(r, "signin", fmt.Sprintf(r.text["ClientForF"], page.App.Name), page)
	}
	if err != nil {
		return err
	}
	c, _ := recipeOfClient(page.Client)
	page.Guide = c.Guide()
	refused, err := p.OIDC.Refusals(r.ctx(), page.Client)
	if err != nil {
		return err
	}
	page.Refused = r.text.refusals(refused, page.Client)
	if page.NoToken, err = p.noToken(r, page.App, page.Client); err != nil {
		return err
	}
	if page.Members, err = p.People.Members(r.ctx()); err != nil {
		return err
	}
	if page.Connected, page.More, err = p.connected(r, page.App, page.Members); err != nil {
		return err
	}
	if page.Of = r.QueryParam("user"); page.Of != "" {
		if page.learned, err = p.learns(r, page.App.Slug, page.Of); err != nil {
			return err
		}
	}
	page.Of = cmp.Or(page.Of, r.User.Username)
	return p.render(r, "signin", fmt.Sprintf(r.text["ClientForF"], page.App.Name), page)
}

// recipeOfClient returns the recipe whose first address a client has, with the address of the application; recipes
// whose first address is an origin alone are left out. Where there is none, it returns the recipe of other
// applications, with the origin of the client's first address.
func recipeOfClient(client oidc.Client) (c clientRecipe, at string) {
	for _, c := range clientRecipes {
		if len(c.Redirects) == 0 || c.Origin { // an origin alone is no recipe's
			continue
		}
		for _, address := range client.Redirects {
			at, found := strings.CutSuffix(address, strings.TrimPrefix(c.Redirects[0], "{url}"))
			if found && slices.Contains(client.Redirects, c.filled(enteredClient{URL: at}).Redirects[0]) {
				return c, at
			}
		}
	}
	c, _ = clientRecipeOf(otherClient)
	if len(client.Redirects) > 0 {
		at = oidc.Origin(client.Redirects[0])
	}
	return c, at
}

// refusals are the keys of texts, by the reason for which something was refused. Any other reason has the text
// RefusedOtherF.
var refusals = map[string]string{
	"redirect_uri": "RefusedAddress", oidc.ErrClient.Error(): "RefusedSecret", oidc.ErrIDs.Error(): "RefusedSecret",
	oidc.ErrCodeUsed.Error(): "RefusedCode", oidc.ErrCodeClient.Error(): "RefusedCode",
	oidc.ErrCodeAddress.Error(): "RefusedCodeAddress", oidc.ErrVerifier.Error(): "RefusedPKCE",
	oidc.ErrNoChallenge.Error(): "RefusedPKCE", oidc.ErrPKCE.Error(): "RefusedPKCE",
	oidc.ErrPKCERequired.Error(): "RefusedPKCE", oidc.ErrScope.Error(): "RefusedScope",
	oidc.ErrRefresh.Error(): "RefusedRefresh", oidc.ErrRefreshUsed.Error(): "RefusedRefresh",
}

// refusals returns in words what was refused of a client: the first shownRefusals.
func (t texts) refusals(all []oidc.Refusal, client oidc.Client) (shown []refusal) {
	for _, one := range all[:min(len(all), shownRefusals)] {
		text := t[refusals[one.Reason]]
		if text == "" {
			text = fmt.Sprintf(t["RefusedOtherF"], one.Reason)
		}
		takes := oidc.CheckAddress(one.Address, client.Public) == nil && !client.HasRedirect(one.Address)
		shown = append(shown, refusal{Refusal: one, Text: text, Takes: takes})
	}
	return shown
}

// noToken says in words what oidc.Service.Unfinished reports; "": it reports false.
func (p clients) noToken(r *request, app application.Application, client oidc.Client) (string, error) {
	begun, err := p.OIDC.Unfinished(r.ctx(), client)
	if err != nil || !begun {
		return "", err
	}
	said := fmt.Sprintf(r.text["TrialNoTokenF"], app.Name)
	if oidc.IsLoopback(p.OIDC.Issuer()) {
		return said + " " + r.text["ClientNextHere"], nil
	}
	return said + " " + fmt.Sprintf(r.text["TrialUnreachedF"], p.OIDC.Issuer()), nil
}

// connected returns the newest logins at an application, and how many more there are, of 1000 at most.
func (p clients) connected(
	r *request, app application.Application, members []user.Details,
) (shown []connected, more int, err error) {
	all, err := p.OIDC.Connections(r.ctx(), 0, app.ID)
	if err != nil {
		return nil, 0, err
	}
	for _, one := range all {
		who := one.Username
		if i := slices.IndexFunc(members, func(m user.Details) bool { return m.ID == one.UserID }); i >= 0 {
			who = members[i].DisplayName
		}
		shown = append(shown, connected{one, who})
	}
	more = max(0, len(shown)-shownConnected)
	return shown[:len(shown)-more], more, nil
}

// learns returns what an application learns about a user, or why nothing.
func (p clients) learns(r *request, slug, username string) (l learned, err error) {
	l.Of = username
	preview, err := p.OIDC.Preview(r.ctx(), slug, username)
	switch {
	case errors.Is(err, oidc.ErrNotAdmitted), errors.Is(err, user.ErrNotFound):
		l.Fails = fmt.Sprintf(r.text["LearnsNothingF"], username)
		return l, nil
	case errors.Is(err, oidc.ErrFactor):
		l.Fails = fmt.Sprintf(r.text["LearnsFactorF"], username)
		return l, nil
	case err != nil:
		return l, err
	}
	l.Claims = claimsOf(preview)
	return l, nil
}

// change carries out what the button of a form says.
func (p clients) change(r *request) error {
	slug, f := r.Param("id"), r.form
	here := signInPath + "/" + url.PathEscape(slug)
	switch f.get("do") {
	case "change":
		return r.done(here, "profile", p.OIDC.Change(r.ctx(), r.Session, slug, f.changeClient))
	case "take":
		err := p.OIDC.Change(r.ctx(), r.Session, slug, func(c *oidc.Client) error {
			if !slices.Contains(c.Redirects, f.get("address")) {
				c.Redirects = append(c.Redirects, f.get("address"))
			}
			return nil
		})
		return r.done(here, "client-address", err)
	case "secret":
		client, err := p.OIDC.Client(r.ctx(), slug) // first: once it is made, the secret must be shown
		if err != nil {
			return err
		}
		secret, err := p.OIDC.AddSecret(r.ctx(), r.Session, slug)
		if err != nil {
			return err
		}
		c, at := recipeOfClient(client)
		return p.showEntered(r, c, client, at, secret)
	case "unsecret":
		id, err := strconv.ParseInt(f.get("secret"), 10, 64)
		if err != nil {
			return web.ErrMalformed
		}
		err = p.OIDC.RemoveSecret(r.ctx(), r.Session, slug, id)
		return r.done(here, "client-secret-removed", err, oidc.ErrNoSecret)
	case "end":
		return r.done(here, "disconnected", p.OIDC.Disconnect(r.ctx(), r.UserID, f.get("grant")), oidc.ErrNoConnection)
	case "issuer":
		return r.done(here, "issuer-taken", p.OIDC.TakeIssuer(r.ctx(), r.Session))
	case "remove":
		err := p.OIDC.Remove(r.ctx(), r.Session, slug)
		return r.done(appsPath+"/"+url.PathEscape(slug), "client-removed", err, oidc.ErrNoClient)
	}
	return web.ErrMalformed
}

// changeClient sets the fields of c to those of the form of a client. web.ErrAfterLogout.
func (f form) changeClient(c *oidc.Client) error {
	c.Redirects, c.AfterLogout = f.lines("redirects"), f.lines("after")
	for _, address := range c.AfterLogout {
		if oidc.CheckAddress(address, c.Public) != nil {
			return web.ErrAfterLogout
		}
	}
	c.LogoutURI = strings.TrimSpace(f.get("logout"))
	c.Groups = oidc.GroupClaim(f.get("groups"))
	c.Email, c.Offline, c.Ask, c.Device = f.sent("email"), f.sent("offline"), f.sent("ask"), f.sent("device")
	if !c.Public {
		c.PKCE = oidc.Auto
		if f.sent("pkce") {
			c.PKCE = oidc.Required
		}
	}
	return nil
}

// trial shows what an application would learn if the admin signed in to it now, or what would be in the way. The
// application is not told.
func (p clients) trial(r *request) (err error) {
	page := struct {
		App application.Application
		learned
		Slug, NoToken string
		Missing       bool // as in enteredPage
	}{Slug: r.Param("id")}
	if page.App, err = p.Policy.Application(r.ctx(), page.Slug); err != nil {
		return err
	}
	client, err := p.OIDC.Client(r.ctx(), page.Slug)
	if err != nil {
		return err
	}
	if page.Fails, err = p.signInOff(r); err != nil {
		return err
	}
	if page.Fails == "" {
		if page.learned, err = p.learns(r, page.Slug, r.User.Username); err != nil {
			return err
		}
	}
	if page.NoToken, err = p.noToken(r, page.App, client); err != nil {
		return err
	}
	page.Missing = p.missing(r, page.App)
	return p.render(r, "trial", fmt.Sprintf(r.text["TrialF"], page.App.Name), page)
}

// signInState returns whether an application asks who signs in, in words and as is. The text is "" where it
// does not and there is no provider, unless that is for want of a data key or because PUBLIC_URL has changed.
func (p *Pages) signInState(r *request, app application.Application) (text string, is bool, err error) {
	switch _, err := p.OIDC.Client(r.ctx(), app.Slug); {
	case err == nil:
		return fmt.Sprintf(r.text["SignInIsF"], app.Name), true, nil
	case !errors.Is(err, oidc.ErrNoClient):
		return "", false, err
	}
	switch err := p.OIDC.Off(r.ctx()); {
	case err == nil:
		return r.text["SignInNone"], false, nil
	case errors.Is(err, oidc.ErrNoPublicURL), errors.Is(err, oidc.ErrNoPages):
		return "", false, nil
	}
	text, err = p.signInOff(r)
	return text, false, err
}
