package pages

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/picture"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// profile has the start page, that of the user's profile and picture, and that on which they delete their account.
type profile struct{ *Pages }

type startPage struct {
	Apps    []application.Application // that are Reached, and whose rule admits the user
	Notices []notice
	// UpTo is the time of the newest notice, in Unix seconds; 0: there is none.
	UpTo int64
	// Duty: the household requires a second factor, and the user's password alone opens the account.
	Duty bool
	// Joined: the user has just accepted an invite.
	Joined bool
	// Requests are, for admins, other members who have asked for a new password, at most shownRequests. More: there
	// are others.
	Requests []user.Details
	More     bool
	// Steps are the first steps that the user is shown; nil: none.
	Steps      []firstStep
	LastBackup time.Time // of the program backup, for admins; zero: none yet
}

// shownRequests is how many requests for a new password the start page shows at most.
const shownRequests = 5

func (p profile) start(r *request) error {
	notices, err := p.Audit.Notices(r.ctx(), r.UserID)
	if err != nil {
		return err
	}
	page := startPage{Joined: r.QueryParam("done") == "joined"}
	if page.Notices, err = p.notices(r, notices); err != nil {
		return err
	}
	if len(notices) > 0 {
		page.UpTo = notices[0].At.Unix()
	}
	if page.Apps, err = p.Policy.Openable(r.ctx(), r.Session); err != nil {
		return err
	}
	page.Apps = slices.DeleteFunc(page.Apps, func(a application.Application) bool { return !a.Reached })
	household, err := p.Accounts.Household(r.ctx())
	if err != nil {
		return err
	}
	page.Duty = household.RequireSecondFactor && !r.User.Protected()
	if r.isAdmin() {
		members, err := p.People.Members(r.ctx())
		if err != nil {
			return err
		}
		if page.Steps, err = p.firstSteps(r, household, len(members) > 1); err != nil {
			return err
		}
		page.LastBackup = household.LastBackup
		page.Requests = slices.DeleteFunc(members, func(m user.Details) bool {
			return m.ResetAskedAt.IsZero() || m.ID == r.UserID // who is logged in
		})
		if page.More = len(page.Requests) > shownRequests; page.More {
			page.Requests = page.Requests[:shownRequests]
		}
	} else if !r.User.Protected() && p.Now().Sub(r.User.CreatedAt) < newFor {
		step, err := p.protectStep(r)
		if err != nil {
			return err
		}
		if step.Text != "" && !step.Done {
			page.Steps = []firstStep{step}
		}
	}
	return p.render(r, "start", r.text["Start"], page)
}

// newFor is how long after their creation members, who are no admins, are shown how to protect the account.
const newFor = 30 * 24 * time.Hour

// firstStep is something that an admin of a new household, or a new member, does first.
type firstStep struct {
	Text, URL string
	Done      bool
	// Protects: the step is to protect the account by a passkey, which gets the name PasskeyName (empty: there can be
	// none here), or, where Codes is set, by codes from an app.
	Protects    bool
	PasskeyName string
	Codes       bool
}

// protectStep returns the step by which the account gets more protection than a password; without a text where this
// server offers none.
func (p profile) protectStep(r *request) (firstStep, error) {
	step := firstStep{Protects: true}
	passkeys, err := p.Accounts.Passkeys.List(r.ctx(), r.UserID)
	if err != nil {
		return firstStep{}, err
	}
	state, err := p.Accounts.SecondFactor.State(r.ctx(), r.Session)
	if err != nil {
		return firstStep{}, err
	}
	step.Done = len(passkeys) > 0 || r.User.Protected()
	if step.Codes = state.Configured; step.Codes {
		step.Text = r.text["AppSetup"]
	}
	if p.Accounts.Passkeys.Off() == nil {
		step.Text = r.text["StepPasskey"]
		step.PasskeyName = proposedName(r.text.deviceName(r.Request().UserAgent()), passkeys)
	}
	return step, nil
}

// firstSteps returns the steps of an admin; nil: all are done, or an admin has hidden them. joined: there are other
// members.
func (p profile) firstSteps(r *request, h user.Household, joined bool) ([]firstStep, error) {
	if h.FirstStepsDone {
		return nil, nil
	}
	steps := []firstStep{{Text: r.text["StepNamed"], URL: root + "admin/security", Done: h.Named}}
	protect, err := p.protectStep(r)
	if err != nil {
		return nil, err
	}
	if protect.Text != "" {
		steps = append(steps, protect)
	}
	invites, err := p.People.Invites(r.ctx())
	if err != nil {
		return nil, err
	}
	apps, err := p.Policy.Applications(r.ctx())
	if err != nil {
		return nil, err
	}
	steps = append(steps,
		firstStep{Text: r.text["StepInvite"], URL: root + "admin/invites", Done: joined || len(invites) > 0},
		firstStep{Text: r.text["StepApp"], URL: appsPath + "/new", Done: len(apps) > 0})
	if !slices.ContainsFunc(steps, func(s firstStep) bool { return !s.Done }) {
		return nil, nil
	}
	return steps, nil
}

// changeStart marks the notices that were shown as read, or hides the first steps.
func (p profile) changeStart(r *request) error {
	if r.form.get("do") == "hide" {
		if err := p.People.HideFirstSteps(r.ctx(), r.UserID); err != nil {
			return err
		}
		return r.seeOther(root)
	}
	upTo, err := strconv.ParseInt(r.form.get("up_to"), 10, 64)
	if err != nil {
		return web.ErrMalformed
	}
	if err := p.Audit.NoticesSeen(r.ctx(), r.UserID, time.Unix(upTo, 0)); err != nil {
		return err
	}
	return r.seeOther(root)
}

func (p profile) account(r *request) error {
	email, err := p.People.OwnEmail(r.ctx(), r.Session)
	if err != nil {
		return err
	}
	return p.render(r, "account", r.text["Profile"], email)
}

// changeProfile changes the user's display name and colour, or their e-mail address.
func (p profile) changeProfile(r *request) error {
	if r.form.get("do") == "email" {
		if !p.fresh(r.Caller) {
			return account.ErrReauthRequired
		}
		return r.done(root+"account", "profile", p.People.SetOwnEmail(r.ctx(), r.Session, r.form.get("email")))
	}
	color := r.form.color()
	change := people.MemberChange{AvatarColor: &color}
	// A name of before that the rules now refuse stays until the user types another.
	if name := r.form.get("display_name"); name != r.User.DisplayName {
		change.DisplayName = &name
	}
	_, err := p.People.UpdateMember(r.ctx(), r.Session, r.UserID, change)
	return r.done(root+"account", "profile", err)
}

// picturePath is where the form with a user's picture is sent.
const picturePath = root + "account/picture"

// changePicture makes the file of the form the user's picture, or removes it.
func (p profile) changePicture(r *request) error {
	if r.form.get("do") == "remove" {
		return r.done(root+"account", "picture-removed", p.People.SetPicture(r.ctx(), r.Session, nil))
	}
	if len(r.file) == 0 {
		return picture.ErrFormat
	}
	return r.done(root+"account", "picture", p.People.SetPicture(r.ctx(), r.Session, r.file))
}

// picture serves the picture of a user to those who are logged in. Its URL has its hash.
func (p profile) picture(r *request) error {
	id, err := strconv.ParseInt(r.Param("id"), 10, 64)
	if sum, wrong := hex.DecodeString(r.Param("hash")); err != nil || wrong != nil || len(sum) != sha256.Size {
		return service.ErrNoRoute
	}
	jpeg, err := p.People.Picture(r.ctx(), id, r.Param("hash"))
	if errors.Is(err, user.ErrNotFound) {
		return service.ErrNoRoute
	}
	if err != nil {
		return err
	}
	h := r.Response().Header()
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "private, max-age=604800, immutable")
	h.Del("Vary")
	return r.Blob(http.StatusOK, "image/jpeg", jpeg)
}

// leavePath is the path of the page on which users delete their own account.
const leavePath = root + "account/delete"

// leaveForm asks whether to delete the account, and says what goes with it.
func (p profile) leaveForm(r *request) error { return p.render(r, "leave", r.text["Leave"], nil) }

// leave deletes the user's own account.
func (p profile) leave(r *request) error {
	if r.form.get("confirm") != r.User.Username {
		return web.ErrConfirmation
	}
	if err := p.People.DeleteOwn(r.ctx(), r.Session); failed(err) {
		return err
	}
	p.Sessions.Clear(r.Response(), r.Current)
	return r.seeOther(root + "login?done=left")
}

// ownColor is the value of the field color where the colour is typed in the field hex.
const ownColor = "own"

// color returns the colour that was chosen or typed.
func (f form) color() string {
	if chosen := f.get("color"); chosen != ownColor {
		return chosen
	}
	return f.get("hex")
}

// newPassword returns the new password of a form. account.ErrMissing; web.ErrPasswordsDiffer where the form has it
// twice and not alike.
func newPassword(f form) (string, error) {
	switch pw := f.get("password"); {
	case pw == "":
		return "", account.ErrMissing
	case f.sent("again") && pw != f.get("again"):
		return "", web.ErrPasswordsDiffer
	default:
		return pw, nil
	}
}
