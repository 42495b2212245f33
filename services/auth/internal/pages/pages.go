package pages

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // for TZ in a container without it

	"github.com/labstack/echo/v4"
	"golang.org/x/text/language"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/once"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

//go:embed proxies recipes templates static texts
var files embed.FS

// Options are the parts of the pages. All fields are required unless noted.
type Options struct {
	*web.Web
	Once *once.Store
	// AppName and a dot begin the names of the pages' cookies; it is session.Options.Name.
	AppName string
	// Location is the time zone in which pages show times and read dates; nil means time.Local. For users who are
	// logged in, time.js shows the <time> elements in the time zone of their browser.
	Location *time.Location
}

// Pages has what all pages share, and their routes. Most handlers are methods of a type for each capability, such as
// signIn.
type Pages struct {
	Options
	templates *template.Template // the layout, the parts, and of a page such as login "login/main" and "login/head"
	assets    map[string]asset   // by file name
	languages language.Matcher
	texts     map[string]texts // by language
	routes    map[string]route // by pattern of the path, those that page has added with a form
	uploading chan struct{}    // one element for each form with a file that is read or carried out
}

// asset is an embedded file as it is served.
type asset struct {
	content []byte
	hash    string // of the content; browsers keep a file for a year under a URL with it
	kind    string
}

// kinds are the media types of embedded files.
var kinds = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".png": "image/png",
	".svg": "image/svg+xml",
}

// New checks the options and returns the pages.
func New(o Options) (*Pages, error) {
	if o.Web == nil || o.Once == nil || o.AppName == "" {
		return nil, errors.New("pages: a required option is not set")
	}
	o.Location = cmp.Or(o.Location, time.Local)
	p := &Pages{
		Options: o, assets: map[string]asset{},
		languages: language.NewMatcher([]language.Tag{language.English, language.German}), texts: map[string]texts{},
		routes: map[string]route{}, uploading: make(chan struct{}, maxUploading),
	}
	for _, lang := range []string{"de", "en"} {
		words, err := readTexts(lang)
		if err != nil {
			return nil, err
		}
		p.texts[lang] = words
	}
	if err := p.parse(); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	static, err := files.ReadDir("static")
	if err != nil {
		return nil, err
	}
	for _, file := range static {
		name := file.Name()
		content, err := files.ReadFile("static/" + name)
		if err != nil {
			return nil, err
		}
		content = minify(name, content)
		sum := sha256.Sum256(content)
		p.assets[name] = asset{content, hex.EncodeToString(sum[:8]), kinds[path.Ext(name)]}
	}
	return p, nil
}

// parse reads the templates into one set, where the layout and each part are there once: a set for each page would be
// most of what the service keeps in memory, which Go looks through at each collection.
func (p *Pages) parse() (err error) {
	p.templates, err = template.New("").Option("missingkey=error").Funcs(functions).ParseFS(files,
		"templates/layout.html", "templates/parts.html")
	if err != nil {
		return err
	}
	names, err := fs.Glob(files, "templates/page-*.html")
	if err != nil {
		return err
	}
	for _, name := range names {
		page, err := template.New("").Funcs(functions).ParseFS(files, name)
		if err != nil {
			return err
		}
		for _, part := range []string{"head", "main"} {
			if t := page.Lookup(part); t != nil {
				as := strings.TrimSuffix(strings.TrimPrefix(path.Base(name), "page-"), ".html") + "/" + part
				if _, err := p.templates.AddParseTree(as, t.Tree); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

var (
	comments = regexp.MustCompile(`(?m)^\s*//.*\n|^/\*.*\*/\n|^[ \t]+`)
	spaces   = regexp.MustCompile(`\s*([{};,>])\s*|(:) +`)
)

// minify returns a stylesheet without most spaces and without comments that are a whole line, not indented; a script
// without comment lines and indentation; and any other file as it is. It does not know strings, so none in these files
// may contain what it removes.
func minify(name string, content []byte) []byte {
	switch path.Ext(name) {
	case ".css":
		content = spaces.ReplaceAll(comments.ReplaceAll(content, nil), []byte("$1$2"))
		return bytes.ReplaceAll(content, []byte(";}"), []byte("}"))
	case ".js":
		return comments.ReplaceAll(content, nil)
	}
	return content
}

// root is how the paths of pages begin.
const root = "/pforte/"

// Routes adds all routes.
func (p *Pages) Routes(e *echo.Echo) {
	p.page(e, root, route{needs: needsSession, get: profile{p}.start, post: profile{p}.changeStart})
	p.page(e, root+"login", route{get: signIn{p}.loginForm, post: signIn{p}.login})
	p.page(e, root+"logout", route{needs: needsSession, get: signIn{p}.logoutForm, post: signIn{p}.logout})
	p.page(e, root+"second", route{get: signIn{p}.secondForm, post: signIn{p}.second})
	p.page(e, root+"reauth", route{needs: needsSession, get: signIn{p}.reauthForm, post: signIn{p}.reauth})
	p.page(e, root+"ask", route{needs: needsSession, get: accessRequests{p}.form, post: accessRequests{p}.ask})
	p.page(e, root+"duty", route{needs: needsSession, get: signIn{p}.remindOfFactor})
	l := linkPages{p}
	p.page(e, root+"forgot", route{counted: true, get: l.forgotForm, post: l.forgot})
	p.page(e, root+"setup", route{counted: true, get: p.limitGuesses(l.setupForm), post: l.setup})
	p.page(e, root+"join", route{counted: true, get: p.limitGuesses(l.joinForm), post: l.join})
	p.page(e, root+"reset", route{counted: true, get: p.limitGuesses(l.resetForm), post: l.reset})
	p.page(e, root+"account", route{needs: needsSession, get: profile{p}.account, post: profile{p}.changeProfile})
	p.page(e, picturePath, route{
		needs: needsSession, upload: true, get: profile{p}.account, post: profile{p}.changePicture,
	})
	p.page(e, root+"pictures/:id/:hash", route{needs: needsSession, get: profile{p}.picture})
	p.page(e, leavePath, route{needs: needsSession, fresh: true, get: profile{p}.leaveForm, post: profile{p}.leave})
	p.page(e, securityPath, route{needs: needsSession, get: security{p}.page, post: security{p}.change})
	p.page(e, codeAppPath, route{needs: needsSession, get: security{p}.codeApp, post: security{p}.change})
	for at, part := range formerly {
		p.page(e, at, route{needs: needsSession, get: security{p}.redirectTo(part)})
	}
	p.page(e, tokensPath, route{needs: needsSession, get: appTokens{p}.tokens, post: appTokens{p}.changeTokens})
	p.page(e, root+"admin/members", route{needs: needsAdmin, recent: true, get: household{p}.members})
	p.page(e, root+"admin/members/:id", route{
		needs: needsAdmin, fresh: true, recent: true, get: household{p}.member, post: household{p}.changeMember,
	})
	p.page(e, invitesPath, route{
		needs: needsAdmin, fresh: true, recent: true, get: household{p}.invites, post: household{p}.changeInvites,
	})
	p.page(e, invitesPath+"/:id", route{
		needs: needsAdmin, fresh: true, recent: true, ownSecret: true,
		get: household{p}.invite, post: household{p}.changeInvites,
	})
	p.page(e, invitesPath+"/:id/state", route{
		needs: needsAdmin, recent: true, passive: true, get: household{p}.inviteState,
	})
	p.page(e, appsPath, route{needs: needsAdmin, get: appPages{p}.apps})
	p.page(e, newAppPath, route{
		needs: needsAdmin, fresh: true, upload: true, get: appPages{p}.newApp, post: appPages{p}.addNewApp,
	})
	p.page(e, appsPath+"/probe", route{
		needs: needsAdmin, fresh: true, get: appPages{p}.newApp, post: appPages{p}.probe,
	})
	p.page(e, appsPath+"/:id", route{needs: needsAdmin, fresh: true, get: appPages{p}.app, post: appPages{p}.changeApp})
	p.page(e, appsPath+"/:id/icon", route{
		needs: needsAdmin, fresh: true, upload: true, get: appPages{p}.app, post: appPages{p}.changeIcon,
	})
	c := clients{p}
	p.page(e, signInPath+"/:id", route{needs: needsAdmin, fresh: true, recent: true, get: c.page, post: c.change})
	p.page(e, newClientPath+"/:id", route{needs: needsAdmin, fresh: true, get: c.newClient, post: c.addClient})
	p.page(e, trialPath+"/:id", route{needs: needsAdmin, get: c.trial})
	p.page(e, keysPath, route{needs: needsAdmin, fresh: true, get: signingKeys{p}.page, post: signingKeys{p}.rotate})
	p.page(e, web.OIDCContinuePage, route{
		needs: needsSession, get: authorizations{p}.question, post: authorizations{p}.answer,
	})
	p.page(e, web.OIDCDevicePage, route{needs: needsSession, get: devices{p}.page, post: devices{p}.answer})
	p.page(e, connectionsPath, route{needs: needsSession, get: connections{p}.page, post: connections{p}.change})
	p.page(e, groupsPath, route{
		needs: needsAdmin, fresh: true, recent: true, get: appPages{p}.groups, post: appPages{p}.addGroup,
	})
	p.page(e, groupsPath+"/:id", route{
		needs: needsAdmin, fresh: true, recent: true, get: appPages{p}.group, post: appPages{p}.changeGroup,
	})
	p.page(e, root+"admin/security", route{
		needs: needsAdmin, fresh: true, recent: true, get: rules{p}.page, post: rules{p}.change,
	})
	p.page(e, auditPath, route{needs: needsAdmin, recent: true, get: audits{p}.audit})
	p.page(e, auditPath+".csv", route{needs: needsAdmin, get: audits{p}.auditFile})

	p.page(e, goPath, route{get: handOvers{p}.handOver})
	applicationLogouts{p}.routes(e)
	// Not HEAD: a code counts once.
	e.GET(enterPath, p.handle(route{onAppHost: true, get: handOvers{p}.enter}, handOvers{p}.enter))

	p.page(e, manifestPath, route{onAppHost: true, get: p.manifest})
	for name := range p.assets {
		e.GET(root+name, p.asset)
		e.HEAD(root+name, p.asset)
	}
	e.GET("/pforte", func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, root) })
	e.GET("/.well-known/change-password", func(c echo.Context) error {
		return c.Redirect(http.StatusSeeOther, securityPath+"?open=password")
	})
	nothing := p.handle(route{get: notFound}, notFound)
	e.GET(iconsPath+":name", p.iconOrNothing(nothing))
	e.HEAD(iconsPath+":name", p.iconOrNothing(nothing))
	e.Any(root+"*", nothing)
	e.Any(root+":section/*", nothing)
}

// need is what a page needs of its client.
type need int

const (
	needsNothing need = iota
	needsSession
	needsAdmin
)

// route is a page: its handlers, and what holds for requests to it.
type route struct {
	needs need
	fresh bool // its forms need a fresh proof of who the user is (account.FreshFor), unless they remove a kept secret
	// recent: it shows other people's data, and each request needs a proof of the last day (account.RecentFor).
	recent bool
	// ownSecret: its handler shows the secret that the query names, in place of Pages.secret.
	ownSecret bool
	// passive: a script asks for it; such requests do not renew the session.
	passive bool
	// counted: each form counts for the client's address, whatever the answer.
	counted bool
	// upload: its form may have a file; the body is read only of a request with a session.
	upload bool
	// onAppHost: it is on the hosts of applications too. A GET of another page redirects from there to PUBLIC_URL, if
	// that is set, and a POST finds none.
	onAppHost bool
	get       handler
	post      handler // nil: the page has no form
}

// handler answers a request, or returns an error, which Pages.failed answers.
type handler func(*request) error

func (p *Pages) page(e *echo.Echo, at string, r route) {
	e.GET(at, p.handle(r, r.get))
	e.HEAD(at, p.handle(r, r.get))
	if r.post != nil {
		e.POST(at, p.handle(r, r.post))
		p.routes[at] = r
	}
}

func notFound(*request) error { return service.ErrNoRoute }

type request struct {
	echo.Context
	web.Caller // zero unless the page needs a session or its handler has loaded one
	page       route
	text       texts
	// form holds the fields of a POST, or of a form that was kept (Pages.resume). It is empty in a GET.
	form   form
	body   string // of a POST, as it was sent; of an upload, the fields and the hash of the file
	file   []byte // of an upload; nil: there is none
	trial  trial  // of the internal address in the form
	status int    // of the page; 0: 200
	once   *shownOnce
	fault  *fault // what the page says has failed; nil: nothing
}

func (r *request) ctx() context.Context { return r.Request().Context() }

// detach sets the request of r to that of web.Web.Detach. The returned function sets it to the former one again,
// because a page may be shown after the work of its form has failed.
func (p *Pages) detach(r *request) func() {
	before := r.Request()
	detached, cancel := p.Detach(before)
	r.SetRequest(detached)
	return func() {
		cancel()
		r.SetRequest(before)
	}
}

// param returns a field of the form or, where the form has none of this name, a parameter of the query.
func (r *request) param(name string) string {
	if r.form.sent(name) {
		return r.form.get(name)
	}
	return r.QueryParam(name)
}

func (r *request) seeOther(to string) error {
	return r.Redirect(http.StatusSeeOther, to)
}

// failed reports whether a change failed. One that is saved has not, though sessions that it revokes are still to be
// ended (account.ErrPending): they are refused already (AUTH-2.17).
func failed(err error) bool { return err != nil && !errors.Is(err, account.ErrPending) }

// done redirects to a page, which says what has been done, or returns err if the change failed. One of the errors
// already says that it was done before.
func (r *request) done(page, what string, err error, already ...error) error {
	if failed(err) && !slices.ContainsFunc(already, func(known error) bool { return errors.Is(err, known) }) {
		return err
	}
	return r.seeOther(page + "?done=" + what)
}

// handle returns the echo handler of a page's method: it sets the headers and the language, calls guarded, and has
// failed answer an error.
func (p *Pages) handle(at route, h handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		setHeaders(c.Response().Header())
		if at.upload && c.Request().Method == http.MethodPost { // the file may be longer on its way than work may take
			ctx, cancel := web.Waiting(c.Request())
			defer cancel()
			c.SetRequest(c.Request().WithContext(ctx))
		}
		r := &request{Context: c, page: at}
		r.text = p.language(r)
		err := p.guarded(r, h)
		if err == nil || c.Response().Committed {
			return err
		}
		return p.failed(r, err)
	}
}

// guarded checks what the page of a request needs and calls its handler h, unless it answers otherwise, such as with a
// redirect to the portal or to what a form has led to before, with the page of a new proof, or with a kept secret.
func (p *Pages) guarded(r *request, h handler) error {
	post := r.Request().Method == http.MethodPost
	if !r.page.onAppHost {
		switch portal, err := p.elsewhere(r); {
		case err != nil:
			return err
		case portal != "" && post:
			return service.ErrNoRoute
		case portal != "":
			return r.seeOther(portal)
		}
	}
	if post {
		if r.page.upload {
			var err error
			if r.Caller, err = p.caller(r); err != nil {
				return err
			}
			select {
			case p.uploading <- struct{}{}:
				defer func() { <-p.uploading }()
			case <-r.ctx().Done():
				return r.ctx().Err()
			}
		}
		if err := r.readForm(); err != nil {
			return err
		}
		if r.page.upload { // the request keeps the session that it has loaded
			if err := p.Accounts.CheckLive(r.ctx(), r.Session); err != nil {
				return err
			}
		}
		if !web.FromOwnPage(r.Request()) {
			p.LogEvent(r.Response(), r.Request(), "origin_refused")
			return web.ErrForeignPage
		}
		if answered, err := p.again(r); answered || err != nil {
			return err
		}
	}
	if r.page.needs == needsNothing {
		if !post {
			return h(r)
		}
		if r.page.counted {
			r.SetRequest(p.As(r.Response(), r.Request(), web.Caller{}))
			if err := p.Counted(r.Response(), r.Request(), service.RouteLabel(r)); err != nil {
				return err
			}
		}
		return p.carryOut(r, h)
	}
	if r.page.passive {
		r.SetRequest(r.Request().WithContext(session.WithoutRenewal(r.ctx())))
	}
	caller, err := p.caller(r)
	if err != nil {
		return err
	}
	r.Caller = caller
	if err := p.Sessions.ResendStale(r.Response(), r.Current); err != nil {
		return err
	}
	if r.page.needs == needsAdmin {
		if err := p.CheckAdmin(r.Response(), r.Request(), r.Caller); err != nil {
			return err
		}
	}
	// Before the CSRF token: a form with a wrong one has the page shown again, with all that needs the proof.
	ends := post && r.form.sent("once")
	if post && !ends && r.page.fresh && !p.fresh(r.Caller) || r.page.recent && !p.recent(r.Caller) {
		return p.askAgain(r)
	}
	if post {
		if err := p.CheckCSRF(r.Response(), r.Request(), r.Caller, r.form.get("csrf")); err != nil {
			return err
		}
		r.SetRequest(p.As(r.Response(), r.Request(), r.Caller))
	}
	switch {
	case ends:
		return p.endSecret(r)
	case post:
		return p.carryOut(r, h)
	case r.QueryParam("once") != "" && !r.page.ownSecret:
		return p.secret(r)
	}
	return h(r)
}

// loginFirst redirects to the login, with the request as the return path; a form is answered with the login's page.
func (p *Pages) loginFirst(r *request) error {
	r.Caller = web.Caller{}
	if r.Request().Method == http.MethodPost {
		return p.loginAgain(r)
	}
	return r.seeOther(root + "login?return=" + escapeReturn(r.Request().URL.RequestURI()))
}

// askAgain redirects to the page of a new proof, with the request as the return path; a form is answered with that
// page.
func (p *Pages) askAgain(r *request) error {
	if r.Request().Method == http.MethodPost {
		return p.reauthAgain(r)
	}
	return r.seeOther(root + "reauth?return=" + escapeReturn(r.Request().URL.RequestURI()))
}

// caller returns the caller of a request, whose session has a CSRF token. session.ErrNotFound: there is no session,
// or it has ended; that of a deleted user is ended here.
func (p *Pages) caller(r *request) (web.Caller, error) {
	c, err := p.Load(r.Response(), r.Request())
	if errors.Is(err, user.ErrNotFound) {
		return web.Caller{}, cmp.Or(p.End(r.Response(), r.Request(), c), session.ErrNotFound)
	}
	if err != nil {
		return web.Caller{}, err
	}
	c.Session, err = p.Accounts.EnsureCSRFToken(r.ctx(), c.Session)
	return c, err
}

// fails has the page that is shown say why, and returns the answer to err. It sets the status and headers of the
// answer.
func (r *request) fails(err error) web.Failure {
	f := web.Fail(r.Response(), err).OnPage()
	r.status, r.fault = f.Status, &fault{Text: r.text[f.Page], Field: f.Field, err: f.Err}
	return f
}

// failed answers err: with the login or a new proof, with the page of a used link, with the page again whose form has
// failed, or with the page of an error. It returns errors that are answered with 500, for the log, and those that
// kept it from writing a page.
func (p *Pages) failed(r *request, err error) error {
	switch {
	case errors.Is(err, account.ErrReauthRequired):
		err = p.askAgain(r)
	case errors.Is(err, session.ErrNotFound): // it had ended before, or ended meanwhile
		err = p.loginFirst(r)
	case errors.Is(err, link.ErrUsed):
		err = linkPages{p}.used(r)
	}
	if err == nil {
		return nil
	}
	f := r.fails(err)
	if wait := r.Response().Header().Get("Retry-After"); f.Page == "Limited" && wait != "" {
		r.fault.Text = fmt.Sprintf(r.text["LimitedF"], wait)
	}
	if skew := new(account.SkewError); errors.As(err, &skew) {
		r.fault.Text += " " + r.text.skew(skew.Ahead)
	}
	known := f.Status != http.StatusInternalServerError
	if r.Request().Method == http.MethodPost && f.ShowsForm() {
		switch shown := r.page.get(r); {
		case shown == nil && known:
			return nil
		case shown == nil:
			return err
		case web.FailureOf(shown).Status == http.StatusInternalServerError:
			err, known = errors.Join(err, shown), false
		}
	}
	if !known && r.Request().Method == http.MethodGet { // a store may be back soon
		r.Response().Header().Set("Refresh", "5")
	}
	title, help := r.text["Error"], ""
	switch {
	case errors.Is(err, link.ErrInvalid):
		help = r.text["LinkHelp"]
	case errors.Is(err, service.ErrNoRoute): // nothing was tried that did not work
		title, r.fault = r.fault.Text, nil
	}
	if shown := p.render(r, "error", title, help); shown != nil {
		return errors.Join(err, shown)
	}
	if known {
		return nil
	}
	return err
}

// setHeaders sets the headers of every page. Referrer-Policy is not no-referrer, with which browsers send Origin:
// null with forms.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "+
		"img-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Permissions-Policy", "publickey-credentials-get=(self), publickey-credentials-create=(self)")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Language, Cookie")
}

// asset serves an embedded file. With its hash in the URL browsers may keep it for a year.
func (p *Pages) asset(c echo.Context) error {
	file := p.assets[path.Base(c.Path())]
	h := c.Response().Header()
	h.Set("Content-Type", file.kind)
	h.Set("Etag", `"`+file.hash+`"`)
	h.Set("Cache-Control", "no-cache")
	if c.QueryParam("v") == file.hash {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(c.Response(), c.Request(), "", time.Time{}, bytes.NewReader(file.content))
	return nil
}
