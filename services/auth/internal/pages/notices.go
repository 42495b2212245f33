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

// notice is what happened to a user's account, in words that say who did it.
type notice struct {
	audit.Entry
	Text string
	// Own: the user did it.
	Own bool
	// Here: it was done in this session, or in this browser at this address.
	Here bool
}

// notices returns entries in words.
func (p *Pages) notices(r *request, entries []audit.Entry) (shown []notice, err error) {
	names := map[int64]string{}
	browser, system := session.BrowserOf(r.Request().UserAgent())
	agent, ip := strings.Trim(browser+", "+system, ", "), p.Client(r.Request())
	for _, e := range entries {
		n := notice{Entry: e, Own: e.Kind == audit.User && e.Actor.ID == r.UserID}
		n.Here = n.Own && (e.SessionKey == r.Key || e.Agent == agent && e.IP == ip)
		name := e.Actor.Name
		switch {
		case e.Kind == audit.Operator:
			name = r.text["Operator"]
		case e.Kind != audit.User: // nobody who has a name
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

// displayName returns the name of the user who acted, as it is now or, of a deleted one, as it was.
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

// told returns what happened, as a sentence with who did it where there is one.
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

// ofApplication returns what a sign-in at an application led to, in words; "" for all other events.
func (t texts) ofApplication(e audit.Event) string {
	app, _ := e.Detail["app"].(string)
	name, _ := e.Detail["name"].(string)
	name = cmp.Or(name, app)
	switch e.Name {
	case "oidc_first_login":
		list, _ := e.Detail["scopes"].(string)
		scopes := strings.Fields(list)
		return fmt.Sprintf(t["FirstSignInF"], name, t.learns(scopes, slices.Contains(scopes, oidc.ScopeGroups)))
	case "oidc_refresh_reused":
		return fmt.Sprintf(t["KeyReusedF"], name)
	}
	return ""
}
