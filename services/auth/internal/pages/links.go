package pages

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// linked has the pages that links open, and that of a forgotten password.
type linked struct{ *Pages }

// linkPage is what the page of a link shows.
type linkPage struct {
	link.Link
	Token string
}

// linkOf returns the link of a request's token. It changes nothing, because messengers
// fetch links for previews.
func (p linked) linkOf(r *request, kind link.Kind) (linkPage, error) {
	token := r.QueryParam("t")
	if r.form.sent("t") {
		token = r.form.get("t")
	}
	l, err := p.People.LinkOf(r.ctx(), kind, token)
	return linkPage{l, token}, err
}

// unguessed is a handler of a link's page. It keeps the token out of Referer, whatever the
// answer. A request with a token that opens nothing counts for the client's address as a form
// does; one with a right token does not, because messengers may fetch the page many times.
func (p *Pages) unguessed(h handler) handler {
	return func(r *request) (err error) {
		r.Response().Header().Set("Referrer-Policy", "strict-origin")
		if r.Request().Method == http.MethodPost { // it was counted
			return h(r)
		}
		refused := p.Limited(r.Response(), r.Request(), service.RouteLabel(r), web.LimitLink, p.LinkLimit,
			p.Networks(r.Request()), func() int {
				if err = h(r); errors.Is(err, link.ErrInvalid) || errors.Is(err, service.ErrNoRoute) {
					return http.StatusUnauthorized // what Limited counts
				}
				return http.StatusOK
			})
		return cmp.Or(refused, err)
	}
}

// setupForm asks for the household's name and its first admin.
func (p linked) setupForm(r *request) error {
	shown, err := p.linkOf(r, link.Setup)
	if errors.Is(err, user.ErrNotEmpty) {
		return notFound(r)
	}
	if err != nil {
		return err
	}
	return p.render(r, "setup", r.text["SetupTitle"], shown)
}

// setup creates the first admin and logs them in.
func (p linked) setup(r *request) error {
	pw, err := newPassword(r.form)
	if err != nil {
		return err
	}
	defer p.detach(r)()
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
	if _, err := p.Login(r.Response(), r.Request(), username, pw); err != nil {
		return r.seeOther(root + "login?done=joined&name=" + url.QueryEscape(username))
	}
	return r.seeOther(root)
}

// joinPage is what the page of an invite shows.
type joinPage struct {
	linkPage
	As *user.User // the user who is logged in on this browser, or nil
}

// joinForm shows an invite.
func (p linked) joinForm(r *request) error {
	shown, err := p.linkOf(r, link.Invite)
	if err != nil {
		return err
	}
	page := joinPage{linkPage: shown}
	if c, err := p.caller(r); err == nil {
		page.As = &c.User
	} else if !errors.Is(err, session.ErrNotFound) {
		return err
	}
	return p.render(r, "join", r.text["JoinTitle"], page)
}

// join creates the user of an invite, who then logs in.
func (p linked) join(r *request) error {
	pw, err := newPassword(r.form)
	if err != nil {
		return err
	}
	defer p.detach(r)()
	u, err := p.People.Join(r.ctx(), r.form.get("t"), people.NewMember{
		Username: r.form.get("username"), DisplayName: r.form.get("display_name"), Password: pw,
	})
	if err != nil {
		return err
	}
	return r.seeOther(root + "login?done=joined&name=" + url.QueryEscape(u.Username))
}

// resetForm asks for the new password of a reset link.
func (p linked) resetForm(r *request) error {
	shown, err := p.linkOf(r, link.Reset)
	if err != nil {
		return err
	}
	return p.render(r, "reset", r.text["ResetTitle"], shown)
}

// reset sets the password.
func (p linked) reset(r *request) error {
	pw, err := newPassword(r.form)
	if err != nil {
		return err
	}
	defer p.detach(r)()
	of, err := p.People.LinkOf(r.ctx(), link.Reset, r.form.get("t"))
	if err != nil {
		return err
	}
	if err := p.People.ResetPasswordByLink(r.ctx(), r.form.get("t"), pw); err != nil && !errors.Is(err,
		account.ErrPending) {
		return err
	}
	// The password is set, whatever fails now.
	if left, err := p.Accounts.Passkeys.List(r.ctx(), of.UserID); err != nil || len(left) > 0 {
		return r.seeOther(root + "login?done=reset-passkeys&return=" +
			escapeReturn(securityPath+"?done="+passkeysLeft))
	}
	if left, err := p.Policy.TokensFor(r.ctx(), of.Username); err != nil || p.validTokens(left) > 0 {
		return r.seeOther(root + "login?done=reset-tokens&return=" + escapeReturn(tokensPath+"?done=tokens-left"))
	}
	return r.seeOther(root + "login?done=reset")
}

// passkeysLeft marks the page of passkeys after a reset of the password.
const passkeysLeft = "passkeys-left"

// counted is a handler each of whose requests counts for the client's address, whatever
// the answer.
func (p *Pages) counted(h handler) handler {
	return func(r *request) error {
		r.SetRequest(p.As(r.Response(), r.Request(), web.Caller{}))
		if err := p.Counted(r.Response(), r.Request(), service.RouteLabel(r)); err != nil {
			return err
		}
		return p.carryOut(r, h)
	}
}

// forgotForm asks whose password was forgotten.
func (p linked) forgotForm(r *request) error {
	return p.render(r, "forgot", r.text["ForgotTitle"], nil)
}

// forgot opens a request for the admins. The answer is the same for every name.
func (p linked) forgot(r *request) error {
	if r.form.get("username") == "" {
		return account.ErrMissing
	}
	p.People.AskForReset(r.ctx(), r.form.get("username"))
	return r.seeOther(root + "forgot?done=forgot")
}
