package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// provider has the endpoints of the OpenID Connect provider but for the end of a session, which is a page. They are on
// the host of PUBLIC_URL.
type provider struct{ *api }

// maxOAuthForm bounds a form, in bytes.
const maxOAuthForm = 16 << 10

func (a provider) routes(e *echo.Echo) {
	routes := []struct {
		method, path string
		do           echo.HandlerFunc
	}{
		{http.MethodGet, web.OIDCDiscovery, a.discovery},
		{http.MethodGet, web.OIDCKeys, a.keySet},
		{http.MethodGet, web.OIDCAuthorize, a.authorize},
		{http.MethodPost, web.OIDCAuthorize, a.keep},
		{http.MethodPost, web.OIDCToken, a.token},
		{http.MethodOptions, web.OIDCToken, a.preflight},
		{http.MethodGet, web.OIDCUserInfo, a.userInfo},
		{http.MethodPost, web.OIDCUserInfo, a.userInfo},
		{http.MethodOptions, web.OIDCUserInfo, a.preflight},
		{http.MethodPost, web.OIDCRevoke, a.revoke},
		{http.MethodOptions, web.OIDCRevoke, a.preflight},
		{http.MethodPost, web.OIDCIntrospect, a.introspect},
		{http.MethodPost, web.OIDCPush, a.push},
		{http.MethodPost, web.OIDCDevice, a.device},
		{http.MethodGet, web.OAuthMetadata, a.discovery},
		{http.MethodGet, web.OIDCWebFinger, a.webFinger},
	}
	allowed := map[string][]string{}
	for _, r := range routes {
		allowed[r.path] = append(allowed[r.path], r.method)
	}
	for path, methods := range allowed { // else a program gets the page for paths that there are not
		wrong := a.requireProvider(func(c echo.Context) error {
			c.Response().Header().Set("Allow", strings.Join(methods, ", "))
			return writeJSON(c, http.StatusMethodNotAllowed, oauthError{"invalid_request", "wrong method"})
		})
		e.Any(path, wrong)
		e.RouteNotFound(path, wrong) // of methods that Any does not have
	}
	for _, r := range routes {
		e.Add(r.method, r.path, a.requireProvider(r.do))
	}
}

// requireProvider returns a handler that calls next. The handler returns service.ErrNoRoute where the provider is off,
// and at other hosts, and refuses a request while it cannot tell.
func (a provider) requireProvider(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !application.IsAt(a.PublicURL, c.Request().Host) {
			return service.ErrNoRoute
		}
		switch err := a.OIDC.Off(c.Request().Context()); {
		case oidc.IsOff(err):
			return service.ErrNoRoute
		case err != nil && c.Path() == web.OIDCAuthorize: // a person reads the answer
			return a.page(c, err)
		case err != nil:
			return a.refuse(c, err)
		}
		return next(c)
	}
}

// refuse answers an error in the form of RFC 6749, section 5.2.
func (a provider) refuse(c echo.Context, err error) error {
	f, h := web.OAuthFailureOf(err), c.Response().Header()
	switch f.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Basic realm="oidc"`)
	case http.StatusServiceUnavailable:
		a.Log.ErrorContext(c.Request().Context(), "a request of an application failed", "route", service.RouteLabel(c),
			"error", err)
		h.Set("Retry-After", "3")
	}
	return writeJSON(c, f.Status, oauthError{f.Word, f.Description})
}

// oauthError is the body of an error.
type oauthError struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

// allowAllOrigins permits pages of all origins to read an answer: it says nothing that depends on cookies.
func allowAllOrigins(c echo.Context) { c.Response().Header().Set("Access-Control-Allow-Origin", "*") }

// preflight is OPTIONS of endpoints that pages of all origins may call: it permits their requests.
func (a provider) preflight(c echo.Context) error {
	h := c.Response().Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	h.Set("Access-Control-Max-Age", "600")
	allowAllOrigins(c)
	return c.NoContent(http.StatusNoContent)
}

// published answers with body, which all may read and keep for five minutes, or with err. service.ErrNoRoute for
// oidc.ErrNoClient.
func (a provider) published(c echo.Context, body any, err error) error {
	if errors.Is(err, oidc.ErrNoClient) {
		return service.ErrNoRoute
	}
	if err != nil {
		return a.refuse(c, err)
	}
	allowAllOrigins(c)
	c.Response().Header().Set("Cache-Control", "public, max-age=300")
	return writeJSON(c, http.StatusOK, body)
}

// discovery is GET /pforte/.well-known/openid-configuration and /.well-known/oauth-authorization-server/pforte.
func (a provider) discovery(c echo.Context) error {
	metadata, err := a.OIDC.Metadata(c.Request().Context())
	return a.published(c, metadata, err)
}

// keySet is GET /pforte/oidc/jwks.
func (a provider) keySet(c echo.Context) error {
	keys, err := a.OIDC.KeySet(c.Request().Context())
	return a.published(c, struct {
		Keys []json.RawMessage `json:"keys"`
	}{keys}, err)
}

// authorize is GET /pforte/oidc/authorize, to which an application leads a browser. With the parameter r, the handle of
// a kept request, a page or a redirect of ours leads it there.
func (a provider) authorize(c echo.Context) error {
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return a.page(c, oidc.ErrRequest)
	}
	attempt := a.attempt(c, values)
	if handle := values.Get(web.OIDCHandleParam); handle != "" {
		attempt.Handle, attempt.Values = handle, nil
	}
	caller, err := a.Load(c.Response(), c.Request())
	switch {
	case err == nil:
		attempt.Session, attempt.User = &caller.Session, caller.User
		if err := a.Sessions.ResendStale(c.Response(), caller.Current); err != nil {
			return a.page(c, err)
		}
	case !errors.Is(err, session.ErrNotFound) && !errors.Is(err, user.ErrNotFound):
		return a.page(c, err)
	}
	c.SetRequest(a.As(c.Response(), c.Request(), caller))
	step, err := a.OIDC.Authorize(c.Request().Context(), attempt)
	a.Metrics.Authorized(step, err)
	if err != nil {
		return a.page(c, err)
	}
	if to := web.OIDCRedirect(step); to != "" {
		return c.Redirect(http.StatusSeeOther, to)
	}
	return a.SignInPage(c, web.OIDCPage{Step: step})
}

// attempt returns a browser's request for a login, without a session.
func (a provider) attempt(c echo.Context, values url.Values) oidc.Attempt {
	return oidc.Attempt{
		Values: values, IP: a.Client(c.Request()),
		Spend: func(context.Context) error {
			return a.CountSignIn(c.Response(), c.Request(), service.RouteLabel(c))
		},
	}
}

// page answers with a page that shows err, where the browser cannot be led back to the application.
func (a provider) page(c echo.Context, err error) error {
	return a.SignInPage(c, web.OIDCPage{Err: err})
}

// keep is POST /pforte/oidc/authorize. A form that another site's page sends comes without our cookies, so the request
// is kept, and the browser is redirected to authorize: with that request it sends them.
func (a provider) keep(c echo.Context) error {
	values, err := readOAuthForm(c)
	if err != nil {
		return a.page(c, oidc.ErrRequest)
	}
	handle, err := a.OIDC.Keep(c.Request().Context(), a.attempt(c, values))
	if err != nil {
		return a.page(c, err)
	}
	return c.Redirect(http.StatusSeeOther, web.OIDCResume(handle))
}

// readOAuthForm returns the fields of a form. The query is not read. oidc.ErrForm for another body, and where a field
// occurs twice; service.ErrBodyTooLarge, service.ErrBodyRead.
func readOAuthForm(c echo.Context) (url.Values, error) {
	kind, _, err := mime.ParseMediaType(c.Request().Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, oidc.ErrForm
	}
	body, err := service.ReadBody(c.Response(), c.Request(), maxOAuthForm)
	if err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, oidc.ErrForm
	}
	for _, each := range values {
		if len(each) != 1 {
			return nil, oidc.ErrForm
		}
	}
	return values, nil
}

// sent reads a form and returns it, with the client that sent it. It reads no cookies. Errors are those of
// readOAuthForm and, with the form, of oidc.Service.Authenticate.
func (a provider) sent(c echo.Context) (url.Values, oidc.Client, error) {
	c.SetRequest(a.As(c.Response(), c.Request(), web.Caller{}))
	form, err := readOAuthForm(c)
	if err != nil {
		return nil, oidc.Client{}, err
	}
	client, err := a.client(c, form)
	return form, client, err
}

// client returns the client that sent a form, by the credentials in Authorization or the form.
func (a provider) client(c echo.Context, form url.Values) (oidc.Client, error) {
	by := oidc.Credentials{ID: form.Get("client_id"), Secret: form.Get("client_secret"), IP: a.Client(c.Request())}
	if id, secret, ok := c.Request().BasicAuth(); ok {
		var idErr, secretErr error
		by.Basic = true
		by.BasicID, idErr = url.QueryUnescape(id) // RFC 6749, section 2.3.1
		by.BasicSecret, secretErr = url.QueryUnescape(secret)
		if idErr != nil || secretErr != nil {
			return oidc.Client{}, oidc.ErrClient
		}
	} else if c.Request().Header.Get("Authorization") != "" {
		return oidc.Client{}, oidc.ErrClient
	}
	return a.OIDC.Authenticate(c.Request().Context(), by)
}

// token is POST /pforte/oidc/token. It never looks at cookies.
func (a provider) token(c echo.Context) error {
	allowAllOrigins(c)
	form, client, err := a.sent(c)
	var tokens oidc.Tokens
	if err == nil {
		tokens, err = a.grant(c, client, form)
	}
	a.Metrics.Exchanged(form.Get("grant_type"), err)
	if err != nil {
		return a.refuse(c, err)
	}
	c.Response().Header().Set("Pragma", "no-cache")
	return writeJSON(c, http.StatusOK, struct {
		Access  string `json:"access_token"`
		Type    string `json:"token_type"`
		Expires int    `json:"expires_in"`
		Refresh string `json:"refresh_token,omitempty"`
		ID      string `json:"id_token"`
		Scope   string `json:"scope"`
	}{
		tokens.Access, "Bearer", int(tokens.Life.Seconds()), tokens.Refresh, tokens.ID,
		strings.Join(tokens.Scopes, " "),
	})
}

// grant returns the tokens that a client's form asks for.
func (a provider) grant(c echo.Context, client oidc.Client, form url.Values) (oidc.Tokens, error) {
	ctx, ip := c.Request().Context(), a.Client(c.Request())
	switch form.Get("grant_type") {
	case "authorization_code":
		return a.OIDC.Exchange(ctx, client, form.Get("code"), form.Get("redirect_uri"), form.Get("code_verifier"), ip)
	case "refresh_token":
		return a.OIDC.Refresh(ctx, client, form.Get("refresh_token"), form.Get("scope"), ip)
	case oidc.GrantDevice:
		return a.OIDC.ExchangeDevice(ctx, client, form.Get("device_code"), ip)
	default:
		return oidc.Tokens{}, oidc.ErrGrantType
	}
}

// push is POST /pforte/oidc/par (RFC 9126).
func (a provider) push(c echo.Context) error {
	form, client, err := a.sent(c)
	if err == nil && client.Public { // anyone can say that they are it
		err = a.CountSignIn(c.Response(), c.Request(), service.RouteLabel(c))
	}
	var uri string
	if err == nil {
		uri, err = a.OIDC.Push(c.Request().Context(), client, form, a.Client(c.Request()))
	}
	if err != nil {
		return a.refuse(c, err)
	}
	return writeJSON(c, http.StatusCreated, struct {
		URI     string `json:"request_uri"`
		Expires int    `json:"expires_in"`
	}{uri, int(oidc.PushedLifetime.Seconds())})
}

// webFinger is GET /.well-known/webfinger (RFC 7033; OpenID Connect Discovery, section 2). It answers alike for each
// name at this host, so that nobody learns which users there are.
func (a provider) webFinger(c echo.Context) error {
	resource := c.QueryParam("resource")
	if resource == "" {
		return a.refuse(c, oidc.ErrForm)
	}
	rest, isAccount := strings.CutPrefix(resource, "acct:")
	at := strings.LastIndexByte(rest, '@')
	if !isAccount || at < 1 || !application.IsAt(a.PublicURL, rest[at+1:]) || len(resource) > maxResource {
		return service.ErrNoRoute
	}
	if _, err := a.OIDC.Metadata(c.Request().Context()); err != nil {
		return a.published(c, nil, err)
	}
	type link struct {
		Rel  string `json:"rel"`
		Href string `json:"href"`
	}
	body := struct {
		Subject string `json:"subject"`
		Links   []link `json:"links"`
	}{resource, []link{{"http://openid.net/specs/connect/1.0/issuer", a.OIDC.Issuer()}}}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	allowAllOrigins(c)
	return c.Blob(http.StatusOK, "application/jrd+json", data)
}

// maxResource bounds what WebFinger is asked about, in bytes.
const maxResource = 512

// userInfo is GET and POST /pforte/oidc/userinfo (RFC 6750).
func (a provider) userInfo(c echo.Context) error {
	allowAllOrigins(c)
	token, err := presentedToken(c)
	var claims map[string]any
	if err == nil {
		claims, err = a.OIDC.UserInfo(c.Request().Context(), token)
	}
	if errors.Is(err, oidc.ErrGrantEnded) {
		err = oidc.ErrNoAccess
	}
	a.Metrics.UserInfo(err)
	if f := web.OAuthFailureOf(err); err != nil && f.Status == http.StatusUnauthorized {
		c.Response().Header().Set("WWW-Authenticate", `Bearer realm="oidc", error=`+strconv.Quote(f.Word)+
			`, error_description=`+strconv.Quote(f.Description))
		return writeJSON(c, f.Status, oauthError{f.Word, f.Description})
	}
	if err != nil {
		return a.refuse(c, err)
	}
	return writeJSON(c, http.StatusOK, claims)
}

// presentedToken returns the access token of a request: of Authorization or, without that, of the form of a POST.
func presentedToken(c echo.Context) (string, error) {
	if header := c.Request().Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", oidc.ErrNoAccess
		}
		return strings.TrimSpace(token), nil
	}
	if c.Request().Method != http.MethodPost {
		return "", oidc.ErrNoAccess
	}
	form, err := readOAuthForm(c)
	if err != nil {
		return "", err
	}
	return form.Get("access_token"), nil
}
