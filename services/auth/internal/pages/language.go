package pages

import (
	"net/http"
	"time"

	"golang.org/x/text/language"
)

// textsOf returns the texts of the language that the footer's link set, or of the one that
// the browser prefers.
func (p *Pages) textsOf(r *http.Request) *texts {
	if chosen, err := r.Cookie(p.AppName + ".lang"); err == nil {
		switch chosen.Value {
		case german.Lang:
			return &german
		case english.Lang:
			return &english
		}
	}
	wanted, _, err := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		return &german
	}
	if _, i, _ := p.languages.Match(wanted...); i == 1 {
		return &english
	}
	return &german
}

// languageLifetime is how long a chosen language is kept.
const languageLifetime = 365 * 24 * time.Hour

// setLanguage is the footer's link.
func (p *Pages) setLanguage(r *request) error {
	if to := r.QueryParam("to"); to == german.Lang || to == english.Lang {
		r.SetCookie(p.cookie("lang", to, int(languageLifetime.Seconds())))
	}
	return r.seeOther(safeReturn(r.QueryParam("return")))
}
