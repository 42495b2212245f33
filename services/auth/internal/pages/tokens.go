package pages

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/web"
)

const tokensPath = root + "account/tokens"

// appPrefix begins the name of an application's checkbox in a form; the application's slug follows.
const appPrefix = "app."

// tokenDays are the choices of how long an app token is valid, in days; 0: for ever.
var tokenDays = []int{30, 90, 365, 0}

// appTokens has the page of app tokens.
type appTokens struct{ *Pages }

type tokensPage struct {
	Tokens []shownToken
	Valid  int                       // how many of them can be used
	Apps   []application.Application // for which the user may create one
	Days   []int
}

// shownToken is an app token in words.
type shownToken struct {
	token.Token
	Names string // of the applications
	Valid bool
	// Why: revoked, or expired; in words, if it is not valid.
	Why string
}

func (p appTokens) tokens(r *request) error {
	page := tokensPage{Days: tokenDays}
	tokens, err := p.Policy.TokensOf(r.ctx(), r.Session)
	if err != nil {
		return err
	}
	if page.Tokens, err = p.shownTokens(r, tokens); err != nil {
		return err
	}
	page.Valid = p.validTokens(tokens)
	if page.Apps, err = p.Policy.Openable(r.ctx(), r.Session); err != nil {
		return err
	}
	page.Apps = slices.DeleteFunc(page.Apps, func(a application.Application) bool { return !a.Tokens })
	return p.render(r, "tokens", r.text["Tokens"], page)
}

func (p *Pages) shownTokens(r *request, tokens []token.Token) (shown []shownToken, err error) {
	apps, err := p.Policy.Applications(r.ctx())
	if err != nil {
		return nil, err
	}
	for _, t := range tokens {
		s := shownToken{Token: t, Names: namesOf(apps, t.Applications), Valid: t.Valid(p.Now())}
		switch {
		case s.Valid:
		case t.RevokedAt.IsZero():
			s.Why = r.text["TokenExpired"]
		default:
			s.Why = r.text["TokenRevoked"]
		}
		shown = append(shown, s)
	}
	return shown, nil
}

// namesOf returns the names of the applications with the given slugs, separated by commas.
func namesOf(apps []application.Application, slugs []string) string {
	var names []string
	for _, a := range apps {
		if slices.Contains(slugs, a.Slug) {
			names = append(names, a.Name)
		}
	}
	return strings.Join(names, ", ")
}

// changeTokens creates an app token, or revokes or removes some.
func (p appTokens) changeTokens(r *request) error {
	switch r.form.get("do") {
	case "create":
		if !p.fresh(r.Caller) {
			return account.ErrReauthRequired
		}
		return p.createToken(r)
	case "all":
		_, err := p.Policy.RevokeTokens(r.ctx(), r.Session)
		return r.done(tokensPath, "tokens-revoked", err)
	}
	id, _ := strconv.ParseInt(r.form.get("id"), 10, 64) // changeToken refuses what is no number
	if err := p.CheckTokenProof(r.ctx(), r.Caller, id); err != nil {
		return err
	}
	return p.changeToken(r, tokensPath)
}

// changeToken revokes an app token or removes one that has ended, and redirects to the path here.
func (p *Pages) changeToken(r *request, here string) error {
	id, err := strconv.ParseInt(r.form.get("id"), 10, 64)
	if err != nil {
		return web.ErrMalformed
	}
	switch r.form.get("do") {
	case "revoke":
		return r.done(here, "token-revoked", p.Policy.RevokeToken(r.ctx(), r.UserID, id))
	case "remove":
		return r.done(here, "token-removed", p.Policy.RemoveToken(r.ctx(), r.UserID, id), token.ErrNotFound)
	}
	return web.ErrMalformed
}

// newToken is an app token that was just created, as its page shows it.
type newToken struct {
	token.Token
	Text string
	Apps []application.Application // that it opens, as far as they could be read
	At   string                    // origin of the portal; empty: not known
}

// createToken creates an app token. The redirect leads to the page that shows it.
func (p appTokens) createToken(r *request) error {
	days, err := strconv.Atoi(r.form.get("days"))
	if err != nil || !slices.Contains(tokenDays, days) {
		return web.ErrMalformed
	}
	n := policy.NewToken{
		UserID: r.UserID, Name: r.form.get("name"), Applications: r.form.chosen(appPrefix),
		ReadOnly: r.form.sent("read_only"),
	}
	if days > 0 {
		n.ExpiresAt = p.Now().Add(time.Duration(days) * 24 * time.Hour)
	}
	created, text, err := p.Policy.CreateToken(r.ctx(), r.Session, n)
	if err != nil {
		return err
	}
	shown := newToken{Token: created, Text: text, At: p.PublicURL}
	if shown.Apps, err = p.Policy.Applications(r.ctx()); err != nil {
		shown.Apps = nil // the token exists and must be shown
	}
	shown.Apps = slices.DeleteFunc(shown.Apps, func(a application.Application) bool {
		return !slices.Contains(created.Applications, a.Slug)
	})
	return p.showSecret(r, secretPage{Name: "token", At: tokensPath, Back: tokensPath}, &shown)
}

func (p *Pages) validTokens(tokens []token.Token) (n int) {
	for _, t := range tokens {
		if t.Valid(p.Now()) {
			n++
		}
	}
	return n
}
