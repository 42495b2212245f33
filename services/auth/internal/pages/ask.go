package pages

import "net/url"

// accessRequests has the page on which a user asks for access to an application.
type accessRequests struct{ *Pages }

// askPath returns the path and query of the page for an application.
func askPath(slug string) string { return root + "ask?app=" + url.QueryEscape(slug) }

func (p accessRequests) form(r *request) error {
	app, err := p.Policy.Application(r.ctx(), r.param("app"))
	if err != nil {
		return err
	}
	return p.render(r, "ask", r.text["AskTitle"], app)
}

// ask records that the user asks, which the admins are told.
func (p accessRequests) ask(r *request) error {
	slug := r.form.get("app")
	if err := p.Policy.AskForAccess(r.ctx(), r.User, slug); err != nil {
		return err
	}
	return r.seeOther(askPath(slug) + "&done=asked")
}
