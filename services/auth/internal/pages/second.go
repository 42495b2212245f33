package pages

import (
	"errors"
	"net/http"
	"slices"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// secondPage is what the page of a login's second step shows.
type secondPage struct {
	Return                  string
	Code, Recovery, Passkey bool              // what may prove the second factor
	Kept                    map[string]string // as in loginPage
}

// secondForm asks for the second factor of a pending login.
func (p signIn) secondForm(r *request) error {
	pending, err := p.PendingLogin(r.Request())
	if errors.Is(err, account.ErrNoPendingLogin) {
		return r.seeOther(root + "login?done=expired")
	}
	if err != nil {
		return err
	}
	return p.renderSecond(r, pending)
}

func (p signIn) renderSecond(r *request, pending account.PendingLogin) error {
	if _, err := p.leadsToApp(r, r.returnTo()); err != nil {
		return err
	}
	return p.render(r, "second", r.text["SecondTitle"], secondPage{
		Return: r.returnTo(), Code: slices.Contains(pending.Methods, "totp"), Recovery: pending.RecoveryAvailable,
		Passkey: slices.Contains(pending.Methods, "passkey"), Kept: r.form.restore().keep(),
	})
}

// returnTo returns the return path in the form of a request or, without one, in its query.
func (r *request) returnTo() string { return safeReturn(r.param("return")) }

// second finishes a pending login by a code, or ends it.
func (p signIn) second(r *request) error {
	if r.form.get("do") == "cancel" {
		if err := p.CancelLogin(r.Response(), r.Request()); err != nil && !errors.Is(err, account.ErrNoPendingLogin) {
			return err
		}
		return r.seeOther(root + "login")
	}
	in, _, _, err := p.VerifyCode(r.Response(), r.Request(), r.form.get("code"))
	if errors.Is(err, account.ErrNoPendingLogin) {
		return r.seeOther(root + "login?done=expired")
	}
	if err != nil {
		return err
	}
	return p.continueLogin(r, in)
}

// continueLogin shows the form again that was kept, or redirects to the return path.
func (p signIn) continueLogin(r *request, in account.LoggedIn) error {
	to := r.returnTo()
	if shown, err := p.resume(r, in, to); shown {
		return err
	}
	return r.seeOther(to)
}

// reauthPage is what the page of a new proof of identity shows.
type reauthPage struct {
	Return        string
	Code, Passkey bool
	Password      bool              // the user has one
	App           bool              // the user has codes from an app, and not those of recovery alone
	UserCode      string            // of a device for which the proof is; empty: it is for none
	Kept          map[string]string // fields of a form that was sent without a fresh proof, by name
}

func (p signIn) reauthForm(r *request) error {
	return p.renderReauth(r, r.returnTo(), r.form.restore().keep())
}

// reauthAgain shows the page of a new proof to a user whose form needs one. After the proof resume shows the form with
// what was typed, secrets excepted.
func (p *Pages) reauthAgain(r *request) error {
	r.status, r.fault = http.StatusForbidden, &fault{Text: r.text["ReauthRequired"]}
	return p.renderReauth(r, safeReturn(r.Request().URL.RequestURI()), r.form.keep())
}

func (p *Pages) renderReauth(r *request, to string, kept map[string]string) error {
	state, err := p.Accounts.SecondFactor.State(r.ctx(), r.Session)
	if err != nil {
		return err
	}
	if _, err := p.leadsToApp(r, to); err != nil {
		return err
	}
	return p.render(r, "reauth", r.text["ReauthTitle"], reauthPage{
		Return: to, Code: state.Enabled, App: state.Confirmed, Passkey: state.PasskeyWorks,
		Password: state.Password, UserCode: userCodeOf(to), Kept: kept,
	})
}

// reauth replaces the session by one that counts as freshly proved.
func (p signIn) reauth(r *request) error {
	in, err := p.Reauth(r.Response(), r.Request(), r.Caller, r.form.get("password"), r.form.code())
	if err != nil {
		return err
	}
	p.OIDC.ProvedForDevice(r.ctx(), r.form.get(web.OIDCUserCodeParam), in.Session)
	return p.continueLogin(r, in)
}

// remindOfFactor reminds a user that the household requires a second factor.
func (p signIn) remindOfFactor(r *request) error {
	return p.render(r, "duty", r.text["DutyTitle"], r.returnTo())
}

// afterLogin returns the path to which a login redirects: the reminder where the household requires a second factor
// and the user's password alone opens the account, else the return path.
func (p signIn) afterLogin(r *request, in account.LoggedIn, to string) string {
	household, err := p.Accounts.Household(r.ctx())
	if err != nil || !household.RequireSecondFactor || in.User.Protected() {
		return to
	}
	return root + "duty?return=" + escapeReturn(to)
}

// fresh reports whether a caller proved who they are within account.FreshFor, by a second factor if they have one.
func (p *Pages) fresh(c web.Caller) bool { return p.Accounts.CheckFresh(c.Session, c.User) == nil }

// recent reports whether a caller proved who they are within account.RecentFor.
func (p *Pages) recent(c web.Caller) bool { return p.Accounts.CheckRecent(c.Session) == nil }
