package pages

import (
	"errors"
	"net/http"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

var errAgain = errors.New("the two passwords differ")

// failure is what a page shows for an error.
type failure struct {
	err    error
	status int
	text   string // its key
	field  string // the field of the form that is wrong; empty: none
	again  bool   // the form is shown again
}

// Sentinel implements service.Failure.
func (f failure) Sentinel() error { return f.err }

// fault is why a page is shown again.
type fault struct {
	Text, Field string
	err         error // the one of failures
}

// failures is the one table from errors to what pages show. Every other error is a 500
// with a fixed text, so that nothing internal leaks.
var failures = []failure{
	{errForm, http.StatusBadRequest, "BadForm", "", false},
	{service.ErrBodyRead, http.StatusBadRequest, "BadForm", "", false},
	{service.ErrBodyTooLarge, http.StatusRequestEntityTooLarge, "TooLarge", "", false},
	{errForeignPage, http.StatusForbidden, "ForeignPage", "", false},
	{errSendAgain, http.StatusForbidden, "SendAgain", "", true},
	{web.ErrLimited, http.StatusTooManyRequests, "Limited", "", true},
	{errAgain, http.StatusBadRequest, "AgainDiffers", "again", true},
	{account.ErrMissing, http.StatusBadRequest, "Missing", "", true},
	{account.ErrTooLong, http.StatusBadRequest, "LoginTooLong", "", true},
	{account.ErrInvalidCredentials, http.StatusUnauthorized, "InvalidCredentials", "", true},
	{account.ErrWrongPassword, http.StatusUnauthorized, "WrongPassword", "current", true},
	{account.ErrPending, http.StatusInternalServerError, "RevocationPending", "", true},
	{password.ErrTooShort, http.StatusBadRequest, "PasswordTooShort", "password", true},
	{password.ErrCommon, http.StatusBadRequest, "PasswordCommon", "password", true},
	{password.ErrTooLong, http.StatusBadRequest, "PasswordTooLong", "password", true},
	{password.ErrBusy, http.StatusServiceUnavailable, "Busy", "", true},
	{user.ErrUsername, http.StatusBadRequest, "BadUsername", "username", true},
	{user.ErrUsernameReserved, http.StatusBadRequest, "UsernameReserved", "username", true},
	{user.ErrUsernameFormer, http.StatusConflict, "UsernameFormer", "username", true},
	{user.ErrUsernameTaken, http.StatusConflict, "UsernameTaken", "username", true},
	{user.ErrDisplayName, http.StatusBadRequest, "BadDisplayName", "display_name", true},
	{user.ErrDisplayNameTooLong, http.StatusBadRequest, "DisplayNameTooLong", "display_name", true},
	{user.ErrAvatarColor, http.StatusBadRequest, "BadColor", "hex", true},
	{user.ErrLastAdmin, http.StatusBadRequest, "LastAdmin", "role", true},
	{user.ErrNotAdmin, http.StatusForbidden, "NotAdmin", "", false},
	{user.ErrNotFound, http.StatusNotFound, "NoUser", "", false},
	{link.ErrInvalid, http.StatusBadRequest, "LinkInvalid", "", false},
	{link.ErrNotFound, http.StatusNotFound, "NoInvite", "", true},
	{account.ErrHouseholdName, http.StatusBadRequest, "BadHousehold", "household", true},
	{account.ErrUseOwnPage, http.StatusBadRequest, "UseOwnPage", "", true},
	{account.ErrOwnAccount, http.StatusBadRequest, "OwnAccount", "", true},
	{errConfirm, http.StatusBadRequest, "ConfirmDiffers", "confirm", true},
	{user.ErrRole, http.StatusBadRequest, "BadForm", "", true},
	{account.ErrReauthPassword, http.StatusUnauthorized, "WrongReauth", "password", true},
	{account.ErrWrongCode, http.StatusBadRequest, "InvalidCode", "code", true},
	{factor.ErrInvalidCode, http.StatusUnauthorized, "InvalidCode", "code", true},
	{account.ErrTooManyCodes, http.StatusTooManyRequests, "TooManyCodes", "code", true},
	{account.ErrTooManyTries, http.StatusTooManyRequests, "Limited", "", true},
	{factor.ErrAlreadyEnabled, http.StatusConflict, "AlreadyEnabled", "", true},
	{factor.ErrNoPendingSetup, http.StatusConflict, "NoPendingSetup", "", true},
	{factor.ErrNotEnabled, http.StatusConflict, "NotEnabled", "", true},
	{factor.ErrNotConfigured, http.StatusConflict, "NotConfigured", "", true},
	{factor.ErrSealed, http.StatusInternalServerError, "CodesUnavailable", "code", true},
	{factor.ErrRequired, http.StatusForbidden, "FactorRequired", "", true},
	{factor.ErrPasskeysUnavailable, http.StatusConflict, "PasskeysHTTPS", "", true},
	{factor.ErrNoPasskey, http.StatusNotFound, "NoPasskeyText", "", true},
	{account.ErrPasskeyName, http.StatusBadRequest, "PasskeyNameWrong", "", true},
	{application.ErrSlug, http.StatusBadRequest, "BadSlug", "slug", true},
	{application.ErrSlugTaken, http.StatusConflict, "SlugTaken", "slug", true},
	{application.ErrName, http.StatusBadRequest, "BadName", "name", true},
	{application.ErrDescription, http.StatusBadRequest, "BadDescription", "description", true},
	{application.ErrURL, http.StatusBadRequest, "BadURL", "url", true},
	{application.ErrURLTaken, http.StatusConflict, "URLTaken", "url", true},
	{application.ErrRule, http.StatusBadRequest, "BadRule", "rule", true},
	{application.ErrPosition, http.StatusBadRequest, "BadPosition", "position", true},
	{application.ErrNotFound, http.StatusNotFound, "NoApplication", "", false},
	{application.ErrGroupNotFound, http.StatusNotFound, "NoGroup", "", true},
	{application.ErrGroupUsed, http.StatusConflict, "GroupUsed", "", true},
	{application.ErrTooMany, http.StatusConflict, "TooMany", "", true},
	{token.ErrScope, http.StatusBadRequest, "BadScope", "apps", true},
	{token.ErrExpiry, http.StatusBadRequest, "BadForm", "", true},
	{token.ErrTooMany, http.StatusConflict, "TooManyTokens", "", true},
	{token.ErrNotFound, http.StatusNotFound, "NoToken", "", true},
	{token.ErrActive, http.StatusConflict, "TokenActive", "", true},
	{service.ErrNoRoute, http.StatusNotFound, "NoPage", "", false},
}

// internal is shown for every error that is not in the table.
var internal = failure{status: http.StatusInternalServerError, text: "Internal"}

func failureOf(err error) failure { return service.Find(failures, err, internal) }
