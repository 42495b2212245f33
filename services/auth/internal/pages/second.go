package pages

import (
	"errors"
	"slices"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// secondPage is what the page of a login's second step shows.
type secondPage struct {
	Return                  string
	Code, Recovery, Passkey bool // what may prove the second factor
}

// secondForm asks for the second factor of a pending login.
func (p *Pages) secondForm(r *request) error {
	pending, err := p.PendingLogin(r.Request())
	if errors.Is(err, account.ErrNoPendingLogin) {
		return r.seeOther(root + "login?done=expired")
	}
	if err != nil {
		return err
	}
	return p.render(r, "second", r.text.SecondTitle, secondPage{
		Return: r.returnTo(), Code: slices.Contains(pending.Methods, "totp"), Recovery: pending.RecoveryAvailable,
		Passkey: slices.Contains(pending.Methods, "passkey") && p.Accounts.PasskeysOff() == nil,
	})
}

// returnTo returns the path to which a page leads in the end.
func (r *request) returnTo() string {
	if r.form.sent("return") {
		return safeReturn(r.form.get("return"))
	}
	return safeReturn(r.QueryParam("return"))
}

// second finishes a pending login by a code, or ends it.
func (p *Pages) second(r *request) error {
	if r.form.get("do") == "cancel" {
		if err := p.CancelLogin(r.Response(), r.Request()); err != nil && !errors.Is(err, account.ErrNoPendingLogin) {
			return err
		}
		return r.seeOther(root + "login")
	}
	defer p.detach(r)()
	_, _, _, err := p.VerifyCode(r.Response(), r.Request(), r.form.get("code"))
	if errors.Is(err, account.ErrNoPendingLogin) {
		return r.seeOther(root + "login?done=expired")
	}
	if err != nil {
		return err
	}
	return r.seeOther(r.returnTo())
}

// reauthPage is what the page of a new proof of identity shows.
type reauthPage struct {
	Return        string
	Code, Passkey bool
}

// reauthForm asks the user to prove again who they are.
func (p *Pages) reauthForm(r *request) error {
	state, err := p.Accounts.Factors(r.ctx(), r.Session)
	if err != nil {
		return err
	}
	return p.render(r, "reauth", r.text.ReauthTitle, reauthPage{
		Return: r.returnTo(), Code: state.Enabled, Passkey: state.Passkeys > 0 && p.Accounts.PasskeysOff() == nil,
	})
}

// reauth replaces the session by one that may make changes for a while.
func (p *Pages) reauth(r *request) error {
	defer p.detach(r)()
	if _, err := p.Reauth(r.Response(), r.Request(), r.Caller, r.form.get("password"), r.form.get("code")); err != nil {
		return err
	}
	return r.seeOther(r.returnTo())
}

// dutyPage reminds a user of the household's rule.
func (p *Pages) duty(r *request) error {
	return p.render(r, "duty", r.text.DutyTitle, r.returnTo())
}

// afterLogin returns the path to which a login leads: by way of the reminder where the
// household requires a second factor and the user has none. Nobody is kept out.
func (p *Pages) afterLogin(r *request, in account.LoggedIn, to string) string {
	household, err := p.Accounts.Household(r.ctx())
	if err != nil || !household.RequireSecondFactor || in.User.SecondFactor {
		return to
	}
	return root + "duty?return=" + escapeReturn(to)
}

// fresh reports whether a caller proved who they are recently, as strongly as their
// account asks for.
func (p *Pages) fresh(c web.Caller) bool { return p.Accounts.CheckFresh(c.Session, c.User) == nil }
