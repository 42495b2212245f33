package pages

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// linkPages has the pages that links open, and that of a forgotten password.
type linkPages struct{ *Pages }

// linkPage is what the page of a link shows.
type linkPage struct {
	link.Link
	Token string
	// Passkeys: this server has them.
	Passkeys bool
}

// linkOf returns the link of a request's token, and sets openedCookie for one that is open. Nothing is stored,
// because messengers fetch links for previews. Errors are those of people.Service.LinkOf; with link.ErrUsed the link
// is returned.
func (p linkPages) linkOf(r *request, kind link.Kind) (linkPage, error) {
	token := r.param("t")
	l, err := p.People.LinkOf(r.ctx(), kind, token)
	if err == nil {
		r.SetCookie(p.cookie(openedCookie, opened(token), int(openedFor.Seconds())))
	}
	return linkPage{Link: l, Token: token, Passkeys: p.Accounts.Passkeys.Off() == nil}, err
}

const (
	// openedCookie is set with the form of a link, so that the browser that used the link is known. It opens nothing.
	openedCookie = "link"
	openedFor    = time.Hour
	// justUsed is how long after its use a link leads on in that browser.
	justUsed = time.Minute
)

// opened returns the value of openedCookie for a token.
func opened(token string) string { return secrets.Hash("opened " + token)[:32] }

// linkKinds are the kinds of links by the paths of their pages.
var linkKinds = map[string]link.Kind{root + "setup": link.Setup, root + "join": link.Invite, root + "reset": link.Reset}

// usedTitles are the keys of the titles of pages of used links.
var usedTitles = map[link.Kind]string{link.Setup: "UsedSetup", link.Invite: "UsedAccount", link.Reset: "UsedReset"}

// used answers a request for a link that was used: with 400 and the way to the login; or, where the same browser has
// just used it, as when a button is pressed twice, with a redirect to the start page or, without a session, to the
// login. Of a link that was not used it returns an error.
func (p linkPages) used(r *request) error {
	kind := linkKinds[r.Path()]
	shown, err := p.linkOf(r, kind)
	if errors.Is(err, user.ErrNotEmpty) { // the token of a used invite, in the form of the set-up
		return link.ErrInvalid
	}
	if !errors.Is(err, link.ErrUsed) {
		return cmp.Or(err, link.ErrInvalid)
	}
	cookie, err := r.Cookie(p.AppName + "." + openedCookie)
	if err != nil || cookie.Value != opened(shown.Token) || p.Now().Sub(shown.UsedAt) >= justUsed {
		r.status = http.StatusBadRequest
		return p.render(r, "used", r.text[usedTitles[kind]], shown)
	}
	if _, err := p.caller(r); err == nil {
		return r.seeOther(root)
	}
	return r.seeOther(toLogin(shown.Kind, shown.Username, root))
}

// toLogin returns the path of the login after a link was used; to is the return path.
func toLogin(kind link.Kind, username, to string) string {
	done := "joined"
	if kind == link.Reset {
		done = "reset"
	}
	return root + "login?done=" + done + "&name=" + url.QueryEscape(username) + "&return=" + escapeReturn(to)
}

// logIn logs in who has just chosen their password by a link, and redirects: to the second step where they have a
// second factor. Where the login fails, the password is set all the same, and they log in themselves.
func (p linkPages) logIn(r *request, kind link.Kind, username, pw, to string) error {
	in, err := p.LoginKnown(r.Response(), r.Request(), username, pw, session.AnyDevice)
	switch {
	case err != nil:
		p.Log.WarnContext(r.ctx(), "log in who used a link failed", "kind", string(kind), "error", err)
		return r.seeOther(toLogin(kind, username, to))
	case in.Pending != nil:
		return r.seeOther(root + "second?return=" + escapeReturn(to))
	}
	return r.seeOther(signIn(p).afterLogin(r, in, to))
}

// limitGuesses returns a handler that calls h, that of a link's page, and keeps the token out of the header Referer.
// A look at the page counts for the client's address, as a form does, if the token is wrong or its link has expired
// or become void. One with the token of an open or a used link does not: messengers may fetch the page many times.
func (p *Pages) limitGuesses(h handler) handler {
	return func(r *request) (err error) {
		r.Response().Header().Set("Referrer-Policy", "strict-origin")
		if r.Request().Method == http.MethodPost { // it was counted
			return h(r)
		}
		if err := p.CheckPart(r.Response(), r.Request()); err != nil {
			return err
		}
		refused := p.Limited(r.Response(), r.Request(), service.RouteLabel(r), web.LimitLink, p.LinkLimit,
			p.Networks(r.Request()), func() int {
				err = h(r)
				switch {
				case errors.Is(err, link.ErrUsed): // its token is right
				case errors.Is(err, link.ErrInvalid), errors.Is(err, service.ErrNoRoute):
					return http.StatusUnauthorized // what Limited counts
				}
				return http.StatusOK
			})
		return cmp.Or(refused, err)
	}
}

// setupForm asks for the household's name and its first admin.
func (p linkPages) setupForm(r *request) error {
	shown, err := p.linkOf(r, link.Setup)
	if errors.Is(err, user.ErrNotEmpty) {
		return notFound(r)
	}
	if err != nil {
		return err
	}
	return p.render(r, "setup", r.text["SetupTitle"], shown)
}

// wrong returns the error of a form that asked for a passkey and came without one: that of
// people.Service.CheckNewcomer, or else web.ErrNotRegistered.
func (p linkPages) wrong(r *request) error {
	return cmp.Or(p.People.CheckNewcomer(r.ctx(), r.form.get("t"), people.NewHousehold{
		Household: r.form.get("household"), Username: r.form.get("username"), DisplayName: r.form.get("display_name"),
	}), web.ErrNotRegistered)
}

// setup creates the first admin and logs them in.
func (p linkPages) setup(r *request) error {
	if r.form.get("do") == "passkey" {
		return p.wrong(r)
	}
	pw, err := newPassword(r.form)
	if err != nil {
		return err
	}
	username := r.form.get("username")
	_, err = p.People.Setup(r.ctx(), r.form.get("t"), people.NewHousehold{
		Household: r.form.get("household"), Username: username, DisplayName: r.form.get("display_name"), Password: pw,
	})
	if errors.Is(err, user.ErrNotEmpty) {
		return notFound(r)
	}
	if err != nil {
		return err
	}
	return p.logIn(r, link.Setup, username, pw, root)
}

// joinPage is what the page of an invite shows.
type joinPage struct {
	linkPage
	As       *user.User // the user who is logged in on this browser, or nil
	Proposed string     // username, where the person chooses; may be empty
}

func (p linkPages) joinForm(r *request) error {
	shown, err := p.linkOf(r, link.Invite)
	if err != nil {
		return err
	}
	page := joinPage{linkPage: shown, Proposed: user.ProposeUsername(shown.DisplayName)}
	if c, err := p.caller(r); err == nil {
		page.As = &c.User
	} else if !errors.Is(err, session.ErrNotFound) {
		return err
	}
	return p.render(r, "join", r.text["JoinTitle"], page)
}

// join creates the user of an invite and logs them in.
func (p linkPages) join(r *request) error {
	if r.form.get("do") == "passkey" {
		return p.wrong(r)
	}
	pw, err := newPassword(r.form)
	if err != nil {
		return err
	}
	u, err := p.People.Join(r.ctx(), r.form.get("t"), people.NewMember{
		Username: r.form.get("username"), DisplayName: r.form.get("display_name"), Password: pw,
	})
	if err != nil {
		return err
	}
	return p.logIn(r, link.Invite, u.Username, pw, root+"?done=joined")
}

// resetForm asks for the new password of a reset link.
func (p linkPages) resetForm(r *request) error {
	shown, err := p.linkOf(r, link.Reset)
	if err != nil {
		return err
	}
	return p.render(r, "reset", r.text["ResetTitle"], shown)
}

// reset sets the password and logs the user in. They are led to their passkeys or else to their valid app tokens,
// which still work, unless there are none.
func (p linkPages) reset(r *request) error {
	pw, err := newPassword(r.form)
	if err != nil {
		return err
	}
	of, err := p.People.LinkOf(r.ctx(), link.Reset, r.form.get("t"))
	if err != nil {
		return err
	}
	if err := p.People.ResetPasswordByLink(r.ctx(), r.form.get("t"), pw); failed(err) {
		return err
	}
	// The password is set, whatever fails now.
	to := root + "?done=reset"
	if left, err := p.Accounts.Passkeys.List(r.ctx(), of.UserID); err != nil || len(left) > 0 {
		to = securityPath + "?done=" + passkeysLeft
	} else if left, err := p.Policy.TokensFor(r.ctx(), of.Username); err != nil || p.validTokens(left) > 0 {
		to = tokensPath + "?done=tokens-left"
	}
	return p.logIn(r, link.Reset, of.Username, pw, to)
}

// passkeysLeft is the value of done in the query of the page of security after a reset that left passkeys.
const passkeysLeft = "passkeys-left"

// forgotForm asks whose password was forgotten.
func (p linkPages) forgotForm(r *request) error {
	return p.render(r, "forgot", r.text["ForgotTitle"], nil)
}

// forgot opens a request for the admins. The answer does not depend on whether a user has the name.
func (p linkPages) forgot(r *request) error {
	if r.form.get("username") == "" {
		return account.ErrMissing
	}
	p.People.AskForReset(r.ctx(), r.form.get("username"))
	return r.seeOther(root + "forgot?done=forgot")
}
