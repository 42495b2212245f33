package web

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/access"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/token"
)

// Metrics counts requests and their results. No label value comes from a client.
type Metrics struct {
	Requests  *service.HTTPMetrics
	logins    *prometheus.CounterVec
	decisions *prometheus.CounterVec
	second    *prometheus.CounterVec
	reauths   *prometheus.CounterVec
	guard     *prometheus.CounterVec
	tokens    *prometheus.CounterVec

	authorizations, exchanges, userInfos *prometheus.CounterVec // of the OpenID Connect provider
}

// NewMetrics registers the metrics and returns them.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	requests, err := service.NewHTTPMetrics(r, "auth",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5})
	if err != nil {
		return nil, err
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		Requests: requests,
		logins: counter("auth_logins_total", "Login attempts, by outcome: success, second_factor (a second step "+
			"follows), invalid_credentials, closed, bad_request, busy, error.", "outcome"),
		decisions: counter("auth_limiter_decisions_total", "Decisions of the limit of failed attempts, by limit "+
			"(login, password, link, passkey, signin) and decision: taken, given_back, refused, error.",
			"limit", "decision"),
		second: counter("auth_second_factors_total", "Second steps of logins, by method (totp, recovery, passkey) "+
			"and outcome: success, invalid, limited, no_login, error.", "method", "outcome"),
		reauths: counter("auth_reauthentications_total", "Users who proved again who they are, by outcome: success, "+
			"invalid, limited, error.", "outcome"),
		guard: counter("auth_guard_decisions_total", "Decisions about requests to applications, by reason: passed, "+
			"those of refusals (not_logged_in, app_denied, …), limited, error.", "reason"),
		tokens: counter("auth_app_token_uses_total", "App tokens that requests to applications presented, by outcome: "+
			"right (which does not mean that the request passed), invalid, limited, error.", "outcome"),
		authorizations: counter("auth_oidc_authorizations_total", "Requests for logins at applications, by result: "+
			"code, interrupted (the user has to log in, prove or answer something), refused (by a page), or the error "+
			"that leads back.", "result"),
		exchanges: counter("auth_oidc_tokens_total", "Requests of applications for tokens, by grant "+
			"(authorization_code, refresh_token, device_code, other) and result: ok, or the error.", "grant", "result"),
		userInfos: counter("auth_oidc_userinfo_total", "Questions of applications about a user, by result: ok, or the "+
			"error.", "result"),
	}
	for _, result := range []string{"code", "interrupted", "refused", "access_denied", "login_required", unavailable} {
		m.authorizations.WithLabelValues(result)
	}
	for _, result := range []string{"ok", invalidToken, unavailable} {
		m.userInfos.WithLabelValues(result)
	}
	for _, grant := range []string{"authorization_code", "refresh_token"} {
		for _, result := range []string{"ok", invalidGrant, invalidClient, invalidRequest, unavailable} {
			m.exchanges.WithLabelValues(grant, result)
		}
	}
	for _, reason := range guardReasons {
		m.guard.WithLabelValues(string(reason))
	}
	for _, outcome := range []string{"right", "invalid", "limited", "error"} {
		m.tokens.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"success", "invalid", "limited", "error"} {
		m.reauths.WithLabelValues(outcome)
		for _, method := range []string{"totp", "recovery", "passkey"} {
			m.second.WithLabelValues(method, outcome)
		}
	}
	for _, outcome := range loginOutcomes {
		m.logins.WithLabelValues(outcome)
	}
	for _, limit := range []string{LimitLogin, LimitPassword, LimitLink, LimitPasskey, LimitSignIn} {
		for _, decision := range []string{decisionTaken, decisionRefunded, decisionRefused, decisionError} {
			m.decisions.WithLabelValues(limit, decision)
		}
	}
	return m, service.Register(r, m.logins, m.decisions, m.second, m.reauths, m.guard, m.tokens,
		m.authorizations, m.exchanges, m.userInfos)
}

// The limits and their decisions. An attempt that is taken and not refunded failed, could not be refunded, or counts
// whatever its answer (Counted, CountedPasskey, CountSignIn).
const (
	LimitLogin       = "login"
	LimitPassword    = "password"
	LimitLink        = "link"
	LimitPasskey     = "passkey"
	LimitSignIn      = "signin"
	decisionTaken    = "taken"
	decisionRefunded = "given_back"
	decisionRefused  = "refused"
	decisionError    = "error"
)

func (m *Metrics) decided(limit, decision string) {
	m.decisions.WithLabelValues(limit, decision).Inc()
}

func (m *Metrics) secondFactor(method string, err error) {
	outcome := provedOutcome(err)
	if errors.Is(err, account.ErrNoPendingLogin) {
		outcome = "no_login"
	}
	if method == "" {
		return // no code was looked at
	}
	m.second.WithLabelValues(method, outcome).Inc()
}

// Reasons of decisions of the guard beside those of access.
const (
	GuardPassed  access.Reason = "passed"
	GuardLimited access.Reason = "limited"
	GuardFailed  access.Reason = "error"
)

// guardReasons are initialized to zero, so that the first of a kind is an increase.
var guardReasons = []access.Reason{
	GuardPassed, GuardLimited, GuardFailed, access.Forwarded, access.UnknownApp, access.NotLoggedIn,
	access.AppTokenInvalid, access.AppDenied,
	access.SecondFactorNeeded, access.ReadOnly, access.ForeignPage,
}

// Guarded counts a decision about a request to an application.
func (m *Metrics) Guarded(reason access.Reason) { m.guard.WithLabelValues(string(reason)).Inc() }

// TokenUsed counts a look-up of an app token, by its error.
func (m *Metrics) TokenUsed(err error) {
	outcome := "error"
	switch {
	case err == nil:
		outcome = "right"
	case errors.Is(err, token.ErrInvalid):
		outcome = "invalid"
	case errors.Is(err, policy.ErrTooManyTokens):
		outcome = "limited"
	}
	m.tokens.WithLabelValues(outcome).Inc()
}

// Authorized counts a request for a login at an application, by its result.
func (m *Metrics) Authorized(step oidc.Step, err error) {
	result := "interrupted"
	switch {
	case errors.Is(err, oidc.ErrRequest), errors.Is(err, oidc.ErrUnknownClient), errors.Is(err, oidc.ErrUnknownAddress),
		errors.Is(err, oidc.ErrRequestGone):
		result = "refused"
	case err != nil:
		result = OAuthFailureOf(err).Word
	case step.Err != nil:
		result = OAuthFailureOf(step.Err).Word
	case step.Kind == oidc.Back:
		result = "code"
	}
	m.authorizations.WithLabelValues(result).Inc()
}

// Exchanged counts a request for tokens of a grant_type.
func (m *Metrics) Exchanged(grant string, err error) {
	switch grant {
	case "authorization_code", "refresh_token":
	case oidc.GrantDevice:
		grant = "device_code"
	default:
		grant = "other"
	}
	m.exchanges.WithLabelValues(grant, oauthResult(err)).Inc()
}

// UserInfo counts a question about a user.
func (m *Metrics) UserInfo(err error) { m.userInfos.WithLabelValues(oauthResult(err)).Inc() }

func oauthResult(err error) string {
	if err == nil {
		return "ok"
	}
	return OAuthFailureOf(err).Word
}

func (m *Metrics) reauth(err error) { m.reauths.WithLabelValues(provedOutcome(err)).Inc() }

func provedOutcome(err error) string {
	switch {
	case err == nil:
		return "success"
	case errors.Is(err, factor.ErrInvalidCode), errors.Is(err, factor.ErrPasskeyFailed),
		errors.Is(err, account.ErrReauthPassword):
		return "invalid"
	case errors.Is(err, account.ErrTooManyCodes), errors.Is(err, account.ErrTooManyTries):
		return "limited"
	default:
		return "error"
	}
}

// loginOutcomes are initialized to zero, so that the first of a kind is an increase.
var loginOutcomes = []string{
	"success", "second_factor", "invalid_credentials", "closed", "bad_request", "busy", "error",
}

func (m *Metrics) login(pending bool, err error) {
	outcome := "error"
	switch {
	case pending:
		outcome = "second_factor"
	case err == nil:
		outcome = "success"
	case errors.Is(err, account.ErrInvalidCredentials), errors.Is(err, factor.ErrPasskeyFailed):
		outcome = "invalid_credentials"
	case errors.Is(err, account.ErrClosed):
		outcome = "closed"
	case errors.Is(err, account.ErrMissing), errors.Is(err, account.ErrTooLong),
		errors.Is(err, factor.ErrPasskeysUnavailable):
		outcome = "bad_request"
	case errors.Is(err, password.ErrBusy):
		outcome = "busy"
	}
	m.logins.WithLabelValues(outcome).Inc()
}
