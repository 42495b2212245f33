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
	text   func(*texts) string
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
	{errForm, http.StatusBadRequest, func(t *texts) string { return t.BadForm }, "", false},
	{service.ErrBodyRead, http.StatusBadRequest, func(t *texts) string { return t.BadForm }, "", false},
	{service.ErrBodyTooLarge, http.StatusRequestEntityTooLarge, func(t *texts) string { return t.TooLarge }, "", false},
	{errForeignPage, http.StatusForbidden, func(t *texts) string { return t.ForeignPage }, "", false},
	{errSendAgain, http.StatusForbidden, func(t *texts) string { return t.SendAgain }, "", true},
	{web.ErrLimited, http.StatusTooManyRequests, func(t *texts) string { return t.Limited }, "", true},
	{errAgain, http.StatusBadRequest, func(t *texts) string { return t.AgainDiffers }, "again", true},
	{account.ErrMissing, http.StatusBadRequest, func(t *texts) string { return t.Missing }, "", true},
	{account.ErrTooLong, http.StatusBadRequest, func(t *texts) string { return t.LoginTooLong }, "", true},
	{account.ErrInvalidCredentials, http.StatusUnauthorized, func(t *texts) string { return t.InvalidCredentials }, "", true},
	{account.ErrWrongPassword, http.StatusUnauthorized, func(t *texts) string { return t.WrongPassword }, "current", true},
	{account.ErrPending, http.StatusInternalServerError, func(t *texts) string { return t.RevocationPending }, "", true},
	{password.ErrTooShort, http.StatusBadRequest, func(t *texts) string { return t.PasswordTooShort }, "password", true},
	{password.ErrCommon, http.StatusBadRequest, func(t *texts) string { return t.PasswordCommon }, "password", true},
	{password.ErrTooLong, http.StatusBadRequest, func(t *texts) string { return t.PasswordTooLong }, "password", true},
	{password.ErrBusy, http.StatusServiceUnavailable, func(t *texts) string { return t.Busy }, "", true},
	{user.ErrUsername, http.StatusBadRequest, func(t *texts) string { return t.BadUsername }, "username", true},
	{user.ErrUsernameReserved, http.StatusBadRequest, func(t *texts) string { return t.UsernameReserved }, "username", true},
	{user.ErrUsernameFormer, http.StatusConflict, func(t *texts) string { return t.UsernameFormer }, "username", true},
	{user.ErrUsernameTaken, http.StatusConflict, func(t *texts) string { return t.UsernameTaken }, "username", true},
	{user.ErrDisplayName, http.StatusBadRequest, func(t *texts) string { return t.BadDisplayName }, "display_name", true},
	{user.ErrDisplayNameTooLong, http.StatusBadRequest, func(t *texts) string { return t.DisplayNameTooLong }, "display_name", true},
	{user.ErrAvatarColor, http.StatusBadRequest, func(t *texts) string { return t.BadColor }, "hex", true},
	{user.ErrLastAdmin, http.StatusBadRequest, func(t *texts) string { return t.LastAdmin }, "role", true},
	{user.ErrNotAdmin, http.StatusForbidden, func(t *texts) string { return t.NotAdmin }, "", false},
	{user.ErrNotFound, http.StatusNotFound, func(t *texts) string { return t.NoUser }, "", false},
	{link.ErrInvalid, http.StatusBadRequest, func(t *texts) string { return t.LinkInvalid }, "", false},
	{link.ErrNotFound, http.StatusNotFound, func(t *texts) string { return t.NoInvite }, "", true},
	{account.ErrHouseholdName, http.StatusBadRequest, func(t *texts) string { return t.BadHousehold }, "household", true},
	{account.ErrUseOwnPage, http.StatusBadRequest, func(t *texts) string { return t.UseOwnPage }, "", true},
	{account.ErrOwnAccount, http.StatusBadRequest, func(t *texts) string { return t.OwnAccount }, "", true},
	{errConfirm, http.StatusBadRequest, func(t *texts) string { return t.ConfirmDiffers }, "confirm", true},
	{user.ErrRole, http.StatusBadRequest, func(t *texts) string { return t.BadForm }, "", true},
	{account.ErrReauthPassword, http.StatusUnauthorized, func(t *texts) string { return t.WrongReauth }, "password", true},
	{account.ErrWrongCode, http.StatusBadRequest, func(t *texts) string { return t.InvalidCode }, "code", true},
	{factor.ErrInvalidCode, http.StatusUnauthorized, func(t *texts) string { return t.InvalidCode }, "code", true},
	{account.ErrTooManyCodes, http.StatusTooManyRequests, func(t *texts) string { return t.TooManyCodes }, "code", true},
	{account.ErrTooManyTries, http.StatusTooManyRequests, func(t *texts) string { return t.Limited }, "", true},
	{factor.ErrAlreadyEnabled, http.StatusConflict, func(t *texts) string { return t.AlreadyEnabled }, "", true},
	{factor.ErrNoPendingSetup, http.StatusConflict, func(t *texts) string { return t.NoPendingSetup }, "", true},
	{factor.ErrNotEnabled, http.StatusConflict, func(t *texts) string { return t.NotEnabled }, "", true},
	{factor.ErrNotConfigured, http.StatusConflict, func(t *texts) string { return t.NotConfigured }, "", true},
	{factor.ErrSealed, http.StatusInternalServerError, func(t *texts) string { return t.CodesUnavailable }, "code", true},
	{factor.ErrRequired, http.StatusForbidden, func(t *texts) string { return t.FactorRequired }, "", true},
	{factor.ErrPasskeysUnavailable, http.StatusConflict, func(t *texts) string { return t.PasskeysHTTPS }, "", true},
	{factor.ErrNoPasskey, http.StatusNotFound, func(t *texts) string { return t.NoPasskeyText }, "", true},
	{account.ErrPasskeyName, http.StatusBadRequest, func(t *texts) string { return t.PasskeyNameWrong }, "", true},
	{application.ErrSlug, http.StatusBadRequest, func(t *texts) string { return t.BadSlug }, "slug", true},
	{application.ErrSlugTaken, http.StatusConflict, func(t *texts) string { return t.SlugTaken }, "slug", true},
	{application.ErrName, http.StatusBadRequest, func(t *texts) string { return t.BadName }, "name", true},
	{application.ErrDescription, http.StatusBadRequest, func(t *texts) string { return t.BadDescription }, "description", true},
	{application.ErrURL, http.StatusBadRequest, func(t *texts) string { return t.BadURL }, "url", true},
	{application.ErrURLTaken, http.StatusConflict, func(t *texts) string { return t.URLTaken }, "url", true},
	{application.ErrRule, http.StatusBadRequest, func(t *texts) string { return t.BadRule }, "rule", true},
	{application.ErrPosition, http.StatusBadRequest, func(t *texts) string { return t.BadPosition }, "position", true},
	{application.ErrNotFound, http.StatusNotFound, func(t *texts) string { return t.NoApplication }, "", false},
	{application.ErrGroupNotFound, http.StatusNotFound, func(t *texts) string { return t.NoGroup }, "", true},
	{application.ErrGroupUsed, http.StatusConflict, func(t *texts) string { return t.GroupUsed }, "", true},
	{application.ErrTooMany, http.StatusConflict, func(t *texts) string { return t.TooMany }, "", true},
	{token.ErrScope, http.StatusBadRequest, func(t *texts) string { return t.BadScope }, "apps", true},
	{token.ErrExpiry, http.StatusBadRequest, func(t *texts) string { return t.BadForm }, "", true},
	{token.ErrTooMany, http.StatusConflict, func(t *texts) string { return t.TooManyTokens }, "", true},
	{token.ErrNotFound, http.StatusNotFound, func(t *texts) string { return t.NoToken }, "", true},
	{token.ErrActive, http.StatusConflict, func(t *texts) string { return t.TokenActive }, "", true},
	{service.ErrNoRoute, http.StatusNotFound, func(t *texts) string { return t.NoPage }, "", false},
}

// internal is shown for every error that is not in the table.
var internal = failure{status: http.StatusInternalServerError, text: func(t *texts) string { return t.Internal }}

func failureOf(err error) failure { return service.Find(failures, err, internal) }
