package pages

import (
	"net/url"
	"strings"
	"time"

	"golang.org/x/text/language"
)

// languageLifetime is how long a chosen language is kept.
const languageLifetime = 365 * 24 * time.Hour

// language returns the texts of the language that the query chooses, which a cookie keeps; else of the one that the
// cookie has; else of the one that Accept-Language prefers: German for German and what is close to it, English for
// all others. Without a readable Accept-Language it is German.
func (p *Pages) language(r *request) texts {
	if chosen := p.texts[r.QueryParam("lang")]; chosen != nil {
		r.SetCookie(p.cookie("lang", chosen["Lang"], int(languageLifetime.Seconds())))
		return chosen
	}
	if kept, err := r.Cookie(p.AppName + ".lang"); err == nil && p.texts[kept.Value] != nil {
		return p.texts[kept.Value]
	}
	wanted, _, err := language.ParseAcceptLanguage(strings.Join(r.Request().Header["Accept-Language"], ","))
	if err != nil || len(wanted) == 0 { // not of a browser: the language of the API
		return p.texts["de"]
	}
	if _, i, _ := p.languages.Match(wanted...); i == 1 {
		return p.texts["de"]
	}
	return p.texts["en"]
}

// otherLanguage returns the URL of the page in the other language, with the token of a link where the form has one.
// It is "" for the page enter, whose code counts once, and for pages in place of an application's.
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
