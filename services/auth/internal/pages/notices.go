package pages

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// notice is an entry of the audit that a user should know, in words.
type notice struct {
	audit.Entry
	Text string
	// Own: the user did it.
	Own bool
	// Here: they did it in this session, or in a browser of this name and system at this address.
	Here bool
}

// notices returns entries in words.
func (p *Pages) notices(r *request, entries []audit.Entry) (shown []notice, err error) {
	names := map[int64]string{}
	agent, ip := session.AgentOf(r.Request().UserAgent()), p.Client(r.Request())
	for _, e := range entries {
		n := notice{Entry: e, Own: e.Kind == audit.User && e.Actor.ID == r.UserID}
		n.Here = n.Own && (e.SessionKey == r.Key || e.Agent == agent && e.IP == ip)
		name := e.Actor.Name
		switch {
		case e.Kind == audit.Operator:
			name = r.text["Operator"]
		case e.Kind != audit.User: // no person
			name = ""
		case !n.Own:
			if name, err = p.displayName(r, names, e); err != nil {
				return nil, err
			}
		}
		n.Text = cmp.Or(r.text.ofApplication(e.Event), r.text.told(e.Event.Name, name, n.Own))
		shown = append(shown, n)
	}
	return shown, nil
}

// displayName returns the display name of the user who acted or, of a deleted one, the username that the entry has.
// known has the names that were found before.
func (p *Pages) displayName(r *request, known map[int64]string, e audit.Entry) (string, error) {
	if name, ok := known[e.Actor.ID]; ok {
		return name, nil
	}
	name := e.Actor.Name
	switch m, err := p.People.Member(r.ctx(), e.Actor.ID); {
	case err == nil:
		name = m.DisplayName
	case !errors.Is(err, user.ErrNotFound):
		return "", err
	}
	known[e.Actor.ID] = name
	return name, nil
}

// told returns in words what happened, and who did it where by is not "" and it is not the user's own act.
func (t texts) told(event, by string, own bool) string {
	what := t[eventKey+event]
	switch sentence := t["by."+event]; {
	case own && t["own."+event] != "":
		return t["own."+event]
	case own || by == "":
		return what
	case sentence != "":
		return fmt.Sprintf(sentence, by)
	}
	return what + " · " + by
}

// ofApplication returns in words a first sign-in at an application, or that a used refresh token came again; "" for
// all other events.
func (t texts) ofApplication(e audit.Event) string {
	app, _ := e.Detail["app"].(string)
	name, _ := e.Detail["name"].(string)
	name = cmp.Or(name, app)
	switch e.Name {
	case "oidc_first_login":
		list, _ := e.Detail["scopes"].(string)
		scopes := strings.Fields(list)
		groups, told := e.Detail["groups"].(bool)
		if !told { // an entry of an earlier release
			groups = slices.Contains(scopes, oidc.ScopeGroups)
		}
		return fmt.Sprintf(t["FirstSignInF"], name, t.learns(scopes, groups))
	case "oidc_refresh_reused":
		return fmt.Sprintf(t["KeyReusedF"], name)
	}
	return ""
}
