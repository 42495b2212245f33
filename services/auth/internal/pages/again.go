package pages

import (
	"net/http"
	"time"

	"github.com/pforte/pforte/services/auth/internal/once"
)

// sentAgainFor is how long a form that is sent again sets the cookies that the first one set: a
// browser that sends it twice at once drops the first answer, and its cookies with it.
const sentAgainFor = time.Minute

// sentForm returns the form of a POST, and reports whether it has an id. A page gives each of its
// forms one; programs send none.
func (r *request) sentForm() (once.Form, bool) {
	if r.body == "" {
		return once.Form{}, false
	}
	return once.NewForm(r.form.get("form"), r.Request().URL.RequestURI(), r.body)
}

// again answers a form that was sent before, and reports whether it was. It comes before the
// guards of sessions, but for forms with a file, because the first one may have ended the session
// that both came with; whoever has the form's id and all that was sent, is who sent the first one.
func (p *Pages) again(r *request) (bool, error) {
	f, ok := r.sentForm()
	if !ok {
		return false, nil
	}
	restore := p.detach(r) // the first one may compute a password, and is waited for as long
	answer, sent, err := p.Once.Answer(r.ctx(), f)
	restore()
	if err != nil || !sent {
		return false, err
	}
	return true, p.answerAgain(r, answer)
}

func (p *Pages) answerAgain(r *request, answer once.Answer) error {
	if p.Now().Sub(answer.At) < sentAgainFor {
		for _, cookie := range answer.Cookies {
			r.Response().Header().Add("Set-Cookie", cookie)
		}
	}
	return r.seeOther(answer.To)
}

// carryOut calls the handler of a form, once for each form with an id, however often and by how many
// requests at once it is sent. One that leads to no redirect can be sent again.
func (p *Pages) carryOut(r *request, h handler) error {
	f, ok := r.sentForm()
	if !ok {
		return h(r)
	}
	// The browser that sends a form twice hangs up on the first: the work is finished all the same, and the second
	// waits as long as it may take.
	defer p.detach(r)()
	answer, first, err := p.Once.Begin(r.ctx(), f)
	if err != nil {
		return err
	}
	if !first {
		return p.answerAgain(r, answer)
	}
	finished := false
	defer func() { // also of a panic
		if !finished {
			p.logForm(r, p.Once.Abandon(r.ctx(), f))
		}
	}()
	answered := r.Response()
	if err := h(r); err != nil || !answered.Committed || answered.Status != http.StatusSeeOther {
		return err
	}
	err = p.Once.Finish(r.ctx(), f, once.Answer{
		To: answered.Header().Get("Location"), Cookies: answered.Header()["Set-Cookie"], At: p.Now(),
	})
	p.logForm(r, err)
	finished = err == nil
	return nil
}

// logForm logs err, if there is one, of the store of forms after a handler has run. It is nothing to
// tell the user.
func (p *Pages) logForm(r *request, err error) {
	if err != nil {
		p.Log.ErrorContext(r.ctx(), "keep what a form led to failed", "error", err)
	}
}
