package pages

import (
	"net/url"
	"strings"
	"time"

	"golang.org/x/text/language"
)

// languageLifetime is how long a chosen language is kept.
const languageLifetime = 365 * 24 * time.Hour

// language returns the texts of the language that the footer's link chooses, which is
// kept, or has chosen before, or else of the one that the browser prefers: English, unless that is
// German or a language whose readers know German. Without Accept-Language it is German.
func (p *Pages) language(r *request) texts {
	if chosen := p.texts[r.QueryParam("lang")]; chosen != nil {
		r.SetCookie(p.cookie("lang", chosen["Lang"], int(languageLifetime.Seconds())))
		return chosen
	}
	if kept, err := r.Cookie(p.AppName + ".lang"); err == nil && p.texts[kept.Value] != nil {
		return p.texts[kept.Value]
	}
	wanted, _, err := language.ParseAcceptLanguage(strings.Join(r.Request().Header["Accept-Language"], ","))
	if err != nil || len(wanted) == 0 { // no browser's: the language of the API
		return p.texts["de"]
	}
	if _, i, _ := p.languages.Match(wanted...); i == 1 {
		return p.texts["de"]
	}
	return p.texts["en"]
}

// otherLanguage returns the URL of the page in the other language. The token of a link
// stays in it, so that no redirect carries it. It is empty where the page is shown once, or
// in place of an application's.
func otherLanguage(r *request) string {
	if at := r.Request().URL.Path; at == enterPath || !strings.HasPrefix(at, root) {
		return ""
	}
	query := r.Request().URL.Query()
	if r.form.sent("t") {
		query.Set("t", r.form.get("t"))
	}
	query.Del("done")
	query.Set("lang", r.text["OtherLang"])
	return (&url.URL{Path: r.Request().URL.Path, RawQuery: query.Encode()}).String()
}
