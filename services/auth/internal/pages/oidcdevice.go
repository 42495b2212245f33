package pages

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// devices has the page on which a user types the code of a device that has no browser, and lets it log them in or
// not.
type devices struct{ *Pages }

// devicePage is what the page shows: the field for a code, or the question about the device that shows it.
type devicePage struct {
	Code   string
	Asks   bool
	Name   string // of the application
	Learns string // in words
	// Done: the answer was taken, and nothing is asked any more.
	Done bool
}

// page asks for a code, or whether the device that shows it may log the user in, after a new proof where one is
// needed. A code in the query lets no device in by itself: an attacker may have sent the address of this page with
// the code of their own device (RFC 8628, section 5.4).
func (p devices) page(r *request) error {
	if err := p.OIDC.Off(r.ctx()); err != nil {
		if oidc.IsOff(err) {
			return service.ErrNoRoute
		}
		return err
	}
	shown := devicePage{Code: cmp.Or(r.form.get(web.OIDCUserCodeParam), r.QueryParam(web.OIDCUserCodeParam))}
	shown.Done = r.QueryParam("done") != ""
	if shown.Code == "" || r.fault != nil {
		return p.render(r, "device", r.text["DeviceTitle"], shown)
	}
	w, err := p.waitingFor(r, shown.Code)
	if errors.Is(err, oidc.ErrNoDevice) {
		r.fails(err)
		return p.render(r, "device", r.text["DeviceTitle"], shown)
	}
	if err != nil {
		return err
	}
	switch first, err := p.OIDC.ProveFirst(r.ctx(), w, r.Session); {
	case err != nil:
		return err
	case first:
		return p.askAgain(r)
	}
	shown.Code, shown.Name, shown.Asks = w.Code, w.Name, true
	shown.Learns = r.text.learns(w.Scopes, w.Client.TellsGroups(w.Scopes))
	return p.render(r, "device", fmt.Sprintf(r.text["DeviceAskF"], w.Name), shown)
}

// userCodeOf returns the code of a device to whose question a return path leads; "": it leads to none.
func userCodeOf(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Path != web.OIDCDevicePage {
		return ""
	}
	shown, _ := oidc.ShownUserCode(u.Query().Get(web.OIDCUserCodeParam))
	return shown
}

// waitingFor returns the device that shows a code. A code that no device shows counts for the user, who may be
// guessing.
func (p devices) waitingFor(r *request, code string) (w oidc.WaitingDevice, err error) {
	guesser := []string{"device:" + strconv.FormatInt(r.UserID, 10)}
	refused := p.Limited(r.Response(), r.Request(), service.RouteLabel(r), web.LimitLink, p.LinkLimit, guesser,
		func() int {
			w, err = p.OIDC.WaitingDevice(r.ctx(), code)
			if errors.Is(err, oidc.ErrNoDevice) {
				return http.StatusUnauthorized // what Limited counts
			}
			return http.StatusOK
		})
	return w, cmp.Or(refused, err)
}

// answer takes what the user answered.
func (p devices) answer(r *request) error {
	w, err := p.waitingFor(r, r.form.get(web.OIDCUserCodeParam))
	if err != nil {
		return err
	}
	switch r.form.get("do") {
	case "yes":
		return p.allow(r, w)
	case "no":
		return r.done(web.OIDCDevicePage, "device-denied", p.OIDC.DenyDevice(r.ctx(), w))
	}
	return web.ErrMalformed
}

func (p devices) allow(r *request, w oidc.WaitingDevice) error {
	kind, err := p.OIDC.AllowDevice(r.ctx(), w, r.Session, r.User)
	if err != nil {
		return err
	}
	switch kind {
	case oidc.Back:
		return r.seeOther(web.OIDCDevicePage + "?done=device")
	case oidc.ToLogin:
		return session.ErrNotFound
	case oidc.ToReauth:
		here := withQuery(web.OIDCDevicePage, url.Values{web.OIDCUserCodeParam: {w.Code}})
		return r.seeOther(root + "reauth?return=" + escapeReturn(here))
	}
	return authorizations(p).notAdmitted(r, oidc.Step{Kind: kind, Slug: w.Slug, Name: w.Name})
}
