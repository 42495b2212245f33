package pages

import (
	"cmp"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// security has the pages of devices, second factors, passkeys and the rules about them.
type security struct{ *Pages }

// devicesPage is what the page of devices shows.
type devicesPage struct {
	Sessions []device
	Browsers []factor.Browser
}

// device is a session in words.
type device struct {
	session.Info
	Name    string // browser and system
	Factor  string
	Current bool
}

// devices lists the user's sessions and known browsers.
func (p security) devices(r *request) error {
	sessions, err := p.Accounts.OwnSessions(r.ctx(), r.Session)
	if err != nil {
		return err
	}
	page := devicesPage{}
	for _, s := range sessions {
		page.Sessions = append(page.Sessions,
			device{s, r.text.deviceName(s.UserAgent), r.text["factor."+string(s.Factor)], s.Key == r.Key})
	}
	if page.Browsers, err = p.Accounts.Browsers(r.ctx(), r.Session); err != nil {
		return err
	}
	return p.render(r, "devices", r.text["Devices"], page)
}

// changeDevices ends sessions or forgets a browser.
func (p security) changeDevices(r *request) error {
	const here = root + "account/devices"
	switch id := r.form.get("id"); r.form.get("do") {
	case "end":
		if id == r.Key {
			return signIn(p).logout(r)
		}
		if err := p.Accounts.EndSession(r.ctx(), r.Session, id); err != nil && !errors.Is(err, account.ErrNoSession) {
			return err
		}
		return r.seeOther(here + "?done=session")
	case "others":
		if _, err := p.Accounts.EndOthers(r.ctx(), r.Session); err != nil && !errors.Is(err, account.ErrPending) {
			return err
		}
		return r.seeOther(here + "?done=others")
	case "forget":
		if err := p.Accounts.ForgetBrowser(r.ctx(), r.Session, id); err != nil {
			return err
		}
		return r.seeOther(here + "?done=forgotten")
	}
	return web.ErrMalformed
}

// factorPage is what the page of the second factor shows.
type factorPage struct {
	account.FactorState
	Setup account.TOTPSetup // of a set-up that has begun in this session
	// Groups are the secret in groups of four, as people type it.
	Groups string
	// Proved: the user proved by a passkey to have the second factor, and need not again.
	Proved bool
}

// secondFactor shows the state of the user's second factor.
func (p security) secondFactor(r *request) error {
	state, err := p.Accounts.SecondFactor.State(r.ctx(), r.Session)
	if err != nil {
		return err
	}
	page := factorPage{
		FactorState: state, Proved: r.Session.Factor == session.Passkey ||
			r.Session.Factor == session.PasswordWithPasskey,
	}
	if state.Pending() && state.Configured {
		if page.Setup, err = p.Accounts.SecondFactor.PendingTOTP(r.ctx(), r.Session); err != nil && !errors.Is(err,
			factor.ErrNoPendingSetup) {
			return err
		}
		page.Groups = groups(page.Setup.Secret)
	}
	if r.fault != nil && r.fault.Field == "code" { // of three forms
		r.fault.Field = map[string]string{"renew": "renew-code", "disable": "off-code"}[r.form.get("do")]
		r.fault.Field = cmp.Or(r.fault.Field, "code")
	}
	return p.render(r, "second-factor", r.text["SecondFactor"], page)
}

// groups separates a text into groups of four characters.
func groups(text string) string {
	var b strings.Builder
	for i, c := range text {
		if i > 0 && i%4 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// changeSecondFactor sets the second factor up, renews its recovery codes or switches it
// off. New recovery codes are on the page to which it redirects.
func (p security) changeSecondFactor(r *request) error {
	const here = root + "account/second-factor"
	var codes []string
	var err error
	switch code := r.form.get("code"); r.form.get("do") {
	case "setup":
		if _, err := p.Accounts.SecondFactor.SetupTOTP(r.ctx(), r.Session); err != nil {
			return err
		}
		return r.seeOther(here)
	case "disable":
		if err := p.Accounts.SecondFactor.Disable(r.ctx(), r.Session, code); err != nil {
			return err
		}
		return r.seeOther(here + "?done=factor-off")
	case "enable":
		codes, err = p.Accounts.SecondFactor.EnableTOTP(r.ctx(), r.Session, code)
	case "enable-passkey":
		codes, err = p.Accounts.SecondFactor.EnableByPasskey(r.ctx(), r.Session)
	case "renew":
		codes, err = p.Accounts.SecondFactor.NewRecoveryCodes(r.ctx(), r.Session, code)
	default:
		return web.ErrMalformed
	}
	if err != nil && !errors.Is(err, account.ErrPending) {
		return err
	}
	return p.showSecret(r, secretPage{Name: "codes", At: here, Back: root}, &codes)
}

// passkeysPage is what the page of passkeys shows.
type passkeysPage struct {
	Passkeys []account.PasskeyInfo
	Off      string // why there are none here; empty: there are
	Fresh    bool   // the user may add and remove
	// TokensLeft are how many app tokens are valid, after a reset of the password.
	TokensLeft int
}

// passkeys lists the user's passkeys.
func (p security) passkeys(r *request) error {
	page := passkeysPage{Fresh: p.fresh(r.Caller)}
	switch off := p.Accounts.Passkeys.Off(); {
	case errors.Is(off, factor.ErrIPAddress):
		page.Off = r.text["PasskeysIP"]
	case errors.Is(off, factor.ErrNotHTTPS):
		page.Off = r.text["PasskeysHTTPS"]
	case off != nil:
		page.Off = r.text["PasskeysAddress"]
	}
	var err error
	if page.Passkeys, err = p.Accounts.Passkeys.List(r.ctx(), r.UserID); err != nil {
		return err
	}
	if r.QueryParam("done") == passkeysLeft {
		tokens, err := p.Policy.TokensOf(r.ctx(), r.Session)
		if err != nil {
			return err
		}
		page.TokensLeft = p.validTokens(tokens)
	}
	return p.render(r, "passkeys", r.text["Passkeys"], page)
}

// changePasskeys renames or removes a passkey.
func (p security) changePasskeys(r *request) error {
	const here = root + "account/passkeys"
	id, err := strconv.ParseInt(r.form.get("id"), 10, 64)
	if err != nil {
		return web.ErrMalformed
	}
	switch r.form.get("do") {
	case "rename":
		if _, err := p.Accounts.Passkeys.Rename(r.ctx(), r.Session, id, r.form.get("name")); err != nil {
			return web.OfPasskey(err)
		}
		return r.seeOther(here + "?done=profile")
	case "remove":
		if !p.fresh(r.Caller) {
			r.form = form{} // there is nothing to keep
			return account.ErrReauthRequired
		}
		if err := p.Accounts.Passkeys.Remove(r.ctx(), r.Session, id); err != nil {
			return web.OfPasskey(err)
		}
		return r.seeOther(here + "?done=passkey-removed")
	}
	return web.ErrMalformed
}

// rulesPage is what the page of the household's rules shows.
type rulesPage struct {
	Required   bool
	Without    []user.Details // who has no second factor
	Configured bool           // TOTP is possible on this server
	Passkeys   bool
	// RetentionDays is how long entries of the audit are kept; 0: for ever.
	RetentionDays int
}

// rules shows the household's rules.
func (p security) rules(r *request) error {
	members, required, err := p.People.FactorOverview(r.ctx())
	if err != nil {
		return err
	}
	state, err := p.Accounts.SecondFactor.State(r.ctx(), r.Session)
	if err != nil {
		return err
	}
	page := rulesPage{
		Required: required, Configured: state.Configured, Passkeys: p.Accounts.Passkeys.Off() == nil,
		RetentionDays: int(math.Ceil(p.Audit.Retention.Hours() / 24)),
	}
	for _, m := range members {
		if !m.SecondFactor {
			page.Without = append(page.Without, m)
		}
	}
	return p.render(r, "rules", r.text["Rules"], page)
}

// changeRules sets whether the household requires a second factor.
func (p security) changeRules(r *request) error {
	if err := p.Accounts.SecondFactor.Require(r.ctx(), r.UserID, r.form.get("required") == "yes"); err != nil {
		return err
	}
	return r.seeOther(root + "admin/security?done=profile")
}
