package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// signIns has the handlers of applications that have users log in by OpenID Connect, and of who is logged in there.
type signIns struct{ *api }

// clientBody is a client as admins see it.
type clientBody struct {
	Issuer      string          `json:"issuer"`
	ClientID    string          `json:"client_id"`
	Public      bool            `json:"public"`
	Alg         oidc.Alg        `json:"alg"`
	PKCE        oidc.PKCE       `json:"pkce"`
	Groups      oidc.GroupClaim `json:"groups"`
	Email       bool            `json:"email"`
	Offline     bool            `json:"offline"`
	Ask         bool            `json:"ask"`
	Device      bool            `json:"device"`
	Redirects   []string        `json:"redirects"`
	AfterLogout []string        `json:"after_logout"`
	LogoutURI   string          `json:"logout_uri"`
	Secrets     []secretBody    `json:"secrets"`
	Refused     []refusalBody   `json:"refused"`
}

// secretBody is a secret of a client, without the secret.
type secretBody struct {
	ID         int64   `json:"id"`
	Hint       string  `json:"hint"`
	CreatedAt  string  `json:"created_at"`
	LastUsedAt *string `json:"last_used_at"`
}

// refusalBody is a request of a client that was refused.
type refusalBody struct {
	At      string `json:"at"`
	Reason  string `json:"reason"`
	Address string `json:"address"`
	IP      string `json:"ip"`
}

// answer returns the answer with a client as stored now.
func (a signIns) answer(c echo.Context) (answer, error) {
	ctx := c.Request().Context()
	client, err := a.OIDC.Client(ctx, c.Param("slug"))
	if err != nil {
		return answer{}, err
	}
	refusals, err := a.OIDC.Refusals(ctx, client)
	if err != nil {
		return answer{}, err
	}
	body := clientBody{
		a.OIDC.Issuer(), client.ID, client.Public, client.Alg, client.PKCE, client.Groups, client.Email, client.Offline,
		client.Ask, client.Device, list(client.Redirects), list(client.AfterLogout), client.LogoutURI,
		[]secretBody{},
		[]refusalBody{},
	}
	for _, s := range client.Secrets {
		body.Secrets = append(body.Secrets, secretBody{
			s.ID, s.Hint, s.CreatedAt.Format(time.RFC3339), orNull(s.LastUsedAt),
		})
	}
	for _, r := range refusals {
		body.Refused = append(body.Refused, refusalBody{r.At.Format(time.RFC3339), r.Reason, r.Address, r.IP})
	}
	return data(body), nil
}

// client is GET /apps/:slug/oidc.
func (a signIns) client(c echo.Context, _ web.Caller) (answer, error) { return a.answer(c) }

// setClient is PUT /apps/:slug/oidc. Where the application is a client it changes the fields that the body has. Else it
// makes the application a client, and answers with the secret, which is shown this once; a public client has none.
func (a signIns) setClient(c echo.Context, s web.Caller, body struct {
	ClientID    *string          `json:"client_id"`
	Public      *bool            `json:"public"`
	Alg         *oidc.Alg        `json:"alg"`
	PKCE        *oidc.PKCE       `json:"pkce"`
	Groups      *oidc.GroupClaim `json:"groups"`
	Email       *bool            `json:"email"`
	Offline     *bool            `json:"offline"`
	Ask         *bool            `json:"ask"`
	Device      *bool            `json:"device"`
	Redirects   *[]string        `json:"redirects"`
	AfterLogout *[]string        `json:"after_logout"`
	LogoutURI   *string          `json:"logout_uri"`
},
) (answer, error) {
	change := func(client *oidc.Client) error {
		replace(&client.ID, body.ClientID)
		replace(&client.Public, body.Public)
		replace(&client.Alg, body.Alg)
		replace(&client.PKCE, body.PKCE)
		replace(&client.Groups, body.Groups)
		replace(&client.Email, body.Email)
		replace(&client.Offline, body.Offline)
		replace(&client.Ask, body.Ask)
		replace(&client.Device, body.Device)
		replace(&client.Redirects, body.Redirects)
		replace(&client.AfterLogout, body.AfterLogout)
		replace(&client.LogoutURI, body.LogoutURI)
		return nil
	}
	ctx, slug := c.Request().Context(), c.Param("slug")
	if _, err := a.Policy.Application(ctx, slug); err != nil {
		return answer{}, err
	}
	switch err := a.OIDC.Change(ctx, s.Session, slug, change); {
	case err == nil:
		return a.answer(c)
	case !errors.Is(err, oidc.ErrNoClient):
		return answer{}, err
	}
	client := oidc.Client{Slug: slug, Email: true}
	_ = change(&client)
	secret, err := a.OIDC.Create(ctx, s.Session, client)
	return a.secret(slug, secret), err
}

func replace[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// secret returns the answer with a secret, which is shown this once.
func (a signIns) secret(slug, secret string) answer {
	return dataAnswer(http.StatusCreated, struct {
		Slug   string `json:"slug"`
		Issuer string `json:"issuer"`
		Secret string `json:"secret"` // empty: the client is public
	}{slug, a.OIDC.Issuer(), secret})
}

// removeClient is DELETE /apps/:slug/oidc.
func (a signIns) removeClient(c echo.Context, s web.Caller) (answer, error) {
	return done, a.OIDC.Remove(c.Request().Context(), s.Session, c.Param("slug"))
}

// addSecret is POST /apps/:slug/oidc/secrets.
func (a signIns) addSecret(c echo.Context, s web.Caller) (answer, error) {
	secret, err := a.OIDC.AddSecret(c.Request().Context(), s.Session, c.Param("slug"))
	return a.secret(c.Param("slug"), secret), err
}

// removeSecret is DELETE /apps/:slug/oidc/secrets/:id.
func (a signIns) removeSecret(c echo.Context, s web.Caller, id int64) (answer, error) {
	return done, a.OIDC.RemoveSecret(c.Request().Context(), s.Session, c.Param("slug"), id)
}

// preview is GET /apps/:slug/oidc/preview?user=NAME.
func (a signIns) preview(c echo.Context, _ web.Caller) (answer, error) {
	claims, err := a.OIDC.Preview(c.Request().Context(), c.Param("slug"), c.QueryParam("user"))
	if claims == nil {
		return answer{}, err
	}
	body := struct {
		Claims  map[string]any `json:"claims"`
		Refused string         `json:"refused"` // why the user would not be logged in; empty: they would
	}{claims, ""}
	switch {
	case errors.Is(err, oidc.ErrNotAdmitted):
		body.Refused = "app_denied"
	case err != nil:
		body.Refused = "second_factor_needed"
	}
	return data(body), nil
}

// grantBody is a grant, a user's login at an application, as the user and admins see it.
type grantBody struct {
	ID         string   `json:"id"`
	App        string   `json:"app"`
	Name       string   `json:"name"`
	Username   string   `json:"username"`
	Scopes     []string `json:"scopes"`
	Offline    bool     `json:"offline"`
	CreatedAt  string   `json:"created_at"`
	LastUsedAt string   `json:"last_used_at"`
}

// listGrants is GET /grants: those of the caller, or with all=true, for admins, of everybody.
func (a signIns) listGrants(c echo.Context, s web.Caller) (answer, error) {
	of := s.UserID
	if c.QueryParam("all") == "true" {
		if err := a.CheckAdmin(c.Response(), c.Request(), s); err != nil {
			return answer{}, err
		}
		of = user.Operator
	}
	connections, err := a.OIDC.Connections(c.Request().Context(), of, 0)
	return dataOf(connections, err, func(one oidc.Connection) grantBody {
		return grantBody{
			one.ID, one.Slug, one.Name, one.Username, list(one.Scopes), one.Offline, one.CreatedAt.Format(time.RFC3339),
			one.LastUsedAt.Format(time.RFC3339),
		}
	})
}

// endGrant is DELETE /grants/:id.
func (a signIns) endGrant(c echo.Context, s web.Caller) (answer, error) {
	return done, a.OIDC.Disconnect(c.Request().Context(), s.UserID, c.Param("id"))
}

// takeIssuer is PUT /oidc/issuer: the issuer becomes that of PUBLIC_URL.
func (a signIns) takeIssuer(c echo.Context, s web.Caller) (answer, error) {
	return done, a.OIDC.TakeIssuer(c.Request().Context(), s.Session)
}
