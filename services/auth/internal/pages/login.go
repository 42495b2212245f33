package pages

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// signIn has the pages of logins, logouts and new proofs of who the user is.
type signIn struct{ *Pages }

type loginPage struct {
	Return string
	Name   string // username that is proposed
	To     string // name of the application that waits for the login; empty: none is known
	// Passkeys: this server has them.
	Passkeys bool
	// Empty: there is no user yet, and a set-up link is needed.
	Empty bool
	Kept  map[string]string // fields of a form that was sent without a session, by name
	// RememberHint says what it means that the device is remembered.
	RememberHint string
}

// loginForm shows the login page. It redirects a user who is logged in, unless they have sent the page's form.
func (p signIn) loginForm(r *request) error {
	to := r.returnTo()
	if !r.form.sent("return") {
		switch _, err := p.caller(r); {
		case err == nil:
			return r.seeOther(to)
		case !errors.Is(err, session.ErrNotFound):
			return err
		}
	}
	return p.renderLogin(r, loginPage{Return: to, Name: r.QueryParam("name"), Kept: r.form.restore().keep()})
}

// loginAgain shows the login page to a client whose form came without a session. After the login resume shows the form
// with what was typed, secrets excepted.
func (p *Pages) loginAgain(r *request) error {
	r.status, r.fault = http.StatusUnauthorized, &fault{Text: r.text["SessionGone"]}
	return p.renderLogin(r, loginPage{Return: safeReturn(r.Request().URL.RequestURI()), Kept: r.form.keep()})
}

// triedCookie is set with the login form in a browser that has no cookie of ours. A browser that sends the form
// without any takes none: it is told so, as a login would lead back here without a word.
const triedCookie = "cookies"

// hasCookie reports whether a request has a cookie whose name begins with AppName and a dot.
func (p *Pages) hasCookie(r *request) bool {
	for _, cookie := range r.Cookies() {
		if strings.HasPrefix(cookie.Name, p.AppName+".") {
			return true
		}
	}
	return false
}

func (p *Pages) renderLogin(r *request, page loginPage) (err error) {
	if !p.hasCookie(r) {
		r.SetCookie(p.cookie(triedCookie, "yes", 0))
	}
	if page.Empty, err = p.People.IsEmpty(r.ctx()); err != nil {
		return err
	}
	if page.To, err = p.leadsToApp(r, page.Return); err != nil {
		return err
	}
	page.Passkeys = p.Accounts.Passkeys.Off() == nil
	kept := p.Sessions.Lifetimes()
	page.RememberHint = fmt.Sprintf(r.text["RememberHintF"], r.text.duration(kept.Own), r.text.duration(kept.Shared))
	title := r.text["LoginTitle"]
	if page.Empty {
		title = r.text["SetupTitle"]
	}
	return p.render(r, "login", title, page)
}

func (p signIn) login(r *request) error {
	if r.form.sent("cookies") && !p.hasCookie(r) {
		r.status, r.fault = http.StatusBadRequest, &fault{Text: r.text["CookiesBlocked"] + " " + r.text["CookiesHelp"]}
		return p.loginForm(r)
	}
	var in account.LoggedIn
	err := p.limited(r, web.LimitLogin, p.LoginLimit, p.loginKeys(r), func() (err error) {
		in, err = p.LoginKnown(r.Response(), r.Request(), r.form.get("username"), r.form.get("password"),
			r.form.device())
		return err
	})
	if err != nil {
		return err
	}
	to := safeReturn(r.form.get("return"))
	if in.Pending != nil {
		if len(r.form.restore().values) > 0 {
			return p.renderSecond(r, *in.Pending)
		}
		return r.seeOther(root + "second?return=" + escapeReturn(to))
	}
	if shown, err := p.resume(r, in, to); shown {
		return err
	}
	return r.seeOther(p.afterLogin(r, in, to))
}

// resume shows again the form that the login, or the new proof, has kept, as it was filled in, and reports whether it
// did. It does not where none is kept, or where its page is unknown, or is for admins and the user is none.
func (p *Pages) resume(r *request, in account.LoggedIn, to string) (shown bool, err error) {
	form := r.form.restore()
	target, err := url.Parse(to)
	if err != nil || len(form.values) == 0 {
		return false, nil
	}
	page, known := p.routes[target.Path]
	if !known {
		parent, id := path.Split(target.Path)
		if page, known = p.routes[parent+":id"]; known {
			r.SetParamNames("id")
			r.SetParamValues(id)
		}
	}
	if !known || page.needs == needsAdmin && in.User.Role != user.Admin {
		return false, nil
	}
	request := r.Request().Clone(r.ctx())
	request.URL = &url.URL{Path: target.Path}
	r.SetRequest(request)
	r.Caller, r.page, r.form = web.Caller{Current: &session.Current{Session: in.Session}, User: in.User}, page, form
	r.fault = &fault{Text: r.text["SendAgain"]}
	return true, page.get(r)
}

// loginKeys returns the keys of the login limit: the client's networks or, in a browser in which this user has logged
// in before, one for the user and the browser. So others behind the same address cannot keep out a user who has logged
// in here, and failed logins in such a browser count for its own users only.
func (p *Pages) loginKeys(r *request) []string {
	browser := p.Sessions.Browser(r.Request())
	if browser == "" {
		return p.Networks(r.Request())
	}
	key, err := p.Accounts.KnownBrowser(r.ctx(), r.form.get("username"), browser)
	if err != nil {
		p.Log.ErrorContext(r.ctx(), "look for a known browser failed", "error", err)
	}
	if key == "" {
		return p.Networks(r.Request())
	}
	return []string{key}
}

// limited runs do behind a limit and returns its error. web.Web.Limited decides which attempts count. web.ErrLimited,
// or an error of the limit's store: do did not run.
func (p *Pages) limited(
	r *request, limit string, limiter *ratelimit.Limiter, keys []string, do func() error,
) (err error) {
	refused := p.Limited(r.Response(), r.Request(), service.RouteLabel(r), limit, limiter, keys, func() int {
		if err = do(); err != nil {
			return web.FailureOf(err).Status
		}
		return http.StatusOK
	})
	return cmp.Or(refused, err)
}

func (p signIn) logoutForm(r *request) error { return p.render(r, "logout", r.text["Logout"], nil) }

func (p signIn) logout(r *request) error {
	if err := p.Logout(r.Response(), r.Request(), r.Caller); err != nil {
		return err
	}
	return r.seeOther(root + "login?done=logout")
}
