package pages

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/once"
)

const invitesPath = root + "admin/invites"

func invitePath(l link.Link) string { return invitesPath + "/" + strconv.FormatInt(l.ID, 10) }

// secretLink is a link as its page shows it: with its address as long as that is kept.
type secretLink struct {
	link.Link
	Path string // empty: the address is not shown any more
	URL  string // empty: as Path, or PUBLIC_URL is not set
	// Here: the URL opens on this machine alone.
	Here bool
}

// State returns the path at which a script asks whether an invite was accepted; "": it was, or the link is no invite.
func (l secretLink) State() string {
	if l.Kind != link.Invite || l.Joined() {
		return ""
	}
	return invitePath(l.Link) + "/state"
}

// Joined reports whether an invite was accepted.
func (l secretLink) Joined() bool { return l.Kind == link.Invite && !l.UsedAt.IsZero() }

func (p household) showLink(r *request, l link.Link, token, back string) error {
	shown, at := secretLink{Link: l, Path: l.Kind.Path(token)}, back
	if p.PublicURL != "" {
		shown.URL, shown.Here = p.PublicURL+shown.Path, oidc.IsLoopback(p.PublicURL)
	}
	if l.Kind == link.Invite {
		at = invitePath(l)
	}
	return p.showSecret(r, secretPage{Name: "link", At: at, Back: back}, &shown)
}

// inviteOf returns the invite of the path, which is open or was used. link.ErrNotFound.
func (p household) inviteOf(r *request) (link.Link, error) {
	id, err := strconv.ParseInt(r.Param("id"), 10, 64)
	if err != nil {
		return link.Link{}, link.ErrNotFound
	}
	l, err := p.People.InviteOf(r.ctx(), id)
	if errors.Is(err, link.ErrUsed) {
		err = nil
	}
	return l, err
}

// invite shows whether an invite was accepted and, for as long as it is kept, its link.
func (p household) invite(r *request) error {
	l, err := p.inviteOf(r)
	if err != nil {
		return err
	}
	var shown secretLink
	if r.QueryParam("once") != "" {
		kept, left, err := p.readSecret(r)
		if errors.Is(err, once.ErrGone) {
			return p.secret(r)
		}
		if err == nil {
			err = json.Unmarshal(kept.Secret, &shown)
		}
		if err != nil {
			return err
		}
		left.Button, r.once = r.text["Finished"], &left
	}
	shown.Link = l // as it is now
	return p.render(r, "link", r.text["LinkTitle"], &shown)
}

// inviteState answers the script of the page whether the invite was accepted, also in words, as JSON.
func (p household) inviteState(r *request) error {
	l, err := p.inviteOf(r)
	if err != nil {
		return err
	}
	state := struct {
		Joined bool   `json:"joined"`
		Text   string `json:"text"`
	}{!l.UsedAt.IsZero(), r.text["InviteWaiting"]}
	if state.Joined {
		state.Text = fmt.Sprintf(r.text["InviteJoinedF"], l.DisplayName)
	}
	return r.JSON(http.StatusOK, state)
}
