package pages

import (
	"math"
	"slices"

	"github.com/pforte/pforte/services/auth/internal/user"
)

// rules has the page of the household: its name, and its rules about second factors.
type rules struct{ *Pages }

type rulesPage struct {
	Required   bool
	Without    listing[user.Details] // whose password alone is enough
	Configured bool                  // TOTP is possible on this server
	// PasskeysOff is why there can be no passkeys; empty: there can.
	PasskeysOff string
	// RetentionDays is how many days entries of the audit are kept, rounded up; 0: for ever.
	RetentionDays int
}

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
		Required: required, Configured: state.Configured, PasskeysOff: p.passkeysOff(r),
		RetentionDays: int(math.Ceil(p.Audit.Retention.Hours() / 24)),
	}
	members = slices.DeleteFunc(members, func(m user.Details) bool { return m.Protected() })
	page.Without = listed(r, members, memberText(nil))
	return p.render(r, "rules", r.text["Rules"], page)
}

// change names the household, or sets whether it requires a second factor.
func (p rules) change(r *request) error {
	var err error
	if r.form.get("do") == "name" {
		err = p.People.NameHousehold(r.ctx(), r.UserID, r.form.get("household"))
	} else {
		err = p.Accounts.SecondFactor.Require(r.ctx(), r.Session, r.form.get("required") == "yes")
	}
	return r.done(root+"admin/security", "profile", err)
}
