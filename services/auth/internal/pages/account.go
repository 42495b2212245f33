package pages

import (
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// start shows the start page.
func (p *Pages) start(r *request) error { return p.render(r, "start", r.text.Start, nil) }

// account shows the user's own account.
func (p *Pages) account(r *request) error { return p.render(r, "account", r.text.Profile, nil) }

// passwordForm asks for a new password.
func (p *Pages) passwordForm(r *request) error {
	return p.render(r, "password", r.text.Password, nil)
}

// changePassword sets the user's password and ends their other sessions.
func (p *Pages) changePassword(r *request) error {
	replacement, err := newPassword(r.form)
	if err != nil {
		return err
	}
	defer p.detach(r)()
	if err := p.limited(r, web.LimitPassword, func() error {
		return p.ChangePassword(r.Response(), r.Request(), r.Caller, r.form.get("current"), replacement)
	}); err != nil {
		return err
	}
	return r.seeOther(root + "account/password?done=password")
}

// newPassword returns a password that was typed twice. account.ErrMissing, errAgain.
func newPassword(f form) (string, error) {
	switch pw := f.get("password"); {
	case pw == "":
		return "", account.ErrMissing
	case pw != f.get("again"):
		return "", errAgain
	default:
		return pw, nil
	}
}
