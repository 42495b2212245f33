package oidc

import "errors"

// Why there is no provider. ErrNoDataKey is another reason.
var (
	ErrNoPublicURL = errors.New("PUBLIC_URL is not set")
	ErrNoPages     = errors.New("there are no pages, or the earlier variant is served")
	// ErrIssuerChanged: PUBLIC_URL makes another issuer than the one that is written down.
	ErrIssuerChanged = errors.New("PUBLIC_URL has changed, and applications know users by the former one")
)

// IsOff reports whether an error says that there is no provider.
func IsOff(err error) bool {
	return errors.Is(err, ErrNoDataKey) || errors.Is(err, ErrNoPublicURL) || errors.Is(err, ErrNoPages) ||
		errors.Is(err, ErrIssuerChanged)
}

// Errors of a request for a login that are shown on a page, because it is not known where to lead back to. Push returns
// some of them.
var (
	ErrRequest        = errors.New("request is too long, or has a parameter twice")
	ErrUnknownClient  = errors.New("unknown client")
	ErrUnknownAddress = errors.New("redirect_uri is not entered")
	ErrRequestGone    = errors.New("request is unknown or has expired")
)

// Errors of a request for a login with which the browser is led back. Push and the functions for devices return some of
// them.
var (
	ErrResponseType    = errors.New("response_type is not code")
	ErrResponseMode    = errors.New("response_mode is neither query nor form_post")
	ErrRequestObject   = errors.New("request objects are not supported")
	ErrRequestURI      = errors.New("request_uri is not supported")
	ErrRegistration    = errors.New("registration is not supported")
	ErrScope           = errors.New("scope openid is missing")
	ErrPKCERequired    = errors.New("code_challenge is required")
	ErrPKCE            = errors.New("code_challenge is not of 43 characters with code_challenge_method S256")
	ErrParameter       = errors.New("state, nonce or max_age is malformed or too long")
	ErrLoginRequired   = errors.New("user is not logged in")
	ErrReauth          = errors.New("user has to log in again")
	ErrConsentRequired = errors.New("user has to be asked")
	ErrInteraction     = errors.New("user has to choose")
	ErrDenied          = errors.New("user may not use the application, or does not want to")
)

// Errors of requests that a client itself sends.
var (
	ErrForm        = errors.New("request is no form, or has a parameter twice")
	ErrGrantType   = errors.New("grant_type is not supported")
	ErrClient      = errors.New("client or its secret is unknown")
	ErrIDs         = errors.New("client_id in header and form differ")
	ErrCodeMissing = errors.New("code is missing")
	ErrCodeUsed    = errors.New("code is unknown, used or has expired")
	ErrCodeClient  = errors.New("code is another client's")
	ErrCodeAddress = errors.New("redirect_uri is not that of the authorization request")
	ErrVerifier    = errors.New("code_verifier is missing or does not match code_challenge")
	ErrNoChallenge = errors.New("code_verifier without code_challenge in the authorization request")
	ErrRefresh     = errors.New("refresh token is malformed or another client's")
	ErrRefreshUsed = errors.New("refresh token was used before")
	ErrWider       = errors.New("scope is wider than that of the login")
	ErrNoAccess    = errors.New("access token is unknown or has expired")
)
