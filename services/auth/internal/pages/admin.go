package pages

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// household has the pages of members and invites.
type household struct{ *Pages }

func (p household) members(r *request) error {
	members, err := p.People.Members(r.ctx())
	if err != nil {
		return err
	}
	groups, err := p.Policy.Groups(r.ctx())
	if err != nil {
		return err
	}
	return p.render(r, "members", r.text["Members"], membersPage{listed(r, members, memberText(groups)), groups})
}

type membersPage struct {
	Members listing[user.Details]
	Groups  groupList
}

// memberText returns a function that returns the text of a member that a search looks at.
func memberText(groups groupList) func(user.Details) string {
	return func(m user.Details) string {
		text := m.DisplayName + " " + m.Username
		for _, slug := range m.Groups {
			text += " " + groups.Name(slug)
		}
		return text
	}
}

type memberPage struct {
	user.Details
	Own       bool // the admin's own account
	LastDay   string
	AllGroups groupList
	Tokens    []shownToken
}

func (p household) memberOf(r *request) (memberPage, error) {
	id, err := web.ParseID(r.Param("id"))
	if err != nil {
		return memberPage{}, err
	}
	m, err := p.People.Member(r.ctx(), id)
	return memberPage{Details: m, Own: id == r.UserID, LastDay: p.People.LastDay(m.User)}, err
}

func (p household) member(r *request) error {
	m, err := p.memberOf(r)
	if err != nil {
		return err
	}
	if m.AllGroups, err = p.Policy.Groups(r.ctx()); err != nil {
		return err
	}
	tokens, err := p.Policy.TokensFor(r.ctx(), m.Username)
	if err != nil {
		return err
	}
	if m.Tokens, err = p.shownTokens(r, tokens); err != nil {
		return err
	}
	return p.render(r, "member", m.DisplayName, m)
}

// changeMember carries out what the button of a form on a member's page says.
func (p household) changeMember(r *request) error {
	m, err := p.memberOf(r)
	if err != nil {
		return err
	}
	here := root + "admin/members/" + strconv.FormatInt(m.ID, 10)
	update := func(what string, change people.MemberChange) error {
		_, err := p.UpdateMember(r.Response(), r.Request(), r.Caller, m.ID, change)
		return r.done(here, what, err)
	}
	switch r.form.get("do") {
	case "change":
		return update("profile", people.MemberChange{
			DisplayName: r.form.changed("display_name", r.form.get("display_name")),
			AvatarColor: r.form.changed("color", r.form.color()),
			Role:        r.form.changed("role", r.form.get("role")),
			Joins:       r.form.joins(),
		})
	case "picture":
		return r.done(here, "picture-removed", p.People.RemovePicture(r.ctx(), r.UserID, m.ID))
	case "rename":
		return update("renamed", people.MemberChange{Username: new(r.form.get("username"))})
	case "email": // an admin vouches for what they enter, and for what a member has entered
		return update("profile", people.MemberChange{Email: new(r.form.get("email"))})
	case "guest":
		return update("profile", people.MemberChange{LastDay: new(r.form.get("last_day"))})
	case "disable":
		return r.done(here, "disabled", p.People.Disable(r.ctx(), r.Session, m.ID))
	case "enable":
		return r.done(here, "enabled", p.People.Enable(r.ctx(), r.Session, m.ID))
	case "dismiss":
		if err := p.People.DismissReset(r.ctx(), r.UserID, m.ID); err != nil {
			return err
		}
		return r.seeOther(root)
	case "reset-link":
		l, token, err := p.People.ResetLink(r.ctx(), r.Session, m.ID)
		if err != nil {
			return err
		}
		return p.showLink(r, l, token, here)
	case "factor":
		return r.done(here, "factor-reset", p.Accounts.SecondFactor.Reset(r.ctx(), r.Session, m.ID))
	case "revoke", "remove":
		return p.changeToken(r, here)
	case "sessions":
		return r.done(here, "sessions", p.Accounts.RevokeSessions(r.ctx(), r.Session, m.ID))
	case "delete":
		if r.form.get("confirm") != m.Username {
			return web.ErrConfirmation
		}
		return r.done(root+"admin/members", "deleted", p.People.Delete(r.ctx(), r.Session, m.ID))
	}
	return web.ErrMalformed
}

// invites lists the open invites and offers a new one.
func (p household) invites(r *request) error {
	invites, err := p.People.Invites(r.ctx())
	if err != nil {
		return err
	}
	groups, err := p.Policy.Groups(r.ctx())
	if err != nil {
		return err
	}
	return p.render(r, "invites", r.text["Invites"], invitesPage{
		Invites: invites, Groups: groups, Former: r.fault != nil && errors.Is(r.fault.err, user.ErrUsernameFormer),
	})
}

type invitesPage struct {
	Invites []link.Link
	Groups  groupList
	Former  bool // the username that was sent is that of a deleted user
}

// changeInvites creates an invite or revokes one.
func (p household) changeInvites(r *request) error {
	switch r.form.get("do") {
	case "invite":
		n := people.NewInvite{
			Username: r.form.get("username"), Former: r.form.sent("former"), DisplayName: r.form.get("display_name"),
			Role:   r.form.get("role"),
			Groups: r.form.groups(), LastDay: r.form.get("last_day"),
		}
		l, token, err := p.People.Invite(r.ctx(), r.Session, n)
		if err != nil {
			return err
		}
		return p.showLink(r, l, token, invitesPath)
	case "revoke":
		id, err := strconv.ParseInt(r.form.get("id"), 10, 64)
		if err != nil {
			return web.ErrMalformed
		}
		return r.done(invitesPath, "revoked", p.People.RevokeInvite(r.ctx(), r.UserID, id), link.ErrNotFound)
	}
	return web.ErrMalformed
}

type audits struct{ *Pages }

type auditPage struct {
	Entries  []audit.Entry
	Members  []user.Details
	Events   []string
	Query    audit.Query
	From, To string // as typed, YYYY-MM-DD
	Older    string // URL of the next page; empty: there is none
	CSV      string // URL of the file with what the filters select
	Filtered bool
}

// auditQuery returns what the filters of the audit page select, and those filters; a filter
// that cannot be read is left out.
func (p audits) auditQuery(r *request) (audit.Query, url.Values) {
	query, kept := audit.Query{}, url.Values{}
	keep := func(name string) { kept.Set(name, r.QueryParam(name)) }
	if id, err := strconv.ParseInt(r.QueryParam("user"), 10, 64); err == nil && id > 0 {
		query.UserID = id
		keep("user")
	}
	if _, known := r.text[eventKey+r.QueryParam("event")]; known {
		query.Event = r.QueryParam("event")
		keep("event")
	}
	if from, err := time.ParseInLocation(time.DateOnly, r.QueryParam("from"), p.Location); err == nil {
		query.From = from
		keep("from")
	}
	if to, err := time.ParseInLocation(time.DateOnly, r.QueryParam("to"), p.Location); err == nil {
		query.To = to.AddDate(0, 0, 1)
		keep("to")
	}
	return query, kept
}

const (
	auditPath = root + "admin/audit"
	// auditRows is how many entries the page shows at once, so that it has less than 40 KB in a household of 200.
	auditRows = 40
)

// audit shows what happened, newest first.
func (p audits) audit(r *request) error {
	query, filters := p.auditQuery(r)
	query.Limit = auditRows
	page := auditPage{
		Query: query, From: filters.Get("from"), To: filters.Get("to"), Events: r.text.eventNames(),
		Filtered: len(filters) > 0, CSV: withQuery(auditPath+".csv", filters),
	}
	if before, err := strconv.ParseInt(r.QueryParam("before"), 10, 64); err == nil && before > 0 {
		query.Before.ID = before
	}
	if at, err := strconv.ParseInt(r.QueryParam("before_at"), 10, 64); err == nil && at > 0 {
		query.Before.At = time.Unix(at, 0)
	}
	var err error
	var next audit.Cursor
	if page.Entries, next, err = p.Audit.Entries(r.ctx(), query); err != nil {
		return err
	}
	if page.Members, err = p.People.Members(r.ctx()); err != nil {
		return err
	}
	if next.ID > 0 {
		filters.Set("before", strconv.FormatInt(next.ID, 10))
		filters.Set("before_at", strconv.FormatInt(next.At.Unix(), 10))
		page.Older = withQuery(auditPath, filters)
	}
	return p.render(r, "audit", r.text["Audit"], page)
}

// auditFile sends what the filters of the audit page select as a CSV file. Without a proof of the last day it
// redirects to the page of a new one, which leads on to the audit page.
func (p audits) auditFile(r *request) error {
	query, filters := p.auditQuery(r)
	if !p.recent(r.Caller) {
		return r.seeOther(root + "reauth?return=" + escapeReturn(withQuery(auditPath, filters)))
	}
	var file bytes.Buffer
	if err := p.Audit.WriteCSV(r.ctx(), &file, query); err != nil {
		return err
	}
	r.Response().Header().Set("Content-Disposition", `attachment; filename="audit.csv"`)
	return r.Blob(http.StatusOK, "text/csv; charset=utf-8", file.Bytes())
}

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

func (r *request) isAdmin() bool { return r.User.Role == user.Admin }
