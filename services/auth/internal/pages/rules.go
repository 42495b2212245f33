package pages

import (
	"math"

	"github.com/pforte/pforte/services/auth/internal/user"
)

// rules has the page of the household's rules about second factors.
type rules struct{ *Pages }

// rulesPage is what the page of the household's rules shows.
type rulesPage struct {
	Required   bool
	Without    []user.Details // who has no second factor
	Configured bool           // TOTP is possible on this server
	Passkeys   bool
	// RetentionDays is how long entries of the audit are kept; 0: for ever.
	RetentionDays int
}

// page shows the household's rules.
func (p rules) page(r *request) error {
	members, required, err := p.People.FactorOverview(r.ctx())
	if err != nil {
		return err
	}
	state, err := p.Accounts.SecondFactor.State(r.ctx(), r.Session)
	if err != nil {
		return err
	}
	page := rulesPage{
		Required: required, Configured: state.Configured, Passkeys: p.Accounts.Passkeys.Off() == nil,
		RetentionDays: int(math.Ceil(p.Audit.Retention.Hours() / 24)),
	}
	for _, m := range members {
		if !m.SecondFactor {
			page.Without = append(page.Without, m)
		}
	}
	return p.render(r, "rules", r.text["Rules"], page)
}

// change sets whether the household requires a second factor.
func (p rules) change(r *request) error {
	if err := p.Accounts.SecondFactor.Require(r.ctx(), r.UserID, r.form.get("required") == "yes"); err != nil {
		return err
	}
	return r.seeOther(root + "admin/security?done=profile")
}
