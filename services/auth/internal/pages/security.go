package pages

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// security has the page of how a user's own account is protected: passkeys, codes, devices, password.
type security struct{ *Pages }

const securityPath = root + "account/security"

// formerly are paths that redirect to the page of security, each with the step to open there; empty: none.
var formerly = map[string]string{
	root + "account/password": "password", root + "account/devices": "", root + "account/second-factor": "",
	root + "account/passkeys": "",
}

// redirectTo returns a handler that redirects to the page of security, with the step part open unless it is empty.
func (p security) redirectTo(part string) handler {
	return func(r *request) error {
		query := r.QueryParams()
		if part != "" {
			query.Set("open", part)
		}
		return r.seeOther(withQuery(securityPath, query))
	}
}

// securityPage is what the page of security shows.
type securityPage struct {
	account.FactorState
	Passkeys []account.PasskeyInfo
	// PasskeysOff is why there can be none here; empty: there can.
	PasskeysOff string
	// PasskeyName is proposed for a new one.
	PasskeyName string
	// Added: a passkey was just added.
	Added bool
	// Proved: the user proved lately by a passkey who they are (provedByPasskey), so that no code is asked for.
	Proved  bool
	Devices []device
	Others  bool // the user is logged in elsewhere
	Notices []notice
	// ProofFirst: to change the password needs a new proof of who the user is.
	ProofFirst bool
	// Tokens is how many app tokens of the user are valid.
	Tokens     int
	TokensLeft bool // the tokens are to be looked at, after a reset of the password that left passkeys
	// Open names the step that is shown open, such as "password"; empty: none is.
	Open string
}

// shownNotices is how many notices the page of security shows at most.
const shownNotices = 8

// page shows how the user's account is protected.
func (p security) page(r *request) (err error) {
	page := securityPage{
		Added: r.QueryParam("done") == "passkey-added", TokensLeft: r.QueryParam("done") == passkeysLeft,
		Open:       cmp.Or(r.form.get("do"), r.QueryParam("open")),
		ProofFirst: r.User.SecondFactor && !p.fresh(r.Caller), Proved: p.provedByPasskey(r),
	}
	if page.FactorState, err = p.Accounts.SecondFactor.State(r.ctx(), r.Session); err != nil {
		return err
	}
	if page.Passkeys, err = p.Accounts.Passkeys.List(r.ctx(), r.UserID); err != nil {
		return err
	}
	page.PasskeysOff = p.passkeysOff(r)
	page.PasskeyName = proposedName(r.text.deviceName(r.Request().UserAgent()), page.Passkeys)
	if page.Devices, err = p.devices(r); err != nil {
		return err
	}
	page.Others = slices.ContainsFunc(page.Devices, func(d device) bool { return d.Key != "" && !d.Current })
	tokens, err := p.Policy.TokensOf(r.ctx(), r.Session)
	if err != nil {
		return err
	}
	page.Tokens = p.validTokens(tokens)
	entries, err := p.Audit.LastNotices(r.ctx(), r.UserID)
	if err != nil {
		return err
	}
	if page.Notices, err = p.notices(r, entries[:min(len(entries), shownNotices)]); err != nil {
		return err
	}
	if r.fault != nil && r.fault.Field == "code" { // two forms have a field of this name
		r.fault.Field = page.Open + "-code"
	}
	return p.render(r, "security", r.text["Security"], page)
}

// passkeysOff returns why this server has no passkeys, in words; "": it has.
func (p *Pages) passkeysOff(r *request) string {
	switch off := p.Accounts.Passkeys.Off(); {
	case errors.Is(off, factor.ErrIPAddress):
		return r.text["PasskeysIP"]
	case errors.Is(off, factor.ErrNotHTTPS):
		return r.text["PasskeysHTTPS"]
	case off != nil:
		return r.text["PasskeysAddress"]
	}
	return ""
}

// provedByPasskey reports whether the user has proved by a passkey, within account.FreshFor, who they are.
func (p *Pages) provedByPasskey(r *request) bool {
	byPasskey := r.Session.Factor == session.Passkey || r.Session.Factor == session.PasswordWithPasskey
	return byPasskey && p.fresh(r.Caller)
}

// proposedName returns the name of a new passkey: the device's, with a number where one has it already.
func proposedName(device string, there []account.PasskeyInfo) string {
	name := device
	for n := 2; slices.ContainsFunc(there, func(k account.PasskeyInfo) bool { return k.Name == name }); n++ {
		name = fmt.Sprintf("%s %d", device, n)
	}
	return name
}

// device is one on which the user is logged in, or a browser in which they were.
type device struct {
	Name        string // browser and system
	Key         string // of the session's login; empty: the user is logged out there
	Hash        string // of a known browser without a session; else empty
	Current     bool
	How         string // how the session was proved, in words
	IP          string
	Since, Used time.Time
	Kept        string // how long the user stays logged in, in words; empty: not known, or logged out
}

// devices returns the user's sessions, this one first, and after them the known browsers that have none. Which
// session is in which browser is not stored: of the browsers with one name as many are left out as there are sessions
// with it.
func (p security) devices(r *request) (all []device, err error) {
	sessions, err := p.Accounts.OwnSessions(r.ctx(), r.Session)
	if err != nil {
		return nil, err
	}
	browsers, err := p.Accounts.Browsers(r.ctx(), r.Session)
	if err != nil {
		return nil, err
	}
	loggedIn := map[string]int{}
	for _, s := range sessions {
		name := r.text.deviceName(s.UserAgent)
		loggedIn[name]++
		all = append(all, device{
			Name: name, Key: s.Login, Current: s.Key == r.Key, How: r.text["factor."+string(s.Factor)], IP: s.IP,
			Since: s.CreatedAt, Used: s.LastUsedAt, Kept: r.text.kept(s.Device, p.Sessions.Lifetimes()),
		})
	}
	numberDevices(all)
	slices.SortStableFunc(all, func(a, b device) int { return cmp.Compare(boxOf(b.Current), boxOf(a.Current)) })
	for _, b := range browsers {
		name := r.text.agentName(b.Label)
		if loggedIn[name]--; loggedIn[name] >= 0 {
			continue
		}
		all = append(all, device{Name: name, Hash: b.Hash, Since: b.FirstSeenAt, Used: b.LastSeenAt})
	}
	return all, nil
}

// kept says in words how long the user stays logged in on a device; "" for session.AnyDevice.
func (t texts) kept(d session.Device, l session.Lifetimes) string {
	switch d {
	case session.OwnDevice:
		return fmt.Sprintf(t["KeptOwnF"], t.duration(l.Own))
	case session.SharedDevice:
		return t["KeptShared"]
	}
	return ""
}

// numberDevices adds a number to the names of devices that have the same one: 1 for the one that has been logged in
// for the longest.
func numberDevices(all []device) {
	oldest := slices.Clone(all)
	slices.SortStableFunc(oldest, func(a, b device) int { return a.Since.Compare(b.Since) })
	seen, number := map[string]int{}, map[string]int{}
	for _, d := range oldest {
		seen[d.Name]++
		number[d.Key] = seen[d.Name]
	}
	for i, d := range all {
		if seen[d.Name] > 1 {
			all[i].Name = fmt.Sprintf("%s (%d)", d.Name, number[d.Key])
		}
	}
}

// change carries out what the button of a form on the page of security says.
func (p security) change(r *request) error {
	switch r.form.get("do") {
	case "password":
		return p.changePassword(r)
	case "first-password":
		return p.setPassword(r)
	case "rename", "remove":
		return p.changePasskey(r)
	case "end", "others", "forget":
		return p.changeDevices(r)
	}
	return p.changeFactor(r)
}

// changePassword sets the user's password and ends their other sessions.
func (p security) changePassword(r *request) error {
	if r.User.SecondFactor && !p.fresh(r.Caller) {
		return account.ErrReauthRequired
	}
	replacement, err := newPassword(r.form)
	if err != nil {
		return err
	}
	if err := p.Accounts.CheckPassword(r.ctx(), replacement, r.User.Username, r.User.DisplayName); err != nil {
		return err
	}
	keys := []string{strconv.FormatInt(r.UserID, 10)}
	err = p.limited(r, web.LimitPassword, p.PasswordLimit, keys, func() error {
		return p.ChangePassword(r.Response(), r.Request(), r.Caller, r.form.get("current"), replacement)
	})
	return r.done(securityPath, "password", err)
}

// setPassword sets the password of a user who has none. Other sessions end.
func (p security) setPassword(r *request) error {
	pw, err := newPassword(r.form)
	if err != nil {
		return err
	}
	return r.done(securityPath, "password", p.Accounts.SetFirstPassword(r.ctx(), r.Session, pw), user.ErrChanged)
}

func (p security) changePasskey(r *request) error {
	id, err := strconv.ParseInt(r.form.get("id"), 10, 64)
	if err != nil {
		return web.ErrMalformed
	}
	if r.form.get("do") == "rename" {
		_, err := p.Accounts.Passkeys.Rename(r.ctx(), r.Session, id, r.form.get("name"))
		return r.done(securityPath, "profile", web.OfPasskey(err))
	}
	if !p.fresh(r.Caller) {
		return account.ErrReauthRequired
	}
	err = p.Accounts.Passkeys.Remove(r.ctx(), r.Session, id)
	return r.done(securityPath, "passkey-removed", web.OfPasskey(err))
}

func (p security) changeDevices(r *request) error {
	switch id := r.form.get("id"); r.form.get("do") {
	case "end":
		if id == r.Login || id == r.Key {
			return signIn(p).logout(r)
		}
		return r.done(securityPath, "session", p.Accounts.EndSession(r.ctx(), r.Session, id), account.ErrNoSession)
	case "others":
		_, err := p.Accounts.EndOthers(r.ctx(), r.Session)
		return r.done(securityPath, "others", err)
	default:
		return r.done(securityPath, "forgotten", p.Accounts.ForgetBrowser(r.ctx(), r.Session, id))
	}
}
