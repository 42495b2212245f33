package pages

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"

	"github.com/pforte/pforte/services/auth/internal/once"
)

// secretPage is a page that shows a secret. The form that makes the secret redirects to it, so that loading it again
// repeats nothing. Only the session for which the secret is kept can see it.
type secretPage struct {
	Name string // of the template
	At   string // the page's path
	Back string // path to which the button leads that removes the secret
}

type keptSecret struct {
	secretPage
	Secret json.RawMessage
}

// secretKinds are what secret pages show, by template, with the keys of their titles and buttons.
var secretKinds = map[string]struct {
	title, button string
	data          func() any
}{
	"link":   {"LinkTitle", "Finished", func() any { return new(secretLink) }},
	"token":  {"TokenNew", "Finished", func() any { return new(newToken) }},
	"client": {"SignIn", "Finished", func() any { return new(enteredPage) }},
	"codes":  {"Codes", "CodesKept", func() any { return new(codesPage) }},
}

// shownOnce is what a page says of the secret that it shows.
type shownOnce struct {
	Name    string
	Minutes int    // for which it can still be shown
	Button  string // label of the button that removes it
}

// showSecret redirects to the page of a secret, which has just been made. Where it cannot be kept
// it is in this answer and nowhere else.
func (p *Pages) showSecret(r *request, page secretPage, secret any) error {
	to, err := p.keepSecret(r, page, secret)
	if err == nil {
		return r.seeOther(to)
	}
	p.Log.ErrorContext(r.ctx(), "keep secret for its page failed", "error", err)
	r.form = form{}
	return p.render(r, page.Name, r.text[secretKinds[page.Name].title], secret)
}

// keepSecret keeps a secret and returns the URL of its page.
func (p *Pages) keepSecret(r *request, page secretPage, secret any) (string, error) {
	key, err := r.SealingKey()
	if err != nil {
		return "", err
	}
	kept := keptSecret{secretPage: page}
	if kept.Secret, err = json.Marshal(secret); err != nil {
		return "", err
	}
	content, err := json.Marshal(kept) //nolint:gosec // G117: what is kept is a secret, and sealed below
	if err != nil {
		return "", err
	}
	name, err := p.Once.Keep(r.ctx(), key, content)
	if err != nil {
		return "", err
	}
	return page.At + "?once=" + url.QueryEscape(name), nil
}

// readSecret reads the secret that a request's URL or form names. once.ErrGone.
func (p *Pages) readSecret(r *request) (kept keptSecret, shown shownOnce, err error) {
	shown.Name = r.param("once")
	key, err := r.SealingKey()
	if err != nil {
		return kept, shown, err
	}
	content, left, err := p.Once.Secret(r.ctx(), key, shown.Name)
	if err != nil {
		return kept, shown, err
	}
	if err := json.Unmarshal(content, &kept); err != nil {
		return kept, shown, err
	}
	if kept.At != r.Request().URL.Path || secretKinds[kept.Name].data == nil {
		return kept, shown, once.ErrGone
	}
	shown.Minutes = max(1, int(math.Ceil(left.Minutes())))
	return kept, shown, nil
}

// secret shows the page of a secret, or says that it is gone, as it does in any other session.
func (p *Pages) secret(r *request) error {
	kept, shown, err := p.readSecret(r)
	if errors.Is(err, once.ErrGone) {
		r.status = http.StatusNotFound
		return p.render(r, "gone", r.text["OnceGone"], r.Request().URL.Path)
	}
	if err != nil {
		return err
	}
	kind := secretKinds[kept.Name]
	data := kind.data()
	if err := json.Unmarshal(kept.Secret, data); err != nil {
		return err
	}
	shown.Button = r.text[kind.button]
	r.once = &shown
	return p.render(r, kept.Name, r.text[kind.title], data)
}

// endSecret removes a secret at its user's wish.
func (p *Pages) endSecret(r *request) error {
	kept, shown, err := p.readSecret(r)
	if errors.Is(err, once.ErrGone) {
		return r.seeOther(r.Request().URL.Path)
	}
	if err != nil {
		return err
	}
	key, err := r.SealingKey()
	if err != nil {
		return err
	}
	if err := p.Once.Remove(r.ctx(), key, shown.Name); err != nil {
		return err
	}
	return r.seeOther(kept.Back)
}
