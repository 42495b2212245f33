package pages

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/user"
)

const newAppPath = appsPath + "/new"

type newAppPage struct {
	Recipes []recipe       // without those of Clients
	Clients []clientRecipe // of applications that ask who signs in
	Groups  groupList
	App     application.Application // the zero value, for the templates of an application's fields
	Route   routeForm
	Hosts   bool   // applications can have hosts below the portal's
	Scheme  string // of the portal, and so is Host
	Host    string
	// More: a field is wrong that the page does not show at first.
	More bool
}

// routeForm is what the fields of a route show.
type routeForm struct {
	application.Route
	Headers []string
	// HasPath: the application is, or may be, at a path.
	HasPath bool
	// Trial is what came of trying the address; the zero value: the page says nothing of it.
	Trial trial
	// Tries: without scripts the form has a button that tries the address.
	Tries bool
}

// upstreamView is what the templates of a route's fields show.
type upstreamView struct {
	routeForm
	T                                 texts
	Value, Wrong, Header, WrongHeader string
	// Keep: the application's path stays in requests.
	Keep bool
}

// upstreamFields returns what the templates of a route's fields show: what was typed, or the route as stored.
func upstreamFields(v view, route routeForm) upstreamView {
	u := upstreamView{
		routeForm: route, T: v.T, Value: v.Value("upstream", route.Upstream), Wrong: v.Wrong("upstream"),
		Header: v.Value("user_header", route.UserHeader), WrongHeader: v.Wrong("user_header"),
		Keep: route.Upstream != "" && !route.Strip,
	}
	if v.form.sent("upstream") {
		u.Keep = v.form.sent("keep")
	}
	return u
}

// skips are the keys of texts, by the reason for which a proxy leaves out an application. Any other reason has the text
// RouteSkippedF.
var skips = map[string]string{
	"address": "SkippedAddress", "own": "SkippedOwn", "certificate": "SkippedCertificate",
}

// Skipped returns why a proxy leaves out an application, in words.
func (v view) Skipped(reason string) string {
	if key := skips[reason]; key != "" {
		return v.T[key]
	}
	return fmt.Sprintf(v.T["RouteSkippedF"], reason)
}

// trial is what a probe of an internal address found, or why there was none, in words.
type trial struct {
	Text string `json:"text"`
	Good bool   `json:"good"`
}

func (p appPages) newApp(r *request) (err error) {
	portal, err := url.Parse(p.portalOf(r))
	if err != nil {
		return err
	}
	page := newAppPage{
		Recipes: recipes, Scheme: portal.Scheme, Host: portal.Host, Hosts: p.PublicURL != "" && namesHosts(portal),
		Route: routeForm{Headers: application.UserHeaders, HasPath: true, Trial: r.trial, Tries: true},
	}
	switch err := p.OIDC.Off(r.ctx()); {
	case err == nil:
		page.Clients = clientRecipes
		page.Recipes = slices.DeleteFunc(slices.Clone(recipes), func(rec recipe) bool {
			_, asks := clientRecipeOf(rec.Slug)
			return asks
		})
	case !oidc.IsOff(err):
		return err
	}
	if r.fault != nil {
		page.More = slices.Contains([]string{"slug", "description", "user_header"}, r.fault.Field)
	}
	if page.Groups, err = p.Policy.Groups(r.ctx()); err != nil {
		return err
	}
	return p.render(r, "app-new", r.text["ApplicationNew"], page)
}

// portalOf returns the portal's origin; without PUBLIC_URL, that of the request.
func (p *Pages) portalOf(r *request) string {
	scheme := "http"
	if p.Secure {
		scheme = "https"
	}
	return cmp.Or(p.PublicURL, scheme+"://"+r.Request().Host)
}

// namesHosts reports whether there can be hosts below a portal's, as below a name and not below an IP address.
func namesHosts(portal *url.URL) bool {
	host := portal.Hostname()
	return !strings.Contains(host, ":") && strings.Trim(host, "0123456789.") != ""
}

// addNewApp adds an application with its route and picture, has the proxies try its address, and leads to its page.
// The button probe of its form has them try the address alone.
func (p appPages) addNewApp(r *request) error {
	f := r.form
	if f.get("do") == "probe" {
		r.trial = p.try(r)
		return p.newApp(r)
	}
	rec := recipeOf(f.get("recipe"))
	if f.get("filled") == rec.Slug { // a script has filled in the recipe, and what is empty was emptied
		rec = recipe{Slug: rec.Slug}
	}
	name := cmp.Or(strings.TrimSpace(f.get("name")), r.text["recipe."+rec.Slug])
	at := p.addressOf(r, cmp.Or(strings.TrimSpace(f.get("url")), slugOf(name)), f.get("where") == "path")
	n, err := p.newApplication(r, name, at)
	if err != nil {
		return err
	}
	n.Description = f.get("description")
	n.SecondFactor, n.Tokens = f.sent("second_factor"), f.sent("tokens") || rec.Tokens
	if typed := strings.TrimSpace(f.get("slug")); typed != "" {
		if n.Slug = slugOf(typed); slices.Contains(ownSlugs, n.Slug) {
			return application.ErrSlugTaken
		}
		n.Color = user.ColorOf(n.Slug)
	}
	var icon application.Icon
	if len(r.file) > 0 {
		if icon, err = p.Policy.IconOf(r.ctx(), r.file); err != nil {
			return err
		}
	}
	route := policy.RouteChange{
		Upstream: cmp.Or(strings.TrimSpace(f.get("upstream")), rec.Upstream), Strip: !f.sent("keep"),
		UserHeader: cmp.Or(f.get("user_header"), rec.UserHeader), Recipe: rec.Slug,
	}
	if err := p.Policy.CreateWith(r.ctx(), r.Session, n, route, icon); err != nil {
		return err
	}
	to := url.Values{"done": {"app-new"}}
	if found := p.foundAt(r, n.Slug, route.Upstream); found != "" {
		to.Set("probe", found)
	}
	return r.seeOther(appsPath + "/" + n.Slug + "?" + to.Encode())
}

// newApplication returns an application of a name and an address, with the rule of the form and a slug that is free.
// application.ErrName.
func (p *Pages) newApplication(r *request, name, at string) (n policy.NewApplication, err error) {
	n = policy.NewApplication{Name: strings.TrimSpace(name), URL: at}
	if n.Name == "" {
		return n, application.ErrName
	}
	n.Rule, n.Group, _ = strings.Cut(cmp.Or(r.form.get("rule"), string(application.Login)), ":")
	taken, err := p.Policy.Applications(r.ctx())
	if err != nil {
		return n, err
	}
	n.Slug = freeSlug(slugOf(n.Name), taken)
	n.Color = user.ColorOf(n.Slug)
	return n, nil
}

// addressOf returns the address of an application that was typed as a label, a path, a host or a whole URL; with
// path, what is no URL of another host is a path. It refuses nothing: what is no address is refused when it is to be
// stored.
func (p *Pages) addressOf(r *request, typed string, path bool) string {
	typed = strings.TrimSpace(typed)
	portal := p.portalOf(r)
	if u, err := url.Parse(typed); err == nil && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" {
		if !application.IsAt(portal, u.Host) {
			return typed[:len(typed)-len(u.EscapedPath())]
		}
		typed = cmp.Or(u.EscapedPath(), "/")
	}
	if path || strings.HasPrefix(typed, "/") {
		if trimmed := strings.Trim(typed, "/"); trimmed != "" {
			return "/" + trimmed + "/"
		}
		return "/"
	}
	typed = strings.ToLower(typed)
	scheme, host, _ := strings.Cut(portal, "://")
	if !strings.Contains(typed, ".") {
		typed += "." + host
	}
	return scheme + "://" + typed
}

// german replaces the letters of German that are none of a to z.
var german = strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "ß", "ss")

// maxLabel is how long the short names of slugOf are at most, in bytes, so that there is room for a number.
const maxLabel = 28

// slugOf returns a text as a short name: "Bücher & Co." is "buecher-co"; "app" where nothing is left of it.
func slugOf(text string) string {
	words := strings.FieldsFunc(plain(german.Replace(strings.ToLower(text))), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	slug := strings.Join(words, "-")
	return cmp.Or(strings.Trim(slug[:min(len(slug), maxLabel)], "-"), "app")
}

// ownSlugs are slugs that no application gets here, because other pages have the paths that its pages would have.
var ownSlugs = []string{"new", "probe"}

// freeSlug returns a short name that no application has, with a number where it is taken.
func freeSlug(slug string, taken []application.Application) string {
	for n, free := 2, slug; ; n++ {
		if !slices.Contains(ownSlugs, free) &&
			!slices.ContainsFunc(taken, func(a application.Application) bool { return a.Slug == free }) {
			return free
		}
		free = slug + "-" + strconv.Itoa(n)
	}
}

// probe answers the script of the form, which asks when the address has changed.
func (p appPages) probe(r *request) error {
	return r.JSON(http.StatusOK, p.try(r))
}

// try has the proxies try the internal address of a form, and returns in words what they found, or why they did not.
func (p appPages) try(r *request) trial {
	found, err := p.Policy.Probe(r.ctx(), strconv.FormatInt(r.UserID, 10), r.form.get("upstream"))
	if err == nil {
		return r.text.trial(found)
	}
	for _, known := range []struct {
		err error
		key string
	}{
		{application.ErrUpstream, "BadUpstream"},
		{application.ErrUpstreamBlocked, "UpstreamBlocked"},
		{policy.ErrNoProxy, "ProbeNoProxy"},
		{policy.ErrTooManyProbes, "ProbeLimited"},
	} {
		if errors.Is(err, known.err) {
			return trial{Text: r.text[known.key]}
		}
	}
	if !errors.Is(err, policy.ErrProbeWaits) {
		p.Log.WarnContext(r.ctx(), "an internal address cannot be tried", "error", err)
	}
	return trial{Text: r.text["ProbeWaits"]}
}

// probeFaults are the keys of texts, by the Error of a probe without an answer. Any other Error has the text
// ProbeNobody.
var probeFaults = map[string]string{"name": "ProbeName", "address": "UpstreamBlocked", "tls": "ProbeTLS"}

// trial returns in words what a probe found.
func (t texts) trial(found application.Probe) trial {
	switch {
	case found.Good():
		return trial{fmt.Sprintf(t["ProbeGoodF"], found.Status, found.MS), true}
	case found.Status != 0:
		return trial{Text: fmt.Sprintf(t["ProbeFaultF"], found.Status)}
	}
	return trial{Text: t[cmp.Or(probeFaults[found.Error], "ProbeNobody")]}
}

// foundAt has the proxies try the address of an application, and returns what they found for the URL of its page; ""
// where they did not, or upstream is "". An application that answers well (application.Probe.Good) counts as reached.
func (p appPages) foundAt(r *request, slug, upstream string) string {
	if upstream == "" {
		return ""
	}
	found, err := p.Policy.Probe(r.ctx(), strconv.FormatInt(r.UserID, 10), upstream)
	switch {
	case errors.Is(err, policy.ErrNoProxy), errors.Is(err, policy.ErrProbeWaits),
		errors.Is(err, policy.ErrTooManyProbes):
		return ""
	case err != nil:
		p.Log.WarnContext(r.ctx(), "an internal address cannot be tried", "error", err)
		return ""
	case found.Status == 0:
		return found.Error
	}
	if found.Good() {
		if a, err := p.Policy.Application(r.ctx(), slug); err == nil {
			p.Policy.Reached(r.ctx(), a)
		}
	}
	return strconv.Itoa(found.Status) + "." + strconv.Itoa(found.MS)
}

// probeWord is the form of what foundAt returns where the address did not answer the proxies: the Probe's Error.
var probeWord = regexp.MustCompile(`\A[a-z]{1,32}\z`)

// readTrial returns in words what foundAt has returned; the zero value for anything else.
func (t texts) readTrial(found string) trial {
	if status, ms, ok := strings.Cut(found, "."); ok {
		code, err := strconv.Atoi(status)
		took, tookErr := strconv.Atoi(ms)
		if err == nil && tookErr == nil && code >= 100 && code <= 599 && took >= 0 {
			return t.trial(application.Probe{Status: code, MS: took})
		}
	}
	if !probeWord.MatchString(found) {
		return trial{}
	}
	return t.trial(application.Probe{Error: found})
}
