package web

import (
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/oidc"
)

// Paths of the OpenID Connect provider and its pages, and parameters of their queries. The issuer is PUBLIC_URL and
// OIDCRoot.
const (
	OIDCRoot          = "/pforte"
	OIDCDiscovery     = "/pforte/.well-known/openid-configuration"
	OIDCKeys          = "/pforte/oidc/jwks"
	OIDCAuthorize     = "/pforte/oidc/authorize"
	OIDCToken         = "/pforte/oidc/token" //nolint:gosec // a path
	OIDCUserInfo      = "/pforte/oidc/userinfo"
	OIDCEndSession    = "/pforte/oidc/end-session"
	OIDCRevoke        = "/pforte/oidc/revoke"
	OIDCIntrospect    = "/pforte/oidc/introspect"
	OIDCPush          = "/pforte/oidc/par"
	OIDCDevice        = "/pforte/oidc/device"
	OIDCDevicePage    = "/pforte/device"
	OIDCContinuePage  = "/pforte/continue" // where the user is asked before they are led on
	OAuthMetadata     = "/.well-known/oauth-authorization-server/pforte"
	OIDCWebFinger     = "/.well-known/webfinger"
	OIDCHandleParam   = "r"
	OIDCUserCodeParam = "user_code"
)

// OIDCPage is what a person is shown instead of being redirected: an error that does not lead back, or a step.
type OIDCPage struct {
	// Err is oidc.ErrRequest, ErrUnknownClient, ErrUnknownAddress or ErrRequestGone; any other as on all pages; nil:
	// Step is shown.
	Err error
	// Step is of the kind NoAccess or NoFactor; or Back, where the browser goes on by a form, or to a program's own
	// scheme.
	Step oidc.Step
}

// OAuthFailure is the answer to an error of the provider in the words of OAuth and OpenID Connect, such as those of
// RFC 6749, section 5.2, which clients match.
type OAuthFailure struct {
	Err    error
	Status int
	Word   string // the value of OAuth's parameter error
	// Description says what is wrong, in ASCII and in English; never whether a user exists.
	Description string
}

// Sentinel implements service.Failure.
func (f OAuthFailure) Sentinel() error { return f.Err }

// Some of the words, which are values of metrics too.
const (
	invalidRequest = "invalid_request"
	invalidGrant   = "invalid_grant"
	invalidClient  = "invalid_client"
	invalidToken   = "invalid_token"
	unavailable    = "temporarily_unavailable"
)

// oauthFailures are the answers to errors of the provider. Every other error is taken for one of a store, and
// answered by away: a client that is told invalid_grant would throw its token away, though the store might have known
// it.
var oauthFailures = []OAuthFailure{
	{oidc.ErrResponseType, http.StatusBadRequest, "unsupported_response_type", "response_type has to be code"},
	{oidc.ErrResponseMode, http.StatusBadRequest, invalidRequest, "response_mode has to be query or form_post"},
	{oidc.ErrRequestObject, http.StatusBadRequest, "request_not_supported", "request objects are not supported"},
	{oidc.ErrRequestURI, http.StatusBadRequest, "request_uri_not_supported", "only a request_uri from here is known"},
	{oidc.ErrRegistration, http.StatusBadRequest, "registration_not_supported", "clients are entered by an admin"},
	{oidc.ErrScope, http.StatusBadRequest, "invalid_scope", "scope has to contain openid"},
	{oidc.ErrPKCERequired, http.StatusBadRequest, invalidRequest, "code_challenge is required (PKCE, S256)"},
	{
		oidc.ErrPKCE, http.StatusBadRequest, invalidRequest,
		"code_challenge has to have 43 characters, and code_challenge_method to be S256",
	},
	{oidc.ErrParameter, http.StatusBadRequest, invalidRequest, "prompt or max_age is malformed"},
	{oidc.ErrLoginRequired, http.StatusBadRequest, "login_required", "the user is not logged in"},
	{oidc.ErrReauth, http.StatusBadRequest, "login_required", "the user has to prove anew who they are"},
	{oidc.ErrConsentRequired, http.StatusBadRequest, "consent_required", "the user has to be asked"},
	{oidc.ErrInteraction, http.StatusBadRequest, "interaction_required", "the user has to choose an account"},
	{oidc.ErrDenied, http.StatusBadRequest, "access_denied", "the user may not use this application, or declined"},
	{oidc.ErrRequest, http.StatusBadRequest, invalidRequest, "the request is too long, or has a parameter twice"},
	{oidc.ErrUnknownAddress, http.StatusBadRequest, invalidRequest, "redirect_uri is not entered for this client"},
	{oidc.ErrForm, http.StatusBadRequest, invalidRequest, "a form is needed, with each parameter once"},
	{service.ErrBodyTooLarge, http.StatusRequestEntityTooLarge, invalidRequest, "the form is too large"},
	{service.ErrBodyRead, http.StatusBadRequest, invalidRequest, "the form could not be read to its end"},
	{oidc.ErrGrantType, http.StatusBadRequest, "unsupported_grant_type", "this grant_type is not supported"},
	{oidc.ErrClient, http.StatusUnauthorized, invalidClient, "the client or its secret is not known here"},
	{oidc.ErrIDs, http.StatusUnauthorized, invalidClient, "client_id or client_secret differ in header and form"},
	{oidc.ErrCodeMissing, http.StatusBadRequest, invalidRequest, "code is missing"},
	{oidc.ErrCodeUsed, http.StatusBadRequest, invalidGrant, "the code is unknown, was used or has expired"},
	{oidc.ErrCodeClient, http.StatusBadRequest, invalidGrant, "the code is another client's"},
	{
		oidc.ErrCodeAddress, http.StatusBadRequest, invalidGrant,
		"redirect_uri is not that of the authorization request",
	},
	{oidc.ErrVerifier, http.StatusBadRequest, invalidGrant, "code_verifier is missing or does not match"},
	{
		oidc.ErrNoChallenge, http.StatusBadRequest, invalidGrant,
		"code_verifier, but the authorization request had no code_challenge",
	},
	{oidc.ErrNotAdmitted, http.StatusBadRequest, invalidGrant, "the login does not hold any more"},
	{oidc.ErrGrantEnded, http.StatusBadRequest, invalidGrant, "the login does not hold any more"},
	{oidc.ErrRefresh, http.StatusBadRequest, invalidGrant, "the refresh token is not one of this client"},
	{oidc.ErrRefreshUsed, http.StatusBadRequest, invalidGrant, "the refresh token was used before"},
	{oidc.ErrWider, http.StatusBadRequest, "invalid_scope", "scope is wider than that of the login"},
	{oidc.ErrDeviceOff, http.StatusBadRequest, "unauthorized_client", "an admin has not switched codes of devices on"},
	{oidc.ErrPending, http.StatusBadRequest, "authorization_pending", "the user has not answered yet"},
	{oidc.ErrSlowDown, http.StatusBadRequest, "slow_down", "wait 5 seconds longer between two questions"},
	{oidc.ErrNoDevice, http.StatusBadRequest, "expired_token", "the code is unknown, was used or has expired"},
	{oidc.ErrNoAccess, http.StatusUnauthorized, invalidToken, "the access token is unknown or has expired"},
	{ErrForeignPage, http.StatusForbidden, invalidRequest, "the request comes from a page of another site"},
	{ErrLimited, http.StatusTooManyRequests, unavailable, "too many requests from this address"},
}

// away is the answer to errors that are not in oauthFailures.
var away = OAuthFailure{
	Status: http.StatusServiceUnavailable, Word: unavailable, Description: "try again in a moment",
}

// OAuthFailureOf returns the answer to an error.
func OAuthFailureOf(err error) OAuthFailure { return service.Find(oauthFailures, err, away) }

// OIDCAnswer returns what leads a browser back to an application, with the words of the error if there is one.
func OIDCAnswer(step oidc.Step) oidc.Answer {
	answer := step.Answer
	if step.Err != nil {
		f := OAuthFailureOf(step.Err)
		answer.Values = maps.Clone(answer.Values)
		answer.Values.Set("error", f.Word)
		answer.Values.Set("error_description", f.Description)
	}
	return answer
}

// OIDCResume returns the path at which a kept request for a login goes on.
func OIDCResume(handle string) string {
	return OIDCAuthorize + "?" + url.Values{OIDCHandleParam: {handle}}.Encode()
}

// OIDCRedirect returns where a step redirects a browser; "": it is shown a page.
func OIDCRedirect(step oidc.Step) string {
	switch step.Kind {
	case oidc.ToLogin:
		query := url.Values{"return": {OIDCResume(step.Handle)}}
		if step.LoginHint != "" {
			query.Set("name", step.LoginHint)
		}
		return "/pforte/login?" + query.Encode()
	case oidc.ToReauth:
		return "/pforte/reauth?" + url.Values{"return": {OIDCResume(step.Handle)}}.Encode()
	case oidc.ToAsk, oidc.ToChoose:
		return OIDCContinuePage + "?" + url.Values{OIDCHandleParam: {step.Handle}}.Encode()
	case oidc.Back:
		if answer := OIDCAnswer(step); !answer.Form && !oidc.IsOwnScheme(answer.To) {
			return answer.URL()
		}
	}
	return ""
}

// CountSignIn counts a request for a login at an application, or on a device, that is to be kept. ErrLimited,
// ErrForeignPage.
func (w *Web) CountSignIn(rw http.ResponseWriter, r *http.Request, route string) error {
	if err := w.CheckPart(rw, r); err != nil {
		return err
	}
	return w.counted(rw, r, route, LimitSignIn, w.SignInLimit)
}

// SignInAttempts and SignInWindow limit the requests of an address that CountSignIn counts.
const (
	SignInAttempts = 30
	SignInWindow   = time.Minute
)
