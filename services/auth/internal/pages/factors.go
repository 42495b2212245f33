package pages

import (
	"errors"
	"html/template"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/web"
)

const codeAppPath = securityPath + "/app"

// codeAppPage is what the page shows on which codes from an app are set up.
type codeAppPage struct {
	account.TOTPSetup
	// Groups are the secret in groups of four, as people type it.
	Groups string
	// Link opens an app on this device.
	Link template.URL
	// Again: the user has a passkey as a second factor already.
	Again bool
}

// codeApp shows the secret of the set-up that has begun in this session. Where there is none, it redirects to the
// page of security.
func (p security) codeApp(r *request) error {
	setup, err := p.Accounts.SecondFactor.PendingTOTP(r.ctx(), r.Session)
	if errors.Is(err, factor.ErrNoPendingSetup) || errors.Is(err, factor.ErrAlreadyEnabled) ||
		errors.Is(err, factor.ErrNotConfigured) {
		return r.seeOther(securityPath)
	}
	if err != nil {
		return err
	}
	return p.render(r, "code-app", r.text["AppSetup"], codeAppPage{
		TOTPSetup: setup, Groups: groups(setup.Secret), Link: template.URL(setup.URI), //nolint:gosec // factor.URI
		Again: r.User.SecondFactor,
	})
}

// groups separates a text of ASCII into groups of four characters.
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

// changeFactor sets the second factor up, renews its recovery codes or switches it off. To renew the codes, and to
// switch it off, the user proves who they are by a code of the form or, without a code, by a passkey used lately.
func (p security) changeFactor(r *request) error {
	code := r.form.code()
	switch r.form.get("do") {
	case "disable":
		return r.done(securityPath, "factor-off", p.Accounts.SecondFactor.Disable(r.ctx(), r.Session, code))
	case "renew":
		codes, err := p.Accounts.SecondFactor.NewRecoveryCodes(r.ctx(), r.Session, code)
		return p.showCodes(r, codes, false, err)
	case "setup", "enable", "enable-passkey":
	default:
		return web.ErrMalformed
	}
	if !p.fresh(r.Caller) {
		return account.ErrReauthRequired
	}
	switch r.form.get("do") {
	case "setup":
		if _, err := p.Accounts.SecondFactor.SetupTOTP(r.ctx(), r.Session); err != nil {
			return err
		}
		return r.seeOther(codeAppPath)
	case "enable":
		codes, err := p.Accounts.SecondFactor.EnableTOTP(r.ctx(), r.Session, code)
		if err == nil {
			p.proveSession(r)
		}
		return p.showCodes(r, codes, true, err)
	default:
		codes, err := p.Accounts.SecondFactor.EnableByPasskey(r.ctx(), r.Session)
		return p.showCodes(r, codes, true, err)
	}
}

// proveSession replaces the session by one that counts as proved by the code that has just been right, so that pages
// do not ask for another one at once. A failure is logged.
func (p security) proveSession(r *request) {
	in, err := p.Accounts.Proved(r.ctx(), r.Session, session.PasswordWithTOTP)
	if err == nil {
		var next web.Caller
		if next, err = p.Reauthenticated(r.Response(), r.Request(), r.Caller, in); err == nil {
			r.Caller = next
		}
	}
	if err != nil {
		p.Log.WarnContext(r.ctx(), "raise session failed", "error", err)
	}
}

// codesPage is what the page of new recovery codes shows.
type codesPage struct {
	Codes []string
	// First: an app or a passkey has just become the second factor.
	First bool
	// File has the codes as a file to save.
	File template.URL
}

// showCodes redirects to the page of new recovery codes, or returns err unless it is account.ErrPending.
func (p security) showCodes(r *request, codes []string, first bool, err error) error {
	if failed(err) {
		return err
	}
	page := codesPage{Codes: codes, First: first, File: codesFile(codes)}
	return p.showSecret(r, secretPage{Name: "codes", At: securityPath, Back: securityPath}, &page)
}

// codesFile returns a URL that holds a text file of codes itself: no request fetches it.
func codesFile(codes []string) template.URL {
	lines := strings.Join(codes, "%0D%0A") + "%0D%0A"
	return template.URL("data:text/plain;charset=utf-8," + lines) //nolint:gosec // ours
}
