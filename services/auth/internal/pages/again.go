package pages

import (
	"net/http"
	"time"

	"github.com/pforte/pforte/services/auth/internal/once"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// sentAgainFor is how long after the first answer to a form the answer to the same form, sent again, sets the same
// cookies: a browser that sends it twice at once drops the first answer, and its cookies with it.
const sentAgainFor = time.Minute

// sentForm returns the form of a POST, and reports whether it has an id.
func (r *request) sentForm() (once.Form, bool) {
	if r.body == "" {
		return once.Form{}, false
	}
	return once.NewForm(r.form.get("form"), r.Request().URL.RequestURI(), r.body)
}

// again answers a form that was sent before with the same redirect, and reports whether it did. Unless the form may
// have a file, this comes before the session is looked at, because the first sending may have ended it: whoever has
// the form's id and all that was sent counts as who sent it first.
func (p *Pages) again(r *request) (bool, error) {
	f, ok := r.sentForm()
	if !ok {
		return false, nil
	}
	ctx, cancel := web.Waiting(r.Request())
	defer cancel()
	answer, sent, err := p.Once.Answer(ctx, f)
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

// carryOut calls the handler of a form. A form with an id that has led to a redirect gets that redirect instead, for
// as long as it is kept (once.FormLifetime); while another request carries it out, it waits for that one. A form that
// leads to no redirect can be sent again, and so can one after which very many were sent.
func (p *Pages) carryOut(r *request, h handler) error {
	f, ok := r.sentForm()
	if !ok {
		defer p.detach(r)()
		return h(r)
	}
	ctx, cancel := web.Waiting(r.Request())
	answer, first, err := p.Once.Begin(ctx, f)
	cancel()
	if err != nil {
		return err
	}
	if !first {
		return p.answerAgain(r, answer)
	}
	// It may hash a password. The browser that sends a form twice hangs up on the first: the work is finished all
	// the same. A copy that waits does no work, and stops when its client hangs up.
	defer p.detach(r)()
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
	}, r.page.needs == needsNothing)
	p.logForm(r, err)
	finished = err == nil
	return nil
}

// logForm logs err, of the store of forms after a handler has run; nil: nothing. The user is not told.
func (p *Pages) logForm(r *request, err error) {
	if err != nil {
		p.Log.ErrorContext(r.ctx(), "keep what a form led to failed", "error", err)
	}
}
