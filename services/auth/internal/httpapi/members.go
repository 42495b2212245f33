package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

func userAnswer(status int, u user.User) answer {
	return answer{status, struct {
		User userBody `json:"user"`
	}{bodyOf(u)}}
}

// updateProfile is PATCH /me/profile.
func (a members) updateProfile(c echo.Context, s web.Caller, body struct {
	DisplayName *string `json:"display_name"`
	AvatarColor *string `json:"avatar_color"`
},
) (answer, error) {
	change := people.MemberChange{DisplayName: body.DisplayName, AvatarColor: body.AvatarColor}
	u, err := a.People.UpdateMember(c.Request().Context(), s.Session, s.UserID, change)
	return userAnswer(http.StatusOK, u), err
}

// emailBody has the members of a body that tell of a user's e-mail address.
type emailBody struct {
	Email     *string `json:"email"` // null: there is none
	Confirmed bool    `json:"email_confirmed"`
}

func emailOf(e user.Email) (body emailBody) {
	if e.Address != "" {
		body.Email, body.Confirmed = &e.Address, e.Confirmed()
	}
	return body
}

// ownEmail is GET /me/email.
func (a members) ownEmail(c echo.Context, s web.Caller) (answer, error) {
	e, err := a.People.OwnEmail(c.Request().Context(), s.Session)
	return data(emailOf(e)), err
}

// setOwnEmail is PUT /me/email.
func (a members) setOwnEmail(c echo.Context, s web.Caller, body struct {
	Email *string `json:"email"` // empty: none
},
) (answer, error) {
	if body.Email == nil {
		return answer{}, account.ErrMissing
	}
	if err := a.People.SetOwnEmail(c.Request().Context(), s.Session, *body.Email); err != nil {
		return answer{}, err
	}
	return a.ownEmail(c, s)
}

// getUser is GET /members/:id.
func (a members) getUser(c echo.Context, _ web.Caller, id int64) (answer, error) {
	d, err := a.People.Member(c.Request().Context(), id)
	if err != nil {
		return answer{}, err
	}
	type details struct {
		ListedUser
		Groups      []string `json:"groups"`
		TwoFactor   bool     `json:"two_factor"`
		Passkeys    int      `json:"passkeys"`
		LastLoginAt *string  `json:"last_login_at"` // null: the audit has none
		Disabled    bool     `json:"disabled"`
		LastDay     *string  `json:"last_day"` // of a guest, in the household's time; null: there is none
		emailBody
		Subject *string `json:"subject"` // by what applications know them; null: it was not needed yet
	}
	body := details{
		ListedUser: Listed([]user.User{d.User})[0], Groups: list(d.Groups), TwoFactor: d.SecondFactor,
		Passkeys: d.Passkeys, LastLoginAt: orNull(d.LastLoginAt), Disabled: !d.DisabledAt.IsZero(),
		emailBody: emailOf(d.Email),
	}
	if d.Subject != "" {
		body.Subject = &d.Subject
	}
	if day := a.People.LastDay(d.User); day != "" {
		body.LastDay = &day
	}
	return answer{http.StatusOK, struct {
		User details `json:"user"`
	}{body}}, nil
}

// updateUser is PATCH /members/:id. A password is refused: its owner sets it, by a reset link.
func (a members) updateUser(c echo.Context, s web.Caller) (answer, error) {
	id, err := web.ParseID(c.Param("id"))
	if err != nil {
		return answer{}, err
	}
	var body struct {
		DisplayName *string   `json:"display_name"`
		AvatarColor *string   `json:"avatar_color"`
		Role        *string   `json:"role"`
		Groups      *[]string `json:"groups"`
		Username    *string   `json:"username"`
		LastDay     *string   `json:"last_day"` // YYYY-MM-DD; empty: no end
		Email       *string   `json:"email"`    // confirmed by it; empty: none
		Password    *string   `json:"password"`
	}
	if err := decode(c.Response(), c.Request(), &body); err != nil {
		return answer{}, err
	}
	if body.Password != nil {
		return answer{}, people.ErrResetLinkOnly
	}
	u, err := a.UpdateMember(c.Response(), c.Request(), s, id,
		people.MemberChange{
			DisplayName: body.DisplayName, AvatarColor: body.AvatarColor, Role: body.Role, Groups: body.Groups,
			Username: body.Username, LastDay: body.LastDay, Email: body.Email,
		})
	return userAnswer(http.StatusOK, u), err
}

// disableUser is POST /members/:id/disable.
func (a members) disableUser(c echo.Context, s web.Caller, id int64) (answer, error) {
	return dataOK, a.People.Disable(c.Request().Context(), s.Session, id)
}

// enableUser is POST /members/:id/enable.
func (a members) enableUser(c echo.Context, s web.Caller, id int64) (answer, error) {
	return dataOK, a.People.Enable(c.Request().Context(), s.Session, id)
}

// nameHousehold is PUT /household.
func (a members) nameHousehold(c echo.Context, s web.Caller, body struct {
	Name *string `json:"name"`
},
) (answer, error) {
	if body.Name == nil {
		return answer{}, account.ErrMissing
	}
	if err := a.People.NameHousehold(c.Request().Context(), s.UserID, *body.Name); err != nil {
		return answer{}, err
	}
	household, err := a.Accounts.Household(c.Request().Context())
	return data(map[string]string{"name": household.Name}), err
}

// createResetLink is POST /users/:id/reset-link.
func (a members) createResetLink(c echo.Context, s web.Caller, id int64) (answer, error) {
	l, token, err := a.People.ResetLink(c.Request().Context(), s.Session, id)
	if err != nil {
		return answer{}, err
	}
	type data struct {
		ExpiresAt string `json:"expires_at"`
		address
	}
	return answer{http.StatusCreated, struct {
		Data  data   `json:"data"`
		Token string `json:"token"`
	}{data{l.ExpiresAt.Format(time.RFC3339), a.addressOf(l.Kind, token)}, token}}, nil
}

// address is where a link leads. URL is empty without PUBLIC_URL: it is not made of Host, which
// the client sets.
type address struct {
	Path string `json:"path"`
	URL  string `json:"url,omitempty"`
}

func (a *api) addressOf(kind link.Kind, token string) address {
	at := address{Path: kind.Path(token)}
	if a.PublicURL != "" {
		at.URL = a.PublicURL + at.Path
	}
	return at
}

// listInvites is GET /invites.
func (a members) listInvites(c echo.Context, _ web.Caller) (answer, error) {
	links, err := a.People.Invites(c.Request().Context())
	if err != nil {
		return answer{}, err
	}
	invites := make([]inviteBody, len(links))
	for i, l := range links {
		invites[i] = a.inviteOf(l)
	}
	return data(map[string][]inviteBody{"invites": invites}), nil
}

type inviteBody struct {
	ID          int64    `json:"id"`
	Username    string   `json:"username"` // empty: the person chooses
	DisplayName string   `json:"display_name"`
	Role        string   `json:"role"`
	Groups      []string `json:"groups"`
	InvitedBy   string   `json:"invited_by"` // empty: the operator
	CreatedAt   string   `json:"created_at"`
	ExpiresAt   string   `json:"expires_at"`
	LastDay     string   `json:"last_day,omitempty"` // of a guest
}

func (a members) inviteOf(l link.Link) inviteBody {
	return inviteBody{
		ID: l.ID, Username: l.Username, DisplayName: l.DisplayName, Role: l.Role, Groups: list(l.Groups),
		InvitedBy: l.CreatorName,
		CreatedAt: l.CreatedAt.Format(time.RFC3339), ExpiresAt: l.ExpiresAt.Format(time.RFC3339),
		LastDay: a.People.LastDayOf(l),
	}
}

// createInvite is POST /invites.
func (a members) createInvite(c echo.Context, s web.Caller, body struct {
	Username    string   `json:"username"`
	DisplayName string   `json:"display_name"`
	Role        string   `json:"role"`
	SystemAdmin bool     `json:"system_admin"` // another way to say role admin
	Groups      []string `json:"groups"`
	Former      bool     `json:"former"`   // username may be that of a deleted user
	LastDay     string   `json:"last_day"` // of a guest, YYYY-MM-DD
},
) (answer, error) {
	if body.SystemAdmin {
		body.Role = string(user.Admin)
	}
	l, token, err := a.People.Invite(c.Request().Context(), s.Session, people.NewInvite{
		Username: body.Username, Former: body.Former, DisplayName: body.DisplayName, Role: body.Role,
		Groups: body.Groups, LastDay: body.LastDay,
	})
	if err != nil {
		return answer{}, err
	}
	type data struct {
		Invite    inviteBody `json:"invite"`
		EmailSent bool       `json:"email_sent"` // always false
		address
	}
	return answer{http.StatusCreated, struct {
		Data  data   `json:"data"`
		Token string `json:"token"`
	}{data{Invite: a.inviteOf(l), address: a.addressOf(l.Kind, token)}, token}}, nil
}

// revokeInvite is DELETE /invites/:id.
func (a members) revokeInvite(c echo.Context, s web.Caller, id int64) (answer, error) {
	return dataOK, a.People.RevokeInvite(c.Request().Context(), s.UserID, id)
}

// dataOK is the answer {"data": {"ok": true}}.
var dataOK = data(done.body)

// previewInvite is GET /invites/preview. It leaves the invite as it is, because messengers fetch
// links for previews.
func (a members) previewInvite(c echo.Context, _ web.Caller) (answer, error) {
	body := struct {
		Valid            bool   `json:"valid"`
		Username         string `json:"username"`
		DisplayName      string `json:"display_name"`
		PasswordRequired bool   `json:"password_required"`
	}{PasswordRequired: true}
	switch l, err := a.People.LinkOf(c.Request().Context(), link.Invite, c.QueryParam("token")); {
	case err == nil:
		body.Valid, body.Username, body.DisplayName = true, l.Username, l.DisplayName
	case !errors.Is(err, link.ErrInvalid):
		return answer{}, err
	}
	return data(body), nil
}

// acceptInvite is POST /invites/accept.
func (a members) acceptInvite(c echo.Context, _ web.Caller, body struct {
	Token       string `json:"token"`
	Password    string `json:"password"`
	Username    string `json:"username"`
	DisplayName string `json:"display_name"`
},
) (answer, error) {
	u, err := a.People.Join(c.Request().Context(), body.Token,
		people.NewMember{Username: body.Username, DisplayName: body.DisplayName, Password: body.Password})
	return dataAnswer(http.StatusCreated, struct {
		OK       bool   `json:"ok"`
		Username string `json:"username"`
	}{true, u.Username}), err
}

// setup is POST /setup. It is refused once there is a user.
func (a members) setup(c echo.Context, _ web.Caller, body struct {
	Code        string `json:"code"`
	Household   string `json:"household"`
	Username    string `json:"username"`
	DisplayName string `json:"display_name"`
	Password    string `json:"password"`
},
) (answer, error) {
	u, err := a.People.Setup(c.Request().Context(), body.Code,
		people.NewHousehold{
			Household: body.Household, Username: body.Username, DisplayName: body.DisplayName, Password: body.Password,
		})
	switch {
	case errors.Is(err, link.ErrUsed):
		return answer{}, user.ErrNotEmpty
	case errors.Is(err, link.ErrInvalid):
		return answer{}, web.ErrSetupCode
	case err != nil:
		return answer{}, err
	}
	return userAnswer(http.StatusCreated, u), nil
}

// forgotPassword is POST /forgot-password. The answer is the same for every name.
func (a members) forgotPassword(c echo.Context, _ web.Caller, body struct {
	Identifier string `json:"identifier"`
},
) (answer, error) {
	a.People.AskForReset(c.Request().Context(), body.Identifier)
	return dataOK, nil
}

// resetPassword is POST /reset-password.
func (a members) resetPassword(c echo.Context, _ web.Caller, body struct {
	Token    string `json:"token"`
	Password string `json:"password"`
},
) (answer, error) {
	return dataOK, a.People.ResetPasswordByLink(c.Request().Context(), body.Token, body.Password)
}
